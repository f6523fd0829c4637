"""Contacts of a built scene: arrays compacted per environment, net forces on links, and the contact capacity.

If there are more contacts than the contact buffers can hold, the deepest are kept. `ContactMonitor` reports this
overflow and adapts the capacity.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Protocol

import numpy as np

from kinema.core import Diagnostics, KinemaError
from kinema.dynamics import DEFAULT_CONTACTS_PER_FRAME_PAIR
from kinema.model import Model
from kinema.runtime import HostCopy, PeriodicReadback

from .arguments import Selection, positive_int, resolve_envs
from .built_scene import BuiltScene, HasBuiltScene
from .entity_index import geom_index_in_entity
from .state import restore_state, snapshot_state

# ------------------------------------------------------------------------------------------- contacts as arrays

CONTACT_FIELDS = {"position": (3,), "normal": (3,), "penetration": (), "force": (3,)}
"""Fields of the engine's contacts that are returned, with the shape of one contact's value."""
ALL_CONTACT_FIELDS = {
    **CONTACT_FIELDS,
    **{f"{item}_{side}": () for item in ("geom", "link", "entity") for side in ("a", "b")},
}
"""All fields of a contact with the shape of one contact's value."""


CONTACT_ALIASES = {"pos": "position", "force": "force_b", "valid": "valid_mask"}
"""Short names of arrays of contacts."""


class Contacts(dict[str, np.ndarray]):
    """Contacts of a built scene: arrays (environments, n, ...) by key or attribute; see `Scene.get_contacts`.

    The arrays of names, `entity_name_a`, `link_name_a`, `geom_name_a` and those of side `b`, are made when they are
    first read.
    """

    def __init__(self, arrays: Mapping[str, np.ndarray], model: Model) -> None:
        super().__init__(arrays)
        self._model = model

    def __getattr__(self, name: str) -> np.ndarray:
        """Array by its name."""
        try:
            return self[name]
        except KeyError:
            known = ", ".join(("n", *CONTACT_ALIASES, *self))
            raise AttributeError(f"contacts have no {name!r}; they have: {known}") from None

    def __missing__(self, key: str) -> np.ndarray:
        """Array under a short name, number of contacts, or names of the entities, links or geoms of one side.

        Names are (environments, n), "" in invalid rows.
        """
        if key in CONTACT_ALIASES:
            return self[CONTACT_ALIASES[key]]
        if key == "n":
            return self["valid_mask"].sum(axis=1)
        item, _, side = key.partition("_name_")
        if item not in ("entity", "link", "geom") or side not in ("a", "b"):
            raise KeyError(key)
        rows, model = self[f"{item}_{side}"], self._model
        if item == "entity":
            names = [entity.name for entity in model.entities]
        else:
            links = [(entity.link_start, entity.link_end) for entity in model.entities]
            of_entity = [
                [model.geoms.names[i] for i in np.flatnonzero(model.geoms.entity_idx == e).tolist()]
                if item == "geom"
                else [*model.links.names[start:end], "world"]  # index -1
                for e, (start, end) in enumerate(links)
            ]
            names = [name for group in of_entity for name in group]
            starts = np.cumsum([0, *(len(group) for group in of_entity)])
            entities = self[f"entity_{side}"]
            rows = np.where(rows < 0, starts[entities + 1] - 1, starts[entities] + rows)
        result = np.array([*names, ""], dtype=object)[np.where(self["valid_mask"], rows, len(names))]
        self[key] = result
        return result


def collect_contacts(
    built: BuiltScene,
    envs_idx: Selection = None,
    entity: int | None = None,
    other_entity: int | None = None,
    *,
    exclude_self: bool = False,
) -> Contacts:
    """Current contacts, compacted per environment: arrays (environments, n, ...) by name; see `Scene.get_contacts`.

    Args:
        built: the built scene.
        envs_idx: environments; None for all.
        entity: index of an entity; only contacts of its geoms. None for all contacts.
        other_entity: with `entity`, only contacts between both entities.
        exclude_self: with `entity`, leave out contacts between two geoms of the entity.

    Returns:
        `position` (3,) [m], `normal` (3,) (from a to b), `penetration` [m], `force_a`, `force_b` (3,) [N], `entity_a`,
            `entity_b` (index of the entity), `geom_a`, `geom_b`, `link_a`, `link_b` (indices within the entity; link -1
            is the world) and `valid_mask` (environments, n); n is the largest number of contacts in one environment,
            invalid rows are zero.
    """
    model = built.model
    active, values = _contact_entries(built, envs_idx)
    if entity is not None:
        a, b = (values[f"entity_{side}"] == entity for side in ("a", "b"))
        active &= (a ^ b) if exclude_self else (a | b)
        if other_entity is not None:
            c, d = (values[f"entity_{side}"] == other_entity for side in ("a", "b"))
            active &= (a & d) | (b & c)
    link_start = np.array([e.link_start for e in model.entities], np.int64)
    geom_of_entity = geom_index_in_entity(model)
    for side in ("a", "b"):
        link, owner = values[f"link_{side}"], values[f"entity_{side}"]
        values[f"link_{side}"] = np.where(link < 0, link, link - link_start[owner])
        values[f"geom_{side}"] = geom_of_entity[values[f"geom_{side}"]]
    return Contacts(_compact_contacts(active, values), model)


