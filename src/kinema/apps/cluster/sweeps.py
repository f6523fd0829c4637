"""Sweeps: try many sets of parameters, and see which is best."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kinema.foundation import KinemaError

from .bar import progress_bar
from .executor import WAIT, Executor, Limits
from .nodes import Needs
from .opening import On, opened
from .recipes import Function, Recipe
from .samples import Point, Values, points
from .sweep_table import Row, Table
from .trials import Trier

Proposals = Sequence[Point] | Generator[Any, Any, Any]
"""Parameters one by one; or a generator that yields lists of them and is sent what each is worth."""


@dataclass(frozen=True, slots=True)
class Halving:
    """Early stopping: all are tried with little effort, those that do well with more. `halving` makes one."""

    budgets: tuple[int, ...]
    keep: float


def halving(*budgets: int, keep: float = 0.5) -> Halving:
    """Try all with the first budget, and those that do best with the next, which is larger.

    Args:
        *budgets: what `Trial.budget` is in each round: numbers of episodes, say.
        keep: the share that goes on to the next round.
    """
    if not budgets or any(b < 1 for b in budgets) or list(budgets) != sorted(set(budgets)) or not 0.0 < keep < 1.0:
        raise KinemaError(f"halving: expected budgets that grow, and a share between 0 and 1, not {budgets}, {keep}")
    return Halving(budgets, keep)


def sweep(  # noqa: PLR0913  one for each choice there is
    objective: Function,
    space: Mapping[str, Values] | Proposals,
    *,
    method: str = "grid",
    samples: int | None = None,
    recipe: Recipe | None = None,
    maximize: bool = False,
    stop: Halving | None = None,
    on: On = None,
    seed: int = 0,
    limits: Limits | None = None,
    needs: Needs | None = None,
    quiet: bool = False,
) -> Table:
    """Try sets of parameters, and give a table of what they are worth.

    Args:
        objective: a function of a `Trial`, or its name (`package.module:name`), that gives a number, or several by name
            of which one is `objective`.
        space: what each parameter may be, by path: some values or a distribution. `link[forearm].mass` [kg],
            `joint[elbow].damping`, `scene.dt`, `gains.kp[elbow]`, `controller.speed`, any field of the description.
            Or sets of parameters; or a generator that yields lists of them and is sent what they are worth.
        method: `grid`, `random` or `sobol`.
        samples: how many sets.
        recipe: the scene that the parameters are of; `Trial.play` plays it.
        maximize: whether more is better.
        stop: `halving(...)`, to give up early on those that do badly.
        on: who tries: a number of processes, the address of a Ray cluster (`auto`), or None for this process.
        seed: of the samples.
        limits: what a trial may cost.
        needs: what a worker takes of its node.
        quiet: no bar.

    A trial that fails has its row, and the others go on.
    """
    executor, own = opened(on, needs, gpu=recipe is not None and recipe.wants_gpu)
    start = functools.partial(Trier, objective, recipe)
    limits = limits or Limits(seconds=3600.0, retries=3)
    try:
        if isinstance(space, Generator):
            total, plan = samples or 0, _told(space, maximize, samples)
        else:
            listed = list(points(space, method, samples, seed) if isinstance(space, Mapping) else space)
            total, plan = len(listed), _rounds(listed, stop, maximize)
        with progress_bar(f"trying, {executor.name} of {executor.workers}", total, 0, quiet) as advance:
            rows = {row.number: row for row in _tried(executor, start, limits, plan, advance)}
        return Table(tuple(rows[number] for number in sorted(rows)), maximize)
    finally:
        if own:
            executor.close()


Asked = tuple[int, Point, int]
"""The number of a trial, its parameters and its budget."""
Plan = Generator[list[Asked], list[Row], None]
"""Trials, round by round; what came of a round is known before the next."""


def _tried(executor: Executor, start: Any, limits: Limits, plan: Plan, advance: Callable[[int], None]) -> Iterator[Row]:
    """What came of trials; workers stay from round to round."""
    back: list[Row] = []
    due: list[Asked] = next(plan, [])

    def feed() -> Iterator[Any]:
        nonlocal due
        while due:
            yield from due
            while len(back) < len(due):
                yield WAIT
            told = sorted(back, key=lambda row: row.number)
            back.clear()
            try:
                due = plan.send(told)
            except StopIteration:
                return

    for outcome in executor.run(start, feed(), limits):
        number, parameters, budget = outcome.task
        row = Row(number, parameters, budget, outcome.result or {}, outcome.failure, outcome.log)
        back.append(row)
        advance(1)
        yield row


def _rounds(listed: Sequence[Point], stop: Halving | None, maximize: bool) -> Plan:
    """All of them; then those that do well, with more effort."""
    budgets = stop.budgets if stop else (1,)
    left = list(enumerate(listed))
    for budget in budgets:
        tried = yield [(number, point, budget) for number, point in left]
        good = sorted((r for r in tried if not math.isnan(r.objective)), key=lambda r: r.rank(maximize))
        share = stop.keep if stop else 1.0
        going = {row.number for row in good[: max(1, math.ceil(len(tried) * share))]}
        left = [(number, point) for number, point in left if number in going]


def _told(generator: Generator[Any, Any, Any], maximize: bool, samples: int | None) -> Plan:
    """Let a generator propose, tell it what came of that, and so on until it ends or there were enough."""
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
