"""Parameter sweeps over environment specifications.

Sampling by grid, random numbers or Sobol sequence; successive halving; user-defined generators; Ray Tune. Results are
available as table and plot.
"""

from __future__ import annotations

import csv
import functools
import io
import itertools
import math
import os
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from kinema.core import KinemaError, WriteError, import_optional, write_file
from kinema.scene import Distribution

from .env_spec import EnvSpec, FunctionOrName, Policy, resolve_function
from .episode_runner import EpisodeBatch, EpisodeRunner
from .executor import WAIT_FOR_RESULTS, Executor, TaskLimits
from .executor_selection import ExecutorChoice, progress_bar, select_executor
from .ray_executor import WorkerResources

# ------------------------------------------------------------------------------------------------------------- sampling

METHODS = ("grid", "random", "sobol")
ParameterValues = Sequence[Any] | Distribution
"""Domain of a parameter: a list of values, or a distribution (`km.uniform`, `km.loguniform`, `km.normal`)."""
ParameterSet = dict[str, Any]


def sample_parameters(
    space: Mapping[str, ParameterValues], method: str, samples: int | None, seed: int
) -> Iterator[ParameterSet]:
    """Parameter sets by grid, random or Sobol sampling.

    Args:
        space: domain of each parameter, by path.
        method: `grid` for all combinations of values, `random`, or `sobol` for a low-discrepancy sequence.
        samples: number of parameter sets; None for all points of a grid.
        seed: seed of random samples and of the scrambling of the Sobol sequence.
    """
    if method not in METHODS:
        raise KinemaError(f"sweep: {method!r} is none of {', '.join(METHODS)}, nor a generator")
    if not space:
        raise KinemaError("sweep: there is nothing to vary")
    for name, values in space.items():
        if not isinstance(values, Distribution) and (isinstance(values, str) or not len(values)):
            raise KinemaError(f"sweep: {name}: expected some values or km.uniform(...), not {values!r}")
    if method == "grid":
        yield from itertools.islice(_grid_points(space), samples)
        return
    if samples is None or samples < 1:
        raise KinemaError(f"sweep: say how many {method} samples there are to be")
    units = _random_units(len(space), samples, seed) if method == "random" else _sobol_units(len(space), samples, seed)
    for row in units:
        yield {name: _quantile(values, u) for (name, values), u in zip(space.items(), row, strict=True)}


def _grid_points(space: Mapping[str, ParameterValues]) -> Iterator[ParameterSet]:
    continuous = [name for name, values in space.items() if isinstance(values, Distribution)]
    if continuous:
        raise KinemaError(f"sweep: {continuous[0]}: a grid needs values, not a distribution")
    for combination in itertools.product(*space.values()):  # type: ignore[arg-type]  # ty: ignore[no-matching-overload]
        yield dict(zip(space, combination, strict=True))


def _random_units(dimensions: int, samples: int, seed: int) -> Iterator[np.ndarray]:
    """Uniform points in the unit cube; sample k does not depend on the number of samples."""
    for k in range(samples):
        yield np.random.default_rng([seed, k]).random(dimensions)


def _sobol_units(dimensions: int, samples: int, seed: int) -> np.ndarray:
    from scipy.stats import qmc

    rounds = math.ceil(math.log2(samples))  # powers of two keep the balance properties of the sequence
    return qmc.Sobol(dimensions, scramble=True, rng=np.random.default_rng(seed)).random_base2(rounds)[:samples]


def _quantile(values: ParameterValues, probability: float) -> Any:
    """Quantile of a distribution, or the corresponding item of a list of values, at a probability."""
    if not isinstance(values, Distribution):
        return values[min(int(probability * len(values)), len(values) - 1)]
    if values.kind == "uniform":
        return float(values.a + probability * (values.b - values.a))
    if values.kind == "loguniform":
        return float(math.exp(math.log(values.a) + probability * (math.log(values.b) - math.log(values.a))))
    from scipy.special import ndtri

    return float(values.a + values.b * ndtri(min(max(probability, 1e-12), 1 - 1e-12)))


# -------------------------------------------------------------------------------------------------------------- results


