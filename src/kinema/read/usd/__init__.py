"""USD stages with UsdPhysics: the whole schema, nested bodies, scaled and sheared transforms, any units."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from kinema.core import Diagnostics, ReadError, pause_garbage_collection
from kinema.description import Robot, World

from ..resolve import Resolver
from . import pxr
from .convert import convert_stage
from .layers import capture_openusd_messages, first_message, open_stage


def read_usd(
    source: str | os.PathLike[str],
    *,
    diagnostics: Diagnostics | None = None,
    resolve: Resolver | None = None,
    variants: Mapping[str, Mapping[str, str]] | None = None,
    stack_joints: bool | None = None,
) -> Robot | World:
    """Read a robot or a world from a USD stage.

    Args:
        source: a .usda, .usdc, .usd or .usdz file.
        diagnostics: where problems are reported.
        resolve: resolves the files that the stage may reference.
        variants: prim path -> {variant set: variant}, overrides the selections of the stage.
        stack_joints: whether several joints between two bodies are composed in series (True) or only one is in the
            tree (False); None for the setting of the stage (`newton:jointsAddMobility`).
    """
    diagnostics = Diagnostics() if diagnostics is None else diagnostics
    file = Path(source)
    # overflows are checked where they matter
    with capture_openusd_messages(file, diagnostics), pause_garbage_collection(), np.errstate(all="ignore"):
        resolve = Resolver() if resolve is None else resolve
        stage = open_stage(file, resolve, diagnostics, variants)
        try:
            return convert_stage(stage, str(file), diagnostics, stack_joints, resolve)
        except pxr.Tf.ErrorException as error:
            raise ReadError(f"{file}: OpenUSD fails on this stage: {first_message(error)}") from None
        except UnicodeDecodeError:
            raise ReadError(f"{file}: a name or text in it is not UTF-8") from None
