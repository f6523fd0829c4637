"""Compiled programs of derivatives, and the step that stores the solution of the constraint solver for them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from kinema.core import Array
from kinema.ir import ArenaOffset
from kinema.runtime import (
    Arena,
    ArenaLayout,
    Kernel,
    LaunchArguments,
    Partitioning,
    ProgramSource,
    copy_rows,
    row_filler,
    synchronise_unless_shared,
)

from ..arrays import arena_arrays
from ..extensions import program_key
from ..lowering.derivative_programs import launch_settings, needs_solution
from ..settings import RK4_STAGES, Integrator, Settings

if TYPE_CHECKING:
    from kinema.ir import Program

    from .engine import Engine
    from .parameter_inputs import ParameterInputs

IndexArray = npt.NDArray[np.intp]
CONTROL_ARRAYS = {"ctrl": "ctrl", "position": "command", "force": "dof_force_applied"}
"""Kind of control -> array that the derivatives are taken by."""
ARENAS = ("state", "controls")


def compile_derivative(
    engine: Engine,
    name: str,
    arenas: Mapping[str, Arena],
    trace: Callable[[Mapping[str, ArenaOffset]], Program],
    settings: Settings,
    key: object = (),
    partitioning: Partitioning | None = None,
    lanes: int | None = None,
) -> Kernel:
    """Compile the program of a derivative, or load it from the cache.

    Args:
        engine: engine whose step is differentiated.
        name: name of the program in profilers, and part of its cache key.
        arenas: arenas of the program without `uniform`, which is that of the engine.
        trace: traces the program from the offsets of all arrays.
        settings: settings of the step.
        key: everything else that determines the program.
        partitioning: partitioning of an environment among several GPU threads.
        lanes: environments per SIMD vector on a CPU; None for a choice by the number of environments.
    """
    layouts = [engine.uniform.layout, *(arena.layout for arena in arenas.values())]
    offsets = {array: offset for layout in layouts for array, offset in layout.offsets().items()}
    source = ProgramSource(
        lambda: trace(offsets),
        program_key(name, engine.digest, settings, engine.uses_loops, key),
        f"{engine.name}_{name}",
    )
    with engine.progress(f"compiling the {name.replace('_', ' ')} of a step"):
        return Kernel(
            source,
            offsets,
            engine.device,
            engine.precision,
            lanes=lanes,
            partitioning=partitioning,
            n_envs=arenas["state"].n_envs,
            wait=engine.wait_for_optimised,
        )


class DerivativeProgram:
    """A compiled program of a derivative, with arenas of its own in the layout of the engine's."""

    def __init__(
        self,
        engine: Engine,
        name: str,
        arenas: Mapping[str, Arena],
        trace: Callable[[Mapping[str, ArenaOffset]], Program],
        settings: Settings,
        key: object = (),
        partitioning: Partitioning | None = None,
    ) -> None:
        """Compile a program, or load it from the cache.

        Args:
            engine: engine whose step is differentiated.
            name: name of the program in profilers, and part of its cache key.
            arenas: arenas of the program; `uniform` is that of the engine, and `out` is optional.
            trace: traces the program from the offsets of all arrays.
            settings: settings of the step.
            key: everything else that determines the program.
            partitioning: partitioning of an environment among several GPU threads.
        """
        self.engine, self.arenas = engine, arenas
        self._kernel = compile_derivative(engine, name, arenas, trace, settings, key, partitioning)
        self._output = arenas["out"] if "out" in arenas else new_arena(engine, "out", [], 1)
        self._launches: dict[int, Callable[[], None]] = {}
        self.launch = self.prepared(1)
        """Runs the program once; on a GPU it returns when the program is launched."""

    def prepared(self, count: int) -> Callable[[], None]:
        """Function that launches `count` runs of the program, one after the other."""
        if count not in self._launches:
            state, inputs, threads = self.arenas["state"], self.arenas["controls"].data, self.engine.threads
            self._launches[count] = self._kernel.prepare_launch(
                LaunchArguments(state, inputs, self._output, self.engine.uniform, count, max_threads=threads)
            )
        return self._launches[count]

    def run(self) -> None:
        """Run the program once."""
        self.launch()
        synchronise_unless_shared(self.engine.device)


def new_arena(engine: Engine, name: str, sizes: list[tuple[str, int]], n_envs: int) -> Arena:
    """Arena on the device of an engine, from the names and sizes of its arrays."""
    return engine.new_arena(ArenaLayout.from_sizes(name, sizes), n_envs)


