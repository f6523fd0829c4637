"""The commands `kinema cluster status` and `kinema cluster doctor`."""

from __future__ import annotations

from typing import Annotated

import typer

from .commands import app
from .options import Command, Group, Json

cluster = typer.Typer(help="Look at a Ray cluster: what there is, and whether it can be used.", cls=Group)
app.add_typer(cluster, name="cluster", no_args_is_help=True)

Address = Annotated[
    str,
    typer.Argument(
        metavar="ADDRESS", help="host:port, ray://host:port, or auto for the one that runs here.", show_default=False
    ),
]


@cluster.command(cls=Command)
def status(address: Address = "auto", json: Json = False) -> None:
    """List the nodes with their CPUs, GPUs and memory, and how many workers there is room for.

    Exit status: 0 fine, 2 there is no cluster.
    """
    from .cluster_nodes import show_status

    raise typer.Exit(show_status(address, json=json))


@cluster.command(cls=Command)
def doctor(
    address: Address = "auto",
    gpus: Annotated[float, typer.Option("--gpus", min=0.0, metavar="N", help="GPUs that a worker takes.")] = 0.0,
    json: Json = False,
) -> None:
    """Start a worker on every node, and say what keeps one from being used: version, GPU, disk.

    Exit status: 0 every node can be used, 1 some cannot, 2 there is no cluster.
    """
    from .cluster_nodes import show_doctor

    raise typer.Exit(show_doctor(address, gpus, json=json))
