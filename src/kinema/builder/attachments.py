"""Reserved attachments and suction cups: their equality constraints and tables."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from kinema.core import KinemaError, reproducible_product
from kinema.model import AttachmentsInfo, SuctionCupsInfo

from .context import AttachmentSpec, BuildContext, LinkOfEntity, LinkRecord

ATTACHMENT_COMPONENTS = {"weld": ("point", "rotation"), "ball": ("point",), "rod": ("rod",), "rope": ("rope",)}
"""Constrained components (`EqualitiesInfo.components`) by kind of attachment."""


def find_attached_link(ctx: BuildContext, link: LinkOfEntity | None) -> LinkRecord | None:
    """Record of a link by entity and index within the entity; None for the world."""
    if link is None:
        return None
    entity, index = link
    return sorted((x for x in ctx.links if x.entity == entity), key=lambda x: x.index)[index]


def attached_links(ctx: BuildContext) -> Iterator[tuple[AttachmentSpec, str, LinkRecord | None, LinkRecord | None]]:
    """Yield each reserved attachment with its name and the records of both links, anchor first."""
    for spec in ctx.attachments:
        a, b = (find_attached_link(ctx, link) for link in (spec.anchor, spec.other))
        names = ["the world" if x is None else f"{ctx.entities[x.entity].name}/{x.description.name}" for x in (a, b)]
        if _frame(a) == _frame(b):
            raise KinemaError(f"attach: {names[0]} cannot move relative to {names[1]}")
        yield spec, f"{spec.kind} of {names[0]} to {names[1]}", a, b


def _frame(link: LinkRecord | None) -> int:
    return -1 if link is None else link.frame_idx


def pack_attachments(ctx: BuildContext, n_equalities: int) -> AttachmentsInfo:
    """Table of reserved attachments, which are the last of `n_equalities` equality constraints."""
    specs = [(spec, name) for spec, name, _, _ in attached_links(ctx)]
    return AttachmentsInfo(
        names=[name for _, name in specs],
        equality_idx=np.arange(n_equalities - len(specs), n_equalities, dtype=np.int32),
        cup_idx=np.array([spec.cup for spec, _ in specs], np.int32),
        break_force=np.array(
            [np.inf if spec.cup < 0 else ctx.suction_cups[spec.cup].max_force for spec, _ in specs], np.float64
        ),
    )


def pack_suction_cups(ctx: BuildContext) -> SuctionCupsInfo:
    """Table of suction cups, with poses in the moving frames of their links."""
    links = [find_attached_link(ctx, cup.link) for cup in ctx.suction_cups]
    records = [link for link in links if link is not None]
    poses = [link.pose_in_frame for link in records]
    cups = list(zip(ctx.suction_cups, poses, strict=True))
    return SuctionCupsInfo(
        names=[cup.name for cup in ctx.suction_cups],
        link_idx=np.array([link.index for link in records], np.int32),
        frame_idx=np.array([link.frame_idx for link in records], np.int32),
        pos=np.array([pose.apply(cup.pos) for cup, pose in cups], np.float64).reshape(-1, 3),
        axis=np.array(
            [reproducible_product(pose.rotation, np.asarray(cup.axis, np.float64)) for cup, pose in cups], np.float64
        ).reshape(-1, 3),
        reach=np.array([cup.reach for cup in ctx.suction_cups], np.float64),
    )
