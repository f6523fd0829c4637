"""SDFormat 1.4 to 1.12: XML -> elements (`parse`) -> frame graph (`frames`) -> description (`convert`)."""

from __future__ import annotations

import os
from pathlib import Path

from kinema.core import Diagnostics
from kinema.description import Robot, World

from ..resolve import Resolver, read_bytes
from ..xml_repair import parse_xml_tolerant
from .context import IncludeLibrary
from .convert import convert
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
        A robot if the file contains one model and no world, else a world. Nested models become part of the
        robot: their links, joints and frames are called `nested::link`. Models that joints of the world connect
        become one robot, whose parts are called `model::link`. A gearbox is a constraint, not a joint.

    Raises:
        ReadError: no such file, not XML, not SDFormat, or no model in it.
    """
    file = Path(source)
    diagnostics = Diagnostics() if diagnostics is None else diagnostics
    resolver = Resolver() if resolve is None else resolve
    element = parse_xml_tolerant(read_bytes(file), str(file), diagnostics, "sdf")
    library = IncludeLibrary(resolver, diagnostics, parse_root, open_files=[Path(os.path.realpath(file))])
    return convert(parse_root(element, library, diagnostics), file, diagnostics, resolver)
