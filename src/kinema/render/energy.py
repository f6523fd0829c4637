"""How much light rough surfaces reflect in all directions together, for the energy balance of the path tracer."""

from __future__ import annotations

from functools import cache

import numpy as np

from kinema.foundation import Array

CELLS = 64
_SAMPLES = 256


@cache
def energy_table() -> tuple[Array, Array]:
    """By roughness and cosine from 0 to 1 the factors of E = a f0 + b for Schlick's law, (n, n, 2); and their means.

    Facets are sampled as they are seen, at points that cover the square evenly; the weight left over is the share of
    facets that the light is not hidden from.
    """
    grid = np.linspace(0.0, 1.0, CELLS)
    alpha = np.maximum(grid**2, 1e-3)[:, None, None]
    cosine = np.maximum(grid, 1e-3)[None, :, None]
    k = np.arange(_SAMPLES, dtype=np.float64)
    r1, r2 = (k + 0.5) / _SAMPLES, np.mod(0.6180339887498949 * k, 1.0)
    seen = np.sqrt(1.0 - cosine**2)
    h = _facet(alpha, seen, cosine, r1[None, None], r2[None, None])
    both = np.clip(seen * h[0] + cosine * h[2], 0.0, 1.0)
    into = 2.0 * both * h[2] - cosine
    open_ = 2.0 * into / (into + np.sqrt(alpha**2 * (1.0 - into**2) + into**2))
    weight = np.where(into > 0.0, np.maximum(open_, 0.0), 0.0)
    schlick = (1.0 - both) ** 5
    table = np.stack([(weight * (1.0 - schlick)).mean(axis=-1), (weight * schlick).mean(axis=-1)], axis=-1)
    weighed = 2.0 * grid[None, :, None] * table
    mean = 0.5 * (weighed[:, 1:] + weighed[:, :-1]).sum(axis=1) / (CELLS - 1)
    return table, mean


def _facet(alpha: Array, x: Array, z: Array, r1: Array, r2: Array) -> tuple[Array, Array, Array]:
    """Normals of facets, as likely as they are seen from (x, 0, z)."""
    length = np.sqrt((alpha * x) ** 2 + z**2)
    vx, vz = alpha * x / length, z / length
    radius, angle = np.sqrt(r1), 2.0 * np.pi * r2
    a = radius * np.cos(angle)
    s = 0.5 * (1.0 + vz)
    b = (1.0 - s) * np.sqrt(np.maximum(1.0 - a**2, 0.0)) + s * radius * np.sin(angle)
    c = np.sqrt(np.maximum(1.0 - a**2 - b**2, 0.0))
    # across is y, up is v x y = (-vz, 0, vx)
    nx, ny, nz = -b * vz + c * vx, a, np.maximum(b * vx + c * vz, 1e-6)
    nx, ny = alpha * nx, alpha * ny
    length = np.sqrt(nx**2 + ny**2 + nz**2)
    return nx / length, ny / length, nz / length
