"""How long computations say how far they are."""

from __future__ import annotations

from collections.abc import Callable

Report = Callable[[str, float], None]
"""Called with what is being done, and how much of it is done (0 to 1)."""
