"""Answers to questions about many coordinates at a time: programs compiled once, run on batches of any size."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from kinema.backend import Arena, Arguments, Device, Kernel, Layout, synchronise
from kinema.foundation import Array, KinemaError
from kinema.model import Model, no_geoms, no_pairs
from kinema.trace import UNIFORM

from ..arrays import ARRAYS, Use, arrays_of, start_of
from ..fields.groups import JACOBIAN, Situation
from ..fields.names import n_items
from ..lower.condition import find_rest_lengths
from ..lower.plan import field_program, wants_rolling
from ..settings import Settings
from . import questions
from .questions import ASKED, DRIFT, Question

SETTINGS = Settings()


class Answers:
    """A model to be asked about; arrays have one row for each of n sets of coordinates."""

    def __init__(self, model: Model, device: Device, precision: str, threads: int | None = None) -> None:
        find_rest_lengths(model)
        self.model = replace_shapes(model)
        self.device = device
        self.precision = precision
        self.threads = threads
        self._layouts = {
            name: Layout.of(name, arrays_of(name, self.model, SETTINGS)) for name in ("state", "told", UNIFORM)
        }
        self._is_rolled = wants_rolling(self.model, SETTINGS, copies=False)
        self._uniform = self._started(UNIFORM, 1)
        self._batch: tuple[Arena, Arena] | None = None
        self._kernels: dict[object, tuple[Kernel, Layout]] = {}

    def _started(self, name: str, n: int) -> Arena:
        """An arena with all arrays as they are to begin with."""
        arena = Arena(self._layouts[name], n, self.device, self.precision)
        for info in ARRAYS:
            if info.name in arena.layout.rows and arena.layout.rows[info.name][1] and info.use is not Use.TOLD:
                arena.field(info.name).assign(start_of(info, self.model, SETTINGS))
        return arena

    def ask(self, key: object, question: Callable[[], Question], **given: Array) -> dict[str, Array]:
        """The arrays of an answer, (n, numbers): `given` are coordinates `qpos`, velocities `vel`, accelerations."""
        if not self.model.n_dofs:
            raise KinemaError("nothing of this robot moves")
        n = len(given["qpos"])
        if self._batch is None or self._batch[0].n_envs != n:
            self._batch = self._started("state", n), self._started("told", n)
        state, told = self._batch
        if key not in self._kernels:
            self._kernels[key] = self._compiled(question())
        kernel, layout = self._kernels[key]
        out = Arena(layout, n, self.device, self.precision)
        velocity = given.get("vel")
        state.field("qpos").assign(given["qpos"].T)
        state.field("vel").assign(0.0 if velocity is None else velocity.T)
        if ASKED in layout.rows and "acc" in given:
            out.field(ASKED).assign(given["acc"].T)
        kernel.record(Arguments(state, told.data, out, self._uniform, threads=self.threads))()
        synchronise(self.device)
        return {name: np.array(out.field(name).numpy().T, np.float64) for name in layout.rows}

    def _compiled(self, question: Question) -> tuple[Kernel, Layout]:
        sizes = [
            (name, n_items(self.model, owner, SETTINGS) * width) for name, (owner, width) in question.outputs.items()
        ]
        layout = Layout.of("out", sizes)
        places = {a: p for x in self._layouts.values() for a, p in x.places().items()} | layout.places()
        program = field_program(
            self.model,
            SETTINGS,
            places,
            lambda sweeps, articulated: question.run(Situation(sweeps, articulated)),
            question.outputs,
            rolled=self._is_rolled,
            prefix="",
        )
        return Kernel(program, places, self.device, self.precision), layout

    # ---------------------------------------------------------------------------------------------------- questions

    def poses(self, qpos: Array) -> tuple[Array, Array]:
        """Positions (n, n_links, 3) and quaternions (n, n_links, 4) of all links."""
        found = self.ask("poses", lambda: questions.poses(self.model), qpos=qpos)
        n, count = len(qpos), self.model.n_links
        return found["link position"].reshape(n, count, 3), found["link quaternion"].reshape(n, count, 4)

    def jacobian(self, qpos: Array, link: int, qvel: Array | None = None) -> tuple[Array, Array]:
        """A link's Jacobian, (n, 6, n_dofs), and its acceleration while no coordinate accelerates, (n, 6)."""
        given = {"qpos": qpos} if qvel is None else {"qpos": qpos, "vel": qvel}
        found = self.ask(("jacobian", link), lambda: questions.jacobian(link), **given)
        drift = found[DRIFT].reshape(len(qpos), -1, 6)[:, link]
        return np.stack([found[name] for name in JACOBIAN], axis=1), drift

    def mass_matrix(self, qpos: Array) -> Array:
        """The joint-space inertia, (n, n_dofs, n_dofs)."""
        found = self.ask("mass", lambda: questions.mass(self.model), qpos=qpos)
        return found["inertia of joints"].reshape(len(qpos), self.model.n_dofs, self.model.n_dofs)

    def center_of_mass(self, qpos: Array) -> Array:
        """The centre of mass of everything, (n, 3)."""
        masses = self.model.links.inertial_mass
        if masses.sum() <= 0.0:
            raise KinemaError("nothing of this robot has mass, so there is no centre of mass")
        found = self.ask("center", lambda: questions.center(self.model), qpos=qpos)
        centers = found["link center"].reshape(len(qpos), -1, 3)
        return np.einsum("i,nij->nj", masses / masses.sum(), centers)

    def inverse_dynamics(self, qpos: Array, qvel: Array, qacc: Array) -> Array:
        """What actuators have to do for these accelerations, (n, n_dofs)."""
        given = {"qpos": qpos, "vel": qvel, "acc": qacc}
        return self.ask("forces", lambda: questions.forces(self.model), **given)["force that it takes"]

    def holding_forces(self, qpos: Array, qvel: Array | None = None) -> Array:
        """What the weight of links takes, and with velocities what their gyration does, (n, n_dofs)."""
        given = {"qpos": qpos} if qvel is None else {"qpos": qpos, "vel": qvel}
        return self.ask("forces", lambda: questions.forces(self.model), **given)["force that holds"]


def replace_shapes(model: Model) -> Model:
    """The model without what touches."""
    return replace(model, geoms=no_geoms(), pairs=no_pairs())
