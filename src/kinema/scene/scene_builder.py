"""Building a scene, and building it again with other settings while its state is kept."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

from kinema.builder import AddedSensor, EntitySpec, Medium
from kinema.core import Array, Diagnostics, KinemaError, pause_garbage_collection
from kinema.dynamics import PER_ENV_PARAMETERS, BroadPhase, Integrator, Settings

from .attachments import Attachments
from .build import BuildInputs, build_scene
from .built_scene import BuiltScene, not_built_error
from .console import ProgressBar, print_if_terminal
from .contacts import ContactMonitor
from .entity import Entity
from .options import SolverOptions, TimeStepping, resolve_time_stepping
from .rigid_solver import Sim
from .state import snapshot_state, transfer_state


class SceneToBuild(Protocol):
    """Interface of `Scene` for its builder: entities and options."""

    entities: list[Entity]
    diagnostics: Diagnostics
    progress: ProgressBar
    device: str
    precision: str
    contacts: bool
    limits: bool
    constraints: bool
    solver_options: SolverOptions
    energy_limiter: bool
    on_error: str
    gravity: Array | None
    medium: Medium
    substeps: int
    codegen: str
    wait: bool
    out: str
    _entity_specs: list[EntitySpec]
    _added_sensors: list[AddedSensor]
    _attachments: Attachments
    _contacts: ContactMonitor


class SceneBuilder:
    """Builds a scene, and rebuilds it with other per-environment parameters or external forces.

    Args:
        scene: the scene.
        dt: time step of the user [s]; None for that of the files.
        integrator: integrator of the user; None for that of the files.
    """

    def __init__(self, scene: SceneToBuild, dt: float | None, integrator: Integrator | None) -> None:
        self._scene = scene
        self.dt = dt
        """Time step [s]; None for that of the files."""
        self._integrator = integrator
        self._time_stepping: TimeStepping | None = None
        self.current: BuiltScene | None = None
        """The built scene; None before `build`."""
        self._sim: Sim | None = None
        self.presence = False
        """Whether entities can be absent in some environments."""
        self.reserved: tuple[int, ...] = ()
        """Numbers of the entities that are absent initially."""

    @property
    def built(self) -> BuiltScene:
        """The built scene; raises `KinemaError` before `build`."""
        if self.current is None:
            raise not_built_error()
        return self.current

    @property
    def sim(self) -> Sim:
        """Simulator with the flat arrays; raises `KinemaError` before `build`."""
        if self._sim is None:
            raise not_built_error()
        return self._sim

    @property
    def time_stepping(self) -> TimeStepping:
        """Time step and integrator: of the user, else of the MJCF files of all entities and variants, else defaults.

        They are fixed by `build`.
        """
        if self._time_stepping is not None:
            return self._time_stepping
        variants = [entity._index.variants for entity in self._scene.entities]
        specs = [*self._scene._entity_specs, *(spec for v in variants if v is not None for spec in v.specs)]
        return resolve_time_stepping(self.dt, self._integrator, specs)

    @property
    def current_dt(self) -> float:
        """Time step of the scene [s]."""
        return self.time_stepping.dt if self.dt is None else self.dt

    def set_dt(self, dt: float) -> None:
        """Set the time step [s], also of the engine."""
        self.dt = dt
        if self.current is not None:
            self.current.engine.dt = dt / self._scene.substeps
            self.current.controls.update_gains()

    def build(self, n_envs: int, per_env: frozenset[str], *, external_forces: bool) -> None:
        """Build the scene for the first time."""
        self._time_stepping = self.time_stepping
        self._build(n_envs, self._make_settings(per_env, external_forces), self._scene.diagnostics)

    def rebuild(self, per_env: frozenset[str], external_forces: bool | None = None) -> BuiltScene:
        """Build the scene again with other per-environment parameters; diagnostics are not reported again.

        External forces are enabled or disabled; None for the current setting.
        """
        present = self.built.engine.settings.external_forces
        settings = self._make_settings(per_env, present if external_forces is None else external_forces)
        return self._build(self.built.n_envs, settings, Diagnostics())

    def recompile(
        self, message: str, hint: str, per_env: frozenset[str] | None = None, external_forces: bool | None = None
    ) -> None:
        """Build the scene again with the given settings, keep its state, and report a message.

        `per_env` None keeps the per-environment parameters.
        """
        state = snapshot_state(self.built)
        parameters = self.built.engine.settings.per_env if per_env is None else per_env
        transfer_state(self.rebuild(parameters, external_forces), state)
        self._scene.diagnostics.note("scene.recompiled", message, hint=hint)
        print_if_terminal(message, self._scene.progress)

    def allow_per_env(self, parameters: Sequence[str]) -> None:
        """Make parameters per-environment; rebuilds the scene if they were shared."""
        unknown = [p for p in parameters if p not in PER_ENV_PARAMETERS]
        if unknown:
            raise KinemaError(
                f"{unknown[0]!r} cannot differ between environments; these can: {', '.join(PER_ENV_PARAMETERS)}"
            )
        present = self.built.engine.settings.per_env
        missing = sorted(set(parameters) - present)
        if not missing:
            return
        quoted = ", ".join(f'"{p}"' for p in sorted(present | set(missing)))
        self.recompile(
            f"{', '.join(missing)}: now per environment; the step is compiled once more",
            f"use scene.build(per_env=({quoted},)) to avoid the recompilation",
            present | set(missing),
        )

    def allow_external_forces(self) -> None:
        """Enable external forces; rebuilds the scene if they were disabled."""
        if not self.built.engine.settings.external_forces:
            self.recompile(
                "external forces can be applied now; the step is compiled once more",
                "use scene.build(external_forces=True) to avoid the recompilation",
                external_forces=True,
            )

    def _make_settings(self, per_env: frozenset[str], external_forces: bool) -> Settings:
        """Engine settings from the scene's options, the options of the files and the defaults.

        Messages are reported only at the first build.
        """
        scene, integrator = self._scene, self.time_stepping.integrator
        diagnostics = scene.diagnostics if self.current is None else Diagnostics()
        return Settings(
            dt=self.current_dt / scene.substeps,
            integrator=integrator,
            limits=scene.limits,
            constraints=scene.constraints,
            contacts=scene.contacts,
            **scene.solver_options.resolve(scene._entity_specs, diagnostics, integrator),
            energy_limiter=scene.energy_limiter,
            freeze_on_error=scene.on_error != "flag",
            per_env=per_env,
            external_forces=external_forces,
            presence=self.presence,
            reserved=self.reserved,
        )

    def _build(self, n_envs: int, settings: Settings, diagnostics: Diagnostics) -> BuiltScene:
        """Build models, engine, arrays and controls with the given settings; replaces the previous build, if any."""
        scene = self._scene
        built = self.current = self._build_engine(n_envs, settings, diagnostics)
        built.controls.diagnostics = scene.diagnostics
        specs = [
            spec if (variants := entity._index.variants) is None else variants.specs[entity._index.variant_of_env[0]]
            for spec, entity in zip(scene._entity_specs, scene.entities, strict=True)
        ]
        if self._sim is None:
            self._sim = Sim(built, specs)
        else:
            self._sim.set_built(built, specs)
        return built

    def build_with_pair_table(self) -> BuiltScene:
        """The scene with a table of all pairs of geoms instead of rules of collision, beside the present build."""
        present = self.built.engine.settings
        settings = self._make_settings(present.per_env, present.external_forces)
        return self._build_engine(self.built.n_envs, replace(settings, broad_phase=BroadPhase.LIST), Diagnostics())

    def _build_engine(self, n_envs: int, settings: Settings, diagnostics: Diagnostics) -> BuiltScene:
        """Build models, engine, arrays and controls with the given settings."""
        scene = self._scene
        scene._attachments.resolve()
        inputs = BuildInputs(
            attachments=scene._attachments.specs,
            suction_cups=scene._attachments.cups,
            specs=scene._entity_specs,
            entities=scene.entities,
            gravity=scene.gravity,
            medium=scene.medium,
            solver_options=scene.solver_options,
            dt=self.current_dt,
            max_contacts=scene._contacts.requested_capacity,
            device=scene.device,
            precision=scene.precision,
            codegen=scene.codegen,
            wait=scene.wait,
            out=scene.out,
            sensors=scene._added_sensors,
        )
        with pause_garbage_collection(), scene.progress.display(3):
            return build_scene(inputs, settings, n_envs, diagnostics, scene.progress)
