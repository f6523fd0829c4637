"""`kinema doctor`: whether this machine has what Kinema needs, and what to do where it has not."""

from __future__ import annotations

import json as json_module
from typing import Any

from rich.console import Console
from rich.status import Status
from rich.table import Table
from rich.text import Text

from .cache_table import size_text
from .diagnostics_table import output_console
from .doctor_facts import ENOUGH_DISK, Package, cache, devices, packages, self_test, system
from .reading import FINE, HAS_ERRORS


def run(*, json: bool) -> int:
    """Print the findings; the exit status is 1 where something is missing that simulation needs."""
    with Status("looking around", console=Console(stderr=True)) as progress:
        libraries = packages()
        facts: dict[str, Any] = {"system": system(), "devices": [], "cache": None, "tests": []}
        problems = [f"{p.name} is missing ({p.purpose}): {p.how}" for p in libraries if p.missing and p.required]
        if not any(p.missing for p in libraries if p.name in ("warp-lang", "numpy", "scipy")):
            try:
                facts["devices"], facts["cache"] = devices(), cache()
            except Exception as error:
                problems.append(f"warp-lang does not start: {error}")
            for device in facts["devices"]:
                progress.update(f"testing {device['name']}")
                facts["tests"].append(self_test(device["name"]))
    problems += [f"the test on {t['device']} failed: {t['problem']}" for t in facts["tests"] if not t["ok"]]
    problems += _cache_problems(facts["cache"])
    hints = [f"{p.name} is not installed ({p.purpose}): {p.how}" for p in libraries if p.missing and not p.required]
    if facts["devices"] and all(d["name"] == "cpu" for d in facts["devices"]):
        hints.append("there is no NVIDIA GPU, or its driver is too old: simulation runs on the CPU")
    if json:
        listed = [{k: getattr(p, k) for k in ("name", "version", "purpose", "required", "how")} for p in libraries]
        whole = {**facts, "packages": listed, "problems": problems, "hints": hints}
        print(json_module.dumps(whole, ensure_ascii=False))  # noqa: T201
    else:
        _print(facts, libraries, problems, hints)
    return HAS_ERRORS if problems else FINE


def _cache_problems(found: dict[str, Any] | None) -> list[str]:
    if found is None:
        return []
    result = []
    if not found["writable"]:
        result.append(f"{found['folder']} cannot be written, so that every start compiles anew: set KINEMA_CACHE")
    if found["disk_free"] < ENOUGH_DISK:
        result.append(f"the disk of {found['folder']} has only {_size(found['disk_free'])} left")
    return result


def _size(count: int | None) -> str:
    if count is None:
        return "unknown"
    return f"{count / 2**30:.1f} GiB" if count >= 2**30 else f"{count / 2**20:.0f} MiB"


def _print(facts: dict[str, Any], libraries: list[Package], problems: list[str], hints: list[str]) -> None:
    console = output_console()
    machine = facts["system"]
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    bits = machine["vector_bits"]
    rows = [
        ("kinema", machine["kinema"]),
        ("python", f"{machine['python']} ({machine['executable']})"),
        ("system", machine["os"]),
        ("processor", f"{machine['cpu']}, {machine['cores']} cores, vectors of {bits or 'unknown'} bits"),
        ("memory", f"{_size(machine['memory'])}, {_size(machine['memory_available'])} available"),
    ]
    for device in facts["devices"]:
        if device["name"] != "cpu":
            size = f"{_size(device['memory'])}, {_size(device['free'])} free"
            rows.append((device["name"], f"{device['description']} ({device['architecture']}), {size}"))
    if facts["cache"] is not None:
        found = facts["cache"]
        of_limit = f"{size_text(found['bytes'])} of {size_text(found['limit'])}"
        rows.append(("cache", f"{found['folder']}: {found['entries']:,} entries, {of_limit}"))
    for test in facts["tests"]:
        text = f"a pendulum is {test['error']:.1e} rad off after 2 s" if test["error"] is not None else test["problem"]
        rows.append((f"test on {test['device']}", f"{'✓' if test['ok'] else '✗'} {text}, {test['seconds']:.1f} s"))
    for name, value in rows:
        table.add_row(Text(name, style="dim"), Text(str(value)))
    console.print(table)
    _print_packages(console, libraries)
    for hint in hints:
        console.print(Text.assemble(("· ", "cyan"), hint), soft_wrap=True)
    for problem in problems:
        console.print(Text.assemble(("✗ ", "bold red"), problem), soft_wrap=True)
    if not problems:
        console.print(Text.assemble(("✓ ", "bold green"), "ready"))


def _print_packages(console: Console, libraries: list[Package]) -> None:
    table = Table("package", "version", "for", box=None, padding=(0, 2, 0, 0), header_style="dim")
    for p in libraries:
        style = "" if not p.missing else ("bold red" if p.required else "dim")
        table.add_row(
            Text(p.name, style=style), Text(p.version or "-", style=style), Text(p.purpose, style=style or "dim")
        )
    console.print(table)
