"""CAD assemblies, from a JSON snapshot that an add-in of the CAD program writes (`docs/cad-snapshot.md`), or build123d.

The objects of a snapshot also come from a build123d assembly: `from_build123d`, with `solids` and `solid_joints`.

The story: `json_text` and `parse` make objects of the text, `references` mends what leads nowhere, `grouping` works out
which parts are one link, `masses` adds up their mass, and `joints` (with `motions`, `probe` and `mimics`) says how the
links move.
"""

from __future__ import annotations

import os
from pathlib import Path

from kinema.description import Robot
from kinema.foundation import Diagnostics
from kinema.read.resolve import Resolver
from kinema.read.source import read_bytes

from .convert import convert_snapshot as convert_snapshot
from .from_build123d import from_build123d as from_build123d
from .parse import parse_snapshot as parse_snapshot


def read_cad(
    source: str | os.PathLike[str],
    *,
    diagnostics: Diagnostics | None = None,
    resolve: Resolver | None = None,
) -> Robot:
    """Read a robot from the snapshot of a CAD assembly.

    Args:
        source: the JSON file.
        diagnostics: where to report; `robot.diagnostics` is this collector.
        resolve: finds meshes.

    Returns:
        The robot. Its base frame is the frame of the assembly's root component. `state` of each joint is where the CAD
        program shows it: at these coordinates every link is where its component was; limits are those of the program.

    Raises:
        ReadError: there is nothing to give back.
    """
    file = Path(source)
    diagnostics = Diagnostics() if diagnostics is None else diagnostics
    resolve = Resolver() if resolve is None else resolve
    snapshot = parse_snapshot(read_bytes(file), str(file), diagnostics)
    robot = convert_snapshot(snapshot, diagnostics, resolve=resolve, file=str(file), fallback=file.stem)
    robot.source = str(file)
    return robot
