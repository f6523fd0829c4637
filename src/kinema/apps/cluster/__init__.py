"""Distributed execution: file conversion, rollouts and parameter sweeps on local processes or a Ray cluster."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from .executor import (
    Executor as Executor,
    InProcessExecutor as InProcessExecutor,
    Outcome as Outcome,
    TaskLimits as TaskLimits,
    as_worker_factory as as_worker_factory,
)
from .local_processes import (
    LocalProcessExecutor as LocalProcessExecutor,
    default_jobs as default_jobs,
    run_in_processes as run_in_processes,
)
from .ray_executor import (
    RayExecutor as RayExecutor,
    WorkerResources as WorkerResources,
    check_nodes as check_nodes,
    list_nodes as list_nodes,
)
from .stores import (
    Ledger as Ledger,
    Store as Store,
    file_digest as file_digest,
    files_unchanged as files_unchanged,
    mirror_to_cache as mirror_to_cache,
    remote_url as remote_url,
    repr_digest as repr_digest,
)

if TYPE_CHECKING:
    from .dataset import EpisodeDataset as EpisodeDataset, open_dataset as open_dataset
    from .env_spec import EnvSpec as EnvSpec, make_env_spec as make_env_spec, scene_entity as scene_entity
    from .episode_runner import (
        EpisodeBatch as EpisodeBatch,
        EpisodeRunner as EpisodeRunner,
        episode_generators as episode_generators,
    )
    from .rollout_collection import rollouts as rollouts
    from .sweeps import (
        SweepRow as SweepRow,
        SweepTable as SweepTable,
        Trial as Trial,
        successive_halving as successive_halving,
        sweep as sweep,
        trainable as trainable,
    )

_LAZY_EXPORTS = {
    "EnvSpec": "env_spec",
    "EpisodeBatch": "episode_runner",
    "EpisodeDataset": "dataset",
    "EpisodeRunner": "episode_runner",
    "SweepRow": "sweeps",
    "SweepTable": "sweeps",
    "Trial": "sweeps",
    "episode_generators": "episode_runner",
    "make_env_spec": "env_spec",
    "open_dataset": "dataset",
    "rollouts": "rollout_collection",
    "scene_entity": "env_spec",
    "successive_halving": "sweeps",
    "sweep": "sweeps",
    "trainable": "sweeps",
}
"""What needs the simulator, which whoever converts files does not wait for."""


def __getattr__(name: str) -> Any:
    if name not in _LAZY_EXPORTS:
        raise AttributeError(f"module 'kinema.apps.cluster' has no attribute {name!r}")
    return getattr(importlib.import_module(f"kinema.apps.cluster.{_LAZY_EXPORTS[name]}"), name)
