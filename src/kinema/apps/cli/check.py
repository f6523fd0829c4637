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
from kinema.foundation import Diagnostic, Origin, ReadError, Severity
from kinema.read import openusd_validation

from .diagnostics_table import output_console, print_diagnostics, speaker, verdict
from .reading import chosen_variants, read_file, report_unreadable, status


def run(
    file: Path,
    *,
    json: bool,
    format: str | None,
    search_paths: Sequence[Path],
    openusd: bool = False,
    variants: Sequence[str] = (),
) -> int:
    """Print what the reader and the rules found, and OpenUSD's validators where asked for; the exit status."""
    console = output_console()
    try:
        with Status("reading", console=Console(stderr=True)) as progress:
            described = read_file(file, format, search_paths, variants)
            progress.update("checking")
            found = _all_problems(described)
            if openusd:
                found += _openusd_problems(file, described, search_paths, variants)
    except ReadError as error:
        return report_unreadable(error, json)
    if json:
        result = {
            "file": str(file),
            "format": described.format,
            "name": described.name,
            "diagnostics": [{**d.to_json(), "by": speaker(d)} for d in found],
        }
        print(json_module.dumps(result, ensure_ascii=False))  # noqa: T201
    else:
        print_diagnostics(console, found, speakers=openusd)
        console.print(verdict(found))
    return status(found)


def _all_problems(described: Robot | World) -> list[Diagnostic]:
    """What the reader said and what the rules find, a missing mesh only once."""
    said = list(described.diagnostics)
    reader_missed_meshes = any(d.code.endswith(".missing-mesh") for d in said)
    return said + [d for d in check(described) if not (reader_missed_meshes and d.code == "meshes.missing")]


def _openusd_problems(
    file: Path, described: Robot | World, search_paths: Sequence[Path], variants: Sequence[str]
) -> list[Diagnostic]:
    """What OpenUSD's validators say; of a file that is no stage, that they have nothing to say."""
    if described.format == "usd":
        return openusd_validation(file, search_paths=list(search_paths), variants=chosen_variants(variants))
    message = f"OpenUSD's validators are for USD stages; this file is {described.format.upper()}"
    return [Diagnostic(Severity.NOTE, "openusd.not-a-stage", message, origin=Origin(str(file)))]


def list_rules() -> int:
    """A table of all rules."""
    table = Table("code", "severity", "what it finds", box=None, padding=(0, 2, 0, 0))
    for rule in RULES:
        table.add_row(rule.code, rule.severity.value, (inspect.getdoc(rule.function) or "").split("\n")[0])
    output_console().print(table)
    return 0
