"""Showing a scene: who does that stands above scenes, and is named at the top of the package."""

from __future__ import annotations

import importlib
import sys
from typing import Any


class Showing:
    """The part of a scene that can be looked at."""

    def show(self, *, block: bool = False, host: str = "127.0.0.1", port: int = 8080, token: str = "") -> Any:
        """Open a viewer of this scene in the browser (extra `viewer`); the scene has to be built.

        The viewer's buttons step the scene; after steps of your own, `viewer.update()` draws where things are. In a
        notebook the viewer is shown as the result of a cell.

        Args:
            block: stay here until the user interrupts.
            host: the address to listen at: this machine alone unless told otherwise; others need a token.
            port: the port, or one of the next if it is taken.
            token: what others have to bring; a random one when not given.

        Returns:
            The viewer: `address`, `update()`, `screenshot(path)`, `close()`.
        """
        top = sys.modules[__name__.partition(".")[0]]
        return importlib.import_module(top.SHOWN_BY).show(self, block=block, host=host, port=port, token=token)
