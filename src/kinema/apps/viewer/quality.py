"""How richly the page is drawn, and how often: chosen by the user, or found from how fast browsers draw."""

from __future__ import annotations

import time
from collections.abc import Callable
from urllib.parse import parse_qs

AUTOMATIC, FULL, FAST = "automatic", "full", "fast"
CHOICES = (AUTOMATIC, FULL, FAST)
MOST, LEAST = 40.0, 12.0
"""How often a second what moves is sent, at most and at least."""
_AHEAD = 1.25
"""How much more often it is sent than it is drawn, so that a browser that gets faster is noticed."""
_SLOW, _FINE = 20.0, 30.0
"""Frames/s below which a picture is too rich, and above which a richer one may be tried."""
_PATIENCE = 3
"""Slow reports in a row, one each second, after which something is done."""
_FIRST_RETRY = 30.0
"""Seconds after which a richer picture is tried again; each time it was too much, twice as long."""
_STALE = 3.0
"""Seconds after which a report says nothing any more: its page was closed, or nothing moved."""

_NO_GPU = "this browser draws without a GPU"


class Quality:
    """Reports of browsers come in; whether to draw fast, and how often to send, comes out."""

    def __init__(self, choice: str = AUTOMATIC, clock: Callable[[], float] = time.monotonic) -> None:
        self.choice = choice
        self.fast = choice == FAST
        """Whether shadows, mirrored light, the filled floor and fine meshes of crowds are left out."""
        self.why = ""
        """Why it is drawn fast, where nobody chose it."""
        self.on_change: Callable[[], None] = lambda: None
        """Called when `fast` has changed."""
        self._clock = clock
        self._reports: list[tuple[float, float]] = []
        self._slow = 0
        self._software = False
        self._wait = _FIRST_RETRY
        self._retry_at = 0.0

    @property
    def rate(self) -> float:
        """How often a second what moves is worth sending: a little more often than the fastest browser draws."""
        now = self._clock()
        drawn = [rate for told, rate in self._reports if now - told < _STALE]
        return min(max(_AHEAD * max(drawn), LEAST), MOST) if drawn else MOST

    def choose(self, choice: str) -> None:
        """What the user wants: one of `CHOICES`."""
        self.choice, self.why, self._slow = choice, "", 0
        if choice == AUTOMATIC and self._software:
            self._lower(_NO_GPU)
        else:
            self._set(choice == FAST)

    def told(self, query: str, *, moving: bool) -> None:
        """A browser's report: frames/s that it drew, and whether a CPU draws them.

        Args:
            query: `drawn=24.5&software=1`; anything else is passed over.
            moving: whether something moved all that time; else it had nothing to draw.
        """
        said = {name: values[0] for name, values in parse_qs(query).items()}
        try:
            drawn = float(said.get("drawn", ""))
        except ValueError:
            return
        if not 0.0 < drawn < 1e4:
            return
        if said.get("software") == "1" and not self._software:
            self._software = True
            if self.choice == AUTOMATIC:
                self._lower(_NO_GPU)
        if moving:
            now = self._clock()
            self._reports = [(told, rate) for told, rate in self._reports if now - told < _STALE] + [(now, drawn)]
            self._judge(drawn, now)

    def _judge(self, drawn: float, now: float) -> None:
        self._slow = self._slow + 1 if drawn < _SLOW else 0
        if self.choice != AUTOMATIC:
            return
        if not self.fast and self._slow >= _PATIENCE:
            self._retry_at, self._wait = now + self._wait, 2 * self._wait
            self._lower(f"this browser drew {drawn:.0f} frames/s")
        elif self.fast and drawn > _FINE and now >= self._retry_at and not self._software:
            self.why = ""
            self._set(False)

    def _lower(self, why: str) -> None:
        self.why, self._slow = why, 0
        self._set(True)

    def _set(self, fast: bool) -> None:
        if fast != self.fast:
            self.fast = fast
            self.on_change()
