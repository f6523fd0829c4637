"""What came of a sweep: a table, and a picture of it."""

from __future__ import annotations

import csv
import io
import math
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from kinema.foundation import KinemaError, WriteError


@dataclass(frozen=True, slots=True)
class Row:
    """One set of parameters."""

    number: int
    parameters: Mapping[str, Any]
    budget: int
    """Of the last time that it was tried."""
    values: Mapping[str, float]
    """What it is worth; nothing where the trial failed."""
    failure: str = ""
    log: str = ""

    @property
    def objective(self) -> float:
        """The one that counts; not a number where the trial failed."""
        return self.values.get("objective", math.nan)

    def rank(self, maximize: bool) -> tuple[float, float, int]:
        """What rows are sorted by, the best first: those that went furthest, then by what they are worth."""
        worth = math.inf if math.isnan(self.objective) else (-self.objective if maximize else self.objective)
        return -self.budget if worth < math.inf else 1, worth, self.number


@dataclass(frozen=True, slots=True)
class Table:
    """All that was tried."""

    rows: tuple[Row, ...]
    maximize: bool = False

    @property
    def best(self) -> Row:
        """The best of all."""
        found = min(self.rows, key=lambda row: row.rank(self.maximize), default=None)
        if found is None or math.isnan(found.objective):
            why = next((row.failure for row in self.rows if row.failure), "there was none")
            raise KinemaError(f"no trial of the sweep came to an end: {why}")
        return found

    @property
    def names(self) -> list[str]:
        """The parameters."""
        return list(dict.fromkeys(name for row in self.rows for name in row.parameters))

    def __str__(self) -> str:
        return self.text()

    def text(self, most: int = 20) -> str:
        """The best rows, best first, as a table."""
        from rich.console import Console
        from rich.table import Table as Printed

        measured = list(dict.fromkeys(name for row in self.rows for name in row.values))
        printed = Printed("trial", *self.names, "budget", *measured, "", box=None, padding=(0, 2, 0, 0))
        for row in sorted(self.rows, key=lambda row: row.rank(self.maximize))[:most]:
            given = [_short(row.parameters.get(name, "")) for name in self.names]
            found = [_short(row.values.get(name, "")) for name in measured]
            printed.add_row(str(row.number), *given, str(row.budget), *found, row.failure)
        stream = io.StringIO()
        Console(file=stream, width=160, highlight=False).print(printed)
        more = f"and {len(self.rows) - most} more\n" if len(self.rows) > most else ""
        return stream.getvalue() + more

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write all rows to a `.csv` file."""
        measured = list(dict.fromkeys(name for row in self.rows for name in row.values))
        stream = io.StringIO()
        writer = csv.writer(stream)
        writer.writerow(["trial", *self.names, "budget", *measured, "failure"])
        for row in self.rows:
            given = [row.parameters.get(name, "") for name in self.names]
            writer.writerow([row.number, *given, row.budget, *(row.values.get(n, "") for n in measured), row.failure])
        try:
            Path(path).write_text(stream.getvalue(), encoding="utf-8")
        except OSError as error:
            raise WriteError(f"{path}: {error.strerror or error}") from None

    def plot(self, path: str | os.PathLike[str]) -> None:
        """Draw what each parameter does to the objective, a panel for each, as an `.svg` file."""
        if Path(path).suffix.lower() != ".svg":
            raise WriteError(f"{path}: plots are written as .svg")
        panels = [(name, *self._dots(name)) for name in self.names]
        panels = [panel for panel in panels if len(panel[1])]
        if not panels:
            raise KinemaError("there is nothing to plot: no parameter that was tried is a number, or no trial ended")
        drawn = "\n".join(_panel(k, *panel) for k, panel in enumerate(panels))
        width, height = _WIDTH * len(panels), _HEIGHT
        head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif">'
        try:
            Path(path).write_text(f"{head}\n{drawn}\n</svg>\n", encoding="utf-8")
        except OSError as error:
            raise WriteError(f"{path}: {error.strerror or error}") from None

    def _dots(self, name: str) -> tuple[np.ndarray, np.ndarray]:
        pairs = [
            (float(row.parameters[name]), row.objective)
            for row in self.rows
            if isinstance(row.parameters.get(name), int | float) and not math.isnan(row.objective)
        ]
        x, y = np.array(pairs).reshape(-1, 2).T
        return x, y


_WIDTH, _HEIGHT, _EDGE = 320, 260, 48


def _short(value: Any) -> str:
    return f"{value:.5g}" if isinstance(value, float) else str(value)


def _panel(k: int, name: str, x: np.ndarray, y: np.ndarray) -> str:
    """A cloud of dots with the numbers at its corners."""
    left, right, top, bottom = k * _WIDTH + _EDGE, (k + 1) * _WIDTH - 12, 16, _HEIGHT - _EDGE
    along, across = (np.maximum(np.ptp(v), 1e-300) for v in (x, y))
    px = left + (x - x.min()) / along * (right - left)
    py = bottom - (y - y.min()) / across * (bottom - top)
    dots = "".join(f'<circle cx="{a:.1f}" cy="{b:.1f}" r="3"/>' for a, b in zip(px, py, strict=True))
    label = name.replace("&", "&amp;").replace("<", "&lt;")
    texts = [
        (left, bottom + 16, "start", f"{x.min():.4g}"),
        (right, bottom + 16, "end", f"{x.max():.4g}"),
        (left - 4, bottom, "end", f"{y.min():.4g}"),
        (left - 4, top + 8, "end", f"{y.max():.4g}"),
        ((left + right) / 2, bottom + 34, "middle", label),
    ]
    words = "".join(
        f'<text x="{a:.0f}" y="{b:.0f}" text-anchor="{c}" font-size="11">{t}</text>' for a, b, c, t in texts
    )
    box = f'<rect x="{left}" y="{top}" width="{right - left}" height="{bottom - top}" fill="none" stroke="#888"/>'
    return f'{box}<g fill="#2a6fbb" fill-opacity="0.6">{dots}</g>{words}'
