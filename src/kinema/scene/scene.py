"""Scene, the main class of the simulation API: entities, build, steps, state, contacts, parameters, output, viewer."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from kinema.builder import NONCONVEX_APPROXIMATIONS, AddedSensor, EntitySpec
from kinema.core import ArrayLike, Diagnostics, KinemaError, TakenNames, unique_name
from kinema.description import PhysicsMaterial, Robot, World
from kinema.dynamics import CODEGEN_MODES, Integrator
from kinema.runtime import begin_initialisation

from .arguments import (
    Selection,
    boolean,
    environment_offsets,
    finite_vector,
    index_of_name,
    nonnegative_float,
    one_of,
    one_of_or_none,
    parse_device_name,
    positive_duration,
    positive_int,
    resolve_envs,
)
from .arrays import OUTPUT_KINDS
from .attachments import Attachment, Attachments, LinkSelector, SuctionCup, Target
from .built_scene import BuiltScene
from .console import ProgressBar, print_if_terminal, summarize
from .contacts import ON_OVERFLOW, ContactMonitor, Contacts, collect_contacts
from .entity import Entity
from .entity_creation import create_entity
from .entity_index import EntityLink
from .entity_parameters import write_medium_parameter, write_parameter
from .entity_queries import WORLD_LINK
from .equalities import Equalities
from .linearization import GradientCheck, Linearization, SceneLinearization
from .morphs import (
    Addable,
    MaterialOverrides,
    Morph,
)
from .options import SolverOptions, make_medium
from .randomization import Distribution, randomize_entities
from .recording import Recording, Replay
from .recording_formats import RecordedScene
from .rigid_solver import Sim
from .scene_builder import SceneBuilder
from .sensors import Sensor, Sensors
from .shared_descriptions import SharedDescriptions
from .sleep import links_asleep, wake_trees
from .spatial_queries import Distances, Overlaps, RayHits, SpatialQueries
from .spawning import Spawning
from .state import SceneState, restore_state, snapshot_state
from .stepping import ON_ERROR, Rollout, RolloutRunner, Stepper
from .surface_velocity import SurfaceVelocities

if TYPE_CHECKING:
    from kinema.render import Camera

    from .cameras import AddedCameras, SceneCamera
    from .recording_video import VideoRecording
    from .sensor_types import SensorType

PRECISIONS = ("single", "double")


class Scene:
    """A simulation of entities in many environments at once.

    Add entities (`add`), allocate environments (`build`), then step (`step`). Options that are None follow the files of
    the entities, else the defaults of MuJoCo.

    `envs_idx` selects environments by index, list, slice or mask; None selects all n_envs. `names` of equality
    constraints select by index, name, pattern, list, slice or mask, in the order of `equality_names`; None selects all.

    Args:
        dt: time step [s]; None for that of the MJCF files, else 0.002. Files that differ raise `KinemaError`.
        device: `cpu` (default), `cuda:0`, ..., or `auto` for a GPU if there is one.
        precision: `single` (default) or `double`.
        contacts: whether geoms collide; default True.
        limits: whether joint limits are enforced; default True.
        nonconvex: collision geometry of clearly non-convex meshes: `hull`, `decompose` (convex decomposition) or `sdf`
            (signed distance field); None for the setting of the files, else the convex hull (docs/contacts.md).
        constraints: whether dry friction, mimic joints, equality constraints and loop closures are simulated; default
            True.
        solver: constraint solver, `newton` or `cg`; None for that of the files.
        iterations: maximum number of solver iterations; None for that of the files.
        ls_iterations: maximum number of line search iterations; None for that of the files.
        tolerance: convergence tolerance on the gradient of the cost, relative to the forces; at least 5e-6 in single
            precision. None for that of the files.
        cone: friction cone, `pyramidal` or `elliptic`; None for that of the files.
        impratio: ratio of frictional to normal constraint impedance; None for that of the files.
        noslip_iterations: maximum number of iterations of the no-slip solver, which removes slip due to soft friction;
            None for that of the files.
        multiccd: whether convex geoms without a closed-form collision (cylinders, cones, meshes) give several contact
            points instead of the deepest one; None for the setting of the files, else True.
        sleep: whether bodies at rest fall asleep and are skipped until they are woken (docs/contacts.md), or the
            velocity tolerance [m/s]; None for the setting of the files.
        islands: whether constraints are solved separately per island of bodies in contact; always on with sleeping.
            Default False.
        energy_limiter: whether motion too fast for the time step is limited to the available energy
            (docs/constraints.md); default False.
        broad_phase: broad-phase collision algorithm, `all`, `list`, `cells` or `auto` (docs/contacts.md).
        max_contacts: contact capacity per pair of bodies, default 64; on a GPU it may be per environment
            (docs/contacts.md). If there are more, the deepest contacts are kept.
        on_overflow: reaction to a contact overflow: `keep` the capacity (default), or `grow` it to twice its size or as
            many as needed.
        on_error: handling of environments with non-finite values: `flag` them (default), `freeze` them in the last
            valid state, or `reset` them before the next step.
        integrator: `implicitfast` (implicit in velocity), `implicit` (in Coriolis forces too), `euler` (semi-implicit)
            or `rk4`; None for that of the MJCF files, else `implicitfast`. Files that differ raise `KinemaError`.
        gravity: gravitational acceleration [m/s2], (3,); None for that of the first file that sets it, else (0, 0,
            -9.81).
        density: density of the medium [kg/m3]; None for that of the files.
        viscosity: dynamic viscosity of the medium [Pa s]; None for that of the files.
        wind: velocity of the medium [m/s], (3,); None for that of the files.
        substeps: number of equal substeps per step; default 1.
        codegen: `unrolled` compiles straight-line code for this scene, `loops` code that loops over tables and compiles
            fast whatever the number of joints, `auto` (default) selects one of both.
        wait: whether steps wait for optimised code. If False (default), steps start with code that compiles quickly,
            and switch to optimised code once it is compiled in the background; results are bitwise equal.
        quiet: no progress bar and no summary on a terminal; default False.
        out: return type of getters: `numpy` (default; copies), `view` (NumPy views of the scene's memory; CPU only),
            `torch` (PyTorch tensors that share the scene's memory).
    """

    def __init__(  # noqa: PLR0913  public API
        self,
        dt: float | None = None,
        device: str = "cpu",
        precision: str = "single",
        *,
        contacts: bool = True,
        limits: bool = True,
        nonconvex: str | None = None,
        constraints: bool = True,
        solver: str | None = None,
        iterations: int | None = None,
        ls_iterations: int | None = None,
        tolerance: float | None = None,
        cone: str | None = None,
        impratio: float | None = None,
        noslip_iterations: int | None = None,
        multiccd: bool | None = None,
        sleep: bool | float | None = None,
        islands: bool = False,
        energy_limiter: bool = False,
        broad_phase: str = "auto",
        max_contacts: int | None = None,
        on_overflow: str = "keep",
        on_error: str = "flag",
        integrator: str | None = None,
        gravity: ArrayLike | None = None,
        density: float | None = None,
        viscosity: float | None = None,
        wind: ArrayLike | None = None,
        substeps: int = 1,
        codegen: str = "auto",
        wait: bool = False,
        quiet: bool = False,
        out: str = "numpy",
    ) -> None:
        """Validate and store the options of a scene without entities; arguments: see the class."""
        self.device = parse_device_name(device)
        self.precision = one_of(precision, "precision", PRECISIONS)
        self.contacts = boolean(contacts, "contacts")
        self.limits = boolean(limits, "limits")
        self.nonconvex = one_of_or_none(nonconvex, "nonconvex", NONCONVEX_APPROXIMATIONS)
        self.constraints = boolean(constraints, "constraints")
        self.solver_options = SolverOptions.from_arguments(
            solver=solver,
            iterations=iterations,
            ls_iterations=ls_iterations,
            tolerance=tolerance,
            cone=cone,
            impratio=impratio,
            noslip_iterations=noslip_iterations,
            sleep=sleep,
            islands=islands,
            broad_phase=broad_phase,
            multiccd=multiccd,
        )
        self.energy_limiter = boolean(energy_limiter, "energy_limiter")
        capacity = None if max_contacts is None else positive_int(max_contacts, "max_contacts", "contact")
        self.on_error = one_of(on_error, "on_error", ON_ERROR)
        self.on_overflow = one_of(on_overflow, "on_overflow", ON_OVERFLOW)
        chosen = one_of_or_none(integrator, "integrator", [i.value for i in Integrator])
        self.gravity = None if gravity is None else finite_vector(gravity, "gravity", "three")
        self.medium = make_medium(density, viscosity, wind)
        self.substeps = positive_int(substeps, "substeps", "substep")
        self.codegen = one_of(codegen, "codegen", CODEGEN_MODES)
        self.wait = boolean(wait, "wait")
        self.out = one_of(out, "out", OUTPUT_KINDS)
        begin_initialisation(self.device)
        self.entities: list[Entity] = []
        self.diagnostics = Diagnostics()
        """Messages about files, approximations and unsupported features."""
        self.progress = ProgressBar(quiet)
        self._entity_specs: list[EntitySpec] = []
        self._entity_names: set[str] = TakenNames()
        self._shared_descriptions = SharedDescriptions()
        self._added_sensors: list[AddedSensor] = []
        self._cameras: AddedCameras | None = None
        self._env_spacing = np.ones(2)
        self._attachments = Attachments(self)
        self._contacts = ContactMonitor(self, capacity)
        self._builder = SceneBuilder(
            self,
            None if dt is None else positive_duration(dt, "dt"),
            None if chosen is None else Integrator(chosen),
        )
        self._surface_velocities = SurfaceVelocities(self)
        self._spawning = Spawning(self)
        self._stepper = Stepper(self, self._contacts)
        self._rollouts = RolloutRunner(self, self._stepper)
        self._linearization = SceneLinearization(self)
        self._spatial_queries = SpatialQueries(self)

    def __repr__(self) -> str:
        status = f"{self.n_envs} environments on {self.built.engine.device.name}" if self.is_built else "not built"
        return f"<Scene: {len(self.entities)} entities, {status}>"

    @property
    def dt(self) -> float:
        """Time step [s]; may be changed at any time."""
        return self._builder.current_dt

    @dt.setter
    def dt(self, dt: float) -> None:
        self._builder.set_dt(positive_duration(dt, "dt"))

    @property
    def integrator(self) -> Integrator:
        """Integrator of the scene: chosen by the user, else given by the MJCF files, else `implicitfast`."""
        return self._builder.time_stepping.integrator

    # ------------------------------------------------------------------------------------------ adding entities

    def add(  # noqa: PLR0913  public API
        self,
        robot: Addable | Sequence[Addable],
        *,
        fixed: bool | None = None,
        kinematic: bool = False,
        fast: bool | str | Sequence[str] | None = None,
        pos: ArrayLike = (0.0, 0.0, 0.0),
        quat: ArrayLike | None = None,
        euler: ArrayLike | None = None,
        scale: ArrayLike = 1.0,
        name: str | None = None,
        friction: ArrayLike | None = None,
        density: float | None = None,
        mass: float | None = None,
        material: PhysicsMaterial | None = None,
        color: ArrayLike | None = None,
        collision: bool | None = None,
        self_collision: bool | None = None,
        nonconvex: str | None = None,
        seed: int | None = None,
        errors: str = "raise",
    ) -> Entity:
        """Add a robot, the contents of a file, or a body to the scene; only before build.

        Args:
            robot: a description, path of a file (robot, world or mesh), body (`km.Box`, `Sphere`, `Ellipsoid`,
                `Capsule`, `Cylinder`, `Plane`, `Mesh`, `Terrain`), or terrain of `kinema.geometry`. The same object may
                be added several times. A list gives variants: each environment has one of them, in turn, or randomly
                with `seed`.
            fixed: whether the base is fixed to the world; None for the setting of the file, and fixed if it has none.
                Bodies are free unless fixed; planes and terrain are always fixed.
            kinematic: whether the base is moved by `Entity.set_target_pose`, `set_pos` and `set_quat` instead of
                forces; default False.
            fast: whether contacts are found along the motion in a step, so that bodies do not pass through thin ones
                (docs/contacts.md): for all links, none, or those with the given names; None for the setting of the
                file.
            pos: position of the file's origin in the world [m], (3,); default the origin.
            quat: orientation (w, x, y, z); default the identity.
            euler: orientation as angles about the fixed x, then y, then z axis [rad], instead of `quat`.
            scale: scale factor of all lengths, default 1; masses scale with the volume, while forces, gains, damping
                and armature do not change. For bodies also one factor per axis, (3,).
            name: name of the entity, made unique; None for the name of the description.
            friction: friction of all surfaces: sliding coefficient, or sliding, torsional [m] and rolling [m]; None for
                the values of the file.
            density: density of a body [kg/m3]; 1000 if neither `density` nor `mass` is given.
            mass: mass of a body [kg].
            material: contact material of all surfaces; `friction` takes precedence.
            color: color of all surfaces, RGB or RGBA, 0 to 1.
            collision: False disables collision of the entity.
            self_collision: whether links of a robot collide with each other where its file allows it; None (default) as
                True, but in formats without collision filters (URDF, CAD) without links that overlap in the initial
                configuration.
            nonconvex: collision geometry of clearly non-convex meshes: `hull`, `decompose` or `sdf`; None for the
                setting of the scene.
            seed: random seed of the assignment of variants to environments; None for one after the other.
            errors: with `raise` (default), a description with errors, such as a joint to a link that does not exist,
                raises `KinemaError`; `keep` simulates the rest and reports the errors in `diagnostics`.

        Returns:
            The entity.
        """
        if self.is_built:
            raise KinemaError("the scene is already built: add all entities before scene.build()")
        sources: Any = list(robot) if isinstance(robot, list | tuple) else [robot]
        entity, spec, messages = create_entity(
            self,
            sources,
            MaterialOverrides(friction, density, mass, material, color, collision),
            self._entity_names,
            self._shared_descriptions,
            pose=(pos, quat, euler),
            fixed=fixed,
            kinematic=kinematic,
            fast=fast,
            self_collision=self_collision,
            scale=scale,
            name=name,
            nonconvex=self.nonconvex if nonconvex is None else nonconvex,
            seed=seed,
            errors=errors,
        )
        self.diagnostics.items += messages.items
        self._entity_specs.append(spec)
        self.entities.append(entity)
        return entity

    def _set_description(self, entity: Entity, description: Robot | World) -> None:
        """Replace the description of an entity before build."""
        number = next(i for i, other in enumerate(self.entities) if other is entity)
        self._entity_specs[number] = replace(self._entity_specs[number], description=description)

    def get_entity(self, name: str) -> Entity:
        """Entity with this name; raises `KinemaError` listing the names if there is none."""
        return self.entities[index_of_name(name, [entity.name for entity in self.entities], "get_entity", "entities")]

    # ------------------------------------------------------------------------------------------------------ build

    def build(
        self,
        n_envs: int = 1,
        *,
        env_spacing: tuple[float, float] = (1.0, 1.0),
        per_env: Sequence[str] = (),
        external_forces: bool = False,
        room: int | Mapping[Entity, int] | None = None,
    ) -> None:
        """Build the model and allocate its environments; prints a summary on a terminal (`Scene.summary`).

        The step is compiled at the first call of `step`, when the control modes are known; `prepare` compiles it at
        once.

        Args:
            n_envs: number of environments; default 1.
            env_spacing: distance of the environments along x and y in viewers [m] (`env_offsets`); all are simulated at
                the origin. Default (1, 1).
            per_env: names of the parameters that may differ between environments
                (`kinema.dynamics.PER_ENV_PARAMETERS`), such as `gravity` or `kp`.
            external_forces: whether `apply_links_external_force`, `apply_links_external_torque` and
                `apply_dofs_external_force` can be used; default False.
            room: numbers of further copies of entities that `spawn` can place, by entity, or one number for every
                entity that is a single free body. They are added to `entities` (`crate.1`, ...), and absent at first
                and after `reset`. 0 for none, so that entities can be removed without compilation (docs/scenes.md).
                Default none.
        """
        if self.is_built:
            raise KinemaError("the scene is already built")
        n_envs = positive_int(n_envs, "build", "environment")
        self._env_spacing = finite_vector(env_spacing, "env_spacing", "two")
        parameters = frozenset([per_env] if isinstance(per_env, str) else per_env)
        take_back = self._spawning.reserve(room)
        try:
            self._builder.build(
                n_envs,
                parameters | self._surface_velocities.required_parameters(),
                external_forces=boolean(external_forces, "external_forces"),
            )
        except BaseException:
            take_back()
            raise
        self._surface_velocities.write_pending()
        if self._added_sensors:
            _ = self.sensors  # checks their error models
        print_if_terminal(self.summary, self.progress)

    def summary(self) -> str:
        """Summary of the built scene, a few lines: environments, device, memory, entities, constraints, diagnostics."""
        sources = self._builder.time_stepping.describe_sources()
        return summarize(self.built, self.entities, self.diagnostics, sources)

    @property
    def built(self) -> BuiltScene:
        """The built scene; raises `KinemaError` before `build`."""
        return self._builder.built

    @property
    def is_built(self) -> bool:
        """Whether `build` was called."""
        return self._builder.current is not None

    @property
    def n_envs(self) -> int:
        """Number of environments."""
        return self.built.n_envs

    @property
    def env_offsets(self) -> np.ndarray:
        """Display positions of the environments [m], (n_envs, 3): a square grid about the origin, for viewers only."""
        return environment_offsets(self.n_envs, self._env_spacing)

    @property
    def bytes_per_env(self) -> int:
        """Memory per environment [bytes]: state, commands and, on a GPU, the working memory of a step.

        The working memory is known once the step is compiled (`prepare`); it grows with `max_contacts`.
        """
        return self.built.engine.bytes_per_env

    # --------------------------------------------------------------------------------------- spawning and removal

    def spawn(
        self,
        entity: Entity,
        pos: Any = None,
        quat: Any = None,
        *,
        vel: Any = None,
        ang: Any = None,
        envs_idx: Selection = None,
    ) -> Entity:
        """Place an entity, or a copy of it for which there is room, in environments; compiles nothing.

        Takes the first of `entity`, if it was removed, and its copies (`build(room=...)`) that is absent in all chosen
        environments. It starts in its initial state: at rest, without commands and external forces.

        Args:
            entity: entity of this scene, or one of its copies.
            pos: position of the base [m], (3,) or (n_envs, 3); None for the initial one.
            quat: orientation of the base (w, x, y, z), (4,) or (n_envs, 4); None for the initial one.
            vel: linear velocity of the base along the world axes [m/s], (3,) or (n_envs, 3); default zero.
            ang: angular velocity of the base along the world axes [rad/s], (3,) or (n_envs, 3); default zero.
            envs_idx: environments by index, slice or mask; None for all.

        Returns:
            The entity that was placed.
        """
        return self._spawning.spawn(entity, pos, quat, vel, ang, envs_idx)

    def remove(self, entity: Entity, envs_idx: Selection = None) -> None:
        """Take an entity that floats freely out of environments, until it is spawned again or they are reset.

        It stays where it is, and neither moves nor collides; no force acts on it or from it, and it is not seen by
        cameras, rays and viewers. Attachments to it end. Where it is absent already, nothing happens. In a scene that
        was built without `room`, the step is compiled once more, which is reported.

        Args:
            entity: entity of this scene.
            envs_idx: environments by index, slice or mask; None for all.
        """
        self._spawning.remove(entity, envs_idx)

    def get_room(self, entity: Entity, envs_idx: Selection = None) -> np.ndarray:
        """How many more of an entity can be spawned: it and its copies that are absent, int (n_envs,)."""
        return self._spawning.room_left(entity, envs_idx)

    # ------------------------------------------------------------------------------------------ steps and resets

    def prepare(self, *, wait: bool | None = None) -> None:
        """Compile the step, or load it from the cache, so that the first step is as fast as later ones.

        Args:
            wait: whether to wait until the optimised code is compiled; None for the setting `Scene(wait=...)`.
        """
        self._stepper.prepare(wait=wait)

    def step(self, n: int = 1) -> None:
        """Take steps of duration `dt`, all in one launch unless sensors or recordings observe every step.

        Compiles the step if necessary. With `on_error="reset"` failed environments are reset first.

        Args:
            n: number of steps; default 1.
        """
        self._stepper.step(n)

    def reset(self, envs_idx: Selection = None, keyframe: str | int | None = None, *, grow: bool = False) -> None:
        """Reset environments to the initial state or to a keyframe: state, commands, external forces and error flags.

        The time, which all environments share, is set to 0 if `envs_idx` is None.

        Args:
            envs_idx: environments by index, slice or mask; a CUDA tensor is used without synchronization. None for all.
            keyframe: name or index of a keyframe (`Entity.keyframe_names`): entities that have it take its coordinates,
                velocities, controls and activations, all others their initial state. None for the initial state.
            grow: whether to raise `max_contacts` to the largest required capacity since the last reset; default False.
        """
        self._stepper.reset(envs_idx, keyframe, grow=grow)

    def rollout(
        self,
        entity: Entity,
        *,
        position: Any = None,
        velocity: Any = None,
        force: Any = None,
        ctrl: Any = None,
        idx: Selection = None,
        hold: int = 1,
    ) -> Rollout:
        """Apply a sequence of commands to an entity, each for `hold` steps, and return its trajectory.

        Equal bit for bit to calls of `control_dofs_position` (`_velocity`, `_force`, or `control`), `step(hold)` and
        the getters, without their overhead. Commands of other entities and dofs stay in effect. Exactly one of
        `position`, `velocity`, `force` and `ctrl` is given.

        Args:
            entity: entity of this scene.
            position: position targets [m, rad], (n_commands, n_envs, n), or (n_commands, n) for all environments.
            velocity: velocity targets [m/s, rad/s], same shapes.
            force: forces [N, N m], same shapes.
            ctrl: actuator controls, same shapes.
            idx: dofs, or with `ctrl` actuators, by index, name, pattern, slice or mask; None for all.
            hold: number of steps per command; default 1.

        Returns:
            Coordinates and velocities of the entity after each command.
        """
        if not any(entity is own for own in self.entities):
            raise KinemaError(f"rollout: expected an entity of this scene, not {entity!r}")
        commands = {"position": position, "velocity": velocity, "force": force, "ctrl": ctrl}
        return self._rollouts.run(entity, commands, idx, hold)

    def linearize(self, envs_idx: Selection = None, *, by: str = "ctrl") -> Linearization:
        """Exact Jacobians of one step at the current state: next state and sensor values by state and controls.

        Derivatives of the step that is executed, with contacts, limits and all other constraints, in the order of
        MuJoCo's `mjd_transitionFD`. The scene does not change. Compiles the derivative on first use. See
        docs/gradients.md for points where the derivative is one-sided.

        Args:
            envs_idx: environments by index, slice or mask; None for all.
            by: controls: `ctrl`, the controls of the actuators; `force`, forces on the dofs; `position`, position or
                velocity targets of the dofs, as their control mode says.

        Returns:
            The matrices A, B, C and D, with environments first.
        """
        return self._linearization.linearize(envs_idx, by)

    def check_gradients(
        self, envs_idx: Selection = None, *, by: str = "ctrl", step: float = 1e-5, tolerance: float = 1e-4
    ) -> GradientCheck:
        """Compare the Jacobians of `linearize` with finite differences of the step, in double precision best.

        Args:
            envs_idx: environments by index, slice or mask; None for all.
            by: controls, as for `linearize`.
            step: perturbation of states and controls; differences with half the step are extrapolated.
            tolerance: bound, relative to the largest entry of a row, from which on forward and backward differences
                count as different, which means that the step is not smooth within the perturbation.

        Returns:
            Numbers of smooth and one-sided entries, and the largest error.
        """
        return self._linearization.check(envs_idx, by, step, tolerance)

    def capture(self, function: Callable[[], Any], *, warm_up: int = 3) -> Callable[[], None]:
        """Capture the GPU work of a function as a CUDA graph, and return a function that replays the graph.

        The function may call getters, setters, `step`, and `reset` with masks, and use PyTorch operations on tensors of
        the scene's GPU; results must be written to existing tensors, and no tensor may be created from host values. It
        is called `warm_up` times first, with effect, so that everything is compiled. Replaying advances the simulated
        time. On a CPU the returned function calls `function`.

        Args:
            function: function to capture.
            warm_up: number of calls before the capture; default 3.

        Returns:
            A function that repeats the captured work.
        """
        return self._stepper.capture(function, warm_up)

    # ------------------------------------------------------------------------------------------------------ state

    @property
    def sim(self) -> Sim:
        """Simulator with the flat arrays: `scene.sim.rigid_solver.links_state.pos`."""
        return self._builder.sim

    @property
    def links(self) -> Any:
        """Flat arrays of all links, `sim.rigid_solver.links_state`: `scene.links.pos` is (n_links, n_envs, 3)."""
        return self.sim.rigid_solver.links_state

    @property
    def dofs(self) -> Any:
        """Flat arrays of all dofs, `sim.rigid_solver.dofs_state`: `scene.dofs.vel` has shape (n_dofs, n_envs)."""
        return self.sim.rigid_solver.dofs_state

    @property
    def time(self) -> float:
        """Simulated time since the scene was built, or all environments together were reset [s]."""
        return self.sim.time

    def get_state(self, envs_idx: Selection = None) -> SceneState:
        """Snapshot of the complete state, from which the simulation continues bit for bit.

        `SceneState.save` writes a file.
        """
        return snapshot_state(self.built, envs_idx)

    def set_state(self, state: SceneState, envs_idx: Selection = None) -> None:
        """Restore a snapshot of this scene or of a scene with an equal model.

        Shared parameters and the time are restored only with all environments together. The history of sensors with
        rate or delay is cleared.

        Args:
            state: the snapshot; that of a single environment is copied to all selected environments.
            envs_idx: environments by index, slice or mask; None for all.
        """
        restore_state(self.built, state, envs_idx)
        self._stepper.observers.restart_sensors(resolve_envs(envs_idx, self.n_envs))
        if self.built.engine.dt != self.dt / self.substeps:
            self._builder.dt = self.built.engine.dt * self.substeps

    def get_error_envs_mask(self) -> Any:
        """Mask of the environments whose state became non-finite since their last reset, bool (n_envs,)."""
        return self._stepper.failed_envs()

    def get_energy(self) -> tuple[np.ndarray, np.ndarray]:
        """Kinetic energy, and potential energy of gravity and joint springs, of the whole scene [J], (n_envs,) each."""
        system = self.built.engine.fields.system
        return np.array(system.kinetic_energy.numpy()), np.array(system.potential_energy.numpy())

    def get_links_asleep(self, envs_idx: Selection = None) -> np.ndarray:
        """Whether each link of the scene is asleep, bool (n_envs, n_links); all False without `Scene(sleep=...)`."""
        return links_asleep(self.built.engine, slice(None), envs_idx)

    def wake(self, envs_idx: Selection = None) -> None:
        """Wake all trees; needed after changes that the step does not detect, such as masses or geoms."""
        wake_trees(self.built.arrays, slice(None), envs_idx)

    # --------------------------------------------------------------------------------------------------- contacts

    def get_contacts(self, envs_idx: Selection = None) -> Contacts:
        """Current contacts as arrays (n_envs, m, ...) by key or attribute, m the largest number in one environment.

        Args:
            envs_idx: environments by index, slice or mask; None for all.

        Returns:
            `n` (n_envs,), number of contacts; `position` or `pos` (3,) [m], `normal` (3,) from a to b, `penetration`
                [m], `force_a`, `force_b` (3,), the forces on a and b [N], `force`, that on b, `entity_a`, `entity_b`
                (index in `entities`), `link_a`, `link_b`, `geom_a`, `geom_b` (indices within the entity; link -1 is the
                world), their names `entity_name_a`, `link_name_a`, `geom_name_a`, ..., and `valid_mask` or `valid`
                (n_envs, m), which marks the valid rows.
        """
        self._contacts.report_overflow()
        return collect_contacts(self.built, envs_idx)

    @property
    def max_contacts(self) -> int:
        """Contact capacity per pair of bodies.

        May be changed at any time, which recompiles the programs when next needed. If it was not set and each
        environment is solved by one warp (GPU), it is the capacity per environment. If the contacts exceed the
        capacity, the deepest are kept; see `get_overflow_envs_mask`.
        """
        return self._contacts.capacity

    @max_contacts.setter
    def max_contacts(self, count: int) -> None:
        self._contacts.set_capacity(count)

    def calibrate_max_contacts(self, n_steps: int = 200, seed: int = 0) -> int:
        """Determine the contact capacity by a trial simulation, and set `max_contacts`; returns the new value.

        All environments take steps from the current state; all but the first get random velocities (standard deviation
        1 m/s, 1 rad/s) added. Then the state is restored bit for bit. If the required capacity exceeded the capacity,
        it is set to 1.5 times the required capacity. Nothing is simulated if the capacity covers every possible
        contact.

        Args:
            n_steps: number of substeps of the trial; default 200.
            seed: random seed of the velocities; default 0.
        """
        return self._contacts.calibrate(n_steps, seed)

    def get_overflow_envs_mask(self) -> np.ndarray:
        """Mask of the environments whose contacts exceeded the capacity since their last reset, bool (n_envs,)."""
        return self._contacts.counter("max_required_capacity") > 0.0

    def get_peak_contacts(self) -> np.ndarray:
        """Largest number of simultaneous contacts since the last reset, dropped contacts included, (n_envs,)."""
        return self._contacts.counter("max_n_contacts").astype(np.int64)

    def get_required_max_contacts(self) -> np.ndarray:
        """Sufficient `max_contacts` since the last reset, (n_envs,); 0 if the capacity was not exceeded."""
        return self._contacts.counter("max_required_capacity").astype(np.int64)

    # ------------------------------------------------------------------------------------------------ spatial queries

    def cast_rays(
        self,
        origins: Any,
        directions: Any,
        *,
        max_distance: float = np.inf,
        exclude: Entity | EntityLink | Sequence[Entity | EntityLink] | None = None,
        envs_idx: Selection = None,
    ) -> RayHits:
        """Nearest collision geom that each ray hits, in the current state.

        Geoms are as in the simulation (convex hulls of meshes, unless `nonconvex` says otherwise). A ray that starts
        inside a geom hits its surface from inside; planes are hit from above only.

        Args:
            origins: starts of the rays in the world [m], (n_rays, 3) or (n_envs, n_rays, 3); (3,) for all rays.
            directions: directions of any length, of the same shapes.
            max_distance: distance beyond which nothing is hit [m]; default none.
            exclude: entities or links that are left out.
            envs_idx: environments by index, slice or mask; None for all.

        Returns:
            `distance` [m], `position`, `normal`, and the geom hit by each ray; see `RayHits`.
        """
        return self._spatial_queries.cast_rays(origins, directions, max_distance, exclude, envs_idx)

    def distance(
        self,
        a: Entity | EntityLink,
        b: Entity | EntityLink,
        *,
        link_a: Selection = None,
        link_b: Selection = None,
        geom_a: Selection = None,
        geom_b: Selection = None,
        max_distance: float = np.inf,
        envs_idx: Selection = None,
    ) -> Distances:
        """Signed distance and closest points of the collision geoms of two entities or links, in the current state.

        Geoms are as in the simulation (convex hulls of meshes, unless `nonconvex` says otherwise), whether or not they
        may collide. Both sides may be the same entity, with different links or geoms.

        Args:
            a: entity or link.
            b: entity or link.
            link_a: links of `a` by index, name or pattern; None for all.
            link_b: links of `b`.
            geom_a: collision geoms of `a` by index, name or pattern; None for all.
            geom_b: collision geoms of `b`.
            max_distance: distance above which the exact distance is not needed [m], which saves time; default none.
            envs_idx: environments by index, slice or mask; None for all.

        Returns:
            `distance` [m], negative for penetration, `point_a`, `point_b`, and the closest geoms; see `Distances`.
        """
        return self._spatial_queries.distance(a, b, link_a, link_b, geom_a, geom_b, max_distance, envs_idx)

    def overlaps(
        self,
        shape: Morph,
        pos: Any,
        quat: Any = None,
        *,
        margin: float = 0.0,
        exclude: Entity | EntityLink | Sequence[Entity | EntityLink] | None = None,
        envs_idx: Selection = None,
    ) -> Overlaps:
        """Collision geoms that overlap a query shape at a pose, in the current state.

        Args:
            shape: `km.Box`, `Sphere`, `Ellipsoid`, `Capsule` or `Cylinder`.
            pos: position of the shape in the world [m], (3,) or (n_envs, 3).
            quat: orientation (w, x, y, z), (4,) or (n_envs, 4); None for the identity.
            margin: distance up to which geoms count as overlapping [m]; default 0.
            exclude: entities or links that are left out.
            envs_idx: environments by index, slice or mask; None for all.

        Returns:
            Geoms that overlap the shape, closest first, with `distance` [m] and number `n`; see `Overlaps`.
        """
        return self._spatial_queries.overlaps(shape, pos, quat, margin, exclude, envs_idx)

    # --------------------------------------------------------------------------------------- equality constraints

    @property
    def link_equalities(self) -> Any:
        """Fields of the equality constraints between links: `scene.link_equalities.gap`, `turn`.

        See `link_equality_names`.
        """
        return self.built.engine.fields.equalities

    @property
    def link_equality_names(self) -> list[str]:
        """Names of the equality constraints between links (connect, weld) and of loop-closing joints."""
        return list(self.built.model.equalities.names)

    @property
    def couplings(self) -> Any:
        """Fields of the couplings of joints and tendons, such as `scene.couplings.error`; order of `coupling_names`."""
        return self.built.engine.fields.couplings

    @property
    def coupling_names(self) -> list[str]:
        """Names of the mimic joints and of the joint and tendon equality constraints."""
        return list(self.built.model.couplings.names)

    @property
    def equality_names(self) -> list[str]:
        """Names of all equality constraints in the order of `get_equality`: link equalities, then couplings.

        Constraints that their file disables come last unless the scene is built with `per_env=("equality",)`.
        """
        return Equalities(self.built).names

    def get_equality(self, names: Selection = None, envs_idx: Selection = None) -> np.ndarray:
        """Whether equality constraints are active, bool (n_envs, n): enabled and not broken."""
        return Equalities(self.built).are_active(names, envs_idx)

    def set_equality(
        self, active: Any, names: Selection = None, envs_idx: Selection = None, *, at: str = "now"
    ) -> None:
        """Enable or disable equality constraints, also disabled ones of files: bool (n_envs, n), (n,) or a scalar.

        Needs `scene.build(per_env=("equality",))`.

        Args:
            active: which are enabled.
            names: equality constraints; None for all.
            envs_idx: environments by index, slice or mask; None for all.
            at: a weld or connect that becomes active holds the links as they are `now` (default), or pulls them to the
                relative pose of its `file`, as MuJoCo does.
        """
        Equalities(self.built).set_enabled(active, names, envs_idx, at)

    def get_equality_sol_params(self, names: Selection = None, envs_idx: Selection = None) -> np.ndarray:
        """Soft-constraint parameters of equality constraints: MuJoCo's solref (2) and solimp (5), (n_envs, n, 7)."""
        return Equalities(self.built).sol_params(names, envs_idx)

    def set_equality_sol_params(self, params: Any, names: Selection = None, envs_idx: Selection = None) -> None:
        """Set solref (2) and solimp (5) of equality constraints: seven numbers, (n, 7) or (n_envs, n, 7).

        Needs `scene.build(per_env=("sol_params",))`.
        """
        Equalities(self.built).set_sol_params(params, names, envs_idx)

    # --------------------------------------------------------------------------------- attachments and suction cups

    def attach(  # noqa: PLR0913  public API
        self,
        a: Entity | EntityLink | None,
        b: Entity | EntityLink | None = None,
        *,
        link_a: LinkSelector | None = None,
        link_b: LinkSelector | None = None,
        kind: str = "weld",
        at: Any = "now",
        pos_a: ArrayLike = (0.0, 0.0, 0.0),
        pos_b: ArrayLike = (0.0, 0.0, 0.0),
        length: Any = None,
        envs_idx: Selection = None,
        break_force: Any = None,
    ) -> Attachment:
        """Attach a link to another one, or to the world, until `detach`, `reset` or overload (docs/attachments.md).

        The constraint is soft, as MuJoCo's weld with default parameters. If the pair of links is not reserved
        (`reserve_attachments`), the step is compiled once more, which is reported.

        Args:
            a: entity or link; None for the world.
            b: entity or link; None for the world.
            link_a: link of the entity `a` by name, index or handle; None for its base link.
            link_b: link of the entity `b`.
            kind: `weld`, `ball` (free rotation about a point), `rod` (constant distance of two points) or `rope`
                (largest distance).
            at: relative pose that a weld holds: `now` for the current one, or position [m] and quaternion (w, x, y, z)
                of b in a.
            pos_a: point on `link_a` [m], for rods and ropes; of a ball on the world, its centre.
            pos_b: point on `link_b` [m], anchor of the attachment.
            length: length of a rod or rope [m], scalar or (n_envs,); None for the current distance.
            envs_idx: environments by index, slice or mask; None for all.
            break_force: force at which it breaks [N], scalar or (n_envs,); None for never.

        Returns:
            The attachment: `is_attached`, `get_force`, `get_torque`, `set_break_force`, `detach`.
        """
        anchor = self._attachments.link_reference(a, link_a, "attach")
        other = self._attachments.link_reference(b, link_b, "attach")
        return self._attachments.attach(anchor, other, kind, at, (pos_a, pos_b), length, envs_idx, break_force)

    def detach(
        self,
        a: Attachment | Entity | EntityLink | None,
        b: Entity | EntityLink | None = None,
        *,
        link_a: LinkSelector | None = None,
        link_b: LinkSelector | None = None,
        kind: str = "weld",
        envs_idx: Selection = None,
    ) -> None:
        """Release an attachment, given by its handle or by the arguments of `attach`.

        Args:
            a: attachment, entity, link, or None for the world.
            b: entity or link; None for the world.
            link_a: link of `a`; None for its base link.
            link_b: link of `b`; None for its base link.
            kind: kind of the attachment.
            envs_idx: environments by index, slice or mask; None for all.
        """
        attachment = a if isinstance(a, Attachment) else None
        if not isinstance(a, Attachment):
            first = self._attachments.link_reference(a, link_a, "detach")
            second = self._attachments.link_reference(b, link_b, "detach")
            attachment = self._attachments.handle(first, second, kind)
        if attachment is None:
            raise KinemaError(f"detach: these links were never attached by a {kind}")
        attachment.detach(envs_idx)

    def reserve_attachments(
        self,
        entity: Entity | EntityLink | None,
        link: LinkSelector | None = None,
        targets: Sequence[Target] | None = None,
        *,
        kind: str = "weld",
    ) -> None:
        """Reserve attachments of a link to targets, so that `attach` does not recompile the step; best before build.

        Args:
            entity: entity or link; None for the world.
            link: link of the entity by name, index or handle; None for the base link.
            targets: entities (base links), links, pairs of entity and link, or None for the world; by default every
                entity that is a single free body.
            kind: `weld`, `ball`, `rod` or `rope`.
        """
        self._attachments.reserve(self._attachments.link_reference(entity, link, "reserve_attachments"), targets, kind)

    def add_suction(
        self,
        entity: Entity | EntityLink,
        link: LinkSelector | None = None,
        *,
        pos: ArrayLike = (0.0, 0.0, 0.0),
        normal: ArrayLike = (0.0, 0.0, 1.0),
        distance: float = 0.005,
        max_force: float | None = None,
        targets: Sequence[Target] | None = None,
        name: str | None = None,
    ) -> SuctionCup:
        """Add a suction cup (vacuum gripper), which is off at first and after `reset` (docs/attachments.md).

        While it is on and nothing is attached to it, each step casts a ray along the normal; a target whose collision
        shape is hit within `distance` in front of or behind the contact point is attached at its current pose.

        Args:
            entity: entity, or link, of the cup.
            link: link of the entity by name, index or handle; None for the base link.
            pos: contact point (centre of the rim) in the link [m].
            normal: direction out of the cup in the link.
            distance: range of the cup [m]; default 5 mm.
            max_force: largest holding force [N], without pressure against the cup; the cup switches itself off beyond.
                None for no limit.
            targets: entities, links, or pairs of entity and link; by default every entity that is a single free body.
            name: name of the cup, made unique; default `suction`.

        Returns:
            The cup: `turn_on`, `turn_off`, `switch`, `is_on`, `get_held`, `get_force`.
        """
        reference = self._attachments.link_reference(entity, link, "add_suction")
        return self._attachments.add_suction_cup(reference, pos, normal, distance, max_force, targets, name)

    # -------------------------------------------------------------------------------------- sensors and recordings

    @property
    def sensors(self) -> Sensors:
        """Sensors of all files, and added sensors, by name: `scene.sensors["imu"].read()`; see `docs/sensors.md`."""
        return self._stepper.observers.sensors

    def add_sensor(self, sensor: SensorType) -> Sensor:
        """Add a sensor to the scene, best before build: after it the scene is compiled once more, which is reported.

        Example: `imu = scene.add_sensor(km.Imu(link=arm.get_link("hand")))`, then `imu.read("angular_velocity")`.

        Args:
            sensor: `km.Imu`, `ForceTorque`, `ContactSensor`, `TouchSensor`, `TactileSensor`, `RayFan`, `Lidar`,
                `FrameSensor`, `DistanceSensor`, `JointSensor`, `Magnetometer`, `Altimeter` or `Gps` (docs/sensors.md).

        Returns:
            The sensor, which is also in `scene.sensors`.
        """
        from .sensor_types import SensorType

        if not isinstance(sensor, SensorType):
            raise KinemaError(f"add_sensor: expected a sensor such as km.Imu(link=...), not {sensor!r}")
        self._added_sensors.append(sensor.resolve(self))
        if self.is_built:
            name = unique_name(self._added_sensors[-1].name, set(self.sensors))
            text = f"sensor {name} added: the scene is compiled once more"
            try:
                self._builder.recompile(text, "add sensors before scene.build()")
            except KinemaError:
                self._added_sensors.pop()
                raise
        return self._stepper.observers.add_sensor(sensor.error_model())

    def add_camera(  # noqa: PLR0913  public API
        self,
        camera: Camera | str | None = None,
        *,
        pos: ArrayLike | None = None,
        lookat: ArrayLike | None = None,
        up: ArrayLike = (0.0, 0.0, 1.0),
        quat: ArrayLike | None = None,
        euler: ArrayLike | None = None,
        link: Any = None,
        fov: float = 0.785398163397,
        res: tuple[int, int] = (640, 480),
        samples: int = 1,
    ) -> SceneCamera:
        """Add a camera, before or after build: `camera.read("depth")`, `camera.save("still.png")`; compiles nothing.

        Args:
            camera: a `kinema.render.Camera`, or the name of a camera of the files, instead of the arguments below;
                without a position either, the camera shows the whole scene.
            pos: position in the world, or on the link [m], (3,).
            lookat: point in the centre of the image, in the same axes [m], (3,).
            up: direction that is upwards in the image with `lookat`; default +z.
            quat: orientation (w, x, y, z) instead of `lookat`; the camera looks along its -z axis with +y up.
            euler: orientation as angles about the fixed x, then y, then z axis [rad], instead of `lookat`.
            link: link that carries the camera: handle, (entity, name or index), or a name; None for the world.
            fov: vertical field of view [rad]; default pi/4.
            res: width and height of the images [pixels]; default (640, 480).
            samples: rays along each edge of a pixel, for antialiasing of colours; default 1.

        Returns:
            The camera.
        """
        from kinema.render import Camera

        from .cameras import AddedCameras, camera_pose

        if camera is None and pos is not None:
            pose = camera_pose(pos, lookat, up, quat, euler)
            camera = Camera(link=WORLD_LINK if link is None else link, pose=pose, fov=fov)
        elif link is not None:
            raise KinemaError("add_camera: a camera on a link needs a position, pos=")
        if self._cameras is None:
            self._cameras = AddedCameras(self)
        return self._cameras.add(camera, res, samples)

    def render(
        self, path: str | os.PathLike[str] | None = None, *, env: int = 0, pathtrace: int = 0, **camera: Any
    ) -> np.ndarray:
        """Picture of the current state of one environment, RGB, (height, width, 3), 8 bits.

        Args:
            path: file to write too, `.png`, `.jpg` or `.exr` (`SceneCamera.save`); None for none.
            env: index of the environment; default 0.
            pathtrace: paths per pixel of the path tracer; 0 (default) for ray casting.
            **camera: arguments of `add_camera`; by default the whole scene is shown.
        """
        one_off = self.add_camera(**{"samples": 3, **camera})
        if path is not None:
            one_off.save(path, env=env, pathtrace=pathtrace)
        return one_off.picture(env, pathtrace)

    def record(
        self,
        path: str | os.PathLike[str],
        *,
        every: int | None = None,
        envs_idx: Selection = None,
        sensors: bool = False,
        env_spacing: float = 2.0,
        camera: SceneCamera | None = None,
    ) -> Recording | VideoRecording:
        """Start recording; the current state is the first frame.

        `close()`, or the end of a `with` block, writes the file.

        Args:
            path: file whose suffix selects the format: `.npz` (arrays), `.parquet` (table), `.mcap` (Foxglove; extra
                `record` for both), `.usda`, `.usdc`, `.usd` (geometry with animated link poses), or `.mp4` (video;
                extra `render`).
            every: number of steps between frames; None for every step, and for 30 frames per second of a video.
            envs_idx: environments by index, slice or mask; None for all, and for the first one in a video, where
                several are shown side by side.
            sensors: whether sensor readings are recorded too (not in USD and videos); default False.
            env_spacing: distance of the environments in USD [m]; default 2.
            camera: camera of a video (`add_camera`); None for one that shows the whole scene.

        Returns:
            The open recording.
        """
        interval = None if every is None else positive_int(every, "record", "step")
        recording: Recording | VideoRecording
        if Path(path).suffix.lower() == ".mp4":
            from .recording_video import record_video

            view = self.add_camera(samples=2) if camera is None else camera
            recording = record_video(view, Path(path), time_step=self.dt, every=interval, envs_idx=envs_idx)
        else:
            variants = [(e._index.descriptions, e.variant_idx) for e in self.entities]
            entities = [(p.description, p.pose) for p in self._entity_specs]
            recording = Recording(
                RecordedScene(self, entities, lambda: self.sensors.data, variants),
                Path(path),
                every=interval or 1,
                envs_idx=envs_idx,
                sensors=boolean(sensors, "sensors"),
                spacing=nonnegative_float(env_spacing, "env_spacing"),
            )
        self._stepper.observers.add_recording(recording)
        return recording

    def replay(self, path: str | os.PathLike[str]) -> Replay:
        """Open a recording of the same entities for replay.

        Example: `for time in scene.replay(path)` sets the state of each frame and yields its time [s].

        Args:
            path: path of the recording, `.npz`, `.parquet` or `.mcap`.
        """
        return Replay(self, Path(path))

    # ------------------------------------------------------------------------------------------ surface velocity

    def set_surface_velocity(
        self,
        entity: Entity,
        linear: Any = (0.0, 0.0, 0.0),
        angular: Any = (0.0, 0.0, 0.0),
        *,
        link: LinkSelector | None = None,
        geom: str | int | None = None,
        envs_idx: Selection = None,
    ) -> None:
        """Set the surface velocity of geoms in contacts (conveyor belts, turntables); the geoms do not move.

        Friction drives touching bodies along the surface. In effect until changed; replaces the velocity of the file.
        Needs no compilation if a file has a surface velocity, or with `scene.build(per_env=("surface_velocity",))`;
        else the first call after build compiles the step once more.

        Args:
            entity: entity whose surfaces move.
            linear: velocity at the origin of the link [m/s], (3,) or (n_envs, 3), along the axes of the link.
            angular: angular velocity about that origin [rad/s], (3,) or (n_envs, 3), along the axes of the link.
            link: link whose surfaces move, by name, index or handle; None for all links of the entity.
            geom: geom that moves, by name or index; the velocities then refer to its origin and axes, as in MuJoCo.
            envs_idx: environments by index, slice or mask; None for all. Only after build.
        """
        self._surface_velocities.set(entity, linear, angular, link, geom, envs_idx)

    def set_track_velocity(
        self, entity: Entity, velocity: Any, tracks: Selection = None, envs_idx: Selection = None
    ) -> None:
        """Drive tracks of a vehicle: links of an SDFormat model with Gazebo's `TrackController` plugin.

        The surfaces of the track move backwards along its direction, so that it drives forwards; until changed.

        Args:
            entity: the vehicle.
            velocity: forward velocity of each track [m/s], a scalar, (n_tracks,) or (n_envs, n_tracks).
            tracks: links by name, pattern, or index among the tracks, in file order; None for all.
            envs_idx: environments by index, slice or mask; None for all.
        """
        self._surface_velocities.drive_tracks(entity, velocity, tracks, envs_idx)

    # ---------------------------------------------------------------------------------- gravity, medium, randomization

    def set_gravity(self, gravity: Any, envs_idx: Selection = None) -> None:
        """Set the gravitational acceleration [m/s2], (3,); with `build(per_env=("gravity",))` also (n_envs, 3)."""
        write_parameter(self.built, "gravity", slice(None), (3,), gravity, envs_idx, "set_gravity")

    def get_gravity(self, envs_idx: Selection = None) -> np.ndarray:
        """Gravitational acceleration [m/s2], (n_envs, 3)."""
        return self.built.arrays.read("gravity", slice(None), resolve_envs(envs_idx, self.n_envs))

    def set_wind(self, wind: Any, envs_idx: Selection = None) -> None:
        """Set the velocity of the medium [m/s], (3,); with `build(per_env=("wind",))` also (n_envs, 3)."""
        write_medium_parameter(self.built, "wind", (3,), wind, envs_idx)

    def set_density(self, density: Any, envs_idx: Selection = None) -> None:
        """Set the density >= 0 of the medium [kg/m3]; with `build(per_env=("density",))` also (n_envs, 1)."""
        write_medium_parameter(self.built, "density", (1,), density, envs_idx)

    def set_viscosity(self, viscosity: Any, envs_idx: Selection = None) -> None:
        """Set the viscosity >= 0 of the medium [Pa s]; with `build(per_env=("viscosity",))` also (n_envs, 1)."""
        write_medium_parameter(self.built, "viscosity", (1,), viscosity, envs_idx)

    def randomize(
        self,
        entity: Entity | None = None,
        *,
        links_idx: Selection = None,
        dofs_idx: Selection = None,
        envs_idx: Selection = None,
        seed: int = 0,
        **distributions: Distribution,
    ) -> None:
        """Randomize physical parameters per environment; may be called any number of times.

        Samples are applied to the values at build time, not to earlier samples. Inertias scale with masses. A parameter
        that is not in `build(per_env=...)` requires one recompilation (`allow_per_env`).

        Args:
            entity: entity to randomize; None for all entities (gravity is common to the scene).
            links_idx: links by name, pattern or index; None for all.
            dofs_idx: dofs by name, pattern or index; None for all.
            envs_idx: environments by index, slice or mask; None for all.
            seed: random seed, default 0; an environment gets the same samples whatever the number of environments.
            **distributions: parameter name and distribution (`km.uniform`, `km.loguniform`, `km.normal`): `mass`, `com`
                [m], `friction`, `geometry_scale`, `kp`, `kv`, `armature`, `damping`, `frictionloss`, `limits`,
                `gravity` [m/s2].
        """
        selections = {"links_idx": links_idx, "dofs_idx": dofs_idx, "envs_idx": envs_idx}
        randomize_entities(self, entity, distributions, seed, **selections)

    def allow_per_env(self, *parameters: str) -> None:
        """Make parameters per-environment, as with `build(per_env=...)`.

        If a parameter was not in `build(per_env=...)`, the step is compiled once more, which is reported, and the state
        is kept. Arrays returned before with `out="view"` or `"torch"` are then no longer valid.

        Args:
            *parameters: names in `kinema.dynamics.PER_ENV_PARAMETERS`.
        """
        self._builder.allow_per_env(parameters)

    def allow_external_forces(self) -> None:
        """Enable external forces and torques, as with `build(external_forces=True)`.

        If the scene was built without, the step is compiled once more, which is reported, and the state is kept.
        """
        self._builder.allow_external_forces()

    # ------------------------------------------------------------------------------------------ output and viewer

    def torch(self) -> Self:
        """Make all getters return PyTorch tensors that share the scene's memory, on a CPU or a GPU; returns the scene.

        The tensors change with the scene: `clone` values to keep, and call `mark_modified` after writing to them. On a
        GPU, Warp uses PyTorch's CUDA stream.
        """
        return self._set_output("torch")

    def numpy(self) -> Self:
        """Make all getters return NumPy arrays again, copies that later steps do not change; returns the scene."""
        return self._set_output("numpy")

    def mark_modified(self) -> None:
        """Notify the scene that a returned view or tensor was written to, so that derived quantities are recomputed."""
        self.built.engine.mark_modified()

    def _set_output(self, out: str) -> Self:
        if self.is_built:
            self.built.outputs.set_kind(out)
        self.out = out
        return self

    def show(self, *, block: bool = False, host: str = "127.0.0.1", port: int = 8080, token: str = "") -> Any:
        """Open a viewer of the built scene in the browser (extra `viewer`).

        The buttons of the viewer step the scene; after steps of your own, `viewer.update()` shows the current state. In
        a notebook the viewer is displayed as the result of the cell.

        Args:
            block: wait until the user interrupts; default False.
            host: address to listen at; default this machine only. Other addresses require a token.
            port: port; the next free one if it is in use. Default 8080.
            token: access token of remote users; random if empty.

        Returns:
            The viewer: `address`, `update()`, `screenshot(path)`, `close()`.
        """
        top = sys.modules[__name__.partition(".")[0]]
        return importlib.import_module(top.SHOWN_BY).show(self, block=block, host=host, port=port, token=token)
