"""Point instancers: each instance of a prototype becomes bodies and shapes of its own."""

from __future__ import annotations

from dataclasses import dataclass, field

from kinema.foundation import Pose

from . import pxr
from .materials import Materials
from .polar import Affine, from_gf, polar
from .shapes_on_links import StageShape, into_link, read_shape
from .stage_index import Body, StageIndex

MAX_INSTANCES = 100_000


@dataclass(slots=True, eq=False)
class Instance:
    """One copy of a prototype."""

    shapes: list[StageShape] = field(default_factory=list)


def expand_instancers(index: StageIndex) -> list[Instance]:
    """Put the bodies of all instances into the index; their shapes are given back."""
    result: list[Instance] = []
    materials = Materials(index, [])
    for prim in index.instancers:
        result += _expand(index, prim, MAX_INSTANCES - len(result), materials)
    return result


def _expand(index: StageIndex, prim: pxr.Prim, room: int, materials: Materials) -> list[Instance]:
    instancer = pxr.UsdGeom.PointInstancer(prim)
    prototypes = [index.stage.GetPrimAtPath(p) for p in instancer.GetPrototypesRel().GetTargets()]
    which = instancer.GetProtoIndicesAttr().Get(index.time) or []
    transforms = instancer.ComputeInstanceTransformsAtTime(
        index.time, index.time, pxr.UsdGeom.PointInstancer.IncludeProtoXform, pxr.UsdGeom.PointInstancer.ApplyMask
    )
    mask = instancer.ComputeMaskAtTime(index.time) or [True] * len(which)
    kept = [(i, p) for i, (p, on) in enumerate(zip(which, mask, strict=False)) if on]
    if len(kept) > room:
        message = f"instancer {prim.GetName()!r} has {len(kept)} instances; only {room} are read"
        index.diagnostics.error("usd.too-many-instances", message, origin=index.origin(prim))
        kept = kept[:room]
    result: list[Instance] = []
    for (number, proto), transform in zip(kept, transforms, strict=False):
        if 0 <= proto < len(prototypes) and prototypes[proto]:
            place = index.world(prim) @ from_gf(transform)
            result.append(_instance(index, prototypes[proto], place, f"{prim.GetPath()}/instance_{number}", materials))
    return result


def _instance(index: StageIndex, prototype: pxr.Prim, place: Affine, path: str, materials: Materials) -> Instance:
    """A copy of the prototype at a place; paths below the prototype continue the instance's own path."""
    instance = Instance()
    root = str(prototype.GetPath())
    # the transform already includes the prototype's own: what is below is placed relative to it
    inside = index.world(prototype).inverse()
    for prim in pxr.Usd.PrimRange(prototype, pxr.Usd.TraverseInstanceProxies()):
        world = place @ inside @ index.world(prim)
        own_path = path + str(prim.GetPath())[len(root) :]
        if "PhysicsRigidBodyAPI" in index.schemas(prim) and index.value(prim, "physics:rigidBodyEnabled"):
            rotation, scale = polar(world.linear)
            body = Body(prim, own_path, world, Pose(world.offset, rotation), scale)
            body.parent = _above(index, own_path)
            index.bodies[own_path] = body
        if prim.IsA(pxr.UsdGeom.Gprim):
            above = own_path if own_path in index.bodies else _above(index, own_path)
            owner = None if above is None else index.bodies[above]
            shape = read_shape(index, prim, owner, into_link(world, owner), materials)
            if shape is not None:
                shape.shape.origin = type(shape.shape.origin)(index.file, None, own_path)
                instance.shapes.append(shape)
    return instance


def _above(index: StageIndex, path: str) -> str | None:
    """The closest body above a path."""
    while "/" in path[1:]:
        path = path.rsplit("/", 1)[0]
        if path in index.bodies:
            return path
    return None
