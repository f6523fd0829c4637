"""The one function most people need: any robot file to a description."""

from __future__ import annotations

import importlib
import inspect
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from kinema.description import Robot, World
from kinema.foundation import Diagnostic, Diagnostics, InternalError, KinemaError, Policy, ReadError, log_errors

from .detect import detect_format
from .resolve import Resolver
from .source import read_bytes

FORMATS = ("urdf", "sdf", "mjcf", "usd", "cad", "step")
"""What can be read."""


def reader_of(format: str) -> Callable[..., Robot | World]:
    """The function `read_<format>`, imported when it is first needed."""
    return getattr(importlib.import_module(f"{__package__}.{format}"), f"read_{format}")


def openusd_validation(
    file: str | os.PathLike[str],
    *,
    search_paths: Sequence[str | os.PathLike[str]] = (),
    variants: Mapping[str, Mapping[str, str]] | None = None,
) -> list[Diagnostic]:
    """What OpenUSD's own physics validators say of a USD stage, with codes `openusd.<error>`."""
    from .usd.validators import openusd_validation as validate

    return validate(file, resolve=Resolver(search_paths=[Path(p) for p in search_paths]), variants=variants)


def read(
    source: str | os.PathLike[str],
    *,
    format: str | None = None,
    search_paths: Sequence[str | os.PathLike[str]] = (),
    policy: Policy = log_errors,
    **options: Any,
) -> Robot | World:
    """Read a robot, or a world of several, from any supported file.

    Args:
        source: the file.
        format: `urdf`, `sdf`, `mjcf`, `usd`, `cad` or `step`; found out from the content and the suffix when not given.
        search_paths: folders that are, or hold, the packages and models the file refers to.
        policy: what to do with each diagnostic as it is reported: `log_errors` (the default), `collect` or
            `raise_on_error` of `kinema.foundation`, or a function of your own.
        options: of one format only: `arguments` of a xacro file; `variants` and `stack_joints` of a USD stage;
            `joints`, `density`, `tolerance` and `angular_tolerance` of a STEP file.

    Returns:
        The description. Its `diagnostics` say what was read, approximated and ignored, each with its place; errors
        among them mean that it is incomplete.

    Raises:
        ReadError: there is nothing to give back: no such file, not a robot description, broken beyond repair.
    """
    file = Path(source)
    if format is None:
        format = detect_format(read_bytes(file), file)
    if format not in FORMATS:
        raise ReadError(f"{file}: {format!r} is not a format that is read; these are: {', '.join(FORMATS)}")
    resolve = Resolver(search_paths=[Path(p) for p in search_paths])
    reader = reader_of(format)
    unknown = [name for name in options if name not in inspect.signature(reader).parameters]
    if unknown:
        raise ReadError(f"{file}: {format} files have no option {', '.join(unknown)}")
    try:
        with np.errstate(all="ignore"):  # numbers that overflow are found by the checks, with their place
            return reader(file, diagnostics=Diagnostics(policy=policy), resolve=resolve, **options)
    except KinemaError:
        raise
    except (Exception, RecursionError) as error:  # a defect of ours must still not be a traceback in a user's face
        raise InternalError(
            f"{file}: Kinema failed on this file ({type(error).__name__}: {error}); this is a defect of Kinema, "
            "please report it with the file"
        ) from error
