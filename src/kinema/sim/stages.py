"""One step, from state to state: the story on one screen.

A step is a list of stages; each adds to what the next ones find. What it leaves is loops over tables of parts; whether
these stay loops, or are unrolled into a straight line, is decided in `lower/`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from kinema import trace
from kinema.trace import Recorder

from .constrain.breaking import note_broken
from .force.activation import advance_activations
from .force.delay import remember_controls
from .force.orientation import remember_quaternions
from .force.plastic import give_way, give_way_in_tendons
from .rigid.calm import hold_energy, in_part, slowed
from .rigid.freeze import LARGEST, Kept, before_step, or_stay
from .rigid.integrate import euler_step, next_phase, runge_kutta_stage
from .settings import Integrator
from .sleep.falling import fall_asleep
from .sleep.waking import Sleepers, all_awake
from .step import Step
from .sweeps.tree import Node


def wake(step: Step) -> None:
    """What sleeps, and is not woken by what was done to it, is left out of all that follows."""
    if step.s.sleeps:
        step.sleepers = Sleepers(step.s)
        step.sleepers.begin()
        _ = step.touches  # who is touched wakes, before anything is computed for those that are awake
    elif step.s.idle is not None:
        all_awake(step.s)


def position(step: Step) -> None:
    """Where everything is."""
    _ = step.where


def collide(step: Step) -> None:
    """What touches, where all threads of a GPU look for it; else that is found with the constraints."""
    _ = step.lists


def forces(step: Step) -> None:
    """What acts on the joints."""
    _ = step.forces


def constrain(step: Step) -> None:
    """What constraints add to them."""
    _ = step.constraint_force


def let_go(step: Step) -> None:
    """Ties that bear more than they can are broken from now on."""
    if step.always_held is not None:
        note_broken(step.s, step.always_held.rows)


def accelerate(step: Step) -> None:
    """What the forces do."""
    stages = step.s.settings.integrator is Integrator.RK4
    step.qacc = step.acceleration if stages else step.implicit_acceleration()


def calm(step: Step) -> None:
    """Motion that is too fast for the step, which constraints may feed, is held to the energy that there is."""
    assert step.qacc is not None
    hold_energy(step.s, step.slowing, step.qacc, step.outside_force, step.constraint_force)


def integrate(step: Step) -> None:
    """The next state, and a flag where it is no longer made of numbers."""
    s, qacc = step.s, step.qacc
    assert qacc is not None
    stages = s.settings.integrator is Integrator.RK4
    health = s.health(step.limbs)
    kept = Kept(s) if s.settings.freezes else None

    def body(node: Node) -> None:
        old = before_step(s, node)
        own = in_part(s, step.slowing, qacc[node.here])
        held = partial(slowed, s, step.slowing)
        q, v = runge_kutta_stage(s, node, own) if stages else euler_step(s, node, own, held)
        health.note(node, q, v)
        if kept is None:
            q, v = or_stay(health.flagged(), old, q, v)
            s.write("qpos", node, q)
            s.write("vel", node, v)
        else:
            kept.note(node, q, v)
        give_way(s, node, q)

    s.each_frame("the next state", body)
    give_way_in_tendons(step)
    advance_activations(s, step.actuators)
    remember_controls(s, step.actuators)
    remember_quaternions(s, step.actuators)
    errors = [
        trace.select(trace.absolute(total), LARGEST, s.read("error", role), 1.0)
        for role, total in enumerate(health.totals())
    ]
    s.write("error", None, errors)
    if kept is not None:
        kept.write(errors[0])


def sleep(step: Step) -> None:
    """What has been still for long is left out from the next step on."""
    if step.s.sleeps and step.islands is not None:
        fall_asleep(step.s, step.islands)


Stage = Callable[[Step], None]
STAGES: list[Stage] = [wake, position, collide, forces, constrain, let_go, accelerate, calm, integrate, sleep]
"""The step, in order. A stage of another room goes between them."""


def take(step: Step) -> None:
    """Take a step; a Runge-Kutta step takes four, and `count_stages` after each."""
    for stage in STAGES:
        stage(step)


def count_stages(recorder: Recorder) -> None:
    """Which of its stages a Runge-Kutta step is in next."""
    recorder.write("phase", [next_phase(recorder.read("phase"))])
