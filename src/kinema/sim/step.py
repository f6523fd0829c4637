"""What a state decides: where everything is, what acts, and how it moves on; each thing is computed when asked for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any

from kinema.trace import Place, Value

from .collide.find import list_contacts
from .collide.listing import Lists
from .collide.planned import planned_sets
from .collide.touches import Touches, anything_touches
from .constrain.contacts import Contacts, axes_of
from .constrain.rows import Known
from .force import cords
from .force.adhesion import adhere
from .force.fluid import add_drag, fluid_forces, has_medium, lone_drag
from .force.links import actuators_bear_weight, anything_pulls, applied, no_wrenches, spare_weight
from .force.on_joints import both, forces_on_joints
from .force.paths import lengths_of
from .force.rotors import bias_with_rotors, mass_with_rotors
from .rigid.aba import articulated_accelerations
from .rigid.calm import not_slowed, take_in_part
from .rigid.gyroscope import correct_lone_bodies, lone_accelerations
from .rigid.kinematics import (
    Moving,
    Pose,
    Twist,
    accelerations,
    origin_of,
    poses_in_parents,
    poses_in_world,
    velocities,
)
from .rigid.rnea import NO_WRENCH, Wrench, inertial_wrench, joint_forces
from .settings import Integrator
from .sleep.islands import find_islands
from .sleep.waking import Sleepers, find_and_wake
from .solve.fitting import fits_team
from .solve.held import Kinds, filled, hold, kinds_of
from .solve.newton import Newton
from .solve.ready import Ready
from .sweeps.cords import Cords, Pull
from .sweeps.factors import Factors, factorised
from .sweeps.maths import scale, sub, sum_of
from .sweeps.matrix import TreeMatrix
from .sweeps.patterns import coupled
from .sweeps.quantities import Quantity
from .sweeps.sweeps import Sweeps
from .sweeps.tree import Node
from .sweeps.trees import PerTree

OfNode = Callable[[Node], list[Value]]


@dataclass(eq=False)
class Step:
    """One state, and everything about it that decides how it moves on; each thing is computed once, if at all."""

    s: Sweeps
    articulated: bool = False
    """Whether accelerations come by articulated bodies: for deep trees, where no matrix is needed."""
    limbs: Mapping[int, int | None] = field(default_factory=dict)
    """Of each frame the role that computes it, where several threads share an environment."""
    more: dict[str, Any] = field(default_factory=dict)
    """What stages of others leave for each other."""
    contacts: Contacts | None = None
    """What touches, once the forces of constraints are asked for."""
    always_held: Ready | None = None
    """The constraints, where they always act, and what their forces are computed from."""
    always_solves: bool = False
    """Whether the solver runs even where nothing acts, so that others may look at what it found."""
    solver: Newton | None = None
    """What found the forces of constraints."""
    qacc: Quantity[list[Value]] | None = None
    """The accelerations that the step is taken with."""
    sleepers: Sleepers | None = None
    """Who sleeps, where anything may."""
    islands: PerTree | None = None
    """The numbers of the islands that trees belong to, where each is looked at by itself."""
    slowing: Place | None = None
    """Where the factors are that accelerations and velocities are taken by, where they may be too fast."""

    @cached_property
    def where(self) -> Quantity[Pose]:
        """Where each frame is in its parent."""
        return poses_in_parents(self.s)

    @cached_property
    def frames(self) -> Quantity[Pose]:
        """Where each frame is in the world."""
        return poses_in_world(self.s, self.where)

    @cached_property
    def near_frames(self) -> Quantity[Pose]:
        """Likewise, about where the first free robot is: as exact far away as at the origin."""
        return poses_in_world(self.s, self.where, scale(-1.0, origin_of(self.s)))

    @cached_property
    def touches(self) -> Touches | None:
        """What touches; None where nothing ever does."""
        if not anything_touches(self.s.model, self.s.settings):
            return None
        found = Touches(self.s)
        if not found.sets:
            return None
        find_and_wake(self.s, found, self.near_frames, self.sleepers)
        return found

    @cached_property
    def by_team(self) -> bool:
        """Whether a team finds the forces of constraints, with a full matrix or by tiles."""
        s = self.s
        return not self.articulated and fits_team(s.model, s.settings, s.nodes)

    @cached_property
    def lists(self) -> Lists | None:
        """What touches, as lists for a team; None where there is none, or nothing ever touches."""
        if not self.by_team or not anything_touches(self.s.model, self.s.settings):
            return None
        found = Lists(self.s)
        if not found.plans:
            return None
        list_contacts(self.s, found, self.near_frames)
        return found

    @cached_property
    def velocity(self) -> Quantity[Twist]:
        """How each frame moves, in its own axes."""
        return velocities(self.s, self.where)

    @cached_property
    def motion(self) -> Quantity[Moving]:
        """How each frame accelerates, as felt, while no coordinate does."""
        return accelerations(self.s, self.where)

    @property
    def known(self) -> Known:
        """What constraints may look at."""
        return Known(self.s, self.where, self.frames, self.velocity, self.motion, lengths_of(self))

    @cached_property
    def mass(self) -> TreeMatrix:
        """The joint-space inertia."""
        return mass_with_rotors(self)

    @cached_property
    def bias(self) -> Quantity[list[Value]]:
        """The joint forces that keep coordinates from accelerating."""
        return bias_with_rotors(self)

    @cached_property
    def wrenches(self) -> Quantity[Wrench] | None:
        """What pulls on frames: the user, thrusters, missing weight, a medium; None where nothing ever does."""
        if not anything_pulls(self.s.model, self.s.settings):
            return None
        found = no_wrenches(self.s, "wrenches")
        if not actuators_bear_weight(self.s.model):
            spare_weight(self.s, self.frames, found)
        applied(self.s, self.frames, found)
        fluid_forces(self, found)
        return found

    @cached_property
    def borne_weight(self) -> Quantity[list[Value]] | None:
        """What missing weight does to joints, where actuators bear some of it; None where it is among the wrenches."""
        if not actuators_bear_weight(self.s.model):
            return None
        spared = no_wrenches(self.s, "spared weight")
        spare_weight(self.s, self.frames, spared)
        return joint_forces(self.s, "spared weight", self.where, lambda node: spared[node.here])

    @cached_property
    def tendons(self) -> Cords:
        """Springs and dampers in tendons."""
        return cords.tendons(self)

    @cached_property
    def actuators(self) -> Cords:
        """The files' actuators; those on frames add to the wrenches."""
        found = cords.actuators(self, self.wrenches)
        if (self.s.model.actuators.link_idx >= 0).any():
            adhere(self.s, found, self.touches, self.near_frames, self.wrenches)
        return found

    @cached_property
    def pushed(self) -> Quantity[list[Value]] | None:
        """What the wrenches on frames do to joints."""
        wrenches = self.wrenches
        _ = self.actuators
        if wrenches is None:
            return None
        return joint_forces(self.s, "wrenches", self.where, lambda node: wrenches[node.here])

    @cached_property
    def forces(self) -> Quantity[list[list[Pull]]]:
        """What acts on each degree of freedom: passive, tendons, control, actuators, and what the user adds."""
        tendons, actuators, weight = self.tendons, self.actuators, self.borne_weight
        needs_inertia = bool(self.s.model.dofs.acceleration_drive.any())
        return forces_on_joints(self.s, tendons, actuators, weight, self.mass if needs_inertia else None)

    def active_force(self, node: Node) -> list[Value]:
        """The sum of what acts on a frame's degrees of freedom, but for what comes from its motion."""
        parts = self.forces[node.here]
        return [sum_of([part[k].force for part in parts]) for k in range(len(node.dofs))]

    def outside_force(self, node: Node) -> list[Value]:
        """Likewise, with what wrenches on frames do to them."""
        own, pushed = self.active_force(node), self.pushed
        return own if pushed is None else [a + b for a, b in zip(own, pushed[node.here], strict=True)]

    @cached_property
    def force(self) -> Quantity[list[Value]]:
        """All that accelerates the joints: what the mass matrix times the acceleration is."""
        bias, _ = self.bias, (self.pushed, self.forces)
        force: Quantity[list[Value]] = self.s.quantity("force")

        def body(node: Node) -> None:
            pairs = zip(self.outside_force(node), bias[node.here], strict=True)
            force.put(node.here, [own - taken for own, taken in pairs])

        self.s.each_frame("all forces", body)
        return force

    @cached_property
    def factors(self) -> Factors:
        """The inertia, factorised."""
        return factorised(self.mass)

    @cached_property
    def free_acceleration(self) -> Quantity[list[Value]]:
        """What the forces would do to the coordinates without constraints."""
        if self.articulated:
            return self._articulated(_none, None)
        force = self.force
        return self.factors.solve("free accelerations", force)

    @cached_property
    def constraint_force(self) -> Quantity[list[Value]] | None:
        """What constraints do to the joints; None where there are none."""
        s, kinds = self.s, kinds_of(self.s)
        touching = anything_touches(s.model, s.settings) and bool(planned_sets(s.model, [n.index for n in s.nodes]))
        if not kinds and not touching:
            return None
        known, _ = self.known, (self.forces, self.pushed if s.settings.calm else None)
        _ = None if self.articulated else (self.force, self.mass)
        self.slowing = not_slowed(s)
        near = self.near_frames if touching else None
        before = self._ready(kinds, known, near) if s.settings.team and not self.articulated else None
        touches = self.touches if touching and self.lists is None else self.lists

        def then(solver: Newton) -> None:
            take_in_part(s, self.slowing, solver.added)

        if s.settings.islands:
            found = touches if isinstance(touches, Touches) else None
            self.islands = find_islands(s, found, [block.dofs for _, own in kinds for block in own])
        with s.team("constraints", [] if self.lists is None else [x.count for x in self.lists.of_kind.values()]):
            if isinstance(touches, Touches) and s.settings.team:
                touches = touches.taken_along()
            how = {"always": self.always_solves, "by_team": self.by_team}
            ready = partial(self._ready, kinds, known, near) if before is None else lambda: before
            held = hold(s, kinds, known, touches, ready, then, islands=self.islands, **how)
        self.contacts, self.always_held, self.solver = held.contacts, held.always, held.solver
        return held.force

    def _ready(self, kinds: Kinds, known: Known, near: Quantity[Pose] | None) -> Ready:
        """What the forces of constraints are computed from; `near` are the frames of what may touch."""
        s = self.s
        rows = filled(s, kinds, known)
        inertia = mass_with_rotors(self) if self.articulated else self.mass
        factors = factorised(inertia)
        free = self._articulated(_none, None) if self.articulated else factors.solve("free accelerations", self.force)
        return Ready(rows, inertia, factors, free, None if near is None else axes_of(s, self.where, near), near)

    @cached_property
    def acceleration(self) -> Quantity[list[Value]]:
        """Forward dynamics: what forces and constraints do to the coordinates."""
        held = self.constraint_force
        if held is None:
            return self.free_acceleration
        if self.articulated:
            return self._articulated(_none, held)
        return self.factors.solve("accelerations", self._all_forces(held))

    def _articulated(self, slopes: OfNode, held: Quantity[list[Value]] | None) -> Quantity[list[Value]]:
        """Accelerations by articulated bodies, with slopes on the diagonal of the inertia."""
        s, motion, wrenches, _ = self.s, self.motion, self.wrenches, self.forces

        def own(node: Node) -> list[Value]:
            return [a + b for a, b in zip(s.of("armature", node), slopes(node), strict=True)]

        def force(node: Node) -> list[Value]:
            more = _none(node) if held is None else held[node.here]
            return [a + b for a, b in zip(self.active_force(node), more, strict=True)]

        def bias(node: Node) -> Wrench:
            taken = inertial_wrench(node.inertia, motion[node.here])
            pull = NO_WRENCH if wrenches is None else wrenches[node.here]
            return Wrench(sub(taken.torque, pull.torque), sub(taken.force, pull.force))

        return articulated_accelerations(s, self.where, own, force, bias)

    def implicit_acceleration(self) -> Quantity[list[Value]]:
        """The change of velocity per time over a step, with the slopes of forces taken at its end."""
        s, _ = self.s, self.forces
        fast = s.settings.integrator is Integrator.IMPLICIT

        def slopes(node: Node) -> list[Value]:
            parts = self.forces[node.here][: None if fast else int(s.model.options.eulerdamp)]
            return [-(s.dt * sum_of([part[k].slope for part in parts])) for k in range(len(node.dofs))]

        held = self.constraint_force
        if self.articulated:
            return self._articulated(slopes, held)
        force = self.force if held is None else self._all_forces(held)
        between = [self.tendons, self.actuators] if fast else []
        implicit = self.mass.plus("implicit", slopes, between, lambda: -s.dt)
        if fast and has_medium(s.model):
            add_drag(self, implicit)
        ready, least = self.always_held, None
        hard = None if ready is None else ready.rows.hard()
        if hard is not None and ready is not None:
            least = ready.factors
            implicit = implicit.widened("implicit", coupled(implicit.paths, [block.dofs for block in hard.blocks]))
            hard.add_stiffness(implicit)
            force = both(s, "forces with hard constraints", force, hard.springs("springs of hard constraints"))
        held_to_others = set() if hard is None else {dof for block in hard.blocks for dof in block.dofs}
        drag = lone_drag(self) if fast else None
        alone = lone_accelerations(s, implicit, self.where, force, held_to_others, drag) if fast else None
        factors = factorised(implicit, least)
        change = factors.solve("accelerations", force)
        if hard is not None:
            more = both(s, "forces that hold", force, hard.missing_forces("what hard constraints miss", change))
            change = factors.solve("accelerations, held", more)
        if alone is not None:
            correct_lone_bodies(s, alone, change, held_to_others)
        return change

    def _all_forces(self, held: Quantity[list[Value]]) -> Quantity[list[Value]]:
        """Those of constraints among them."""
        return both(self.s, "all forces with constraints", self.force, held)


def _none(node: Node) -> list[Value]:
    return [0.0] * len(node.dofs)
