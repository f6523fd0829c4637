"""Signed weights with which the contacts of each geom pair enter force, touch and contact sensors.

The two frames of a pair are ordered by index, and a stored contact acts on the second. For force, torque and touch
outputs the weight is +1 if the second frame's link is measured, -1 if the first frame's link is measured, and 0 if
neither or both are. For contact outputs it is the sign that turns the stored normal into the normal from the first to
the second object of the sensor, or 0 if the pair does not match. For tactile outputs it numbers the other geoms.

This module imports little, since `arrays.py` depends on it.
"""

from __future__ import annotations

import numpy as np

from kinema.core import Array
from kinema.model import Model

from ..topology import dynamic_frames

LOAD_KINDS = ("force", "torque")
"""Outputs of the load of a link and its subtree."""
TOUCH_KINDS = ("touch",)
"""Outputs of the contacts of one link."""
CONTACT_PAIR_KINDS = ("contact",)
"""Outputs of the contacts between two objects."""
TACTILE_KINDS = ("tactile",)
"""Outputs of the points of a link."""
TACTILE_GEOM_TYPES = ("plane", "sphere", "capsule", "ellipsoid", "cylinder", "box")
"""Types of geoms that tactile sensors feel."""
TACTILE_GEOM = "tactile geom"
"""Table name of these geoms in the per-environment parameters."""


def contact_dependent_outputs(model: Model) -> list[int]:
    """Indices of the outputs that depend on contacts."""
    return [
        i
        for i, kind in enumerate(model.sensors.outputs.kinds)
        if kind in (*LOAD_KINDS, *TOUCH_KINDS, *CONTACT_PAIR_KINDS, *TACTILE_KINDS)
    ]


def pair_weights(model: Model, output: int) -> Array:
    """Weight with which contacts of each geom pair enter a contact-dependent sensor output, (n_pairs,).

    For outputs of a link or subtree: +1 if only the second geom (in frame order) belongs to it, -1 if only the first
    does. For MJCF contact sensors: the sign that orients the stored normal from the first to the second matched object.
    For tactile sensors: the position from 1 in `tactile_geoms` of the geom that touches the body of the sensor.
    """
    if model.sensors.outputs.kinds[output] in TACTILE_KINDS:
        return _tactile_pair_weights(model, output)
    info, geoms, pairs = model.sensors.outputs, model.geoms, model.pairs
    frames = dynamic_frames(model, geoms.frame_idx)
    swapped = frames[pairs.geom_a] > frames[pairs.geom_b]
    if info.kinds[output] in CONTACT_PAIR_KINDS:
        return _contact_pair_weights(model, output) * np.where(swapped, -1.0, 1.0)
    is_measured = _link_mask(model, int(info.target_idx[output]), with_subtree=info.kinds[output] in LOAD_KINDS)
    first = geoms.link_idx[np.where(swapped, pairs.geom_b, pairs.geom_a)]
    second = geoms.link_idx[np.where(swapped, pairs.geom_a, pairs.geom_b)]
    return is_measured[second].astype(np.float64) - is_measured[first].astype(np.float64)


def tactile_geoms(model: Model, output: int) -> list[int]:
    """Indices of the geoms that a tactile output can feel: of the types that have a distance function, by pair."""
    others = _touching_geoms(model, output)
    return [geom for geom in np.unique(others[others >= 0]).tolist() if model.geoms.types[geom] in TACTILE_GEOM_TYPES]


def tactile_geom_constants(model: Model, geom: int) -> dict[str, list[float]]:
    """Constants of a geom for tactile sensors: pose in its frame, and size."""
    geoms = model.geoms
    return {
        "position": geoms.pos[geom].tolist(),
        "rotation": geoms.rot[geom].ravel().tolist(),
        "size": geoms.size[geom].tolist(),
    }


def _touching_geoms(model: Model, output: int) -> np.ndarray:
    """Geom of each pair that touches the body of a tactile output, -1 if the pair is not of that body, (n_pairs,)."""
    pairs, frames = model.pairs, model.geoms.frame_idx
    frame = model.sensors.outputs.frame_idx[output, 0]
    on_first, on_second = frames[pairs.geom_a] == frame, frames[pairs.geom_b] == frame
    return np.where(on_first, pairs.geom_b, np.where(on_second, pairs.geom_a, -1))


def _tactile_pair_weights(model: Model, output: int) -> Array:
    """Position from 1 in `tactile_geoms` of the geom of each pair that touches the body of a tactile output, or 0."""
    position = {geom: float(i) for i, geom in enumerate(tactile_geoms(model, output), start=1)}
    return np.array([position.get(geom, 0.0) for geom in _touching_geoms(model, output).tolist()], np.float64)


