"""Measure how long reading large USD stages takes, and write the figures to docs/usd-speed.md.

    python tools/usd_speed.py [--bodies 1000 3000 10000] [--repeats 3] [--no-table]

The stages are made in a temporary folder: chains of twenty bodies on the ground, nested in each other or side by side,
each body with a collider, a mass, a physics material bound further up, and a revolute joint with limits and a drive.
"""

from __future__ import annotations

import argparse
import os
import platform
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from kinema.core import Diagnostics, Severity
from kinema.description import Robot, World
from kinema.read.usd import read_usd

ROOT = Path(__file__).parent.parent
TABLE = ROOT / "docs" / "usd-speed.md"
CHAIN = 20
"""Bodies in one chain."""
LAYOUTS = ("flat", "nested")
BUDGET = 10.0
"""Seconds in which the largest stage has to be read."""


@dataclass(frozen=True)
class Figure:
    """One measurement."""

    layout: str
    suffix: str
    bodies: int
    seconds: float
    """On the clock."""
    cpu: float
    """Of the processor: what it would take on a machine that does nothing else."""

    @property
    def per_body(self) -> float:
        """Seconds of the processor for each body."""
        return self.cpu / self.bodies


# -- stages -----------------------------------------------------------------------------------------------------------


def write_stage(file: Path, n_bodies: int, layout: str) -> None:
    """A stage of chains; `.usda` is text, `.usdc` is made from the text by OpenUSD."""
    text = "\n".join(_stage_lines(n_bodies, layout))
    if file.suffix == ".usda":
        file.write_text(text, encoding="utf-8")
        return
    from pxr import Sdf

    layer = Sdf.Layer.CreateAnonymous(".usda")
    layer.ImportFromString(text)
    layer.Export(str(file))


