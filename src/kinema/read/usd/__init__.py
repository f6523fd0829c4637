"""USD stages with UsdPhysics: all of the schema, nested bodies, exact scale, whatever the units."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from kinema.description import Robot, World
from kinema.foundation import Diagnostics, ReadError, no_collecting
from kinema.read.resolve import Resolver

from . import pxr
from .convert import convert_stage
from .layers import first_message
from .open_stage import open_stage, openusd_messages


def read_usd(
    source: str | os.PathLike[str],
    *,
    diagnostics: Diagnostics | None = None,
    resolve: Resolver | None = None,
    variants: Mapping[str, Mapping[str, str]] | None = None,
    stack_joints: bool | None = None,
) -> Robot | World:
    """Read a stage.

    Args:
        source: a .usda, .usdc, .usd or .usdz file.
        diagnostics: where problems are reported.
        resolve: which other files the stage may bring in.
        variants: prim path -> {variant set: variant}, chosen instead of what the stage selects.
        stack_joints: whether several joints between two bodies add their motion (True) or are constraints of which
            one carries (False); None for what the stage says (`newton:jointsAddMobility`).
    """
    diagnostics = Diagnostics() if diagnostics is None else diagnostics
    file = Path(source)
    # what a stranger's numbers come to is looked at where it matters
    with openusd_messages(file, diagnostics), no_collecting(), np.errstate(all="ignore"):
        resolve = Resolver() if resolve is None else resolve
        stage = open_stage(file, resolve, diagnostics, variants)
        try:
            return convert_stage(stage, str(file), diagnostics, stack_joints, resolve)
        except pxr.Tf.ErrorException as error:
            raise ReadError(f"{file}: OpenUSD fails on this stage: {first_message(error)}") from None
        except UnicodeDecodeError:
            raise ReadError(f"{file}: a name or text in it is not UTF-8") from None
