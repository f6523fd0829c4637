"""The command `kinema view` and its options."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .commands import app
from .options import Command, Format, Json, OfBase, SearchPath, Variant


@app.command(cls=Command)
def view(  # noqa: PLR0913, PLR0917  one for each option of the command
    files: Annotated[
        list[Path],
        typer.Argument(metavar="FILE", help="Robots of any format, side by side; two are compared."),
    ],
    envs: Annotated[
        int, typer.Option("--envs", "-n", min=1, max=4096, metavar="N", help="Copies that are simulated when it plays.")
    ] = 1,
    port: Annotated[
        int,
        typer.Option(min=0, max=65535, metavar="N", help="Where to listen; one of the next if it is taken."),
    ] = 8080,
    host: Annotated[
        str,
        typer.Option(
            metavar="ADDRESS",
            help="The address to listen at: this machine alone, or 0.0.0.0 for all of its addresses; others than "
            "this machine need the token that is printed.",
        ),
    ] = "127.0.0.1",
    token: Annotated[
        str,
        typer.Option(metavar="WORD", help="What others have to bring; random when not given.", show_default=False),
    ] = "",
    watch: Annotated[bool, typer.Option("--watch/--no-watch", help="Read files again when they change.")] = True,
    plain: Annotated[bool, typer.Option("--plain", help="Begin without shadows and mirrored light.")] = False,
    browser: Annotated[bool, typer.Option("--open", help="Open a browser here.")] = False,
    format: Format = None,
    search_path: SearchPath = None,
    variant: Variant = None,
    base: OfBase = None,
    json: Json = False,
) -> None:
    """Show robots in the browser: look, move joints, simulate, drag, plot, check, compare. Ends with Ctrl-C.

    Exit status: 0 fine, 2 a file could not be read, or there is no viewer (pip install 'kinema[viewer]').
    """
    from .reading import settings
    from .view import run

    how = settings(format, search_path, variant, None, base)
    address = {"host": host, "port": port, "token": token}
    raise typer.Exit(run(files, how, address, envs=envs, watch=watch, plain=plain, browser=browser, json=json))
