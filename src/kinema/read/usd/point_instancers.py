"""Point instancers: each instance becomes a prim in the session layer that references its prototype.

The copies are children of the instancer with the transform of the instance, so all content of a prototype (joints,
articulations, materials, nested instancers) exists once per instance under separate paths.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from kinema.core import Array, Diagnostics, Origin, reproducible_product
from kinema.tokens import usd, usd_physics

from . import pxr
from .prim_values import PrimValues
from .transforms import affine_from_gf, polar_decomposition

MAX_INSTANCES = 10_000
MAX_INSTANCED_PRIMS = 300_000
MAX_INSTANCER_NESTING = 8
"""Maximum nesting of instancers in prototypes of instancers."""
_INSTANCES_PRIM = "instances"
"""Name of the child prim of an instancer that holds the copies."""
_TRANSFORM_OP = f"{usd.TRANSFORM}:instance"


class _InstanceSpec(NamedTuple):
    """One instance before its prim is authored."""

    path: str
    prototype: Any
    """Path of the prototype."""
    matrix: Any
    """Transform in the instancer."""
    velocities: dict[str, Array]
    """Velocity attribute -> value in the space of the instancer."""


class InstanceExpander:
    """Expands the instances of all point instancers of a stage to prims in the session layer."""

    def __init__(self, stage: pxr.Stage, file: str, time: Any, values: PrimValues, diagnostics: Diagnostics) -> None:
        self._stage = stage
        self._file = file
        self._time = time
        self._values = values
        self._diagnostics = diagnostics
        self._instances_of: dict[str, list[str]] = {}
        """Instancer -> its copies."""
        self._prototypes: dict[str, str] = {}
        """Copy -> what it is a copy of."""
        self._instances_left = MAX_INSTANCES
        self._prims_left = MAX_INSTANCED_PRIMS

    def expand_and_traverse(self) -> list[pxr.Prim]:
        """All prims of the stage, with instances expanded and prototypes inside of instancers skipped."""
        while True:
            prims, new = self._find_new_instancers()
            if not new:
                return prims
            if not self._split_instances(new):
                copies = [copy for prim in new for copy in self._instance_specs(prim)]
                self._author_instances(copies)

    def prototype_path(self, path: str) -> str:
        """Path of the prototype prim of a copied prim; empty if the prim is no copy."""
        below = ""
        while path and self._prototypes:
            if path in self._prototypes:
                return self._prototypes[path] + below
            path, _, name = path.rpartition("/")
            below = f"/{name}{below}"
        return ""

    def _find_new_instancers(self) -> tuple[list[pxr.Prim], list[pxr.Prim]]:
        """All prims (copies last), and the instancers that are not yet expanded."""
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
                    if path not in self._instances_of:
                        new.append(prim)
                    made = map(self._stage.GetPrimAtPath, self._instances_of.get(path, ()))
                    roots.extend(copy for copy in made if copy)
        return prims[1:], new  # without the pseudo-root

    def _split_instances(self, instancers: Sequence[pxr.Prim]) -> bool:
        """Make instances that contain instancers non-instanceable; returns whether there were any."""
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

    # -- single instancers --

    def _instance_specs(self, prim: pxr.Prim) -> Iterator[_InstanceSpec]:
        """Instances of an instancer; invalid ones are reported and omitted."""
        path = str(prim.GetPath())
        copies = self._instances_of[path] = []
        prototypes = self._prototype_prims(prim, path)
        instances = self._instance_transforms(prim)
        self._instances_left -= len(instances)
        sizes = [0 if p is None else _prim_count(p) for p in prototypes]
        # not direct children: OpenUSD is very slow with thousands of references to a sibling
        parent_path = f"{path}/{_INSTANCES_PRIM}"
        while self._stage.GetPrimAtPath(parent_path):
            parent_path += "_"
        n_omitted = 0
        for number, prototype_index, matrix, velocities in instances:
            prototype = prototypes[prototype_index] if 0 <= prototype_index < len(prototypes) else None
            if (
                prototype is None
                or not np.isfinite(np.array(matrix)).all()
                or self._prims_left < sizes[prototype_index]
            ):
                n_omitted += 1
                continue
            self._prims_left -= sizes[prototype_index]
            copies.append(f"{parent_path}/instance_{number}")
            self._prototypes[copies[-1]] = str(prototype.GetPath())
            authored_velocities = self._velocities(prototype, *velocities)
            yield _InstanceSpec(copies[-1], prototype.GetPath(), matrix, authored_velocities)
        if n_omitted:
            self._report(
                prim,
                "usd.bad-instancer",
                f"{n_omitted} instances of {prim.GetName()!r} have no prototype, no place or no room; they "
                "are left out",
            )

    def _prototype_prims(self, prim: pxr.Prim, path: str) -> list[pxr.Prim | None]:
        """Prototypes of an instancer; None for invalid or recursive ones."""
        if usd.PROTOTYPES not in self._values.facts(prim).authored:
            return []
        result: list[pxr.Prim | None] = []
        levels = sum(1 for copy in self._prototypes if path.startswith(copy + "/"))
        for target in self._values.targets(prim, usd.PROTOTYPES):
            found = self._stage.GetPrimAtPath(target) if target.IsPrimPath() else None
            contains_instancer = f"{path}/".startswith(f"{target}/")  # it would contain itself
            result.append(found if found and not contains_instancer and levels < MAX_INSTANCER_NESTING else None)
        return result

    def _instance_transforms(self, prim: pxr.Prim) -> list[tuple[int, int, Any, tuple[Any, ...]]]:
        """Index, prototype index, transform and `_velocities` arguments of each unmasked instance."""
        kinds = pxr.UsdGeom.PointInstancer
        instancer, time = kinds(prim), self._time
        prototypes = np.asarray(self._values.value(prim, usd.PROTOTYPE_INDICES) or (), dtype=np.int64)
        try:
            transforms, rotations = (
                instancer.ComputeInstanceTransformsAtTime(time, time, how, kinds.IgnoreMask)
                for how in (kinds.IncludeProtoXform, kinds.ExcludeProtoXform)
            )
            mask = instancer.ComputeMaskAtTime(time)
        except pxr.Tf.ErrorException:
            transforms, rotations, mask = (), (), None
        n = len(prototypes)
        if len(transforms) != n or len(rotations) != n:
            self._report(
                prim,
                "usd.bad-instancer",
                f"instancer {prim.GetName()!r} names a prototype for {n} instances, but does not place them",
                "give positions, orientations and scales as many values as protoIndices",
            )
            return []
        shown = np.ones(n, dtype=bool) if not mask or len(mask) != n else np.asarray(mask)
        indices = np.flatnonzero(shown).tolist()
        if len(indices) > self._instances_left:
            message = f"instancer {prim.GetName()!r} has {len(indices)} instances; only {self._instances_left} are read"
            self._report(prim, "usd.too-many-instances", message)
        velocities = [self._values.value(prim, name) for name in (usd.VELOCITIES, usd.ANGULAR_VELOCITIES)]
        linear, angular = (np.asarray(v) if v is not None and len(v) == n else None for v in velocities)
        return [
            (
                i,
                int(prototypes[i]),
                transforms[i],
                (rotations[i], None if linear is None else linear[i], None if angular is None else angular[i]),
            )
            for i in indices[: self._instances_left]
        ]

    def _velocities(
        self, prototype: pxr.Prim, rotation: Any, linear: Array | None, angular: Array | None
    ) -> dict[str, Array]:
        """Initial velocities of a copied body: those of the instancer, otherwise of the prototype, rotated."""
        facts = self._values.facts(prototype)
        if usd_physics.RIGID_BODY_API not in facts.schemas:
            return {}
        frame = affine_from_gf(rotation).linear
        result = {usd_physics.VELOCITY: linear, usd_physics.ANGULAR_VELOCITY: angular}
        for name, value in result.items():
            if value is None and name in facts.authored:
                prototype_value = np.array(self._values.value(prototype, name), dtype=np.float64)
                turn = frame if name == usd_physics.VELOCITY else polar_decomposition(frame)[0]
                result[name] = reproducible_product(turn, prototype_value)
        return {name: value for name, value in result.items() if value is not None}

    # -- authoring of copies --

    def _author_instances(self, specs: Sequence[_InstanceSpec]) -> None:
        """Author all copies in one change block, so that OpenUSD composes them once."""
        layer = self._stage.GetSessionLayer()
        is_xformable = {c.prototype: self._is_xformable(c.prototype) for c in specs}
        with pxr.Sdf.ChangeBlock():
            for path in {copy.path.rpartition("/")[0]: None for copy in specs}:
                parent = pxr.Sdf.CreatePrimInLayer(layer, path)
                parent.specifier, parent.typeName = pxr.Sdf.SpecifierDef, usd.XFORM
            for copy in specs:
                _author_instance(layer, copy, is_xformable[copy.prototype])

    def _is_xformable(self, path: Any) -> bool:
        return self._values.facts(self._stage.GetPrimAtPath(path)).kind.is_xformable

    def _report(self, prim: pxr.Prim, code: str, message: str, hint: str = "") -> None:
        origin = Origin(self._file, None, str(prim.GetPath()))
        self._diagnostics.error(code, message, hint=hint, origin=origin)


def _prim_count(prototype: pxr.Prim) -> int:
    """Number of prims in a prototype."""
    everything = pxr.Usd.TraverseInstanceProxies(pxr.Usd.PrimAllPrimsPredicate)
    return sum(1 for _ in pxr.Usd.PrimRange(prototype, everything))


def _author_instance(layer: Any, copy: _InstanceSpec, is_xformable: bool) -> None:
    """Author the prim of one instance with reference, transform and velocities."""
    sdf = pxr.Sdf
    types = sdf.ValueTypeNames
    spec = sdf.CreatePrimInLayer(layer, copy.path)
    spec.specifier = sdf.SpecifierDef
    if not is_xformable:  # needs a transform
        spec.typeName = usd.XFORM
    spec.instanceable = True
    spec.referenceList.prependedItems = [sdf.Reference("", copy.prototype)]
    sdf.AttributeSpec(spec, _TRANSFORM_OP, types.Matrix4d).default = copy.matrix
    sdf.AttributeSpec(spec, usd.XFORM_OP_ORDER, types.TokenArray, sdf.VariabilityUniform).default = [_TRANSFORM_OP]
    for name, value in copy.velocities.items():
        sdf.AttributeSpec(spec, name, types.Vector3f).default = pxr.Gf.Vec3f(*map(float, value))
