"""URDF 1.0 to 1.2, with the common extensions of Drake, Bullet, MuJoCo and Gazebo, and xacro."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from kinema.core import Diagnostics
from kinema.description import Robot

from ..observations import mark_complete
from ..resolve import Resolver, read_bytes
from ..xml_repair import parse_xml_tolerant
from .convert import FileReferences, convert_robot
from .parse import parse_robot
from .xacro_expand import expand_xacro, is_xacro


def read_urdf(
    source: str | os.PathLike[str],
    *,
    diagnostics: Diagnostics | None = None,
    resolve: Resolver | None = None,
    arguments: Mapping[str, str] | None = None,
) -> Robot:
    """Read a robot from a URDF or xacro file.

    Args:
        source: the file. Xacro (the suffix `.xacro`, or `xacro:` elements in it) is expanded first; see
            `kinema.read.urdf.xacro_expand` for what such a file can and cannot do. Places in diagnostics are those
            before the expansion: an element made by a macro has the location in the macro.
        diagnostics: where to report; `robot.diagnostics` is this collector.
        resolve: finds packages, meshes and textures.
        arguments: values for xacro's `$(arg name)`.

    Returns:
        The robot. Its base is unspecified, no link is marked as root, and meshes are found but not loaded.

    Raises:
        ReadError: the file is unreadable, not URDF, or its expansion failed.
    """
    file = Path(source)
    diagnostics = Diagnostics() if diagnostics is None else diagnostics
    resolve = Resolver() if resolve is None else resolve
    root = parse_xml_tolerant(read_bytes(file), str(file), diagnostics, "urdf")
    is_expanded = is_xacro(root, file)
    if is_expanded:
        expanded = expand_xacro(root, file, resolve, dict(arguments or {}), diagnostics)
        root = expanded.root
        resolve = replace(resolve, extra_roots=[*resolve.extra_roots, *expanded.packages])
    else:
        mark_complete()
    if arguments and not is_expanded:
        diagnostics.warning("urdf.unused-arguments", f"{file}: arguments are given, but this is no xacro file")
    element = parse_robot(root, diagnostics)
    robot = convert_robot(element, FileReferences(resolve, str(file)), diagnostics, fallback=file.stem.split(".")[0])
    robot.source = str(file)
    return robot
