"""Take every robot to every format and back, and write the table docs/round-trips.md.

    python tools/round_trips.py [FOLDER or FILE ...]     # default: examples/robots and ../shared/assets

What is compared, and what counts as explained by the loss reports, is in tests/kit/round_trip.py.
"""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.progress import track

from kinema.apps.cli.batch import find_robots
from kinema.apps.cluster import Outcome, default_jobs, run_in_processes
from kinema.core import WriteError
from kinema.read import detect_format
from kinema.write import FORMATS
from kit.round_trip import Difference, differences, round_trips

ROOT = Path(__file__).parent.parent
TABLE = ROOT / "docs" / "round-trips.md"
STATES = ("exact", "explained", "unexplained", "failed")
MOST_SECONDS = 300
PRELOAD = [
    *("kit.round_trip", "mujoco", "pxr.UsdPhysics", "pxr.UsdShade", "scipy.spatial", "trimesh", "collada"),
    *(f"kinema.{way}.{format}" for way in ("read", "write") for format in FORMATS),
]
QUOTED = re.compile(r"\"[^\"]*\"|'[^']*'")
NO_ROBOT = "there is no robot in this world"
MANY = 5
"""How many reasons of a cell are listed."""


@dataclass(frozen=True)
class Cell:
    """One file to one format and back."""

    file: Path
    name: str
    source: str
    target: str


@dataclass(frozen=True)
class Found:
    """What a cell's trip found."""

    explained: dict[tuple[str, str, str], int]
    """How often a loss, by its kind and what it says, is why an aspect differs: (aspect, kind, what) -> count."""
    unexplained: tuple[str, ...]
    by_aspect: dict[str, int]
    """How many of the unexplained differences there are of each aspect."""


def main(places: Sequence[Path], jobs: int) -> int:
    cells = [
        Cell(file, str(file.relative_to(place) if place.is_dir() else file.name), _format(file), target)
        for place in places
        for file in (find_robots(place) if place.is_dir() else [place])
        for target in FORMATS
    ]
    if not cells:
        print("there are no robot files in:", *places, file=sys.stderr)
        return 1
    outcomes = travel_all(cells, jobs)
    outcomes.sort(key=lambda o: cells.index(o.task))
    temporary = TABLE.with_suffix(".tmp")
    temporary.write_text(table(outcomes), encoding="utf-8")
    temporary.replace(TABLE)
    counts = Counter(map(state, outcomes))
    print(", ".join(f"{counts[s]} {s}" for s in STATES), "->", TABLE.relative_to(ROOT))
    return 0 if counts["unexplained"] + counts["failed"] == 0 else 1


def travel_all(cells: Sequence[Cell], jobs: int) -> list[Outcome[Cell, Found]]:
    """Make all trips, small files first; what is wrong is printed as it is found."""
    console = Console(stderr=True, soft_wrap=True, highlight=False)
    outcomes = []
    by_size = sorted(cells, key=lambda cell: cell.file.stat().st_size)
    working = run_in_processes(travel, by_size, jobs=jobs, timeout=MOST_SECONDS, preload=PRELOAD)
    for outcome in track(working, "travelling", total=len(cells), console=console):
        outcomes.append(outcome)
        if state(outcome) in ("unexplained", "failed"):
            console.print("\n".join([f"{state(outcome)}:", *_reasons(outcome)]), markup=False)
    return outcomes


def _format(file: Path) -> str:
    return detect_format(file.read_bytes(), file)


