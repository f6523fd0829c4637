"""Tables of reserved attachments (pairs of links that can be attached at run time) and of suction cups."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from kinema.core import Array

from .kinematic_tree import Ints
from .table import Table


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class AttachmentsInfo(Table):
    """One row for each reserved attachment: a pair of links with an equality constraint that can be activated.

    Attachments are the last rows of the table of equality constraints, where side a has the anchor and side b is the
    other link.
    """

    names: Sequence[str]
    equality_idx: Ints
    """Row in the table of equality constraints."""
    cup_idx: Ints
    """Suction cup that activates the attachment; -1 if the user does."""
    break_force: Array
    """Initial force at which the attachment breaks [N]; infinite if it never does."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class SuctionCupsInfo(Table):
    """One row for each suction cup (vacuum gripper)."""

    names: Sequence[str]
    link_idx: Ints
    frame_idx: Ints
    """Moving frame of the cup; -1 for the world."""
    pos: Array
    """Contact point (centre of the rim) in the moving frame [m], (n, 3)."""
    axis: Array
    """Unit vector out of the cup in the moving frame, (n, 3)."""
    reach: Array
    """Range: largest distance of a surface along the axis at which the cup attaches a link [m]."""


@cache
def empty_attachments() -> AttachmentsInfo:
    """Table of a model without attachments."""
    none = np.zeros(0, np.int32)
    return AttachmentsInfo(names=[], equality_idx=none, cup_idx=none, break_force=np.zeros(0))


@cache
def empty_suction_cups() -> SuctionCupsInfo:
    """Table of a model without suction cups."""
    none = np.zeros(0, np.int32)
    return SuctionCupsInfo(
        names=[], link_idx=none, frame_idx=none, pos=np.zeros((0, 3)), axis=np.zeros((0, 3)), reach=np.zeros(0)
    )
