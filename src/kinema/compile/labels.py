"""What messages call a shape that may have no name."""

from __future__ import annotations

from collections.abc import Sequence

from kinema.description import Shape, World

from .draft import Body, Draft


def shape_label(draft: Draft, shape: Shape, body: Body | None) -> str:
    """A shape by its name or, as many have none, by its number on its link; `body` is None for what never moves."""
    if shape.name and not shape.name_is_generated:
        return f'shape "{shape.name}"'
    if body is not None:
        return f'shape {_number(body.link.shapes, shape)} of link "{body.link.name}"'
    worlds = [part.description for part in draft.parts if isinstance(part.description, World)]
    number = next((n for world in worlds if (n := _number(world.shapes, shape))), 0)
    return f"shape {number} of the world"


def _number(shapes: Sequence[Shape], shape: Shape) -> int:
    """Counted from 1; 0 where it is not among them."""
    return next((i for i, other in enumerate(shapes, 1) if other is shape), 0)
