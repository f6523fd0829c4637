"""Switches of the layers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..layers import Layers

_HINTS = {"Contacts": "while it plays; arrows are forces, and may be inside of links: switch Visual off to see them"}


def add_layers(gui: Any, layers: Layers, switch: Callable[[str, bool], None]) -> None:
    """A box for each layer."""
    for name in layers.names():
        _box(gui, name, name in layers.on, switch)


def _box(gui: Any, name: str, on: bool, switch: Callable[[str, bool], None]) -> None:
    box = gui.add_checkbox(name, initial_value=on, hint=_HINTS.get(name))
    box.on_update(lambda _: switch(name, box.value))
