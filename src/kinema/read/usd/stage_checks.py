"""What a stage says that the description does not show, and that other tools stumble over."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from kinema.description import Link, Mesh
from kinema.foundation import Array, Origin
from kinema.words import physics, usd

from . import pxr
from .articulation import marked_links
from .shapes_on_links import StageShape
from .stage_index import Body, StageIndex

_SHEAR = 1e-5
"""Cosine between two axes of a collider from which on it is sheared."""

_UNEVEN = 1e-5
"""Relative difference of scales from which on a round shape is not scaled alike."""
_ROUND = frozenset({usd.SPHERE, usd.CAPSULE, usd.CYLINDER, usd.CONE, usd.TAPERED_CAPSULE, usd.TAPERED_CYLINDER})


def check_stage(
    index: StageIndex,
    shapes: Sequence[StageShape],
    links: Mapping[str, Link],
    articulated: Mapping[str, Sequence[str]],
) -> None:
    """Say what is wrong with the stage as a stage, and put on links which articulation they are part of.

    Args:
        index: the stage.
        shapes: all shapes.
        links: by name.
        articulated: link name -> all links that joints connect with it.
    """
    _articulations(index, links, articulated)
    for path, body in index.bodies.items():
        if body.parent is not None and _stands_alone(body):
            links[body.name].attributes[usd.KEPT_RESET] = True
        if body.prim.IsInstanceProxy() and not index.copies.source(path):
            index.diagnostics.note(
                "usd.body-in-instance",
                f"body {body.name!r} is inside an instance; other tools may refuse it, or move all instances at once",
                hint="make the prim above it not instanceable",
                origin=Origin(index.file, None, path),
            )
        turned = body.scale[0, 1] or body.scale[0, 2] or body.scale[1, 2]
        if turned and _is_sheared(body.affine.linear):
            index.diagnostics.note(
                "usd.sheared-body",
                f"body {body.name!r} is sheared: scaled by a prim above it that it is turned against; its rigid frame"
                " and exact shapes are read, but other tools refuse it or get it wrong",
                hint="bake the scale above it into its shapes",
                origin=Origin(index.file, None, path),
            )
    for part in shapes:
        kind = index.values.facts(part.prim).kind.type
        if part.shape.collision and kind in _ROUND and _is_uneven(part):
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


def _stands_alone(body: Body) -> bool:
    """Whether a transform is reset between the body and the one around it, so that the latter does not move it."""
    prim = body.prim
    while prim and str(prim.GetPath()) != body.parent:
        if pxr.UsdGeom.Xformable(prim).GetResetXformStack():
            return True
        prim = prim.GetParent()
    return False


def _is_uneven(part: StageShape) -> bool:
    lengths = np.linalg.norm(part.into_link.linear, axis=0)
    return bool(lengths.max() - lengths.min() > _UNEVEN * lengths.max()) or _is_sheared(part.into_link.linear)


def _is_sheared(linear: Array) -> bool:
    lengths = np.linalg.norm(linear, axis=0)
    if not lengths.all() or not np.isfinite(lengths).all():
        return False
    unit = linear / lengths
    return bool(np.abs(unit.T @ unit - np.eye(3)).max() > _SHEAR)


# -- articulations ----------------------------------------------------------------------------------------------------


def _articulations(index: StageIndex, links: Mapping[str, Link], articulated: Mapping[str, Sequence[str]]) -> None:
    roots = {index.values.facts(prim).path: prim for prim in index.articulations}
    marked = marked_links(index)
    for path, prim in roots.items():
        _complain_of_root(index, prim, path, roots)
        inside = marked[path]
        for group in {id(g): g for g in (articulated.get(link, (link,)) for link in inside)}.values():
            for name in group:
                links[name].attributes.setdefault(usd.KEPT_ARTICULATION, path)


def _complain_of_root(index: StageIndex, prim: pxr.Prim, path: str, roots: Mapping[str, pxr.Prim]) -> None:
    facts = index.values.facts(prim)
    if physics.RIGID_BODY_API in facts.schemas and path not in index.bodies:
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
