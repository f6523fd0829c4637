"""What pulls along a length: the files' actuators, and springs and dampers in tendons."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from kinema import trace
from kinema.trace import Value

from ..rigid.rnea import Wrench
from ..settings import Drive
from ..sweeps.cords import Cord, Cords, Pull
from ..sweeps.maths import scale
from ..sweeps.quantities import Quantity
from . import muscle
from .activation import drive_of
from .joints import bent, bounded, damper, stored
from .orientation import ORIENTATION, turn_together
from .paths import HasFrames, lengths_of
from .shared_bounds import bound_together
from .wrap import angle_of


def tendons(step: HasFrames, body: Callable[[Cord], Pull] | None = None) -> Cords:
    """Springs and dampers in tendons, or something else about these."""
    s, info = step.s, step.s.model.tendons
    springs, dampers = info.stiffness_poly.any(axis=1), info.damping_poly.any(axis=1)
    which = [int(i) for i in ((info.stiffness != 0) | (info.damping != 0) | springs | dampers).nonzero()[0]]
    return s.cords("tendons", which, body or (lambda cord: _tendon(cord, s.dt)), lengths_of(step))


def _tendon(cord: Cord, dt: Value) -> Pull:
    (stiffness,), (damping,) = cord.of("stiffness"), cord.of("damping")
    if cord.kind == "brake":
        return _brake(damping, cord, dt)
    stretch = _stretch(cord)
    pull = -bent(stiffness, cord.of("stiffness_poly"), stretch) * stretch
    braked = damper(damping, cord.of("damping_poly"), cord.speed)
    pulled = Pull(pull + braked.force, braked.slope)
    if cord.kind != "drive":
        return pulled
    (speed,), (most,) = cord.of("target_speed"), cord.of("most_force")
    return bounded(Pull(pulled.force + damping * speed, pulled.slope), -most, most)


def _brake(damping: Value, cord: Cord, dt: Value) -> Pull:
    """A damper of a joint that closes a loop, at most so hard that it stops its motion within a step.

    Constraints see its force at the start of the step. Against one that is harder, as along a fine thread, they would
    hold with forces that nothing resists at the end of it, and give back what it takes many times.
    """
    (weight,) = cord.of("weight")
    carried = trace.minimum(damping, 1.0 / (dt * weight))
    return Pull(-carried * cord.speed, -carried)


def tendon_energy(cord: Cord) -> Pull:
    """What its spring holds, in the place of a force."""
    return Pull(stored(cord.of("stiffness")[0], cord.of("stiffness_poly"), _stretch(cord)), 0.0)


def _stretch(cord: Cord) -> Value:
    """How far a tendon is above or below the lengths at which its spring rests."""
    (lower,), (upper,) = cord.of("rest_lower"), cord.of("rest_upper")
    return trace.minimum(cord.length - lower, 0.0) + trace.maximum(cord.length - upper, 0.0)


def _affine_actuator(cord: Cord, drive: Value) -> Pull:
    """Force = gain(l, l') drive + bias(l, l'), with three terms each."""
    return _sum(_affine_gain(cord), drive, _affine_bias(cord))


def _muscle(cord: Cord, drive: Value) -> Pull:
    """Likewise, by the curves of muscles."""
    return _sum(muscle.active(cord), drive, (muscle.passive(cord), 0.0))


def _muscle_gain(cord: Cord, drive: Value) -> Pull:
    """A muscle without the passive force of one."""
    return _sum(muscle.active(cord), drive, _affine_bias(cord))


def _muscle_bias(cord: Cord, drive: Value) -> Pull:
    """A motor with the passive force of a muscle."""
    return _sum(_affine_gain(cord), drive, (muscle.passive(cord), 0.0))


WithSlope = tuple[Value, Value]
"""A number, and its derivative by speed."""


def _sum(gain: WithSlope, drive: Value, bias: WithSlope) -> Pull:
    return Pull(gain[0] * drive + bias[0], gain[1] * drive + bias[1])


def _affine_gain(cord: Cord) -> WithSlope:
    terms = cord.of("gain")
    return _affine(terms, cord), terms[2]


def _affine_bias(cord: Cord) -> WithSlope:
    terms = cord.of("bias")
    return _affine(terms, cord), terms[2]


def _affine(terms: Sequence[Value], cord: Cord) -> Value:
    return terms[0] + terms[1] * cord.length + terms[2] * cord.speed


def _nearest(cord: Cord, control: Value) -> Cord:
    """A servo of an angle with its length counted so that where it is told to go is not further than a half turn."""
    (turn,) = cord.of("turn")
    missing = (control - cord.length) / turn
    s, c = trace.sin(missing), trace.cos(missing)
    angle = angle_of(c, trace.absolute(s))
    return replace(cord, length=control - turn * trace.select(s, 0.0, -angle, angle))


ACTUATORS: dict[str, Callable[[Cord, Value], Pull]] = {
    "affine": _affine_actuator,
    "muscle": _muscle,
    "muscle gain": _muscle_gain,
    "muscle bias": _muscle_bias,
}
"""The force along its length of each kind of actuator, from its control or activation."""


def actuators(step: HasFrames, wrenches: Quantity[Wrench] | None) -> Cords:
    """The actuators that the files describe; those on frames add to the wrenches there.

    Where the user's commands are listened to, an actuator is switched off when one of its joints is taken over.
    """
    s = step.s

    def body(cord: Cord) -> Pull:
        drive = drive_of(s, cord)
        if cord.kind == ORIENTATION:
            return Pull(drive, cord.speed)  # for what is found together
        pull = ACTUATORS[cord.kind](_nearest(cord, drive) if cord.turns else cord, drive)
        (lower,), (upper,) = cord.of("force_lower"), cord.of("force_upper")
        pull = bounded(pull, lower, upper)
        if s.settings.drive is not Drive.ACTUATORS:
            (on,) = cord.of("actuator_on")
            pull = Pull(on * pull.force, on * pull.slope)
        if cord.frame is not None and wrenches is not None:
            torque, force = cord.of("frame_torque"), cord.of("frame_force")
            wrenches.add(cord.frame, Wrench(scale(pull.force, torque), scale(pull.force, force)))
        return pull

    def together(cords: Cords) -> None:
        turn_together(s, cords)
        bound_together(cords)

    return s.cords("actuators", range(s.model.n_actuators), body, lengths_of(step), together=together)
