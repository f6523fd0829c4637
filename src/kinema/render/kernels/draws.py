"""Numbers between 0 and 1 that paths are chosen by.

Those that matter most, of the pixel and of the first few surfaces, are points of a lattice, which covers all of them
together more evenly than chance does and so leaves less noise; each pixel shifts it by chance, so that the mean stays
right. All others are chance. Every number has its place in a list, whether those before it are asked for or not.
"""

from __future__ import annotations

import warp as wp

PIXEL = wp.constant(0)
MATT = wp.constant(2)
"""Where those of surfaces that scatter light start, `EACH` for one of the first `MATTS`."""
MATTS, EACH = wp.constant(4), wp.constant(10)
SCATTER, GLOW, LAMP, AIM = wp.constant(0), wp.constant(3), wp.constant(6), wp.constant(9)
"""What each has them for."""
PANE, PANES = wp.constant(42), wp.constant(8)
"""Of the first surfaces of glass."""
LENS, TIME = wp.constant(50), wp.constant(52)
CHANCE = wp.constant(1 << 16)
"""From here on they are of no lattice: of later surfaces, and for every step whether a path goes on."""


@wp.struct
class Draws:
    """One path, of those through one pixel."""

    pixel: wp.uint32
    """Different for each pixel and seed."""
    place: wp.uint32
    """The number of the path, its bits in the opposite order: any first 2^n of them are evenly apart."""


@wp.func
def mixed(bits: wp.uint32) -> wp.uint32:
    """Bits that look like chance."""
    x = bits
    x = (x ^ (x >> wp.uint32(16))) * wp.uint32(0x7FEB352D)
    x = (x ^ (x >> wp.uint32(15))) * wp.uint32(0x3C6EF373)
    return x ^ (x >> wp.uint32(16))


@wp.func
def turned(bits: wp.uint32) -> wp.uint32:
    """The bits in the opposite order."""
    x = (bits << wp.uint32(16)) | (bits >> wp.uint32(16))
    x = ((x & wp.uint32(0x00FF00FF)) << wp.uint32(8)) | ((x >> wp.uint32(8)) & wp.uint32(0x00FF00FF))
    x = ((x & wp.uint32(0x0F0F0F0F)) << wp.uint32(4)) | ((x >> wp.uint32(4)) & wp.uint32(0x0F0F0F0F))
    x = ((x & wp.uint32(0x33333333)) << wp.uint32(2)) | ((x >> wp.uint32(2)) & wp.uint32(0x33333333))
    return ((x & wp.uint32(0x55555555)) << wp.uint32(1)) | ((x >> wp.uint32(1)) & wp.uint32(0x55555555))


@wp.func
def draws_of(seed: int, pixel: int, path: int) -> Draws:
    result = Draws()
    result.pixel = mixed(mixed(wp.uint32(seed) + wp.uint32(1)) + wp.uint32(pixel))
    result.place = turned(wp.uint32(path))
    return result


@wp.func
def of_matt(number: int) -> int:
    """Where the numbers of a surface that scatters start: the first that is met is number 0."""
    return wp.where(number < MATTS, MATT, CHANCE) + EACH * number


@wp.func
def of_pane(number: int) -> int:
    """The one of a surface of glass."""
    return wp.where(number < PANES, PANE, 2 * CHANCE) + number


@wp.func
def of_step(number: int) -> int:
    """One of those that say whether a path goes on."""
    return 3 * CHANCE + number


@wp.func
def draw(strides: wp.array[wp.uint32], draws: Draws, which: int) -> float:
    """One of the numbers of a path."""
    bits = mixed(draws.pixel + wp.uint32(which) * wp.uint32(0x1E3779B9))
    if which < strides.shape[0]:
        bits = bits + draws.place * strides[which]
    else:
        bits = mixed(bits ^ draws.place)
    return float(bits >> wp.uint32(8)) * 5.9604644775390625e-8  # 2^-24


@wp.func
def draw3(strides: wp.array[wp.uint32], draws: Draws, first: int) -> wp.vec3:
    """Three of them."""
    return wp.vec3(draw(strides, draws, first), draw(strides, draws, first + 1), draw(strides, draws, first + 2))
