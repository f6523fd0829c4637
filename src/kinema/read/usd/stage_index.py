"""One walk over the stage: what there is, where it is, and which body it belongs to."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from kinema.description import Mesh
from kinema.foundation import Array, Diagnostics, Origin, Pose
from kinema.words import mjc, newton, ours, physics, usd

from ..resolve import Resolver
from . import pxr
from .instancers import Copies
from .polar import Affine, from_gf, is_singular, polar_many
from .prim_values import PrimValues
from .units import Units

MAX_POINTS = 30_000_000
"""Points of all meshes together; a layer of the greatest size holds a third of that, copies of it any number."""


@dataclass(slots=True, eq=False)
class Body:
    """A rigid body: its prim, its exact world transform in SI with Z up, and the rigid frame of its link."""

    prim: pxr.Prim
    path: str
    affine: Affine
    """World transform of the prim: metres, Z up, scale and shear included."""
    pose: Pose
    """The link's frame: the rigid part Q of the transform."""
    scale: Array
    """What is left: the symmetric S, from the prim's coordinates into the link's frame."""
    parent: str | None = None
    """The closest enabled body above it."""
    name: str = ""


@dataclass(slots=True, eq=False)
class StageIndex:
    """The prims that matter, in stage order."""

    stage: pxr.Stage
    file: str
    units: Units
    diagnostics: Diagnostics
    time: Any
    """The time code at which attributes are read."""
    cache: Any
    """USD's own transform cache at that time."""
    values: PrimValues
    """Attributes at that time."""
    to_si: Any
    """From the stage's world to metres and Z up, as USD writes matrices."""
    bodies: dict[str, Body] = field(default_factory=dict)
    gprims: list[pxr.Prim] = field(default_factory=list)
    joints: list[pxr.Prim] = field(default_factory=list)
    scenes: list[pxr.Prim] = field(default_factory=list)
    groups: list[pxr.Prim] = field(default_factory=list)
    articulations: list[pxr.Prim] = field(default_factory=list)
    filtered: list[pxr.Prim] = field(default_factory=list)
    cameras: list[pxr.Prim] = field(default_factory=list)
    lights: list[pxr.Prim] = field(default_factory=list)
    others: list[pxr.Prim] = field(default_factory=list)
    """Typed prims of vendor schemas (actuators, tendons, ...)."""
    wrapped: set[str] = field(default_factory=set)
    """Paths of what MuJoCo's tendons go by."""
    records: list[pxr.Prim] = field(default_factory=list)
    """Prims of Kinema's own that stand for what USD has no type for."""
    standing: list[pxr.Prim] = field(default_factory=list)
    """Prims of Kinema's own that were links of robots of which nothing moves."""
    bound: list[pxr.Prim] = field(default_factory=list)
    """Prims that bind materials to themselves and what is below them."""
    copies: Copies = field(init=False)
    """The instances of point instancers."""
    owner_of: dict[str, str | None] = field(default_factory=dict)
    """Prim path -> path of the closest enabled body at or above it."""
    complained: set[tuple[str, str]] = field(default_factory=set)
    """Prims and codes of errors that are reported once."""
    meshes: dict[Any, Mesh] = field(default_factory=dict)
    """Meshes with a scale baked in, by their source and that scale."""
    resolve: Resolver = field(default_factory=Resolver)
    """Which other files may be read."""
    points_left: int = MAX_POINTS
    """How many points meshes may still have."""
    last_polygons: tuple[pxr.Prim, np.ndarray, np.ndarray] | None = None
    """The mesh that was read last: how many corners its polygons have, and the points of these."""
    value: Callable[[pxr.Prim, str], Any] = field(init=False)
    """An attribute's value at the index's time, its fallback, or None."""
    authored: Callable[[pxr.Prim, str], Any] = field(init=False)
    """An attribute's value where the stage says it, else None."""

    def __post_init__(self) -> None:
        self.value, self.authored = self.values.value, self.values.authored

    def origin(self, prim: pxr.Prim) -> Origin:
        """Where a prim is."""
        return Origin(self.file, None, self.values.facts(prim).path)

    def world(self, prim: pxr.Prim) -> Affine:
        """A prim's world transform in metres, Z up."""
        self.values.note_motion(prim)
        affine = from_gf(self._local_to_world(prim) * self.to_si)
        if not affine.is_finite:
            self.complain_once(
                prim, "usd.transform-not-finite", f"the transform of {prim.GetName()!r} holds NaN or infinity"
            )
        return affine

    def complain_once(self, prim: pxr.Prim, code: str, message: str) -> None:
        """Report an error of a prim that is met whenever the prim is looked at."""
        origin = self.origin(prim)
        if (origin.path, code) not in self.complained:
            self.complained.add((origin.path, code))
            self.diagnostics.error(code, message, origin=origin)

    def _local_to_world(self, prim: pxr.Prim) -> Any:
        """In the stage's units; not a number where the stage's own transform is none."""
        try:
            return self.cache.GetLocalToWorldTransform(prim)
        except pxr.Tf.ErrorException:  # an operation holds a value of the wrong type
            return pxr.Gf.Matrix4d(math.nan)

    def worlds(self, prims: Sequence[pxr.Prim]) -> tuple[Array, Array]:
        """The world transforms of many prims: linear parts, shape (n, 3, 3), and offsets, shape (n, 3)."""
        matrices = np.zeros((len(prims), 4, 4))
        for i, prim in enumerate(prims):
            self.values.note_motion(prim)
            matrices[i] = self._local_to_world(prim)
        plain = np.abs(matrices[:, :, 3] - (0, 0, 0, 1)).max(axis=1, initial=0.0)
        for i in np.flatnonzero(plain > 1e-9).tolist():  # where numbers are not finite there are other complaints
            message = f"the transform of {prims[i].GetName()!r} holds a perspective (a last column), which is ignored"
            self.complain_once(prims[i], "usd.perspective", message)
        matrices = matrices @ np.array(self.to_si)
        return np.ascontiguousarray(np.swapaxes(matrices[:, :3, :3], 1, 2)), matrices[:, 3, :3]

    def schemas(self, prim: pxr.Prim) -> frozenset[str]:
        """The API schemas applied to a prim."""
        return self.values.facts(prim).schemas

    def owner(self, prim: pxr.Prim) -> Body | None:
        """The closest enabled body at or above a prim."""
        found = self.owner_path(self.values.facts(prim).path)
        return None if found is None else self.bodies[found]

    def owner_path(self, path: str) -> str | None:
        """The path of the closest enabled body at or above a path."""
        trail: list[str] = []
        found: str | None = None
        while path and path != "/":
            if path in self.owner_of:
                found = self.owner_of[path]
                break
            trail.append(path)
            if path in self.bodies:
                found = path
                break
            path = path.rpartition("/")[0]
        for step in trail:
            self.owner_of[step] = found
        return found

    def targets(self, prim: pxr.Prim, name: str) -> list[Any]:
        """The paths that a relationship names; none where it is not authored."""
        facts = self.values.facts(prim)
        if name not in facts.authored:
            return []
        known = facts.read.get(name)
        return self.values.targets(prim, name) if known is None else known

    def positive(self, prim: pxr.Prim, name: str) -> float | None:
        """A mass or density; zero means unset, a negative one is an error and means the same."""
        value = self.value(prim, name)
        if value is None or value == 0:
            return None
        if not math.isfinite(value) or value < 0:
            self.diagnostics.error(
                "usd.bad-mass",
                f"{name.removeprefix(physics.NAMESPACE)} of {prim.GetName()!r} is {value:g}; it is taken as not given",
                origin=self.origin(prim),
            )
            return None
        return float(value)


