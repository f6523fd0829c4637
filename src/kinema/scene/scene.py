"""A scene: robots added, compiled together, and stepped in many environments at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from kinema.compile import NONCONVEX, Part
from kinema.foundation import ArrayLike, Diagnostics, KinemaError, no_collecting
from kinema.sim import EMISSIONS, Integrator, Settings

from .adding import Adding
from .arguments import choice, device_name, duration, flag, numbers, offsets, one_of_or_none, whole
from .batches import environments
from .building import Plan, build
from .entity import Entity
from .equalities import Equalities
from .giving import Giving
from .health import ON_ERROR, ON_OVERFLOW
from .outputs import OUTPUTS
from .progress import Progress
from .randomizing import Randomizing
from .rollouts import Rolling
from .running import Running
from .showing import Showing
from .sleeping import Sleeping
from .solving import Solving
from .states import SceneState, restore, state_of_scene
from .summary import show, summary_of
from .surroundings import Surroundings, medium_of
from .views import Sim, not_built

PRECISIONS = ("single", "double")


class Scene(Adding, Surroundings, Randomizing, Equalities, Showing, Giving, Sleeping, Rolling):
    """Everything that is simulated together.

    Args:
        dt: time of one step [s].
        device: `cpu`, `cuda:0`, ..., or `auto` for a GPU where there is one.
        precision: `single` (32 bits) or `double`.
        contacts, limits: whether things touch, and joints stop at their limits.
        nonconvex: what meshes touch as that are clearly not convex: `hull`, `decompose` (convex parts) or `sdf` (a
            distance field, with all hollows); None for as files say, else their hull (docs/contacts.md).
        constraints: whether joints have dry friction, mimics follow, equality constraints hold and loops stay closed.
        solver: of constraints, `newton` or `cg`; None, down to `noslip_iterations`, for what the files say.
        iterations, ls_iterations, tolerance: how many steps it takes at most, how many trials along each, and how small
            the slope of the cost is, against the forces, where it ends; in single precision at least 5e-6.
        cone, impratio: of friction, `pyramidal` or `elliptic`, and how much harder it is than what it comes from.
        noslip_iterations: how many sweeps at most let friction hold without slip.
        multiccd: whether convex shapes touch in several points, and not in the deepest only, where no formula tells
            them (cylinders, cones and meshes); None for what the files say, else they do.
        sleep: whether what lies still is left out of the steps until something wakes it (docs/contacts.md), or the
            speed [m/s] below which it is still; None for what the files say.
        islands: whether the forces of things that touch are found by themselves, whatever others do; asleep they are.
        calm: whether motion that is too fast for the step is held to the energy that there is (docs/constraints.md).
        broad_phase: how shapes are passed over that are far apart, `all`, `list` or `auto` (docs/contacts.md).
        max_contacts: for how many contacts between any two bodies there is room, 64 unless said; of more the deepest
            are kept (on a GPU of a whole environment: docs/contacts.md).
        on_overflow: what follows then: `keep` that room, or `grow`, to twice as much or all that is wanted.
        on_error: what is done with an environment once it would no longer be made of finite numbers: `flag` it (it
            stays where it is, in numbers), `freeze` it in its last good state, or `reset` it before the next step.
        integrator: `implicitfast` (implicit in velocity), `euler` (semi-implicit) or `rk4`.
        gravity: [m/s2]; None for what the first file says that says it, else (0, 0, -9.81).
        density, viscosity, wind: of the medium that all moves in [kg/m3, Pa s, m/s]; None for what the files say.
        substeps: how many equal steps `dt` is divided into.
        emission: `unrolled` compiles the step of this very scene, `rolled` loops over tables, which compiles in no time
            whatever the number of joints, and `auto` takes what suits the scene.
        wait: whether steps wait for optimised code. Else they begin with code that compiles quickly, and go on with
            optimised code once that is compiled in the background; results are the same to the last bit.
        quiet: no progress bar and no summary, even on a terminal.
        out: what getters give: `numpy` (arrays that stay as they are), `view` (NumPy on the scene's own memory, on a
            CPU), `torch` (PyTorch tensors on the scene's own memory, wherever it is).
    """

    def __init__(  # noqa: PLR0913  one for each choice there is
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
        calm: bool = False,
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
        emission: str = "auto",
        wait: bool = False,
        quiet: bool = False,
        out: str = "numpy",
    ) -> None:
        self._dt = duration(dt, "dt")
        self.device = device_name(device)
        self.precision = choice(precision, "precision", PRECISIONS)
        self.contacts = flag(contacts, "contacts")
        self.limits = flag(limits, "limits")
        self.nonconvex = one_of_or_none(nonconvex, "nonconvex", NONCONVEX)
        self.constraints = flag(constraints, "constraints")
        solving = {"solver": solver, "iterations": iterations, "ls_iterations": ls_iterations, "tolerance": tolerance}
        solving |= {"cone": cone, "impratio": impratio, "noslip_iterations": noslip_iterations}
        solving |= {"sleep": sleep, "islands": islands, "broad_phase": broad_phase, "multiccd": multiccd}
        self.solving = Solving.asked(**solving)
        self.calm = flag(calm, "calm")
        self._max_contacts = None if max_contacts is None else whole(max_contacts, "max_contacts", "contact")
        self.on_error = choice(on_error, "on_error", ON_ERROR)
        self.on_overflow = choice(on_overflow, "on_overflow", ON_OVERFLOW)
        self.integrator = Integrator(choice(integrator, "integrator", [i.value for i in Integrator]))
        self.gravity = None if gravity is None else numbers(gravity, "gravity", "three")
        self.medium = medium_of(density, viscosity, wind)
        self.substeps = whole(substeps, "substeps", "substep")
        self.emission = choice(emission, "emission", EMISSIONS)
        self.wait = flag(wait, "wait")
        self.out = choice(out, "out", OUTPUTS)
        self.entities: list[Entity] = []
        self.diagnostics = Diagnostics()
        """What was read, approximated or left out."""
        self.progress = Progress(quiet)
        self._parts: list[Part] = []
        self._names: set[str] = set()
        self._spacing = np.ones(2)
        self._running: Running | None = None
        self._sim: Sim | None = None

    def __repr__(self) -> str:
        running = self._running
        built = "not built" if running is None else f"{self.n_envs} environments on {running.engine.device.name}"
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

    def build(
        self,
        n_envs: int = 1,
        *,
        env_spacing: tuple[float, float] = (1.0, 1.0),
        per_env: Sequence[str] = (),
        external_forces: bool = False,
    ) -> None:
        """Compile the model and make room for its environments; a summary goes to the terminal (`Scene.summary`).

        The step itself is compiled when it is first taken, because only then it is known how joints are controlled;
        `prepare` does so at once.

        Args:
            n_envs: how many copies of the scene there are.
            env_spacing: how far apart they are shown in x and y [m] (`env_offsets`): all are simulated at the origin.
            per_env: parameters that may differ between them: `kinema.sim.PARAMETERS`, gravity and wind among them.
            external_forces: whether links and joints can be pushed by `apply_links_external_force` and its like.
        """
        if self._running is not None:
            raise KinemaError("the scene is built already")
        n_envs = whole(n_envs, "build", "environment")
        self._spacing = numbers(env_spacing, "env_spacing", "two")
        asked = frozenset([per_env] if isinstance(per_env, str) else per_env)
        self._run(n_envs, self._settings(asked, flag(external_forces, "external_forces")), self.diagnostics)
        show(self.summary(), self.progress)

    def _settings(self, per_env: frozenset[str], external_forces: bool) -> Settings:
        diagnostics = self.diagnostics if self._running is None else Diagnostics()
        return Settings(
            dt=self.dt / self.substeps,
            integrator=self.integrator,
            limits=self.limits,
            constraints=self.constraints,
            contacts=self.contacts,
            **self.solving.settings(self._parts, diagnostics, self.integrator),
            calm=self.calm,
            freezes=self.on_error != "flag",
            per_env=per_env,
            external_forces=external_forces,
        )

    def _rebuild(self, per_env: frozenset[str]) -> Running:
        """The same with other inputs, from the start; nothing is said twice."""
        external = self.running.engine.settings.external_forces
        return self._run(self.n_envs, self._settings(per_env, external), Diagnostics())

    def _run(self, n_envs: int, settings: Settings, diagnostics: Diagnostics) -> Running:
        plan = Plan(
            parts=self._parts,
            entities=self.entities,
            gravity=self.gravity,
            medium=self.medium,
            solving=self.solving,
            max_contacts=self._max_contacts,
            device=self.device,
            precision=self.precision,
            emission=self.emission,
            wait=self.wait,
            out=self.out,
        )
        with no_collecting(), self.progress.showing(3):
            running = self._running = build(plan, settings, n_envs, diagnostics, self.progress)
        running.controls.diagnostics = self.diagnostics
        if self._sim is None:
            self._sim = Sim(running.engine)
        else:
            self._sim.now_run_by(running.engine)
        return running

    def summary(self) -> str:
        """What is in the scene and what it takes, in a few lines."""
        return summary_of(self.running, self.entities, self.diagnostics)

    # ----------------------------------------------------------------------------------------------- running

    @property
    def sim(self) -> Sim:
        """The engine's side: `scene.sim.rigid_solver.links_state.pos` is a flat array."""
        if self._sim is None:
            raise not_built()
        return self._sim

    @property
    def env_offsets(self) -> np.ndarray:
        """Where environments are shown [m], (n_envs, 3): on a square about the origin; all are simulated there."""
        return offsets(self.n_envs, self._spacing)

    @property
    def time(self) -> float:
        """Simulated time since the scene was built [s]."""
        return self.sim.time

    def get_state(self, envs_idx: Any = None) -> SceneState:
        """Everything that the scene, or some environments, go on from, bit for bit; `save` writes it to a file."""
        return state_of_scene(self.running, envs_idx)

    def set_state(self, state: SceneState, envs_idx: Any = None) -> None:
        """Go on from a state of this scene or one like it; one environment's serves any number.

        Parameters that environments share, and the time, are restored only with all environments together. Sensors that
        tell late, or seldom, begin anew.
        """
        restore(self.running, state, envs_idx)
        self._was_reset(environments(envs_idx, self.n_envs))
        if self.running.engine.dt != self._dt / self.substeps:
            self._dt = self.running.engine.dt * self.substeps
