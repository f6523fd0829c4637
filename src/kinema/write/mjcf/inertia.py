"""Masses and inertias that MuJoCo accepts: those of real bodies, and of every body that moves."""

from __future__ import annotations

import numpy as np

from kinema.description import (
    Box,
    Capsule,
    Cylinder,
    Ellipsoid,
    Inertial,
    Link,
    Plane,
    Shape,
    Sphere,
    combined_inertial,
    geometry_mass,
)
from kinema.foundation import Array, quaternion_to_matrix
from kinema.words import mjcf

from ..text import Element, number, numbers
from .body_plan import BodyPlan
from .numbers import NOISE, vector_text
from .writing import Writing

TINY_MASS = 1e-6
"""Of a body that must have a mass to move [kg]."""
TINY_INERTIA = 1e-9
"""Of the same [kg m2]."""
_LEAST_MASS = 1e-14
"""Below this [kg] MuJoCo takes a body for one without mass, with some distance."""
_ROUNDING = 1e-11
"""Relative error of MuJoCo's own diagonalisation, from above."""
_SOLIDS = (Box, Capsule, Cylinder, Ellipsoid, Sphere)


def write_inertial(writing: Writing, body: BodyPlan, parent: Element) -> None:
    """The `<inertial>` of a body, into its element; none where MuJoCo finds the same from the geoms."""
    link = body.link
    inertial = None if link is None else link.inertial
    if inertial is None or not _is_usable(inertial):
        if link is not None and inertial is not None:
            writing.drop(link, "its inertia", "its numbers are no mass and inertia at all")
        if needs_mass(body):
            _tiny(writing, body, parent)
        return
    assert link is not None  # it has an inertia
    axes = writing.take(link, mjcf.INERTIA_AXES)
    if link.inertial_is_computed:
        if comes_from_geoms(writing, link):
            return
        how = "the numbers that follow from them are written"
        writing.approximate(link, "that its inertia is computed from its shapes", how)
    inertial = _acceptable(writing, body, link, inertial)
    element = parent.child("inertial", mass=number(inertial.mass), pos=vector_text(inertial.center))
    matrix = inertial.inertia
    if axes is not None:
        turn = quaternion_to_matrix(axes)
        moments = np.diag(turn.T @ matrix @ turn)
        element.set({"quat": numbers(axes), "diaginertia": numbers(moments.tolist())})
        return
    noise = NOISE * float(np.abs(matrix).max())
    products = (float(matrix[0, 1]), float(matrix[0, 2]), float(matrix[1, 2]))
    off_diagonal = [p if abs(p) > noise else 0.0 for p in products]
    if any(off_diagonal):
        element.set({"fullinertia": numbers([*np.diag(matrix).tolist(), *off_diagonal])})
    else:
        element.set({"diaginertia": numbers(np.diag(matrix).tolist())})


def _is_usable(inertial: Inertial) -> bool:
    numbers_given = [inertial.mass, *inertial.center.tolist(), *inertial.inertia.ravel().tolist()]
    return bool(np.isfinite(numbers_given).all()) and inertial.mass > _LEAST_MASS


def needs_mass(body: BodyPlan) -> bool:
    """Whether MuJoCo refuses a body without a mass: it moves, and nothing heavy is fixed to it."""
    if not body.parts:
        return False
    stack = [body]
    while stack:
        current = stack.pop()
        if current.link is not None and current.link.inertial is not None and _is_usable(current.link.inertial):
            return False
        stack += [child for child in current.children if not child.moves]
    return True


def _tiny(writing: Writing, body: BodyPlan, parent: Element) -> None:
    parent.child("inertial", mass=number(TINY_MASS), pos="0 0 0", diaginertia=numbers([TINY_INERTIA] * 3))
    if body.link is not None:
        how = f"MuJoCo wants every body that moves to have one; {TINY_MASS:g} kg and {TINY_INERTIA:g} kg m2 are written"
        writing.approximate(body.link, "that it has no mass", how)