def index_stage(stage: pxr.Stage, file: str, units: Units, diagnostics: Diagnostics) -> StageIndex:
    """Walk the stage, instances included."""
    time = _start_time(stage)
    cache, values = pxr.UsdGeom.XformCache(time), PrimValues(stage, file, time, diagnostics)
    index = StageIndex(stage, file, units, diagnostics, time, cache, values, _to_si(units))
    bodies: list[pxr.Prim] = []
    index.copies = Copies(stage, file, time, values, diagnostics)
    prims = index.copies.walk()
    values.look_at(prims)
    for prim in prims:
        _sort_in(index, prim, bodies)
    _add_bodies(index, bodies)
    values.read_ahead([*index.gprims, *index.joints])
    for path, body in index.bodies.items():
        body.parent = index.owner_path(path.rpartition("/")[0])
    return index


def _start_time(stage: pxr.Stage) -> Any:
    """The time to read at: the start of the animation where the stage says one, the first sample else."""
    if stage.HasAuthoredTimeCodeRange():
        return pxr.Usd.TimeCode(stage.GetStartTimeCode())
    return pxr.Usd.TimeCode.EarliestTime()


def _to_si(units: Units) -> Any:
    """The units' scale and turn as a USD matrix, which multiplies row vectors from the right."""
    matrix = np.eye(4)
    matrix[:3, :3] = units.length * units.up.T
    return pxr.Gf.Matrix4d(matrix)


