"""How the writers put on record what a format cannot say."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import numpy as np

from kinema.description import Link, Node, Robot, Shape, SolverParameters, World

from .report import Action, Loss, LossReport

Fields = Mapping[str, tuple[Any, str]]
"""Fields with their defaults, and the words for those that have others."""
_INFINITY = float("inf")
AXIS_FIELDS: Fields = {
    "acceleration": (_INFINITY, "its limit of acceleration"),
    "deceleration": (_INFINITY, "its limit of deceleration"),
    "jerk": (_INFINITY, "its limit of jerk"),
    "armature": (0.0, "its armature"),
    "drive": (None, "its drive"),
    "limit_solver": (SolverParameters(), "the solver parameters of its limits"),
    "friction_solver": (SolverParameters(), "the solver parameters of its friction"),
}
"""Of an axis, what neither URDF nor SDFormat can say."""
JOINT_FIELDS: Fields = {
    "state": (None, "the coordinates it is shown at"),
    "cone": (None, "its cone limit"),
    "break_force": (_INFINITY, "the force it breaks at"),
    "break_torque": (_INFINITY, "the torque it breaks at"),
}
"""The same of a joint."""


def _weighs(shape: Shape) -> bool:
    return shape.mass is not None or shape.density is not None


def put_on_record(report: LossReport, action: Action, node: Node | tuple[str, str], what: str, how: str = "") -> None:
    """Report a loss of a node, or of something called by kind and name."""
    if not isinstance(node, Node):
        report.add(Loss(action, *node, what, how))
        return
    name = node.name or report.nameless.get(id(node), "")
    only_seen = isinstance(node, Shape) and node.visual and not (node.collision or _weighs(node))
    report.add(Loss(action, type(node).__name__.lower(), name, what, how, node.origin, only_seen))


class Losing:
    """What each run of a writer can do beside writing."""

    __slots__ = ()
    report: LossReport

    def lose(self, action: Action, node: Node | tuple[str, str], what: str, how: str = "") -> None:
        """Put a loss on record: of a node, or of something called by kind and name."""
        put_on_record(self.report, action, node, what, how)

    def drop(self, node: Node | tuple[str, str], what: str, how: str = "") -> None:
        """Put on record that something is not in the file."""
        self.lose(Action.DROPPED, node, what, how)

    def approximate(self, node: Node | tuple[str, str], what: str, how: str = "") -> None:
        """Put on record that something is in the file only nearly, or in another form."""
        self.lose(Action.APPROXIMATED, node, what, how)


def differing(node: object, table: Fields) -> list[str]:
    """Words for the fields that are not what the table gives as their default."""
    return [words for name, (default, words) in table.items() if not _is_same(getattr(node, name), default)]


def _is_same(value: object, default: object) -> bool:
    if value is None or default is None or isinstance(value, np.ndarray):
        return value is default
    return value == default


def named_shape(link: Link, shape: Shape) -> Shape:
    """The shape, by a name that tells which one is meant where it has none."""
    if shape.name:
        return shape
    named = copy.copy(shape)
    named.name = _words_for(link, link.shapes.index(shape))
    return named


def nameless_shapes(described: Robot | World) -> dict[int, str]:
    """What shapes without a name are called in reports, by the identity of each."""
    return {
        id(shape): _words_for(link, i)
        for link in described.links
        for i, shape in enumerate(link.shapes)
        if not shape.name
    }


def _words_for(link: Link, index: int) -> str:
    return f"{link.shapes[index].kind} {index + 1} of {link.name}"
