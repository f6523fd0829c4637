"""One walk over the stage: what there is, where it is, and which body it belongs to."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from kinema.foundation import Diagnostics, Origin, Pose

from . import pxr
from .polar import Affine, from_gf, is_singular, polar
from .units import Units


@dataclass(slots=True, eq=False)
class Body:
    """A rigid body: its prim, its exact world transform in SI with Z up, and the rigid frame of its link."""

    prim: pxr.Prim
    path: str
    affine: Affine
    """World transform of the prim: metres, Z up, scale and shear included."""
    pose: Pose
    """The link's frame: the rigid part Q of the transform."""
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
    owner_of: dict[str, str | None] = field(default_factory=dict)
    """Prim path -> path of the closest enabled body at or above it."""

    def origin(self, prim: pxr.Prim) -> Origin:
        """Where a prim is."""
        return Origin(self.file, None, str(prim.GetPath()))

    def world(self, prim: pxr.Prim) -> Affine:
        """A prim's world transform in metres, Z up."""
        units = self.units
        local = from_gf(self.cache.GetLocalToWorldTransform(prim))
        return Affine(units.length * units.up @ local.linear, units.length * units.up @ local.offset)

    def owner(self, prim: pxr.Prim) -> Body | None:
        """The closest enabled body at or above a prim."""
        trail: list[str] = []
        found: str | None = None
        while prim and not prim.IsPseudoRoot():
            path = str(prim.GetPath())
            if path in self.owner_of:
                found = self.owner_of[path]
                break
            trail.append(path)
            if path in self.bodies:
                found = path
                break
            prim = prim.GetParent()
        for path in trail:
            self.owner_of[path] = found
        return None if found is None else self.bodies[found]

    def value(self, prim: pxr.Prim, name: str) -> Any:
        """An attribute's value at the index's time, its fallback, or None."""
        attribute = prim.GetAttribute(name)
        return attribute.Get(self.time) if attribute else None

    def authored(self, prim: pxr.Prim, name: str) -> Any:
        """An attribute's value where the stage says it, else None."""
        attribute = prim.GetAttribute(name)
        return attribute.Get(self.time) if attribute and attribute.HasAuthoredValue() else None


def index_stage(stage: pxr.Stage, file: str, units: Units, diagnostics: Diagnostics) -> StageIndex:
    """Walk the stage, instances included."""
    time = _start_time(stage, file, diagnostics)
    index = StageIndex(stage, file, units, diagnostics, time, pxr.UsdGeom.XformCache(time))
    walk = iter(pxr.Usd.PrimRange(stage.GetPseudoRoot(), pxr.Usd.TraverseInstanceProxies()))
    for prim in walk:
        if prim.IsPseudoRoot():
            continue
        _sort_in(index, prim)
        if prim.IsA(pxr.UsdGeom.PointInstancer):
            walk.PruneChildren()  # its prototypes are placed by the instancer: see `instancers`
    for body in index.bodies.values():
        above = index.owner(body.prim.GetParent())
        body.parent = None if above is None else above.path
    return index


def _start_time(stage: pxr.Stage, file: str, diagnostics: Diagnostics) -> Any:
    """The time to read at: the start of the animation where there is one, the default time else."""
    if not stage.HasAuthoredTimeCodeRange():
        return pxr.Usd.TimeCode.EarliestTime()
    start = stage.GetStartTimeCode()
    diagnostics.note("usd.time-samples", f"animated values are read at the start time, {start:g}", origin=Origin(file))
    return pxr.Usd.TimeCode(start)


def _sort_in(index: StageIndex, prim: pxr.Prim) -> None:

    schemas = prim.GetAppliedSchemas()
    if "PhysicsRigidBodyAPI" in schemas:
        _add_body(index, prim)
    if "PhysicsArticulationRootAPI" in schemas:
        index.articulations.append(prim)
    if "PhysicsFilteredPairsAPI" in schemas:
        index.filtered.append(prim)
    kind = str(prim.GetTypeName())
    if kind.startswith("Physics"):
        if prim.IsA(pxr.UsdPhysics.Joint):
            index.joints.append(prim)
        elif kind == "PhysicsScene":
            index.scenes.append(prim)
        elif kind == "PhysicsCollisionGroup":
            index.groups.append(prim)
    elif prim.IsA(pxr.UsdGeom.Gprim):
        index.gprims.append(prim)
    elif kind == "Camera":
        index.cameras.append(prim)
    elif prim.HasAPI(pxr.UsdLux.LightAPI):
        index.lights.append(prim)
    elif kind.startswith("Mjc"):
        index.others.append(prim)
    elif "PhysicsCollisionAPI" in schemas:
        index.diagnostics.warning(
            "usd.collider-without-shape",
            f"{prim.GetName()!r} ({kind or 'no type'}) has the collision schema but is no shape; it does not collide",
            hint="apply PhysicsCollisionAPI to the geometry below it",
            origin=index.origin(prim),
        )


def _add_body(index: StageIndex, prim: pxr.Prim) -> None:

    if index.value(prim, "physics:rigidBodyEnabled") is False:
        return
    if not prim.IsA(pxr.UsdGeom.Xformable):
        index.diagnostics.error(
            "usd.body-not-xformable",
            f"{prim.GetName()!r} is a rigid body but has no place in the world",
            hint="give it a type such as Xform",
            origin=index.origin(prim),
        )
        return
    affine = index.world(prim)
    if not affine.is_finite:
        index.diagnostics.error(
            "usd.transform-not-finite",
            f"the transform of body {prim.GetName()!r} holds NaN or infinity; it is put at the origin",
            origin=index.origin(prim),
        )
        affine = Affine(np.eye(3), np.zeros(3))
    elif is_singular(affine.linear):
        index.diagnostics.error(
            "usd.zero-scale",
            f"body {prim.GetName()!r} is scaled to nothing in some direction",
            hint="give every scale a value other than zero",
            origin=index.origin(prim),
        )
    path = str(prim.GetPath())
    index.bodies[path] = Body(prim, path, affine, Pose(affine.offset, polar(affine.linear)[0]))
