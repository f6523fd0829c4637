"""A rule is a function with a code: it looks at one robot, or at a world's own parts, and yields what it finds."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from types import ModuleType
from typing import NamedTuple

from kinema.description import Node
from kinema.foundation import NOWHERE, Origin, Severity

from .context import Context


class Finding(NamedTuple):
    """One thing that a rule found."""

    place: Node | Origin
    """The node it is about, or where that stands."""
    message: str
    """A sentence with the element's name and the numbers."""
    hint: str = ""
    """How to repair it."""
    severity: Severity | None = None
    """Where the case is worse or milder than the rule's own severity."""

    @property
    def origin(self) -> Origin:
        """Where the element stands in its file."""
        return self.place.origin if isinstance(self.place, Node) else self.place or NOWHERE


Findings = Iterable[Finding]
"""What a rule gives back."""


@dataclass(frozen=True, slots=True)
class Rule:
    """A function, the code of what it finds, and how bad that usually is."""

    code: str
    """`topic.problem`; the topic is the file the rule is in."""
    severity: Severity
    function: Callable[[Context], Findings]

    @property
    def summary(self) -> str:
        """The first line of the explanation."""
        return self.explanation.partition("\n")[0]

    @property
    def explanation(self) -> str:
        """What the rule looks for and why it matters."""
        return inspect.getdoc(self.function) or ""


_TABLE: dict[str, Rule] = {}


def rule(code: str, severity: Severity) -> Callable[[Callable[[Context], Findings]], Callable[[Context], Findings]]:
    """Put the function into the table of rules under this code."""

    def register(function: Callable[[Context], Findings]) -> Callable[[Context], Findings]:
        if code in _TABLE:
            raise ValueError(f"two rules have the code {code!r}")
        _TABLE[code] = Rule(code, severity, function)
        return function

    return register


def rules_of(topics: Iterable[ModuleType]) -> tuple[Rule, ...]:
    """The rules of some files, file by file, within a file in its order."""
    return tuple(r for topic in topics for r in _TABLE.values() if r.function.__module__ == topic.__name__)
