"""Losses as tables: what changes motion first, then what changes looks, then the rest."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from kinema.write import Action, Loss, LossReport, Matter

_TITLES = {
    Matter.MOTION: "change how it moves",
    Matter.LOOKS: "change how it looks",
    Matter.BOOKKEEPING: "change neither",
}
_STYLE = {Action.DROPPED: "bold red", Action.APPROXIMATED: "yellow", Action.EXTENSION: "cyan"}
_MEANING = {
    Action.DROPPED: "not in the file",
    Action.APPROXIMATED: "close to what was meant",
    Action.EXTENSION: "for readers that know it",
}
_MANY = 6
"""How many names of a row are shown; the report file has all of them."""
_ROWS = {Matter.MOTION: 40, Matter.LOOKS: 12, Matter.BOOKKEEPING: 6}
"""How many rows of a matter are shown; likewise."""


def print_losses(console: Console, losses: LossReport) -> None:
    """A table for each matter; what many elements have in common is one row."""
    folded = losses.folded()
    for matter in Matter:
        rows = [(first, members) for first, members in folded if first.matter is matter]
        if not rows:
            continue
        count = sum(len(members) for _, members in rows)
        console.print(_table(f"{count} {_TITLES[matter]}", rows[: _ROWS[matter]]))
        if len(rows) > _ROWS[matter]:
            console.print(Text(f"  and {len(rows) - _ROWS[matter]} more rows: see --report or --json", style="dim"))


def _table(title: str, rows: Sequence[tuple[Loss, list[Loss]]]) -> Table:
    table = Table(title=title, title_justify="left", title_style="bold", box=None, padding=(0, 2, 0, 0))
    table.add_column("")
    table.add_column("of", overflow="fold", max_width=44)
    table.add_column("what", overflow="fold", ratio=1)
    for first, members in rows:
        text = Text(first.what)
        if first.how:
            text.append(f"\n→ {first.how}", style="italic dim")
        action = Text(f"{first.action.value}\n({_MEANING[first.action]})", style=_STYLE[first.action])
        table.add_row(action, Text(_names(first.kind, members)), text)
    return table


def _names(kind: str, members: Sequence[Loss]) -> str:
    named = list(dict.fromkeys(loss.name for loss in members if loss.name))
    noun = kind if len(members) == 1 else f"{len(members)} {kind}s"
    if not named:
        return noun
    more = f" and {len(named) - _MANY} more" if len(named) > _MANY else ""
    return f"{noun} {', '.join(named[:_MANY])}{more}"
