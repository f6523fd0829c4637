"""The rule registry: a rule is a function with a diagnostic code and a severity that yields findings."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import NamedTuple

from kinema.core import UNKNOWN_ORIGIN, Origin, Severity
from kinema.description import Node

from .context import CheckContext


class Finding(NamedTuple):
    """One problem found by a rule."""

    subject: Node | Origin
    """The node it is about, or where that stands."""
    message: str
    """A sentence with the element's name and the numbers."""
    hint: str = ""
    """How to repair it."""
    severity: Severity | None = None
    """Where the case is worse or milder than the rule's own severity."""

    @property
    def origin(self) -> Origin:
        """Origin of the element in its file."""
        return self.subject.origin if isinstance(self.subject, Node) else self.subject or UNKNOWN_ORIGIN


Findings = Iterable[Finding]
"""What a rule gives back."""


@dataclass(frozen=True, slots=True)
class Rule:
    """Check function with diagnostic code and default severity."""

    code: str
    """`topic.problem`; the topic is the file the rule is in."""
    severity: Severity
    function: Callable[[CheckContext], Findings]

    @property
    def summary(self) -> str:
        """First line of the explanation."""
        return self.explanation.partition("\n")[0]

    @property
    def explanation(self) -> str:
        """Docstring of the function: condition and relevance."""
        return inspect.getdoc(self.function) or ""


_RULES_BY_CODE: dict[str, Rule] = {}


def rule(
    code: str, severity: Severity
) -> Callable[[Callable[[CheckContext], Findings]], Callable[[CheckContext], Findings]]:
    """Decorator that registers a function as a rule under a code."""

    def register(function: Callable[[CheckContext], Findings]) -> Callable[[CheckContext], Findings]:
        if code in _RULES_BY_CODE:
            raise ValueError(f"two rules have the code {code!r}")
        _RULES_BY_CODE[code] = Rule(code, severity, function)
        return function

    return register


def rules_in_topics(topics: Iterable[str]) -> tuple[Rule, ...]:
    """Rules of topics (the first part of a code), topic by topic, in order of registration."""
    return tuple(r for topic in topics for r in _RULES_BY_CODE.values() if r.code.partition(".")[0] == topic)
