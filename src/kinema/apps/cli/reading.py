"""What the commands share: reading a file, and saying so when it cannot be."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from kinema.description import Robot, World
from kinema.foundation import Diagnostic, ReadError, Severity, collect
from kinema.read import read

FINE, HAS_ERRORS, UNREADABLE = 0, 1, 2
"""Exit status."""


def read_file(file: Path, format: str | None, search_paths: Sequence[Path]) -> Robot | World:
    """The description; diagnostics are collected, to be shown by the command."""
    return read(file, format=format, search_paths=list(search_paths), policy=collect)


def report_unreadable(error: ReadError, as_json: bool) -> int:
    """Say in one line why there is nothing to show."""
    from rich.console import Console
    from rich.text import Text

    if as_json:
        print(json.dumps({"error": str(error), "diagnostics": [d.to_json() for d in error.diagnostics]}))  # noqa: T201
    else:
        Console(stderr=True, soft_wrap=True).print(Text.assemble(("error: ", "bold red"), str(error)))
    return UNREADABLE


def status(diagnostics: Sequence[Diagnostic]) -> int:
    """The exit status that the diagnostics ask for."""
    return HAS_ERRORS if any(d.severity is Severity.ERROR for d in diagnostics) else FINE
