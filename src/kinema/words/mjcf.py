"""MJCF: the keys under which a description keeps what means nothing elsewhere."""

from __future__ import annotations

from typing import Final

CHILDCLASS: Final = "mjcf:childclass"
CLASS: Final = "mjcf:class"
