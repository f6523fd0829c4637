"""STEP assemblies: parts from the file, joints from a YAML file beside it (`docs/cad-step.md`).

The story: `sidecar` reads the joints' file (through `yaml_text`), `kernel` runs the CAD kernel in a process of its own
(`worker`), which hands the parts over as a CAD snapshot (`handover`), and `kinema.read.cad` makes a robot of both.
"""

from __future__ import annotations

import os
from importlib.util import find_spec
from pathlib import Path

from kinema.description import Robot
from kinema.foundation import Diagnostics, ReadError, require
from kinema.read.cad import convert_snapshot
from kinema.read.cad.from_build123d import note_missing_joints
from kinema.read.cad.solids import ANGULAR_TOLERANCE, TOLERANCE
from kinema.read.resolve import Resolver
from kinema.read.source import read_bytes

from .kernel import load_parts
from .sidecar import Sidecar, read_sidecar

_START, _END = b"ISO-10303-21", b"END-ISO-10303-21"


def read_step(
    source: str | os.PathLike[str],
    *,
    diagnostics: Diagnostics | None = None,
    resolve: Resolver | None = None,
    joints: str | os.PathLike[str] | None = None,
    density: float | None = None,
    tolerance: float = TOLERANCE,
    angular_tolerance: float = ANGULAR_TOLERANCE,
) -> Robot:
    """Read a robot from a STEP assembly.

    Args:
        source: the STEP file.
        diagnostics: where to report; `robot.diagnostics` is this collector.
        resolve: not used: a STEP file refers to no others.
        joints: the YAML file that says how the parts move; `<name>.joints.yaml` beside the STEP file when not given.
            Without one, the whole assembly is one link.
        density: density [kg/m3] of parts for which the joints' file gives none.
        tolerance: how far [m] triangles may be from the surface.
        angular_tolerance: how far [rad] neighbouring triangles may be turned against each other.

    Returns:
        The robot. Its base frame is the frame of the assembly.

    Raises:
        ReadError: there is nothing to give back.
        KinemaError: build123d is not installed.
    """
    file = Path(source)
    diagnostics = Diagnostics() if diagnostics is None else diagnostics
    _check_whole(read_bytes(file), file)
    if find_spec("build123d") is None:  # only the worker imports it, which takes seconds
        require("build123d", extra="cad", purpose="reading a STEP file")
    beside = file.with_name(f"{file.stem}.joints.yaml")
    sidecar = Sidecar()
    if joints is not None or beside.exists():
        sidecar = read_sidecar(Path(joints or beside), diagnostics)
    options = sidecar.solid_options(density, tolerance, angular_tolerance)
    snapshot = load_parts(file, options, diagnostics)
    sidecar.add_to(snapshot, diagnostics)
    note_missing_joints(snapshot, diagnostics, hint=f"say in {beside.name} how its parts move")
    robot = convert_snapshot(snapshot, diagnostics, resolve=resolve or Resolver(), file=str(file), fallback=file.stem)
    robot.source = str(file)
    return robot


def _check_whole(data: bytes, file: Path) -> None:
    """Refuse what is no STEP file, or only the beginning of one."""
    text = data.removeprefix(b"\xef\xbb\xbf").strip()
    if not text:
        raise ReadError(f"{file}: the file is empty")
    if not text.startswith(_START):
        raise ReadError(f"{file}: this is no STEP file: it does not begin with {_START.decode()}")
    if _END not in text[-4096:]:
        lines = data.count(b"\n") + 1
        raise ReadError(f"{file}:{lines}: the STEP file is cut off: it does not end with {_END.decode()}")
