"""Shapes to gprims in their place, with looks, surfaces and what they collide as."""

from __future__ import annotations

from kinema.description import Shape
from kinema.foundation import Pose
from kinema.words import mjc, ours, physics, usd

from ..report import Action
from .draft import PrimDraft
from .geometry import NoGeometry, author_geometry, solid_of
from .names import author_name, give_back
from .writing import Writing


def author_shape(writing: Writing, parent: str, shape: Shape, *, moves: bool) -> PrimDraft | None:
    """A shape below a prim; None, on record, for one that cannot be written.

    Args:
        writing: this run.
        parent: the path of the link, or of the scenery.
        shape: the shape.
        moves: whether it is on a body.
    """
    try:
        solid = solid_of(writing, shape, moves=moves)
    except NoGeometry as error:
        writing.lose(Action.DROPPED, shape, f"the {shape.kind}", str(error))
        return None
    path = writing.plan.names.child(parent, shape.name, _role(shape))
    prim = writing.draft.prim(path, solid.prim_type)
    writing.plan.shapes[id(shape)] = path
    author_name(writing, prim, shape)
    offset = Pose() if solid.offset is None else Pose.translation(solid.offset)
    prim.place(shape.pose @ offset, solid.scale)
    author_geometry(writing, shape, solid, prim)
    _collision(writing, shape, prim)
    writing.materials.bind(prim, shape, solid.appearance)
    if shape.group:
        prim.apply(mjc.IMAGEABLE_API)
        prim.set(mjc.GROUP, "int", shape.group, uniform=True)
    give_back(writing, prim, shape)
    return prim


def _role(shape: Shape) -> str:
    """What a nameless shape is called."""
    if shape.visual and shape.collision:
        return "shape"
    return "visual" if shape.visual else "collision"


def _collision(writing: Writing, shape: Shape, prim: PrimDraft) -> None:
    if not shape.collision:
        if not shape.visual:  # a tendon may wrap around it
            prim.set(usd.PURPOSE, "token", "guide", uniform=True)
            prim.keep(ours.UNSEEN, True)
            how = "it is a guide, which others may leave out"
            writing.lose(Action.EXTENSION, shape, "that it is there although it is neither seen nor touched", how)
        return
    prim.apply(physics.COLLISION_API)
    if not shape.visual:
        prim.set(usd.PURPOSE, "token", "guide", uniform=True)
    if not shape.enabled or writing.filters.is_off(shape):
        prim.set(physics.COLLISION_ENABLED, "bool", False)
    if shape.mass is not None or shape.density is not None:
        prim.apply(physics.MASS_API)
        if shape.mass is not None:
            prim.number(physics.MASS, "float", shape.mass)
        if shape.density is not None:
            prim.number(physics.DENSITY, "float", shape.density)
