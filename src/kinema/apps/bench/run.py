"""All cases, all simulators, one after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from . import ours, peers
from .case import Case, load
from .ours import Figures

Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Result:
    """Figures of one simulator, beside those of the peer on the same number of cores."""

    case: str
    n_dofs: int
    figures: Figures
    reference: str
    ratio: float
    """How many times the reference's rate."""


def run(
    files: Sequence[Path],
    envs: Sequence[int],
    device: str,
    seconds: float = 1.0,
    progress: Progress = lambda _: None,
    *,
    free: bool = False,
) -> Iterator[Result]:
    """Results as they come."""
    for file in files:
        case = load(file, free=free)
        progress(f"{case.name}: MuJoCo C")
        single = peers.mujoco_c(case, 1, seconds)
        yield _result(case, single, single)
        several = peers.mujoco_c(case, peers.all_cores(), seconds) if peers.all_cores() > 1 else None
        if several is not None:
            yield _result(case, several, single)
        for n_envs in envs:
            if device == "cpu":
                yield from _on_cpu(case, n_envs, seconds, single, several, progress)
            else:
                yield from _on_gpu(case, n_envs, device, seconds, single, progress)


def _on_cpu(
    case: Case, n_envs: int, seconds: float, single: Figures, several: Figures | None, progress: Progress
) -> Iterator[Result]:
    progress(f"{case.name}: Kinema, {n_envs} environments")
    for one_launch in (True, False):
        yield _result(
            case, ours.measure(case, n_envs, "cpu", one_launch=one_launch, threads=1, seconds=seconds), single
        )
    if several is not None:
        yield _result(case, ours.measure(case, n_envs, "cpu", one_launch=False, seconds=seconds), several)


def _on_gpu(
    case: Case, n_envs: int, device: str, seconds: float, single: Figures, progress: Progress
) -> Iterator[Result]:
    reference = single
    if peers.has_mujoco_warp():
        progress(f"{case.name}: MuJoCo Warp, {n_envs} environments")
        reference = peers.mujoco_warp(case, n_envs, device, seconds)
        yield _result(case, reference, single)
    progress(f"{case.name}: Kinema, {n_envs} environments")
    for one_launch in (True, False):
        yield _result(case, ours.measure(case, n_envs, device, one_launch=one_launch, seconds=seconds), reference)


def _result(case: Case, figures: Figures, reference: Figures) -> Result:
    return Result(
        case=case.name,
        n_dofs=case.model.n_dofs,
        figures=figures,
        reference=reference.simulator,
        ratio=figures.rate / reference.rate,
    )
