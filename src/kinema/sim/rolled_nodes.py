"""The step joint by joint: loops over all frames of big trees, by the articulated-body algorithm.

Every frame is turned so that its axis is z: then all hinges, all slides, all screws and all balls are of a kind each,
in whatever direction they point. Outwards over the frames go their spins and accelerations, inwards the articulated
bodies, outwards again the accelerations of the joints and the new state. Slopes of forces by velocity stand beside the
rotor inertias on the diagonal. Slopes between two degrees of freedom, of tendons and actuators that pull on several,
have no place there: such forces are taken at the start of the step.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from kinema import trace
from kinema.foundation import Array
from kinema.model import Model, Motion
from kinema.trace import Loop, Place, Row, Turn, Value, make_loop

from .articulated import (
    Articulated,
    Release,
    along,
    both,
    carried_along,
    follow,
    on_parent,
    release,
    resistance,
    rigid,
    seen_from_parent,
)
from .dynamics import Force, inertial_force
from .integrate import advance
from .kinematics import Moving, Offset, Subspace, carried_acceleration, joint_velocity, offset, subspace_of
from .maths import IDENTITY, Matrix, add, product, scale
from .programs import LARGEST, runge_kutta_stage
from .rolled_copies import OF_STAGES, packed_inertia, unpacked_inertia
from .rolled_forces import ForceLoops
from .rolled_memory import BIAS, BODY, Scratch
from .settings import Integrator, Settings
from .tree import WORLD, Inertia, Node, Tree, placed, together

MOTIONS = {"hinge": Motion.HINGE, "slide": Motion.SLIDE, "screw": Motion.SCREW, "ball": Motion.BALL}
ALONG_Z = (0.0, 0.0, 1.0)


class NodeLoops:
    """The loops for some frames of a model: whole trees, parents first."""

    def __init__(
        self, model: Model, settings: Settings, places: Mapping[str, Place], tree: Tree, frames: Sequence[int]
    ) -> None:
        self.model = model
        self.settings = settings
        self.places = places
        self.nodes = [tree.nodes[f] for f in frames]
        self.axes = {WORLD: np.eye(3), **{node.index: axes_with_z(node) for node in self.nodes}}
        self.forces = ForceLoops(model, settings, places, self.axes)
        self.scratch = Scratch(
            frames,
            [d for node in self.nodes for d in node.dofs],
            attitudes=self.forces.needs_attitudes,
            composites=self.forces.needs_inertias,
            inertias=bool(settings.per_env & {"mass_shift", "com_shift"}),
        )
        self.forces.scratch = self.scratch
        self._numbers = {node.index: self._constants(node) for node in self.nodes}

    def loops(self) -> list[Loop]:
        """One run of the step."""
        loops = [self._start()]
        if self.scratch.inertias:
            loops.append(self.forces.masses(self.nodes))
        loops.append(self._loop("spins and accelerations, outwards", self.nodes, self._outward))
        if self.scratch.composites:
            loops.append(self._loop("inertias, inwards", self.nodes[::-1], self._gather))
        loops += self.forces.loops(self.nodes)
        loops.append(self._loop("articulated bodies, inwards", self.nodes[::-1], self._inward))
        loops.append(self._loop("joint accelerations, outwards", self.nodes, self._onward))
        loops.append(self._end())
        return loops

    def _constants(self, node: Node) -> dict[str, Sequence[float]]:
        """A frame's numbers, with its axis along z, and those of its parent."""
        above, own = self.axes[node.parent], self.axes[node.index]
        inertia = Inertia(
            node.inertia.mass,
            (own.T @ np.array(node.inertia.moment)).tolist(),
            (own.T @ np.array(node.inertia.matrix) @ own).tolist(),
        )
        return {
            "rotation": (above.T @ np.array(node.rotation) @ own).ravel().tolist(),
            "position": (above.T @ np.array(node.position)).tolist(),
            "pitch": [node.pitch],
            "reference": [node.reference],
            "inertia": packed_inertia(inertia),  # type: ignore[dict-item]
        }

    def _loop(self, name: str, nodes: Sequence[Node], body: object) -> Loop:
        rows = [Row(self._kind(node), self._places(node), self._numbers[node.index]) for node in nodes]
        return make_loop(name, rows, body)  # type: ignore[arg-type]

    def _kind(self, node: Node) -> str:
        name = "inverted ball" if node.inverted else node.motion.name.lower()
        return name if node.links else f"{name} without a body"

    def _places(self, node: Node) -> dict[str, Place]:
        q, dof = node.qs[0], node.dofs[0]
        result = {
            "qpos": self._at("qpos", q),
            "vel": self._at("vel", dof),
            **self.scratch.of_node(node.index),
            **{f"parent {name}": place for name, place in self.scratch.of_node(node.parent).items()},
            **self.scratch.of_dof(dof),
            "total": self.scratch.total,
        }
        if self.settings.integrator is Integrator.RK4:
            result |= {"phase": self.places["phase"], "stage_qpos": self._at("stage_qpos", q)}
            result |= {name: self._at(name, dof) for name in OF_STAGES}
        return result

    def _at(self, array: str, item: int) -> Place:
        return Place(self.places[array].arena, self.places[array].row + item)

    def _start(self) -> Loop:
        """The world, which does not move, and accelerates against gravity."""
        per_env = "gravity" in self.settings.per_env
        own = {f"world {name}": place for name, place in self.scratch.of_node(WORLD).items()}
        places = {**own, "total": self.scratch.total}
        if per_env:
            places["gravity"] = self.places["gravity"]

        def body(turn: Turn) -> None:
            gravity = turn.array("gravity", 3) if per_env else turn.numbers("g")
            turn.write("world spin", [0.0] * 3)
            turn.write("world motion", [0.0, 0.0, 0.0, *scale(-1.0, gravity)])
            turn.write("world change", [0.0] * 6)
            turn.write("world body", [0.0] * (BODY + BIAS))
            turn.write("total", [0.0])
            if self.scratch.attitudes:
                turn.write("world attitude", [x for row in IDENTITY for x in row])
            if self.scratch.composites:
                turn.write("world composite", [0.0] * 10)

        return make_loop("world", [Row("world", places, {"g": self.model.gravity.tolist()})], body)

    def _node(self, turn: Turn) -> Node:
        """The frame of a row, in symbols."""
        kind = turn.kind.removesuffix(" without a body")
        motion = MOTIONS[kind.removeprefix("inverted ")]
        ball = motion is Motion.BALL
        flat = turn.numbers("rotation")
        return Node(
            index=0,
            parent=WORLD,
            motion=motion,
            position=turn.numbers("position"),
            rotation=[flat[3 * i : 3 * i + 3] for i in range(3)],
            axis=ALONG_Z,
            pitch=turn.number("pitch"),  # type: ignore[arg-type]
            reference=turn.number("reference"),  # type: ignore[arg-type]
            inverted=kind.startswith("inverted"),
            qs=range(4 if ball else 1),
            dofs=range(3 if ball else 1),
            inertia=self._inertia(turn),
        )

    def _inertia(self, turn: Turn) -> Inertia:
        if self.scratch.inertias and not turn.kind.endswith(" without a body"):
            return unpacked_inertia(turn.array("inertia of links", 10))
        return unpacked_inertia(turn.numbers("inertia"))

    def _place(self, turn: Turn, node: Node) -> tuple[Offset, dict[int, Subspace]]:
        """Where the frame is, from what the first loop kept."""
        turns = node.motion in (Motion.HINGE, Motion.SCREW)
        turning = (turn.read("turning", 0), turn.read("turning", 1)) if turns else None
        where = offset(node, turn.array("qpos", len(node.qs)), turning)
        return where, {k: subspace_of(node, k, where) for k in node.dofs}

    def _outward(self, turn: Turn) -> None:
        node = self._node(turn)
        q, v = turn.array("qpos", len(node.qs)), turn.array("vel", len(node.dofs))
        turning = None
        if node.motion in (Motion.HINGE, Motion.SCREW):
            angle = q[0] - node.reference
            turning = trace.sin(angle), trace.cos(angle)
            turn.write("turning", turning)
        where = offset(node, q, turning)
        own = joint_velocity(node, v, {k: subspace_of(node, k, where) for k in node.dofs})
        parent = unpacked_motion(turn.array("parent motion", 6))
        motion, spin = carried_acceleration(parent, turn.array("parent spin", 3), where, own)
        turn.write("spin", spin)
        turn.write("motion", [*motion.angular, *motion.linear])
        bias = inertial_force(node.inertia, motion, spin)
        turn.write("body", packed_body(rigid(node.inertia), bias))
        if self.scratch.attitudes:
            flat = turn.array("parent attitude", 9)
            attitude = product([flat[3 * i : 3 * i + 3] for i in range(3)], where.rotation)
            turn.write("attitude", [x for row in attitude for x in row])
        if self.scratch.composites:
            turn.write("composite", packed_inertia(node.inertia))

    def _gather(self, turn: Turn) -> None:
        """What each degree of freedom moves, as one body: for drives whose gains are per unit of inertia."""
        node = self._node(turn)
        where, subspace = self._place(turn, node)
        own = unpacked_inertia(turn.array("composite", 10))
        diagonal = [along(subspace[k], resistance(rigid(own), subspace[k])) for k in node.dofs]
        turn.write("diagonal", diagonal)
        seen = placed(own, where.rotation, where.position)
        turn.write(
            "parent composite", packed_inertia(together(unpacked_inertia(turn.array("parent composite", 10)), seen))
        )

    def _inward(self, turn: Turn) -> None:
        node = self._node(turn)
        where, subspace = self._place(turn, node)
        body, bias = unpacked_body(turn.array("body", BODY + BIAS))
        n = len(node.dofs)
        push, hold = turn.array("push", n), turn.array("hold", n)
        kept: list[Value] = []
        for k in reversed(node.dofs):
            body, bias, let_go = release(body, bias, subspace[k], hold[k], push[k])
            kept = [*let_go.force.torque, *let_go.force.force, let_go.inverse, let_go.push, *kept]
        turn.write("released", kept)
        above, more = unpacked_body(turn.array("parent body", BODY + BIAS))
        seen = on_parent(bias, where)
        total = Force(add(more.torque, seen.torque), add(more.force, seen.force))
        turn.write("parent body", packed_body(both(above, seen_from_parent(body, where)), total))

    def _onward(self, turn: Turn) -> None:
        node = self._node(turn)
        where, subspace = self._place(turn, node)
        n = len(node.dofs)
        moving = carried_along(unpacked_motion(turn.array("parent change", 6)), where)
        kept = turn.array("released", 8 * n)
        accelerations: list[Value] = []
        for k in node.dofs:
            own = kept[8 * k : 8 * k + 8]
            released = Release(Force(own[:3], own[3:6]), own[6], own[7])
            acceleration, moving = follow(released, subspace[k], moving)
            accelerations.append(acceleration)
        turn.write("change", [*moving.angular, *moving.linear])
        q, v = turn.array("qpos", len(node.qs)), turn.array("vel", n)
        outputs = self._next(turn, Tree([node], self.model), (q, v, accelerations))
        total = turn.read("total")
        for x in (*outputs["qpos"], *outputs["vel"]):
            total = total + x
        turn.write("total", [total])
        for array, values in outputs.items():
            turn.write(array, values)

    def _next(
        self, turn: Turn, tree: Tree, motion: tuple[list[Value], list[Value], list[Value]]
    ) -> dict[str, list[Value]]:
        """The new state of one frame."""
        dt = self.settings.dt
        if self.settings.integrator is Integrator.RK4:
            outputs = runge_kutta_stage(turn.read, dt, tree, motion)
            del outputs["phase"]
            return outputs
        q, v, a = motion
        v = [speed + dt * change for speed, change in zip(v, a, strict=True)]
        return {"qpos": advance(tree, q, v, dt), "vel": v}

    def _end(self) -> Loop:
        """Flag environments whose state is no longer made of numbers."""

        def body(turn: Turn) -> None:
            total = trace.absolute(turn.read("total"))
            turn.write("error", [trace.select(total, LARGEST, turn.read("error"), 1.0)])

        return make_loop("error", [Row("error", {"total": self.scratch.total, "error": self.places["error"]})], body)


