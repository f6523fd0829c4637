"""What else frames find in their rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from kinema.trace import Place

from .tree import Node


class Found(Protocol):
    """Something that frames find more of in their rows."""

    name: str

    def touches(self, node: Node) -> bool:
        """Whether a frame has anything of it."""
        ...

    def places_of(self, node: Node) -> Mapping[str, Place]:
        """Where a frame finds what it has of it."""
        ...
