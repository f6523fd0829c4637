"""MJCF, the file format of MuJoCo, read with MuJoCo's own parser and compiler.

Pipeline: `documents` collects the XML files, `size_limits` rejects oversized models, `prepare` loads all asset files
into memory, `mujoco_compiler` has MuJoCo parse and compile the model, and `convert` builds the description from the
compiled model.
"""

from __future__ import annotations

import os
from pathlib import Path

from kinema.core import Diagnostics
from kinema.description import Robot, World

from ..observations import mark_complete
from ..resolve import Resolver
from .convert import convert_model
from .documents import load_document
from .mujoco_compiler import compile_model, start_background_import
from .prepare import prepare_model
from .size_limits import check_model_size


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
        A robot if the model is one mechanism and the world body has no geoms; otherwise a world, with the
        world's geoms as static shapes and one robot for each connected component of bodies.

    Raises:
        ReadError: the file is unreadable or MuJoCo rejects the model.
    """
    diagnostics = Diagnostics() if diagnostics is None else diagnostics
    resolver = Resolver() if resolve is None else resolve
    start_background_import()
    document = load_document(Path(source), resolver, diagnostics)
    check_model_size(document)
    compiled = compile_model(prepare_model(document, resolver, diagnostics), diagnostics)
    description = convert_model(compiled, diagnostics)
    mark_complete()
    return description
