"""Learning curves, as numbers and as pictures, in docs/learning."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path

FOLDER = Path(__file__).parent.parent / "docs" / "learning"
WIDTH, HEIGHT, EDGE = 480, 240, 44


def write_curve(name: str, heads: Sequence[str], rows: Sequence[Sequence[float]]) -> None:
    """The numbers; the first column is seconds, the second steps."""
    FOLDER.mkdir(exist_ok=True)
    with (FOLDER / f"{name}.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(heads)
        writer.writerows([f"{row[0]:.1f}", int(row[1]), *(f"{x:.4f}" for x in row[2:])] for row in rows)


def write_picture(
    name: str, title: str, points: Sequence[tuple[float, float]], mark: float, top: tuple[float, str]
) -> None:
    """Something over the steps that were taken, with a mark to reach; `top` is the end of its axis and its name."""
    last = points[-1][0]

    def at(steps: float, value: float) -> str:
        x = EDGE + (WIDTH - 2 * EDGE) * steps / last
        return f"{x:.1f},{HEIGHT - EDGE - (HEIGHT - 2 * EDGE) * min(value / top[0], 1.0):.1f}"

    line = " ".join(at(*point) for point in points)
    dashes = " ".join(at(steps, mark) for steps in (0, last))
    frame = " ".join([at(0, top[0]), at(0, 0), at(last, 0)])
    size = f'viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="12"'
    text = f"""<svg xmlns="http://www.w3.org/2000/svg" {size}>
<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>
<polyline points="{frame}" fill="none" stroke="#888"/>
<polyline points="{dashes}" fill="none" stroke="#c60" stroke-dasharray="4 4"/>
<polyline points="{line}" fill="none" stroke="#06c" stroke-width="2"/>
<text x="{EDGE}" y="24">{title}</text>
<text x="{WIDTH - EDGE}" y="{HEIGHT - 16}" text-anchor="end">{last / 1e6:.2f} million steps</text>
<text x="{EDGE - 4}" y="{EDGE + 4}" text-anchor="end">{top[1]}</text>
<text x="{EDGE - 4}" y="{HEIGHT - EDGE}" text-anchor="end">0</text>
</svg>
"""
    FOLDER.mkdir(exist_ok=True)
    (FOLDER / f"{name}.svg").write_text(text, encoding="utf-8")
