"""Point instancers: each instance becomes a copy of its prototype, composed by OpenUSD itself.

A copy is a prim below the instancer, in the session layer, which is ours alone: an instance that refers to the
prototype and stands where the instancer puts it. So everything in a prototype comes along under paths of its own:
joints, articulations, materials, other instancers.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from kinema.foundation import Array, Diagnostics, Origin
from kinema.words import physics, usd

from . import pxr
from .polar import from_gf, polar
from .prim_values import PrimValues

MAX_INSTANCES = 10_000
MAX_COPIED_PRIMS = 300_000
MAX_LEVELS = 8
"""Instancers in the prototypes of instancers."""
_ROOM = "instances"
"""The prim in an instancer that holds its copies."""
_PLACE = f"{usd.TRANSFORM}:instance"


class _Copy(NamedTuple):
    """One instance, before there is a prim for it."""

    path: str
    prototype: Any
    """The path of what it is a copy of."""
    matrix: Any
    """Where it is, in the instancer."""
    velocities: dict[str, Array]
    """Attribute -> value, in the space of the instancer."""


class Copies:
    """The instances of all point instancers of a stage, as prims."""

    def __init__(self, stage: pxr.Stage, file: str, time: Any, values: PrimValues, diagnostics: Diagnostics) -> None:
        self._stage = stage
        self._file = file
        self._time = time
        self._values = values
        self._diagnostics = diagnostics
        self._of: dict[str, list[str]] = {}
        """Instancer -> its copies."""
        self._prototypes: dict[str, str] = {}
        """Copy -> what it is a copy of."""
        self._room = MAX_INSTANCES
        self._prims_left = MAX_COPIED_PRIMS

    def walk(self) -> list[pxr.Prim]:
        """All prims of the stage, instances and copies included; what is in instancers otherwise has no place."""
        while True:
            prims, new = self._look()
            if not new:
                return prims
            if not self._split_instances(new):
                copies = [copy for prim in new for copy in self._expand(prim)]
                self._author(copies)

    def source(self, path: str) -> str:
        """The path of the prim that the one at a path is a copy of; empty where it is none."""
        below = ""
        while path and self._prototypes:
            if path in self._prototypes:
                return self._prototypes[path] + below
            path, _, name = path.rpartition("/")
            below = f"/{name}{below}"
        return ""

    def _look(self) -> tuple[list[pxr.Prim], list[pxr.Prim]]:
        """All prims, and the instancers among them that are new; copies come last."""
        prims: list[pxr.Prim] = []
        new: list[pxr.Prim] = []
        kind = pxr.UsdGeom.PointInstancer
        roots = deque([self._stage.GetPseudoRoot()])
        while roots:
            walk = iter(pxr.Usd.PrimRange(roots.popleft(), pxr.Usd.TraverseInstanceProxies()))
            for prim in walk:
                prims.append(prim)
                if prim.IsA(kind):
                    walk.PruneChildren()
                    path = str(prim.GetPath())
                    if path not in self._of:
                        new.append(prim)
                    made = map(self._stage.GetPrimAtPath, self._of.get(path, ()))
                    roots.extend(copy for copy in made if copy)
        return prims[1:], new  # the first is the root above all prims

    def _split_instances(self, instancers: Sequence[pxr.Prim]) -> bool:
        """Whether instancers were inside instances, which have to be prims of their own to hold copies."""
        shared = [prim for prim in instancers if prim.IsInstanceProxy()]
        paths: dict[Any, None] = {}
        for prim in shared:
            while prim.IsInstanceProxy():
                prim = prim.GetParent()
            paths[prim.GetPath()] = None
        with pxr.Usd.EditContext(self._stage, self._stage.GetSessionLayer()):
            for path in paths:
                self._stage.OverridePrim(path).SetInstanceable(False)
        return bool(shared)

    # -- one instancer --

    def _expand(self, prim: pxr.Prim) -> Iterator[_Copy]:
        """The copies that an instancer asks for, and what is wrong with them."""
        path = str(prim.GetPath())
        copies = self._of[path] = []
        prototypes = self._prototypes_of(prim, path)
        instances = self._instances(prim)
        self._room -= len(instances)
        sizes = [0 if p is None else _size(p) for p in prototypes]
        # not right below the instancer: thousands of references to a sibling take OpenUSD very long
        around = f"{path}/{_ROOM}"
        while self._stage.GetPrimAtPath(around):
            around += "_"
        lost = 0
        for number, which, matrix, velocities in instances:
            prototype = prototypes[which] if 0 <= which < len(prototypes) else None
            if prototype is None or not np.isfinite(np.array(matrix)).all() or self._prims_left < sizes[which]:
                lost += 1
                continue
            self._prims_left -= sizes[which]
            copies.append(f"{around}/instance_{number}")
            self._prototypes[copies[-1]] = str(prototype.GetPath())
            moving = self._velocities(prototype, *velocities)
            yield _Copy(copies[-1], prototype.GetPath(), matrix, moving)
        if lost:
            self._complain(
                prim,
                "usd.bad-instancer",
                f"{lost} instances of {prim.GetName()!r} have no prototype, no place or no room; they are left out",
            )

    def _prototypes_of(self, prim: pxr.Prim, path: str) -> list[pxr.Prim | None]:
        """The prims that an instancer copies; None for what cannot be copied into it."""
        if usd.PROTOTYPES not in self._values.facts(prim).authored:
            return []
        result: list[pxr.Prim | None] = []
        levels = sum(1 for copy in self._prototypes if path.startswith(copy + "/"))
        for target in self._values.targets(prim, usd.PROTOTYPES):
            found = self._stage.GetPrimAtPath(target) if target.IsPrimPath() else None
            around = f"{path}/".startswith(f"{target}/")  # it would hold itself
            result.append(found if found and not around and levels < MAX_LEVELS else None)
        return result

    def _instances(self, prim: pxr.Prim) -> list[tuple[int, int, Any, tuple[Any, ...]]]:
        """Of each instance that is not masked: number, prototype, place, and what `_velocities` takes."""
        kinds = pxr.UsdGeom.PointInstancer
        instancer, time = kinds(prim), self._time
        prototypes = np.asarray(self._values.value(prim, usd.PROTOTYPE_INDICES) or (), dtype=np.int64)
        try:
            places, turns = (
                instancer.ComputeInstanceTransformsAtTime(time, time, how, kinds.IgnoreMask)
                for how in (kinds.IncludeProtoXform, kinds.ExcludeProtoXform)
            )
            mask = instancer.ComputeMaskAtTime(time)
        except pxr.Tf.ErrorException:
            places, turns, mask = (), (), None
        n = len(prototypes)
        if len(places) != n or len(turns) != n:
            self._complain(
                prim,
                "usd.bad-instancer",
                f"instancer {prim.GetName()!r} names a prototype for {n} instances, but does not place them",
                "give positions, orientations and scales as many values as protoIndices",
            )
            return []
        shown = np.ones(n, dtype=bool) if not mask or len(mask) != n else np.asarray(mask)
        numbers = np.flatnonzero(shown).tolist()
        if len(numbers) > self._room:
            message = f"instancer {prim.GetName()!r} has {len(numbers)} instances; only {self._room} are read"
            self._complain(prim, "usd.too-many-instances", message)
        moving = [self._values.value(prim, name) for name in (usd.VELOCITIES, usd.ANGULAR_VELOCITIES)]
        linear, angular = (np.asarray(v) if v is not None and len(v) == n else None for v in moving)
        return [
            (
                i,
                int(prototypes[i]),
                places[i],
                (turns[i], None if linear is None else linear[i], None if angular is None else angular[i]),
            )
            for i in numbers[: self._room]
        ]

    def _velocities(
        self, prototype: pxr.Prim, turn: Any, linear: Array | None, angular: Array | None
    ) -> dict[str, Array]:
        """How a copied body starts: as the instancer says, else as its prototype does, turned with the instance."""
        facts = self._values.facts(prototype)
        if physics.RIGID_BODY_API not in facts.schemas:
            return {}
        frame = from_gf(turn).linear
        result = {physics.VELOCITY: linear, physics.ANGULAR_VELOCITY: angular}
        for name, value in result.items():
            if value is None and name in facts.authored:
                own = np.array(self._values.value(prototype, name), dtype=np.float64)
                result[name] = (frame if name == physics.VELOCITY else polar(frame)[0]) @ own
        return {name: value for name, value in result.items() if value is not None}

    # -- prims for copies --

    def _author(self, copies: Sequence[_Copy]) -> None:
        """Make the copies, all at once: OpenUSD composes them afterwards."""
        layer = self._stage.GetSessionLayer()
        is_xformable = {c.prototype: self._is_xformable(c.prototype) for c in copies}
        with pxr.Sdf.ChangeBlock():
            for path in {copy.path.rpartition("/")[0]: None for copy in copies}:
                around = pxr.Sdf.CreatePrimInLayer(layer, path)
                around.specifier, around.typeName = pxr.Sdf.SpecifierDef, usd.XFORM
            for copy in copies:
                _author(layer, copy, is_xformable[copy.prototype])

    def _is_xformable(self, path: Any) -> bool:
        return self._values.facts(self._stage.GetPrimAtPath(path)).kind.is_xformable

    def _complain(self, prim: pxr.Prim, code: str, message: str, hint: str = "") -> None:
        origin = Origin(self._file, None, str(prim.GetPath()))
        self._diagnostics.error(code, message, hint=hint, origin=origin)


def _size(prototype: pxr.Prim) -> int:
    """How many prims a copy has."""
    everything = pxr.Usd.TraverseInstanceProxies(pxr.Usd.PrimAllPrimsPredicate)
    return sum(1 for _ in pxr.Usd.PrimRange(prototype, everything))


def _author(layer: Any, copy: _Copy, is_xformable: bool) -> None:
    sdf = pxr.Sdf
    types = sdf.ValueTypeNames
    spec = sdf.CreatePrimInLayer(layer, copy.path)
    spec.specifier = sdf.SpecifierDef
    if not is_xformable:  # it has to stand somewhere
        spec.typeName = usd.XFORM
    spec.instanceable = True
    spec.referenceList.prependedItems = [sdf.Reference("", copy.prototype)]
    sdf.AttributeSpec(spec, _PLACE, types.Matrix4d).default = copy.matrix
    sdf.AttributeSpec(spec, usd.XFORM_OP_ORDER, types.TokenArray, sdf.VariabilityUniform).default = [_PLACE]
    for name, value in copy.velocities.items():
        sdf.AttributeSpec(spec, name, types.Vector3f).default = pxr.Gf.Vec3f(*map(float, value))
