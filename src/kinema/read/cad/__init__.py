"""CAD assemblies, read from a JSON snapshot written by a CAD add-in (`docs/cad-snapshot.md`) or from build123d.

Pipeline: `json_cursor` and `parse` turn the JSON text into the data classes of `elements`; `grouping` removes invalid
references and groups occurrences into rigid bodies; `convert` combines their mass properties and builds the links;
`joint_models` and `joints` derive the joints and mimic relations. `build123d_assembly` produces the same data classes
from a build123d assembly.
"""

from __future__ import annotations

import os
from pathlib import Path

from kinema.core import Diagnostics
from kinema.description import Robot

from ..resolve import Resolver, read_bytes
from .build123d_assembly import from_build123d as from_build123d
from .convert import convert_snapshot as convert_snapshot
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
