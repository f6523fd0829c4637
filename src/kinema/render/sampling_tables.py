"""Precomputed tables of the path tracer: GGX directional albedo and the generating vector of its rank-1 lattice.

Lattice point k has the coordinates phi(k) * generator mod 1, where phi is the base-2 radical inverse, so that every
prefix of 2^n points is a lattice (extensible rank-1 lattice).
"""

from __future__ import annotations

from functools import cache

import numpy as np

from kinema.core import Array

# Albedo tables --------------------------------------------------------------------------------------------------------

ALBEDO_TABLE_SIZE = 64
_ALBEDO_SAMPLES = 256


@cache
def ggx_albedo_tables() -> tuple[Array, Array]:
    """Directional albedo of GGX reflection as coefficients (a, b) of a F0 + b with Schlick's Fresnel term.

    Returns a table over roughness and cosine, both from 0 to 1, shape (n, n, 2), and its cosine-weighted hemispherical
    mean over roughness, shape (n, 2). Integrated with quasi-random samples of the visible normals, whose weight is the
    Smith masking function of the incident direction.
    """
    grid = np.linspace(0.0, 1.0, ALBEDO_TABLE_SIZE)
    alpha = np.maximum(grid**2, 1e-3)[:, None, None]
    cosine = np.maximum(grid, 1e-3)[None, :, None]
    index = np.arange(_ALBEDO_SAMPLES, dtype=np.float64)
    r1, r2 = (index + 0.5) / _ALBEDO_SAMPLES, np.mod(0.6180339887498949 * index, 1.0)
    sine = np.sqrt(1.0 - cosine**2)
    h = _sample_visible_normals(alpha, sine, cosine, r1[None, None], r2[None, None])
    cos_half = np.clip(sine * h[0] + cosine * h[2], 0.0, 1.0)
    cos_incident = 2.0 * cos_half * h[2] - cosine
    masking = 2.0 * cos_incident / (cos_incident + np.sqrt(alpha**2 * (1.0 - cos_incident**2) + cos_incident**2))
    weight = np.where(cos_incident > 0.0, np.maximum(masking, 0.0), 0.0)
    schlick = (1.0 - cos_half) ** 5
    table = np.stack([(weight * (1.0 - schlick)).mean(axis=-1), (weight * schlick).mean(axis=-1)], axis=-1)
    weighted = 2.0 * grid[None, :, None] * table
    mean = 0.5 * (weighted[:, 1:] + weighted[:, :-1]).sum(axis=1) / (ALBEDO_TABLE_SIZE - 1)
    return table, mean


def _sample_visible_normals(
    alpha: Array, view_x: Array, view_z: Array, r1: Array, r2: Array
) -> tuple[Array, Array, Array]:
    """Microfacet normals (x, y, z) sampled from the GGX distribution of visible normals (Heitz 2018).

    Args:
        alpha: GGX width.
        view_x: x of the view direction (x, 0, z).
        view_z: z of the view direction.
        r1: first uniform random number.
        r2: second uniform random number.
    """
    length = np.sqrt((alpha * view_x) ** 2 + view_z**2)
    vx, vz = alpha * view_x / length, view_z / length
    radius, angle = np.sqrt(r1), 2.0 * np.pi * r2
    a = radius * np.cos(angle)
    s = 0.5 * (1.0 + vz)
    b = (1.0 - s) * np.sqrt(np.maximum(1.0 - a**2, 0.0)) + s * radius * np.sin(angle)
    c = np.sqrt(np.maximum(1.0 - a**2 - b**2, 0.0))
    # the first tangent is y, the second v x y = (-vz, 0, vx)
    nx, ny, nz = -b * vz + c * vx, a, np.maximum(b * vx + c * vz, 1e-6)
    nx, ny = alpha * nx, alpha * ny
    length = np.sqrt(nx**2 + ny**2 + nz**2)
    return nx / length, ny / length, nz / length


# Rank-1 lattice -------------------------------------------------------------------------------------------------------

LATTICE_GENERATOR = np.array(
    [
        0x00000001,
        0xE69E2897,
        0xE83B195B,
        0x19A6566D,
        0x6246BAE7,
        0xE09E010B,
        0x58E7D8AF,
        0x0AF68979,
        0x8D48FA73,
        0x8A8895B9,
        0x92FF1903,
        0x6DF66141,
        0xA8F4DB4F,
        0x39E67135,
        0xADCD14C5,
        0x211E685F,
        0x087A65D5,
        0xF5D775AD,
        0xDE3CECC1,
        0xB16B8663,
        0xD89D65EB,
        0xE8F8094D,
        0x8DCC10F1,
        0xBF977C91,
        0xB96788A9,
        0x5DC5CB45,
        0x3DB26A77,
        0x68101AF7,
        0xFDB253DD,
        0xED4E8233,
        0x496A91B5,
        0x7FC04405,
        0xFD113C9B,
        0x7DF7971D,
        0x5192253D,
        0xFFCE268F,
        0xC58C1167,
        0x0F1895A7,
        0x66B3931B,
        0x13323931,
        0xB7E19B0D,
        0xB7989349,
        0x02C81A61,
        0x95657BBB,
        0x026D416B,
        0xEC879425,
        0x471E27C9,
        0xC41A9A25,
        0xB76373D3,
        0x86CDE08B,
        0x89B149C3,
        0x2BB5E32B,
        0x11792929,
    ],
    np.uint32,
)
"""Generating vector by dimension, in units of 2^-32.

Constructed component by component, each the best of 250 random candidates by the worst-case error
(`lattice_squared_error`) over 16 to 16,384 points, with decreasing weights of later dimensions.
"""


def lattice_points(n_points: int, dimensions: slice = slice(None)) -> Array:
    """First `n_points` points of the lattice in [0, 1), shape (n_points, n_dimensions), for some dimensions."""
    index = np.arange(n_points, dtype=np.uint32)
    bits = (index[:, None] >> np.arange(32, dtype=np.uint32)) & np.uint32(1)
    reversed_index = (bits << np.arange(31, -1, -1, dtype=np.uint32)).sum(axis=1, dtype=np.uint32)
    return (reversed_index[:, None] * LATTICE_GENERATOR[dimensions]) / 2.0**32


def lattice_squared_error(points: Array, weight: float = 0.1) -> float:
    """Squared worst-case integration error of lattice points (n, d) in a weighted Korobov space of smoothness 2.

    `weight` is the weight of every dimension.
    """
    kernel = 1.0 + weight * 2.0 * np.pi**2 * (points**2 - points + 1.0 / 6.0)
    return float(kernel.prod(axis=1).mean() - 1.0)
