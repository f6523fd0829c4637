"""The order of links and joints, where that of the stage is another."""

from __future__ import annotations

from itertools import pairwise

from kinema.description import JointKind
from kinema.words import ours

from .plan import RobotPlan
from .writing import Writing


def keep_order(writing: Writing) -> None:
    """Number links and joints whose place in the stage is not their place in the description."""
    place = {path: i for i, path in enumerate(_stage_order(writing))}
    robots = writing.plan.robots
    links = [parts.links[link.name] for parts in robots for link in parts.robot.links]
    joints = [parts.joints.get(id(j), "") for parts in robots for j in parts.robot.joints]
    for paths in (links, joints):
        _number(writing, paths, place)
    _number_free(writing, robots)


def _number(writing: Writing, paths: list[str], place: dict[str, int]) -> None:
    """Number what has a prim, where the stage has it in another order; what has none leaves a gap."""
    prims = [(i, writing.draft.prims[p]) for i, p in enumerate(paths) if p in place]
    # layers are put together in an order of their own
    if writing.options.layered or any(place[a.path] > place[b.path] for (_, a), (_, b) in pairwise(prims)):
        for number, prim in prims:
            prim.keep(ours.ORDER, number)


def _number_free(writing: Writing, robots: list[RobotPlan]) -> None:
    """Where among the joints the free ones are, which have no prim."""
    joints = [(parts, joint) for parts in robots for joint in parts.robot.joints]
    for number, (parts, joint) in enumerate(joints):
        body = writing.draft.prims.get(parts.links.get(joint.child or joint.parent or "", ""))
        if joint.kind is JointKind.FREE and body is not None and number < len(joints) - 1:
            body.keep(ours.FREE_JOINT_ORDER, number)


def _stage_order(writing: Writing) -> list[str]:
    """All prims as a walk over the stage meets them."""
    children: dict[str, list[str]] = {}
    for path in writing.draft.prims:  # in the order they were made, which is that of siblings
        children.setdefault(path.rpartition("/")[0], []).append(path)
    order: list[str] = []
    waiting = list(reversed(children.get("", [])))
    while waiting:
        path = waiting.pop()
        order.append(path)
        waiting.extend(reversed(children.get(path, [])))
    return order
