"""`kinema check`: every problem of a file, with its place and how to repair it."""

from __future__ import annotations

import inspect
import json as json_module
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.status import Status
from rich.table import Table

from kinema.check import RULES, check
from kinema.description import Robot, World
from kinema.foundation import Diagnostic, ReadError

from .diagnostics_table import output_console, print_diagnostics, verdict
from .reading import read_file, report_unreadable, status


def run(file: Path, *, json: bool, format: str | None, search_paths: Sequence[Path]) -> int:
    """Print what the reader and the rules found; the exit status."""
    console = output_console()
    try:
        with Status("reading", console=Console(stderr=True)) as progress:
            described = read_file(file, format, search_paths)
            progress.update("checking")
            found = _all_problems(described)
    except ReadError as error:
        return report_unreadable(error, json)
    if json:
        result = {
            "file": str(file),
            "format": described.format,
            "name": described.name,
            "diagnostics": [d.to_json() for d in found],
        }
        print(json_module.dumps(result, ensure_ascii=False))  # noqa: T201
    else:
        print_diagnostics(console, found)
        console.print(verdict(found))
    return status(found)


def _all_problems(described: Robot | World) -> list[Diagnostic]:
    """What the reader said and what the rules find, a missing mesh only once."""
    said = list(described.diagnostics)
    reader_missed_meshes = any(d.code.endswith(".missing-mesh") for d in said)
    return said + [d for d in check(described) if not (reader_missed_meshes and d.code == "meshes.missing")]


def list_rules() -> int:
    """A table of all rules."""
    table = Table("code", "severity", "what it finds", box=None, padding=(0, 2, 0, 0))
    for rule in RULES:
        table.add_row(rule.code, rule.severity.value, (inspect.getdoc(rule.function) or "").split("\n")[0])
    output_console().print(table)
    return 0
