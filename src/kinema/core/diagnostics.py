"""Diagnostics as values (severity, code, message, hint, origin), their collector, and the exception classes.

Readers and checks report to a `Diagnostics` collector and continue; the collector's policy decides whether a report
raises, is logged, or is only stored.
"""

from __future__ import annotations

import enum
import logging
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

_log = logging.getLogger("kinema")


class Severity(enum.StrEnum):
    """Severity of a diagnostic."""

    ERROR = "error"
    """The input is invalid; the result may be incomplete."""
    WARNING = "warning"
    """The input was read, but something was approximated, ignored, or looks like a mistake."""
    NOTE = "note"
    """Nothing is wrong; information on the processing."""


@dataclass(frozen=True, slots=True)
class Origin:
    """Source location of an element: file and line, or a path within a scene (USD prim path)."""

    file: str = ""
    line: int | None = None
    path: str = ""

    def __str__(self) -> str:
        """Text `file:line <path>` with the known parts; empty for an unknown origin."""
        location = self.file
        if self.line is not None:
            location += f":{self.line}"
        if self.path:
            location = f"{location} <{self.path}>" if location else f"<{self.path}>"
        return location


UNKNOWN_ORIGIN = Origin()
"""Origin of elements created in memory."""


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One error, warning or note of a reader, check, builder or writer."""

    severity: Severity
    code: str
    """Stable identifier `area.problem`, such as `urdf.unknown-element` or `inertia.triangle`."""
    message: str
    """Sentence that states the problem and names the element."""
    hint: str = ""
    """Suggested remedy."""
    origin: Origin = UNKNOWN_ORIGIN

    def __str__(self) -> str:
        location = f"{self.origin}: " if str(self.origin) else ""
        hint = f" ({self.hint})" if self.hint else ""
        return f"{location}{self.severity.value}: {self.message}{hint} [{self.code}]"

    def to_json(self) -> dict[str, object]:
        """The diagnostic as a dictionary of JSON values."""
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
    """Base class of all errors that Kinema raises deliberately, with the diagnostics that caused it."""

    def __init__(self, message: str, diagnostics: Iterable[Diagnostic] = ()) -> None:
        super().__init__(message)
        self.diagnostics: list[Diagnostic] = list(diagnostics)


class ReadError(KinemaError):
    """A file could not be read; there is no description to return."""


class WriteError(KinemaError):
    """A description could not be written; nothing was changed on disk."""


class InternalError(ReadError):
    """A defect of Kinema itself, not of the input."""


Policy = Callable[[Diagnostic], None]
"""Called with each reported diagnostic; may raise."""


def collect(diagnostic: Diagnostic) -> None:
    """Policy that only stores diagnostics."""


def log_errors(diagnostic: Diagnostic) -> None:
    """Policy that stores diagnostics and logs errors."""
    if diagnostic.severity is Severity.ERROR:
        _log.error("%s", diagnostic)


def raise_on_error(diagnostic: Diagnostic) -> None:
    """Policy that raises KinemaError on the first error."""
    if diagnostic.severity is Severity.ERROR:
        raise KinemaError(str(diagnostic), [diagnostic])


@dataclass(slots=True)
class Diagnostics:
    """Collector of diagnostics, in the order of reporting, which applies a policy to each."""

    policy: Policy = collect
    items: list[Diagnostic] = field(default_factory=list)

    def report(self, diagnostic: Diagnostic) -> None:
        """Store a diagnostic, then call the policy with it."""
        self.items.append(diagnostic)
        self.policy(diagnostic)

    def error(self, code: str, message: str, *, hint: str = "", origin: Origin = UNKNOWN_ORIGIN) -> None:
        """Report an error: the input is invalid."""
        self.report(Diagnostic(Severity.ERROR, code, message, hint, origin))

    def warning(self, code: str, message: str, *, hint: str = "", origin: Origin = UNKNOWN_ORIGIN) -> None:
        """Report a warning: an approximation, a loss, or a likely mistake."""
        self.report(Diagnostic(Severity.WARNING, code, message, hint, origin))

    def note(self, code: str, message: str, *, hint: str = "", origin: Origin = UNKNOWN_ORIGIN) -> None:
        """Report a note: information on the processing."""
        self.report(Diagnostic(Severity.NOTE, code, message, hint, origin))

    def errors(self) -> list[Diagnostic]:
        """All stored diagnostics of severity error."""
        return [d for d in self.items if d.severity is Severity.ERROR]

    def codes(self) -> list[str]:
        """Codes of all stored diagnostics, in order."""
        return [d.code for d in self.items]

    def __iter__(self) -> Iterator[Diagnostic]:
        return iter(self.items)

    def __len__(self) -> int:
        return len(self.items)
