"""The numbers that shapes, pairs of them and frames with them have in the tables of what touches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from kinema.foundation import Array
from kinema.model import ABSENT, Model

from ..arrays import UNLIMITED
from ..constrain.impedance import sound
from ..settings import Settings
from .boxes_around import mesh_box
from .planned import PlannedSet

HARDEST = 3e2
"""How much more than what they move contacts may resist in single precision: they give way by this part of what they
should hold."""
WEIGHTS = ("weight", "hardest")
"""Those of a pair that follow from masses."""
Numbers = dict[str, list[Any]]


def geom_numbers(model: Model, geom: int) -> Numbers:
    """Where a shape is in its frame."""
    return {"position": model.geoms.pos[geom].tolist(), "rotation": model.geoms.rot[geom].ravel().tolist()}


def pair_numbers(model: Model, settings: Settings, plan: PlannedSet, p: int) -> Numbers:
    """All that is known of two shapes that may touch."""
    geoms, pairs = model.geoms, model.pairs
    a, b = int(pairs.geom_a[p]), int(pairs.geom_b[p])
    weight = float(pairs.weight[p, 0])
    return {
        "a size": geoms.size[a].tolist(),
        "b size": geoms.size[b].tolist(),
        "a numbers": [float(x) for x in (geoms.first_number[a], *geoms.counts[a], _extent(model, a))],
        "b numbers": [float(x) for x in (geoms.first_number[b], *geoms.counts[b], _extent(model, b))],
        "a box": mesh_box(model, a),
        "b box": mesh_box(model, b),
        "a center": geoms.center[a].tolist(),
        "b center": geoms.center[b].tolist(),
        "a radius": [min(float(geoms.radius[a]), UNLIMITED)],
        "b radius": [min(float(geoms.radius[b]), UNLIMITED)],
        "margin": [float(pairs.margin[p])],
        "force margin": [float(pairs.margin[p] - pairs.gap[p])],
        "friction": pairs.friction[p].tolist(),
        "per ratio": [model.options.impratio**-0.5],
        "weight": [weight],
        "hardest": [hardest_of(settings, plan, weight)],
        "solref": list(sound(pairs.solref[p].tolist())),
        "solref of sliding": list(sound(pairs.solref_friction[p].tolist())),
        "solimp": pairs.solimp[p].tolist(),
        "sign": [1.0 if int(geoms.frame_idx[a]) == plan.frames[0] else -1.0],
        "pair": [float(p + 1)],
        "lively": [float(x[p]) for x in (pairs.restitution, pairs.bounce_speed, pairs.stick)],
    }


def pair_columns(
    model: Model, settings: Settings, plans: Sequence[PlannedSet], of: npt.NDArray[np.intp], p: npt.NDArray[np.intp]
) -> dict[str, Any]:
    """The same of many pairs, by column; `of` says which of some sets each is of."""
    geoms, pairs, n = model.geoms, model.pairs, len(p)
    a, b = pairs.geom_a[p], pairs.geom_b[p]
    every = range(len(geoms.names))
    extents = np.array([_extent(model, g) for g in every])
    numbers = np.column_stack([geoms.first_number, geoms.counts, extents]).astype(np.float64)
    boxes = np.array([mesh_box(model, g) for g in every], np.float64)
    radii = np.minimum(geoms.radius, UNLIMITED)[:, None]
    weights = pairs.weight[p, 0]
    first = np.array([plan.frames[0] for plan in plans])[of]
    coarse = np.array([hardest_of(settings, plan, 1.0) != UNLIMITED for plan in plans])[of]
    return {
        "a size": geoms.size[a],
        "b size": geoms.size[b],
        "a numbers": numbers[a],
        "b numbers": numbers[b],
        "a box": boxes[a],
        "b box": boxes[b],
        "a center": geoms.center[a],
        "b center": geoms.center[b],
        "a radius": radii[a],
        "b radius": radii[b],
        "margin": pairs.margin[p, None],
        "force margin": (pairs.margin - pairs.gap)[p, None],
        "friction": pairs.friction[p],
        "per ratio": np.full((n, 1), model.options.impratio**-0.5),
        "weight": weights[:, None],
        "hardest": np.where(coarse, HARDEST / np.where(coarse, weights, 1.0), UNLIMITED)[:, None],
        "solref": _sound(pairs.solref[p]),
        "solref of sliding": _sound(pairs.solref_friction[p]),
        "solimp": pairs.solimp[p],
        "sign": np.where(geoms.frame_idx[a] == first, 1.0, -1.0)[:, None],
        "pair": (p + 1.0)[:, None],
        "lively": np.column_stack([x[p] for x in (pairs.restitution, pairs.bounce_speed, pairs.stick)]),
    }


def _sound(solrefs: Array) -> Array:
    """`sound` of many, most of which are the same."""
    different, number = np.unique(solrefs, axis=0, return_inverse=True)
    return np.array([sound(x.tolist()) for x in different], np.float64)[number.ravel()]


def _extent(model: Model, geom: int) -> float:
    """How far a mesh reaches from its own origin, at most."""
    geoms = model.geoms
    return float(min(geoms.radius[geom] + (geoms.center[geom] ** 2).sum() ** 0.5, UNLIMITED))


def hardest_of(settings: Settings, plan: PlannedSet, weight: Any) -> Any:
    """Pyramids are the harder the less friction there is: no harder than single precision can factorise."""
    is_coarse = settings.is_coarse and plan.kind.dimension > 1 and not plan.kind.elliptic
    return HARDEST / weight if is_coarse else UNLIMITED


def set_numbers(model: Model, plan: PlannedSet) -> Numbers:
    """Spheres around what two frames have that may touch; none where it does not pay to look at the frames first."""
    if len(plan.pairs) <= 2:
        return {}
    numbers: Numbers = {"margin": [float(max(model.pairs.margin[plan.pairs]))]}
    for word, frame in zip(("a ", "b "), plan.frames, strict=True):
        center, radius = _sphere_of(model, plan, frame)
        numbers |= {f"{word}center": center, f"{word}radius": [min(radius, UNLIMITED)]}
    return numbers


def _sphere_of(model: Model, plan: PlannedSet, frame: int) -> tuple[list[float], float]:
    """A sphere around the shapes of a frame that a set speaks of."""
    geoms, pairs = model.geoms, model.pairs
    own = {int(g) for p in plan.pairs for g in (pairs.geom_a[p], pairs.geom_b[p]) if geoms.frame_idx[g] == frame}
    centers = {g: geoms.pos[g] + geoms.rot[g] @ geoms.center[g] for g in own if geoms.radius[g] != ABSENT}
    if not centers:
        return [0.0, 0.0, 0.0], ABSENT
    middle = np.mean(list(centers.values()), axis=0)
    radius = max(float(geoms.radius[g]) + float(((centers[g] - middle) ** 2).sum() ** 0.5) for g in centers)
    return middle.tolist(), radius
