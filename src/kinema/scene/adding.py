"""What is put into a scene: robots, files, plain bodies, and where they stand."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kinema.compile import NONCONVEX, Part, compile_model
from kinema.description import PhysicsMaterial, Robot, World, scaled, world_of_terrain
from kinema.foundation import ArrayLike, Diagnostics, KinemaError, unique_name
from kinema.shapes import MESH_SUFFIXES, Terrain as Ground

from .arguments import flag, one_of_or_none, placed, three_scales
from .batches import by_name
from .entity import Entity
from .mixing import mixed_parts
from .morphs import Mesh, Morph
from .running import Built
from .stuff import Stuff, body_of, remade

Addable = Robot | World | Morph | Ground | str | os.PathLike[str]


class Adding(Built):
    """The part of a scene that takes things in."""

    entities: list[Entity]
    diagnostics: Diagnostics
    nonconvex: str | None
    _parts: list[Part]
    _names: set[str]

    def add(  # noqa: PLR0913  one for each thing that can be said of it
        self,
        robot: Addable | Sequence[Addable],
        *,
        fixed: bool | None = None,
        pos: ArrayLike = (0.0, 0.0, 0.0),
        quat: ArrayLike | None = None,
        euler: ArrayLike | None = None,
        scale: ArrayLike = 1.0,
        name: str | None = None,
        friction: ArrayLike | None = None,
        density: float | None = None,
        mass: float | None = None,
        material: PhysicsMaterial | None = None,
        color: ArrayLike | None = None,
        collision: bool | None = None,
        nonconvex: str | None = None,
        seed: int | None = None,
    ) -> Entity:
        """Put a robot, all that is in a file, or a plain body into the scene.

        Args:
            robot: a description, the path of a file (a robot's, or a mesh), or a body: `km.Box`, `Sphere`, `Ellipsoid`,
                `Capsule`, `Cylinder`, `Plane`, `Mesh`, `Terrain`; or terrain that `kinema.shapes` made. The same may be
                added many times. A list of them are variants: each environment has one, in turn or drawn by `seed`.
            fixed: whether its base is bolted down; None for as the file says, and bolted down where it says nothing.
                Bodies fall unless they are fixed; planes and terrain never move.
            pos: where the file's own origin is put [m].
            quat: how it is turned (w, x, y, z).
            euler: the same as angles about the fixed x, then y, then z axis [rad].
            scale: how much larger it is made, of the same stuff (forces, gains, dampers, rotors stay); of bodies three
                numbers for x, y and z as well.
            name: what to call it; its own name, made unique, when not given.
            friction: of all its surfaces: sliding, or sliding, spinning [m] and rolling [m]; None for as the file says.
            density: of a body [kg/m3], 1000 where neither this nor `mass` is given.
            mass: of a body [kg].
            material: how all its surfaces touch, in full; `friction` goes before.
            color: of all its surfaces: red, green, blue and perhaps alpha, 0 to 1.
            collision: False for something that touches nothing.
            nonconvex: what its meshes touch as that are clearly not convex, `hull`, `decompose` or `sdf`; None for what
                the scene says.
            seed: of a list, draws which environment has which, instead of one after the other.
        """
        if self._running is not None:
            raise KinemaError("the scene is built: add everything before scene.build()")
        stuff = Stuff(friction, density, mass, material, color, collision)
        bolted = None if fixed is None else flag(fixed, "fixed")
        several = list(robot) if isinstance(robot, list | tuple) else [robot]
        if not several:
            raise KinemaError("add: a list of variants has at least one")
        if seed is not None and (len(several) == 1 or isinstance(seed, bool) or not isinstance(seed, int) or seed < 0):
            raise KinemaError(f"seed: expected a whole number that draws from a list of variants, not {seed!r}")
        variants = [self._described(one, stuff, scale, bolted) for one in several]
        called = unique_name(name or variants[0].name or "entity", self._names)
        touches = one_of_or_none(nonconvex, "nonconvex", NONCONVEX) or self.nonconvex
        parts = [
            Part(name=called, description=x, pose=placed(x, pos, quat, euler), fixed=bolted, nonconvex=touches)
            for x in variants
        ]
        mixed = mixed_parts(variants, parts, seed) if len(parts) > 1 else None
        part = parts[0] if mixed is None else mixed.parts[0]
        entity = Entity(self, called, part.description, compile_model([part]), mixed)
        self._parts.append(part)
        self.entities.append(entity)
        return entity

    def get_entity(self, name: str) -> Entity:
        """The entity of that name."""
        return self.entities[by_name(name, [entity.name for entity in self.entities], "get_entity", "entities")]

    def _described(self, robot: Any, stuff: Stuff, scale: ArrayLike, fixed: bool | None) -> Robot | World:
        """What is added, as a description."""
        if isinstance(robot, str | os.PathLike) and Path(robot).suffix.lower() in MESH_SUFFIXES:
            robot = Mesh(robot)
        if isinstance(robot, Ground):
            robot = world_of_terrain(robot)
        if isinstance(robot, Morph):
            return body_of(robot, stuff, three_scales(scale, "scale"), fixed)
        description = remade(robot if isinstance(robot, Robot | World) else self._read(robot), stuff)
        x, y, z = three_scales(scale, "scale")
        if not x == y == z:
            raise KinemaError("scale: a robot is scaled evenly, by one number; bodies such as km.Box as you like")
        return description if x == 1.0 else scaled(description, float(x))

    def _read(self, path: str | os.PathLike[str]) -> Robot | World:
        from kinema.read import read

        if not isinstance(path, str | os.PathLike):
            raise KinemaError(f"add: expected a robot, a world, a body or the path of a file, not {path!r}")
        description = read(Path(path))
        self.diagnostics.items += description.diagnostics.items
        return description
