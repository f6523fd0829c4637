"""Motion links: one joint follows another."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kinema.description import Mimic
from kinema.foundation import Diagnostics

from .disjoint import DisjointSets
from .elements import MotionLinkElement
from .joints import Coordinate
from .schema import FORMAT


def add_mimics(
    links: Sequence[MotionLinkElement], coordinates: Mapping[tuple[int, str], Coordinate], diagnostics: Diagnostics
) -> None:
    """Let the second motion of each link follow the first, through where both stand in the snapshot.

    A motion follows one other at most: where the second already follows, the first follows the second instead. A link
    that ties what is tied already is left out.
    """
    tied = DisjointSets(id(c.axis) for c in coordinates.values())
    for link in links:
        if link.suppressed:
            message = f'motion link "{link.name}" is suppressed and left out'
            diagnostics.note(f"{FORMAT}.suppressed", message, origin=link.place)
            continue
        first = coordinates.get((id(link.joint1), link.motion1))
        second = coordinates.get((id(link.joint2), link.motion2))
        if first is None or second is None:
            names = {link.joint1.name, link.joint2.name}
            which = " and ".join(f'"{n}"' for n in sorted(names))
            _leave_out(link, f"of {which} not all motions are left", diagnostics)
            continue
        if first.axis is second.axis:
            continue  # a screw has it in its pitch
        ratio = link.value2 / link.value1 * (-1 if link.reversed else 1) * first.rate / second.rate
        if tied.same(id(first.axis), id(second.axis)):
            _leave_out(link, "the two follow each other already", diagnostics)
        elif second.axis.mimic is None:
            _follow(second, first, ratio)
            tied.unite(id(first.axis), id(second.axis))
        elif first.axis.mimic is None and ratio != 0:
            _follow(first, second, 1 / ratio)
            tied.unite(id(first.axis), id(second.axis))
        else:
            _leave_out(link, "both follow others already", diagnostics)


def _follow(follower: Coordinate, leader: Coordinate, multiplier: float) -> None:
    follower.axis.mimic = Mimic(
        joint=leader.joint.name,
        axis=leader.number,
        multiplier=multiplier,
        offset=follower.value,
        reference=leader.value,
    )


def _leave_out(link: MotionLinkElement, reason: str, diagnostics: Diagnostics) -> None:
    message = f'motion link "{link.name}" is left out: {reason}'
    diagnostics.warning(f"{FORMAT}.motion-link-ignored", message, origin=link.place)