def axes_with_z(node: Node) -> Array:
    """Axes in a frame of which the third is the frame's own; exact where it is one of x, y, z."""
    if node.motion is Motion.BALL:
        return np.eye(3)
    z = np.array(node.axis)
    start = np.eye(3)[(int(np.argmax(np.abs(z))) + 1) % 3]
    x = start - z * (start @ z)
    x /= np.linalg.norm(x)
    return np.column_stack([x, np.cross(z, x), z])


def packed_body(body: Articulated, bias: Force) -> list[Value]:
    """27 numbers: the halves of the symmetric matrices, the coupling, and the bias."""
    halves = [m[i][j] for m in (body.turning, body.mass) for i in range(3) for j in range(i, 3)]
    return [*halves, *(x for row in body.coupling for x in row), *bias.torque, *bias.force]


def unpacked_body(numbers: Sequence[Value]) -> tuple[Articulated, Force]:
    """The body and bias of 27 numbers."""
    coupling = [numbers[12 + 3 * i : 15 + 3 * i] for i in range(3)]
    body = Articulated(_symmetric(numbers[:6]), coupling, _symmetric(numbers[6:12]))
    return body, Force(numbers[21:24], numbers[24:27])


def _symmetric(half: Sequence[Value]) -> Matrix:
    xx, xy, xz, yy, yz, zz = half
    return ((xx, xy, xz), (xy, yy, yz), (xz, yz, zz))


def unpacked_motion(numbers: Sequence[Value]) -> Moving:
    """An angular and a linear vector."""
    return Moving(numbers[:3], numbers[3:6])
