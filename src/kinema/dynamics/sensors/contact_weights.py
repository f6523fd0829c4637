"""Signed weights with which the contacts of each geom pair enter force, touch and contact sensors.

The two frames of a pair are ordered by index, and a stored contact acts on the second. For force, torque and touch
readings the weight is +1 if the second frame's link is measured, -1 if the first frame's link is measured, and 0 if
neither or both are. For contact readings it is the sign that turns the stored normal into the normal from the first to
the second object of the sensor, or 0 if the pair does not match.

This module imports little, since `arrays.py` depends on it.
"""

from __future__ import annotations

import numpy as np

from kinema.core import Array
from kinema.model import Model

LOAD_KINDS = ("force", "torque")
"""Readings of the load of a link and its subtree."""
TOUCH_KINDS = ("touch",)
"""Readings of the contacts of one link."""
CONTACT_PAIR_KINDS = ("contact",)
"""Readings of the contacts between two objects."""


def contact_dependent_readings(model: Model) -> list[int]:
    """Indices of the readings that depend on contacts."""
    return [
        i
        for i, kind in enumerate(model.sensors.readings.kinds)
        if kind in (*LOAD_KINDS, *TOUCH_KINDS, *CONTACT_PAIR_KINDS)
    ]


def pair_weights(model: Model, reading: int) -> Array:
    """Weight (+1, -1 or 0) of the contacts of each geom pair in a reading, (n_pairs,)."""
    info, geoms, pairs = model.sensors.readings, model.geoms, model.pairs
    swapped = geoms.frame_idx[pairs.geom_a] > geoms.frame_idx[pairs.geom_b]
    if info.kinds[reading] in CONTACT_PAIR_KINDS:
        return _contact_pair_weights(model, reading) * np.where(swapped, -1.0, 1.0)
    is_measured = _link_mask(model, int(info.target_idx[reading]), with_subtree=info.kinds[reading] in LOAD_KINDS)
    first = geoms.link_idx[np.where(swapped, pairs.geom_b, pairs.geom_a)]
    second = geoms.link_idx[np.where(swapped, pairs.geom_a, pairs.geom_b)]
    return is_measured[second].astype(np.float64) - is_measured[first].astype(np.float64)


def _link_mask(model: Model, link: int, *, with_subtree: bool) -> np.ndarray:
    """Mask of a link, optionally with its subtree, (n_links + 1,); the last entry stands for the world."""
    mask = np.zeros(model.n_links + 1, np.bool_)
    mask[link] = True
    if with_subtree:
        mask[:-1] = subtree_mask(model, link)
    return mask


def _contact_pair_weights(model: Model, reading: int) -> Array:
    """+1 for pairs whose geoms match the first and second filter of a contact sensor, -1 if swapped, else 0."""
    pairs = model.pairs
    first, second = (
        _geom_mask(model, *contact_filter.split(" ", 2))
        for contact_filter in model.sensors.readings.contact_filters[reading]
    )
    matching = first[pairs.geom_a] & second[pairs.geom_b]
    swapped = first[pairs.geom_b] & second[pairs.geom_a]
    return np.where(matching, 1.0, np.where(swapped, -1.0, 0.0))


def _geom_mask(model: Model, scope: str, link: str, name: str) -> np.ndarray:
    """Mask of the geoms that match one filter of a contact sensor.

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


def contact_weight_table(model: Model) -> Array:
    """Weights of all pairs for each contact-dependent reading, concatenated: (n_readings * n_pairs,)."""
    weights = [pair_weights(model, i) for i in contact_dependent_readings(model)]
    return np.concatenate(weights) if weights else np.zeros(0)


def weight_offset(model: Model, reading: int) -> int:
    """Index of the first weight of a reading in `contact_weight_table`."""
    return contact_dependent_readings(model).index(reading) * len(model.pairs.geom_a)
