"""Motion that is too fast for the step: it must not feed itself.

Where rows act is seen from where things are: a constraint that turns a joint far in one step, as where its Jacobian
nearly vanishes, is past all that it knew. Such a change of velocities is taken in part, as far as can be seen.

Forces of motion are those at the start of a step. Where a joint turns so far in one step that the inertia is another at
its end, they are not what they should be, and constraints that pull things back from where they never should have got
to make it worse: kinetic energy comes from nowhere, and more of it every step. There, and only there, energy is held to
what it was and what forces may have added: all velocities of the environment are scaled down to that. So it is where
something that constraints push on goes farther still in one step: what their springs had stored they may give back only
where they can see what they do.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kinema import trace
from kinema.model import Motion
from kinema.trace import SCRATCH, Place, RowCode, Value

from ..settings import Integrator
from ..sweeps.maths import add, dot, sum_of
from ..sweeps.quantities import Quantity
from ..sweeps.sweeps import Sweeps
from ..sweeps.tree import Forest, Node
from .integrate import advance
from .kinematics import MOTIONS, RESTING, Pose, Twist, carried_twist, joint_twist, poses_in_parents
from .rnea import momentum

TOO_FAR = 0.3
"""Constraints push blindly on what moves by so many radians or metres in a step."""
QUICK = 0.1
"""Forces of motion may be wrong where a joint turns by so many radians in a step: by about the square of that."""
ANOTHER = 0.01
"""The inertia is another when the kinetic energy at the same speeds differs by such a share of it."""
WHOLE = 0.999
"""A change of velocities of which less is taken is one that is taken in part."""
LARGEST, SMALLEST = 1e37, 1e-30
OfDofs = Quantity[list[Value]]
Speeds = Callable[[Node], list[Value]]


def not_slowed(s: Sweeps) -> Place | None:
    """Room for the factors that accelerations, and then the next velocities, are taken by; None where nothing turns."""
    turns = any(node.motion != Motion.SLIDE for node in s.nodes)
    if not s.settings.calm or s.settings.integrator is Integrator.RK4 or not turns:
        return None
    result = s.take_fixed(2)
    s.recorder.write(SCRATCH, [1.0, 1.0], result.row)
    return result


def take_in_part(s: Sweeps, factors: Place | None, added: Speeds) -> None:
    """Find how much of the step's accelerations to take, from what constraints add to them."""
    if factors is None:
        return
    largest = s.take_fixed(1)
    s.recorder.write(SCRATCH, [TOO_FAR], largest.row)
    rows = [s.frame_row(node) for node in s.nodes if node.motion != Motion.SLIDE]
    for row in rows:
        row.places["largest"] = largest

    def look(code: RowCode) -> None:
        most = code.read("largest")
        for a in added(s.node(code)):
            most = trace.maximum(most, trace.absolute(s.dt * (s.dt * a)))
        code.write("largest", [most])

    s.loop("largest turn by constraints", rows, look)
    s.recorder.write(SCRATCH, [TOO_FAR / s.recorder.read(SCRATCH, largest.row)], factors.row)


def hold_energy(s: Sweeps, factors: Place | None, qacc: OfDofs, force: Speeds, held: OfDofs | None) -> None:
    """Find what to take the next velocities by.

    Args:
        s: the frames.
        factors: where to put it.
        qacc: the accelerations that the step is taken with.
        force: what acts on the degrees of freedom of a frame from outside: neither motion nor constraints.
        held: what constraints do to them.
    """
    if factors is None or held is None:
        return
    ahead: OfDofs = s.quantity("next velocities")

    def moves(node: Node) -> tuple[Value, Value]:
        part = in_part(s, factors, qacc[node.here])
        v = [v + s.dt * a for v, a in zip(s.of("vel", node), part, strict=True)]
        ahead.put(node.here, v)
        quick = [trace.select(QUICK, trace.absolute(s.dt * x), 1.0, 0.0) for x in v]
        far = [trace.select(TOO_FAR, trace.absolute(s.dt * x), 1.0, 0.0) for x in v]
        pushed = [trace.select(0.0, trace.absolute(f), x, 0.0) for f, x in zip(held[node.here], far, strict=True)]
        return 0.0 if node.motion == Motion.SLIDE else sum_of(quick), sum_of(pushed)

    turning, pushed = s.total("what goes far", Forest.FRAMES, (0.0, 0.0), moves)
    pushed = pushed + trace.select(s.recorder.read(SCRATCH, factors.row), WHOLE, 1.0, 0.0)
    blind = s.take_fixed(1)
    s.recorder.write(SCRATCH, [pushed], blind.row)
    with s.staying(s.is_whole):  # what hardly ever runs is not worth a straight line
        s.where("too fast", turning + pushed, lambda: _hold(s, factors, ahead, force, held, blind))


