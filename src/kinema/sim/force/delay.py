"""Controls that reach their actuators late (MJCF `delay`): what was told in the last steps is state.

The newest comes first. Steps are taken to be as long as the present one.
"""

from __future__ import annotations

from collections.abc import Sequence

from kinema import trace
from kinema.trace import Value

from ..rigid.integrate import looked_ahead
from ..settings import Integrator
from ..sweeps.cords import Cord, Cords
from ..sweeps.sweeps import Sweeps

ALMOST = 1e-4
"""How much of a step a delay may be longer than whole steps without counting as longer: rounding."""


def told_control(s: Sweeps, cord: Cord) -> Value:
    """What an actuator hears: its control, or one of some time ago."""
    if not cord.samples:
        return cord.of("ctrl")[0]
    return heard_late(s, cord.interpolation, cord.of("history"), cord.of("delay")[0])


def heard_late(s: Sweeps, interpolation: str, history: Sequence[Value], delay: Value) -> Value:
    """What was told so long ago [s]."""
    steps = delay / s.dt
    if s.settings.integrator is Integrator.RK4:
        steps = steps - looked_ahead(s.read("phase"))
    return INTERPOLATIONS[interpolation](history, steps)


def remember_controls(s: Sweeps, actuators: Cords) -> None:
    """Put what actuators were told in this step in front of what they were told before."""

    def body(cord: Cord) -> None:
        s.code.write("history", remembered(s, cord.of("ctrl")[0], cord.of("history")))

    actuators.each("controls that are delayed", body, lambda kind: kind.samples > 0)


def remembered(s: Sweeps, told: Value, old: Sequence[Value]) -> list[Value]:
    """What is remembered after this step."""
    new = [told, *old[:-1]]
    if s.settings.integrator is not Integrator.RK4:
        return new
    phase = s.read("phase")
    return [trace.select(2.5, phase, x, y) for x, y in zip(new, old, strict=True)]


def _held(samples: Sequence[Value], steps: Value) -> Value:
    """The last one that is old enough; the oldest where none is."""
    value = samples[-1]
    for k in reversed(range(1, len(samples))):
        value = trace.select(steps, k + ALMOST, samples[k - 1], value)
    return value


def _linear(samples: Sequence[Value], steps: Value) -> Value:
    """Between two."""
    value = samples[0]
    for k in range(1, len(samples)):
        value = value + (samples[k] - samples[k - 1]) * _share(steps, k)
    return value


def _cubic(samples: Sequence[Value], steps: Value) -> Value:
    """Smoothly between two, with the slopes that their neighbours have, and none at both ends."""
    last = len(samples) - 1
    slopes = [0.5 * (samples[i + 1] - samples[i - 1]) if 0 < i < last else 0.0 for i in range(last + 1)]
    value = samples[0]
    for k in range(1, len(samples)):
        u = _share(steps, k)
        rise, rest = u * u * (3.0 - 2.0 * u), 1.0 - u
        value = value + (samples[k] - samples[k - 1]) * rise
        value = value + u * rest * (slopes[k - 1] * rest - slopes[k] * u)
    return value


def _share(steps: Value, k: int) -> Value:
    """How far between the k-th sample and the next: 0 before it, 1 behind that."""
    return trace.clamp(steps - float(k), 0.0, 1.0)


INTERPOLATIONS = {"zoh": _held, "linear": _linear, "cubic": _cubic}
"""The control of some steps ago, from those that are remembered."""
