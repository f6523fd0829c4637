"""Diagnostics are values: what happened, how bad it is, where, and what to do about it.

Readers and checks report into a `Diagnostics` collector and go on; the collector's policy decides whether a
report raises, is logged, or is only kept.
"""

from __future__ import annotations

import enum
import logging
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

_log = logging.getLogger("kinema")


class Severity(enum.StrEnum):
    """How much a diagnostic matters."""

    ERROR = "error"
    """The input is wrong; what was built from it may be incomplete."""
    WARNING = "warning"
    """The input was understood, but something was approximated, ignored, or looks like a mistake."""
    NOTE = "note"
    """Nothing is wrong; the reader says what it did."""


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a node comes from: a file and line, or a path inside a scene (a USD prim path)."""

    file: str = ""
    line: int | None = None
    path: str = ""

    def __str__(self) -> str:
        place = self.file
        if self.line is not None:
            place += f":{self.line}"
        if self.path:
            place = f"{place} <{self.path}>" if place else f"<{self.path}>"
        return place


NOWHERE = Origin()
"""The origin of things made in memory."""


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One thing a reader, check or writer has to say."""

    severity: Severity
    code: str
    """Stable, `area.problem`, such as `urdf.unknown-element` or `inertia.triangle`."""
    message: str
    """A sentence that says what happened and to which element."""
    hint: str = ""
    """What to do about it."""
    origin: Origin = NOWHERE

    def __str__(self) -> str:
        place = f"{self.origin}: " if str(self.origin) else ""
        hint = f" ({self.hint})" if self.hint else ""
        return f"{place}{self.severity.value}: {self.message}{hint} [{self.code}]"

    def to_json(self) -> dict[str, object]:
        """The diagnostic as plain JSON values."""
        return {
            "severity": self.severity.value,
            "code": self.code,
            "message": self.message,
            "hint": self.hint,
            "file": self.origin.file or None,
            "line": self.origin.line,
            "path": self.origin.path or None,
        }


class KinemaError(Exception):
    """The base of every error that Kinema raises on purpose; it carries the diagnostics behind it."""

    def __init__(self, message: str, diagnostics: Iterable[Diagnostic] = ()) -> None:
        super().__init__(message)
        self.diagnostics: list[Diagnostic] = list(diagnostics)


class ReadError(KinemaError):
    """A file could not be read at all: there is no description to give back."""


class WriteError(KinemaError):
    """A description could not be written: nothing was changed on disk."""


class InternalError(ReadError):
    """A defect of Kinema itself, met while reading; never the fault of the file."""


Policy = Callable[[Diagnostic], None]
"""Called with each diagnostic as it is reported; it may raise."""


def collect(diagnostic: Diagnostic) -> None:
    """Policy: keep every diagnostic, say nothing."""


def log_errors(diagnostic: Diagnostic) -> None:
    """Policy: keep every diagnostic, and log the errors so that they are seen by who does not look."""
    if diagnostic.severity is Severity.ERROR:
        _log.error("%s", diagnostic)


def raise_on_error(diagnostic: Diagnostic) -> None:
    """Policy: the first error raises."""
    if diagnostic.severity is Severity.ERROR:
        raise KinemaError(str(diagnostic), [diagnostic])


@dataclass(slots=True)
class Diagnostics:
    """Collects diagnostics in the order they were reported and applies a policy to each."""

    policy: Policy = collect
    items: list[Diagnostic] = field(default_factory=list)

    def report(self, diagnostic: Diagnostic) -> None:
        """Keep a diagnostic, then let the policy react to it."""
        self.items.append(diagnostic)
        self.policy(diagnostic)

    def error(self, code: str, message: str, *, hint: str = "", origin: Origin = NOWHERE) -> None:
        """Report that the input is wrong."""
        self.report(Diagnostic(Severity.ERROR, code, message, hint, origin))

    def warning(self, code: str, message: str, *, hint: str = "", origin: Origin = NOWHERE) -> None:
        """Report an approximation, a loss, or a likely mistake."""
        self.report(Diagnostic(Severity.WARNING, code, message, hint, origin))

    def note(self, code: str, message: str, *, hint: str = "", origin: Origin = NOWHERE) -> None:
        """Report what was done where nothing is wrong."""
        self.report(Diagnostic(Severity.NOTE, code, message, hint, origin))

    def errors(self) -> list[Diagnostic]:
        """The errors among the items."""
        return [d for d in self.items if d.severity is Severity.ERROR]

    def codes(self) -> list[str]:
        """The codes of all items, in order."""
        return [d.code for d in self.items]

    def __iter__(self) -> Iterator[Diagnostic]:
        return iter(self.items)

    def __len__(self) -> int:
        return len(self.items)
