"""Measure conversions between all formats beside an older version, and write the figures to docs/conversion-speed.md.

    python tools/conversion_speed.py [FOLDER or FILE ...]     # default: examples/robots and ../shared/assets
                                     [--before COMMIT]        # default: the version that carried no looks

Two processes stay at work, one of each version. They read and write each robot in turn, so that whatever else the
machine does befalls both alike; what counts is the processor's time, the least of several times. Robots with images are
left out: the older version did not write these.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

ROOT = Path(__file__).parent.parent
TABLE = ROOT / "docs" / "conversion-speed.md"
BEFORE = "4e39c277eabc880e30e60050dba7e9da5692636a"
"""The version before what can be seen was carried."""
FORMATS = ("usd", "mjcf", "urdf", "sdf")
MOST = 1.2
"""How many times as long a conversion may take."""
ENOUGH = 0.2
"""Measuring one thing for so long [s] is enough, once it was measured a few times; what is short is measured often."""
A_FEW = 4
WORKER = r"""
import json, resource, sys, tempfile
from pathlib import Path
from kinema.core import collect
from kinema.read import detect_format, read
from kinema.write import write

SUFFIXES = {"usd": ".usda", "mjcf": ".xml", "urdf": ".urdf", "sdf": ".sdf"}
described = None

def shapes():
    links = [link for robot in getattr(described, "robots", [described]) for link in robot.links]
    return [*getattr(described, "shapes", ()), *(shape for link in links for shape in link.shapes)]

def has_images(look):
    return look is not None and bool(look.texture or getattr(look, "maps", None) or getattr(look, "image_color", None))

def now():
    kinds = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    return sum(r.ru_utime + r.ru_stime for r in map(resource.getrusage, kinds))

for line in sys.stdin:
    file, to = json.loads(line)
    says = {}
    try:
        with tempfile.TemporaryDirectory() as folder:
            target = Path(folder) / ("robot" + SUFFIXES.get(to, ""))
            begin = now()
            if to == "":
                described = read(file, policy=collect)
            else:
                write(described, target)
            says["seconds"] = now() - begin
            if to == "":
                says["images"] = any(has_images(shape.material) for shape in shapes())
                says["format"] = detect_format(Path(file).read_bytes(), Path(file))
            elif to == "usd":
                says["images"] = "UsdUVTexture" in target.read_text(encoding="utf-8")
    except Exception as error:
        says["error"] = f"{type(error).__name__}: {error}"
    print(json.dumps(says), flush=True)
"""


@dataclass(frozen=True)
class Figure:
    """How long one robot takes in the two versions [s of the processor]."""

    file: str
    source: str
    read: tuple[float, float]
    """Before and now."""
    written: Mapping[str, tuple[float, float]]
    """Likewise, by format; without those that either version refuses."""

    def pair(self, target: str) -> tuple[float, float] | None:
        """From its own format to another."""
        wrote = self.written.get(target)
        return None if wrote is None else (self.read[0] + wrote[0], self.read[1] + wrote[1])


class Version:
    """A process that converts with the code of one checkout."""

    def __init__(self, checkout: Path) -> None:
        environment = {**os.environ, "PYTHONPATH": str(checkout / "src")}
        command = [sys.executable, "-c", WORKER]
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env=environment,
        )

    def ask(self, file: str, to: str) -> dict[str, object]:
        """Read the file, or write what was read last in a format; what the worker says of it."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        print(json.dumps([file, to]), file=self.process.stdin, flush=True)
        line = self.process.stdout.readline()
        return json.loads(line) if line else {"error": "the worker died"}


def measure(versions: Sequence[Version], file: str, repeats: int) -> Figure | None:
    """One robot in both versions, alternately; None where it has images or cannot be read by both."""
    said: dict[str, object] = {}
    reads = _best(versions, file, "", repeats, said)
    if reads is None:
        return None
    written: dict[str, tuple[float, float]] = {}
    for target in FORMATS:
        wrote = _best(versions, file, target, repeats, said)
        if said.get("images"):
            return None
        if wrote is not None:
            written[target] = wrote
    return Figure(file, str(said["format"]), reads, written)


def _best(
    versions: Sequence[Version], file: str, to: str, repeats: int, said: dict[str, object]
) -> tuple[float, float] | None:
    """The least time of each version; fewer repeats of what takes long. What the newer says goes into `said`."""
    times: tuple[list[float], list[float]] = ([], [])
    while len(times[0]) < A_FEW or (len(times[0]) < repeats and sum(times[0]) < ENOUGH):
        for version, column in zip(reversed(versions), reversed(times), strict=True):
            answer = version.ask(file, to)
            if version is versions[1]:
                said |= answer
            seconds = answer.get("seconds")
            if not isinstance(seconds, float) or said.get("images"):
                return None
            column.append(seconds)
    return min(times[0]), min(times[1])


