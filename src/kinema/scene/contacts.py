"""Contacts of a built scene as arrays compacted per environment, and net contact forces on links."""

from __future__ import annotations

from typing import Any

import numpy as np

from kinema.core import KinemaError

from .arguments import resolve_envs
from .built_scene import BuiltScene


def collect_contacts(
    built: BuiltScene,
    envs_idx: Any = None,
    links: range | None = None,
    other_links: range | None = None,
    *,
    exclude_self: bool = False,
) -> dict[str, np.ndarray]:
    """Current contacts, compacted per environment: arrays (environments, n, ...) by name; see `Scene.get_contacts`.

    Args:
        built: the built scene.
        envs_idx: environments; None for all.
        links: link indices of the scene; only contacts that involve at least one of these links. None for all contacts.
        other_links: with `links`, only contacts between a link of `links` and a link of `other_links`.
        exclude_self: with `links`, leave out contacts between two links of `links`.

    Returns:
        `position` (3,) [m], `normal` (3,) (from a to b), `penetration` [m], `force_a`, `force_b` (3,) [N], `geom_a`,
            `geom_b`, `link_a`, `link_b` (indices; -1 for the world) and `valid_mask` (environments, n); n is the
            largest number of contacts in one environment, invalid rows are zero.
    """
    engine, model = built.engine, built.model
    if not engine.settings.contacts:
        raise KinemaError(
            "contacts are disabled in this scene: it was created with contacts=False, or its file disables them"
        )
    selected = resolve_envs(envs_idx, built.n_envs)
    envs = np.arange(built.n_envs) if selected is None else np.arange(built.n_envs)[selected]
    if not len(model.pairs.geom_a):
        return _compact_contacts(
            np.zeros((0, len(envs)), bool),
            {name: np.zeros((0, len(envs), *item)) for name, item in ALL_CONTACT_FIELDS.items()},
        )
    fields = engine.fields.contacts
    values = {name: np.asarray(getattr(fields, name).numpy())[:, envs] for name in ("active", "pair", *CONTACT_FIELDS)}
    pair = np.maximum(values.pop("pair").astype(np.int64), 0)
    active = values.pop("active") > 0.5
    for side, geoms in (("a", model.pairs.geom_a), ("b", model.pairs.geom_b)):
        values[f"geom_{side}"] = geoms[pair]
        values[f"link_{side}"] = model.geoms.link_idx[geoms[pair]]
    if links is not None:
        a, b = (np.isin(values[f"link_{side}"], links) for side in ("a", "b"))
        active &= (a ^ b) if exclude_self else (a | b)
        if other_links is not None:
            c, d = (np.isin(values[f"link_{side}"], other_links) for side in ("a", "b"))
            active &= (a & d) | (b & c)
    return _compact_contacts(active, values)


def net_contact_forces(built: BuiltScene, envs_idx: Any = None) -> np.ndarray:
    """Sum of all contact forces on each link, along the world axes [N], (environments, n_links, 3)."""
    contacts = collect_contacts(built, envs_idx)
    count = len(contacts["valid_mask"])
    total = np.zeros((count, built.model.n_links, 3), built.arrays.dtype)
    envs = np.arange(count)[:, None]
    for side in ("a", "b"):
        link = contacts[f"link_{side}"].astype(np.int64)
        valid = contacts["valid_mask"] & (link >= 0)
        np.add.at(total, (np.broadcast_to(envs, link.shape)[valid], link[valid]), contacts[f"force_{side}"][valid])
    return total


CONTACT_FIELDS = {"position": (3,), "normal": (3,), "penetration": (), "force": (3,)}
"""Fields of the engine's contacts that are returned, with the shape of one contact's value."""
ALL_CONTACT_FIELDS = {**CONTACT_FIELDS, **{f"{item}_{side}": () for item in ("geom", "link") for side in ("a", "b")}}
"""All fields of a contact with the shape of one contact's value."""


def _compact_contacts(active: np.ndarray, fields: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Move the active contacts of each environment to the front and drop rows that are inactive in all environments.

    Args:
        active: whether each contact slot is active, (slots, environments).
        fields: values by name, (slots, environments, ...); `force` is the force on b.

    Returns:
        Arrays (environments, n, ...) with n the largest number of active contacts; `force_a` and `force_b` instead of
            `force`, and `valid_mask` (environments, n). Invalid rows are zero.
    """
    n_max = int(active.sum(axis=0).max(initial=0))
    order = np.argsort(~active, axis=0, kind="stable")[:n_max]
    valid = np.take_along_axis(active, order, axis=0)

    def compact(values: np.ndarray) -> np.ndarray:
        index = order.reshape(*order.shape, *(1,) * (values.ndim - 2))
        rows = np.take_along_axis(values, index, axis=0)
        rows[~valid] = 0
        return np.moveaxis(rows, 1, 0)

    result = {name: compact(values) for name, values in fields.items() if name != "force"}
    force = compact(fields["force"])
    return {**result, "force_a": -force, "force_b": force, "valid_mask": valid.T.copy()}
