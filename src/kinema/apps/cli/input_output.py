"""Functions shared by the commands: read settings, standard input as a file, error reports, diagnostics tables."""

from __future__ import annotations

import json
import os
import re
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from kinema.core import Diagnostic, KinemaError, Origin, ReadError, Severity, collect
from kinema.description import Base, Robot, World, with_base
from kinema.read import read

from .options import ReadSettings

# ------------------------------------------------------------------------------------------------------- standard input

STANDARD_STREAM = Path("-")
"""What the standard input and output are called on the command line."""
_STDIN_LABEL = "<stdin>"
_COPY_FOLDER_PREFIX, _COPY_STEM = "kinema-stdin-", "stdin"
_COPY_PATH = re.compile(rf"[^\s\"'<>()]*{_COPY_FOLDER_PREFIX}\w+[/\\]+{_COPY_STEM}\.\w+")
_MAX_STDIN_BYTES = 512 * 2**20
_SUFFIX_BY_MAGIC = {
    b"#usda": ".usda",
    b"PXR-USDC": ".usdc",
    b"PK\x03\x04": ".usdz",
    b"ISO-10303-21": ".step",
    b"{": ".json",
}


@contextmanager
def copy_standard_input() -> Iterator[Path]:
    """Context manager with a temporary file that contains the standard input."""
    data = sys.stdin.buffer.read(_MAX_STDIN_BYTES + 1)
    if len(data) > _MAX_STDIN_BYTES:
        raise ReadError(f"the standard input has more than {_MAX_STDIN_BYTES} bytes, which are not read")
    if not data.strip():
        raise ReadError("the standard input is empty")
    begin = data.lstrip()
    suffix = next((s for word, s in _SUFFIX_BY_MAGIC.items() if begin.startswith(word)), ".xml")
    if suffix == ".xml" and b"xacro:" in data:
        suffix = ".xacro"
    with tempfile.TemporaryDirectory(prefix=_COPY_FOLDER_PREFIX) as folder:
        copy = Path(folder) / f"{_COPY_STEM}{suffix}"
        copy.write_bytes(data)
        yield copy


def mask_stdin_copy(text: str) -> str:
    """Replace the path of the copy of the standard input by `<stdin>` in a text."""
    return _COPY_PATH.sub(_STDIN_LABEL, text) if _COPY_FOLDER_PREFIX in text else text


# -------------------------------------------------------------------------------------------- reading and error reports

EXIT_OK, EXIT_HAS_ERRORS, EXIT_FAILED = 0, 1, 2
"""Exit status."""


def read_file(file: Path, read_settings: ReadSettings) -> Robot | World:
    """Read a description; diagnostics are collected, to be shown by the command."""
    options: dict[str, Any] = {}
    if read_settings.variants:
        options["variants"] = parse_variants(read_settings.variants)
    if read_settings.arguments:
        options["arguments"] = parse_xacro_arguments(read_settings.arguments)
    described = read(
        file, format=read_settings.format, search_paths=read_settings.search_paths or [], policy=collect, **options
    )
    return with_base(described, Base(read_settings.base)) if read_settings.base else described


@contextmanager
def open_input(file: Path, read_settings: ReadSettings) -> Iterator[tuple[Path, ReadSettings]]:
    """File to read and its settings; the standard input is copied to a temporary file.

    References of the standard input are resolved in the current folder.
    """
    if file != STANDARD_STREAM:
        yield file, read_settings
        return
    with copy_standard_input() as copy:
        yield copy, replace(read_settings, search_paths=[*(read_settings.search_paths or []), Path.cwd()])


def parse_variants(selections: Sequence[str]) -> dict[str, dict[str, str]]:
    """Variant selections by prim path and variant set, from `/World/robot:gripper=two_fingers`."""
    result: dict[str, dict[str, str]] = {}
    for word in selections:
        prim, colon, choice = word.partition(":")
        variant_set, equals, variant = choice.partition("=")
        if not (prim.startswith("/") and colon and variant_set and equals and variant):
            raise ReadError(f"--variant {word}: this is not of the form /prim/path:set=variant")
        result.setdefault(prim, {})[variant_set] = variant
    return result


def parse_xacro_arguments(assignments: Sequence[str]) -> dict[str, str]:
    """Xacro arguments by name, from `wheels:=4`."""
    result: dict[str, str] = {}
    for word in assignments:
        name, given, value = word.partition(":=")
        if not (name and given):
            raise ReadError(
                f"{word}: this is not of the form name:=value, which is how xacro files are given arguments"
            )
        result[name] = value
    return result


