"""Benchmark results as an SVG bar chart with a logarithmic scale."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape

from .harness import BenchmarkResult

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
