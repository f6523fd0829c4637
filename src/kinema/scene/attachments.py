"""Attachments of links at run time, and suction cups: reservation, handles, and their state per environment.

A pair of links is reserved before build or, with one recompilation, at its first attachment. A reserved pair is an
equality constraint whose activity and relative pose are state.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from kinema.builder import ATTACHMENT_COMPONENTS, AttachmentSpec, SuctionCupSpec
from kinema.core import Array, ArrayLike, Diagnostics, KinemaError, quaternion_to_matrix, rotate_vectors, unique_name
from kinema.dynamics import UNBREAKABLE_FORCE

from .arguments import (
    IndexArray,
    Selection,
    as_batch,
    finite_vector,
    one_of,
    positive_float,
    resolve_envs,
)
from .arrays import component_rows
from .built_scene import BuiltScene
from .console import ProgressBar, print_if_terminal
from .entity import Entity
from .entity_index import EntityLink
from .sleep import wake_trees
from .state import snapshot_state, transfer_state

LinkReference = tuple[int, int] | None
"""Index of an entity and index of a link within it; None for the world."""
LinkSelector = EntityLink | str | int
"""A link of a given entity: its handle, name or index."""
Target = Entity | EntityLink | tuple[Entity, LinkSelector] | None
"""An entity (its base link), a link, an entity and a link, or None for the world."""
N_WRENCH = 6
"""Values of the array `attachment_wrench` per attachment: force and torque."""


class Rebuilder(Protocol):
    """Interface of `SceneBuilder` for attachments."""

    def rebuild(self, per_env: frozenset[str]) -> BuiltScene:
        """Build the scene again with the given per-environment parameters."""
        ...


class SceneWithAttachments(Protocol):
    """Interface of `Scene` for its attachments."""

    entities: list[Entity]
    constraints: bool
    diagnostics: Diagnostics
    progress: ProgressBar

    @property
    def built(self) -> BuiltScene:
        """The built scene; raises `KinemaError` before `build`."""
        ...

    @property
    def is_built(self) -> bool:
        """Whether `build` was called."""
        ...

    @property
    def _builder(self) -> Rebuilder:
        """Builds the scene again."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class _Reservation:
    """A pending reservation of attachments of a link to target links."""

    link: LinkReference
    kind: str
    targets: Sequence[LinkReference] | None
    """Links that may be attached; None for all single free bodies of the scene."""
    cup: int = -1


