"""OpenUSD's own physics validators, run beside ours."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kinema.foundation import Diagnostic, Diagnostics, Origin, Severity
from kinema.read.resolve import Resolver

from . import pxr
from .open_stage import open_stage, openusd_messages

_PLUGIN = "usdPhysicsValidators"


def openusd_validation(
    file: str | os.PathLike[str],
    *,
    resolve: Resolver | None = None,
    diagnostics: Diagnostics | None = None,
    variants: Mapping[str, Mapping[str, str]] | None = None,
) -> list[Diagnostic]:
    """What OpenUSD's validators of rigid bodies, colliders, joints and articulations say of a stage.

    Args:
        file: the stage.
        resolve: which other files it may bring in.
        diagnostics: where problems of opening the stage go.
        variants: prim path -> {variant set: variant}, chosen instead of what the stage selects.

    Returns:
        Diagnostics with codes `openusd.<name of the error>`; empty for a valid stage.
    """
    path = Path(file)
    said = Diagnostics() if diagnostics is None else diagnostics
    with openusd_messages(path, said):
        stage = open_stage(path, Resolver() if resolve is None else resolve, said, variants)
        context = pxr.UsdValidation.ValidationContext(_validators())
        found = context.Validate(stage)
    return [_diagnostic(error, str(path)) for error in found]


def _validators() -> list[Any]:
    """All that belong to physics; which there are depends on the version of OpenUSD."""
    registry = pxr.UsdValidation.ValidationRegistry()
    names = sorted(m.name for m in registry.GetAllValidatorMetadata() if m.name.startswith(f"{_PLUGIN}:"))
    return [v for v in (registry.GetOrLoadValidatorByName(name) for name in names) if v]


def _diagnostic(error: Any, file: str) -> Diagnostic:
    kinds = pxr.UsdValidation.ValidationErrorType
    severity = {kinds.Error: Severity.ERROR, kinds.Warn: Severity.WARNING}.get(error.GetType(), Severity.NOTE)
    sites = [site.GetPrim() for site in error.GetSites() if site.IsPrim()]
    prim = str(sites[0].GetPath()) if sites else ""
    message = " ".join(str(error.GetMessage()).split()).rstrip(".")
    return Diagnostic(severity, f"openusd.{error.GetName()}", message, "", Origin(file, None, prim))
