"""STEP assemblies: parts from the STEP file, joints from a YAML sidecar file (`docs/cad-step.md`).

Pipeline: `sidecar` parses the YAML file, `cad_kernel` runs the CAD kernel in a subprocess (`worker`) that returns the
parts as a CAD snapshot, and `kinema.read.cad` converts parts and joints to a robot.
"""

from __future__ import annotations

import os
from importlib.util import find_spec
from pathlib import Path

from kinema.core import Diagnostics, ReadError, import_optional
from kinema.description import Robot

from ..cad import convert_snapshot
from ..cad.build123d_assembly import DEFAULT_ANGULAR_TOLERANCE, DEFAULT_TOLERANCE, report_missing_joints
from ..resolve import Resolver, read_bytes
from .cad_kernel import load_parts
from .sidecar import Sidecar, read_sidecar

_HEADER, _TRAILER = b"ISO-10303-21", b"END-ISO-10303-21"


def read_step(
    source: str | os.PathLike[str],
    *,
    diagnostics: Diagnostics | None = None,
    resolve: Resolver | None = None,
    joints: str | os.PathLike[str] | None = None,
    density: float | None = None,
    tolerance: float = DEFAULT_TOLERANCE,
    angular_tolerance: float = DEFAULT_ANGULAR_TOLERANCE,
) -> Robot:
    """Read a robot from a STEP assembly.

    Args:
        source: the STEP file.
        diagnostics: where to report; `robot.diagnostics` is this collector.
        resolve: not used: a STEP file refers to no others.
        joints: the YAML sidecar file that defines the joints; `<name>.joints.yaml` beside the STEP file when not given.
            Without a sidecar file, the whole assembly is one link.
        density: density [kg/m3] of parts without a density in the sidecar file.
        tolerance: maximum distance [m] between triangles and surface.
        angular_tolerance: maximum angle [rad] between neighbouring triangles.

    Returns:
        The robot. Its base frame is the frame of the assembly.

    Raises:
        ReadError: the file is unreadable or contains no parts.
        KinemaError: build123d is not installed.
    """
    file = Path(source)
    diagnostics = Diagnostics() if diagnostics is None else diagnostics
    _check_complete(read_bytes(file), file)
    if find_spec("build123d") is None:  # only the worker imports it, which takes seconds
        import_optional("build123d", extra="cad", purpose="reading a STEP file")
    beside = file.with_name(f"{file.stem}.joints.yaml")
    sidecar = Sidecar()
    if joints is not None or beside.exists():
        sidecar = read_sidecar(Path(joints or beside), diagnostics)
    options = sidecar.solid_options(density, tolerance, angular_tolerance)
    snapshot = load_parts(file, options, diagnostics)
    sidecar.apply_to(snapshot, diagnostics)
    report_missing_joints(snapshot, diagnostics, hint=f"say in {beside.name} how its parts move")
    robot = convert_snapshot(snapshot, diagnostics, resolve=resolve or Resolver(), file=str(file), fallback=file.stem)
    robot.source = str(file)
    return robot


def _check_complete(data: bytes, file: Path) -> None:
    """Raise `ReadError` if the data is not a STEP file or is truncated."""
    text = data.removeprefix(b"\xef\xbb\xbf").strip()
    if not text:
        raise ReadError(f"{file}: the file is empty")
    if not text.startswith(_HEADER):
        raise ReadError(f"{file}: this is no STEP file: it does not begin with {_HEADER.decode()}")
    if _TRAILER not in text[-4096:]:
        lines = data.count(b"\n") + 1
        raise ReadError(f"{file}:{lines}: the STEP file is cut off: it does not end with {_TRAILER.decode()}")
