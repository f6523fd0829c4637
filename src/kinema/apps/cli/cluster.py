"""`kinema cluster`: prints the nodes of a Ray cluster and why some cannot be used."""

from __future__ import annotations

from typing import Any

from rich.table import Table
from rich.text import Text

from kinema.core import KinemaError

from ..cluster import WorkerResources, check_nodes, list_nodes
from .input_output import EXIT_HAS_ERRORS, EXIT_OK, output_console, print_json, report_error


def show_cluster_status(address: str, *, json: bool) -> int:
    """Print the nodes; returns the exit status."""
    try:
        found = list_nodes(address)
    except KinemaError as error:
        return report_error(error, json)
    if json:
        print_json({"nodes": found})
        return EXIT_OK
    table = Table("node", "address", "CPUs", "GPUs", "memory", "workers", box=None, padding=(0, 2, 0, 0))
    for node in found:
        memory = f"{node['memory'] / 2**30:.1f} GiB"
        counts = [f"{node[name]:g}" for name in ("cpus", "gpus")]
        table.add_row(node["node"][:8], node["address"], *counts, memory, str(node["workers"]))
    console = output_console()
    console.print(table)
    workers = sum(node["workers"] for node in found)
    console.print(Text.assemble(("✓ ", "bold green"), f"{len(found)} nodes, room for {workers} workers"))
    return EXIT_OK


def show_cluster_doctor(address: str, gpus: float, *, json: bool) -> int:
    """Print the reasons why nodes cannot be used; returns the exit status."""
    try:
        found = check_nodes(address, WorkerResources(gpus=gpus))
    except KinemaError as error:
        return report_error(error, json)
    refused = [node for node in found if node["problem"]]
    if json:
        print_json({"nodes": found})
    else:
        console = output_console()
        for node in found:
            console.print(_node_line(node), soft_wrap=True)
        sign = ("✗ ", "bold red") if refused else ("✓ ", "bold green")
        console.print(Text.assemble(sign, f"{len(found) - len(refused)} of {len(found)} nodes can be used"))
    return EXIT_HAS_ERRORS if refused else EXIT_OK


def _node_line(node: dict[str, Any]) -> Text:
    if node["problem"]:
        return Text.assemble(("✗ ", "bold red"), f"{node['node'][:8]}: {node['problem']}")
    facts = f"Kinema {node['kinema']}, Python {node['python']}, {node['machine']}"
    free = f"{node['disk'] / 2**30:.1f} GiB free for {node['cache']}"
    return Text.assemble(("✓ ", "bold green"), f"{node['node'][:8]} on {node['host']}: {facts}, {free}")
