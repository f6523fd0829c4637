"""`rollouts`: runs many episodes on an executor and writes them as a dataset, reproducible to the bit."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import os
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from kinema.core import KinemaError, record_entries, store_recorded_entries
from kinema.runtime import find_device

from .dataset import (
    FILE_ENCODERS,
    ROW_KINDS,
    DatasetWriter,
    EpisodeDataset,
    columns_digest,
    episode_columns,
    import_pyarrow,
    part_file_stem,
)
from .env_spec import EnvSpec, Policy, function_name
from .episode_runner import EpisodeBatch, EpisodeRunner
from .executor import InProcessExecutor, TaskLimits
from .executor_selection import ExecutorChoice, progress_bar, select_executor
from .ray_executor import WorkerResources, kinema_version
from .stores import Store, repr_digest


@dataclass(frozen=True, slots=True)
class EpisodeGroup:
    """Consecutive episodes that run together and are written to one file."""

    number: int
    first: int
    count: int


@dataclass(frozen=True, slots=True)
class OutputSettings:
    """Policy, selection of rows and destination of the files of a rollout."""

    policy: Policy
    keep: str
    every: int
    store: str
    """Folder or URL that workers write to; empty if workers return the file content instead."""
    marker_file: str = ""
    """File that identifies the folder: another machine may have a different folder of the same name."""
    format: str = "parquet"

    def for_this_machine(self) -> OutputSettings:
        """Settings for this machine: without `store` if the folder with the marker file is not reachable from here."""
        is_reachable = not self.marker_file or (Path(self.store) / self.marker_file).exists()
        return self if is_reachable else dataclasses.replace(self, store="")


class RolloutWorker:
    """Worker that runs groups of episodes; the result of a group can be encoded while the next group runs."""

    def __init__(self, runner: EpisodeRunner, output_settings: OutputSettings) -> None:
        self._runner, self._output_settings = runner, output_settings.for_this_machine()

    def __call__(self, group: EpisodeGroup) -> tuple[dict[str, Any], bytes]:
        """Run and encode a group: returns its record, and the file content unless the file has been written."""
        return self.begin(group)()

    def begin(self, group: EpisodeGroup) -> Callable[[], tuple[dict[str, Any], bytes]]:
        """Run a group of episodes; returns a function that encodes the result."""
        start = time.perf_counter()
        episodes = self._runner.run_episodes(
            np.arange(group.first, group.first + group.count), self._output_settings.policy
        )
        return functools.partial(self._encode, group, episodes, time.perf_counter() - start)

    def _encode(self, group: EpisodeGroup, episodes: EpisodeBatch, seconds: float) -> tuple[dict[str, Any], bytes]:
        """Encode the episodes of a group, write the file if a store is reachable, and return its record and content."""
        settings = self._output_settings
        columns = episode_columns(episodes, settings.keep, settings.every)
        content, name = FILE_ENCODERS[settings.format](columns), f"{part_file_stem(group.number)}.{settings.format}"
        record = {
            "file": name,
            "first": group.first,
            "episodes": group.count,
            "rows": len(columns["episode"]),
            "digest": columns_digest(columns),
            "bytes": len(content),
            "seconds": round(seconds, 4),
        }
        if settings.store:
            Store(settings.store).write(name, content)
            content = b""
        return record, content


def make_rollout_worker(
    env_spec: EnvSpec, group_size: int, output_settings: OutputSettings, compiled_programs: Mapping[str, bytes]
) -> RolloutWorker:
    """Create a worker with its own episode runner, after adding programs compiled elsewhere to the local cache."""
    store_recorded_entries(compiled_programs)
    return RolloutWorker(EpisodeRunner(env_spec, group_size), output_settings)


def rollouts(  # noqa: PLR0913
    env_spec: EnvSpec,
    policy: Policy,
    episodes: int,
    *,
    out: str | os.PathLike[str],
    on: ExecutorChoice = None,
    group_size: int = 256,
    keep: str = "steps",
    every: int = 1,
    format: str = "parquet",
    limits: TaskLimits | None = None,
    resources: WorkerResources | None = None,
    quiet: bool = False,
) -> EpisodeDataset:
    """Run episodes and write them as Parquet or Arrow files with a manifest; existing files are not computed again.

    Episode k is bitwise reproducible, independently of executor, order and worker failures: all random numbers depend
    on the seed of the specification and on k, and every group runs in the same number of environments.

    Args:
        env_spec: the scene and its episodes.
        policy: maps observations, (group, k), to actions, (group, n): a function of NumPy arrays, a `torch.nn.Module`,
            an import path (`package.module:name`), or None for no actions. A method `begin(episodes, seed)` of the
            policy is called at the start of each group. Parameters `controller.*` of the specification are passed as
            keyword arguments.
        episodes: number of episodes, numbered from 0.
        out: output folder or URL (`s3://...`). Workers write to it directly, except on machines without access to
            that folder: they return the content of their files.
        on: where to run: a number of processes, the address of a Ray cluster (`auto` for the running one), or None
            for this process.
        group_size: number of episodes that run at once and are written to one file.
        keep: `steps` for one row per step, `episodes` for one row per episode with its return.
        every: keep only every so many steps.
        format: `parquet`, or `arrow`, which is faster to read.
        limits: limits of a group; by default one hour, and five retries after worker failures.
        resources: resources of a worker; by default one core, and a GPU if the scene is on one.
        quiet: no progress bar.

    Raises:
        KinemaError: a group failed (the message contains its log), or the folder contains another dataset.
    """
    _validate_arguments(episodes, group_size, keep, every, format)
    import_pyarrow()  # fails early if the package is missing
    executor, is_owned = select_executor(on, resources, gpu=env_spec.wants_gpu)
    with contextlib.ExitStack() as cleanup:
        if is_owned:
            cleanup.callback(executor.close)
        local_spec = env_spec if isinstance(executor, InProcessExecutor) else _for_this_machine(env_spec)
        runner = EpisodeRunner(local_spec, group_size)
        header = {**_dataset_header(env_spec, runner, policy, episodes), "keep": keep, "every": every, "format": format}
        writer = DatasetWriter(out, header, -(-episodes // group_size))
        cleanup.callback(writer.close)
        settings = OutputSettings(policy, keep, every, writer.store.location, writer.marker_file, format)
        remaining = (g for g in _episode_groups(episodes, group_size) if not writer.has_group(g.number))
        done = episodes - sum(g.count for g in _episode_groups(episodes, group_size) if not writer.has_group(g.number))
        if isinstance(executor, InProcessExecutor):
            start: Any = functools.partial(RolloutWorker, runner, settings)
        else:
            code = _precompile(runner, policy) if done < episodes and local_spec is env_spec else {}
            start = functools.partial(make_rollout_worker, env_spec, group_size, settings, code)
            del runner
        limits = limits or TaskLimits(timeout=3600.0, retries=5, n_prefetched=1)
        with progress_bar(f"playing, {executor.name} of {executor.n_workers}", episodes, done, quiet) as advance:
            for outcome in executor.run(start, remaining, limits):
                if outcome.result is None:
                    raise KinemaError(
                        f"{part_file_stem(outcome.task.number)}: {outcome.failure}\n{outcome.log}".strip()
                    )
                record, content = outcome.result
                if content:
                    writer.store.write(record["file"], content)
                writer.record_group(outcome.task.number, record)
                advance(outcome.task.count)
        return writer.finish()


def _validate_arguments(episodes: int, group_size: int, keep: str, every: int, format: str) -> None:
    for name, value in (("episodes", episodes), ("group", group_size), ("every", every)):
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise KinemaError(f"rollouts: {name}: expected a whole number of at least 1, not {value!r}")
    if keep not in ROW_KINDS:
        raise KinemaError(f"rollouts: keep: {keep!r} is none of {', '.join(ROW_KINDS)}")
    if format not in FILE_ENCODERS:
        raise KinemaError(f"rollouts: format: {format!r} is none of {', '.join(FILE_ENCODERS)}")


def _episode_groups(episodes: int, size: int) -> Iterator[EpisodeGroup]:
    for number, first in enumerate(range(0, episodes, size)):
        yield EpisodeGroup(number, first, min(size, episodes - first))


def _for_this_machine(env_spec: EnvSpec) -> EnvSpec:
    """Specification that can be built on this machine: with the CPU as device if the GPU is not available here."""
    if env_spec.wants_gpu:
        try:
            find_device(str(env_spec.scene["device"]))
        except KinemaError:
            return dataclasses.replace(env_spec, scene={**env_spec.scene, "device": "cpu"})
    return env_spec


def _dataset_header(env_spec: EnvSpec, runner: EpisodeRunner, policy: Policy, episodes: int) -> dict[str, Any]:
    """Header of a dataset: digest of model, settings and policy, seed, counts, time step and names."""
    return {
        "kinema": kinema_version(),
        "recipe": repr_digest(runner.scene.built.model_key, env_spec.settings_repr(), function_name(policy)),
        "seed": env_spec.seed,
        "episodes": episodes,
        "group": runner.group_size,
        "seconds_per_step": runner.step_dt,
        "links": list(runner.scene.built.model.links.names),
        "joints": list(runner.scene.built.model.joints.names),
    }


def _precompile(runner: EpisodeRunner, policy: Policy) -> dict[str, bytes]:
    """Compile the programs of a runner once, for reuse by workers: returns the new cache entries by key."""
    with record_entries() as entries:
        runner.run_episodes(np.arange(1), policy, max_steps=1)
    return entries
