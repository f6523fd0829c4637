"""Several joints between two bodies: do they constrain each other, or add their motion?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kinema.description import Joint, can_reverse, reverse_joint
from kinema.foundation import Origin
from kinema.words import mjc, newton

from . import pxr
from .articulation import marked_links
from .stage_index import StageIndex


def stack_joints(
    index: StageIndex,
    joints: Sequence[tuple[pxr.Prim, Joint]],
    articulated: Mapping[str, Sequence[str]],
    wanted: bool | None,
) -> None:
    """Mark the joints that add their motion to one before them between the same two links.

    By themselves joints constrain, so that one carries and the others close loops. They add their motion where the
    user wants it, where their articulation says so, and, as MJCF's joints do, on a stage with MuJoCo's settings.

    Args:
        index: the stage.
        joints: with their prims, in stage order.
        articulated: link name -> all links of its articulation.
        wanted: what the user says; None for what the stage says.
    """
    bundles: dict[frozenset[str | None], list[tuple[pxr.Prim, Joint]]] = {}
    for prim, joint in joints:
        if joint.enabled and not joint.closes_loop:
            bundles.setdefault(frozenset((joint.parent, joint.child)), []).append((prim, joint))
    several = [bundle for bundle in bundles.values() if len(bundle) > 1]
    if not several:
        return
    said = _said(index, articulated)
    guessed = [b for b in several if _add(index, b, said, wanted)]
    if guessed:
        message = (
            f"{len(guessed)} pair(s) of bodies have several joints with MuJoCo's settings; they add their motion, as in"
            f" MJCF: {', '.join(j.name for _, j in guessed[0])} are the first"
        )
        hint = f"author {newton.JOINTS_ADD_MOBILITY} on the articulation's root"
        index.diagnostics.note("usd.stacked-joints", message, hint=hint, origin=Origin(index.file))


def _add(
    index: StageIndex, bundle: Sequence[tuple[pxr.Prim, Joint]], said: Mapping[str, bool], wanted: bool | None
) -> bool:
    """Mark the joints of one bundle where they add their motion; whether that was a guess."""
    ends = (end for _, joint in bundle for end in (joint.parent, joint.child) if end is not None)
    answer = wanted if wanted is not None else next((said[end] for end in ends if end in said), None)
    guess = answer is None and _speaks_mujoco(index, bundle)
    if answer or guess:
        for _, joint in bundle[1:]:
            joint.stacked = _align(joint, bundle[0][1])
            if not joint.stacked:
                index.diagnostics.warning(
                    "usd.stacked-backwards",
                    f"joint {joint.name!r} cannot add its motion to {bundle[0][1].name!r}: it runs the other way, and a"
                    f" {joint.kind.value} joint has no inverse of its kind; it closes a loop",
                    hint="swap physics:body0 and physics:body1, and the frames with them",
                    origin=joint.origin,
                )
    return guess


def _align(joint: Joint, first: Joint) -> bool:
    """Let a joint run from the same link as another one, with its coordinates kept; whether it can."""
    if joint.parent == first.parent:
        return True
    if not can_reverse(joint):
        return False
    turned = reverse_joint(joint)
    joint.parent, joint.child, joint.axes = turned.parent, turned.child, turned.axes
    joint.parent_pose, joint.child_pose = turned.parent_pose, turned.child_pose
    return True


def _said(index: StageIndex, articulated: Mapping[str, Sequence[str]]) -> dict[str, bool]:
    """Link -> what the scene or its articulation says."""
    result: dict[str, bool] = {}
    for prim in index.scenes:
        value = index.authored(prim, newton.JOINTS_ADD_MOBILITY)
        if value is not None:
            result.update(dict.fromkeys(articulated, bool(value)))
    marked = marked_links(index)
    speakers = [(prim, marked[index.values.facts(prim).path]) for prim in index.articulations]
    speakers += [(body.prim, [body.name]) for body in index.bodies.values()]
    for prim, links in speakers:
        value = index.authored(prim, newton.JOINTS_ADD_MOBILITY)
        if value is not None:
            result.update({name: bool(value) for link in links for name in articulated[link]})
    return result


def _speaks_mujoco(index: StageIndex, bundle: Sequence[tuple[pxr.Prim, Joint]]) -> bool:
    prims = [*index.scenes, *(prim for prim, _ in bundle)]
    return any(name.startswith(mjc.NAMESPACE) for prim in prims for name in index.values.facts(prim).authored)
