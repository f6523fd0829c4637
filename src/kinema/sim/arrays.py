"""The one list of arrays that a step reads and writes: whose they are, where they lie, and when there are any."""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from kinema.foundation import Array
from kinema.model import Model, Motion
from kinema.trace import UNIFORM

from .gridded import gridded, pair_table
from .sense.tables import readings_with_contacts, touch_weights
from .settings import Broad, Control, Integrator, Settings
from .sleep.policy import asleep_at_start, n_trees


class Owner(enum.Enum):
    """What the items of an array belong to."""

    ENVIRONMENT = "environment"
    COORDINATE = "coordinate"
    DOF = "degree of freedom"
    LINK = "link"
    ACTUATOR = "actuator"
    TENDON = "tendon"
    SAMPLE = "sample"
    """A control that an actuator remembers."""
    TIE = "tie"
    COUPLING = "coupling"
    GEOM = "shape"
    PAIR = "pair of shapes"
    CONTACT = "contact"
    ROW = "row of a constraint"
    SHAPES = "shapes"
    CELLS = "two shapes in cells"
    READING = "reading"
    """A number that a sensor tells."""
    SENSED = "sensed"
    """A pair of shapes, as a sensor sees it."""
    RAYS = "rays"
    TREE = "tree"
    """All frames that hang on one that the world holds."""
    ROLE = "role"
    NUMBER = "number"
    """One that parts of the model read instead of being compiled with it."""


class Use(enum.Enum):
    """What an array is for, which decides where it lies."""

    STATE = "state"
    """Carried from step to step."""
    TOLD = "told"
    """What a step may be told anew."""
    INPUT = "input"
    """A number that may change at any time: one for all environments, unless it is asked to differ between them."""
    CONSTANT = "constant"
    """A number of the model that is folded into the program, unless it is asked to differ between environments."""


OWN = "own_numbers"
"""The array of numbers that parts of the model read instead of being compiled with them."""
UNLIMITED = 1e15
"""Instead of the infinite radius of a plane, which no arithmetic survives."""
Start = Callable[[Model, Settings], "Array | float"]


@dataclass(frozen=True, slots=True)
class ArrayInfo:
    """One array."""

    name: str
    owner: Owner
    use: Use
    width: int = 1
    """Numbers to an item."""
    start: Start = lambda model, settings: 0.0
    """What it holds to begin with."""
    when: Callable[[Settings], bool] = lambda settings: True
    """Whether there is such an array."""
    needed: Callable[[Model], bool] = lambda model: True
    """Whether it has anything in it."""
    asked_as: tuple[str, ...] = ()
    """The parameters that make it differ between environments, if not its own name."""

    def differs(self, settings: Settings) -> bool:
        """Whether environments have their own."""
        return bool(settings.per_env & set(self.asked_as or (self.name,)))

    def arena(self, settings: Settings) -> str | None:
        """Where it lies; None for constants."""
        if not self.when(settings):
            return None
        match self.use:
            case Use.STATE:
                return "state"
            case Use.TOLD:
                return "told"
            case Use.INPUT:
                return "state" if self.differs(settings) else UNIFORM
            case Use.CONSTANT:
                return "state" if self.differs(settings) else None

    def count(self, model: Model, settings: Settings) -> int:
        """How many items it has."""
        if not self.needed(model):
            return 0
        return {
            Owner.ENVIRONMENT: 1,
            Owner.COORDINATE: model.n_qs,
            Owner.DOF: model.n_dofs,
            Owner.LINK: model.n_links,
            Owner.ACTUATOR: model.n_actuators,
            Owner.TENDON: len(model.tendons.names),
            Owner.SAMPLE: int(model.actuators.samples.sum()),
            Owner.TIE: len(model.ties.names),
            Owner.COUPLING: len(model.couplings.names),
            Owner.GEOM: len(model.geoms.names),
            Owner.PAIR: len(model.pairs.geom_a),
            Owner.SHAPES: len(model.geoms.numbers),
            Owner.CELLS: len(gridded(model)) ** 2 if settings.broad is Broad.CELLS else 0,
            Owner.READING: model.sensors.n_numbers,
            Owner.SENSED: len(readings_with_contacts(model)) * len(model.pairs.geom_a),
            Owner.RAYS: len(model.sensors.rays.numbers),
            Owner.TREE: n_trees(model),
            Owner.ROLE: settings.roles,
            Owner.NUMBER: 0 if model.own is None else len(model.own.values),
        }[self.owner]