# -- inertias of no real body -----------------------------------------------------------------------------------------


def _acceptable(writing: Writing, body: BodyPlan, link: Link, inertial: Inertial) -> Inertial:
    """The inertia, or the nearest one that MuJoCo takes."""
    matrix = (inertial.inertia + inertial.inertia.T) / 2
    is_diagonal = not (matrix[0, 1] or matrix[0, 2] or matrix[1, 2])
    values, axes = (np.diag(matrix).copy(), np.eye(3)) if is_diagonal else np.linalg.eigh(matrix)
    slack = 0.0 if is_diagonal else _ROUNDING * float(np.abs(values).max())
    mended = _physical(values, slack, must_be_positive=bool(body.parts) or not is_diagonal)
    if np.array_equal(mended, values):
        return Inertial(inertial.mass, inertial.center, matrix)
    if float(np.abs(mended - values).max()) > 1e-9 * float(np.abs(values).max()):
        before, after = (", ".join(f"{v:.6g}" for v in moments) for moments in (values, mended))
        how = f"no real body has the principal moments {before} kg m2; {after} are written, which MuJoCo takes"
        writing.approximate(link, "its inertia", how)
    return Inertial(inertial.mass, inertial.center, axes @ np.diag(mended) @ axes.T)


def _physical(values: Array, slack: float, *, must_be_positive: bool) -> Array:
    """Principal moments as near to the given ones as can be, none of them more than the others together."""
    result = values.copy()
    floor = max(1e-6 * float(result.max()), TINY_INERTIA * 1e-3) if must_be_positive else 0.0
    if float(result.max()) <= 0.0 and must_be_positive:
        return np.full(3, TINY_INERTIA)
    if float(result.min()) <= (1e-14 if must_be_positive else -1e-300):
        result = np.maximum(result, floor)
    for _ in range(50):
        largest = int(np.argmax(result))
        others = [i for i in range(3) if i != largest]
        excess = float(result[largest] - result[others].sum())
        if excess <= -slack or (slack == 0.0 and result[others[0]] + result[others[1]] >= result[largest]):
            return result
        step = (excess + 2 * slack) / 3 * (1 + 1e-12) + 1e-300
        result[others] += step
        result[largest] -= step
    return np.full(3, float(result.mean()))


# -- inertias that MuJoCo finds by itself -----------------------------------------------------------------------------


def comes_from_geoms(writing: Writing, link: Link) -> bool:
    """Whether the inertia is what MuJoCo would find from the link's own geoms."""
    if link.inertial is None or not link.inertial_is_computed:
        return False
    if any(s.attributes.get(mjcf.key(mjcf.SHELLINERTIA)) for s in link.shapes):
        return False
    parts = []
    for shape in link.shapes:
        density = solid_density(shape)
        if density is None or id(shape) not in writing.geoms:
            return False
        mass = geometry_mass(shape.geometry, density) if density > 0 else None
        if mass is not None:
            parts.append((mass, shape.pose))
    found = combined_inertial(parts)
    if found is None:
        return False
    scale = float(np.abs(link.inertial.inertia).max())
    return (
        abs(found.mass - link.inertial.mass) <= 1e-12 * link.inertial.mass
        and float(np.abs(found.center - link.inertial.center).max()) <= 1e-12
        and float(np.abs(found.inertia - link.inertial.inertia).max()) <= 1e-12 * scale
    )


def solid_density(shape: Shape) -> float | None:
    """The density that a geom brings its mass with, where that is told: by a density or a mass; None elsewhere."""
    if shape.mass == 0.0 or shape.density == 0.0:
        return 0.0
    if not isinstance(shape.geometry, _SOLIDS):
        return 0.0 if isinstance(shape.geometry, Plane) else None
    if shape.mass is not None:
        unit = geometry_mass(shape.geometry, 1.0)
        return None if unit is None else shape.mass / unit.mass
    return shape.density
