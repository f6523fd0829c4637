"""Render quality and update rate of the page, by user choice or from frame rates that browsers report."""

from __future__ import annotations

import time
from collections.abc import Callable
from urllib.parse import parse_qs

AUTOMATIC, FULL, FAST = "automatic", "full", "fast"
CHOICES = (AUTOMATIC, FULL, FAST)
MAX_SEND_RATE, MIN_SEND_RATE = 40.0, 12.0
"""How often a second what moves is sent, at most and at least."""
_SEND_RATE_MARGIN = 1.25
"""How much more often it is sent than it is drawn, so that a browser that gets faster is noticed."""
_SLOW_FRAME_RATE, _GOOD_FRAME_RATE = 20.0, 30.0
"""Frames/s below which a picture is too rich, and above which a richer one may be tried."""
_MAX_SLOW_REPORTS = 3
"""Slow reports in a row, one each second, after which something is done."""
_FIRST_RETRY = 30.0
"""Delay before full quality is tried again [s]; doubled after each failure."""
_REPORT_LIFETIME = 3.0
"""Time after which a report expires [s]: the page was closed, or nothing moved."""

_NO_GPU = "this browser draws without a GPU"


class RenderQuality:
    """Chooses render quality and update rate from the frame rates that browsers report."""

    def __init__(self, choice: str = AUTOMATIC, clock: Callable[[], float] = time.monotonic) -> None:
        self.choice = choice
        self.is_fast = choice == FAST
        """Whether shadows, reflections, the filled floor and fine meshes of environment grids are omitted."""
        self.reason = ""
        """Reason of fast rendering if chosen automatically."""
        self.on_change: Callable[[], None] = lambda: None
        """Called when `is_fast` has changed."""
        self._clock = clock
        self._reports: list[tuple[float, float]] = []
        self._n_slow_reports = 0
        self._is_software_rendered = False
        self._retry_delay = _FIRST_RETRY
        self._retry_at = 0.0

    @property
    def send_rate(self) -> float:
        """Update rate of moving objects [1/s]: slightly above the frame rate of the fastest browser."""
        now = self._clock()
        drawn = [rate for time, rate in self._reports if now - time < _REPORT_LIFETIME]
        return min(max(_SEND_RATE_MARGIN * max(drawn), MIN_SEND_RATE), MAX_SEND_RATE) if drawn else MAX_SEND_RATE

    def choose(self, choice: str) -> None:
        """Set the user's choice, one of `CHOICES`."""
        self.choice, self.reason, self._n_slow_reports = choice, "", 0
        if choice == AUTOMATIC and self._is_software_rendered:
            self._switch_to_fast(_NO_GPU)
        else:
            self._set_fast(choice == FAST)

    def handle_report(self, query: str, *, is_moving: bool) -> None:
        """Process the report of a browser: its frame rate [1/s], and whether it renders in software.

        Args:
            query: `drawn=24.5&software=1`; invalid reports are ignored.
            is_moving: whether something moved during the whole interval; otherwise there was nothing to draw.
        """
        report = {name: values[0] for name, values in parse_qs(query).items()}
        try:
            drawn = float(report.get("drawn", ""))
        except ValueError:
            return
        if not 0.0 < drawn < 1e4:
            return
        if report.get("software") == "1" and not self._is_software_rendered:
            self._is_software_rendered = True
            if self.choice == AUTOMATIC:
                self._switch_to_fast(_NO_GPU)
        if is_moving:
            now = self._clock()
            self._reports = [(time, rate) for time, rate in self._reports if now - time < _REPORT_LIFETIME] + [
                (now, drawn)
            ]
            self._update_level(drawn, now)

    def _update_level(self, frame_rate: float, now: float) -> None:
        self._n_slow_reports = self._n_slow_reports + 1 if frame_rate < _SLOW_FRAME_RATE else 0
        if self.choice != AUTOMATIC:
            return
        if not self.is_fast and self._n_slow_reports >= _MAX_SLOW_REPORTS:
            self._retry_at, self._retry_delay = now + self._retry_delay, 2 * self._retry_delay
            self._switch_to_fast(f"this browser drew {frame_rate:.0f} frames/s")
        elif (
            self.is_fast and frame_rate > _GOOD_FRAME_RATE and now >= self._retry_at and not self._is_software_rendered
        ):
            self.reason = ""
            self._set_fast(False)

    def _switch_to_fast(self, reason: str) -> None:
        self.reason, self._n_slow_reports = reason, 0
        self._set_fast(True)

    def _set_fast(self, fast: bool) -> None:
        if fast != self.is_fast:
            self.is_fast = fast
            self.on_change()
