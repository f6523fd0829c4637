"""A Ray cluster that is not there: as much of Ray as `OnRay` knows, in this process, for nodes of any kind."""

from __future__ import annotations

import sys
import types
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest


class RayError(Exception):
    """As Ray's own: a worker died."""


@dataclass(eq=False)
class Answer:
    """What is due of a worker."""

    give: Callable[[], Any]
    handle: Any = None


@dataclass(eq=False)
class Handle:
    """An actor: calls are run when their answer is taken."""

    worker: Any
    node: str
    asked: dict[str, float]
    cluster: Any

    def __getattr__(self, name: str) -> Any:
        method = getattr(self.worker, name)
        return types.SimpleNamespace(remote=lambda *args: Answer(lambda: method(*args), self))


@dataclass
class PretendRay:
    """Nodes by name with their resources, what each says of itself, and on which of them nothing ever starts."""

    resources: dict[str, dict[str, float]]
    facts: dict[str, dict[str, Any]] = field(default_factory=dict)
    silent: set[str] = field(default_factory=set)
    hired: list[Handle] = field(default_factory=list)
    killed: list[Handle] = field(default_factory=list)

    def nodes(self) -> list[dict[str, Any]]:
        return [
            {"NodeID": n, "Alive": True, "Resources": r, "NodeManagerHostname": n} for n, r in self.resources.items()
        ]

    def remote(self, **asked: float) -> Any:
        def kind(worker: type) -> Any:
            def options(scheduling_strategy: str) -> Any:
                return types.SimpleNamespace(remote=lambda *args: self._hire(worker(*args), scheduling_strategy, asked))

            return types.SimpleNamespace(options=options)

        return kind

    def _hire(self, worker: Any, node: str, asked: dict[str, float]) -> Handle:
        own = worker.hello
        worker.hello = lambda: {**own(), **self.facts.get(node, {})}
        self.hired.append(Handle(worker, node, asked, self))
        return self.hired[-1]

    def wait(self, answers: list[Answer], **_: Any) -> tuple[list[Answer], list[Answer]]:
        return [a for a in answers if a.handle.node not in self.silent], []

    def get(self, answer: Answer) -> Any:
        return answer.give()

    def kill(self, handle: Handle) -> None:
        self.killed.append(handle)

    def put(self, start: Any) -> Any:
        return start

    def is_initialized(self) -> bool:
        return True

    def shutdown(self) -> None:
        """There is nothing."""


def install(ray: PretendRay, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let `OnRay` find it."""
    module: Any = types.ModuleType("ray")
    names = ("nodes", "remote", "wait", "get", "kill", "put", "is_initialized", "shutdown")
    module.__dict__.update({name: getattr(ray, name) for name in names})
    module.exceptions = types.SimpleNamespace(RayError=RayError)
    strategies: Any = types.ModuleType("ray.util.scheduling_strategies")
    strategies.NodeAffinitySchedulingStrategy = lambda number, soft: number
    monkeypatch.setitem(sys.modules, "ray", module)
    monkeypatch.setitem(sys.modules, "ray.util", types.ModuleType("ray.util"))
    monkeypatch.setitem(sys.modules, "ray.util.scheduling_strategies", strategies)