def travel(cell: Cell) -> Found:
    """Make the trip, or the trips of several robots, and compare."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            trips = round_trips(cell.file, cell.target, Path(folder))
            found: list[Difference] = [d for trip in trips for d in differences(trip)]
        except WriteError as error:
            if NO_ROBOT in str(error):
                return Found(
                    {("structure", "world", "that it has no robot: URDF holds one and nothing else"): 1}, (), {}
                )
            raise WriteError(str(error).replace(f"{folder}/", "")) from error
    return Found(
        dict(Counter((d.aspect, d.loss.kind, QUOTED.sub("…", d.loss.what)) for d in found if d.loss is not None)),
        tuple(str(d) for d in found if d.loss is None),
        dict(Counter(d.aspect for d in found if d.loss is None)),
    )


def state(outcome: Outcome[Cell, Found]) -> str:
    found = outcome.result
    if found is None:
        return "failed"
    if found.unexplained:
        return "unexplained"
    return "explained" if found.explained else "exact"


def table(outcomes: Sequence[Outcome[Cell, Found]]) -> str:
    lines = [
        "# Round trips",
        "",
        "Every [test robot](corpus.md) is converted from its own format to another one and back. Compared are links",
        "and joints, link poses at 20 random configurations (1e-7 m and rad), masses, centres of mass and inertias",
        "(1e-6), limits, and colliding pairs of links. *Exact*: no difference. *Explained*: the loss reports of both",
        "conversions list every difference. *Unexplained*: a difference that they do not list, which is a defect.",
        "*Failed*: no result. Generated by `make matrix`.",
        "",
        "| from | through | files | exact | explained | unexplained | failed |",
        "|---|---|---|---|---|---|---|",
        *_matrix(outcomes),
        "",
    ]
    lines += ["## Explained differences", "", *_explanations(outcomes), ""]
    for wanted in ("unexplained", "failed"):
        chosen = [o for o in outcomes if state(o) == wanted]
        if chosen:
            lines += [f"## {wanted.capitalize()}", "", *(line for o in chosen for line in _reasons(o)), ""]
    return "\n".join(lines).rstrip() + "\n"


def _matrix(outcomes: Sequence[Outcome[Cell, Found]]) -> list[str]:
    counts = Counter((o.task.source, o.task.target, state(o)) for o in outcomes)
    rows = []
    for source in [*dict.fromkeys(o.task.source for o in outcomes), "all"]:
        for target in FORMATS:
            sources = {o.task.source for o in outcomes} if source == "all" else {source}
            row = [sum(counts[s, target, wanted] for s in sources) for wanted in STATES]
            rows.append(f"| {source} | {target} | {sum(row)} | " + " | ".join(map(str, row)) + " |")
    total = [sum(state(o) == wanted for o in outcomes) for wanted in STATES]
    rows.append(f"| **all** | **all** | {sum(total)} | " + " | ".join(map(str, total)) + " |")
    return rows


def _explanations(outcomes: Sequence[Outcome[Cell, Found]]) -> list[str]:
    """Which losses explain how many differences, so that one can judge whether they do."""
    counts: Counter[tuple[str, str, str, str]] = Counter()
    for outcome in outcomes:
        for (aspect, kind, what), n in (outcome.result.explained if outcome.result else {}).items():
            counts[outcome.task.target, aspect, kind, what] += n
    rows = [f"| {target} | {a} | {kind} | {what} | {n} |" for (target, a, kind, what), n in sorted(counts.items())]
    return ["| through | compared quantity | element | loss | differences |", "|---|---|---|---|---|", *rows]


def _reasons(outcome: Outcome[Cell, Found]) -> list[str]:
    cell, found = outcome.task, outcome.result
    head = f"- `{cell.name}` through {cell.target}"
    if found is None:
        return [f"{head}: {outcome.failure.replace(str(cell.file), cell.file.name)}"]
    counts = ", ".join(f"{n} of {aspect}" for aspect, n in found.by_aspect.items())
    return [f"{head} ({counts})", *(f"  - {reason}" for reason in found.unexplained[:MANY])]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("places", nargs="*", type=Path)
    parser.add_argument("--jobs", type=int, default=default_jobs(), help="processes at the same time")
    default = [p for p in (ROOT / "examples" / "robots", ROOT.parent / "shared" / "assets") if p.is_dir()]
    given = parser.parse_args()
    sys.exit(main(given.places or default, given.jobs))