class SolvedStep:
    """The step of an engine on memory of its own, with the solution of the constraint solver in `warm_start`."""

    def __init__(
        self, engine: Engine, settings: Settings, n_envs: int, parameters: ParameterInputs | None = None
    ) -> None:
        """Compile the step.

        Args:
            engine: engine whose step it is.
            settings: `solution_settings` of the engine's; with parameters, their settings.
            n_envs: number of environments.
            parameters: model parameters that are inputs; None if there are none.
        """
        self.engine, self.settings = engine, settings
        model = engine.model if parameters is None else parameters.model
        self._own_arrays = () if parameters is None else parameters.arrays
        """Arrays that are not those of the engine."""
        self.n_stages = RK4_STAGES if settings.integrator is Integrator.RK4 else 1
        """Runs of the program per step."""
        self.arenas = {a: new_arena(engine, a, arena_arrays(a, model, settings), n_envs) for a in ARENAS}

        def trace(offsets: Mapping[str, ArenaOffset]) -> Program:
            from ..lowering.step_program import trace_step

            return trace_step(model, executed, offsets, loops=engine.uses_loops)

        key, executed = () if parameters is None else parameters.key, launch_settings(settings, engine.settings)
        partitioning = engine.partitioning(executed.n_partitions)
        self.program = DerivativeProgram(engine, "solution", self.arenas, trace, executed, key, partitioning)
        self._shared_rows = {name: list(self._find_shared_rows(name)) for name in ARENAS}
        """Arena -> ranges of rows that the engine has too: first row here, first row there, number of rows."""
        self._views: tuple[int, object, object, list[tuple[np.ndarray, np.ndarray]]] | None = None
        """Environment and memory of the engine, and views of their rows."""
        self._n_iterations = None if self.solution is None else self.arenas["state"].view("n_iterations")

    def _find_shared_rows(self, name: str) -> Iterator[tuple[int, int, int]]:
        """Ranges of rows of an arena that the arena of the engine has too, adjacent arrays merged."""
        current = (0, 0, 0)
        for array, (row, n) in self.arenas[name].layout.rows.items():
            offset = self.engine.array_offsets.get(array)
            if not n or offset is None or offset.arena != name or array in self._own_arrays:
                continue
            start, engine_start, count = current
            if count and (row, offset.row) == (start + count, engine_start + count):
                current = (start, engine_start, count + n)
                continue
            if count:
                yield current
            current = (row, offset.row, n)
        if current[2]:
            yield current

    def load(self, envs: IndexArray) -> None:
        """Copy the present state and inputs of environments of the engine."""
        if len(envs) == 1 and isinstance(self.engine.state.data, np.ndarray):
            for source, target in self._views_of_env(int(envs[0])):
                target[:] = source
            return
        for name, ranges in self._shared_rows.items():
            source, target = self._engine_arena(name), self.arenas[name]
            for row, engine_row, n in ranges:
                if isinstance(source.data, np.ndarray):
                    target.data[row : row + n, : len(envs)] = source.data[engine_row : engine_row + n, envs]
                else:
                    target.rows(row, n).assign(source.rows(engine_row, n).numpy()[:, envs])

    def _views_of_env(self, env: int) -> list[tuple[np.ndarray, np.ndarray]]:
        """Views of the shared rows of an environment of the engine, and of the first environment here; kept."""
        state, controls = self.engine.state.data, self.engine.controls.data
        kept = self._views
        if kept is None or kept[0] != env or kept[1] is not state or kept[2] is not controls:
            views = [
                (self._engine_arena(name).data[start : start + n, env], self.arenas[name].data[row : row + n, 0])
                for name, ranges in self._shared_rows.items()
                for row, start, n in ranges
            ]
            kept = self._views = env, state, controls, views
        return kept[3]

    def load_all(self) -> None:
        """Copy the present state and inputs of all environments of the engine; arrays that it has not are zero."""
        for name, arena in self.arenas.items():
            row_filler(arena.data, 0, arena.layout.n_rows)(0.0)
            for row, engine_row, n in self._shared_rows[name]:
                copy_rows(arena.data, row, self._engine_arena(name).data, engine_row, n)

    def store_all(self) -> None:
        """Copy state and inputs of all environments to the engine."""
        self.engine.mark_modified()
        for name, ranges in self._shared_rows.items():
            for row, engine_row, n in ranges:
                copy_rows(self._engine_arena(name).data, engine_row, self.arenas[name].data, row, n)

    def _engine_arena(self, name: str) -> Arena:
        return self.engine.state if name == "state" else self.engine.controls

    def run_stage(self) -> None:
        """Run the step, or the next stage of a Runge-Kutta step."""
        self.program.run()

    @property
    def solution(self) -> Array | None:
        """Constraint accelerations of the last stage, (n_dofs, n_envs); None if there are no constraints."""
        has_solution = needs_solution(self.settings) and self.arenas["state"].layout.rows["warm_start"][1]
        return self.arenas["state"].view("warm_start").numpy() if has_solution else None

    @property
    def solution_rows(self) -> tuple[int, int]:
        """First row of the solution of the constraint solver in the arena `state`, and the row behind the solution."""
        rows = self.arenas["state"].layout.rows
        return (0, 0) if self.solution is None else (rows["warm_start"][0], sum(rows["n_iterations"]))

    @property
    def converged(self) -> npt.NDArray[np.bool_]:
        """Whether the constraint solver of the last stage needed fewer than its maximum of iterations, (n_envs,)."""
        if self._n_iterations is None:
            return np.ones(self.arenas["state"].n_envs, np.bool_)
        limit = self.settings.iterations - 0.5
        return np.array([n < limit for n in self._n_iterations.numpy()[0].tolist()])