def _link_mask(model: Model, link: int, *, with_subtree: bool) -> np.ndarray:
    """Mask of a link, optionally with its subtree, (n_links + 1,); the last entry stands for the world."""
    mask = np.zeros(model.n_links + 1, np.bool_)
    mask[link] = True
    if with_subtree:
        mask[:-1] = subtree_mask(model, link)
    return mask


def _contact_pair_weights(model: Model, output: int) -> Array:
    """Per geom pair: +1 if its geoms match the first and second object of a contact sensor, -1 if swapped, else 0."""
    pairs = model.pairs
    first, second = (
        _geom_mask(model, *contact_filter.split(" ", 2))
        for contact_filter in model.sensors.outputs.contact_filters[output]
    )
    matching = first[pairs.geom_a] & second[pairs.geom_b]
    swapped = first[pairs.geom_b] & second[pairs.geom_a]
    return np.where(matching, 1.0, np.where(swapped, -1.0, 0.0))


def _geom_mask(model: Model, scope: str, link: str, name: str) -> np.ndarray:
    """Boolean mask of the geoms that belong to one of the two objects of a contact sensor, (n_geoms,).

    Args:
        model: the model.
        scope: `any` (all geoms), `link` (geoms of a link), `tree` (geoms of a link and its subtree; all for the world)
            or `shape`.
        link: index of the link, as text.
        name: name of the geom on the link, for scope `shape`.
    """
    geoms = model.geoms
    if scope == "any":
        return np.ones(len(geoms.names), np.bool_)
    if scope == "tree" and int(link) < 0:
        return np.ones(len(geoms.names), np.bool_)
    on_link = _link_mask(model, int(link), with_subtree=scope == "tree")[geoms.link_idx]
    return on_link & (np.array(geoms.names, dtype=object) == name) if scope == "shape" else on_link


def subtree_mask(model: Model, link: int) -> np.ndarray:
    """Mask of the links in the subtree of a link, the link included, (n_links,); all links for the world (-1)."""
    result = np.zeros(model.n_links, np.bool_)
    for i in range(model.n_links):
        ancestor = i
        while ancestor >= 0 and ancestor != link:
            ancestor = int(model.links.parent_idx[ancestor])
        result[i] = ancestor == link
    return result


def supports_rules_of_collision(model: Model, output: int) -> bool:
    """Whether a contact-dependent output can be measured without a table of pairs.

    Tactile outputs number the pairs, and contact outputs that list contacts in MuJoCo's order need the rank of a pair.
    """
    info = model.sensors.outputs
    if info.kinds[output] in TACTILE_KINDS:
        return False
    return info.kinds[output] not in CONTACT_PAIR_KINDS or info.options[output][1] != "none"


def geom_weights(model: Model, output: int) -> Array:
    """Weight of each geom for a contact-dependent output of a model with rules of collision, (n_geoms,).

    For outputs of a link or subtree 1 if the geom belongs to it; for MJCF contact sensors 1 if it matches the first
    object, plus 2 if it matches the second one.
    """
    info, geoms = model.sensors.outputs, model.geoms
    if info.kinds[output] in CONTACT_PAIR_KINDS:
        first, second = (_geom_mask(model, *x.split(" ", 2)) for x in info.contact_filters[output])
        return first + 2.0 * second
    mask = _link_mask(model, int(info.target_idx[output]), with_subtree=info.kinds[output] in LOAD_KINDS)
    return mask[geoms.link_idx].astype(np.float64)


def contact_weight_table(model: Model) -> Array:
    """Weights of all pairs for each contact-dependent output, concatenated: (n_outputs * n_pairs,).

    Those of contact outputs are multiplied by the rank of the pair in MuJoCo's order of contacts, from 1. With rules of
    collision the weights of all geoms (`geom_weights`).
    """
    if model.has_pair_rules:
        rows = [geom_weights(model, i) for i in contact_dependent_outputs(model)]
        return np.concatenate(rows) if rows else np.zeros(0)
    weights = [
        pair_weights(model, i) * (1.0 + model.pairs.rank if kind in CONTACT_PAIR_KINDS else 1.0)
        for i in contact_dependent_outputs(model)
        for kind in [model.sensors.outputs.kinds[i]]
    ]
    return np.concatenate(weights) if weights else np.zeros(0)


def weight_offset(model: Model, output: int) -> int:
    """Index of the first weight of an output in `contact_weight_table`."""
    count = len(model.geoms.names) if model.has_pair_rules else len(model.pairs.geom_a)
    return contact_dependent_outputs(model).index(output) * count