def report_error(error: KinemaError, as_json: bool) -> int:
    """Print an error on one line or as JSON."""
    from rich.console import Console
    from rich.text import Text

    if as_json:
        found = [d.to_json() for d in error.diagnostics]
        print_json({"error": str(error), "diagnostics": found})
    else:
        Console(stderr=True, soft_wrap=True).print(Text.assemble(("error: ", "bold red"), mask_stdin_copy(str(error))))
    return EXIT_FAILED


def report_failure(error: KinemaError, as_json: bool) -> int:
    """Print why a file cannot be processed; returns the exit status.

    A `ReadError` means that the file could not be read at all; an error with diagnostics is the file's fault, and the
    diagnostics are listed; any other error is the command's.
    """
    is_about_the_file = bool(error.diagnostics) and not isinstance(error, ReadError)
    if is_about_the_file and not as_json:
        print_diagnostics(output_console(), error.diagnostics)
    report_error(error, as_json)
    return EXIT_HAS_ERRORS if is_about_the_file else EXIT_FAILED


def print_json(value: object) -> None:
    """Print a JSON object to the standard output."""
    print(mask_stdin_copy(json.dumps(value, ensure_ascii=False)))  # noqa: T201


def exit_status(diagnostics: Sequence[Diagnostic]) -> int:
    """Exit status for diagnostics: 1 if there are errors, otherwise 0."""
    return EXIT_HAS_ERRORS if any(d.severity is Severity.ERROR for d in diagnostics) else EXIT_OK


# --------------------------------------------------------------------------------------------------- diagnostics tables

_SEVERITY_STYLE = {Severity.ERROR: "bold red", Severity.WARNING: "yellow", Severity.NOTE: "cyan"}
_MAX_BRIEF_ROWS = 8
"""How many diagnostics of a severity a command shows that is not about them."""


_PIPED_WIDTH = 180
"""Width of tables that go to a file or another program, which have no width of their own."""


def output_console() -> Console:
    """Console for results."""
    console = Console(highlight=False)
    if console.is_terminal or os.environ.get("COLUMNS", "").isdigit():
        return console  # which knows its width
    return Console(highlight=False, width=_PIPED_WIDTH)


def diagnostic_source(diagnostic: Diagnostic) -> str:
    """Tool that a diagnostic comes from: Kinema, or another validator."""
    return "OpenUSD" if diagnostic.code.startswith("openusd.") else "Kinema"


def print_diagnostics(
    console: Console, diagnostics: Sequence[Diagnostic], *, brief: bool = False, show_source: bool = False
) -> None:
    """Print a table for each severity; `brief` omits notes and long lists, `show_source` adds the tool."""
    for severity in Severity:
        found = [d for d in diagnostics if d.severity is severity]
        if not found or (brief and severity is Severity.NOTE):
            continue
        shown = found[:_MAX_BRIEF_ROWS] if brief else found
        console.print(_diagnostics_table(severity, shown, len(found), show_source=show_source))
        if len(shown) < len(found):
            console.print(Text(f"  and {len(found) - len(shown)} more: see `kinema check`", style="dim"))


def _diagnostics_table(
    severity: Severity, diagnostics: Sequence[Diagnostic], total: int, *, show_source: bool
) -> Table:
    noun = severity.value if total == 1 else f"{severity.value}s"
    table = Table(
        title=f"{total} {noun}",
        title_justify="left",
        title_style=_SEVERITY_STYLE[severity],
        box=None,
        padding=(0, 2, 0, 0),
    )
    if show_source:
        table.add_column("who", style="dim")
    table.add_column("where", style="dim", overflow="fold", max_width=34)
    table.add_column("what", overflow="fold", ratio=1)
    table.add_column("code", style="dim", overflow="fold", max_width=30)
    for d in diagnostics:
        text = Text(mask_stdin_copy(d.message))
        if d.hint:
            text.append(f"\n→ {mask_stdin_copy(d.hint)}", style="italic dim")
        who = [Text(diagnostic_source(d))] if show_source else []
        table.add_row(*who, Text(_short_origin(d.origin)), text, Text(d.code))
    return table


def _short_origin(origin: Origin) -> str:
    """Position in the file, without the folder."""
    if not origin.file:
        return str(origin)
    return str(Origin(Path(mask_stdin_copy(origin.file)).name, origin.line, origin.path))


def diagnostics_summary(diagnostics: Sequence[Diagnostic]) -> Text:
    """One-line summary of diagnostics."""
    counts = {s: sum(d.severity is s for d in diagnostics) for s in Severity}
    words = [f"{n} {s.value}{'s' if n != 1 else ''}" for s, n in counts.items() if n]
    if counts[Severity.ERROR]:
        return Text.assemble(("✗ ", "bold red"), ", ".join(words))
    return Text.assemble(("✓ ", "bold green"), "no errors", *(f", {w}" for w in words))
