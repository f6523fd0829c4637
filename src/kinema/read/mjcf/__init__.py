"""MJCF, the format of MuJoCo, by way of MuJoCo's own parser and compiler.

The story: `sources` gathers the XML files, `limits` refuses what is out of all proportion, `prepare` puts every file
into memory, `load` has MuJoCo parse and compile it, and `convert` turns the result into the description.
"""

from __future__ import annotations

import os
from pathlib import Path

from kinema.description import Robot, World
from kinema.foundation import Diagnostics
from kinema.read.resolve import Resolver

from .convert import describe
from .engine import begin_import
from .limits import check_size
from .load import compile_model
from .prepare import prepare
from .sources import collect


def read_mjcf(
    source: str | os.PathLike[str],
    *,
    diagnostics: Diagnostics | None = None,
    resolve: Resolver | None = None,
) -> Robot | World:
    """Read a robot or a world from an MJCF file.

    Args:
        source: the file.
        diagnostics: where to report; `diagnostics` of the result is this collector.
        resolve: finds included files, meshes and textures.

    Returns:
        A robot where the model is one mechanism and the world itself carries no geoms; otherwise a world, with the
        world's geoms as static shapes and one robot for each set of bodies that belong together.

    Raises:
        ReadError: there is nothing to give back.
    """
    diagnostics = Diagnostics() if diagnostics is None else diagnostics
    resolver = Resolver() if resolve is None else resolve
    begin_import()
    document = collect(Path(source), resolver, diagnostics)
    check_size(document)
    compiled = compile_model(prepare(document, resolver, diagnostics), diagnostics)
    return describe(compiled, diagnostics)
