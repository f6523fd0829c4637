"""Where the writer puts links, for those who say more about them in layers of their own."""

from __future__ import annotations

from kinema.description import Robot, World

from .plan import make_plan


def link_paths(described: Robot | World, layout: str) -> tuple[str, list[str]]:
    """The root prim of a stage that is written of a description, and the prim of each of its links, in their order."""
    plan = make_plan(described, layout)
    by_link = {id(link): parts.links[link.name] for parts in plan.robots for link in parts.robot.links}
    return plan.root, [by_link[id(link)] for link in described.links]
