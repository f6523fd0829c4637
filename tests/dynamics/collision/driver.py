"""Pairs of shapes by themselves: many poses at once, as our programs see them and as MuJoCo does."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import mujoco
import numpy as np

from kinema.core import Array
from kinema.dynamics.collision.analytic_pairs import ANALYTIC_COLLISION_TABLE, AnalyticPair
from kinema.dynamics.collision.collision_types import CollisionGeom, CollisionTableEntry, ContactQuery
from kinema.dynamics.collision.narrow_phase import contact_tangents
from kinema.dynamics.vector_math import Vector
from kinema.ir import Program, Tracer, Value, interpret, select

WIDTH = 13
"""Numbers of a point: distance, point, normal and two tangents, as MuJoCo has them."""
SPARE = 2
"""Points more than a pair says that it makes at most, so that it is seen if it makes more."""
INPUTS = {"position": 3, "rotation": 9, "size": 3}


@dataclass(frozen=True)
class Poses:
    """Two solids each: positions (n, 3), rotations (n, 3, 3), sizes (n, 3); and the reach (n,)."""

    a: tuple[Array, Array, Array]
    b: tuple[Array, Array, Array]
    reach: Array

    def __len__(self) -> int:
        return len(self.reach)

    def rows(self) -> dict[str, Array]:
        """The arrays of a program."""
        arrays = {"reach": self.reach[None]}
        for name, solid in (("a", self.a), ("b", self.b)):
            for part, values in zip(INPUTS, solid, strict=True):
                arrays[f"{name} {part}"] = values.reshape(len(self), -1).T
        return arrays


def program(kinds: tuple[str, str], prefix: str = "") -> Program:
    """Writes the number of points, and the points."""
    return program_of(ANALYTIC_COLLISION_TABLE[kinds], prefix=prefix)


def program_of(
    pair: CollisionTableEntry | AnalyticPair,
    add: Callable[[str, Tracer, CollisionGeom], CollisionGeom] | None = None,
    prefix: str = "",
    *,
    differentiable: bool = False,
    refines: bool = False,
) -> Program:
    """The same of any pair; a function may add to a solid, by its name, what is not in the arrays of poses."""
    recorder = Tracer(prefix, differentiable=differentiable)
    found, reach = recorder.allocate_local(1), recorder.read("reach")
    recorder.write(found, [0.0])

    def emit(distance: Value, point: Vector, normal: Vector, tangent: Vector | None = None) -> None:
        def keep() -> list[Value]:
            number = recorder.read(found)
            first, second = contact_tangents(normal, tangent)
            recorder.write("points", [distance, *point, *normal, *first, *second], 0, float(WIDTH) * number)
            recorder.write(found, [number + 1.0])
            return []

        recorder.if_less("near", 0.5, select(reach, distance, 0.0, 1.0), keep, [])

    def solid(name: str) -> CollisionGeom:
        position, rotation, size = (
            [recorder.read(f"{name} {part}", i) for i in range(count)] for part, count in INPUTS.items()
        )
        made = CollisionGeom(position, [rotation[i : i + 3] for i in (0, 3, 6)], size)
        return made if add is None else add(name, recorder, made)

    recorder.write("points", [0.0], WIDTH * (pair.max_contacts + SPARE) - 1)  # there are so many numbers
    recorder.new_basic_block()
    pair.collide(ContactQuery(recorder, reach, emit, refines=refines), solid("a"), solid("b"))
    return recorder.build({"count": [recorder.read(found)]})


def points_of(count: Array, points: Array) -> list[Array]:
    """For each pose (its points, WIDTH) from rows of a program."""
    numbers = points.T.reshape(len(count), -1, WIDTH)
    return [numbers[i, : int(n)] for i, n in enumerate(count)]


def ours(kinds: tuple[str, str], poses: Poses, dtype: Any = np.float64) -> list[Array]:
    """The points of each pose, by the interpreter; how spheres are turned is not told."""
    solids = zip(kinds, (poses.a, poses.b), strict=True)
    untold = [(s[0], np.full_like(s[1], np.nan), s[2]) if kind == "sphere" else s for kind, s in solids]
    poses = Poses(untold[0], untold[1], poses.reach)
    arrays = {name: values.astype(dtype) for name, values in poses.rows().items()}
    with np.errstate(all="ignore"):  # environments that take no part may compute anything
        found = interpret(program(kinds), arrays)
    return points_of(found["count"][0], found["points"])


class Theirs:
    """MuJoCo with two shapes of these kinds."""

    def __init__(self, kinds: tuple[str, str]) -> None:
        self.kinds = kinds
        shapes = [f'<geom type="{kind}" size="1 1 1"/>' for kind in kinds]
        bodies = [shapes[0] if kinds[0] == "plane" else f"<body><freejoint/>{shapes[0]}</body>"]
        bodies.append(f"<body><freejoint/>{shapes[1]}</body>")
        self.model = mujoco.MjModel.from_xml_string(f"<mujoco><worldbody>{''.join(bodies)}</worldbody></mujoco>")
        self.data = mujoco.MjData(self.model)
        mujoco.mj_forward(self.model, self.data)
        self.model.geom_rbound[:] = [0.0 if kind == "plane" else 1e6 for kind in kinds]
        self.model.geom_aabb[:] = (0.0, 0.0, 0.0, 1e6, 1e6, 1e6)

    def points(self, poses: Poses) -> Iterator[Array]:
        """The points of each pose; spheres are not turned."""
        model, data = self.model, self.data
        for i in range(len(poses)):
            for number, (position, rotation, size) in enumerate((poses.a, poses.b)):
                turned = np.eye(3) if self.kinds[number] == "sphere" else rotation[i]
                data.geom_xpos[number], data.geom_xmat[number] = position[i], turned.ravel()
                model.geom_size[number] = size[i]
            model.geom_margin[:] = (poses.reach[i], 0.0)
            mujoco.mj_collision(model, data)
            found = data.contact
            parts = (np.reshape(found.dist, (-1, 1)), found.pos.reshape(-1, 3), found.frame.reshape(-1, 9))
            yield np.concatenate(parts, axis=1)
