"""Read every robot beside the checkout and under examples/, and write the table docs/corpus.md.

    python tools/corpus.py [FOLDER ...]     # default: examples/robots and ../shared/assets

Everything in the table is measured in the run: what was read, what the reader and the checks had to say, and how long
reading and checking took (the processor's time in this process, the best of three readings, after one that loads the
libraries). No file may take longer than 2 s to check.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console
from rich.progress import track

from kinema.apps.cli.batch import find_robots
from kinema.check import check
from kinema.core import Diagnostic, ReadError, Severity, collect
from kinema.description import Robot, World
from kinema.read import read

ROOT = Path(__file__).parent.parent
TABLE = ROOT / "docs" / "corpus.md"
MOST_SECONDS = 2.0
"""To read and check any file."""


@dataclass
class Row:
    """One file of the corpus."""

    name: str
    format: str = ""
    described: Robot | World | None = None
    problems: list[Diagnostic] = field(default_factory=list)
    failure: str = ""
    seconds: float = 0.0
    checking: float = 0.0


def main(folders: Sequence[Path]) -> int:
    rows: list[Row] = []
    files = [(folder, file) for folder in folders for file in find_robots(folder)]
    for folder, file in track(files, "reading", console=Console(stderr=True)):
        rows.append(read_row(file, str(file.relative_to(folder))))
    if not rows:
        print("there are no robot files in:", *folders, file=sys.stderr)
        return 1
    TABLE.parent.mkdir(exist_ok=True)
    temporary = TABLE.with_suffix(".tmp")
    temporary.write_text(table(rows), encoding="utf-8")
    temporary.replace(TABLE)
    print(f"{len(rows)} files, {sum(bool(r.failure) for r in rows)} not read -> {TABLE.relative_to(ROOT)}")
    slowest = max(rows, key=lambda row: row.seconds + row.checking)
    print(f"read and checked slowest: {slowest.name}, {slowest.seconds + slowest.checking:.2f} s")
    return 0 if slowest.seconds + slowest.checking <= MOST_SECONDS else 1


def read_row(file: Path, name: str) -> Row:
    row = Row(name)
    try:
        row.described = read(file, policy=collect)
        row.seconds = min(_timed_read(file) for _ in range(3))
    except ReadError as error:
        row.failure = str(error).replace(str(file), file.name)
        return row
    row.format = row.described.format
    begin = time.process_time()
    found = check(row.described)
    row.checking = time.process_time() - begin
    row.problems = [*row.described.diagnostics, *found]
    return row


def _timed_read(file: Path) -> float:
    begin = time.process_time()
    read(file, policy=collect)
    return time.process_time() - begin


def table(rows: Sequence[Row]) -> str:
    head = "| file | format | robots | links | joints | dofs | mass [kg] | errors | warnings | notes "
    head += "| read [ms] | check [ms] |"
    lines = [
        "# The corpus",
        "",
        "Every robot description that the readers are run on, as `make corpus` found it: generated, not edited.",
        "Diagnostics are the reader's and those of `kinema check` together; the codes are listed below the table.",
        "",
        head,
        "|---" * (head.count("|") - 1) + "|",
        *(_line(row) for row in rows),
        "",
        "## What was said",
        "",
        *_codes(rows),
    ]
    return "\n".join(lines) + "\n"


def _line(row: Row) -> str:
    if row.described is None:
        return f"| `{row.name}` | not read: {row.failure} |" + " |" * 10
    described = row.described
    counts = Counter(d.severity for d in row.problems)
    cells = [
        f"`{row.name}`",
        row.format,
        len(described.robots) if isinstance(described, World) else 1,
        len(described.links),
        sum(not j.implicit for j in described.joints),
        described.n_dofs,
        f"{described.total_mass:.6g}",
        *(counts[s] for s in Severity),
        f"{row.seconds * 1e3:.0f}",
        f"{row.checking * 1e3:.0f}",
    ]
    return "| " + " | ".join(str(c) for c in cells) + " |"


def _codes(rows: Sequence[Row]) -> list[str]:
    result = []
    for row in rows:
        counts = Counter((d.severity, d.code) for d in row.problems if d.severity is not Severity.NOTE)
        if counts:
            said = ", ".join(f"{severity.value} `{code}` ×{n}" for (severity, code), n in sorted(counts.items()))
            result.append(f"- `{row.name}`: {said}")
    return result


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="*", type=Path)
    default = [p for p in (ROOT / "examples" / "robots", ROOT.parent / "shared" / "assets") if p.is_dir()]
    sys.exit(main(parser.parse_args().folders or default))
