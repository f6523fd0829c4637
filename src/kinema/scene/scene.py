"""Scene, the main class of the simulation API: entities, build, solver and medium options, output type, viewer, state.

`Scene` is composed of mixin classes, each of which is one part of the API.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np

from kinema.builder import NONCONVEX_APPROXIMATIONS, EntitySpec, Medium, build_model
from kinema.core import ArrayLike, Diagnostics, KinemaError, pause_garbage_collection, unique_name
from kinema.description import PhysicsMaterial, Robot, World, scale_description, terrain_world
from kinema.dynamics import CODEGEN_MODES, Integrator, Settings
from kinema.geometry import MESH_SUFFIXES, Terrain as Ground

from .arguments import (
    axis_scales,
    base_pose,
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
from .build import BuildInputs, build_scene
from .built_scene import BuiltMixin, BuiltScene, Sim, not_built_error
from .console import ProgressBar, print_if_terminal, summarize
from .entity import Entity
from .equalities import EqualitiesMixin
from .morphs import MaterialOverrides, Mesh, Morph, robot_from_morph, with_overrides
from .options import SolverOptions
from .randomization import RandomizationMixin
from .rollout import RolloutMixin
from .sleep import SceneSleepMixin
from .state import SceneState, restore_state, snapshot_state
from .stepping import ON_ERROR, ON_OVERFLOW
from .variants import unify_variants

# ---------------------------------------------------------------------------------------------- adding entities

Addable = Robot | World | Morph | Ground | str | os.PathLike[str]
"""Types that `Scene.add` accepts."""


class AddEntitiesMixin(BuiltMixin):
    """Part of `Scene`: adding entities."""

    entities: list[Entity]
    diagnostics: Diagnostics
    nonconvex: str | None
    _entity_specs: list[EntitySpec]
    _entity_names: set[str]

    def add(  # noqa: PLR0913  public API
        self,
        robot: Addable | Sequence[Addable],
        *,
        fixed: bool | None = None,
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
        nonconvex: str | None = None,
        seed: int | None = None,
    ) -> Entity:
        """Add a robot, the contents of a file, or a body to the scene; only before build.

        Args:
            robot: a description, path of a file (robot, world or mesh), body (`km.Box`, `Sphere`, `Ellipsoid`,
                `Capsule`, `Cylinder`, `Plane`, `Mesh`, `Terrain`), or terrain of `kinema.geometry`. The same object may
                be added several times. A list gives variants: each environment has one of them, in turn, or randomly
                with `seed`.
            fixed: whether the base is fixed to the world; None for the setting of the file, and fixed if it has none.
                Bodies are free unless fixed; planes and terrain are always fixed.
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
            nonconvex: collision geometry of clearly non-convex meshes: `hull`, `decompose` or `sdf`; None for the
                setting of the scene.
            seed: random seed of the assignment of variants to environments; None for one after the other.

        Returns:
            The entity.
        """
        if self._built_scene is not None:
            raise KinemaError("the scene is already built: add all entities before scene.build()")
        overrides = MaterialOverrides(friction, density, mass, material, color, collision)
        is_fixed = None if fixed is None else boolean(fixed, "fixed")
        sources = list(robot) if isinstance(robot, list | tuple) else [robot]
        if not sources:
            raise KinemaError("add: the list of variants is empty")
        if seed is not None and (len(sources) == 1 or isinstance(seed, bool) or not isinstance(seed, int) or seed < 0):
            raise KinemaError(f"seed: expected a non-negative integer and a list of variants, not {seed!r}")
        descriptions = [self._to_description(source, overrides, scale, is_fixed) for source in sources]
        entity_name = unique_name(name or descriptions[0].name or "entity", self._entity_names)
        approximation = one_of_or_none(nonconvex, "nonconvex", NONCONVEX_APPROXIMATIONS) or self.nonconvex
        specs = [
            EntitySpec(
                name=entity_name,
                description=x,
                pose=base_pose(x, pos, quat, euler),
                fixed=is_fixed,
                nonconvex=approximation,
            )
            for x in descriptions
        ]
        entity_variants = unify_variants(descriptions, specs, seed) if len(specs) > 1 else None
        spec = specs[0] if entity_variants is None else entity_variants.specs[0]
        entity = Entity(self, entity_name, spec.description, build_model([spec]), entity_variants)
        self._entity_specs.append(spec)
        self.entities.append(entity)
        return entity

    def get_entity(self, name: str) -> Entity:
        """Entity with this name; raises `KinemaError` listing the names if there is none."""
        return self.entities[index_of_name(name, [entity.name for entity in self.entities], "get_entity", "entities")]

    def _to_description(
        self, source: Any, overrides: MaterialOverrides, scale: ArrayLike, fixed: bool | None
    ) -> Robot | World:
        """Description of an object to add, with overrides and scale applied.

        Args:
            source: description, path of a robot, world or mesh file, body, or terrain.
            overrides: material, mass, color and collision of the user.
            scale: scale factor, or one per axis for bodies.
            fixed: whether a body is to be fixed.
        """
        if isinstance(source, str | os.PathLike) and Path(source).suffix.lower() in MESH_SUFFIXES:
            source = Mesh(source)
        if isinstance(source, Ground):
            source = terrain_world(source)
        if isinstance(source, Morph):
            return robot_from_morph(source, overrides, axis_scales(scale, "scale"), fixed)
        description = with_overrides(
            source if isinstance(source, Robot | World) else self._read_file(source), overrides
        )
        x, y, z = axis_scales(scale, "scale")
        if not x == y == z:
            raise KinemaError(
                "scale: the scale of a robot must be uniform, one number; only bodies such as km.Box have one per axis"
            )
        return description if x == 1.0 else scale_description(description, float(x))

    def _read_file(self, path: str | os.PathLike[str]) -> Robot | World:
        """Read a robot or world file; its diagnostics are appended to those of the scene."""
        from kinema.read import read

        if not isinstance(path, str | os.PathLike):
            raise KinemaError(f"add: expected a robot, a world, a body or the path of a file, not {path!r}")
        description = read(Path(path))
        self.diagnostics.items += description.diagnostics.items
        return description


# ------------------------------------------------------------------------------------------ gravity and medium


def make_medium(density: Any, viscosity: Any, wind: Any) -> Medium:
    """Validate density [kg/m3], viscosity [Pa s] and wind [m/s] of the medium; None for the values of the files."""
    return Medium(
        density=None if density is None else nonnegative_float(density, "density"),
        viscosity=None if viscosity is None else nonnegative_float(viscosity, "viscosity"),
        wind=None if wind is None else finite_vector(wind, "wind", "three"),
    )


class MediumMixin:
    """Part of `Scene`: gravity and fluid medium of a built scene."""

    entities: list[Entity]

    def set_gravity(self, gravity: Any, envs_idx: Any = None) -> None:
        """Set the gravitational acceleration [m/s2].

        Args:
            gravity: (3,); with `build(per_env=("gravity",))` also (n_envs, 3).
            envs_idx: environments by index, slice or mask; None for all.
        """
        self._first_entity.set_gravity(gravity, envs_idx)

    def get_gravity(self, envs_idx: Any = None) -> np.ndarray:
        """Gravitational acceleration [m/s2], (n_envs, 3)."""
        built = self._first_entity._built_scene
        return built.arrays.read("gravity", slice(None), resolve_envs(envs_idx, built.n_envs))

    def set_wind(self, wind: Any, envs_idx: Any = None) -> None:
        """Set the velocity of the medium [m/s].

        Args:
            wind: (3,); with `build(per_env=("wind",))` also (n_envs, 3).
            envs_idx: environments by index, slice or mask; None for all.
        """
        self._set_medium_parameter("wind", (3,), wind, envs_idx)

    def set_density(self, density: Any, envs_idx: Any = None) -> None:
        """Set the density of the medium [kg/m3].

        Args:
            density: a scalar >= 0; with `build(per_env=("density",))` also (n_envs, 1).
            envs_idx: environments by index, slice or mask; None for all.
        """
        self._set_medium_parameter("density", (1,), density, envs_idx)

    def set_viscosity(self, viscosity: Any, envs_idx: Any = None) -> None:
        """Set the dynamic viscosity of the medium [Pa s].

        Args:
            viscosity: a scalar >= 0; with `build(per_env=("viscosity",))` also (n_envs, 1).
            envs_idx: environments by index, slice or mask; None for all.
        """
        self._set_medium_parameter("viscosity", (1,), viscosity, envs_idx)

    def _set_medium_parameter(self, name: str, item_shape: tuple[int, ...], values: Any, envs_idx: Any) -> None:
        """Write parameter `name` of the medium; raises `KinemaError` if the scene was built without a medium."""
        first = self._first_entity
        if not first._built_scene.model.fluid.kinds:
            raise KinemaError(
                f"set_{name}: the program was compiled without a medium; use Scene(density=...), which may be zero"
            )
        first._set_parameter(name, slice(None), item_shape, values, envs_idx, f"set_{name}")

    @property
    def _first_entity(self) -> Entity:
        if not self.entities:
            raise not_built_error()
        return self.entities[0]


# --------------------------------------------------------------------------------------- output type and viewer


class OutputMixin(BuiltMixin):
    """Part of `Scene`: return type of getters."""

    out: str

    def torch(self) -> Self:
        """Let all getters return PyTorch tensors that share the scene's memory, on a CPU or a GPU; returns the scene.

        The tensors change with the scene: `clone` values to keep, and call `mark_modified` after writing to them. On a
        GPU, Warp uses PyTorch's CUDA stream.
        """
        return self._set_output("torch")

    def numpy(self) -> Self:
        """Let all getters return NumPy arrays again, copies that later steps do not change; returns the scene."""
        return self._set_output("numpy")

    def mark_modified(self) -> None:
        """Notify the scene that a returned view or tensor was written to, so that derived quantities are recomputed."""
        self.built.engine.mark_modified()

    def _set_output(self, out: str) -> Self:
        if self._built_scene is not None:
            self._built_scene.outputs.set_kind(out)
        self.out = out
        return self


class ViewerMixin:
    """Part of `Scene`: the viewer, whose module is named at the top of the package."""

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


# ----------------------------------------------------------------------------------------------------- scene

PRECISIONS = ("single", "double")


class Scene(
    AddEntitiesMixin,
    MediumMixin,
    RandomizationMixin,
    EqualitiesMixin,
    ViewerMixin,
    OutputMixin,
    SceneSleepMixin,
    RolloutMixin,
):
    """A simulation of entities in many environments at once.

    Add entities (`add`), allocate environments (`build`), then step (`step`). Options that are None follow the files of
    the entities, else the defaults of MuJoCo.

    Args:
        dt: time step [s]; default 0.002.
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
        broad_phase: broad-phase collision algorithm, `all`, `list` or `auto` (docs/contacts.md).
        max_contacts: contact capacity per pair of bodies, default 64; on a GPU it may be per environment
            (docs/contacts.md). If there are more, the deepest contacts are kept.
        on_overflow: reaction to a contact overflow: `keep` the capacity (default), or `grow` it to twice its size or as
            many as needed.
        on_error: handling of environments with non-finite values: `flag` them (default), `freeze` them in the last
            valid state, or `reset` them before the next step.
        integrator: `implicitfast` (default; implicit in velocity), `euler` (semi-implicit) or `rk4`.
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
        dt: float = 0.002,
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
        integrator: str = "implicitfast",
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
        self._dt = positive_duration(dt, "dt")
        self.device = parse_device_name(device)
        self.precision = one_of(precision, "precision", PRECISIONS)
        self.contacts = boolean(contacts, "contacts")
        self.limits = boolean(limits, "limits")
        self.nonconvex = one_of_or_none(nonconvex, "nonconvex", NONCONVEX_APPROXIMATIONS)
        self.constraints = boolean(constraints, "constraints")
        solver_arguments = {
            "solver": solver,
            "iterations": iterations,
            "ls_iterations": ls_iterations,
            "tolerance": tolerance,
        }
        solver_arguments |= {"cone": cone, "impratio": impratio, "noslip_iterations": noslip_iterations}
        solver_arguments |= {"sleep": sleep, "islands": islands, "broad_phase": broad_phase, "multiccd": multiccd}
        self.solver_options = SolverOptions.from_arguments(**solver_arguments)
        self.energy_limiter = boolean(energy_limiter, "energy_limiter")
        self._max_contacts = None if max_contacts is None else positive_int(max_contacts, "max_contacts", "contact")
        self.on_error = one_of(on_error, "on_error", ON_ERROR)
        self.on_overflow = one_of(on_overflow, "on_overflow", ON_OVERFLOW)
        self.integrator = Integrator(one_of(integrator, "integrator", [i.value for i in Integrator]))
        self.gravity = None if gravity is None else finite_vector(gravity, "gravity", "three")
        self.medium = make_medium(density, viscosity, wind)
        self.substeps = positive_int(substeps, "substeps", "substep")
        self.codegen = one_of(codegen, "codegen", CODEGEN_MODES)
        self.wait = boolean(wait, "wait")
        self.out = one_of(out, "out", OUTPUT_KINDS)
        self.entities: list[Entity] = []
        self.diagnostics = Diagnostics()
        """Messages about files, approximations and unsupported features."""
        self.progress = ProgressBar(quiet)
        self._entity_specs: list[EntitySpec] = []
        self._entity_names: set[str] = set()
        self._env_spacing = np.ones(2)
        self._built_scene: BuiltScene | None = None
        self._sim: Sim | None = None

    def __repr__(self) -> str:
        built = self._built_scene
        status = "not built" if built is None else f"{self.n_envs} environments on {built.engine.device.name}"
        return f"<Scene: {len(self.entities)} entities, {status}>"

    @property
    def dt(self) -> float:
        """Time step [s]; may be changed at any time."""
        return self._dt

    @dt.setter
    def dt(self, dt: float) -> None:
        self._dt = positive_duration(dt, "dt")
        if self._built_scene is not None:
            self._built_scene.engine.dt = self._dt / self.substeps

    @property
    def links(self) -> Any:
        """Flat arrays of all links, `sim.rigid_solver.links_state`: `scene.links.pos` is (n_links, n_envs, 3)."""
        return self.built.engine.fields.links_state

    @property
    def dofs(self) -> Any:
        """Flat arrays of all dofs, `sim.rigid_solver.dofs_state`: `scene.dofs.vel` has shape (n_dofs, n_envs)."""
        return self.built.engine.fields.dofs_state

    # --------------------------------------------------------------------------------------------------- build

    def build(
        self,
        n_envs: int = 1,
        *,
        env_spacing: tuple[float, float] = (1.0, 1.0),
        per_env: Sequence[str] = (),
        external_forces: bool = False,
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
        """
        if self._built_scene is not None:
            raise KinemaError("the scene is already built")
        n_envs = positive_int(n_envs, "build", "environment")
        self._env_spacing = finite_vector(env_spacing, "env_spacing", "two")
        parameters = frozenset([per_env] if isinstance(per_env, str) else per_env)
        self._build(
            n_envs, self._make_settings(parameters, boolean(external_forces, "external_forces")), self.diagnostics
        )
        print_if_terminal(self.summary(), self.progress)

    def _make_settings(self, per_env: frozenset[str], external_forces: bool) -> Settings:
        """Engine settings from the scene's options and files; messages are reported only at the first build."""
        diagnostics = self.diagnostics if self._built_scene is None else Diagnostics()
        return Settings(
            dt=self.dt / self.substeps,
            integrator=self.integrator,
            limits=self.limits,
            constraints=self.constraints,
            contacts=self.contacts,
            **self.solver_options.resolve(self._entity_specs, diagnostics, self.integrator),
            energy_limiter=self.energy_limiter,
            freeze_on_error=self.on_error != "flag",
            per_env=per_env,
            external_forces=external_forces,
        )

    def _rebuild(self, per_env: frozenset[str]) -> BuiltScene:
        """Build the scene again with other per-environment parameters; diagnostics are not reported again."""
        external = self.built.engine.settings.external_forces
        return self._build(self.n_envs, self._make_settings(per_env, external), Diagnostics())

    def _build(self, n_envs: int, settings: Settings, diagnostics: Diagnostics) -> BuiltScene:
        """Build engine, arrays and controls with the given settings, replacing the previous built scene if any."""
        inputs = BuildInputs(
            specs=self._entity_specs,
            entities=self.entities,
            gravity=self.gravity,
            medium=self.medium,
            solver_options=self.solver_options,
            max_contacts=self._max_contacts,
            device=self.device,
            precision=self.precision,
            codegen=self.codegen,
            wait=self.wait,
            out=self.out,
        )
        with pause_garbage_collection(), self.progress.display(3):
            built = self._built_scene = build_scene(inputs, settings, n_envs, diagnostics, self.progress)
        built.controls.diagnostics = self.diagnostics
        if self._sim is None:
            self._sim = Sim(built.engine)
        else:
            self._sim.set_engine(built.engine)
        return built

    def summary(self) -> str:
        """Summary of the built scene, a few lines: environments, device, memory, entities, constraints, diagnostics."""
        return summarize(self.built, self.entities, self.diagnostics)

    # ------------------------------------------------------------------------------------------ time and state

    @property
    def sim(self) -> Sim:
        """Simulator with the flat arrays: `scene.sim.rigid_solver.links_state.pos`."""
        if self._sim is None:
            raise not_built_error()
        return self._sim

    @property
    def env_offsets(self) -> np.ndarray:
        """Display positions of the environments [m], (n_envs, 3): a square grid about the origin, for viewers only."""
        return environment_offsets(self.n_envs, self._env_spacing)

    @property
    def time(self) -> float:
        """Simulated time since the scene was built [s]."""
        return self.sim.time

    def get_state(self, envs_idx: Any = None) -> SceneState:
        """Snapshot of the complete state, from which the simulation continues bit for bit.

        `SceneState.save` writes a file.

        Args:
            envs_idx: environments by index, slice or mask; None for all.
        """
        return snapshot_state(self.built, envs_idx)

    def set_state(self, state: SceneState, envs_idx: Any = None) -> None:
        """Restore a snapshot of this scene or of a scene with an equal model.

        Shared parameters and the time are restored only with all environments together. The history of sensors with
        rate or delay is cleared.

        Args:
            state: the snapshot; that of a single environment is copied to all selected environments.
            envs_idx: environments by index, slice or mask; None for all.
        """
        restore_state(self.built, state, envs_idx)
        self._reset_sensor_history(resolve_envs(envs_idx, self.n_envs))
        if self.built.engine.dt != self._dt / self.substeps:
            self._dt = self.built.engine.dt * self.substeps