def _hold(s: Sweeps, factors: Place, ahead: OfDofs, force: Speeds, held: OfDofs, blind: Place) -> None:
    """Energy is held where the inertia is another at the end of the step, or constraints push blindly.

    Where they do not, they give back what they have stored: the change of kinetic energy by a force, while the inertia
    is as it was, is its power at the middle of old and new speeds.
    """

    def after(node: Node) -> list[Value]:
        return ahead[node.here]

    def work(node: Node) -> tuple[Value, Value, Value]:
        pushes, pulls, v, then = force(node), held[node.here], s.of("vel", node), after(node)
        return dot(pushes, v), dot(pushes, then), 0.5 * (dot(pulls, v) + dot(pulls, then))

    here, there = poses_in_parents(s), _poses_after(s, after)
    before, _ = _energy(s, "energy before", here, lambda node: s.of("vel", node))
    frozen, pull = _energy(s, "energy of the next velocities", here, after)
    then, _ = _energy(s, "energy then", there, after)
    *powers, given = s.total("work", Forest.FRAMES, (0.0, 0.0, 0.0), work)
    is_blind = s.recorder.read(SCRATCH, blind.row)
    taken = trace.maximum(trace.minimum(*powers), 0.0)  # of all: a damper in a loop takes here and gives there
    given = trace.select(0.5, is_blind, 0.0, trace.maximum(given, 0.0))
    most = before + s.dt * (taken + given + trace.sqrt(dot(s.gravity, s.gravity)) * pull)
    less = trace.select(most, then, trace.sqrt(most / trace.maximum(then, SMALLEST)), 1.0)
    factor = trace.select(ANOTHER * frozen, trace.absolute(then - frozen), less, 1.0)
    factor = trace.select(0.5, is_blind, less, factor)
    s.recorder.write(SCRATCH, [trace.select(then, LARGEST, factor, 0.0)], factors.row + 1)


def in_part(s: Sweeps, factors: Place | None, a: Sequence[Value]) -> list[Value]:
    """Accelerations of a frame, taken in part."""
    return _times(s, factors, 0, a)


def slowed(s: Sweeps, factors: Place | None, v: Sequence[Value]) -> list[Value]:
    """Velocities of a frame, held to the energy that there is."""
    return _times(s, factors, 1, v)


def _times(s: Sweeps, factors: Place | None, which: int, x: Sequence[Value]) -> list[Value]:
    if factors is None:
        return list(x)
    s.code.give("slowing", factors)
    return [s.code.read("slowing", which) * y for y in x]


def _poses_after(s: Sweeps, after: Speeds) -> Quantity[Pose]:
    """Where frames are in their parents at the end of the step."""
    ahead: Quantity[Pose] = s.quantity("where then")

    def go(node: Node) -> None:
        q = advance(node, s.of("qpos", node), [s.dt * v for v in after(node)])
        ahead.put(node.here, MOTIONS[node.motion].pose(node, q))

    s.each_frame("where frames are then", go)
    return ahead


def _energy(s: Sweeps, name: str, where: Quantity[Pose], speeds: Speeds) -> tuple[Value, Value]:
    """Kinetic energy, and the sum of all momenta's sizes."""

    def move(node: Node, above: Twist) -> Twist:
        at = where[node.here]
        own, carried = joint_twist(node, at, speeds(node)), carried_twist(above, at)
        return Twist(add(carried.angular, own.angular), add(carried.linear, own.linear))

    motion = s.outward(f"{name}, velocities", RESTING, move)

    def own(node: Node) -> tuple[Value, Value]:
        twist = motion[node.here]
        carried = momentum(node.inertia, twist)
        energy = 0.5 * (dot(twist.angular, carried.torque) + dot(twist.linear, carried.force))
        for speed, rotor in zip(speeds(node), s.of("armature", node), strict=True):
            energy = energy + (0.5 * rotor) * (speed * speed)
        return energy, trace.sqrt(dot(carried.force, carried.force))

    return s.total(name, Forest.FRAMES, (0.0, 0.0), own)