class Attachments:
    """Reserved attachments and suction cups of a scene."""

    def __init__(self, scene: SceneWithAttachments) -> None:
        self._scene = scene
        self._pending: list[_Reservation] = []
        self.specs: list[AttachmentSpec] = []
        """Reserved attachments, in the order of the arrays."""
        self.cups: list[SuctionCupSpec] = []

    # ----------------------------------------------------------------------------------------------------- reservation

    def resolve(self) -> None:
        """Convert the pending reservations to attachment specs, one per pair of links.

        Runs at build, when all entities are known.
        """
        for reservation in self._pending:
            targets = self._free_bodies(reservation.link) if reservation.targets is None else reservation.targets
            for target in targets:
                anchor, other = (reservation.link, None) if target is None else (target, reservation.link)
                known = self._find(anchor, other, reservation.kind) is not None and reservation.cup < 0
                if anchor is not None and not known:
                    self.specs.append(AttachmentSpec(anchor, other, reservation.kind, reservation.cup))
        self._pending = []

    def reserve(self, link: LinkReference, targets: Sequence[Target] | None, kind: str) -> None:
        """Reserve attachments of a link to targets; None for all single free bodies."""
        kind = one_of(kind, "reserve_attachments: kind", ATTACHMENT_COMPONENTS)
        links = None if targets is None else [self._target_link(target) for target in targets]
        self._add_reservation(_Reservation(link, kind, links))

    def _add_reservation(self, reservation: _Reservation) -> None:
        """Add a reservation of attachments; rebuild a built scene with its state kept, which is reported."""
        scene = self._scene
        if not scene.constraints:
            raise KinemaError("attachments are constraints: use Scene(constraints=True)")
        self._pending.append(reservation)
        if not scene.is_built:
            return
        count, n_cups = len(self.specs), len(scene.built.model.suction_cups.names)
        self.resolve()
        if len(self.specs) == count and len(self.cups) == n_cups:
            return
        state = snapshot_state(scene.built)
        try:
            built = scene._builder.rebuild(scene.built.engine.settings.per_env)
        except KinemaError:
            del self.specs[count:], self.cups[n_cups:]
            raise
        transfer_state(built, state)
        text = f"{len(self.specs) - count} attachments more are possible now; the step is compiled once more"
        hint = "use scene.reserve_attachments(...) or scene.add_suction(...) before build to avoid the recompilation"
        scene.diagnostics.note("scene.recompiled", text, hint=hint)
        print_if_terminal(text, scene.progress)

    def link_reference(
        self, entity: Entity | EntityLink | None, link: LinkSelector | None, label: str
    ) -> LinkReference:
        """Entity and link indices of a link by handle, name or index (None for the base link); None for the world."""
        if entity is None:
            return None
        if isinstance(entity, EntityLink):
            if link is not None:
                raise KinemaError(f"{label}: expected a link, or an entity and a link, not two links")
            entity, link = entity.entity, entity
        for number, own in enumerate(self._scene.entities):
            if own is entity:
                return number, own._index.link(link, label)
        raise KinemaError(f"{label}: expected an entity of this scene, not {entity!r}")

    def name_of(self, link: LinkReference) -> str:
        """Name of a link with its entity, or `world`."""
        if link is None:
            return "world"
        entity = self._scene.entities[link[0]]
        return f"{entity.name}/{entity.links[link[1]].name}"

    def _target_link(self, target: Target) -> LinkReference:
        entity, link = target if isinstance(target, tuple) else (target, None)
        return self.link_reference(entity, link, "targets")

    def _free_bodies(self, excluded: LinkReference) -> list[LinkReference]:
        """All entities that are a single free body, except the one of `excluded`."""
        models = [entity._index.model for entity in self._scene.entities]
        own = -1 if excluded is None else excluded[0]
        return [(i, 0) for i, model in enumerate(models) if model.n_links == 1 and model.n_dofs == 6 and i != own]

    def _find(self, a: LinkReference, b: LinkReference, kind: str) -> int | None:
        """Index of the reserved attachment of two links that belongs to no suction cup; None if there is none."""
        pairs = [(spec.anchor, spec.other) for spec in self.specs]
        for i, spec in enumerate(self.specs):
            if spec.kind == kind and spec.cup < 0 and pairs[i] in ((a, b), (b, a)):
                return i
        return None

    def welded_entities(self, entity_idx: int, env: int) -> list[tuple[Entity, int]]:
        """Entities welded to links of an entity in an environment, each with the link's index in the entity."""
        if not self.specs:
            return []
        active = self.built.arrays.get("attachment_on")[:, env] > 0.5
        carried = []
        for row in np.flatnonzero(active[: len(self.specs)]):
            spec = self.specs[int(row)]
            for own, other in ((spec.anchor, spec.other), (spec.other, spec.anchor)):
                if spec.kind == "weld" and own is not None and other is not None and own[0] == entity_idx != other[0]:
                    carried.append((self._scene.entities[other[0]], own[1]))
        return carried

    # ------------------------------------------------------------------------------------------------ attach and detach

    def handle(self, a: LinkReference, b: LinkReference, kind: str) -> Attachment | None:
        """Handle of the reserved attachment of two links; None if the pair is not reserved."""
        index = self._find(a, b, kind)
        return None if index is None else Attachment(self, index, -1.0 if self.specs[index].anchor == a else 1.0)

    def attach(
        self,
        a: LinkReference,
        b: LinkReference,
        kind: str,
        at: Any,
        points: tuple[ArrayLike, ArrayLike],
        length: Any,
        envs_idx: Selection,
        break_force: Any,
    ) -> Attachment:
        """Attach two links in the selected environments; arguments: see `Scene.attach`."""
        scene, label = self._scene, "attach"
        if a is None and b is None:
            raise KinemaError("attach: the world cannot be attached to itself")
        kind = one_of(kind, "attach: kind", ATTACHMENT_COMPONENTS)
        if isinstance(at, str):
            one_of(at, "attach: at", ("now",))
        n_envs = scene.built.n_envs
        attachment = self.handle(a, b, kind)
        if attachment is None:
            free = self._free_bodies(None)
            link, target = (b, a) if a in free and b not in free else (a, b)
            others = [x for x in free if target in free and x not in (target, link)]
            self._add_reservation(_Reservation(link, kind, [target, *others]))
            attachment = self.handle(a, b, kind)
        assert attachment is not None
        built, row = scene.built, attachment.index
        envs = resolve_envs(envs_idx, n_envs)
        members = np.arange(n_envs) if envs is None else envs
        is_swapped = self.specs[row].anchor == a
        anchor_point, other_point = points if is_swapped else points[::-1]
        frames = AttachedFrames(built, row, members)
        distance_limited = kind in ("rod", "rope")
        relative = None if isinstance(at, str) else _relative_pose(at, inverted=is_swapped)
        point, pose, distance = frames.compute(
            finite_vector(anchor_point, "attach: pos", "three"),
            finite_vector(other_point, "attach: pos", "three") if distance_limited else None,
            relative,
        )
        lengths = distance if length is None else _per_env(length, len(members), "attach: length")
        strength = UNBREAKABLE_FORCE if break_force is None else break_force
        values = {
            "attachment_point": point,
            "attachment_pose": pose,
            "attachment_length": np.broadcast_to(lengths, len(members))[:, None],
            "attachment_break_force": _per_env(strength, len(members), f"{label}: break_force")[:, None],
            "attachment_wrench": np.zeros((1, N_WRENCH)),
            "attachment_on": np.ones((1, 1)),
        }
        for name, block in values.items():
            built.arrays.write(name, component_rows(np.array([row]), block.shape[1]), block, envs)
        if built.engine.settings.sleep_tolerance:
            for link in frames.links:
                wake_trees(built.arrays, slice(link, link + 1) if link >= 0 else slice(0, 0), envs_idx)
        return attachment

    # ----------------------------------------------------------------------------------------------------- suction cups

    def add_suction_cup(
        self,
        link: LinkReference,
        pos: ArrayLike,
        normal: ArrayLike,
        distance: float,
        max_force: float | None,
        targets: Sequence[Target] | None,
        name: str | None,
    ) -> SuctionCup:
        """Add a suction cup to a link; arguments: see `Scene.add_suction`."""
        if link is None:
            raise KinemaError("add_suction: a suction cup is on a link of an entity")
        axis = finite_vector(normal, "add_suction: normal", "three")
        if not np.linalg.norm(axis):
            raise KinemaError("add_suction: the normal is zero")
        cup = SuctionCupSpec(
            unique_name(name or "suction", {x.name for x in self.cups}),
            link,
            finite_vector(pos, "add_suction: pos", "three"),
            axis / np.linalg.norm(axis),
            positive_float(distance, "add_suction: distance"),
            np.inf if max_force is None else positive_float(max_force, "add_suction: max_force"),
        )
        links = None if targets is None else [self._target_link(target) for target in targets]
        if links is not None and None in links:
            raise KinemaError("add_suction: targets: expected entities, not the world")
        self.cups.append(cup)
        self._add_reservation(_Reservation(link, "weld", links, len(self.cups) - 1))
        return SuctionCup(self, len(self.cups) - 1, cup.name)

    @property
    def built(self) -> BuiltScene:
        """The built scene."""
        return self._scene.built


