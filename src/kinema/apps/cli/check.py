"""`kinema check`: every problem of a file, with its place and how to repair it."""

from __future__ import annotations

import inspect
from pathlib import Path

from rich.console import Console
from rich.status import Status
from rich.table import Table

from kinema.check import RULES, Rule, check
from kinema.description import Robot, World
from kinema.foundation import Diagnostic, KinemaError, Origin, Severity
from kinema.read import openusd_validation

from .diagnostics_table import output_console, print_diagnostics, speaker, verdict
from .reading import ReadSettings, chosen_variants, named_input, print_json, read_file, report_error, status


def run(file: Path, how: ReadSettings, *, json: bool, openusd: bool = False) -> int:
    """Print what the reader and the rules found, and OpenUSD's validators where asked for; the exit status."""
    console = output_console()
    try:
        with named_input(file, how) as (name, reading), Status("reading", console=Console(stderr=True)) as progress:
            described = read_file(name, reading)
            progress.update("checking")
            found = all_problems(described)
            if openusd:
                found += openusd_problems(name, described, reading)
    except KinemaError as error:
        return report_error(error, json)
    if json:
        result = {
            "file": str(file),
            "format": described.format,
            "name": described.name,
            "diagnostics": [{**d.to_json(), "by": speaker(d)} for d in found],
        }
        print_json(result)
    else:
        print_diagnostics(console, found, speakers=openusd)
        console.print(verdict(found))
    return status(found)


_SAID_BY_RULE = {"usd.joint-frames-apart": "frames.disagree"}
"""What the reader of a format says -> the rule that says the same of the same place, of every format alike."""


def all_problems(described: Robot | World) -> list[Diagnostic]:
    """What the reader said and what the rules find, each fault once."""
    said, found = list(described.diagnostics), check(described)
    reader_missed_meshes = any(d.code.endswith(".missing-mesh") for d in said)
    known = {(d.code, str(d.origin)) for d in found}
    said = [d for d in said if (_SAID_BY_RULE.get(d.code), str(d.origin)) not in known]
    return said + [d for d in found if not (reader_missed_meshes and d.code == "meshes.missing")]


def openusd_problems(file: Path, described: Robot | World, how: ReadSettings) -> list[Diagnostic]:
    """What OpenUSD's validators say; of a file that is no stage, that they have nothing to say."""
    if described.format == "usd":
        paths, variants = list(how.search_paths), chosen_variants(how.variants)
        return openusd_validation(file, search_paths=paths, variants=variants)
    message = f"OpenUSD's validators are for USD stages; this file is {described.format.upper()}"
    return [Diagnostic(Severity.NOTE, "openusd.not-a-stage", message, origin=Origin(str(file)))]


def list_rules(*, json: bool = False) -> int:
    """A table of all rules."""
    if json:
        print_json({"rules": [{"code": r.code, "severity": r.severity.value, "finds": _finds(r)} for r in RULES]})
        return 0
    table = Table("code", "severity", "what it finds", box=None, padding=(0, 2, 0, 0))
    for rule in RULES:
        table.add_row(rule.code, rule.severity.value, _finds(rule))
    output_console().print(table)
    return 0


def _finds(rule: Rule) -> str:
    return (inspect.getdoc(rule.function) or "").split("\n")[0]
