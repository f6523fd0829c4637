"""Tables of the attachments that a scene can make at run time, and of the suction cups that make them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from kinema.core import Array

from .kinematic_tree import Ints
from .table import Table


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class AttachmentsInfo(Table):
    """One row for each reserved attachment: a pair of links that an equality constraint holds while it is attached.

    Attachments are the last rows of the table of equality constraints, where side a has the anchor and side b is the
    other link.
    """

    names: Sequence[str]
    equality_idx: Ints
    """Row in the table of equality constraints."""
    cup_idx: Ints
    """Suction cup that makes the attachment; -1 if the user does."""
    break_force: Array
    """Initial force at which the attachment breaks [N]; infinite if it never does."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class SuctionCupsInfo(Table):
    """One row for each suction cup."""

    names: Sequence[str]
    link_idx: Ints
    frame_idx: Ints
    """Moving frame of the cup; -1 for the world."""
    pos: Array
    """Centre of the lip in the moving frame [m], (n, 3)."""
    axis: Array
    """Unit vector out of the cup in the moving frame, (n, 3)."""
    reach: Array
    """Largest distance along the axis at which the cup grips a surface [m]."""


def empty_attachments() -> AttachmentsInfo:
    """Table of a model without attachments."""
    none = np.zeros(0, np.int32)
    return AttachmentsInfo(names=[], equality_idx=none, cup_idx=none, break_force=np.zeros(0))


def empty_suction_cups() -> SuctionCupsInfo:
    """Table of a model without suction cups."""
    none = np.zeros(0, np.int32)
    return SuctionCupsInfo(
        names=[], link_idx=none, frame_idx=none, pos=np.zeros((0, 3)), axis=np.zeros((0, 3)), reach=np.zeros(0)
    )
