"""What the commands share: reading a file, and saying so when it cannot be."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from kinema.description import Base, Robot, World, with_base
from kinema.foundation import Diagnostic, KinemaError, ReadError, Severity, collect
from kinema.read import read

from .standard_input import STANDARD, shown, standard_input

FINE, HAS_ERRORS, UNREADABLE = 0, 1, 2
"""Exit status."""


@dataclass(frozen=True, slots=True)
class ReadSettings:
    """How the input is read; see `kinema.read`."""

    format: str | None = None
    search_paths: Sequence[Path] = ()
    variants: Sequence[str] = ()
    """Choices of a USD stage, as `chosen_variants` takes them."""
    arguments: Sequence[str] = ()
    """Of a xacro file, as `chosen_arguments` takes them."""
    base: str = ""
    """What holds the base; empty for what the file says."""


def settings(
    format: str | None,
    search_paths: Sequence[Path] | None,
    variants: Sequence[str] | None,
    arguments: Sequence[str] | None,
    base: str | None = None,
) -> ReadSettings:
    """What the command line asks for; options that are not given are None."""
    return ReadSettings(format, tuple(search_paths or ()), tuple(variants or ()), tuple(arguments or ()), base or "")


def read_file(file: Path, how: ReadSettings) -> Robot | World:
    """The description; diagnostics are collected, to be shown by the command."""
    options: dict[str, Any] = {}
    if how.variants:
        options["variants"] = chosen_variants(how.variants)
    if how.arguments:
        options["arguments"] = chosen_arguments(how.arguments)
    described = read(file, format=how.format, search_paths=list(how.search_paths), policy=collect, **options)
    return with_base(described, Base(how.base)) if how.base else described


@contextmanager
def named_input(file: Path, how: ReadSettings) -> Iterator[tuple[Path, ReadSettings]]:
    """The file to read and how; the standard input as a file that lasts as long as it is needed.

    What it refers to is looked for in the current folder.
    """
    if file != STANDARD:
        yield file, how
        return
    with standard_input() as copy:
        yield copy, replace(how, search_paths=[*how.search_paths, Path.cwd()])


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


def chosen_arguments(words: Sequence[str]) -> dict[str, str]:
    """Values by name, from words like `wheels:=4`."""
    result: dict[str, str] = {}
    for word in words:
        name, given, value = word.partition(":=")
        if not (name and given):
            raise ReadError(
                f"{word}: this is not of the form name:=value, which is how xacro files are given arguments"
            )
        result[name] = value
    return result


def report_error(error: KinemaError, as_json: bool) -> int:
    """Say in one line why there is nothing to show."""
    from rich.console import Console
    from rich.text import Text

    if as_json:
        found = [d.to_json() for d in error.diagnostics]
        print_json({"error": str(error), "diagnostics": found})
    else:
        Console(stderr=True, soft_wrap=True).print(Text.assemble(("error: ", "bold red"), shown(str(error))))
    return UNREADABLE


def print_json(value: object) -> None:
    """One object on the standard output."""
    print(shown(json.dumps(value, ensure_ascii=False)))  # noqa: T201


def status(diagnostics: Sequence[Diagnostic]) -> int:
    """The exit status that the diagnostics ask for."""
    return HAS_ERRORS if any(d.severity is Severity.ERROR for d in diagnostics) else FINE