def _stage_lines(n_bodies: int, layout: str) -> Iterator[str]:
    yield "#usda 1.0\n("
    yield '    defaultPrim = "World"\n    metersPerUnit = 0.01\n    upAxis = "Y"\n)'
    yield 'def Xform "World"\n{'
    yield 'def PhysicsScene "Scene"\n{\n}'
    yield 'def Material "Rubber" (\n    prepend apiSchemas = ["PhysicsMaterialAPI"]\n)\n{'
    yield "float physics:staticFriction = 0.9\nfloat physics:dynamicFriction = 0.8\nfloat physics:density = 0.0012\n}"
    for chain in range(-(-n_bodies // CHAIN)):
        length = min(CHAIN, n_bodies - chain * CHAIN)
        yield f'def Xform "Chain{chain}" ('
        yield '    prepend apiSchemas = ["PhysicsArticulationRootAPI", "MaterialBindingAPI"]\n)\n{'
        yield "rel material:binding:physics = </World/Rubber>"
        yield f'double3 xformOp:translate = ({300 * chain}, 0, 0)\nuniform token[] xformOpOrder = ["xformOp:translate"]'
        yield from (_flat if layout == "flat" else _nested)(f"/World/Chain{chain}", length, 300.0 * chain)
        yield "}"
    yield "}"


def _flat(path: str, length: int, place: float) -> Iterator[str]:
    """Bodies side by side, joints in a scope of their own."""
    for i in range(length):
        yield from _body(i, 10.0 * (i + 1))
        yield "}"
    yield 'def Scope "Joints"\n{'
    for i in range(length):
        yield from _joint(f"joint{i}", f"{path}/link{i - 1}" if i else place, f"{path}/link{i}")
    yield "}"


def _nested(path: str, length: int, place: float) -> Iterator[str]:
    """Bodies in each other, each with its joint."""
    for i in range(length):
        parent, path = path, f"{path}/link{i}"
        yield from _body(i, 10.0)
        yield from _joint(f"joint{i}", parent if i else place, path)
    for _ in range(length):
        yield "}"


def _body(number: int, height: float) -> Iterator[str]:
    yield f'def Xform "link{number}" (\n    prepend apiSchemas = ["PhysicsRigidBodyAPI", "PhysicsMassAPI"]\n)\n{{'
    yield f'double3 xformOp:translate = (0, {height}, 0)\nuniform token[] xformOpOrder = ["xformOp:translate"]'
    yield "float physics:mass = 0.5"
    if number % 2:
        yield from _box()
        return
    yield 'def Capsule "bone" (\n    prepend apiSchemas = ["PhysicsCollisionAPI"]\n)\n{'
    yield 'double radius = 2\ndouble height = 6\nuniform token axis = "Y"\n}'


def _box() -> Iterator[str]:
    yield 'def Cube "box" (\n    prepend apiSchemas = ["PhysicsCollisionAPI", "PhysicsMassAPI"]\n)\n{'
    yield "double size = 2\ndouble3 xformOp:translate = (1, 0, 0)\ndouble3 xformOp:scale = (1, 2, 1)"
    yield 'uniform token[] xformOpOrder = ["xformOp:translate", "xformOp:scale"]\nfloat physics:density = 0.002\n}'


def _joint(name: str, parent: str | float, child: str) -> Iterator[str]:
    """A hinge on a parent body, or on the ground at that place along x."""
    yield f'def PhysicsRevoluteJoint "{name}" (\n    prepend apiSchemas = ["PhysicsDriveAPI:angular"]\n)\n{{'
    if isinstance(parent, str):
        yield f"rel physics:body0 = <{parent}>"
    place = 0.0 if isinstance(parent, str) else parent
    yield f"point3f physics:localPos0 = ({place}, 5, 0)"
    yield f"rel physics:body1 = <{child}>\npoint3f physics:localPos1 = (0, -5, 0)"
    yield 'uniform token physics:axis = "Z"\nfloat physics:lowerLimit = -90\nfloat physics:upperLimit = 90'
    yield "float drive:angular:physics:stiffness = 10\nfloat drive:angular:physics:damping = 1\n}"


# -- measuring --------------------------------------------------------------------------------------------------------


def measure(folder: Path, layout: str, suffix: str, n_bodies: int, repeats: int) -> Figure:
    """The best of several reads; each time what was read is looked at."""
    file = folder / f"{layout}_{n_bodies}{suffix}"
    write_stage(file, n_bodies, layout)
    times: list[tuple[float, float]] = []
    for _ in range(repeats):
        begin, cpu_begin = time.perf_counter(), time.process_time()
        described = read_usd(file, diagnostics=Diagnostics())
        times.append((time.perf_counter() - begin, time.process_time() - cpu_begin))
        _check(described, n_bodies)
    file.unlink()
    seconds, cpu = (min(column) for column in zip(*times, strict=True))
    return Figure(layout, suffix, n_bodies, seconds, cpu)


def _check(described: Robot | World, n_bodies: int) -> None:
    """A fast reader that loses something is not fast."""
    n_shapes = sum(len(link.shapes) for link in described.links)
    counts = (len(described.links), len(described.joints), n_shapes)
    if counts != (n_bodies, n_bodies, n_bodies):
        raise SystemExit(f"{n_bodies} bodies were written, {counts} links, joints and shapes were read")
    said = [d for d in described.diagnostics if d.severity is not Severity.NOTE]
    if said:
        raise SystemExit(f"{len(said)} diagnostics, first: {said[0]}")


def growth(figures: Sequence[Figure]) -> float:
    """Time per body of the largest stage over that of the smallest: 1 where reading is linear."""
    by_size = sorted(figures, key=lambda f: f.bodies)
    return by_size[-1].per_body / by_size[0].per_body


def table(figures: Sequence[Figure]) -> str:
    """The figures as the document."""
    from pxr import Usd

    version = ".".join(str(n) for n in Usd.GetVersion()[1:])
    lines = [
        "# USD reading speed",
        "",
        f"Time to read stages with OpenUSD {version} and Python {platform.python_version()} on {os.cpu_count()} cores",
        f"of {platform.machine()}: the best of several reads in one process, opening the file included. Each stage",
        f"holds chains of {CHAIN} bodies with as many joints, each with limits and a drive; every body has a mass and",
        "a collider with an inherited physics material. `nested` writes each body inside its parent, `flat` side by",
        f"side. Load average {os.getloadavg()[1]:.1f}. Generated by `python tools/usd_speed.py`.",
        "",
        "| layout | file | bodies | joints | shapes | wall time [s] | CPU time [s] | ms per body |",
        "|---|---|---|---|---|---|---|---|",
        *(_row(figure) for figure in figures),
        "",
        "Time per body of the largest stage relative to the smallest (1 is linear): "
        + ", ".join(f"{layout} {suffix} {growth(group):.2f}" for layout, suffix, group in _groups(figures))
        + ".",
    ]
    return "\n".join(lines) + "\n"


def _row(figure: Figure) -> str:
    n = figure.bodies
    times = (f"{figure.seconds:.2f}", f"{figure.cpu:.2f}", f"{figure.per_body * 1e3:.3f}")
    return "| " + " | ".join(map(str, (figure.layout, figure.suffix, n, n, n, *times))) + " |"


def _groups(figures: Sequence[Figure]) -> Iterator[tuple[str, str, list[Figure]]]:
    for layout, suffix in dict.fromkeys((f.layout, f.suffix) for f in figures):
        yield layout, suffix, [f for f in figures if (f.layout, f.suffix) == (layout, suffix)]


def main(arguments: argparse.Namespace) -> int:
    figures: list[Figure] = []
    with tempfile.TemporaryDirectory() as folder:
        measure(Path(folder), "flat", ".usda", CHAIN, 1)  # loads the libraries
        for layout in LAYOUTS:
            for suffix in (".usda", ".usdc"):
                for n_bodies in arguments.bodies:
                    figure = measure(Path(folder), layout, suffix, n_bodies, arguments.repeats)
                    figures.append(figure)
                    print(f"{layout} {suffix} {n_bodies}: {figure.seconds:.2f} s, {figure.cpu:.2f} s of the processor")
    if not arguments.no_table:
        TABLE.parent.mkdir(exist_ok=True)
        TABLE.write_text(table(figures), encoding="utf-8")
        print(f"-> {TABLE.relative_to(ROOT)}")
    return 0 if max(f.cpu for f in figures) < BUDGET else 1


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bodies", type=int, nargs="+", default=[1000, 3000, 10_000])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--no-table", action="store_true", help="print the figures only")
    sys.exit(main(parser.parse_args()))