class AttachedFrames:
    """Current poses of the two links of a reserved attachment in some environments."""

    def __init__(self, built: BuiltScene, row: int, envs: IndexArray) -> None:
        self._built, self._envs = built, envs
        equality, info = int(built.model.attachments.equality_idx[row]), built.model.equalities
        self.links = (int(info.link_a[equality]), int(info.link_b[equality]))
        """Anchor link and other link in the scene; -1 for the world."""

    def compute(
        self, anchor_point: Array, other_point: Array | None, relative_pose: tuple[Array, Array] | None
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Anchor (n, 3) and constraint frame (n, 12) in the moving frames, and distance of the points (n,).

        Args:
            anchor_point: anchor in the anchor link [m].
            other_point: point on the other link [m]; None for the point that coincides with the anchor.
            relative_pose: position and rotation matrix of the anchor link in the other link; None for the current one.
        """
        (pos_a, rot_a), (pos_b, rot_b) = (self._world_pose(link) for link in self.links)
        anchor = pos_a + rot_a @ anchor_point
        to_b = np.swapaxes(rot_b, 1, 2)
        if other_point is not None:
            position, rotation = np.broadcast_to(other_point, anchor.shape), to_b @ rot_a
        elif relative_pose is not None:
            position = np.broadcast_to(relative_pose[0] + relative_pose[1] @ anchor_point, anchor.shape)
            rotation = np.broadcast_to(relative_pose[1], rot_a.shape)
        else:
            position, rotation = (to_b @ (anchor - pos_b)[:, :, None])[:, :, 0], to_b @ rot_a
        distance = np.linalg.norm(anchor - pos_b - (rot_b @ position[:, :, None])[:, :, 0], axis=1)
        (offset_a, turn_a), (offset_b, turn_b) = (self._pose_in_frame(link) for link in self.links)
        pose_pos = offset_b + (turn_b @ position[:, :, None])[:, :, 0]
        pose_rot = (turn_b @ rotation).reshape(len(rotation), 9)
        return offset_a + turn_a @ anchor_point, np.concatenate([pose_pos, pose_rot], axis=1), distance

    def _world_pose(self, link: int) -> tuple[np.ndarray, np.ndarray]:
        """World positions (n, 3) and rotation matrices (n, 3, 3) of a link; identities for the world."""
        n = len(self._envs)
        if link < 0:
            return np.zeros((n, 3)), np.broadcast_to(np.eye(3), (n, 3, 3))
        state = self._built.engine.fields.links_state
        pos, quat = (np.asarray(x.numpy()[link], np.float64)[self._envs] for x in (state.pos, state.quat))
        return pos, np.stack([rotate_vectors(quat, axis) for axis in np.eye(3)], axis=2)

    def _pose_in_frame(self, link: int) -> tuple[np.ndarray, np.ndarray]:
        """Positions (n, 3) and rotation matrices (n, 3, 3) of a link in its moving frame, by variant."""
        n, variants = len(self._envs), self._built.engine.variants
        if link < 0:
            return np.zeros((n, 3)), np.broadcast_to(np.eye(3), (n, 3, 3))
        poses = [(model.links.pos[link], model.links.rot[link]) for model in variants.models]
        chosen = variants.variant_of_env[self._envs]
        return np.array([pos for pos, _ in poses])[chosen], np.array([rot for _, rot in poses])[chosen]


def _relative_pose(at: Any, *, inverted: bool) -> tuple[Array, Array]:
    """Position and rotation matrix of a pair (position, quaternion), or of the inverse transform."""
    if not isinstance(at, Sequence) or len(at) != 2:
        raise KinemaError('attach: at: expected "now" or a position and a quaternion')
    pos, quat = finite_vector(at[0], "attach: at", "three"), finite_vector(at[1], "attach: at", "four")
    quat = quat / np.linalg.norm(quat)
    rotation = quaternion_to_matrix(quat)
    return (-rotation.T @ pos, rotation.T) if inverted else (pos, rotation)


def _per_env(values: Any, n_envs: int, label: str) -> np.ndarray:
    """Positive scalar, or one per environment, as an array (n_envs,)."""
    array = np.broadcast_to(as_batch(values, n_envs, (), np.float64, label), (n_envs,))
    if not (array > 0.0).all():
        raise KinemaError(f"{label}: expected positive numbers, not {array[~(array > 0.0)][0]:g}")
    return np.minimum(array, UNBREAKABLE_FORCE)


# ------------------------------------------------------------------------------------------------------------- handles


@dataclass(frozen=True, slots=True, eq=False)
class Attachment:
    """Attachment of two links a and b, active in some environments."""

    _attachments: Attachments
    index: int
    """Row in the arrays of attachments."""
    _sign: float
    """+1 if the stored wrench acts on b, -1 if it acts on a."""

    def __repr__(self) -> str:
        spec, count = self._attachments.specs[self.index], int(np.count_nonzero(self.is_attached()))
        names = [self._attachments.name_of(place) for place in (spec.anchor, spec.other)]
        b, a = names if self._sign > 0 else reversed(names)
        return f"<Attachment: {b} to {a} by a {spec.kind}, in {count} of {self._attachments.built.n_envs} environments>"

    def is_attached(self, envs_idx: Selection = None) -> np.ndarray:
        """Whether the links are attached: neither detached nor broken, bool (n_envs,)."""
        built = self._attachments.built
        active = built.arrays.get("attachment_on")[self.index] > 0.5
        envs = resolve_envs(envs_idx, built.n_envs)
        return np.array(active if envs is None else active[envs])

    def get_force(self, envs_idx: Selection = None) -> Any:
        """Force of the attachment on b in the last step [N], world axes, (n_envs, 3)."""
        return self._sign * self._wrench(envs_idx)[:, :3]

    def get_torque(self, envs_idx: Selection = None) -> Any:
        """Torque of the attachment on b in the last step about the anchor [N m], world axes, (n_envs, 3)."""
        return self._sign * self._wrench(envs_idx)[:, 3:]

    def set_break_force(self, force: Any, envs_idx: Selection = None) -> None:
        """Set the force at which the attachment breaks [N], a scalar or (n_envs,); None for unbreakable."""
        built, label = self._attachments.built, "set_break_force"
        envs = resolve_envs(envs_idx, built.n_envs)
        count = built.n_envs if envs is None else len(envs)
        values = _per_env(UNBREAKABLE_FORCE if force is None else force, count, label)
        built.arrays.write("attachment_break_force", np.array([self.index]), values[:, None], envs)

    def detach(self, envs_idx: Selection = None) -> None:
        """Release the links in the selected environments (None for all)."""
        built = self._attachments.built
        envs = resolve_envs(envs_idx, built.n_envs)
        built.arrays.write("attachment_on", np.array([self.index]), np.zeros((1, 1)), envs)

    def _wrench(self, envs_idx: Selection) -> Any:
        outputs, rows = self._attachments.built.outputs, component_rows(np.array([self.index]), N_WRENCH)
        return outputs.select(outputs.arrays.source("attachment_wrench"), rows, outputs.resolve_envs(envs_idx))


@dataclass(frozen=True, slots=True, eq=False)
class SuctionCup:
    """Suction cup (vacuum gripper): while it is on, the nearest target link in its range is attached to it."""

    _attachments: Attachments
    index: int
    """Row in the arrays of suction cups."""
    name: str

    def __repr__(self) -> str:
        return f"<SuctionCup {self.name} on {self._attachments.name_of(self._attachments.cups[self.index].link)}>"

    def switch(self, on: Any, envs_idx: Selection = None) -> None:
        """Switch the vacuum on or off: a scalar or bool (n_envs,); a CUDA tensor is written without synchronization."""
        built = self._attachments.built
        rows = np.array([self.index])
        if built.outputs.is_gpu_tensor(on):
            built.arrays.write_tensor("suction_on", rows, on.reshape(-1, 1), built.outputs.resolve_envs(envs_idx))
            return
        values, envs = built.arrays.to_batch(on, (), envs_idx, "SuctionCup.switch")
        values = (values != 0.0).astype(values.dtype)
        built.arrays.write("suction_on", rows, values[:, None], envs)
        mine = self._rows
        held = built.arrays.read("attachment_on", mine, envs) * values[:, None]
        built.arrays.write("attachment_on", mine, held, envs)

    def turn_on(self, envs_idx: Selection = None) -> None:
        """Switch the vacuum on in the selected environments (None for all)."""
        self.switch(True, envs_idx)

    def turn_off(self, envs_idx: Selection = None) -> None:
        """Switch the vacuum off, which detaches the link, in the selected environments (None for all)."""
        self.switch(False, envs_idx)

    def is_on(self, envs_idx: Selection = None) -> np.ndarray:
        """Whether the vacuum is on, bool (n_envs,); an overloaded cup switches itself off."""
        built = self._attachments.built
        return built.arrays.read("suction_on", np.array([self.index]), resolve_envs(envs_idx, built.n_envs))[:, 0] > 0.5

    def get_held(self, envs_idx: Selection = None) -> np.ndarray:
        """Index in `Scene.entities` of the entity attached to the cup, -1 for none, (n_envs,)."""
        built, specs = self._attachments.built, self._attachments.specs
        active = built.arrays.read("attachment_on", self._rows, resolve_envs(envs_idx, built.n_envs)) > 0.5
        entities = np.array([specs[row].anchor[0] for row in self._rows])
        return np.where(active.any(axis=1), entities[active.argmax(axis=1)] if len(entities) else -1, -1)

    def get_force(self, envs_idx: Selection = None) -> Any:
        """Force of the cup on the attached link in the last step [N], world axes, (n_envs, 3)."""
        outputs, rows = self._attachments.built.outputs, component_rows(self._rows, N_WRENCH)
        wrenches = outputs.select(outputs.arrays.source("attachment_wrench"), rows, outputs.resolve_envs(envs_idx))
        return wrenches.reshape(len(wrenches), len(self._rows), N_WRENCH)[:, :, :3].sum(1)

    @property
    def _rows(self) -> IndexArray:
        """Rows of the attachments of the cup."""
        return np.flatnonzero([spec.cup == self.index for spec in self._attachments.specs])
