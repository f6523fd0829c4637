"""Measure how long conversions between all formats take, and write the figures to docs/conversion-speed.md.

    python tools/conversion_speed.py [FOLDER or FILE ...]     # default: examples/robots and ../shared/assets

Times are CPU times of the process and its children, the shortest of several.
"""

from __future__ import annotations

import argparse
import resource
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from documents import ROOT, find_named_robots, parse_places, write_page

from kinema.apps.bench import shortest_times
from kinema.core import KinemaError, collect
from kinema.read import detect_format, read
from kinema.write import write

PAGE = ROOT / "docs" / "conversion-speed.md"
SUFFIXES = {"usd": ".usda", "mjcf": ".xml", "urdf": ".urdf", "sdf": ".sdf"}
SECONDS = 0.2
"""Duration of the measurement of one reading or writing [s]; at least one repetition."""
N_SLOWEST = 10


@dataclass(frozen=True)
class Figure:
    """CPU times of one robot [s]."""

    name: str
    source: str
    read: float
    written: Mapping[str, float]
    """By format, without those that cannot express the robot."""


def cpu_time() -> float:
    """CPU time of this process and its finished children [s]."""
    kinds = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    return sum(used.ru_utime + used.ru_stime for used in map(resource.getrusage, kinds))


def measure(name: str, file: Path) -> Figure | None:
    """Times of reading a robot and of writing it in all formats; None if it cannot be read."""
    try:
        described = read(file, policy=collect)
    except KinemaError:
        return None
    seconds = shortest_times([lambda: read(file, policy=collect)], SECONDS, cpu_time)[0]
    written = {}
    with tempfile.TemporaryDirectory() as folder:
        for target, suffix in SUFFIXES.items():
            path = Path(folder) / target / f"robot{suffix}"
            path.parent.mkdir()
            try:
                written[target] = shortest_times([partial(write, described, path)], SECONDS, cpu_time)[0]
            except KinemaError:
                continue
    return Figure(name, detect_format(file.read_bytes(), file), seconds, written)


def page(figures: Sequence[Figure]) -> str:
    """The page."""
    lines = [
        "# Conversion speed",
        "",
        "CPU time of reading and writing all robots of the corpus, with their meshes and images: the shortest of",
        "several repetitions. Written by `python tools/conversion_speed.py`.",
        "",
        "| | robots | total [s] | median [ms] | slowest [ms] |",
        "|---|---|---|---|---|",
    ]
    lines += [_row(f"reading {x}", [f.read for f in figures if f.source == x]) for x in SUFFIXES]
    lines += [_row(f"writing {x}", [f.written[x] for f in figures if x in f.written]) for x in SUFFIXES]
    lines += ["", "The slowest robots:", "", "| robot | reading [s] | writing [s] |", "|---|---|---|"]
    for figure in sorted(figures, key=lambda f: -f.read - max(f.written.values(), default=0.0))[:N_SLOWEST]:
        slowest = max(figure.written, key=lambda target: figure.written[target], default="")
        wrote = f"{figure.written[slowest]:.2f} ({slowest})" if slowest else ""
        lines.append(f"| {figure.name} | {figure.read:.2f} ({figure.source}) | {wrote} |")
    return "\n".join(lines) + "\n"


def _row(name: str, times: Sequence[float]) -> str:
    own = sorted(times) or [0.0]
    return f"| {name} | {len(times)} | {sum(own):.2f} | {1e3 * own[len(own) // 2]:.1f} | {1e3 * own[-1]:.0f} |"


def main(places: Sequence[Path]) -> int:
    figures = []
    for name, file in find_named_robots(places):
        found = measure(name, file)
        if found is not None:
            figures.append(found)
            print(name, f"{found.read:.3f}", *(f"{t} {s:.3f}" for t, s in found.written.items()), flush=True)
    write_page(PAGE, page(figures))
    return 0


if __name__ == "__main__":
    sys.exit(main(parse_places(argparse.ArgumentParser(description=__doc__)).places))
