"""Real-time simulation of displayed models: base fixation, control inputs, and forces applied before steps."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from kinema.core import Array, KinemaError, Pose
from kinema.description import Actuator, AxisMotion, Base, Robot, Transmission
from kinema.scene import Entity, Plane, Scene

from .displayed_model import DisplayedModel, to_numpy
from .mechanism import UNLIMITED_SLIDER_RANGE

# ------------------------------------------------------------------------------------------------------- control inputs

SLIDERS, RANDOM, NO_CONTROL = "sliders", "random", "let go"
CONTROL_SOURCES = (SLIDERS, RANDOM, NO_CONTROL)
RANDOM_COMMAND_PERIOD = 0.5
"""Simulated seconds between random commands."""


@dataclass(slots=True, eq=False)
class ControlInput:
    """One control input: an actuator control or a joint position target, with its range."""

    entity: Entity
    label: str
    index: int
    """Index of the actuator or of the degree of freedom."""
    is_actuator: bool
    lower: float
    upper: float
    value: float
    dof: int = -1
    """Degree of freedom of the joint that the actuator drives, or of the target; -1 for other actuators."""
    servo: str = ""
    """`position` or `velocity`: the quantity of the joint that follows the control input; empty for other actuators."""
    gear: float = 1.0
    """Value of the control input per coordinate or velocity of the joint."""


class ControlInputs:
    """All control inputs of entities."""

    def __init__(self, entities: list[Entity], source: str = SLIDERS, seed: int = 0) -> None:
        self.entities = entities
        self.rng = np.random.default_rng(seed)
        self.inputs = [c for entity in entities for c in (_actuator_inputs(entity) or _position_target_inputs(entity))]
        self.source = source
        self.driven: dict[Entity, set[int]] = {}
        """Degrees of freedom of each entity that are driven by velocity, not by the sliders."""
        self.is_changed = False
        """Whether position targets were changed since they were sent."""
        self._next_draw = -math.inf

    def send(self, time: float, *, changed: bool) -> None:
        """Send control inputs if a slider has moved or new random commands are due.

        Args:
            time: simulated time [s].
            changed: whether the user has changed anything since the last call.
        """
        changed, self.is_changed = changed or self.is_changed, False
        drawn = self.source == RANDOM and (
            changed or not self._next_draw - RANDOM_COMMAND_PERIOD <= time < self._next_draw
        )
        if not (changed or drawn):
            return
        self._next_draw = time + RANDOM_COMMAND_PERIOD
        for entity in self.entities:
            driven = self.driven.get(entity, ())
            own = [c for c in self.inputs if c.entity is entity and c.dof not in driven]
            if self.source == NO_CONTROL and entity.n_dofs:
                self._release(entity)
            elif own:
                self._send_values(entity, own)

    def _send_values(self, entity: Entity, inputs: list[ControlInput]) -> None:
        values = np.array([c.value for c in inputs])
        if self.source == RANDOM:
            lower, upper = np.array([[c.lower, c.upper] for c in inputs]).T
            values = self.rng.uniform(lower, upper, size=(entity.scene.n_envs, len(inputs)))
        indices = [c.index for c in inputs]
        if inputs[0].is_actuator:
            entity.control(values, indices)
        else:
            entity.control_dofs_position(values, indices)

    def set_positions(self, entity: Entity, positions: Mapping[int, float]) -> None:
        """Set the sliders of position targets and position servos to joint coordinates by degree of freedom."""
        for c in self.inputs:
            if c.entity is entity and c.servo == "position" and c.dof in positions:
                value = min(max(c.gear * positions[c.dof], c.lower), c.upper)
                self.is_changed |= value != c.value
                c.value = value

    def hold(self, entity: Entity, env: int) -> None:
        """Set position targets to the current joint coordinates of an environment."""
        self.set_positions(entity, dict(enumerate(to_numpy(entity.get_dofs_position(envs_idx=[env]))[0].tolist())))

    def send_velocities(self, entity: Entity, velocities: Mapping[int, float]) -> None:
        """Control the velocities of degrees of freedom, by velocity servos where there are any."""
        self.driven.setdefault(entity, set()).update(velocities)
        servos = {c.dof: c for c in self.inputs if c.entity is entity and c.is_actuator and c.servo == "velocity"}
        own = [servos[dof] for dof in velocities if dof in servos]
        for c in own:
            c.value = min(max(c.gear * velocities[c.dof], c.lower), c.upper)
        if own:
            entity.control(np.array([c.value for c in own]), [c.index for c in own])
        rest = {dof: speed for dof, speed in velocities.items() if dof not in servos}
        if rest:
            entity.control_dofs_velocity(np.array(list(rest.values())), list(rest))

    def _release(self, entity: Entity) -> None:
        if entity.n_actuators:
            entity.control(np.zeros(entity.n_actuators))
        else:
            entity.control_dofs_force(np.zeros(entity.n_dofs))


def _actuator_inputs(entity: Entity) -> list[ControlInput]:
    actuators = {a.name: a for a in entity.description.actuators}
    for robot in getattr(entity.description, "robots", []):
        actuators |= {a.name: a for a in robot.actuators}
    dofs = {joint.name: joint.dofs_idx[0] for joint in entity.joints if len(joint.dofs_idx) == 1}
    dof_limits = entity.get_dofs_limit() if dofs else (np.zeros(0), np.zeros(0))
    result = []
    for i, name in enumerate(entity.actuator_names):
        actuator = actuators.get(name)
        control = ControlInput(entity, name, i, True, -1.0, 1.0, 0.0)
        if actuator is not None and actuator.transmission == Transmission.JOINT and actuator.target in dofs:
            control.dof, control.servo, control.gear = dofs[actuator.target], servo_kind(actuator), actuator.gear[0]
        if control.servo:
            default = UNLIMITED_SLIDER_RANGE[AxisMotion.ROTATION] if control.servo == "position" else _MAX_WHEEL_SPEED
            limits = [float(x[control.dof]) if control.servo == "position" else math.inf for x in dof_limits]
            lower, upper = (x if math.isfinite(x) else s * default for x, s in zip(limits, (-1, 1), strict=True))
            control.lower, control.upper = sorted((control.gear * lower, control.gear * upper))
        if actuator is not None:
            lower, upper = actuator.control_range
            control.lower = lower if math.isfinite(lower) else control.lower
            control.upper = upper if math.isfinite(upper) else control.upper
        control.value = min(max(0.0, control.lower), control.upper)
        result.append(control)
    return result


_MAX_WHEEL_SPEED = 100.0
"""Range of velocity servos without a control range [rad/s]."""


def servo_kind(actuator: Actuator) -> str:
    """`position` or `velocity` if the coordinate or velocity of the joint follows the control; empty otherwise.

    A servo has the force k (u - q) - d v, or k (u - v).
    """
    if (actuator.gain_type, actuator.bias_type) != ("fixed", "affine") or actuator.dynamics_type != "none":
        return ""
    gain, bias = actuator.gain[0], (*actuator.bias, 0.0, 0.0, 0.0)[:3]
    if gain > 0 and bias[:2] == (0.0, -gain):
        return "position"
    return "velocity" if gain > 0 and bias == (0.0, 0.0, -gain) else ""


def _position_target_inputs(entity: Entity) -> list[ControlInput]:
    """Position targets of an entity without actuators, except floating bases and ball joints."""
    if not entity.n_dofs:
        return []
    lower, upper = entity.get_dofs_limit()
    now = to_numpy(entity.get_dofs_position(envs_idx=[0]))[0]
    by_joint = [(joint.kind, dof) for joint in entity.joints for dof in joint.dofs_idx]
    result = []
    for dof in sorted(dof for kind, dof in by_joint if kind not in ("free", "spherical")):
        reach = max(UNLIMITED_SLIDER_RANGE.values())
        low = float(lower[dof]) if math.isfinite(lower[dof]) else float(now[dof]) - reach
        high = float(upper[dof]) if math.isfinite(upper[dof]) else float(now[dof]) + reach
        value = min(max(float(now[dof]), low), high)
        result.append(ControlInput(entity, entity.dof_names[dof], dof, False, low, high, value, dof, "position"))
    return result


# -------------------------------------------------------------------------------------------------------- base fixation

BASE_FROM_FILE, BASE_FIXED, BASE_FREE = "as in the file", "bolted down", "free, on the floor"
BASE_CHOICES = (BASE_FROM_FILE, BASE_FIXED, BASE_FREE)
FIXED_ARGUMENT = {BASE_FROM_FILE: None, BASE_FIXED: True, BASE_FREE: False}
"""Argument `fixed` of `Scene.add` for each choice."""


def has_unspecified_base(models: Sequence[DisplayedModel]) -> bool:
    """Whether the file of a robot leaves the fixation of its base unspecified."""
    return any(_is_base_unspecified(robot) for model in models for robot in model.robots)


def _is_base_unspecified(robot: Robot) -> bool:
    return robot.base is Base.UNSPECIFIED and not robot.static and bool(robot.tree().roots)


def add_ground_plane_if_needed(
    scene: Scene, models: Sequence[DisplayedModel], entities: Sequence[Entity], floor_pose: Pose
) -> None:
    """Add a ground plane at the drawn floor if an entity is free and no file has static collision shapes.

    Args:
        scene: scene before it is built.
        models: displayed models.
        entities: entities of the models in the scene.
        floor_pose: pose of the drawn floor.
    """
    falls = any(joint.kind == "free" for entity in entities for joint in entity.joints)
    grounded = any(
        any(shape.collision for shape in model.static_shapes) or any(robot.static for robot in model.robots)
        for model in models
    )
    if falls and not grounded:
        scene.add(Plane(), pos=floor_pose.position, quat=floor_pose.quaternion, name="floor")


# ------------------------------------------------------------------------------------------------- real-time simulation


class AppliedForce(Protocol):
    """A force that is applied before steps, such as the spring of the mouse."""

    env: int
    target: Array
    """World position of the pointer [m]."""

    @property
    def attachment_point(self) -> Array:
        """World position of the grabbed point [m]."""
        ...

    def apply(self) -> None:
        """Set the force of the next steps."""

    def release(self) -> None:
        """Remove the force."""


FRAME_INTERVAL = 1 / 40
"""Seconds between pictures while something moves, unless browsers draw more slowly."""
_STEP_TIME_FRACTION = 0.6
"""The part of that time which steps may take; what is left is for drawing."""
_PULL_UPDATE_PERIOD = 0.004
"""Simulated seconds after which a spring is looked at again."""


class SimulationPlayer:
    """Real-time simulation of all displayed models in a background thread."""

    def __init__(
        self,
        models: Sequence[DisplayedModel],
        n_envs: int = 1,
        scene: Scene | None = None,
        floor_pose: Pose | None = None,
    ) -> None:
        self.models = list(models)
        self.floor_pose = floor_pose or Pose()
        """Where a floor is drawn; it is one for robots that are free, where their files have none."""
        self.base_choice = BASE_FROM_FILE
        """What holds the robots: one of `BASES`."""
        self.n_envs = n_envs if scene is None else scene.n_envs
        self.scene = scene
        self.lock = threading.RLock()
        """Held by whoever looks at the scene or changes it."""
        self.playing = False
        self.speed = 1.0
        self.frame_interval = FRAME_INTERVAL
        """Seconds between pictures now."""
        self.error_message = ""
        """Why it cannot be simulated; empty where it can, or nobody has tried."""
        self.drag_spring: AppliedForce | None = None
        """Spring by which a link is dragged."""
        self.drive: Callable[[float], None] = lambda _: None
        """Called before steps with the time they simulate [s]: applies the velocity command of keyboard or gamepad."""
        self.on_frame: Callable[[], None] = lambda: None
        """Called after each frame's steps."""
        self.on_state: Callable[[str], None] = lambda _: None
        """Called with a word when something begins or ends: `compiling`, `playing`, `paused`, `failed`."""
        self.control_inputs = (
            ControlInputs([]) if scene is None else ControlInputs([e.entity for e in self.models if e.entity])
        )
        self._commands_changed = True
        self._alive = True
        self._compiled = False
        self._wake = threading.Event()
        self._thread = threading.Thread(target=self._run, name="kinema-player", daemon=True)
        self._thread.start()

    # --------------------------------------------------------------------------------------------------- building

    def ensure_built(self) -> bool:
        """Build the scene if necessary; returns False on failure, with the reason in `error_message`."""
        with self.lock:
            if self.scene is None and not self.error_message:
                try:
                    self._build()
                except KinemaError as error:
                    self.error_message = str(error)
                    self.on_state("failed")
            return self.scene is not None

    def _build(self) -> None:
        steps = [e.description.options.get("timestep") for e in self.models]
        dt = next((float(x) for x in steps if x and 1e-5 <= float(x) <= 0.02), 0.002)
        integrators = [e.description.options.get("integrator") for e in self.models]
        integrator = next((str(x).lower() for x in integrators if x), None)
        scene = Scene(dt=dt, integrator=integrator, quiet=True)
        entities = [
            scene.add(
                e.description,
                fixed=FIXED_ARGUMENT[self.base_choice],
                pos=e.world_pose.position,
                quat=e.world_pose.quaternion,
                name=e.title,
                errors="keep",
            )
            for e in self.models
        ]
        add_ground_plane_if_needed(scene, self.models, entities, self.floor_pose)
        scene.build(self.n_envs, external_forces=True)
        for exhibit, entity in zip(self.models, entities, strict=True):
            exhibit.entity = entity
        for exhibit in self.models:
            exhibit.write_joints_to_simulation(None)
        self.control_inputs = ControlInputs(entities, self.control_inputs.source)
        self.scene = scene
        self._commands_changed = True

    def set_base(self, base: str) -> None:
        """Set the base fixation, one of `BASE_CHOICES`; resets the simulation and recompiles it when played."""
        with self.lock:
            self.base_choice, self.error_message, self.scene, self.drag_spring = base, "", None, None
            self._compiled = False
            self.control_inputs = ControlInputs([], self.control_inputs.source)
            for exhibit in self.models:
                exhibit.entity = None
                exhibit.reset_joints()
        self.on_frame()
        self._wake.set()

    def copy_settings(self, other: SimulationPlayer) -> None:
        """Copy speed, control source and base fixation of another player."""
        self.speed, self.base_choice, self.control_inputs.source = (
            other.speed,
            other.base_choice,
            other.control_inputs.source,
        )

    # --------------------------------------------------------------------------------------------------- playing

    def play(self) -> None:
        """Continue from the current joint coordinates."""
        self.playing = True
        self._wake.set()

    def pause(self) -> None:
        """Pause at the current state."""
        self.playing = False
        self.on_state("paused")

    def mark_commands_changed(self) -> None:
        """Request that the control inputs are sent before the next step."""
        self._commands_changed = True

    def step(self, count: int = 1) -> None:
        """Simulate some steps now; the first call builds and compiles, which takes some time."""
        if not self._compiled and not self.error_message:
            self.on_state("compiling")  # before it is built, which takes a while as well
        with self.lock:
            if not self.ensure_built():
                return
            assert self.scene is not None
            try:
                self._step_with_commands(self.scene, count)
            except KinemaError as error:
                self.error_message, self.playing = str(error), False
                self.on_state("failed")
                return
            if not self._compiled:
                self._compiled = True
                self.on_state("playing" if self.playing else "paused")

    def _step_with_commands(self, scene: Scene, count: int) -> None:
        while count > 0:
            self.control_inputs.send(scene.time, changed=self._commands_changed)
            self._commands_changed = False
            some = count
            if self.drag_spring is not None:
                self.drag_spring.apply()
                some = min(count, max(1, round(_PULL_UPDATE_PERIOD / scene.dt)))
            self.drive(some * scene.dt)
            scene.step(some)
            count -= some

    def reset(self, keyframe: str | None = None) -> None:
        """Reset to the initial state or to a keyframe."""
        with self.lock:
            if keyframe is None:
                for model in self.models:
                    model.reset_joints()
            if (keyframe is not None or self.scene is not None) and self.ensure_built():
                assert self.scene is not None
                self.scene.reset(keyframe=keyframe)
                self._commands_changed = keyframe is None
                for model in self.models:
                    model.read_joints_from_simulation(0)
        self.on_frame()

    def allow_external_forces(self, before_compiling: Callable[[], None]) -> None:
        """Let external forces act, which compiles the step again if the scene was built without them."""
        assert self.scene is not None
        if not self.scene.built.engine.settings.external_forces:
            before_compiling()
            self.scene.allow_external_forces()

    def set_drag_spring(self, drag_spring: AppliedForce | None) -> None:
        """Start or end dragging."""
        with self.lock:
            if drag_spring is None and self.drag_spring is not None:
                self.drag_spring.release()
            self.drag_spring = drag_spring

    def close(self) -> None:
        """End the thread."""
        self._alive = self.playing = False
        self._wake.set()
        self._thread.join(timeout=2.0)

    def _run(self) -> None:
        """Thread function: steps in real time while playing, otherwise waits."""
        cost, last, owed = 1e-4, time.perf_counter(), 0.0
        while self._alive:
            if not self.playing:
                self._wake.wait()
                self._wake.clear()
                last, owed = time.perf_counter(), 0.0
                continue
            began = time.perf_counter()
            owed, last = owed + (began - last) * self.speed, began
            if not self._compiled:
                self.step()
                last, owed = time.perf_counter(), 0.0
            elif (scene := self.scene) is not None and owed >= scene.dt:
                count = min(int(owed / scene.dt), max(1, int(_STEP_TIME_FRACTION * self.frame_interval / cost)))
                self.step(count)
                owed = min(owed - count * scene.dt, self.frame_interval)  # a larger backlog is dropped
                cost = 0.8 * cost + 0.2 * (time.perf_counter() - began) / count
            if self.error_message:
                self.playing = False
            self._notify_frame()
            time.sleep(max(0.0, self.frame_interval - (time.perf_counter() - began)))

    def _notify_frame(self) -> None:
        if self._alive:
            self.on_frame()