def say_animation(index: StageIndex) -> None:
    """Note that what was read changes over time, where it does."""
    animated = list(index.values.animated)
    if animated:
        has_range = index.stage.HasAuthoredTimeCodeRange()
        at = f"the start time, {index.time.GetValue():g}" if has_range else "its first sample"
        more = f" and {len(animated) - 1} more are" if len(animated) > 1 else " is"
        message = f"{animated[0]}{more} animated; what is read is the value at {at}"
        index.diagnostics.note("usd.time-samples", message, origin=Origin(index.file, None, animated[0]))


def _sort_in(index: StageIndex, prim: pxr.Prim, bodies: list[pxr.Prim]) -> None:
    facts = index.values.facts(prim)
    schemas = facts.schemas
    if physics.RIGID_BODY_API in schemas:
        bodies.append(prim)
    if physics.ARTICULATION_ROOT_API in schemas:
        index.articulations.append(prim)
    if physics.FILTERED_PAIRS_API in schemas:
        index.filtered.append(prim)
    if usd.MATERIAL_BINDING_API in schemas:
        index.bound.append(prim)
    if physics.MASS_API in schemas and not schemas & {physics.RIGID_BODY_API, physics.COLLISION_API}:
        index.diagnostics.warning(
            "usd.mass-on-neither",
            f"the mass schema on {prim.GetName()!r} is ignored: it is neither a rigid body nor a collider",
            hint="apply PhysicsMassAPI to the body or to its colliders",
            origin=index.origin(prim),
        )
    kind, type_name = facts.kind, facts.kind.type
    if kind.is_joint:
        index.joints.append(prim)
    elif type_name == physics.SCENE:
        index.scenes.append(prim)
    elif type_name == physics.COLLISION_GROUP:
        index.groups.append(prim)
    elif kind.is_gprim:
        index.gprims.append(prim)
    elif type_name == usd.CAMERA:
        index.cameras.append(prim)
    elif kind.is_light:
        index.lights.append(prim)
    elif type_name.startswith((mjc.SCHEMAS, newton.SCHEMAS)):
        index.others.append(prim)
        if type_name == mjc.TENDON:
            index.wrapped.update(map(str, index.targets(prim, mjc.PATH)))
    elif type_name == usd.SCOPE and ours.RECORD.name in facts.authored:
        index.records.append(prim)
    elif type_name == usd.XFORM and ours.STATIC_LINK.name in facts.authored:
        index.standing.append(prim)
    elif physics.COLLISION_API in schemas:
        index.diagnostics.warning(
            "usd.collider-without-shape",
            f"{prim.GetName()!r} ({type_name or 'no type'}) has the collision schema but is no shape: it is ignored",
            hint="apply PhysicsCollisionAPI to the geometry below it",
            origin=index.origin(prim),
        )


def _add_bodies(index: StageIndex, prims: Sequence[pxr.Prim]) -> None:
    """Put the enabled bodies among the prims into the index."""
    index.values.read_ahead(prims)
    prims = [prim for prim in prims if _is_body(index, prim)]
    linears, offsets = index.worlds(prims)
    finite = np.isfinite(linears).all(axis=(1, 2)) & np.isfinite(offsets).all(axis=1)
    for i in np.flatnonzero(~finite):
        index.diagnostics.error(
            "usd.transform-not-finite",
            f"the transform of body {prims[i].GetName()!r} holds NaN or infinity; it is put at the origin",
            origin=index.origin(prims[i]),
        )
        linears[i], offsets[i] = np.eye(3), 0.0
    rotations, scales = polar_many(linears)
    for i, prim in enumerate(prims):
        path = index.values.facts(prim).path
        affine = Affine(linears[i], offsets[i])
        index.bodies[path] = Body(prim, path, affine, Pose(offsets[i], rotations[i]), scales[i])
        if is_singular(linears[i]):
            index.diagnostics.error(
                "usd.zero-scale",
                f"body {prim.GetName()!r} is scaled to nothing in some direction",
                hint="give every scale a value other than zero",
                origin=index.origin(prim),
            )


def _is_body(index: StageIndex, prim: pxr.Prim) -> bool:
    """Whether a prim with the rigid body schema is one."""
    if index.value(prim, physics.RIGID_BODY_ENABLED) is False:
        return False
    if index.values.facts(prim).kind.is_xformable:
        return True
    index.diagnostics.error(
        "usd.body-not-xformable",
        f"{prim.GetName()!r} is a rigid body but has no place in the world",
        hint="give it a type such as Xform",
        origin=index.origin(prim),
    )
    return False
