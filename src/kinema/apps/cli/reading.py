"""What the commands share: reading a file, and saying so when it cannot be."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kinema.description import Robot, World
from kinema.foundation import Diagnostic, ReadError, Severity, collect
from kinema.read import read

FINE, HAS_ERRORS, UNREADABLE = 0, 1, 2
"""Exit status."""


def read_file(
    file: Path, format: str | None, search_paths: Sequence[Path], variants: Sequence[str] = ()
) -> Robot | World:
    """The description; diagnostics are collected, to be shown by the command.

    Args:
        file: what to read.
        format: its format; None to find out.
        search_paths: folders of packages and models.
        variants: choices of a USD stage, as `chosen_variants` takes them.
    """
    options: dict[str, Any] = {"variants": chosen_variants(variants)} if variants else {}
    return read(file, format=format, search_paths=list(search_paths), policy=collect, **options)


def chosen_variants(words: Sequence[str]) -> dict[str, dict[str, str]]:
    """Prim path -> {variant set: variant}, from words like `/World/robot:gripper=two_fingers`."""
    result: dict[str, dict[str, str]] = {}
    for word in words:
        prim, colon, choice = word.partition(":")
        variant_set, equals, variant = choice.partition("=")
        if not (prim.startswith("/") and colon and variant_set and equals and variant):
            raise ReadError(f"--variant {word}: this is not of the form /prim/path:set=variant")
        result.setdefault(prim, {})[variant_set] = variant
    return result


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
