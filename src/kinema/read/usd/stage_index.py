"""Index of a stage: one traversal collects bodies, joints, shapes, scenes and other prims with transforms and names."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from kinema.core import Array, Diagnostics, Origin, Pose, reproducible_product
from kinema.description import Mesh
from kinema.tokens import kinema_usd, mjc, newton, usd, usd_physics

from ..resolve import Resolver
from . import pxr
from .point_instancers import InstanceExpander
from .prim_values import PrimValues, flatten_value
from .transforms import Affine, Units, affine_from_gf, is_singular, polar_decomposition_batch
from .world_transforms import WorldTransforms

# -- names -------------------------------------------------------------------------------------------------------------


def unique_names(paths: Iterable[str]) -> dict[str, str]:
    """Path -> shortest unique path suffix: `link`, else `arm/link`, ..."""
    names: dict[str, str] = {}
    undecided = list(dict.fromkeys(paths))
    depth = 1
    while undecided:
        tails: defaultdict[str, list[str]] = defaultdict(list)
        for path in undecided:
            tails["/".join(path.strip("/").split("/")[-depth:])].append(path)
        undecided = []
        for tail, group in tails.items():
            if len(group) == 1:
                names[group[0]] = tail
            else:
                undecided += group
        depth += 1
    return names


# -- traversal ---------------------------------------------------------------------------------------------------------

MAX_POINTS = 30_000_000
"""Maximum number of points of all meshes together, including scaled copies."""


@dataclass(slots=True, eq=False)
class Body:
    """A rigid body: prim, world transform in SI with Z up, and rigid link frame."""

    prim: pxr.Prim
    path: str
    affine: Affine
    """World transform of the prim [m], Z up, including scale and shear."""
    pose: Pose
    """Link frame: the rigid part Q of the transform."""
    scale: Array
    """Symmetric part S, shape (3, 3): map from the prim's coordinates to the link frame."""
    parent: str | None = None
    """Path of the closest enabled body above."""
    name: str = ""


_VALUE_CLASSES = {
    **{"bool": "bool", "int": "int", "double": "float", "string": "str", "token": "str", "asset": "AssetPath"},
    **{"double2": "Vec2d", "double3": "Vec3d", "quatd": "Quatd"},
    **{"double[]": "DoubleArray", "double3[]": "Vec3dArray", "token[]": "TokenArray"},
}
"""USD type of a custom attribute -> class of its values."""


