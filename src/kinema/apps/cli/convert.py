"""`kinema convert`: a robot from one format to another, and what was lost on the way."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.status import Status
from rich.table import Table
from rich.text import Text

from kinema.description import Robot, World
from kinema.foundation import KinemaError, ReadError, WriteError
from kinema.write import FORMATS, Loss, LossReport, format_of, write

from .choices import Layout, Meshes
from .diagnostics_table import output_console, print_diagnostics
from .reading import UNREADABLE, read_file, report_unreadable, status

_STYLE = {"dropped": "bold red", "approximated": "yellow", "extension": "cyan"}
_MEANING = {
    "dropped": "not in the file",
    "approximated": "close to what was meant",
    "extension": "in the file, for readers that know it",
}
_MANY = 12
"""How many losses of a kind are listed one by one; the report file has all of them."""


@dataclass(frozen=True, slots=True)
class WriteSettings:
    """How the output is written; see `kinema.write`."""

    layout: str = Layout.NESTED.value
    meshes: str = Meshes.EMBED.value
    layered: bool = False
    robot: str = ""
    """Which one of several, for URDF."""

    def write(self, described: Robot | World, target: Path, format: str, robot: str = "") -> LossReport:
        """Write a description so; `robot` overrules the settings' own."""
        one = robot or (self.robot if format == "urdf" else "")
        how = {"layout": self.layout, "meshes": self.meshes, "layered": self.layered, "robot": one}
        return write(described, target, format=format, **how)


@dataclass(frozen=True, slots=True)
class ReadSettings:
    """How the input is read; see `kinema.read`."""

    format: str | None = None
    search_paths: Sequence[Path] = ()
    variants: Sequence[str] = ()


ALL = "all"
"""What `--to` calls every format there is."""


def formats_named(to: str) -> dict[str, tuple[str, str]]:
    """Every word of `--to`, which may be several with commas between, with the format and suffix it asks for."""
    words = list(FORMATS) if to.strip().lower() == ALL else to.split(",")
    return {word.strip().lower().removeprefix("."): format_named(word) for word in words}


def format_named(to: str) -> tuple[str, str]:
    """The format and the suffix that a word asks for: `usd`, `.usda`, `mjcf`, `xml`, ...; a `WriteError` otherwise."""
    word = to.strip().lower().removeprefix(".")
    if word in FORMATS:
        return word, FORMATS[word][0]
    for format, suffixes in FORMATS.items():
        if f".{word}" in suffixes:
            return format, f".{word}"
    words = dict.fromkeys(w for f, suffixes in FORMATS.items() for w in (f, *(s.removeprefix(".") for s in suffixes)))
    raise WriteError(f"--to {to}: this cannot be written; these can: {', '.join(words)}, or {ALL} of them")


def run(
    source: Path,
    target: Path,
    how: ReadSettings,
    *,
    report: Path | None,
    settings: WriteSettings,
    to: str | None = None,
) -> int:
    """Convert a file; the exit status."""
    console = output_console()
    try:
        chosen = format_of(target) if to is None else format_named(to)[0]
        with Status("reading", console=Console(stderr=True)) as progress:
            described = read_file(source, how.format, how.search_paths, how.variants)
            progress.update("writing")
            losses = settings.write(described, target, chosen)
        if report is not None:
            _save(losses, report)
    except ReadError as error:
        return report_unreadable(error, as_json=False)
    except KinemaError as error:
        Console(stderr=True, soft_wrap=True).print(Text.assemble(("error: ", "bold red"), str(error)))
        return UNREADABLE
    print_diagnostics(console, described.diagnostics.items, brief=True)
    print_losses(console, losses)
    n_links, n_joints = len(described.links), len(described.joints)
    console.print(Text.assemble(("✓ ", "bold green"), f"{target}: {n_links} links, {n_joints} joints, {_sum(losses)}"))
    return status(described.diagnostics.items)


def _save(losses: LossReport, report: Path) -> None:
    try:
        report.write_text(json.dumps(losses.to_json(), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    except OSError as error:
        raise WriteError(f"{report}: {error.strerror or error}") from None


def _sum(losses: LossReport) -> str:
    if not losses:
        return "nothing lost"
    counts = Counter(loss.action.value for loss in losses)
    return ", ".join(f"{counts[action]} {action}" for action in _STYLE if counts[action])


def print_losses(console: Console, losses: LossReport) -> None:
    """A table for each kind of loss; what many elements have in common is one row."""
    for action, style in _STYLE.items():
        found = [loss for loss in losses if loss.action.value == action]
        if found:
            console.print(_table(action, style, found))


def _table(action: str, style: str, found: Sequence[Loss]) -> Table:
    title = f"{len(found)} {action} ({_MEANING[action]})"
    table = Table(title=title, title_justify="left", title_style=style, box=None, padding=(0, 2, 0, 0))
    table.add_column("of", overflow="fold", max_width=44)
    table.add_column("what", overflow="fold", ratio=1)
    groups: dict[tuple[str, str, str], list[Loss]] = {}
    for loss in found:
        groups.setdefault((loss.kind, loss.what, loss.how), []).append(loss)
    for (kind, what, how), members in groups.items():
        text = Text(what)
        if how:
            text.append(f"\n→ {how}", style="italic dim")
        table.add_row(Text(_names(kind, members)), text)
    return table


def _names(kind: str, members: Sequence[Loss]) -> str:
    named = [loss.name for loss in members if loss.name]
    noun = kind if len(members) == 1 else f"{len(members)} {kind}s"
    if not named:
        return noun
    more = f" and {len(named) - _MANY} more" if len(named) > _MANY else ""
    return f"{noun} {', '.join(named[:_MANY])}{more}"
