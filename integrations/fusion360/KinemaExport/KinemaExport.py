"""The add-in: puts the command into the toolbar when it starts, and takes it away when it stops."""

from __future__ import annotations

from . import command


def run(context: object) -> None:
    """Called by Fusion when the add-in starts."""
    command.guarded(command.start)


def stop(context: object) -> None:
    """Called by Fusion when the add-in stops."""
    command.guarded(command.stop)