@dataclass(frozen=True, slots=True)
class SweepRow:
    """Result of one parameter set."""

    number: int
    parameters: Mapping[str, Any]
    budget: int
    """Budget of the last trial."""
    values: Mapping[str, float]
    """Measured values by name; empty if the trial failed."""
    failure: str = ""
    log: str = ""

    @property
    def objective(self) -> float:
        """Objective value; NaN if the trial failed."""
        return self.values.get("objective", math.nan)

    def sort_key(self, maximize: bool) -> tuple[float, float, int]:
        """Sort key, best row first: by decreasing budget, then objective; failed trials last."""
        worth = math.inf if math.isnan(self.objective) else (-self.objective if maximize else self.objective)
        return -self.budget if worth < math.inf else 1, worth, self.number


@dataclass(frozen=True, slots=True)
class SweepTable:
    """Results of all trials of a sweep."""

    rows: tuple[SweepRow, ...]
    maximize: bool = False

    @property
    def best(self) -> SweepRow:
        """Row with the best objective among those with the largest budget."""
        found = min(self.rows, key=lambda row: row.sort_key(self.maximize), default=None)
        if found is None or math.isnan(found.objective):
            why = next((row.failure for row in self.rows if row.failure), "there was none")
            raise KinemaError(f"no trial of the sweep came to an end: {why}")
        return found

    @property
    def parameter_names(self) -> list[str]:
        """Names of all parameters."""
        return list(dict.fromkeys(name for row in self.rows for name in row.parameters))

    def __str__(self) -> str:
        return self.text()

    def text(self, max_rows: int = 20) -> str:
        """Text table of the best rows, best first."""
        from rich.console import Console
        from rich.table import Table as Printed

        measured = list(dict.fromkeys(name for row in self.rows for name in row.values))
        printed = Printed("trial", *self.parameter_names, "budget", *measured, "", box=None, padding=(0, 2, 0, 0))
        for row in sorted(self.rows, key=lambda row: row.sort_key(self.maximize))[:max_rows]:
            parameters = [_format_value(row.parameters.get(name, "")) for name in self.parameter_names]
            values = [_format_value(row.values.get(name, "")) for name in measured]
            printed.add_row(str(row.number), *parameters, str(row.budget), *values, row.failure)
        stream = io.StringIO()
        Console(file=stream, width=160, highlight=False).print(printed)
        more = f"and {len(self.rows) - max_rows} more\n" if len(self.rows) > max_rows else ""
        return stream.getvalue() + more

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write all rows to a `.csv` file."""
        measured = list(dict.fromkeys(name for row in self.rows for name in row.values))
        stream = io.StringIO()
        writer = csv.writer(stream)
        writer.writerow(["trial", *self.parameter_names, "budget", *measured, "failure"])
        for row in self.rows:
            parameters = [row.parameters.get(name, "") for name in self.parameter_names]
            writer.writerow(
                [row.number, *parameters, row.budget, *(row.values.get(n, "") for n in measured), row.failure]
            )
        write_file(path, stream.getvalue())

    def plot(self, path: str | os.PathLike[str]) -> None:
        """Write an `.svg` scatter plot of the objective against each numeric parameter."""
        if Path(path).suffix.lower() != ".svg":
            raise WriteError(f"{path}: plots are written as .svg")
        panels = [(name, *self._plot_points(name)) for name in self.parameter_names]
        panels = [panel for panel in panels if len(panel[1])]
        if not panels:
            raise KinemaError("there is nothing to plot: no parameter that was tried is a number, or no trial ended")
        drawn = "\n".join(_svg_panel(k, *panel) for k, panel in enumerate(panels))
        width, height = _PANEL_WIDTH * len(panels), _PANEL_HEIGHT
        head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif">'
        write_file(path, f"{head}\n{drawn}\n</svg>\n")

    def _plot_points(self, name: str) -> tuple[np.ndarray, np.ndarray]:
        pairs = [
            (float(row.parameters[name]), row.objective)
            for row in self.rows
            if isinstance(row.parameters.get(name), int | float) and not math.isnan(row.objective)
        ]
        x, y = np.array(pairs).reshape(-1, 2).T
        return x, y


_PANEL_WIDTH, _PANEL_HEIGHT, _PANEL_MARGIN = 320, 260, 48


def _format_value(value: Any) -> str:
    return f"{value:.5g}" if isinstance(value, float) else str(value)


def _svg_panel(k: int, name: str, x: np.ndarray, y: np.ndarray) -> str:
    """SVG scatter plot of panel k, with the ranges as axis labels."""
    left, right, top, bottom = (
        k * _PANEL_WIDTH + _PANEL_MARGIN,
        (k + 1) * _PANEL_WIDTH - 12,
        16,
        _PANEL_HEIGHT - _PANEL_MARGIN,
    )
    along, across = (np.maximum(np.ptp(v), 1e-300) for v in (x, y))
    px = left + (x - x.min()) / along * (right - left)
    py = bottom - (y - y.min()) / across * (bottom - top)
    dots = "".join(f'<circle cx="{a:.1f}" cy="{b:.1f}" r="3"/>' for a, b in zip(px, py, strict=True))
    label = name.replace("&", "&amp;").replace("<", "&lt;")
    texts = [
        (left, bottom + 16, "start", f"{x.min():.4g}"),
        (right, bottom + 16, "end", f"{x.max():.4g}"),
        (left - 4, bottom, "end", f"{y.min():.4g}"),
        (left - 4, top + 8, "end", f"{y.max():.4g}"),
        ((left + right) / 2, bottom + 34, "middle", label),
    ]
    words = "".join(
        f'<text x="{a:.0f}" y="{b:.0f}" text-anchor="{c}" font-size="11">{t}</text>' for a, b, c, t in texts
    )
    box = f'<rect x="{left}" y="{top}" width="{right - left}" height="{bottom - top}" fill="none" stroke="#888"/>'
    return f'{box}<g fill="#2a6fbb" fill-opacity="0.6">{dots}</g>{words}'


# --------------------------------------------------------------------------------------------------------------- trials

_RUNTIME_PARAMETERS = ("gains.", "controller.")
"""Prefixes of parameters that can be changed without rebuilding the scene."""
_MAX_CACHED_RUNNERS = 4
"""Maximum number of built runners that a process keeps."""


@dataclass(frozen=True, slots=True)
class Trial:
    """Argument of an objective function: parameters, budget and environment specification."""

    number: int
    parameters: Mapping[str, Any]
    """By path."""
    budget: int = 1
    """Requested effort, for example the number of episodes; increased by successive halving."""
    env_spec: EnvSpec | None = None
    """Environment specification of the sweep with these parameters; None if the sweep has none."""
    runners: dict[str, EpisodeRunner] = field(default_factory=dict, repr=False)
    """Built runners of this process by group size and parameters."""

    def run_episodes(self, policy: Policy, episodes: int, *, group_size: int | None = None) -> EpisodeBatch:
        """Run episodes 0 to `episodes` - 1 with these parameters, in groups; the same episodes in every trial."""
        if self.env_spec is None:
            raise KinemaError("this sweep has no recipe that could be played")
        size = min(group_size or episodes, episodes)
        runner = self._runner(size)
        batches = [runner.run_episodes(np.arange(k, min(k + size, episodes)), policy) for k in range(0, episodes, size)]
        names = ("episode", "step", "obs", "action", "reward", "done", "broken")
        return EpisodeBatch(*(np.concatenate([getattr(batch, name) for batch in batches]) for name in names))

    def _runner(self, group_size: int) -> EpisodeRunner:
        """Runner with these parameters, from the cache if only gains and policy parameters differ."""
        assert self.env_spec is not None
        built_in = {k: v for k, v in self.env_spec.parameter_overrides.items() if not k.startswith(_RUNTIME_PARAMETERS)}
        key = f"{group_size} {sorted(built_in.items())!r}"
        if key not in self.runners:
            while len(self.runners) >= _MAX_CACHED_RUNNERS:
                self.runners.pop(next(iter(self.runners)))
            self.runners[key] = EpisodeRunner(self.env_spec, group_size)
        runner = self.runners[key]
        runner.update_gains_and_controller(self.env_spec)
        return runner


class TrialWorker:
    """Worker that evaluates the objective function for parameter sets."""

    def __init__(self, objective: FunctionOrName, env_spec: EnvSpec | None) -> None:
        self._objective: Callable[..., Any] = resolve_function(objective, "objective")
        self._env_spec = env_spec
        self._runners: dict[str, EpisodeRunner] = {}

    def __call__(self, task: tuple[int, Mapping[str, Any], int]) -> dict[str, float]:
        """Objective values of a trial, given as number, parameters and budget."""
        number, parameters, budget = task
        env_spec = None if self._env_spec is None else self._env_spec.with_parameters(parameters)
        return objective_values(self._objective(Trial(number, parameters, budget, env_spec, self._runners)))


def objective_values(value: Any) -> dict[str, float]:
    """Return value of an objective function as a mapping with the key `objective`; NaN replaces infinite objectives."""
    numbers = dict(value) if isinstance(value, Mapping) else {"objective": value}
    if "objective" not in numbers:
        raise KinemaError(f"the objective function gives {', '.join(numbers)}, but nothing called 'objective'")
    result = {str(name): float(x) for name, x in numbers.items()}
    return result if math.isfinite(result["objective"]) else {**result, "objective": math.nan}


# ---------------------------------------------------------------------------------------------------------------- sweep

Proposals = Sequence[ParameterSet] | Generator[Any, Any, Any]
"""A list of parameter sets, or a generator that yields lists of parameter sets and is sent their objective values."""


@dataclass(frozen=True, slots=True)
class SuccessiveHalving:
    """Successive halving: budgets of the rounds and fraction of trials kept; made by `successive_halving`."""

    budgets: tuple[int, ...]
    keep_fraction: float


def successive_halving(*budgets: int, keep_fraction: float = 0.5) -> SuccessiveHalving:
    """Early stopping by successive halving: all trials run with the first budget, the best with each larger budget.

    Args:
        *budgets: increasing values of `Trial.budget` in each round, for example numbers of episodes.
        keep_fraction: fraction of trials that continue to the next round.
    """
    if (
        not budgets
        or any(b < 1 for b in budgets)
        or list(budgets) != sorted(set(budgets))
        or not 0.0 < keep_fraction < 1.0
    ):
        raise KinemaError(
            f"halving: expected budgets that grow, and a share between 0 and 1, not {budgets}, {keep_fraction}"
        )
    return SuccessiveHalving(budgets, keep_fraction)


def sweep(  # noqa: PLR0913
    objective: FunctionOrName,
    space: Mapping[str, ParameterValues] | Proposals,
    *,
    method: str = "grid",
    samples: int | None = None,
    env_spec: EnvSpec | None = None,
    maximize: bool = False,
    early_stopping: SuccessiveHalving | None = None,
    on: ExecutorChoice = None,
    seed: int = 0,
    limits: TaskLimits | None = None,
    resources: WorkerResources | None = None,
    quiet: bool = False,
) -> SweepTable:
    """Evaluate an objective function for many parameter sets; returns a table of results.

    Args:
        objective: a function of a `Trial`, or its import path (`package.module:name`), that returns a number, or a
            mapping of values with the key `objective`.
        space: domain of each parameter by path: a list of values or a distribution. `link[forearm].mass` [kg],
            `joint[elbow].damping`, `scene.dt`, `gains.kp[elbow]`, `controller.speed`, any field of the description.
            Or a list of parameter sets; or a generator that yields such lists and is sent their objectives.
        method: `grid`, `random` or `sobol`.
        samples: number of parameter sets.
        env_spec: the environment that the parameters belong to; `Trial.run_episodes` runs it.
        maximize: whether the objective is maximized.
        early_stopping: `successive_halving(...)`.
        on: where to run: a number of processes, the address of a Ray cluster (`auto`), or None for this process.
        seed: seed of the samples.
        limits: limits of a trial.
        resources: resources of a worker.
        quiet: no progress bar.

    A failed trial has a row with the reason; the other trials continue.
    """
    executor, is_owned = select_executor(on, resources, gpu=env_spec is not None and env_spec.wants_gpu)
    start = functools.partial(TrialWorker, objective, env_spec)
    limits = limits or TaskLimits(timeout=3600.0, retries=3)
    try:
        if isinstance(space, Generator):
            total, plan = samples or 0, _generator_rounds(space, maximize, samples)
        else:
            listed = list(sample_parameters(space, method, samples, seed) if isinstance(space, Mapping) else space)
            total, plan = len(listed), _halving_rounds(listed, early_stopping, maximize)
        with progress_bar(f"trying, {executor.name} of {executor.n_workers}", total, 0, quiet) as advance:
            rows = {row.number: row for row in _run_trials(executor, start, limits, plan, advance)}
        return SweepTable(tuple(rows[number] for number in sorted(rows)), maximize)
    finally:
        if is_owned:
            executor.close()


TrialTask = tuple[int, ParameterSet, int]
"""Number, parameters and budget of a trial."""
TrialRounds = Generator[list[TrialTask], list[SweepRow], None]
"""Generator of rounds of trials that is sent the results of each round."""


def _run_trials(
    executor: Executor, start: Any, limits: TaskLimits, rounds: TrialRounds, advance: Callable[[int], None]
) -> Iterator[SweepRow]:
    """Run rounds of trials and yield their rows; workers persist between rounds."""
    results: list[SweepRow] = []
    pending: list[TrialTask] = next(rounds, [])

    def feed() -> Iterator[Any]:
        nonlocal pending
        while pending:
            yield from pending
            while len(results) < len(pending):
                yield WAIT_FOR_RESULTS
            round_results = sorted(results, key=lambda row: row.number)
            results.clear()
            try:
                pending = rounds.send(round_results)
            except StopIteration:
                return

    for outcome in executor.run(start, feed(), limits):
        number, parameters, budget = outcome.task
        row = SweepRow(number, parameters, budget, outcome.result or {}, outcome.failure, outcome.log)
        results.append(row)
        advance(1)
        yield row


def _halving_rounds(
    parameter_sets: Sequence[ParameterSet], early_stopping: SuccessiveHalving | None, maximize: bool
) -> TrialRounds:
    """Rounds of successive halving; one round with all parameter sets without early stopping."""
    budgets = early_stopping.budgets if early_stopping else (1,)
    remaining = list(enumerate(parameter_sets))
    for budget in budgets:
        rows = yield [(number, point, budget) for number, point in remaining]
        ranked = sorted((r for r in rows if not math.isnan(r.objective)), key=lambda r: r.sort_key(maximize))
        share = early_stopping.keep_fraction if early_stopping else 1.0
        kept = {row.number for row in ranked[: max(1, math.ceil(len(rows) * share))]}
        remaining = [(number, point) for number, point in remaining if number in kept]


def _generator_rounds(generator: Generator[Any, Any, Any], maximize: bool, samples: int | None) -> TrialRounds:
    """Rounds of parameter sets from a generator, which is sent the objectives of each round, up to `samples` trials."""
    count, worst = 0, -math.inf if maximize else math.inf
    proposed = next(generator, None)
    while proposed is not None:
        batch = [proposed] if isinstance(proposed, Mapping) else list(proposed)
        tried = yield [(count + k, dict(point), 1) for k, point in enumerate(batch)]
        if all(row.failure for row in tried):
            raise KinemaError(f"all trials of a round failed: {tried[0].failure}")
        count += len(tried)
        if samples is not None and count >= samples:
            generator.close()
            return
        try:
            proposed = generator.send([worst if math.isnan(row.objective) else row.objective for row in tried])
        except StopIteration:
            return


# ------------------------------------------------------------------------------------------------------------- Ray Tune


def import_ray_tune() -> Any:
    """Import Ray Tune, or raise with the installation hint."""
    return import_optional("ray.tune", purpose="searching with Ray Tune (pip install 'ray[tune]')", extra="cluster")


def trainable(objective: FunctionOrName, env_spec: EnvSpec | None = None) -> Callable[[dict[str, Any]], None]:
    """Trainable for `ray.tune.Tuner`: its `config` is parameters by path, and `objective` is reported.

    Args:
        objective: see `sweep`.
        env_spec: see `sweep`.
    """
    import_ray_tune()

    def train(config: dict[str, Any]) -> None:
        budget = int(config.pop("budget", 1))
        import_ray_tune().report(TrialWorker(objective, env_spec)((0, config, budget)))

    return train
