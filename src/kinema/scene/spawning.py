"""Entities that are placed in and removed from environments at run time, without compilation: `Scene.spawn`, `remove`.

A scene has room for a fixed number of copies of its entities (`Scene.build(room=...)`), which are entities like any
other. In each environment, an entity is present or absent; the state array `present` of the engine says which.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Protocol

import numpy as np

from kinema.builder import AttachmentSpec, EntitySpec, SuctionCupSpec
from kinema.core import KinemaError, quaternion_to_matrix, unique_name
from kinema.dynamics import (
    ARRAYS,
    PRESENT_ARRAY,
    ArrayInfo,
    ArrayUse,
    ElementKind,
    Engine,
    dynamic_frames,
    initial_values,
    trees_of_entity,
)
from kinema.model import Model

from .arguments import IndexArray, Selection, as_batch, check_finite, resolve_envs
from .arrays import component_rows
from .built_scene import BuiltScene
from .entity import Entity
from .presence import entity_presence, set_entity_presence
from .sleep import wake_trees

STOPPED_ARRAYS = ("vel", "warm_start", "dof_force_applied", "cfrc_applied_ang", "cfrc_applied_vel")
"""Arrays that are zero for removed entities."""


class Rebuilder(Protocol):
    """Interface of `SceneBuilder` for spawning."""

    presence: bool
    reserved: tuple[int, ...]

    def recompile(self, message: str, hint: str) -> None:
        """Build the scene again, keep its state, and report a message."""
        ...


class AttachmentsOfScene(Protocol):
    """Interface of `Attachments` for spawning."""

    specs: list[AttachmentSpec]
    cups: list[SuctionCupSpec]


class SceneWithRoom(Protocol):
    """Interface of `Scene` for spawning."""

    entities: list[Entity]
    _entity_specs: list[EntitySpec]
    _entity_names: set[str]

    @property
    def _attachments(self) -> AttachmentsOfScene:
        """Reserved attachments and suction cups."""
        ...

    @property
    def _builder(self) -> Rebuilder:
        """Builds the scene again."""
        ...

    @property
    def built(self) -> BuiltScene:
        """The built scene; raises `KinemaError` before `build`."""
        ...


class Spawning:
    """Copies of entities for which a scene has room, and the presence of all entities in the environments."""

    def __init__(self, scene: SceneWithRoom) -> None:
        self._scene = scene
        self._copies: dict[int, list[int]] = {}
        """Copies of each entity, by their numbers in the scene."""

    # ----------------------------------------------------------------------------------------------------------- room

    def reserve(self, room: Any) -> Callable[[], None]:
        """Add the copies of `Scene.build(room=...)` to the entities of a scene that is not built.

        Returns a function that takes them out again, for a build that fails.
        """
        scene, builder = self._scene, self._scene._builder
        count, names = len(scene.entities), set(scene._entity_names)

        def undo() -> None:
            del scene.entities[count:], scene._entity_specs[count:]
            scene._entity_names.clear()
            scene._entity_names.update(names)
            self._copies.clear()
            builder.presence, builder.reserved = False, ()

        if room is None:
            return undo
        counts = self._parse_room(room)
        for original, n_copies in counts.items():
            self._copies[original] = [self._add_copy(original, i + 1) for i in range(n_copies)]
        builder.presence = True
        builder.reserved = tuple(range(count, len(scene.entities)))
        return undo

    def _parse_room(self, room: Any) -> dict[int, int]:
        """Number of copies of each entity, by its number in the scene."""
        entities = self._scene.entities
        if not isinstance(room, Mapping):
            count = _count(room, "build: room")
            return {i: count for i, entity in enumerate(entities) if _is_free_body(entity) and count}
        counts: dict[int, int] = {}
        for entity, value in room.items():
            number = self._number_of(entity, "build: room")
            if entity._index.variants is not None:
                raise KinemaError(f'build: room: "{entity.name}" has variants: add copies of it with scene.add')
            _check_free(entity._index.model, 0, entity.name, "build: room")
            counts[number] = _count(value, f'build: room: "{entity.name}"')
        return counts

    def _add_copy(self, original: int, number: int) -> int:
        """Append a copy of an entity; returns its number in the scene."""
        scene, entity = self._scene, self._scene.entities[original]
        spec = replace(scene._entity_specs[original], name=unique_name(f"{entity.name}.{number}", scene._entity_names))
        copy = Entity(scene, spec, entity._index.model)  # type: ignore[arg-type]
        copy._parameters.before_build = {k: dict(v) for k, v in entity._parameters.before_build.items()}
        scene.entities.append(copy)
        scene._entity_specs.append(spec)
        return len(scene.entities) - 1

    def _number_of(self, entity: Any, label: str) -> int:
        """Number of an entity in the scene; raises `KinemaError` for anything else."""
        for number, own in enumerate(self._scene.entities):
            if own is entity:
                return number
        raise KinemaError(f"{label}: expected an entity of this scene, not {entity!r}")

    # --------------------------------------------------------------------------------------------- spawning and removal

    def spawn(
        self, entity: Any, pos: Any, quat: Any, vel: Any, ang: Any, envs_idx: Selection, label: str = "spawn"
    ) -> Entity:
        """Place an entity, or a copy of it, in environments; arguments: see `Scene.spawn`."""
        number = self._number_of(entity, label)
        built = self._scene.built
        envs = _environments(built, envs_idx)
        chosen = self._find_absent(number, envs, label)
        placed = self._scene.entities[chosen]
        values = self._initial_state(placed, pos, quat, vel, ang, len(envs), label)
        if len(envs):
            self._write_state(chosen, values, envs)
            set_entity_presence(built.arrays, chosen, np.ones(1), envs)
        return placed

    def remove(self, entity: Any, envs_idx: Selection, label: str = "remove") -> None:
        """Take an entity out of environments; arguments: see `Scene.remove`."""
        scene, number = self._scene, self._number_of(entity, label)
        envs = _environments(scene.built, envs_idx)
        _check_free(scene.built.model, number, entity.name, label)
        if not scene.built.engine.settings.presence:
            scene._builder.presence = True
            try:
                scene._builder.recompile(
                    "entities can be removed now; the step is compiled once more",
                    "use scene.build(room=0) to avoid the recompilation",
                )
            except KinemaError:
                scene._builder.presence = False
                raise
        envs = envs[self.present(number, envs)]
        if not len(envs):
            return
        built = scene.built
        if built.engine.settings.sleep_tolerance:  # bodies that rest on the entity
            wake_trees(built.arrays, entity._index.all_links, envs)
        self._release(number, envs)
        rows = _rows_of_entity(built.model, number)
        for info in ARRAYS:
            if info.name in STOPPED_ARRAYS and built.arrays.has(info.name):
                own = component_rows(rows[info.element_kind], info.width)
                built.arrays.write(info.name, own, np.zeros((1, len(own))), envs)
        qs = rows[ElementKind.COORDINATE]
        state = built.arrays.read("qpos", qs, envs)
        lost = ~np.isfinite(state).all(axis=1)
        if lost.any():
            built.arrays.write("qpos", qs, built.model.qpos0[qs][None], envs[lost])
        set_entity_presence(built.arrays, number, np.zeros(1), envs)

    def _find_absent(self, number: int, envs: IndexArray, label: str) -> int:
        """The first of an entity and its copies that is absent in all of some environments."""
        candidates = [number, *self._copies.get(number, [])]
        present = np.array([self.present(x, envs) for x in candidates])
        free = np.flatnonzero(~present.any(axis=1))
        if len(free):
            return candidates[int(free[0])]
        name, full = self._scene.entities[number].name, np.flatnonzero(present.all(axis=0))
        copies = f"{len(candidates) - 1} copies of it" if len(candidates) > 1 else "it has no copies"
        if len(full):
            raise KinemaError(
                f'{label}: no room for another "{name}" in environment {int(envs[full[0]])}: it is present, and '
                f"{'so are the ' if len(candidates) > 1 else ''}{copies}; use scene.build(room={{{name}: count}}), or "
                "remove one"
            )
        raise KinemaError(
            f'{label}: no copy of "{name}" is absent in all of these environments: spawn in fewer at a time'
        )

    def _initial_state(
        self, entity: Entity, pos: Any, quat: Any, vel: Any, ang: Any, n_envs: int, label: str
    ) -> tuple[np.ndarray, np.ndarray]:
        """Coordinates (n_envs, n_qs) and velocities (n_envs, n_dofs) of a spawned entity."""
        info, model = entity.info, self._scene.built.model
        qpos = np.tile(model.qpos0[info.q_start : info.q_end], (n_envs, 1))
        qvel = np.zeros((n_envs, info.dof_end - info.dof_start))
        given = {"pos": (pos, 3), "quat": (quat, 4), "vel": (vel, 3), "ang": (ang, 3)}
        values = {
            name: check_finite(as_batch(x, n_envs, (n,), np.float64, f"{label}: {name}"), f"{label}: {name}")
            for name, (x, n) in given.items()
            if x is not None
        }
        if not values:
            return qpos, qvel
        q, dof = _free_joint(entity, label)
        if "pos" in values:
            qpos[:, q : q + 3] = values["pos"]
        if "quat" in values:
            length = np.linalg.norm(values["quat"], axis=1, keepdims=True)
            if not length.all():
                raise KinemaError(f"{label}: quat: expected four values that are not all zero")
            qpos[:, q + 3 : q + 7] = values["quat"] / length
        if "vel" in values:
            qvel[:, dof : dof + 3] = values["vel"]
        if "ang" in values:
            rotations = np.array([quaternion_to_matrix(x) for x in qpos[:, q + 3 : q + 7]]).reshape(-1, 3, 3)
            world = np.broadcast_to(values["ang"], (n_envs, 3))
            qvel[:, dof + 3 : dof + 6] = np.einsum("nji,nj->ni", rotations, world)
        return qpos, qvel

    def _write_state(self, number: int, state: tuple[np.ndarray, np.ndarray], envs: IndexArray) -> None:
        """Set all state of an entity to its initial values, and its coordinates and velocities to the given ones."""
        built = self._scene.built
        engine, arrays, rows = built.engine, built.arrays, _rows_of_entity(built.model, number)
        for info in ARRAYS:
            own = rows.get(info.element_kind)
            is_state = info.use is ArrayUse.STATE and info.name != PRESENT_ARRAY and arrays.has(info.name)
            if own is None or not len(own) or not is_state:
                continue
            scalars = component_rows(own, info.width)
            arrays.write(info.name, scalars, _initial(engine, info)[scalars].T, envs)
        for name, kind in (("command", ElementKind.DOF), ("ctrl", ElementKind.ACTUATOR)):
            if arrays.has(name) and len(rows[kind]):
                initial = built.controls.initial_commands(envs)[name][rows[kind]]
                arrays.write(name, rows[kind], initial.T, envs)
        for name, values, kind in zip(("qpos", "vel"), state, (ElementKind.COORDINATE, ElementKind.DOF), strict=True):
            arrays.write(name, rows[kind], values.astype(arrays.dtype), envs)
        if arrays.has("asleep"):
            arrays.write("asleep", rows[ElementKind.TREE], np.zeros((1, len(rows[ElementKind.TREE]))), envs)

    def _release(self, number: int, envs: IndexArray) -> None:
        """End the attachments of an entity, and switch its suction cups off."""
        attachments, arrays = self._scene._attachments, self._scene.built.arrays
        if not arrays.has("attachment_on"):
            return
        held = [
            i
            for i, spec in enumerate(attachments.specs)
            if number in [link[0] for link in (spec.anchor, spec.other) if link is not None]
        ]
        cups = [i for i, cup in enumerate(attachments.cups) if cup.link[0] == number]
        for name, rows in (("attachment_on", held), ("suction_on", cups)):
            if rows:
                arrays.write(name, np.array(rows), np.zeros((1, len(rows))), envs)

    # --------------------------------------------------------------------------------------------------------- presence

    def present(self, number: int, envs: IndexArray) -> np.ndarray:
        """Whether an entity is present, bool (environments,)."""
        return entity_presence(self._scene.built.arrays, number, envs)

    def room_left(self, entity: Any, envs_idx: Selection) -> np.ndarray:
        """How many more of an entity can be spawned; see `Scene.get_room`."""
        number, envs = self._number_of(entity, "get_room"), _environments(self._scene.built, envs_idx)
        absent = [~self.present(x, envs) for x in [number, *self._copies.get(number, [])]]
        return np.asarray(np.sum(absent, axis=0, dtype=np.int64))


def _environments(built: BuiltScene, envs_idx: Selection) -> IndexArray:
    """Indices of selected environments; None for all."""
    envs = resolve_envs(envs_idx, built.n_envs)
    return np.arange(built.n_envs) if envs is None else np.asarray(envs)


def _count(value: Any, label: str) -> int:
    if isinstance(value, bool | np.bool_) or not isinstance(value, int | np.integer) or value < 0:
        raise KinemaError(f"{label}: expected a number of copies, or numbers by entity, not {value!r}")
    return int(value)


def _is_free_body(entity: Entity) -> bool:
    """Whether an entity is a single free body without variants."""
    model = entity._index.model
    return model.n_links == 1 and model.n_dofs == 6 and entity._index.variants is None


def _check_free(model: Model, number: int, name: str, label: str) -> None:
    """Raise `KinemaError` unless all parts of an entity of a model move freely."""
    info = model.entities[number]
    frames = dynamic_frames(model, model.links.frame_idx[info.link_start : info.link_end])
    geoms = dynamic_frames(model, model.geoms.frame_idx[model.geoms.entity_idx == number])
    kinds = model.joints.kinds[info.joint_start : info.joint_end]
    if not len(frames) or (frames < 0).any() or (geoms < 0).any() or "free" not in kinds:
        raise KinemaError(
            f'{label}: "{name}" is fixed to the world or kinematic: only entities that float freely can be placed and '
            "removed"
        )


def _free_joint(entity: Entity, label: str) -> tuple[int, int]:
    """First coordinate and dof of the free joint of the base of an entity, within the entity."""
    joints = entity._index.model.joints
    for i, kind in enumerate(joints.kinds):
        if kind == "free" and joints.link_idx[i] == entity._index.base_link:
            return int(joints.q_start[i]), int(joints.dof_start[i])
    raise KinemaError(f'{label}: the base of "{entity.name}" has no free joint: set its state with set_qpos')


def _rows_of_entity(model: Model, number: int) -> dict[ElementKind, IndexArray]:
    """Elements of an entity by kind."""
    info = model.entities[number]
    dofs, links = np.arange(info.dof_start, info.dof_end), np.arange(info.link_start, info.link_end)
    actuators = np.arange(info.actuator_start, info.actuator_end)
    ends = np.cumsum(model.actuators.n_delay_samples)
    starts = ends - model.actuators.n_delay_samples
    samples = [np.arange(starts[i], ends[i]) for i in actuators]
    moments = model.tendons.moment
    tendons = np.flatnonzero(moments[:, dofs].any(axis=1)) if len(moments) else np.zeros(0, np.int64)
    equalities = np.flatnonzero(np.isin(model.equalities.link_a, links) | np.isin(model.equalities.link_b, links))
    return {
        ElementKind.COORDINATE: np.arange(info.q_start, info.q_end),
        ElementKind.DOF: dofs,
        ElementKind.LINK: links,
        ElementKind.ACTUATOR: actuators,
        ElementKind.DELAY_SAMPLE: np.concatenate([np.zeros(0, np.int64), *samples]).astype(np.int64),
        ElementKind.TENDON: tendons,
        ElementKind.EQUALITY: equalities,
        ElementKind.TREE: np.array(trees_of_entity(model, number), np.int64),
    }


def _initial(engine: Engine, info: ArrayInfo) -> np.ndarray:
    """Initial values of an array, (n_scalars, 1)."""
    return initial_values(info, engine.model, engine.settings)
