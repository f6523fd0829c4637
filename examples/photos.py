"""Pictures of scenes and curves for the examples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

import kinema as km
from kinema.render import Camera, look_at, write_png
from kinema.scene import SceneCameras

COLORS = ("#2a6f97", "#d1495b", "#66a182", "#edae49")
GAP = 6
"""Pixels between pictures."""


def photograph(
    scene: km.Scene,
    path: Path,
    eye: Sequence[float],
    target: Sequence[float],
    envs: Sequence[int] = (0,),
    width: int = 480,
) -> None:
    """Some environments side by side, seen from one place [m]."""
    camera = Camera(name="eye", pose=look_at(np.asarray(eye, float), np.asarray(target, float)), fov=0.7)
    cameras = SceneCameras(scene, [camera], (width, width * 3 // 4), images=("rgb",), samples=3)
    images = cameras.render()["rgb"].numpy()[list(envs), 0]
    rows, columns, colors = images[0].shape
    sheet = np.full((rows, len(images) * (columns + GAP) - GAP, colors), 255, np.uint8)
    for i, image in enumerate(images):
        sheet[:, i * (columns + GAP) : i * (columns + GAP) + columns] = image
    path.parent.mkdir(parents=True, exist_ok=True)
    write_png(path, sheet)


def plot(path: Path, curves: Mapping[str, tuple[np.ndarray, np.ndarray]], across: str, up: str) -> None:
    """Curves by name, each of (x, y), as SVG."""
    xs, ys = (np.concatenate([curve[k] for curve in curves.values()]) for k in (0, 1))
    low, high = np.array([xs.min(), ys.min()]), np.array([xs.max(), ys.max()])
    size = np.where(high > low, high - low, 1.0)
    parts = ['<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 640 360" font-family="sans-serif" font-size="13">']
    parts.append('<rect width="640" height="360" fill="white"/><path d="M60 20V310H620" fill="none" stroke="#888"/>')
    for i, (name, (x, y)) in enumerate(curves.items()):
        points = (np.stack([x, y], axis=1) - low) / size * [550.0, 280.0]
        line = " ".join(f"{62 + a:.1f},{308 - b:.1f}" for a, b in points)
        color = COLORS[i % len(COLORS)]
        parts.append(f'<polyline points="{line}" fill="none" stroke="{color}" stroke-width="2"/>')
        parts.append(f'<text x="430" y="{36 + 18 * i}" fill="{color}">{name}</text>')
    parts.append(f'<text x="340" y="345" text-anchor="middle">{across}: {low[0]:.3g} to {high[0]:.3g}</text>')
    turned = 'x="20" y="165" text-anchor="middle" transform="rotate(-90 20 165)"'
    parts.append(f"<text {turned}>{up}: {low[1]:.3g} to {high[1]:.3g}</text>")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join([*parts, "</svg>"]) + "\n")
