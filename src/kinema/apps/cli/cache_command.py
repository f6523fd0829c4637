"""The commands `kinema cache`, `kinema cache clear`, `kinema cache limit` and `kinema cache path`."""

from __future__ import annotations

import math
import re
from typing import Annotated

import typer

from .commands import app
from .options import Command, Group, Json

UNITS = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
UNITS |= {"K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "KIB": 2**10, "MIB": 2**20, "GIB": 2**30, "TIB": 2**40}
_SIZE = re.compile(r"(\d+(?:\.\d+)?|\.\d+)\s*([A-Za-z]*)")
_MOST = 2**63 - 1

cache = typer.Typer(cls=Group, invoke_without_command=True)
app.add_typer(cache, name="cache")


def size_in_bytes(text: str) -> int:
    """The number of bytes that a size such as `2GB`, `500 MB` or `1.5GiB` is."""
    found = _SIZE.fullmatch(text.strip())
    unit = None if found is None else UNITS.get(found[2].upper())
    if found is None or unit is None:
        raise typer.BadParameter(f"{text!r} is not a size such as 2GB or 500MB", param_hint="SIZE")
    count = float(found[1]) * unit
    if not math.isfinite(count) or count > _MOST:
        raise typer.BadParameter(f"{text!r} is more than any disk holds", param_hint="SIZE")
    return round(count)


@cache.callback()
def show(context: typer.Context, json: Json = False) -> None:
    """Show the cache on disk: its folder, its limit, and how many entries of which kind there are.

    The cache holds compiled programs, machine code, quantities derived from models, and processed meshes and images.
    All of it is computed again when it is missing, so that it may be deleted at any time. The folder is the one that
    the environment variable `KINEMA_CACHE` names, else the user's cache folder.

    Exit status: 0 fine, 2 the cache could not be changed.
    """
    if context.invoked_subcommand is None:
        from .cache_table import show_cache

        raise typer.Exit(show_cache(json=json))


@cache.command(cls=Command)
def clear(json: Json = False) -> None:
    """Delete all entries; the limit stays.

    Exit status: 0 fine, 2 some entries could not be deleted.
    """
    from .cache_table import clear as run

    raise typer.Exit(run(json=json))


@cache.command(cls=Command)
def limit(
    size: Annotated[
        str | None,
        typer.Argument(
            metavar="SIZE",
            help="The new limit, such as 2GB, 500MB or 1.5GiB; printed as it is when not given.",
            show_default=False,
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Print or set how much disk space the entries may take together.

    The least recently used entries beyond it are deleted, at once and whenever new ones are stored. The limit is
    stored in the cache folder and is the same for all processes that use it.

    Exit status: 0 fine, 2 SIZE is not a size, or the limit could not be stored.
    """
    from .cache_table import change_limit, show_limit

    raise typer.Exit(show_limit(json=json) if size is None else change_limit(size_in_bytes(size), json=json))


@cache.command(cls=Command)
def path(json: Json = False) -> None:
    """Print the folder of the cache."""
    from .cache_table import show_path

    raise typer.Exit(show_path(json=json))
