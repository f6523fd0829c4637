"""Which contacts matter to a sensor: a number for each pair of shapes, in one array for all sensors that feel contacts.

The two frames of a pair are in the order of their numbers. 1 for a contact that pushes the second one's link where
that is what is measured, -1 for the first one's, 0 for one that pushes neither or both. Of contact sensors, 1 where the
normal goes from the first frame to the second, as the sensor tells it, and -1 where it goes the other way.
"""

from __future__ import annotations

import numpy as np

from kinema.foundation import Array
from kinema.model import Model

LOADS = ("force", "torque")
"""What a link and all that hangs on it bear."""
TOUCHED = ("touch",)
"""What a link alone bears."""
BETWEEN = ("contact",)
"""What there is between two things."""


def readings_with_contacts(model: Model) -> list[int]:
    """The readings that feel contacts."""
    return [i for i, kind in enumerate(model.sensors.readings.kinds) if kind in (*LOADS, *TOUCHED, *BETWEEN)]


def weights_of(model: Model, reading: int) -> Array:
    """Of all pairs."""
    info, geoms, pairs = model.sensors.readings, model.geoms, model.pairs
    swapped = geoms.frame_idx[pairs.geom_a] > geoms.frame_idx[pairs.geom_b]
    if info.kinds[reading] in BETWEEN:
        return _between(model, reading) * np.where(swapped, -1.0, 1.0)
    own = _links(model, int(info.item[reading]), carried=info.kinds[reading] in LOADS)
    first = geoms.link_idx[np.where(swapped, pairs.geom_b, pairs.geom_a)]
    second = geoms.link_idx[np.where(swapped, pairs.geom_a, pairs.geom_b)]
    return own[second].astype(np.float64) - own[first].astype(np.float64)


def _links(model: Model, link: int, *, carried: bool) -> np.ndarray:
    """Which links are meant; the last one is the world."""
    own = np.zeros(model.n_links + 1, np.bool_)
    own[link] = True
    if carried:
        own[:-1] = hanging_on(model, link)
    return own


def _between(model: Model, reading: int) -> Array:
    """1 where the first shape of a pair is the first thing of a sensor and so on, -1 where they are the other way."""
    pairs = model.pairs
    one, other = (_shapes(model, *about.split(" ", 2)) for about in model.sensors.readings.about[reading])
    straight = one[pairs.geom_a] & other[pairs.geom_b]
    swapped = one[pairs.geom_b] & other[pairs.geom_a]
    return np.where(straight, 1.0, np.where(swapped, -1.0, 0.0))


def _shapes(model: Model, how: str, link: str, name: str) -> np.ndarray:
    """Which shapes are meant: those of a name on a link, all of a link, of it and what it carries, or any."""
    geoms = model.geoms
    if how == "any":
        return np.ones(len(geoms.names), np.bool_)
    if how == "tree" and int(link) < 0:
        return np.ones(len(geoms.names), np.bool_)
    own = _links(model, int(link), carried=how == "tree")[geoms.link_idx]
    return own & (np.array(geoms.names, dtype=object) == name) if how == "shape" else own


def hanging_on(model: Model, link: int) -> np.ndarray:
    """Which links a link carries, itself among them; the world carries all."""
    result = np.zeros(model.n_links, np.bool_)
    for i in range(model.n_links):
        above = i
        while above >= 0 and above != link:
            above = int(model.links.parent_idx[above])
        result[i] = above == link
    return result


def touch_weights(model: Model) -> Array:
    """The array."""
    found = [weights_of(model, i) for i in readings_with_contacts(model)]
    return np.concatenate(found) if found else np.zeros(0)


def first_weight(model: Model, reading: int) -> int:
    """Where those of a reading begin."""
    return readings_with_contacts(model).index(reading) * len(model.pairs.geom_a)
