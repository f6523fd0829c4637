"""Lengths that are neither coordinates nor sums of them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from kinema.foundation import Array

from .bodies import Ints


@dataclass(kw_only=True, slots=True, eq=False)
class PathsInfo:
    """One row for each piece of a path: lengths between places on links, whose moments change with the state.

    Spatial tendons are paths, and what actuators pull along that is neither a coordinate nor a sum of them.
    """

    path_idx: Ints
    """The path that a piece belongs to: its length is the sum over all of them."""
    kinds: list[str]
    """`straight`, `sphere`, `cylinder` (both may be `beside` a point), `crank`, and between two frames `pose`, `turn`,
    `push` and `thrust`: see `sim/force/pieces.py`."""
    frame_idx: Ints
    """The moving frames that its ends sit in, -1 for the world: from, to, the shape wrapped around, the point beside
    which that is, (n, 4)."""
    pos: Array
    """The ends there [m], (n, 4, 3)."""
    rot: Array
    """Their axes there, (n, 4, 3, 3)."""
    factor: Array
    """What its length counts: the inverse of a pulley's divisor."""
    numbers: Array
    """A radius; the length of a rod; or the gear, three of translation and three of rotation; (n, 6)."""
    moves: npt.NDArray[np.bool_]
    """The degrees of freedom that change its length, (n, n_dofs)."""


def no_paths() -> PathsInfo:
    """The table of a model without paths."""
    return PathsInfo(
        path_idx=np.zeros(0, np.int32),
        kinds=[],
        frame_idx=np.zeros((0, 4), np.int32),
        pos=np.zeros((0, 4, 3)),
        rot=np.zeros((0, 4, 3, 3)),
        factor=np.zeros(0),
        numbers=np.zeros((0, 6)),
        moves=np.zeros((0, 0), np.bool_),
    )
