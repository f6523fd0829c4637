"""Beyond one process: files, rollouts and sweeps spread over processes of this machine or the nodes of a Ray cluster."""

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