def _contact_entries(built: BuiltScene, envs_idx: Selection) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Contact buffers: mask of active entries, (entries, environments), and values of all entries by field.

    Links and geoms are numbered in the scene; link -1 is the world.
    """
    model = built.model
    _require_contacts(built)
    selected = resolve_envs(envs_idx, built.n_envs)
    envs = np.arange(built.n_envs) if selected is None else np.arange(built.n_envs)[selected]
    if not model.may_collide:
        empty = {
            name: np.zeros((0, len(envs), *item), built.arrays.dtype if item or name == "penetration" else np.int64)
            for name, item in ALL_CONTACT_FIELDS.items()
        }
        return np.zeros((0, len(envs)), np.bool_), empty
    fields = built.engine.fields.contacts
    values = {name: np.asarray(getattr(fields, name).numpy())[:, envs] for name in ("active", "pair", *CONTACT_FIELDS)}
    pair = np.maximum(values.pop("pair").astype(np.int64), 0)
    active = values.pop("active") > 0.5
    geoms = geoms_of_contacts(built, pair, envs)
    for side, geom in zip("ab", geoms, strict=True):
        values[f"geom_{side}"] = geom
        values[f"link_{side}"] = model.geoms.link_idx[geom].astype(np.int64)
        values[f"entity_{side}"] = model.geoms.entity_idx[geom].astype(np.int64)
    return active, values


def geoms_of_contacts(built: BuiltScene, pair: np.ndarray, envs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """First and second geom of each contact entry, given the indices of the geom pairs; of unused entries any."""
    model = built.model
    if model.has_pair_rules:
        both = np.asarray(built.engine.fields.contacts.geoms.numpy())[:, envs].astype(np.int64)
        return both[..., 0], both[..., 1]
    return model.pairs.geom_a[pair].astype(np.int64), model.pairs.geom_b[pair].astype(np.int64)


def net_contact_forces(built: BuiltScene, envs_idx: Selection = None) -> np.ndarray:
    """Sum of all contact forces on each link, along the world axes [N], (environments, n_links, 3)."""
    contacts = _compact_contacts(*_contact_entries(built, envs_idx))
    count = len(contacts["valid_mask"])
    total = np.zeros((count, built.model.n_links, 3), built.arrays.dtype)
    envs = np.arange(count)[:, None]
    for side in ("a", "b"):
        link = contacts[f"link_{side}"]
        valid = contacts["valid_mask"] & (link >= 0)
        np.add.at(total, (np.broadcast_to(envs, link.shape)[valid], link[valid]), contacts[f"force_{side}"][valid])
    return total


def _compact_contacts(active: np.ndarray, fields: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Move the active contacts of each environment to the front and drop rows that are inactive in all environments.

    Args:
        active: whether each contact entry is active, (entries, environments).
        fields: values by name, (entries, environments, ...); `force` is the force on b.

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


def _require_contacts(built: BuiltScene) -> None:
    """Raise `KinemaError` if contacts are disabled."""
    if not built.engine.settings.contacts:
        raise KinemaError(
            "contacts are disabled in this scene: it was created with contacts=False, or its file disables them"
        )


# --------------------------------------------------------------------------------- contact capacity and overflow

ON_OVERFLOW = ("keep", "grow")
"""Reactions to a contact overflow."""
CAPACITY_MARGIN = 1.5
"""Ratio of the contact capacity to the largest required capacity found by `ContactMonitor.calibrate`."""
OVERFLOW_COPY_INTERVAL = 32
"""Number of `step` calls on a GPU between asynchronous copies of the overflow counters, which are evaluated within the
next interval: an overflow is reported within twice as many calls."""


class MonitoredScene(HasBuiltScene, Protocol):
    """Interface of `Scene` for its contact monitor."""

    diagnostics: Diagnostics
    on_overflow: str


class ContactMonitor:
    """Contact capacity of a scene: overflow reports, growth of the capacity, and contact statistics.

    Args:
        scene: the scene.
        requested_capacity: contact capacity of the user; None for the default.
    """

    def __init__(self, scene: MonitoredScene, requested_capacity: int | None) -> None:
        self._scene = scene
        self.requested_capacity = requested_capacity
        self._readback: tuple[BuiltScene, PeriodicReadback] | None = None

    @property
    def capacity(self) -> int:
        """Contact capacity per pair of bodies, or per environment if each is solved by one warp (GPU)."""
        if self.requested_capacity is not None:
            return self.requested_capacity
        return self._scene.built.contact_capacity if self._scene.is_built else DEFAULT_CONTACTS_PER_FRAME_PAIR

    def set_capacity(self, count: int) -> None:
        """Change the contact capacity; the programs are compiled again when next needed."""
        capacity = positive_int(count, "max_contacts", "contact")
        if not self._scene.is_built:
            self.requested_capacity = capacity
        elif capacity != self.capacity:
            self.requested_capacity = capacity
            self._scene.built.engine.set_contact_capacity(capacity)

    def counter(self, name: str) -> np.ndarray:
        """Statistic of the contacts since the last reset, (n_envs,); raises `KinemaError` if contacts are disabled.

        `max_n_contacts` is the largest number of simultaneous contacts, `max_required_capacity` the sufficient capacity
        (0 if the capacity was not exceeded).
        """
        built = self._scene.built
        _require_contacts(built)
        return np.array(built.arrays.get(name)[0])

    def _max_required_capacity(self) -> int:
        return int(self.counter("max_required_capacity").max(initial=0))

    def grow_to_required_capacity(self) -> None:
        """Raise the contact capacity to the largest required capacity since the last reset."""
        required = self._max_required_capacity() if self._scene.built.engine.settings.contacts else 0
        self.set_capacity(max(self.capacity, required))

    def calibrate(self, n_steps: int, seed: int) -> int:
        """Determine the contact capacity by a trial simulation of `n_steps` steps, and return the capacity.

        If the trial needs more than the current capacity, the capacity is set to 1.5 times the required capacity. All
        environments but the first get random velocities added (`seed`); the state is restored after the trial.
        """
        built = self._scene.built
        _require_contacts(built)
        n_steps = positive_int(n_steps, "calibrate_max_contacts", "step")
        if not built.contacts_may_overflow:
            return self.capacity
        snapshot, engine = snapshot_state(built), built.engine
        velocities = np.array(engine.array_view("vel").numpy())
        velocities[:, 1:] += np.random.default_rng(seed).normal(size=velocities[:, 1:].shape)
        engine.array_view("vel").assign(velocities)
        engine.step(n_steps)
        required = self._max_required_capacity()
        restore_state(built, snapshot)
        if required > self.capacity:
            self.set_capacity(int(np.ceil(CAPACITY_MARGIN * required)))
            message = f"two bodies had {required} contacts in a trial of {n_steps} steps: the capacity is"
            self._scene.diagnostics.note("scene.contact-capacity", f"{message} {self.capacity} now")
        return self.capacity

    def check_after_step(self) -> None:
        """Report contact overflow after a call of `step`: at once on a CPU, some calls later on a GPU.

        On a GPU the counters are copied asynchronously, so that the host does not wait for the GPU.
        """
        built, engine = self._scene.built, self._scene.built.engine
        if not built.contacts_may_overflow:
            return
        if engine.device.is_cpu:
            self.report_overflow()
            return
        if self._readback is None or self._readback[0] is not built:
            self._readback = (
                built,
                PeriodicReadback(
                    lambda: HostCopy(engine.array_view("max_required_capacity"), engine.device), OVERFLOW_COPY_INTERVAL
                ),
            )
        counters = self._readback[1].poll()
        if counters is not None:
            self.report_overflow(counters[0])

    def report_overflow(self, required_capacity: np.ndarray | None = None) -> None:
        """Warn, once, that contacts exceeded the capacity of the contact buffers, with the required capacity.

        With `on_overflow="grow"` the capacity is raised, each time. `required_capacity` is given for each
        environment, by default read from the device.
        """
        built, diagnostics, capacity = self._scene.built, self._scene.diagnostics, self.capacity
        if not built.contacts_may_overflow:
            return
        required = self.counter("max_required_capacity") if required_capacity is None else required_capacity
        grows = self._scene.on_overflow == "grow"
        max_required = int(required.max(initial=0))
        if max_required <= capacity or (not grows and any(d.code == "scene.overflow" for d in diagnostics)):
            return
        scope = "" if built.engine.settings.use_warps else f" between two bodies ({capacity})"
        environments = f"{int(np.count_nonzero(required))} of {len(required)} environments"
        message = f"{environments} had more contacts than the capacity{scope}: the deepest are kept"
        if grows:
            self.set_capacity(max(2 * capacity, max_required))
            hint = f"the capacity is {self.capacity} now; Scene(max_contacts={max_required}) sets it from the start"
        else:
            hint = f"use Scene(max_contacts={max_required}), or scene.reset(grow=True)"
        diagnostics.warning("scene.overflow", message, hint=hint)
        warnings.warn(f"{message}; {hint}", RuntimeWarning, stacklevel=5)