@dataclass(slots=True, eq=False)
class StageIndex:
    """Relevant prims of a stage by category, in stage order, with caches."""

    stage: pxr.Stage
    file: str
    units: Units
    diagnostics: Diagnostics
    time: Any
    """Time code at which attributes are read."""
    transforms: WorldTransforms
    """World transforms at that time."""
    values: PrimValues
    """Attribute values at that time."""
    to_si: Array
    """Matrix (USD row-vector convention), shape (4, 4), from the stage's world to metres and Z up."""
    bodies: dict[str, Body] = field(default_factory=dict)
    gprims: list[pxr.Prim] = field(default_factory=list)
    joints: list[pxr.Prim] = field(default_factory=list)
    scenes: list[pxr.Prim] = field(default_factory=list)
    collision_groups: list[pxr.Prim] = field(default_factory=list)
    articulations: list[pxr.Prim] = field(default_factory=list)
    filtered_pairs: list[pxr.Prim] = field(default_factory=list)
    cameras: list[pxr.Prim] = field(default_factory=list)
    lights: list[pxr.Prim] = field(default_factory=list)
    vendor_prims: list[pxr.Prim] = field(default_factory=list)
    """Typed prims of vendor schemas (actuators, tendons, ...)."""
    tendon_wrapped_paths: set[str] = field(default_factory=set)
    """Target paths of MuJoCo's tendons."""
    records: list[pxr.Prim] = field(default_factory=list)
    """Record prims of Kinema, which represent objects without USD type."""
    static_links: list[pxr.Prim] = field(default_factory=list)
    """Prims of Kinema for links of static robots."""
    material_bound: list[pxr.Prim] = field(default_factory=list)
    """Prims with material bindings."""
    instances: InstanceExpander = field(init=False)
    """Expanded instances of point instancers."""
    owner_of: dict[str, str | None] = field(default_factory=dict)
    """Prim path -> path of the closest enabled body at or above it."""
    reported: set[tuple[str, str]] = field(default_factory=set)
    """(prim path, code) of errors that are reported once."""
    meshes: dict[Any, Mesh] = field(default_factory=dict)
    """Cache: (source, scale) -> mesh with the scale baked in."""
    resolve: Resolver = field(default_factory=Resolver)
    """Resolves the files that may be read."""
    points_left: int = MAX_POINTS
    """Remaining number of mesh points."""
    last_polygons: tuple[pxr.Prim, np.ndarray, np.ndarray] | None = None
    """Last mesh read: prim, face vertex counts and face vertex indices."""
    value: Callable[[pxr.Prim, str], Any] = field(init=False)
    """(prim, name) -> value of an attribute, its fallback, or None."""
    authored: Callable[[pxr.Prim, str], Any] = field(init=False)
    """(prim, name) -> authored value of an attribute, or None."""

    def __post_init__(self) -> None:
        self.value, self.authored = self.values.value, self.values.authored

    def custom_value(self, prim: pxr.Prim, attribute: kinema_usd.CustomAttribute) -> Any:
        """Value of a custom attribute of Kinema, in Python types and float64 arrays; an asset path stays one.

        None if the stage was not written by Kinema, or the attribute is absent, of the wrong type or not finite.
        """
        value = None if self.values.kinema_layer_data is None else self.authored(prim, attribute.name)
        if value is None or type(value).__name__ != _VALUE_CLASSES[attribute.type]:
            return None
        if isinstance(value, str | pxr.Sdf.AssetPath):
            return value
        if isinstance(value, pxr.Vt.TokenArray):
            return tuple(value)
        numbers = flatten_value(value)
        if not (attribute.may_be_infinite or np.isfinite(numbers).all()):
            return None
        if not numbers.ndim:
            return value
        return numbers.tolist() if attribute.type in ("double2", "double3") else numbers

    def origin(self, prim: pxr.Prim) -> Origin:
        """Origin of a prim."""
        return Origin(self.file, None, self.values.facts(prim).path)

    def world_transform(self, prim: pxr.Prim) -> Affine:
        """World transform of a prim [m], Z up; non-finite transforms are reported."""
        self.values.note_time_samples(prim)
        affine = affine_from_gf(reproducible_product(self._local_to_world(prim), self.to_si))
        if not affine.is_finite:
            self.report_once(
                prim, "usd.transform-not-finite", f"the transform of {prim.GetName()!r} holds NaN or infinity"
            )
        return affine

    def report_once(self, prim: pxr.Prim, code: str, message: str) -> None:
        """Report an error of a prim at most once per code."""
        origin = self.origin(prim)
        if (origin.path, code) not in self.reported:
            self.reported.add((origin.path, code))
            self.diagnostics.error(code, message, origin=origin)

    def _local_to_world(self, prim: pxr.Prim) -> Array:
        """Local-to-world matrix in stage units, shape (4, 4); NaN if the transform is malformed."""
        try:
            return self.transforms.matrix(prim)
        except pxr.Tf.ErrorException:  # an operation holds a value of the wrong type
            return np.full((4, 4), math.nan)

    def world_transforms(self, prims: Sequence[pxr.Prim]) -> tuple[Array, Array]:
        """World transforms of many prims: linear parts, shape (n, 3, 3), and offsets, shape (n, 3)."""
        matrices = np.zeros((len(prims), 4, 4))
        for i, prim in enumerate(prims):
            self.values.note_time_samples(prim)
            matrices[i] = self._local_to_world(prim)
        perspective = np.abs(matrices[:, :, 3] - (0, 0, 0, 1)).max(axis=1, initial=0.0)
        for i in np.flatnonzero(perspective > 1e-9).tolist():  # non-finite transforms are reported elsewhere
            message = f"the transform of {prims[i].GetName()!r} holds a perspective (a last column), which is ignored"
            self.report_once(prims[i], "usd.perspective", message)
        matrices = reproducible_product(matrices, self.to_si)
        return np.ascontiguousarray(np.swapaxes(matrices[:, :3, :3], 1, 2)), matrices[:, 3, :3]

    def schemas(self, prim: pxr.Prim) -> frozenset[str]:
        """API schemas applied to a prim."""
        return self.values.facts(prim).schemas

    def owner_body(self, prim: pxr.Prim) -> Body | None:
        """Closest enabled body at or above a prim, or None."""
        found = self.owner_path(self.values.facts(prim).path)
        return None if found is None else self.bodies[found]

    def owner_path(self, path: str) -> str | None:
        """Path of the closest enabled body at or above a path, or None (cached)."""
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
        """Target paths of a relationship; empty if not authored."""
        facts = self.values.facts(prim)
        if name not in facts.authored:
            return []
        known = facts.prefetched.get(name)
        return self.values.targets(prim, name) if known is None else known

    def positive_value(self, prim: pxr.Prim, name: str) -> float | None:
        """A mass or density attribute; None for zero (unset) and, with an error, for invalid values."""
        value = self.value(prim, name)
        if value is None or value == 0:
            return None
        if not math.isfinite(value) or value < 0:
            self.diagnostics.error(
                "usd.bad-mass",
                f"{name.removeprefix(usd_physics.NAMESPACE)} of {prim.GetName()!r} is {value:g}; it is "
                "taken as not given",
                origin=self.origin(prim),
            )
            return None
        return float(value)


def index_stage(stage: pxr.Stage, file: str, units: Units, diagnostics: Diagnostics) -> StageIndex:
    """Traverse the stage, with instances expanded, and build its index."""
    time = _start_time(stage)
    values = PrimValues(stage, file, time, diagnostics)
    index = StageIndex(stage, file, units, diagnostics, time, WorldTransforms(time, values), values, _si_matrix(units))
    bodies: list[pxr.Prim] = []
    index.instances = InstanceExpander(stage, file, time, values, diagnostics)
    prims = index.instances.expand_and_traverse()
    values.gather_facts(prims)
    for prim in prims:
        _index_prim(index, prim, bodies)
    _add_bodies(index, bodies)
    values.prefetch([*index.gprims, *index.joints])
    for path, body in index.bodies.items():
        body.parent = index.owner_path(path.rpartition("/")[0])
    return index