def _of_dofs(name: str) -> Start:
    return lambda model, _: getattr(model.dofs, name)


def _of_tendons(name: str) -> Start:
    return lambda model, _: getattr(model.tendons, name)


def _give_way(table: str) -> Callable[[Model], bool]:
    """Whether any springs do."""
    return lambda model: bool(np.isfinite(getattr(model, table).spring_yield).any())


def _of_touch(table: str, name: str) -> Start:
    return lambda model, _: np.minimum(getattr(getattr(model, table), name), UNLIMITED)


def _of_fluid(name: str) -> Start:
    return lambda model, _: getattr(model.fluid, name)


def _felt(model: Model) -> bool:
    return bool(model.fluid.kinds)


def _resting(model: Model, _: Settings) -> Array:
    """Where the springs of joints rest."""
    q, frames, single = np.zeros(model.n_qs), model.frames, model.dofs.q_idx >= 0
    q[model.dofs.q_idx[single]] = model.dofs.spring_ref[single]
    for frame in np.flatnonzero(frames.motion == Motion.BALL):
        q[frames.q_start[frame] + np.arange(4)] = frames.spring_quat[frame]
    return q


def _told_before(model: Model, _: Settings) -> Array:
    """What actuators remember to begin with: nothing, of a quaternion no turn."""
    info = model.actuators
    is_first = (info.servo_idx >= 0) & ~info.moment.any(axis=1)
    return np.repeat(is_first.astype(float), info.samples)


def _in_stages(settings: Settings) -> bool:
    return settings.integrator is Integrator.RK4


def _activated(model: Model) -> bool:
    return bool(model.actuators.has_activation.any())


def _limited(settings: Settings) -> bool:
    return settings.limits


def _touching(settings: Settings) -> bool:
    return settings.contacts


def _constrained(settings: Settings) -> bool:
    return settings.constraints


def _sleeps(settings: Settings) -> bool:
    return settings.sleep > 0.0


def _pushed(settings: Settings) -> bool:
    return settings.external_forces


def _held(owner: Owner, name: str) -> Start:
    tables = {Owner.TIE: "ties", Owner.COUPLING: "couplings"}
    return lambda model, _: np.asarray(getattr(getattr(model, tables[owner]), name), np.float64)


SOFT: list[tuple[str, Owner, Callable[[str], Start]]] = [
    ("limit", Owner.DOF, lambda name: _of_dofs(f"limit_{name}")),
    ("friction", Owner.DOF, lambda name: _of_dofs(f"friction_{name}")),
    ("tie", Owner.TIE, lambda name: _held(Owner.TIE, name)),
    ("coupling", Owner.COUPLING, lambda name: _held(Owner.COUPLING, name)),
]
"""What is as soft as two arrays say, whose they are, and where they start."""
GAINS = ("gain_command", "gain_position", "gain_velocity")
"""What commands mean: force = gain_command command - gain_position position - gain_velocity velocity."""

TOUCH: list[tuple[Owner, str, str, int, tuple[str, ...]]] = [
    (Owner.PAIR, "pairs", "friction", 5, ("geom_friction",)),
    (Owner.PAIR, "pairs", "solref", 2, ("geom_sol_params",)),
    (Owner.PAIR, "pairs", "solimp", 5, ("geom_sol_params",)),
    (Owner.GEOM, "geoms", "size", 3, ("geom_size",)),
    (Owner.GEOM, "geoms", "radius", 1, ("geom_size",)),
]
"""What may differ between environments of how shapes touch: whose it is, its table, name and width, and what asks."""

