"""MJCF, the file format of MuJoCo, read with MuJoCo's own parser and compiler.

Pipeline: `documents` collects the XML files, `repeated_bodies` finds free bodies that can be copied instead of
compiled, `size_limits` rejects oversized models, `prepare` loads all asset files into memory, `mujoco_compiler` has
MuJoCo parse and compile the model, and `convert` builds the description from the compiled model.
"""

from __future__ import annotations

import os
from pathlib import Path

from kinema.core import Diagnostics, ReadError
from kinema.description import Robot, World

from ..observations import mark_complete
from ..resolve import Resolver
from .convert import convert_model
from .documents import load_document
from .mujoco_compiler import compile_model, start_background_import
from .prepare import PreparedModel, prepare_model
from .repeated_bodies import NotRepeatableError, RepeatedBodies, find_repeated_bodies
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
    repeated = find_repeated_bodies(document)
    check_model_size(document, set() if repeated is None else set(repeated.copies))
    prepared = prepare_model(document, resolver, diagnostics)
    description = None if repeated is None else _read_with_copies(prepared, repeated, diagnostics)
    if description is None:
        if repeated is not None:
            check_model_size(document)
        description = convert_model(compile_model(prepared, diagnostics), diagnostics)
    mark_complete()
    return description


def _read_with_copies(
    prepared: PreparedModel, repeated: RepeatedBodies, diagnostics: Diagnostics
) -> Robot | World | None:
    """Description of a model of which repeated bodies are copied instead of compiled.

    None if the model has errors, or messages about one of these bodies, of which each would have its own.
    """
    attempt, messages = prepared.copy(), Diagnostics()
    attempt.removed |= set(repeated.copies)
    try:
        description = convert_model(compile_model(attempt, messages), messages, repeated)
    except (ReadError, NotRepeatableError):
        return None
    if any(message.origin in repeated.origins for message in messages):
        return None
    for message in messages:
        diagnostics.report(message)
    for assembly in (description, *(description.robots if isinstance(description, World) else ())):
        assembly.diagnostics = diagnostics
    return description
