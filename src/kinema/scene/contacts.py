"""What touches what, as a list for each environment."""

from __future__ import annotations

from typing import Any

import numpy as np

from kinema.foundation import KinemaError

from .batches import environments
from .running import Running


def contacts_of(
    running: Running,
    envs_idx: Any = None,
    links: range | None = None,
    others: range | None = None,
    *,
    alone: bool = False,
) -> dict[str, np.ndarray]:
    """All contacts now, or those of some links; see `Scene.get_contacts`.

    Args:
        running: the scene.
        envs_idx: which environments; None for all.
        links: only those of these links; None for all.
        others: of these only those with these others; None for all.
        alone: not those of these links with each other.
    """
    engine, model = running.engine, running.model
    if not engine.settings.contacts:
        raise KinemaError(
            "nothing touches in this scene: it was made with contacts=False, or its file switches them off"
        )
    chosen = environments(envs_idx, running.n_envs)
    envs = np.arange(running.n_envs) if chosen is None else np.arange(running.n_envs)[chosen]
    if not len(model.pairs.geom_a):
        return _packed(
            np.zeros((0, len(envs)), bool), {name: np.zeros((0, len(envs), *item)) for name, item in NOTHING.items()}
        )
    space = engine.fields.contacts
    found = {name: np.asarray(getattr(space, name).numpy())[:, envs] for name in ("active", "pair", *ITEMS)}
    pair = np.maximum(found.pop("pair").astype(np.int64), 0)
    active = found.pop("active") > 0.5
    for side, geoms in (("a", model.pairs.geom_a), ("b", model.pairs.geom_b)):
        found[f"geom_{side}"] = geoms[pair]
        found[f"link_{side}"] = model.geoms.link_idx[geoms[pair]]
    if links is not None:
        a, b = (np.isin(found[f"link_{side}"], links) for side in ("a", "b"))
        active &= (a ^ b) if alone else (a | b)
        if others is not None:
            c, d = (np.isin(found[f"link_{side}"], others) for side in ("a", "b"))
            active &= (a & d) | (b & c)
    return _packed(active, found)


def net_forces(running: Running, envs_idx: Any = None) -> np.ndarray:
    """The sum of all contact forces on each link [N], (n_envs, n_links, 3)."""
    found = contacts_of(running, envs_idx)
    count = len(found["valid_mask"])
    total = np.zeros((count, running.model.n_links, 3), running.memory.dtype)
    envs = np.arange(count)[:, None]
    for side in ("a", "b"):
        link = found[f"link_{side}"].astype(np.int64)
        counts = found["valid_mask"] & (link >= 0)
        np.add.at(total, (np.broadcast_to(envs, link.shape)[counts], link[counts]), found[f"force_{side}"][counts])
    return total


ITEMS = {"position": (3,), "normal": (3,), "penetration": (), "force": (3,)}
"""Fields that are told as they are."""
NOTHING = {**ITEMS, **{f"{what}_{side}": () for what in ("geom", "link") for side in ("a", "b")}}
"""All that is told of a contact."""


def _packed(active: np.ndarray, found: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Without the empty places: environments first, and as many rows as the one with most contacts has."""
    most = int(active.sum(axis=0).max(initial=0))
    order = np.argsort(~active, axis=0, kind="stable")[:most]
    valid = np.take_along_axis(active, order, axis=0)

    def listed(values: np.ndarray) -> np.ndarray:
        index = order.reshape(*order.shape, *(1,) * (values.ndim - 2))
        taken = np.take_along_axis(values, index, axis=0)
        taken[~valid] = 0
        return np.moveaxis(taken, 1, 0)

    result = {name: listed(values) for name, values in found.items() if name != "force"}
    force = listed(found["force"])
    return {**result, "force_a": -force, "force_b": force, "valid_mask": valid.T.copy()}
