"""Scenes of things that touch: all simulators in turn."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np

from ..peers import has_mujoco_warp
from ..run import Result
from .accuracy import accuracy
from .case import STEPS, TouchCase, load_touching
from .figures import Contestant, TouchFigures, race
from .ours import OurRollout, Ours
from .peers import MujocoC, MujocoWarp
from .scenes import Place

Progress = Callable[[str], None]
OTHER_POINTS = 1e-2
"""With an error from MuJoCo that is larger, shapes touch in other points than its own."""
MUJOCO_ENVS = 128
"""As many environments as MuJoCo C is given on a CPU: its rate does not depend on it."""


def run_touching(
    place: Place,
    robots: Sequence[Path | None],
    envs: Sequence[int],
    device: str,
    seconds: float = 1.0,
    progress: Progress = lambda _: None,
) -> Iterator[Result]:
    """Results as they come; on a CPU by CPU time of one core each, else by the clock."""
    for robot in robots:
        progress(f"{place.value if robot is None else robot.stem}: reading, and falling over")
        case = load_touching(place, robot)
        progress(f"{case.name}: MuJoCo C")
        single = MujocoC(case, min(MUJOCO_ENVS, 2 * case.n_starts))
        for n_envs in envs:
            yield from _beside(case, n_envs, device, seconds, single, progress)


def _beside(
    case: TouchCase, n_envs: int, device: str, seconds: float, single: MujocoC, progress: Progress
) -> Iterator[Result]:
    progress(f"{case.name}: Kinema, {n_envs} environments, compiling")
    ours = Ours(case, n_envs, device)
    racing: list[Contestant] = [OurRollout(ours, one_launch=True), OurRollout(ours, one_launch=False)]
    if device == "cpu":
        racing.insert(0, single)
        clock = time.process_time
    else:
        clock = time.perf_counter
        if has_mujoco_warp():
            progress(f"{case.name}: MuJoCo Warp, {n_envs} environments, compiling")
            racing.insert(0, MujocoWarp(case, n_envs, device, single.counts))
        else:
            racing.insert(0, single)
    progress(f"{case.name}: {n_envs} environments, running")
    found = [
        _figures(case, contestant, took) for contestant, took in zip(racing, race(racing, seconds, clock), strict=True)
    ]
    for figures in found:
        yield Result(
            case=case.name,
            n_dofs=case.model.n_dofs,
            figures=figures,
            reference=found[0].simulator,
            ratio=figures.rate / found[0].rate,
        )


def _figures(case: TouchCase, of: Contestant, seconds: float) -> TouchFigures:
    counts = of.counts
    found = accuracy(case, counts.first, case.commands(of.n_envs)[0])
    ours = of.ours if isinstance(of, OurRollout) and found.error > OTHER_POINTS else None
    return TouchFigures(
        simulator=of.name,
        n_envs=of.n_envs,
        rate=of.n_envs * STEPS / seconds,
        error=found.error,
        finite=of.is_finite(),
        bytes_per_env=of.bytes_per_env,
        build_seconds=of.build_seconds,
        error_99=found.error_99,
        residual=found.residual,
        contacts=float(np.mean(counts.contacts)),
        iterations=float(np.mean(counts.iterations)),
        overflows=counts.overflows,
        own_error=None if ours is None else ours.own_error,
    )
