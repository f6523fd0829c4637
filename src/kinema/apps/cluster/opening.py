"""Who works, from what users say."""

from __future__ import annotations

from kinema.foundation import KinemaError

from .executor import Executor, InProcess
from .nodes import Needs
from .on_ray import OnRay
from .processes import LocalProcesses

On = Executor | int | str | None
"""An executor; a number of processes; the address of a Ray cluster, or `auto`; None for this process."""


def opened(on: On, needs: Needs | None = None, *, gpu: bool = False) -> tuple[Executor, bool]:
    """Who works, and whether whoever asked has to close it; on a cluster one worker per GPU where that is wanted."""
    if needs is None and gpu:
        needs = Needs(gpus=1.0)
    if isinstance(on, Executor):
        return on, False
    if on is None:
        return InProcess(), True
    if isinstance(on, bool) or not isinstance(on, int | str):
        raise KinemaError(f"on: expected a number of processes, the address of a Ray cluster or None, not {on!r}")
    return (LocalProcesses(on) if isinstance(on, int) else OnRay(on, needs)), True