def _start_time(stage: pxr.Stage) -> Any:
    """Time code to read: start of the authored range, otherwise the earliest time."""
    if stage.HasAuthoredTimeCodeRange():
        return pxr.Usd.TimeCode(stage.GetStartTimeCode())
    return pxr.Usd.TimeCode.EarliestTime()


def _si_matrix(units: Units) -> Array:
    """Unit scale and up-axis rotation as a USD matrix (row vectors)."""
    matrix = np.eye(4)
    matrix[:3, :3] = units.length * units.up.T
    return matrix


def report_animation(index: StageIndex) -> None:
    """Report that animated values were read at a single time."""
    animated = list(index.values.animated)
    if animated:
        has_range = index.stage.HasAuthoredTimeCodeRange()
        at = f"the start time, {index.time.GetValue():g}" if has_range else "its first sample"
        more = f" and {len(animated) - 1} more are" if len(animated) > 1 else " is"
        message = f"{animated[0]}{more} animated; what is read is the value at {at}"
        index.diagnostics.note("usd.time-samples", message, origin=Origin(index.file, None, animated[0]))


def _index_prim(index: StageIndex, prim: pxr.Prim, bodies: list[pxr.Prim]) -> None:
    """Add a prim to the lists of the index by type and schema; rigid bodies go to `bodies`."""
    facts = index.values.facts(prim)
    schemas = facts.schemas
    if usd_physics.RIGID_BODY_API in schemas:
        bodies.append(prim)
    if usd_physics.ARTICULATION_ROOT_API in schemas:
        index.articulations.append(prim)
    if usd_physics.FILTERED_PAIRS_API in schemas:
        index.filtered_pairs.append(prim)
    if usd.MATERIAL_BINDING_API in schemas:
        index.material_bound.append(prim)
    if usd_physics.MASS_API in schemas and not schemas & {usd_physics.RIGID_BODY_API, usd_physics.COLLISION_API}:
        index.diagnostics.warning(
            "usd.mass-on-neither",
            f"the mass schema on {prim.GetName()!r} is ignored: it is neither a rigid body nor a collider",
            hint="apply PhysicsMassAPI to the body or to its colliders",
            origin=index.origin(prim),
        )
    kind, type_name = facts.kind, facts.kind.type
    if kind.is_joint:
        index.joints.append(prim)
    elif type_name == usd_physics.SCENE:
        index.scenes.append(prim)
    elif type_name == usd_physics.COLLISION_GROUP:
        index.collision_groups.append(prim)
    elif kind.is_gprim:
        index.gprims.append(prim)
    elif type_name == usd.CAMERA:
        index.cameras.append(prim)
    elif kind.is_light:
        index.lights.append(prim)
    elif type_name.startswith((mjc.SCHEMA_PREFIX, newton.SCHEMA_PREFIX)):
        index.vendor_prims.append(prim)
        if type_name == mjc.TENDON:
            index.tendon_wrapped_paths.update(map(str, index.targets(prim, mjc.PATH)))
    elif type_name == usd.SCOPE and kinema_usd.RECORD.name in facts.authored:
        index.records.append(prim)
    elif type_name == usd.XFORM and kinema_usd.STATIC_LINK.name in facts.authored:
        index.static_links.append(prim)
    elif usd_physics.COLLISION_API in schemas:
        index.diagnostics.warning(
            "usd.collider-without-shape",
            f"{prim.GetName()!r} ({type_name or 'no type'}) has the collision schema but is no shape: it is ignored",
            hint="apply PhysicsCollisionAPI to the geometry below it",
            origin=index.origin(prim),
        )


def _add_bodies(index: StageIndex, prims: Sequence[pxr.Prim]) -> None:
    """Add the enabled rigid bodies to the index, with link frames from the polar decomposition."""
    index.values.prefetch(prims)
    prims = [prim for prim in prims if _is_enabled_body(index, prim)]
    linears, offsets = index.world_transforms(prims)
    finite = np.isfinite(linears).all(axis=(1, 2)) & np.isfinite(offsets).all(axis=1)
    for i in np.flatnonzero(~finite):
        index.diagnostics.error(
            "usd.transform-not-finite",
            f"the transform of body {prims[i].GetName()!r} holds NaN or infinity; it is put at the origin",
            origin=index.origin(prims[i]),
        )
        linears[i], offsets[i] = np.eye(3), 0.0
    rotations, scales = polar_decomposition_batch(linears)
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


def _is_enabled_body(index: StageIndex, prim: pxr.Prim) -> bool:
    """Whether a prim with the rigid body schema is enabled and has a transform."""
    if index.value(prim, usd_physics.RIGID_BODY_ENABLED) is False:
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
