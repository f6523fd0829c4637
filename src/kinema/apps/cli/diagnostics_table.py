"""Diagnostics as tables, grouped by severity."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from kinema.foundation import Diagnostic, Origin, Severity

from .standard_input import shown

_STYLE = {Severity.ERROR: "bold red", Severity.WARNING: "yellow", Severity.NOTE: "cyan"}
_BRIEF = 8
"""How many diagnostics of a severity a command shows that is not about them."""


_FILE_WIDTH = 180
"""Width of tables that go to a file or another program, which have no width of their own."""


def output_console() -> Console:
    """Where results are printed."""
    console = Console(highlight=False)
    if console.is_terminal or os.environ.get("COLUMNS", "").isdigit():
        return console  # which knows its width
    return Console(highlight=False, width=_FILE_WIDTH)


def speaker(diagnostic: Diagnostic) -> str:
    """Who says it: Kinema, or another tool that was asked."""
    return "OpenUSD" if diagnostic.code.startswith("openusd.") else "Kinema"


def print_diagnostics(
    console: Console, diagnostics: Sequence[Diagnostic], *, brief: bool = False, speakers: bool = False
) -> None:
    """A table for each severity that occurs; `brief` leaves out notes and long tails, `speakers` adds who says it."""
    for severity in Severity:
        found = [d for d in diagnostics if d.severity is severity]
        if not found or (brief and severity is Severity.NOTE):
            continue
        shown = found[:_BRIEF] if brief else found
        console.print(_table(severity, shown, len(found), speakers=speakers))
        if len(shown) < len(found):
            console.print(Text(f"  and {len(found) - len(shown)} more: see `kinema check`", style="dim"))


def _table(severity: Severity, diagnostics: Sequence[Diagnostic], total: int, *, speakers: bool) -> Table:
    noun = severity.value if total == 1 else f"{severity.value}s"
    table = Table(
        title=f"{total} {noun}", title_justify="left", title_style=_STYLE[severity], box=None, padding=(0, 2, 0, 0)
    )
    if speakers:
        table.add_column("who", style="dim")
    table.add_column("where", style="dim", overflow="fold", max_width=34)
    table.add_column("what", overflow="fold", ratio=1)
    table.add_column("code", style="dim", overflow="fold", max_width=30)
    for d in diagnostics:
        text = Text(shown(d.message))
        if d.hint:
            text.append(f"\n→ {shown(d.hint)}", style="italic dim")
        who = [Text(speaker(d))] if speakers else []
        table.add_row(*who, Text(_short_place(d.origin)), text, Text(d.code))
    return table


def _short_place(origin: Origin) -> str:
    """The place without the folder: the reader knows which file was given."""
    if not origin.file:
        return str(origin)
    return str(Origin(Path(shown(origin.file)).name, origin.line, origin.path))


def verdict(diagnostics: Sequence[Diagnostic]) -> Text:
    """One line that sums up."""
    counts = {s: sum(d.severity is s for d in diagnostics) for s in Severity}
    words = [f"{n} {s.value}{'s' if n != 1 else ''}" for s, n in counts.items() if n]
    if counts[Severity.ERROR]:
        return Text.assemble(("✗ ", "bold red"), ", ".join(words))
    return Text.assemble(("✓ ", "bold green"), "no errors", *(f", {w}" for w in words))
