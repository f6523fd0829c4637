"""Beyond one process: files, rollouts and sweeps over processes of this machine or the nodes of a Ray cluster."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from .examining import examined as examined, nodes_of as nodes_of
from .executor import (
    Executor as Executor,
    InProcess as InProcess,
    Limits as Limits,
    Outcome as Outcome,
    always as always,
)
from .ledger import Ledger as Ledger, key_of as key_of, unchanged as unchanged
from .nodes import Needs as Needs
from .on_ray import OnRay as OnRay
from .processes import LocalProcesses as LocalProcesses, default_jobs as default_jobs, work_on_all as work_on_all
from .stores import Store as Store, digest_of as digest_of, mirrored as mirrored, url_of as url_of

if TYPE_CHECKING:
    from .dataset import DataSet as DataSet, open_dataset as open_dataset
    from .drawing import episode_generators as episode_generators
    from .played import Played as Played
    from .playing import rollouts as rollouts
    from .recipes import Recipe as Recipe, recipe as recipe, thing as thing
    from .stage import Stage as Stage
    from .sweep_table import Row as Row, Table as Table
    from .sweeps import halving as halving, sweep as sweep
    from .trials import Trial as Trial
    from .tuning import trainable as trainable

_HOME = {
    "DataSet": "dataset",
    "Played": "played",
    "Recipe": "recipes",
    "Row": "sweep_table",
    "Stage": "stage",
    "Table": "sweep_table",
    "Trial": "trials",
    "episode_generators": "drawing",
    "halving": "sweeps",
    "open_dataset": "dataset",
    "recipe": "recipes",
    "rollouts": "playing",
    "sweep": "sweeps",
    "thing": "recipes",
    "trainable": "tuning",
}
"""What needs the simulator, which whoever converts files does not wait for."""


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'kinema.apps.cluster' has no attribute {name!r}")
    return getattr(importlib.import_module(f"kinema.apps.cluster.{_HOME[name]}"), name)
