"""Point instancers: each instance of a prototype becomes bodies and shapes of its own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from kinema.foundation import Array, Origin, Pose

from . import pxr
from .materials import Materials
from .polar import Affine, from_gf, polar
from .shapes_on_links import StageShape, into_link, read_shape
from .stage_index import Body, StageIndex

MAX_INSTANCES = 10_000


@dataclass(slots=True, eq=False)
class _Part:
    """A prim of a prototype that becomes something."""

    prim: pxr.Prim
    below: str
    """Its path below the prototype."""
    inside: Affine
    """Where it is in the prototype."""
    is_body: bool
    is_shape: bool


def expand_instancers(index: StageIndex) -> list[StageShape]:
    """Put the bodies of all instances into the index; their shapes are given back."""
    result: list[StageShape] = []
    materials = Materials(index, [])
    room = MAX_INSTANCES
    for prim in index.instancers:
        instances = _instances(index, prim, room)
        room -= len(instances)
        result += _expand(index, prim, instances, materials)
    return result


def _instances(index: StageIndex, prim: pxr.Prim, room: int) -> list[tuple[int, int, Any]]:
    """Number, prototype and transform (in the instancer's frame) of each instance that is not masked."""
    instancer = pxr.UsdGeom.PointInstancer(prim)
    prototypes = np.asarray(index.value(prim, "protoIndices") or (), dtype=np.int64)
    kinds = pxr.UsdGeom.PointInstancer
    try:
        transforms = instancer.ComputeInstanceTransformsAtTime(
            index.time, index.time, kinds.IncludeProtoXform, kinds.IgnoreMask
        )
        mask = instancer.ComputeMaskAtTime(index.time)
    except pxr.Tf.ErrorException:
        transforms, mask = (), None
    if len(transforms) != len(prototypes):
        index.diagnostics.error(
            "usd.bad-instancer",
            f"instancer {prim.GetName()!r} names a prototype for {len(prototypes)} instances, but does not place them",
            hint="give positions, orientations and scales as many values as protoIndices",
            origin=index.origin(prim),
        )
        return []
    shown = np.ones(len(prototypes), dtype=bool) if not mask or len(mask) != len(prototypes) else np.asarray(mask)
    numbers = np.flatnonzero(shown).tolist()
    if len(numbers) > room:
        message = f"instancer {prim.GetName()!r} has {len(numbers)} instances; only {room} are read"
        index.diagnostics.error("usd.too-many-instances", message, origin=index.origin(prim))
    return [(i, int(prototypes[i]), transforms[i]) for i in numbers[:room]]


def _expand(
    index: StageIndex, prim: pxr.Prim, instances: Sequence[tuple[int, int, Any]], materials: Materials
) -> Iterator[StageShape]:
    targets = index.targets(prim, "prototypes")
    prototypes = [index.stage.GetPrimAtPath(path) if path.IsPrimPath() else None for path in targets]
    parts = [_parts(index, prim, prototype) if prototype else [] for prototype in prototypes]
    world = index.world(prim)
    lost = 0
    for number, which, transform in instances:
        place = world @ from_gf(transform)
        if not 0 <= which < len(parts) or not place.is_finite:
            lost += 1
            continue
        yield from _instance(index, parts[which], place, f"{prim.GetPath()}/instance_{number}", materials)
    if lost:
        index.diagnostics.error(
            "usd.bad-instancer",
            f"{lost} instances of {prim.GetName()!r} have no prototype or no place; they are left out",
            origin=index.origin(prim),
        )


def _parts(index: StageIndex, instancer: pxr.Prim, prototype: pxr.Prim) -> list[_Part]:
    """What a prototype holds; what cannot be copied with it is reported."""
    root = str(prototype.GetPath())
    result: list[_Part] = []
    lost: list[str] = []
    walk = iter(pxr.Usd.PrimRange(prototype, pxr.Usd.TraverseInstanceProxies()))
    for prim in walk:
        facts = index.values.facts(prim)
        if facts.kind.is_instancer:
            lost.append(f"instancer {facts.path}")
            walk.PruneChildren()
            continue
        if facts.kind.is_joint:
            lost.append(f"joint {facts.path}")
        is_body = "PhysicsRigidBodyAPI" in facts.schemas and bool(index.value(prim, "physics:rigidBodyEnabled"))
        if facts.kind.is_xformable and (is_body or facts.kind.is_gprim):
            inside = from_gf(index.cache.ComputeRelativeTransform(prim, prototype)[0])
            result.append(_Part(prim, facts.path[len(root) :], inside, is_body, facts.kind.is_gprim))
    if lost:
        index.diagnostics.warning(
            "usd.lost-in-prototype",
            f"{lost[0]}{f' and {len(lost) - 1} more' if len(lost) > 1 else ''} in a prototype of"
            f" {instancer.GetName()!r} cannot be copied with its instances",
            hint="use scene graph instances (instanceable references) for prototypes with joints",
            origin=index.origin(instancer),
        )
    return result


def _instance(
    index: StageIndex, parts: Sequence[_Part], place: Affine, path: str, materials: Materials
) -> Iterator[StageShape]:
    """A copy of a prototype at a place; paths below the prototype continue the instance's own path."""
    for part in parts:
        world = place @ part.inside
        own_path = path + part.below
        if part.is_body:
            _add_body(index, part, world, own_path)
        if part.is_shape:
            above = index.owner_path(own_path)
            owner = None if above is None else index.bodies[above]
            shape = read_shape(index, part.prim, owner, into_link(world, owner), materials)
            if shape is not None:
                shape.shape.origin = Origin(index.file, None, own_path)
                yield shape


def _add_body(index: StageIndex, part: _Part, world: Affine, path: str) -> None:
    if not world.is_finite:
        index.diagnostics.error(
            "usd.transform-not-finite",
            f"the transform of {path} holds NaN or infinity; it is put at the origin",
            origin=index.origin(part.prim),
        )
        world = Affine(np.eye(3), np.zeros(3))
    rotation, scale = polar(world.linear)
    body = Body(part.prim, path, world, Pose(_own(world.offset), rotation), scale)
    body.parent = index.owner_path(path.rpartition("/")[0])
    index.bodies[path] = body


def _own(values: Array) -> Array:
    """A copy, so that a small array does not keep a large one alive."""
    return values.copy()
