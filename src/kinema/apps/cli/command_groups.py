"""Typer declarations of the command groups `kinema cache` and `kinema cluster`."""

from __future__ import annotations

import math
import re
from typing import Annotated

import typer

from .commands import app
from .options import JsonOption, KinemaCommand, KinemaGroup

# --------------------------------------------------------------------------------------------------------- kinema cache

SIZE_UNITS = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
SIZE_UNITS |= {"K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "KIB": 2**10, "MIB": 2**20, "GIB": 2**30, "TIB": 2**40}
_SIZE_PATTERN = re.compile(r"(\d+(?:\.\d+)?|\.\d+)\s*([A-Za-z]*)")
_MAX_BYTES = 2**63 - 1

cache = typer.Typer(cls=KinemaGroup, invoke_without_command=True)
app.add_typer(cache, name="cache")


def parse_size(text: str) -> int:
    """Number of bytes of a size such as `2GB`, `500 MB` or `1.5GiB`."""
    found = _SIZE_PATTERN.fullmatch(text.strip())
    unit = None if found is None else SIZE_UNITS.get(found[2].upper())
    if found is None or unit is None:
        raise typer.BadParameter(f"{text!r} is not a size such as 2GB or 500MB", param_hint="SIZE")
    count = float(found[1]) * unit
    if not math.isfinite(count) or count > _MAX_BYTES:
        raise typer.BadParameter(f"{text!r} is more than any disk holds", param_hint="SIZE")
    return round(count)


@cache.callback()
def show(context: typer.Context, json: JsonOption = False) -> None:
    """Show the cache on disk: its folder, its limit, and how many entries of which kind there are.

    The cache holds compiled programs, machine code, quantities derived from models, and processed meshes and images.
    All of it is computed again when it is missing, so that it may be deleted at any time. The folder is the one that
    the environment variable `KINEMA_CACHE` names, else the user's cache folder.

    Exit status: 0 fine, 2 the cache could not be changed.
    """
    if context.invoked_subcommand is None:
        from .cache import show_cache

        raise typer.Exit(show_cache(json=json))


@cache.command(cls=KinemaCommand)
def clear(json: JsonOption = False) -> None:
    """Delete all entries; the limit stays.

    Exit status: 0 fine, 2 some entries could not be deleted.
    """
    from .cache import clear_cache_entries as run

    raise typer.Exit(run(json=json))


@cache.command(cls=KinemaCommand)
def limit(
    size: Annotated[
        str | None,
        typer.Argument(
            metavar="SIZE",
            help="The new limit, such as 2GB, 500MB or 1.5GiB; printed as it is when not given.",
            show_default=False,
        ),
    ] = None,
    json: JsonOption = False,
) -> None:
    """Print or set how much disk space the entries may take together.

    The least recently used entries beyond it are deleted, at once and whenever new ones are stored. The limit is
    stored in the cache folder and is the same for all processes that use it.

    Exit status: 0 fine, 2 SIZE is not a size, or the limit could not be stored.
    """
    from .cache import change_limit, show_limit

    raise typer.Exit(show_limit(json=json) if size is None else change_limit(parse_size(size), json=json))


@cache.command(cls=KinemaCommand)
def path(json: JsonOption = False) -> None:
    """Print the folder of the cache."""
    from .cache import show_path

    raise typer.Exit(show_path(json=json))


# ------------------------------------------------------------------------------------------------------- kinema cluster

cluster = typer.Typer(help="Look at a Ray cluster: what there is, and whether it can be used.", cls=KinemaGroup)
app.add_typer(cluster, name="cluster", no_args_is_help=True)

AddressArgument = Annotated[
    str,
    typer.Argument(
        metavar="ADDRESS", help="host:port, ray://host:port, or auto for the one that runs here.", show_default=False
    ),
]


@cluster.command(cls=KinemaCommand)
def status(address: AddressArgument = "auto", json: JsonOption = False) -> None:
    """List the nodes with their CPUs, GPUs and memory, and how many workers there is room for.

    Exit status: 0 fine, 2 there is no cluster.
    """
    from .cluster import show_cluster_status

    raise typer.Exit(show_cluster_status(address, json=json))


@cluster.command(cls=KinemaCommand)
def doctor(
    address: AddressArgument = "auto",
    gpus: Annotated[float, typer.Option("--gpus", min=0.0, metavar="N", help="GPUs that a worker takes.")] = 0.0,
    json: JsonOption = False,
) -> None:
    """Start a worker on every node, and say what keeps one from being used: version, GPU, disk.

    Exit status: 0 every node can be used, 1 some cannot, 2 there is no cluster.
    """
    from .cluster import show_cluster_doctor

    raise typer.Exit(show_cluster_doctor(address, gpus, json=json))
