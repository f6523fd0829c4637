"""Validity checks of a stage that the description does not express, and OpenUSD's own physics validators."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from kinema.core import Array, Diagnostic, Diagnostics, Origin, Severity
from kinema.description import Link, Mesh
from kinema.tokens import usd, usd_physics

from ..resolve import Resolver
from . import pxr
from .articulations import articulation_links
from .layers import capture_openusd_messages, open_stage
from .shapes import StageShape
from .stage_index import Body, StageIndex

# -- stage checks ------------------------------------------------------------------------------------------------------

_SHEAR_TOLERANCE = 1e-5
"""Cosine between two axes above which a shape counts as sheared."""

_SCALE_TOLERANCE = 1e-5
"""Relative difference of scales above which a shape counts as non-uniformly scaled."""
_ROUND_TYPES = frozenset({usd.SPHERE, usd.CAPSULE, usd.CYLINDER, usd.CONE, usd.TAPERED_CAPSULE, usd.TAPERED_CYLINDER})


def check_stage(
    index: StageIndex,
    shapes: Sequence[StageShape],
    links: Mapping[str, Link],
    articulated: Mapping[str, Sequence[str]],
) -> None:
    """Report constructs that other tools mishandle, and store the articulation of each link on the link.

    Args:
        index: the stage.
        shapes: all shapes.
        links: links by name; modified in place.
        articulated: link name -> all links that joints connect with it.
    """
    _store_articulations(index, links, articulated)
    for path, body in index.bodies.items():
        if body.parent is not None and _is_transform_reset(body):
            links[body.name].attributes[usd.PRESERVED_RESET_XFORM_STACK] = True
        if body.prim.IsInstanceProxy() and not index.instances.prototype_path(path):
            index.diagnostics.note(
                "usd.body-in-instance",
                f"body {body.name!r} is inside an instance; other tools may refuse it, or move all instances at once",
                hint="make the prim above it not instanceable",
                origin=Origin(index.file, None, path),
            )
        has_off_diagonal = body.scale[0, 1] or body.scale[0, 2] or body.scale[1, 2]
        if has_off_diagonal and _is_sheared(body.affine.linear):
            index.diagnostics.note(
                "usd.sheared-body",
                f"body {body.name!r} is sheared: scaled by a prim above it that it is turned against; its rigid frame"
                " and exact shapes are read, but other tools refuse it or get it wrong",
                hint="bake the scale above it into its shapes",
                origin=Origin(index.file, None, path),
            )
    for part in shapes:
        kind = index.values.facts(part.prim).kind.type
        if part.shape.collision and kind in _ROUND_TYPES and _is_nonuniformly_scaled(part):
            index.diagnostics.note(
                "usd.uneven-collider",
                f"collider {part.shape.name!r} ({kind.lower()}) is not scaled alike in all directions; its exact shape"
                " is read, but other tools refuse it or take the greatest scale for all",
                hint="give it the radius and height that are meant, and no scale",
                origin=part.shape.origin,
            )
        if part.shape.collision and isinstance(part.shape.geometry, Mesh) and _is_sheared(part.into_link.linear):
            index.diagnostics.note(
                "usd.sheared-collider",
                f"collider {part.shape.name!r} is sheared; its exact shape is read, but other tools, OpenUSD's physics"
                " parser among them, get it wrong",
                hint="bake the scale above it into its points",
                origin=part.shape.origin,
            )


def _is_transform_reset(body: Body) -> bool:
    """Whether the transform stack is reset between a body and its parent body."""
    prim = body.prim
    while prim and str(prim.GetPath()) != body.parent:
        if pxr.UsdGeom.Xformable(prim).GetResetXformStack():
            return True
        prim = prim.GetParent()
    return False


def _is_nonuniformly_scaled(stage_shape: StageShape) -> bool:
    lengths = np.linalg.norm(stage_shape.into_link.linear, axis=0)
    return bool(lengths.max() - lengths.min() > _SCALE_TOLERANCE * lengths.max()) or _is_sheared(
        stage_shape.into_link.linear
    )


def _is_sheared(linear: Array) -> bool:
    lengths = np.linalg.norm(linear, axis=0)
    if not lengths.all() or not np.isfinite(lengths).all():
        return False
    unit = linear / lengths
    return bool(np.abs(unit.T @ unit - np.eye(3)).max() > _SHEAR_TOLERANCE)


# -- articulations -----------------------------------------------------------------------------------------------------


def _store_articulations(
    index: StageIndex, links: Mapping[str, Link], articulated: Mapping[str, Sequence[str]]
) -> None:
    """Store the path of the articulation root on its links, and check the roots."""
    roots = {index.values.facts(prim).path: prim for prim in index.articulations}
    links_of = articulation_links(index)
    for path, prim in roots.items():
        _warn_about_root(index, prim, path, roots)
        root_links = links_of[path]
        for group in {id(g): g for g in (articulated.get(link, (link,)) for link in root_links)}.values():
            for name in group:
                links[name].attributes.setdefault(usd.PRESERVED_ARTICULATION, path)


def _warn_about_root(index: StageIndex, prim: pxr.Prim, path: str, roots: Mapping[str, pxr.Prim]) -> None:
    """Report an articulation root on a disabled body or inside of another articulation root."""
    facts = index.values.facts(prim)
    if usd_physics.RIGID_BODY_API in facts.schemas and path not in index.bodies:
        index.diagnostics.error(
            "usd.articulation-on-disabled-body",
            f"{path} is marked as an articulation's root, but its body is disabled and never moves",
            hint="enable the body, or mark another one",
            origin=index.origin(prim),
        )
    above = path.rpartition("/")[0]
    while above and above not in roots:
        above = above.rpartition("/")[0]
    if above:
        index.diagnostics.error(
            "usd.nested-articulation",
            f"{path} is marked as an articulation's root, but lies inside {above}, which is marked as well",
            hint="keep one of the two",
            origin=index.origin(prim),
        )


# -- OpenUSD validators ------------------------------------------------------------------------------------------------

_PLUGIN = "usdPhysicsValidators"


def openusd_validation(
    file: str | os.PathLike[str],
    *,
    resolve: Resolver | None = None,
    diagnostics: Diagnostics | None = None,
    variants: Mapping[str, Mapping[str, str]] | None = None,
) -> list[Diagnostic]:
    """Run OpenUSD's validators of rigid bodies, colliders, joints and articulations on a stage.

    Args:
        file: the stage.
        resolve: resolves the files that the stage may reference.
        diagnostics: receives problems of opening the stage.
        variants: prim path -> {variant set: variant}, overrides the selections of the stage.

    Returns:
        Diagnostics with codes `openusd.<name of the error>`; empty for a valid stage.
    """
    path = Path(file)
    opening = Diagnostics() if diagnostics is None else diagnostics
    with capture_openusd_messages(path, opening):
        stage = open_stage(path, Resolver() if resolve is None else resolve, opening, variants)
        context = pxr.UsdValidation.ValidationContext(_physics_validators())
        found = context.Validate(stage)
    return [_to_diagnostic(error, str(path)) for error in found]


def _physics_validators() -> list[Any]:
    """All physics validators of the installed OpenUSD."""
    registry = pxr.UsdValidation.ValidationRegistry()
    names = sorted(m.name for m in registry.GetAllValidatorMetadata() if m.name.startswith(f"{_PLUGIN}:"))
    return [v for v in (registry.GetOrLoadValidatorByName(name) for name in names) if v]


def _to_diagnostic(error: Any, file: str) -> Diagnostic:
    kinds = pxr.UsdValidation.ValidationErrorType
    severity = {kinds.Error: Severity.ERROR, kinds.Warn: Severity.WARNING}.get(error.GetType(), Severity.NOTE)
    sites = [site.GetPrim() for site in error.GetSites() if site.IsPrim()]
    prim = str(sites[0].GetPath()) if sites else ""
    message = " ".join(str(error.GetMessage()).split()).rstrip(".")
    return Diagnostic(severity, f"openusd.{error.GetName()}", message, "", Origin(file, None, prim))