# -- the document -----------------------------------------------------------------------------------------------------


def table(figures: Sequence[Figure], before: str) -> str:
    """The figures as the document."""
    pairs = [(f, target, pair) for f in figures for target in FORMATS if (pair := f.pair(target)) is not None]
    slow = [(f, t, p) for f, t, p in pairs if p[1] > MOST * p[0]]
    lines = [
        "# Conversion speed",
        "",
        "CPU time of conversions between all formats, of robots without textures, compared with version",
        f"{before[:9]}, which converted no appearance except plain colours: the minimum of several runs, both versions",
        "in turn. *Median* and *slowest*: ratio of both versions per robot; *slower*: number of conversions that",
        f"take more than {MOST} times as long. Generated by `python tools/conversion_speed.py`.",
        "",
        "| from | to | robots | before [s] | now [s] | now / before | median | slowest | slower |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for source in (*FORMATS, "all"):
        for target in FORMATS:
            own = [(f, p) for f, t, p in pairs if t == target and source in (f.source, "all")]
            if own:
                lines.append(_row(source, target, own))
    lines += [
        "",
        "## By reader and writer",
        "",
        "| what | robots | before [s] | now [s] | now / before |",
        "|---|---|---|---|---|",
    ]
    lines += [_part(f"reading {x}", [f.read for f in figures if f.source == x]) for x in FORMATS]
    lines += [_part(f"writing {x}", [f.written[x] for f in figures if x in f.written]) for x in FORMATS]
    lines += ["", f"## More than {MOST} times as long", ""]
    lines += [
        f"- `{f.file}` to {t}: {p[1] * 1e3:.1f} ms instead of {p[0] * 1e3:.1f} ({p[1] / p[0]:.2f})" for f, t, p in slow
    ] or ["None."]
    return "\n".join(lines) + "\n"


def _row(source: str, target: str, own: Sequence[tuple[Figure, tuple[float, float]]]) -> str:
    before, now = (sum(p[i] for _, p in own) for i in (0, 1))
    ratios = sorted(p[1] / p[0] for _, p in own)
    n_slow = sum(ratio > MOST for ratio in ratios)
    return (
        f"| {source} | {target} | {len(own)} | {before:.2f} | {now:.2f} | {now / before:.2f} "
        f"| {median(ratios):.2f} | {ratios[-1]:.2f} | {n_slow} |"
    )


def _part(name: str, times: Sequence[tuple[float, float]]) -> str:
    before, now = (sum(t[i] for t in times) for i in (0, 1))
    return f"| {name} | {len(times)} | {before:.2f} | {now:.2f} | {now / before if before else 1.0:.2f} |"


# -- the run ----------------------------------------------------------------------------------------------------------


def _files(places: Sequence[Path]) -> Iterator[Path]:
    from kinema.apps.cli.batch import find_robots

    for place in places:
        yield from find_robots(place) if place.is_dir() else [place]


def main(arguments: argparse.Namespace) -> int:
    assets = ROOT.parent / "shared" / "assets"
    usual = [p for p in (ROOT / "examples" / "robots", assets) if p.is_dir()]
    places = [p.resolve() for p in arguments.places] or usual
    figures: list[Figure] = []
    with tempfile.TemporaryDirectory() as folder:
        older = Path(folder) / "before"
        git = ["git", "-C", str(ROOT), "worktree"]
        subprocess.run([*git, "add", "--detach", "--quiet", str(older), arguments.before], check=True)
        try:
            versions = [Version(older), Version(ROOT)]
            for file in _files(places):
                figure = measure(versions, str(file), arguments.repeats)
                if figure is not None:
                    shown = next((file.relative_to(p) for p in (assets, ROOT) if file.is_relative_to(p)), file)
                    figures.append(Figure(str(shown), figure.source, figure.read, figure.written))
                    print(shown, *(f"{t} {p[1] / p[0]:.2f}" for t in FORMATS if (p := figure.pair(t))), flush=True)
            for version in versions:
                version.process.kill()
        finally:
            subprocess.run([*git, "remove", "--force", str(older)], check=False)
    if not arguments.no_table:
        TABLE.write_text(table(figures, arguments.before), encoding="utf-8")
        print(f"-> {TABLE.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("places", nargs="*", type=Path)
    parser.add_argument("--before", default=BEFORE, help="the version to compare with")
    parser.add_argument("--repeats", type=int, default=40)
    parser.add_argument("--no-table", action="store_true", help="print the figures only")
    sys.exit(main(parser.parse_args()))
