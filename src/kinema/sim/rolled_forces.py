"""What drives the joints of big trees: loops over links, actuators, tendons, their levers, and degrees of freedom.

The forces themselves are those of `actuation`; here they are looked up for one row of a table at a time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kinema import trace
from kinema.foundation import Array
from kinema.model import Model
from kinema.trace import Loop, Place, Row, Turn, Value, make_loop

from .actuation import beyond_rest, bounded, commanded, driven, turned_from
from .dynamics import world_force
from .kinematics import Offset
from .maths import ZERO, Vector, add, rotate, scale, sub
from .rolled_copies import packed_inertia, unpacked_inertia
from .rolled_memory import Scratch
from .settings import Control, Integrator, Settings
from .tree import Node, inertia_about_origin, placed, together

GAINS = ("damping", "armature", "kp", "kv")
BOUNDS = ("force_lower", "force_upper", "effort_lower", "effort_upper")
"""Parameters of degrees of freedom that may differ between environments."""


class ForceLoops:
    """The loops between the first sweep outwards and the sweep inwards."""

    scratch: Scratch

    def __init__(
        self, model: Model, settings: Settings, places: Mapping[str, Place], axes: Mapping[int, Array]
    ) -> None:
        self.model = model
        self.settings = settings
        self.places = places
        self.axes = axes
        """Of each frame, in the frame that the model has: the axes that the loops use."""
        self.links = [i for i, f in enumerate(model.links.frame_idx.tolist()) if f >= 0 and f in axes]
        dofs = [d for d, f in enumerate(model.dofs.frame_idx.tolist()) if f in axes]
        self.needs_attitudes = any(self._is_pushed(link) for link in self.links)
        self.needs_inertias = bool(model.dofs.acceleration_drive[dofs].any())

    def loops(self, nodes: Sequence[Node]) -> list[Loop]:
        """Forces on frames, and on degrees of freedom with their slopes."""
        loops: list[Loop] = []
        if self.needs_attitudes:
            loops.append(self._pushed_links())
        dofs = [d for node in nodes for d in node.dofs]
        pulls = self._pulls(set(dofs))
        levers = {key: moment for key, (_, moment) in pulls.items()}
        if pulls:
            loops += self._pulling(pulls, levers)
        loops.append(self._dofs(nodes, levers))
        return loops

    def _at(self, array: str, item: int) -> Place:
        return Place(self.places[array].arena, self.places[array].row + item)

    # links

    def _is_pushed(self, link: int) -> bool:
        return self.settings.external_forces or float(self.model.links.gravity_scale[link]) != 1.0

    def _placement(self, link: int) -> tuple[Array, Array]:
        """A link's axes and origin in the axes that the loops use."""
        links = self.model.links
        own = self.axes[int(links.frame_idx[link])].T
        return own @ links.rot[link], own @ links.pos[link]

    def _link_row(self, kind: str, link: int) -> Row:
        links = self.model.links
        rotation, position = self._placement(link)
        mass = float(links.inertial_mass[link])
        places = dict(self.scratch.of_node(int(links.frame_idx[link])))
        for name, width in (("mass_shift", 1), ("com_shift", 3), ("cfrc_applied_ang", 3), ("cfrc_applied_vel", 3)):
            if name in self.places:
                places[name] = self._at(name, width * link)
        if "gravity" in self.places:
            places["gravity"] = self.places["gravity"]
        numbers = {
            "rotation": rotation.ravel().tolist(),
            "position": position.tolist(),
            "mass": [mass],
            "per mass": [1.0 / mass if mass else 0.0],
            "center": links.inertial_pos[link].tolist(),
            "inertia": links.inertial_i[link].ravel().tolist(),
            "gravity less": [float(links.gravity_scale[link]) - 1.0],
            "g": self.model.gravity.tolist(),
        }
        return Row(kind, places, numbers)

    def _weight(self, turn: Turn) -> tuple[Value, Vector]:
        """A link's mass, and its centre in the link."""
        mass, center = turn.number("mass"), turn.numbers("center")
        if "mass_shift" in self.settings.per_env:
            mass = mass + turn.read("mass_shift")
        if "com_shift" in self.settings.per_env:
            center = add(center, turn.array("com_shift", 3))
        return mass, center

    def masses(self, nodes: Sequence[Node]) -> Loop:
        """The inertias of frames, from links whose masses differ between environments."""
        rows: list[Row] = []
        for node in nodes:
            for place, link in enumerate(node.links):
                weighs = bool(self.model.links.inertial_mass[link])
                rows.append(self._link_row(f"{'next' if place else 'first'}{'' if weighs else ', massless'}", link))

        def body(turn: Turn) -> None:
            mass, center = self._weight(turn)
            ratio = 1.0 if turn.kind.endswith("massless") else mass * turn.number("per mass")
            about_center = [scale(ratio, turn.numbers("inertia")[3 * i : 3 * i + 3]) for i in range(3)]
            flat = turn.numbers("rotation")
            rotation = [flat[3 * i : 3 * i + 3] for i in range(3)]
            own = placed(inertia_about_origin(mass, center, about_center), rotation, turn.numbers("position"))
            if turn.kind.startswith("next"):
                own = together(unpacked_inertia(turn.array("inertia of links", 10)), own)
            turn.write("inertia of links", packed_inertia(own))

        return make_loop("masses of links", rows, body)

    def _pushed_links(self) -> Loop:
        """The user's forces on links, and what holds up those that gravity pulls less."""
        rows = []
        for link in self.links:
            lifted = float(self.model.links.gravity_scale[link]) != 1.0
            if self._is_pushed(link):
                rows.append(self._link_row("lifted" if lifted else "pushed", link))

        def body(turn: Turn) -> None:
            mass, center = self._weight(turn)
            flat = turn.numbers("rotation")
            rotation = [flat[3 * i : 3 * i + 3] for i in range(3)]
            at = add(turn.numbers("position"), rotate(rotation, center))
            torque, force = ZERO, ZERO
            if self.settings.external_forces:
                torque, force = turn.array("cfrc_applied_ang", 3), turn.array("cfrc_applied_vel", 3)
            if turn.kind == "lifted":
                gravity = turn.array("gravity", 3) if "gravity" in self.settings.per_env else turn.numbers("g")
                force = add(force, scale(turn.number("gravity less") * mass, gravity))
            flat = turn.array("attitude", 9)
            attitude = Offset([flat[3 * i : 3 * i + 3] for i in range(3)], ZERO)
            push = world_force(attitude, at, torque, force)
            turn.write("bias", sub(turn.array("bias", 6), [*push.torque, *push.force]))

        return make_loop("forces on links", rows, body)

    # actuators and tendons

    def _pulls(self, dofs: set[int]) -> dict[tuple[str, int], tuple[Row, dict[int, float]]]:
        """The actuators and tendons that act, each with its row and its moments."""
        result: dict[tuple[str, int], tuple[Row, dict[int, float]]] = {}
        modes = self.settings.control
        for a, moments in enumerate(self.model.actuators.moment):
            moment = {int(d): float(moments[d]) for d in moments.nonzero()[0]}
            frame = int(self.model.actuators.frame_idx[a])
            taken = modes is not None and any(modes[d] is not Control.ACTUATOR for d in moment)
            here = dofs.issuperset(moment) and (frame < 0 or frame in self.axes) and (moment or frame >= 0)
            if here and not taken and not (moment and not self.settings.actuators):
                result["actuator", a] = (self._actuator_row(a, frame), moment)
        tendons = self.model.tendons
        for t, moments in enumerate(tendons.moment):
            moment = {int(d): float(moments[d]) for d in moments.nonzero()[0]}
            if moment and dofs.issuperset(moment):
                numbers = {
                    name: [float(getattr(tendons, name)[t])]
                    for name in ("stiffness", "damping", "rest_lower", "rest_upper")
                }
                result["tendon", t] = (Row("tendon", {"pair": self.scratch.pair("tendon", t)}, numbers), moment)
        return result

    def _actuator_row(self, a: int, frame: int) -> Row:
        info = self.model.actuators
        places = {"pair": self.scratch.pair("actuator", a), "ctrl": self._at("ctrl", a)}
        numbers = {name: [float(getattr(info, name)[a])] for name in ("ctrl_lower", "ctrl_upper")}
        numbers |= {name: [float(getattr(info, name)[a])] for name in ("force_lower", "force_upper")}
        numbers |= {"gain": info.gain[a].tolist(), "bias terms": info.bias[a].tolist()}
        if frame < 0:
            return Row("actuator", places, numbers)
        places["bias"] = self.scratch.of_node(frame)["bias"]
        own = self.axes[frame].T
        numbers["wrench"] = [*(own @ info.frame_torque[a]).tolist(), *(own @ info.frame_force[a]).tolist()]
        return Row("actuator on a frame", places, numbers)

    def _pulling(
        self, pulls: Mapping[tuple[str, int], tuple[Row, dict[int, float]]], levers: Mapping[tuple[str, int], dict]
    ) -> list[Loop]:
        """Lengths and speeds; forces along them; and what these do to the degrees of freedom."""
        touched = {(f"{what} on", d): None for (what, _), moment in levers.items() for d in moment}
        pairs = [self.scratch.pair(*key) for key in (*pulls, *touched)]
        clear = [Row("pair", {"pair": pair}) for pair in pairs]
        gather, spread = [], []
        for (what, number), moment in levers.items():
            for dof, lever in moment.items():
                own = {"pair": self.scratch.pair(what, number), "vel": self._at("vel", dof)}
                q = int(self.model.dofs.q_idx[dof])
                if q >= 0:
                    own["qpos"] = self._at("qpos", q)
                own["on"] = self.scratch.pair(f"{what} on", dof)
                gather.append(Row("along" if q >= 0 else "turned", own, {"lever": [lever]}))
                spread.append(Row("lever", own, {"lever": [lever]}))
        loops = [make_loop("no forces", clear, lambda turn: turn.write("pair", [0.0, 0.0]))]
        if gather:
            loops.append(make_loop("lengths", gather, self._gather))
        loops.append(make_loop("forces along lengths", [row for row, _ in pulls.values()], self._pull))
        if spread:
            loops.append(make_loop("forces by levers", spread, self._spread))
        return loops

    def _gather(self, turn: Turn) -> None:
        lever = turn.number("lever")
        length, speed = turn.array("pair", 2)
        if turn.kind == "along":
            length = length + lever * turn.read("qpos")
        turn.write("pair", [length, speed + lever * turn.read("vel")])

    def _pull(self, turn: Turn) -> None:
        length, speed = turn.array("pair", 2)
        if turn.kind == "tendon":
            stiffness, damping = turn.number("stiffness"), turn.number("damping")
            stretch = beyond_rest(length, turn.number("rest_lower"), turn.number("rest_upper"))
            turn.write("pair", [-stiffness * stretch - damping * speed, -damping])
            return
        told = trace.clamp(turn.read("ctrl"), turn.number("ctrl_lower"), turn.number("ctrl_upper"))
        force, slope = driven(told, (length, speed), turn.numbers("gain"), turn.numbers("bias terms"))
        force, slope = bounded(force, slope, turn.number("force_lower"), turn.number("force_upper"))
        turn.write("pair", [force, slope])
        if turn.kind == "actuator on a frame":
            turn.write("bias", sub(turn.array("bias", 6), scale(force, turn.numbers("wrench"))))

    def _spread(self, turn: Turn) -> None:
        lever = turn.number("lever")
        (force, slope), (push, hold) = turn.array("pair", 2), turn.array("on", 2)
        turn.write("on", [push + lever * force, hold + (lever * lever) * slope])

    # degrees of freedom

    def _dofs(self, nodes: Sequence[Node], levers: Mapping[tuple[str, int], Mapping[int, float]]) -> Loop:
        touched = {(what, d) for (what, _), moment in levers.items() for d in moment}
        rows = [self._dof_row(node, dof, touched) for node in nodes for dof in node.dofs]
        return make_loop("forces on degrees of freedom", rows, self._dof)

    def _dof_row(self, node: Node, dof: int, touched: set[tuple[str, int]]) -> Row:
        dofs = self.model.dofs
        modes = self.settings.control
        kind = ["any mode" if modes is None else modes[dof].name.lower()]
        places = {"vel": self._at("vel", dof), **self.scratch.of_dof(dof)}
        numbers = {name: [float(getattr(dofs, name)[dof])] for name in (*GAINS, "stiffness", "spring_ref")}
        numbers |= {name: [float(getattr(dofs, name)[dof])] for name in BOUNDS}
        for name in (*GAINS, "command", "ctrl_mode"):
            if name in self.places:
                places[name] = self._at(name, dof)
        if dofs.q_idx[dof] >= 0:
            places["qpos"] = self._at("qpos", int(dofs.q_idx[dof]))
        elif dofs.stiffness[dof]:
            kind.append(f"sprung ball {dof - node.dofs[0]}")
            places["qpos"] = self._at("qpos", node.qs[0])
            numbers["start"] = self.model.qpos0[list(node.qs)].tolist()
        else:
            kind.append("ball")
        if dofs.acceleration_drive[dof]:
            kind.append("per inertia")
        for what in ("actuator", "tendon"):
            if (what, dof) in touched:
                kind.append(what)
                places[f"{what} on"] = self.scratch.pair(f"{what} on", dof)
        return Row(", ".join(kind), places, numbers)

    def _parameter(self, turn: Turn, name: str) -> Value:
        return turn.read(name) if name in self.settings.per_env else turn.number(name)

    def _dof(self, turn: Turn) -> None:
        """The force on a degree of freedom, and what its slopes add to the inertia of its own."""
        mode, *more = turn.kind.split(", ")
        integrator, dt = self.settings.integrator, self.settings.dt
        v = turn.read("vel")
        damping = self._parameter(turn, "damping")
        force, slope = -(damping * v), -damping
        ball = next((what for what in more if "ball" in what), None)
        position = None if ball else turn.read("qpos")
        if position is not None:
            force = force - turn.number("stiffness") * (position - turn.number("spring_ref"))
        elif ball != "ball":
            stretch = turned_from(turn.numbers("start"), turn.array("qpos", 4))[int(str(ball)[-1])]
            force = force - turn.number("stiffness") * stretch
        parts = [self._commanded(turn, mode, "per inertia" in more, (position, v))]
        if "actuator" in more:
            on, its = turn.array("actuator on", 2)
            parts.append(bounded(on, its, turn.number("effort_lower"), turn.number("effort_upper")))
        if "tendon" in more:
            on, its = turn.array("tendon on", 2)
            parts.append((on, its))
        for push, its in parts:
            force = force + push
            if integrator is Integrator.IMPLICIT:
                slope = slope + its
        armature = self._parameter(turn, "armature")
        turn.write("push", [force])
        turn.write("hold", [armature if integrator is Integrator.RK4 else armature - dt * slope])

    def _commanded(
        self, turn: Turn, mode: str, per_inertia: bool, motion: tuple[Value | None, Value]
    ) -> tuple[Value, Value]:
        if mode == "actuator":
            return 0.0, 0.0
        unit: Value = 1.0
        if per_inertia:
            unit = turn.read("diagonal") + self._parameter(turn, "armature")
        gains = unit * self._parameter(turn, "kp"), unit * self._parameter(turn, "kv")
        chosen = turn.read("ctrl_mode") if mode == "any mode" else Control[mode.upper()]
        force, slope = commanded(chosen, turn.read("command"), motion, gains)
        return bounded(force, slope, turn.number("force_lower"), turn.number("force_upper"))
