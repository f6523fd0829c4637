"""`kinema cluster`: the nodes of a Ray cluster, and whether they can be used."""

from __future__ import annotations

from typing import Any

from rich.table import Table
from rich.text import Text

from kinema.apps.cluster import Needs, examined, nodes_of
from kinema.foundation import KinemaError

from .diagnostics_table import output_console
from .reading import FINE, HAS_ERRORS, print_json, report_error


def show_status(address: str, *, json: bool) -> int:
    """Print the nodes; the exit status."""
    try:
        found = nodes_of(address)
    except KinemaError as error:
        return report_error(error, json)
    if json:
        print_json({"nodes": found})
        return FINE
    table = Table("node", "address", "CPUs", "GPUs", "memory", "workers", box=None, padding=(0, 2, 0, 0))
    for node in found:
        memory = f"{node['memory'] / 2**30:.1f} GiB"
        counts = [f"{node[name]:g}" for name in ("cpus", "gpus")]
        table.add_row(node["node"][:8], node["address"], *counts, memory, str(node["workers"]))
    console = output_console()
    console.print(table)
    workers = sum(node["workers"] for node in found)
    console.print(Text.assemble(("✓ ", "bold green"), f"{len(found)} nodes, room for {workers} workers"))
    return FINE


def show_doctor(address: str, gpus: float, *, json: bool) -> int:
    """Print what keeps nodes from being used; the exit status."""
    try:
        found = examined(address, Needs(gpus=gpus))
    except KinemaError as error:
        return report_error(error, json)
    refused = [node for node in found if node["problem"]]
    if json:
        print_json({"nodes": found})
    else:
        console = output_console()
        for node in found:
            console.print(_line(node), soft_wrap=True)
        sign = ("✗ ", "bold red") if refused else ("✓ ", "bold green")
        console.print(Text.assemble(sign, f"{len(found) - len(refused)} of {len(found)} nodes can be used"))
    return HAS_ERRORS if refused else FINE


def _line(node: dict[str, Any]) -> Text:
    if node["problem"]:
        return Text.assemble(("✗ ", "bold red"), f"{node['node'][:8]}: {node['problem']}")
    facts = f"Kinema {node['kinema']}, Python {node['python']}, {node['machine']}"
    free = f"{node['disk'] / 2**30:.1f} GiB free for {node['cache']}"
    return Text.assemble(("✓ ", "bold green"), f"{node['node'][:8]} on {node['host']}: {facts}, {free}")
