"""Where a camera, light or frame stands: in its link's prim, or where its robot or world is."""

from __future__ import annotations

from kinema.description import Assembly, Camera, Frame, Light, Robot
from kinema.foundation import Array, Pose
from kinema.words import ours

from ..report import Action
from .draft import PrimDraft
from .names import author_name
from .writing import Writing


def place_on_link(
    writing: Writing, assembly: Assembly, node: Camera | Light | Frame, kind: str, *, scale: Array | None = None
) -> PrimDraft:
    """A prim of a type for something that is on a link, or in the world.

    Args:
        writing: this run.
        assembly: the robot or world that it belongs to.
        node: the thing.
        kind: the prim's type.
        scale: the prim's scale.
    """
    parent, base = writing.plan.root, Pose()
    for parts in writing.plan.robots:
        link = node.link
        if link is not None and link in parts.links and (assembly is parts.robot or not isinstance(assembly, Robot)):
            parent = parts.links[link]
        elif link is None and assembly is parts.robot:
            # what is in the world is posed there; the robot's prim may be elsewhere
            parent, base = parts.path, parts.robot.pose.inverse()
    if node.link is not None and parent == writing.plan.root:
        writing.lose(Action.APPROXIMATED, node, f'that it is on the link "{node.link}"', "there is no such link")
    prim = writing.draft.prim(writing.plan.names.child(parent, node.name, kind.lower()), kind)
    author_name(writing, prim, node)
    prim.place(base @ node.pose, scale)
    kind_of_node = type(node).__name__
    prim.keep(ours.ORDER, writing.placed[kind_of_node])
    writing.placed[kind_of_node] += 1
    return prim
