"""Benchmark results as SVG: a bar chart with a logarithmic scale, and a log-log chart by the number of objects."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape

from .harness import BenchmarkResult
from .heap import HeapMeasurement

ROW_HEIGHT = 22
GROUP_GAP = 10
"""Vertical gap between robots."""
CHARACTER_WIDTH = 7.2
"""Approximate width of a character."""
PLOT_WIDTH = 560
KINEMA_COLOR, PEER_COLOR = "#2563eb", "#9ca3af"


def bar_chart_svg(results: Sequence[BenchmarkResult], title: str) -> str:
    """SVG bar chart of rates on a logarithmic scale, with one bar per result, grouped by robot."""
    low = 10 ** math.floor(math.log10(min(r.figures.rate for r in results)))
    high = 10 ** math.ceil(math.log10(max(r.figures.rate for r in results)))
    span = math.log10(high / low) or 1.0
    starts = [i for i, r in enumerate(results) if i and r.case != results[i - 1].case]
    height = 60 + ROW_HEIGHT * len(results) + GROUP_GAP * len(starts)
    labels = [f"{r.case}, {r.figures.simulator}, {r.figures.n_envs:,} envs" for r in results]
    left = round(20 + CHARACTER_WIDTH * max(map(len, labels)))
    total = left + PLOT_WIDTH + 120
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {total} {height}" '
        'font-family="sans-serif" font-size="12">',
        f'<rect width="{total}" height="{height}" fill="white"/>',
        f'<text x="10" y="20" font-size="14" font-weight="bold">{escape(title)}</text>',
    ]
    for decade in range(round(span) + 1):
        x = left + PLOT_WIDTH * decade / span
        lines.append(f'<line x1="{x:.1f}" y1="32" x2="{x:.1f}" y2="{height - 20}" stroke="#e5e7eb"/>')
        lines.append(
            f'<text x="{x:.1f}" y="{height - 6}" text-anchor="middle" '
            f'fill="#6b7280">{_format_si(low * 10**decade)}</text>'
        )
    for i, result in enumerate(results):
        y = 36 + ROW_HEIGHT * i + GROUP_GAP * sum(start <= i for start in starts)
        figures = result.figures
        length = max(PLOT_WIDTH * math.log10(figures.rate / low) / span, 1.0)
        color = KINEMA_COLOR if figures.simulator.startswith("Kinema") else PEER_COLOR
        lines.append(f'<text x="{left - 8}" y="{y + 14}" text-anchor="end">{escape(labels[i])}</text>')
        lines.append(f'<rect x="{left}" y="{y + 3}" width="{length:.1f}" height="{ROW_HEIGHT - 7}" fill="{color}"/>')
        lines.append(f'<text x="{left + length + 6:.1f}" y="{y + 14}">{_format_si(figures.rate)}/s</text>')
    return "\n".join([*lines, "</svg>"]) + "\n"


def _format_si(number: float) -> str:
    for unit, size in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if number >= size:
            return f"{number / size:.3g} {unit}"
    return f"{number:.3g}"


# ------------------------------------------------------------------------------------------------------------- scaling

CHART_SIZE = 380
"""Width and height of the plot of a scaling chart."""
SCALED_FIGURES = {"resting": "a step at rest", "first_step": "time to the first step"}
"""Figures of a scaling chart, with their labels."""


def scaling_chart_svg(results: Sequence[HeapMeasurement], title: str) -> str:
    """SVG log-log chart of times [s] by the number of objects: a line per simulator and figure."""
    counts = sorted({r.n_bodies for r in results})
    times = [getattr(r, name) for r in results for name in SCALED_FIGURES]
    axes = [_decades(counts), _decades([x for x in times if x > 0.0])]
    left, top, width = 70, 40, CHART_SIZE + 330
    height = top + CHART_SIZE + 50

    def place(n_bodies: float, time: float) -> tuple[float, float]:
        x, y = (
            (math.log10(value) - low) / max(high - low, 1)
            for value, (low, high) in zip((n_bodies, time), axes, strict=True)
        )
        return left + CHART_SIZE * x, top + CHART_SIZE * (1.0 - y)

    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        'font-family="sans-serif" font-size="12">',
        f'<rect width="{width}" height="{height}" fill="white"/>',
        f'<text x="10" y="20" font-size="14" font-weight="bold">{escape(title)}</text>',
    ]
    (first_x, last_x), (first_y, last_y) = axes
    for decade in range(first_x, last_x + 1):
        x, bottom = place(10.0**decade, 10.0**first_y)
        lines.append(f'<line x1="{x:.1f}" y1="{top}" x2="{x:.1f}" y2="{bottom:.1f}" stroke="#e5e7eb"/>')
        lines.append(f'<text x="{x:.1f}" y="{bottom + 16:.1f}" text-anchor="middle">{10**decade:,}</text>')
    for decade in range(first_y, last_y + 1):
        x, y = place(10.0**first_x, 10.0**decade)
        lines.append(f'<line x1="{x:.1f}" y1="{y:.1f}" x2="{x + CHART_SIZE:.1f}" y2="{y:.1f}" stroke="#e5e7eb"/>')
        lines.append(f'<text x="{x - 6:.1f}" y="{y + 4:.1f}" text-anchor="end">{10.0**decade:g} s</text>')
    for simulator in dict.fromkeys(r.simulator for r in results):
        own = sorted((r for r in results if r.simulator == simulator), key=lambda r: r.n_bodies)
        color = KINEMA_COLOR if simulator.startswith("Kinema") else PEER_COLOR
        for name, label in SCALED_FIGURES.items():
            points = [place(r.n_bodies, getattr(r, name)) for r in own if getattr(r, name) > 0.0]
            if not points:
                continue
            dash = "" if name == "resting" else ' stroke-dasharray="5 4"'
            path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
            lines.append(f'<polyline points="{path}" fill="none" stroke="{color}" stroke-width="2"{dash}/>')
            x, y = points[-1]
            text = escape(f"{simulator}, {label}")
            lines.append(f'<text x="{x + 8:.1f}" y="{y + 4:.1f}" fill="{color}">{text}</text>')
    lines.append(f'<text x="{left + CHART_SIZE / 2}" y="{height - 8}" text-anchor="middle">objects</text>')
    return "\n".join([*lines, "</svg>"]) + "\n"


def _decades(values: Sequence[float]) -> tuple[int, int]:
    """Powers of ten around positive values."""
    low = math.floor(math.log10(min(values)))
    return low, max(math.ceil(math.log10(max(values))), low + 1)
