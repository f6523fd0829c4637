"""Write every robot in every format, have foreign programs judge the files, and write the table docs/judges.md.

    python tools/judges.py [FOLDER or FILE ...]     # default: examples/robots and ../shared/assets

What is asked of them is in tests/kit/judges; `make oracles` installs those that PyPI does not give.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from documents import ROOT, find_named_robots, parse_places, write_page
from rich.console import Console
from rich.progress import track

from kinema.apps.cluster import Outcome, default_jobs, run_in_processes
from kinema.write import FORMATS
from kit.judges import JUDGES, Judged, NewtonCase, Verdict, judge, judge_newton

TABLE = ROOT / "docs" / "judges.md"
STATES = ("agrees", "limited", "wrong", "absent")
MOST_SECONDS = 300
AT_ONCE = 16
"""Stages that one process of Newton sees."""
PRELOAD = [
    *("kit.judges", "mujoco", "pinocchio", "yourdfpy", "pxr.UsdPhysics", "pxr.UsdShade", "pxr.UsdValidation"),
    *("scipy.spatial", "trimesh", "collada"),
    *(f"kinema.{way}.{format}" for way in ("read", "write") for format in FORMATS),
]


@dataclass(frozen=True)
class Cell:
    """One file in one format."""

    file: Path
    name: str
    target: str
    folder: Path
    """Where it is written."""


@dataclass(frozen=True)
class Row:
    """What one judge said of one file."""

    cell: Cell
    verdict: Verdict


def main(places: Sequence[Path], targets: Sequence[str], jobs: int) -> int:
    with tempfile.TemporaryDirectory() as folder:
        cells = [
            Cell(file, name, target, Path(folder) / f"{i}_{target}")
            for i, (name, file) in enumerate(find_named_robots(places))
            for target in targets
        ]
        rows = hear(cells, jobs)
    rows.sort(key=lambda row: cells.index(row.cell))
    write_page(TABLE, table(rows))
    counts = Counter(row.verdict.state for row in rows)
    print(", ".join(f"{counts[s]} {s}" for s in STATES), "->", TABLE.relative_to(ROOT))
    return 0 if counts["wrong"] == 0 else 1


def hear(cells: Sequence[Cell], jobs: int) -> list[Row]:
    """All verdicts, small files first; what is wrong is printed as it is found."""
    console = Console(stderr=True, soft_wrap=True, highlight=False)
    rows: list[Row] = []
    cases: list[tuple[Cell, NewtonCase]] = []

    def keep(found: Iterable[Row]) -> None:
        for row in found:
            rows.append(row)
            if row.verdict.state == "wrong":
                console.print(_line(row), markup=False)

    by_size = sorted(cells, key=lambda cell: cell.file.stat().st_size)
    working = run_in_processes(_judge, by_size, jobs=jobs, timeout=MOST_SECONDS, preload=PRELOAD)
    for outcome in track(working, "judging", total=len(cells), console=console):
        keep(_rows(outcome))
        cases += [(outcome.task, case) for case in (outcome.result[1] if outcome.result else ())]
    groups = [cases[i : i + AT_ONCE] for i in range(0, len(cases), AT_ONCE)]
    for group in track(groups, "asking Newton", console=console):
        verdicts = _newton([case for _, case in group])
        keep(Row(cell, verdict) for (cell, _), verdict in zip(group, verdicts, strict=True))
    return rows


def _judge(cell: Cell) -> tuple[Judged, list[NewtonCase]]:
    return judge(cell.file, cell.target, cell.folder)


def _newton(cases: Sequence[NewtonCase]) -> list[Verdict]:
    """Newton's verdicts; a stage that makes it crash takes no other with it."""
    try:
        return judge_newton(cases)
    except (RuntimeError, OSError) as error:
        if len(cases) == 1:
            return [Verdict("Newton", "wrong", f"it crashed: {error}")]
    return [verdict for case in cases for verdict in _newton([case])]


def _rows(outcome: Outcome[Cell, tuple[Judged, list[NewtonCase]]]) -> list[Row]:
    if outcome.result is None:
        failure = outcome.failure.replace(f"{outcome.task.folder}/", "").replace(
            str(outcome.task.file), outcome.task.name
        )
        return [Row(outcome.task, Verdict(name, "wrong", failure)) for name in JUDGES[outcome.task.target]]
    return [Row(outcome.task, verdict) for verdict in outcome.result[0].verdicts]


# -- the table --------------------------------------------------------------------------------------------------------


def table(rows: Sequence[Row]) -> str:
    lines = [
        "# Validation by other programs",
        "",
        "Every [test robot](corpus.md) is written in every format and loaded by other programs. *Agrees*: the program",
        "loads the file without a warning, its link poses agree with Kinema's reading of the **source** to 1e-6 m and",
        "rad at zero and at three random configurations, and its mass matrix to 1e-6. *Limited*: it does not, because",
        "of a limitation of the program or a defect of the robot, listed below. *Wrong*: it does not, which is a",
        "defect of Kinema. *Absent*: the program is not installed. Generated by `make judges`.",
        "",
        "check_urdf and OpenUSD's validators check the file only, libsdformat the file and link poses, yourdfpy has no",
        "mass matrix, Newton computes in single precision (tolerance 2e-5). A world of several robots is several URDF",
        "files.",
        "",
        "| format | program | files | agrees | limited | wrong | absent | worst pose | worst mass matrix |",
        "|---|---|---|---|---|---|---|---|---|",
        *(_summary(rows, target, name) for target, names in JUDGES.items() for name in names),
        "",
        "## Limitations",
        "",
        *_reasons(rows, "limited"),
        "",
        "## Notes on files that agree",
        "",
        *_reasons(rows, "agrees"),
        "",
    ]
    wrong = [row for row in rows if row.verdict.state == "wrong"]
    if wrong:
        lines += ["## Wrong", "", *map(_line, wrong), ""]
    return "\n".join(lines).rstrip() + "\n"


def _summary(rows: Sequence[Row], target: str, name: str) -> str:
    own = [row.verdict for row in rows if row.cell.target == target and row.verdict.judge == name]
    counts = Counter(v.state for v in own)
    agreeing = [v for v in own if v.state == "agrees"]
    worst = [max((getattr(v, of) for v in agreeing), default=0.0) for of in ("pose_error", "matrix_error")]
    cells = [target, name, len(own), *(counts[s] for s in STATES), *(f"{w:.0e}" if w else "" for w in worst)]
    return "| " + " | ".join(map(str, cells)) + " |"


def _reasons(rows: Sequence[Row], state: str) -> list[str]:
    """What judges are limited by, or had to be spared, and for which robots."""
    groups: dict[tuple[str, str], list[str]] = {}
    for row in rows:
        if row.verdict.state == state and row.verdict.detail:
            groups.setdefault((row.cell.target, row.verdict.detail), []).append(f"`{row.cell.name}`")
    return [
        f"- {target}: {reason} ({len(names)}): {', '.join(dict.fromkeys(names))}"
        for (target, reason), names in sorted(groups.items())
    ]


def _line(row: Row) -> str:
    return f"- {row.cell.target}, {row.verdict.judge}: `{row.cell.name}`: {' '.join(row.verdict.detail.split())[:400]}"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--to", default=",".join(FORMATS), help="the formats to write")
    parser.add_argument("--jobs", type=int, default=default_jobs(), help="processes at the same time")
    given = parse_places(parser)
    sys.exit(main(given.places, given.to.split(","), given.jobs))
