"""A scene: robots added, compiled together, and stepped in many environments at once."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from kinema.backend import find_device
from kinema.compile import Part, compile_model
from kinema.description import Robot, World, world_of_terrain
from kinema.foundation import ArrayLike, Diagnostics, KinemaError, unique_name
from kinema.model import Model
from kinema.shapes import Terrain
from kinema.sim import EMISSIONS, Engine, Integrator, Settings

from .arguments import choice, device_name, duration, flag, numbers, placed, whole
from .batches import environments
from .controls import Controls
from .entity import Entity
from .equalities import Equalities
from .file_options import report_options
from .health import ON_ERROR, ROOM, Health
from .keyframes import state_of
from .memory import Memory
from .progress import Progress
from .running import Running
from .showing import Showing
from .surroundings import Surroundings, medium_of
from .unsupported import refuse_impossible, report_missing
from .views import Sim, not_built
from .watching import Watching

PRECISIONS = ("single", "double")


class Scene(Surroundings, Equalities, Showing, Watching, Health):
    """Everything that is simulated together.

    Args:
        dt: time of one step [s].
        device: `cpu`, `cuda:0`, ..., or `auto` for a GPU where there is one.
        precision: `single` (32 bits) or `double`.
        contacts, limits: whether things touch, and joints stop at their limits.
        constraints: whether there is dry friction in joints, mimics follow, equality constraints hold and loops stay
            closed.
        iterations: how many Newton steps the solver of constraints takes at most; it stops as soon as it has arrived.
        ls_iterations: how many trials it makes at most along each of them.
        max_contacts: for how many contacts between any two bodies there is room; of more the deepest are kept.
        on_error: what is done with an environment once it would no longer be made of finite numbers: `flag` it,
            `freeze` it in its last good state, or `reset` it before the next step.
        integrator: `implicitfast` (implicit in velocity), `euler` (semi-implicit) or `rk4`.
        gravity: [m/s2]; None for what the first file says that says it, else (0, 0, -9.81).
        density: of the medium that everything moves in [kg/m3]; None, as for the next two, for what the files say.
        viscosity: of that medium [Pa s].
        wind: how it moves [m/s].
        substeps: how many equal steps `dt` is divided into.
        emission: `unrolled` compiles the step of this very scene, `rolled` loops over tables, which compiles in no time
            whatever the number of joints, and `auto` takes what suits the scene.
        quiet: no progress bar, even on a terminal.
    """

    def __init__(  # noqa: PLR0913  one for each choice there is
        self,
        dt: float = 0.002,
        device: str = "cpu",
        precision: str = "single",
        *,
        contacts: bool = True,
        limits: bool = True,
        constraints: bool = True,
        iterations: int = 30,
        ls_iterations: int = 12,
        max_contacts: int = ROOM,
        on_error: str = "flag",
        integrator: str = "implicitfast",
        gravity: ArrayLike | None = None,
        density: float | None = None,
        viscosity: float | None = None,
        wind: ArrayLike | None = None,
        substeps: int = 1,
        emission: str = "auto",
        quiet: bool = False,
    ) -> None:
        self._dt = duration(dt, "dt")
        self.device = device_name(device)
        self.precision = choice(precision, "precision", PRECISIONS)
        self.contacts = flag(contacts, "contacts")
        self.limits = flag(limits, "limits")
        self.constraints = flag(constraints, "constraints")
        self.iterations = whole(iterations, "iterations", "iteration")
        self.ls_iterations = whole(ls_iterations, "ls_iterations", "trial")
        self._max_contacts = whole(max_contacts, "max_contacts", "contact")
        self.on_error = choice(on_error, "on_error", ON_ERROR)
        self.integrator = Integrator(choice(integrator, "integrator", [i.value for i in Integrator]))
        self.gravity = None if gravity is None else numbers(gravity, "gravity", "three")
        self.medium = medium_of(density, viscosity, wind)
        self.substeps = whole(substeps, "substeps", "substep")
        self.emission = choice(emission, "emission", EMISSIONS)
        self.entities: list[Entity] = []
        self.diagnostics = Diagnostics()
        """What was read, approximated or left out."""
        self.progress = Progress(quiet)
        self._parts: list[Part] = []
        self._names: set[str] = set()
        self._running: Running | None = None
        self._sim: Sim | None = None

    def __repr__(self) -> str:
        built = (
            "not built"
            if self._running is None
            else f"{self.n_envs} environments on {self._running.engine.device.name}"
        )
        return f"<Scene: {len(self.entities)} entities, {built}>"

    @property
    def dt(self) -> float:
        """The time of one step [s]; it may be changed at any time."""
        return self._dt

    @dt.setter
    def dt(self, dt: float) -> None:
        self._dt = duration(dt, "dt")
        if self._running is not None:
            self._running.engine.dt = self._dt / self.substeps

    @property
    def links(self) -> Any:
        """The arrays of all links: `scene.links.pos` is short for `scene.sim.rigid_solver.links_state.pos`."""
        return self.running.engine.fields.links_state

    @property
    def dofs(self) -> Any:
        """The arrays of all degrees of freedom, likewise."""
        return self.running.engine.fields.dofs_state

    # ------------------------------------------------------------------------------------------------ building

    def add(
        self,
        robot: Robot | World | Terrain | str | os.PathLike[str],
        *,
        fixed: bool | None = None,
        pos: ArrayLike = (0.0, 0.0, 0.0),
        quat: ArrayLike = (1.0, 0.0, 0.0, 0.0),
        name: str | None = None,
    ) -> Entity:
        """Put a robot, or all that is in a file, into the scene.

        Args:
            robot: a description, the path of a file, or terrain (`kinema.shapes.stairs_terrain` and others).
            fixed: whether its base is bolted down; None for as the file says, and bolted down where it says nothing.
            pos: where the file's own origin is put [m].
            quat: how it is turned (w, x, y, z).
            name: what to call it; its own name, made unique, when not given.
        """
        if self._running is not None:
            raise KinemaError("the scene is built: add everything before scene.build()")
        robot = world_of_terrain(robot) if isinstance(robot, Terrain) else robot
        description = robot if isinstance(robot, Robot | World) else self._read(robot)
        part = Part(
            name=unique_name(name or description.name or "entity", self._names),
            description=description,
            pose=placed(description, pos, quat),
            fixed=None if fixed is None else flag(fixed, "fixed"),
        )
        entity = Entity(self, part.name, description, compile_model([part]))
        self._parts.append(part)
        self.entities.append(entity)
        return entity

    def _read(self, path: str | os.PathLike[str]) -> Robot | World:
        from kinema.read import read

        if not isinstance(path, str | os.PathLike):
            raise KinemaError(f"add: expected a robot, a world or the path of a file, not {path!r}")
        description = read(Path(path))
        self.diagnostics.items += description.diagnostics.items
        return description

    def build(self, n_envs: int = 1, *, per_env: Sequence[str] = (), external_forces: bool = False) -> None:
        """Compile the model and make room for its environments.

        The step itself is compiled when it is first taken, because only then it is known how joints are controlled;
        `prepare` does so at once.

        Args:
            n_envs: how many copies of the scene there are.
            per_env: parameters that may differ between them: `kinema.sim.PARAMETERS`, gravity and wind among them.
            external_forces: whether links can be pushed by `apply_links_external_force`.
        """
        if self._running is not None:
            raise KinemaError("the scene is built already")
        n_envs = whole(n_envs, "build", "environment")
        settings = Settings(
            dt=self.dt / self.substeps,
            integrator=self.integrator,
            limits=self.limits,
            constraints=self.constraints,
            contacts=self.contacts,
            iterations=self.iterations,
            ls_iterations=self.ls_iterations,
            per_env=frozenset([per_env] if isinstance(per_env, str) else per_env),
            freezes=self.on_error != "flag",
            external_forces=flag(external_forces, "external_forces"),
        )
        with self.progress.showing(3):
            parts = [p.description for p in self._parts]
            with self.progress("modelling"):
                asked = {"contacts": self.contacts, "switchable": "equality" in settings.per_env, "measures": True}
                model = compile_model(self._parts, self.gravity, self.diagnostics, self.medium, **asked)
                given = self._set_constants(model)
                model.pairs.room = self.max_contacts
            with self.progress("checking"):
                report_missing(model, parts, self.diagnostics, contacts=self.contacts)
                for part in self._parts:
                    report_options(part, self.diagnostics, dt=settings.dt, integrator=self.integrator.value)
                adjustable = bool(settings.per_env & {"armature", "mass_shift"})
                inertia = refuse_impossible(
                    model, parts, self.diagnostics, precision=self.precision, adjustable=adjustable
                )
            with self.progress("allocating"):
                engine = Engine(
                    model,
                    settings,
                    n_envs,
                    find_device(self.device),
                    precision=self.precision,
                    emission=self.emission,
                    progress=self.progress,
                )
                memory = Memory(engine)
                controls = Controls(model, memory, np.array(inertia.diagonal), given, self.diagnostics)
        self._running = Running(model, engine, memory, controls)
        self._sim = Sim(engine)
        for entity, info in zip(self.entities, model.entities, strict=True):
            entity._info = info

    def _set_constants(self, model: Model) -> np.ndarray:
        """What entities were given before building, into the model; whether kp and kv were among it, (2, n_dofs)."""
        given = np.zeros((2, model.n_dofs), dtype=np.bool_)
        for entity, info in zip(self.entities, model.entities, strict=True):
            for name, values in entity._constants.items():
                for dof, value in values.items():
                    getattr(model.dofs, name)[info.dof_start + dof] = value
                    if name in ("kp", "kv"):
                        given[("kp", "kv").index(name), info.dof_start + dof] = True
        return given

    def prepare(self) -> None:
        """Compile the step, so that the first one is as fast as the next."""
        running = self.running
        if running.model.n_dofs:
            with self.progress.showing(2):
                running.engine.prepare(ahead=True)
        running.controls.changed = False

    # ----------------------------------------------------------------------------------------------- running

    @property
    def running(self) -> Running:
        """What there is once the scene is built."""
        if self._running is None:
            raise not_built()
        return self._running

    @property
    def sim(self) -> Sim:
        """The engine's side: `scene.sim.rigid_solver.links_state.pos` is a flat array."""
        if self._sim is None:
            raise not_built()
        return self._sim

    @property
    def n_envs(self) -> int:
        """Environments."""
        return self.running.n_envs

    @property
    def time(self) -> float:
        """Simulated time since the scene was built [s]."""
        return self.sim.time

    def step(self, n: int = 1) -> None:
        """Take steps of `dt`; all of them in one launch."""
        running = self.running
        n = whole(n, "step", "step")
        if running.controls.changed:
            self.prepare()
        self._before_steps()
        self._advance(n)
        self._after_steps()

    def reset(self, envs_idx: Any = None, keyframe: str | int | None = None, *, grow: bool = False) -> None:
        """Back to the start, in all environments or some: state, commands, forces; flags of errors are taken back.

        Args:
            envs_idx: which environments; None for all.
            keyframe: a state that a file names, by its name or number there: entities whose file has it go to its
                coordinates, velocities, controls and activations (`Entity.keyframe_names`), all others to their start.
            grow: whether to make room, from now on, for all contacts that there were (`max_contacts`).
        """
        running = self.running
        self._note_overflow()
        if flag(grow, "grow"):
            self._grow()
        envs = environments(envs_idx, running.n_envs)
        count = running.n_envs if envs is None else len(envs)
        state = None if keyframe is None else state_of(running.model, keyframe)
        if running.model.n_dofs:
            running.engine.reset(envs)
        if state is None:
            running.controls.reset(envs)
        else:
            act = state.act if running.model.actuators.has_activation.any() else state.act[:0]
            for name, row in (("qpos", state.qpos), ("vel", state.qvel), ("act", act)):
                running.memory.write(name, slice(None), np.broadcast_to(row, (count, len(row))), envs)
            running.controls.reset(envs, state.qpos, state.ctrl)
            self._note_once("scene.keyframe-part", [f"{text} are not simulated" for text in state.left_out])
        for name in ("cfrc_applied_ang", "cfrc_applied_vel"):
            if running.engine.settings.external_forces:
                rows = 3 * running.model.n_links
                running.memory.write(name, slice(None), np.zeros((count, rows)), envs)
        self._was_reset(envs)

    def _note_once(self, code: str, messages: Sequence[str]) -> None:
        said = {d.message for d in self.diagnostics if d.code == code}
        for message in (m for m in messages if m not in said):
            self.diagnostics.note(code, message)

    def get_energy(self) -> tuple[np.ndarray, np.ndarray]:
        """Kinetic and potential energy (weight, and springs in joints) of everything [J], (n_envs,) each."""
        system = self.running.engine.fields.system
        return np.array(system.kinetic_energy.numpy()), np.array(system.potential_energy.numpy())