COUNTS = ("n_contacts", "n_lost_contacts", "n_iterations", "most_contacts", "most_wanted")
"""What a step counts: contacts, those it had no room for, and steps of the solver; then, since the last reset, the most
contacts at once, and the most between two frames of which some were lost, 0 where none ever were."""

SLEEPING = [
    ArrayInfo("asleep", Owner.TREE, Use.STATE, start=lambda model, _: asleep_at_start(model), when=_sleeps),
    ArrayInfo("still", Owner.TREE, Use.STATE, when=_sleeps),
    ArrayInfo("slept_qpos", Owner.COORDINATE, Use.STATE, start=lambda model, _: model.qpos0, when=_sleeps),
    ArrayInfo("slept_command", Owner.DOF, Use.STATE, when=_sleeps),
    ArrayInfo("slept_ctrl", Owner.ACTUATOR, Use.STATE, when=_sleeps),
    ArrayInfo("slept_gravity", Owner.ENVIRONMENT, Use.STATE, 3, start=lambda model, _: model.gravity, when=_sleeps),
]
"""Of trees: 0 while awake, else the number, from 1, of the first tree that fell asleep with it; for how many steps it
was still. Then what was when things fell asleep: a change wakes them."""

ARRAYS = [
    ArrayInfo("error", Owner.ROLE, Use.STATE),
    ArrayInfo("phase", Owner.ENVIRONMENT, Use.STATE, when=_in_stages),
    ArrayInfo("qpos", Owner.COORDINATE, Use.STATE, start=lambda model, _: model.qpos0),
    ArrayInfo("vel", Owner.DOF, Use.STATE),
    ArrayInfo("stage_qpos", Owner.COORDINATE, Use.STATE, when=_in_stages),
    *(ArrayInfo(f"stage_{x}", Owner.DOF, Use.STATE, when=_in_stages) for x in ("vel", "shift", "sum_vel", "sum_acc")),
    ArrayInfo("broken", Owner.TIE, Use.STATE, when=_constrained, needed=lambda model: bool(model.ties.breakable.any())),
    ArrayInfo("act", Owner.ACTUATOR, Use.STATE, needed=_activated),
    *(
        ArrayInfo(f"stage_{x}", Owner.ACTUATOR, Use.STATE, when=_in_stages, needed=_activated)
        for x in ("act", "sum_act")
    ),
    ArrayInfo("push", Owner.DOF, Use.STATE, when=_touching),
    *(ArrayInfo(name, Owner.ENVIRONMENT, Use.STATE, when=_touching) for name in COUNTS),
    *SLEEPING,
    ArrayInfo("history", Owner.SAMPLE, Use.STATE, start=_told_before),
    ArrayInfo("spring_rest", Owner.COORDINATE, Use.STATE, start=_resting, needed=_give_way("dofs")),
    *(
        ArrayInfo(name, Owner.TENDON, Use.STATE, start=_of_tendons(name), needed=_give_way("tendons"))
        for name in ("rest_lower", "rest_upper")
    ),
    ArrayInfo("command", Owner.DOF, Use.TOLD),
    ArrayInfo("ctrl", Owner.ACTUATOR, Use.TOLD),
    ArrayInfo("ctrl_mode", Owner.DOF, Use.TOLD, start=lambda model, _: float(Control.FORCE)),
    ArrayInfo("actuator_on", Owner.ACTUATOR, Use.TOLD, start=lambda *_: 1.0),
    ArrayInfo("shape_numbers", Owner.SHAPES, Use.INPUT, start=lambda model, _: model.geoms.numbers, when=_touching),
    ArrayInfo(
        "pair_numbers",
        Owner.CELLS,
        Use.INPUT,
        start=lambda model, _: pair_table(model),
        when=lambda settings: settings.contacts and settings.broad is Broad.CELLS,
    ),
    ArrayInfo("dt", Owner.ENVIRONMENT, Use.INPUT, start=lambda _, settings: settings.dt),
    ArrayInfo("gravity", Owner.ENVIRONMENT, Use.INPUT, 3, start=lambda model, _: model.gravity),
    *(
        ArrayInfo(name, Owner.ENVIRONMENT, Use.INPUT, width, start=_of_fluid(name), needed=_felt)
        for name, width in (("wind", 3), ("density", 1), ("viscosity", 1))
    ),
    *(ArrayInfo(name, Owner.DOF, Use.INPUT, start=_of_dofs(name)) for name in ("kp", "kv")),
    *(ArrayInfo(name, Owner.DOF, Use.INPUT, asked_as=("kp", "kv")) for name in GAINS),
    *(ArrayInfo(name, Owner.DOF, Use.INPUT, start=_of_dofs(name)) for name in ("force_lower", "force_upper")),
    *(
        ArrayInfo(name, Owner.DOF, Use.INPUT, start=_of_dofs(name), when=_limited, asked_as=("limit",))
        for name in ("lower", "upper")
    ),
    *(ArrayInfo(name, Owner.DOF, Use.CONSTANT, start=_of_dofs(name)) for name in ("armature", "damping")),
    ArrayInfo("frictionloss", Owner.DOF, Use.CONSTANT, start=_of_dofs("frictionloss"), when=_constrained),
    *(
        ArrayInfo(f"{owner.value}_on", owner, Use.CONSTANT, start=_held(owner, "active"), asked_as=("equality",))
        for owner in (Owner.TIE, Owner.COUPLING)
    ),
    *(
        ArrayInfo(f"{kind}_{name}", owner, Use.CONSTANT, width, start=start(name), asked_as=("sol_params",))
        for kind, owner, start in SOFT
        for name, width in (("solref", 2), ("solimp", 5))
    ),
    *(
        ArrayInfo(f"{table[:-1]}_{name}", owner, Use.CONSTANT, width, _of_touch(table, name), _touching, asked_as=asked)
        for owner, table, name, width, asked in TOUCH
    ),
    ArrayInfo(
        OWN,
        Owner.NUMBER,
        Use.INPUT,
        start=lambda model, _: np.zeros(0) if model.own is None else model.own.values[:, 0],
        when=lambda settings: settings.own,
        asked_as=("variants", "mass_shift", "com_shift", "armature"),
    ),
    ArrayInfo("mass_shift", Owner.LINK, Use.CONSTANT),
    ArrayInfo("com_shift", Owner.LINK, Use.CONSTANT, 3),
    *(ArrayInfo(f"cfrc_applied_{x}", Owner.LINK, Use.STATE, 3, when=_pushed) for x in ("ang", "vel")),
    ArrayInfo("dof_force_applied", Owner.DOF, Use.STATE, when=_pushed),
    ArrayInfo("touch_weights", Owner.SENSED, Use.INPUT, start=lambda model, _: touch_weights(model), when=_touching),
    ArrayInfo("ray_numbers", Owner.RAYS, Use.INPUT, start=lambda model, _: model.sensors.rays.numbers),
    ArrayInfo("clock", Owner.ENVIRONMENT, Use.INPUT, needed=lambda model: "clock" in model.sensors.readings.kinds),
]
"""State, commands and parameters, in the order in which they lie: those of the environment first, so that their rows
are the same for all models, which then share the code that names them."""

BY_NAME = {info.name: info for info in ARRAYS}


def arrays_of(arena: str, model: Model, settings: Settings) -> list[tuple[str, int]]:
    """The arrays of an arena, and how many numbers each has."""
    own = (info for info in ARRAYS if info.arena(settings) == arena)
    return [(info.name, info.width * info.count(model, settings)) for info in own]


def start_of(info: ArrayInfo, model: Model, settings: Settings) -> Array:
    """What an array holds to begin with, (numbers, 1)."""
    count = info.width * info.count(model, settings)
    if not count:
        return np.zeros((0, 1))
    return np.broadcast_to(np.asarray(info.start(model, settings), dtype=np.float64).reshape(-1), (count,))[:, None]
