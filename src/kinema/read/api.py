"""`kinema.read`: detects the format of a robot file (URDF, SDF, MJCF, USD, CAD snapshot, STEP) and calls its reader."""

from __future__ import annotations

import importlib
import inspect
import os
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from kinema.core import (
    Diagnostic,
    Diagnostics,
    InternalError,
    KinemaError,
    Policy,
    ReadError,
    log_errors,
    pause_garbage_collection,
)
from kinema.description import Robot, World

from .resolve import Resolver, read_bytes

# -- format detection --------------------------------------------------------------------------------------------------

_FORMAT_BY_ROOT_TAG = {"robot": "urdf", "sdf": "sdf", "gazebo": "sdf", "mujoco": "mjcf", "mujocoinclude": "mjcf"}
_FORMAT_BY_SUFFIX = {
    ".urdf": "urdf",
    ".xacro": "urdf",
    ".sdf": "sdf",
    ".world": "sdf",
    ".mjcf": "mjcf",
    ".step": "step",
    ".stp": "step",
}
_USD_SUFFIXES = {".usd", ".usda", ".usdc", ".usdz"}
_XML_PROLOG = re.compile(rb"\s+|<\?.*?\?>|<!--.*?-->|<!DOCTYPE[^\[>]*(\[.*?\]\s*)?>", re.DOTALL)
_START_TAG = re.compile(rb"<([A-Za-z_][\w.:-]*)")
_CAD_SNAPSHOT_MARKER = re.compile(rb'"kinema"\s*:\s*"cad-snapshot"')


def detect_format(data: bytes, file: Path) -> str:
    """Detect the format of a robot file from its first bytes, then from its suffix.

    Returns `urdf`, `sdf`, `mjcf`, `usd`, `cad` or `step`. Raises `ReadError` if the file is in none of these formats.
    """
    if data.startswith((b"#usda", b"PXR-USDC")) or file.suffix.lower() in _USD_SUFFIXES:
        return "usd"
    is_json = data.removeprefix(b"\xef\xbb\xbf").lstrip()[:1] == b"{"
    if is_json and _CAD_SNAPSHOT_MARKER.search(data):
        return "cad"
    if data.removeprefix(b"\xef\xbb\xbf").lstrip().startswith(b"ISO-10303-21"):
        return "step"
    root = _root_tag(data)
    if root in _FORMAT_BY_ROOT_TAG:
        return _FORMAT_BY_ROOT_TAG[root]
    if file.suffix.lower() in _FORMAT_BY_SUFFIX:
        return _FORMAT_BY_SUFFIX[file.suffix.lower()]  # its reader reports the errors
    if not data.strip():
        raise ReadError(f"{file}: the file is empty")
    if is_json:
        raise ReadError(f'{file}: this is JSON, but no CAD snapshot: it has no field "kinema": "cad-snapshot"')
    what = f"its root element is <{root}>" if root else "it is not XML"
    raise ReadError(f"{file}: this is no robot description: {what}; expected <robot> (URDF), <sdf> or <mujoco> (MJCF)")


def _root_tag(data: bytes) -> str:
    """Tag of the root element of an XML document, without full parsing; empty if there is none."""
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        data = data.decode("utf-16", "replace").encode()
    position = 3 if data.startswith(b"\xef\xbb\xbf") else 0
    while skipped := _XML_PROLOG.match(data, position):
        position = skipped.end()
    match = _START_TAG.match(data, position)
    return match.group(1).decode() if match else ""


# -- reading -----------------------------------------------------------------------------------------------------------

FORMATS = ("urdf", "sdf", "mjcf", "usd", "cad", "step")
"""Names of the supported file formats."""


def find_reader(format: str) -> Callable[..., Robot | World]:
    """The function `read_<format>`, imported when it is first needed."""
    return getattr(importlib.import_module(f"{__package__}.{format}"), f"read_{format}")


def openusd_validation(
    file: str | os.PathLike[str],
    *,
    search_paths: Sequence[str | os.PathLike[str]] = (),
    variants: Mapping[str, Mapping[str, str]] | None = None,
) -> list[Diagnostic]:
    """Diagnostics of OpenUSD's own physics validators for a USD stage, with codes `openusd.<error>`."""
    from .usd.validation import openusd_validation as validate

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
        format: `urdf`, `sdf`, `mjcf`, `usd`, `cad` or `step`; detected from content and suffix by default.
        search_paths: folders that are, or hold, the packages and models the file refers to.
        policy: what to do with each diagnostic as it is reported: `log_errors` (the default), `collect` or
            `raise_on_error` of `kinema.core`, or a function of your own.
        options: of one format only: `arguments` of a xacro file; `variants` and `stack_joints` of a USD stage;
            `joints`, `density`, `tolerance` and `angular_tolerance` of a STEP file.

    Returns:
        The description. Its `diagnostics` list approximated and ignored content with its origin; errors
        among them mean that it is incomplete.

    Raises:
        ReadError: no description can be returned: no such file, not a robot description, or unreadable content.
    """
    file = Path(source)
    if format is None:
        format = detect_format(read_bytes(file), file)
    if format not in FORMATS:
        raise ReadError(f"{file}: {format!r} is not a format that is read; these are: {', '.join(FORMATS)}")
    resolve = Resolver(search_paths=[Path(p) for p in search_paths])
    reader = find_reader(format)
    unknown = [name for name in options if name not in inspect.signature(reader).parameters]
    if unknown:
        raise ReadError(f"{file}: {format} files have no option {', '.join(unknown)}")
    try:
        with pause_garbage_collection(), np.errstate(all="ignore"):  # overflows are diagnosed by the checks
            return reader(file, diagnostics=Diagnostics(policy=policy), resolve=resolve, **options)
    except KinemaError:
        raise
    except (Exception, RecursionError) as error:  # defects of Kinema become one error message
        raise InternalError(
            f"{file}: Kinema failed on this file ({type(error).__name__}: {error}); this is a defect of Kinema, "
            "please report it with the file"
        ) from error
