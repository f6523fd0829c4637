"""Reads a robot or a world from an SDFormat file."""

from __future__ import annotations

import os
from pathlib import Path

from kinema.description import Robot, World
from kinema.foundation import Diagnostics

from ..resolve import Resolver
from ..source import read_bytes
from ..xml_repair import parse_tolerant
from .convert import convert
from .library import Library
from .parse import parse_root


def read_sdf(
    source: str | os.PathLike[str], *, diagnostics: Diagnostics | None = None, resolve: Resolver | None = None
) -> Robot | World:
    """Read an SDFormat file, versions 1.4 to 1.12, with everything it includes.

    Args:
        source: the file.
        diagnostics: where to report; also found as `diagnostics` of the result.
        resolve: finds included models, meshes and textures.

    Returns:
        A robot where the file holds one model and no world, else a world. Models nested in a model become part of its
        robot: their links, joints and frames are called `nested::link`. Models that joints of the world connect
        become one robot, whose parts are called `model::link`. A gearbox is a constraint, not a joint.

    Raises:
        ReadError: there is nothing to give back: no such file, not XML, not SDFormat, no model in it.
    """
    file = Path(source)
    diagnostics = Diagnostics() if diagnostics is None else diagnostics
    resolver = Resolver() if resolve is None else resolve
    element = parse_tolerant(read_bytes(file), str(file), diagnostics, "sdf")
    library = Library(resolver, diagnostics, parse_root, open_files=[Path(os.path.realpath(file))])
    return convert(parse_root(element, library, diagnostics), file, diagnostics, resolver)
