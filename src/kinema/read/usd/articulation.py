"""Which body an articulation says is its root."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kinema.description import Joint, Link
from kinema.words import newton, physics, physx

from . import pxr
from .own_names import declared
from .stage_index import StageIndex


def declared_roots(index: StageIndex, joints: Sequence[Joint]) -> list[str]:
    """Names of the links that articulation roots declare.

    The schema on a body names that body. On a joint it names the body the joint holds to the world. On any other prim
    it names the top-most body below it where the bodies are nested in each other; where they stand side by side the
    spanning tree's own rule decides.
    """
    roots: list[str] = []
    prims = declared(index, index.articulations)
    joint_at = {joint.origin.path: joint for joint in joints}
    below = bodies_below(index, [index.values.facts(prim).path for prim in prims])
    for prim in prims:
        facts = index.values.facts(prim)
        if facts.path in index.bodies:
            roots.append(index.bodies[facts.path].name)
        elif facts.kind.is_joint:
            roots += _held_by(index, joint_at.get(facts.path))
        else:
            roots += _topmost(index, prim, below[facts.path])
    return roots


def articulation_names(index: StageIndex) -> dict[str, str]:
    """Link -> what its robot is called: the prim around its bodies that carries the articulation root."""
    if index.values.stamp is not None:
        return {}  # where robots have names of their own
    around = [p for p in index.articulations if not index.values.facts(p).kind.is_joint]
    paths = [path for path in (index.values.facts(prim).path for prim in around) if path not in index.bodies]
    below = bodies_below(index, paths)
    return {index.bodies[body].name: path.rpartition("/")[2] for path in paths for body in below[path]}


def bodies_below(index: StageIndex, paths: Sequence[str]) -> dict[str, list[str]]:
    """For each path the bodies under it; each body climbs, so that the time does not grow with their product."""
    below: dict[str, list[str]] = {path: [] for path in paths}
    for body in index.bodies if below else ():
        above = body.rpartition("/")[0]
        while above:
            if above in below:
                below[above].append(body)
            above = above.rpartition("/")[0]
    return below


def marked_links(index: StageIndex) -> dict[str, list[str]]:
    """For each prim that is marked as an articulation's root, the links it names: a joint's two, else those in it."""
    paths = [index.values.facts(prim).path for prim in index.articulations]
    below = bodies_below(index, paths)
    result: dict[str, list[str]] = {}
    for prim, path in zip(index.articulations, paths, strict=True):
        inside = [path, *below[path]]
        if index.values.facts(prim).kind.is_joint:
            targets = [index.targets(prim, side)[:1] for side in physics.BODIES]
            inside = [index.owner_path(str(target)) or "" for paths in targets for target in paths]
        result[path] = [index.bodies[p].name for p in inside if p in index.bodies]
    return result


def _held_by(index: StageIndex, joint: Joint | None) -> list[str]:
    if joint is None:
        return []
    ends = [end for end in (joint.parent, joint.child) if end is not None]
    if len(ends) == 1:
        return ends
    index.diagnostics.warning(
        "usd.articulation-on-inner-joint",
        f"joint {joint.name!r} is marked as an articulation's root, but neither of its sides is the world",
        hint="mark the root body, or a joint that fixes it to the world",
        origin=joint.origin,
    )
    return []


def _topmost(index: StageIndex, prim: pxr.Prim, inside: Sequence[str]) -> list[str]:
    if not inside:
        index.diagnostics.warning(
            "usd.empty-articulation",
            f"{prim.GetPath()} is marked as an articulation's root, but holds no enabled body",
            origin=index.origin(prim),
        )
        return []
    members = set(inside)
    tops = [path for path in inside if index.bodies[path].parent not in members]
    return [index.bodies[tops[0]].name] if len(tops) == 1 else []


_SELF_COLLISION = (newton.SELF_COLLISION_ENABLED, physx.ENABLED_SELF_COLLISIONS)


def apply_self_collision(
    index: StageIndex, links: Mapping[str, Link], articulated: Mapping[str, Sequence[str]]
) -> None:
    """Links of an articulation that says so do not collide with each other."""
    apart = [p for p in index.articulations if any(index.authored(p, name) is False for name in _SELF_COLLISION)]
    if not apart:
        return
    marked = marked_links(index)
    for prim in apart:
        for name in {n for link in marked[index.values.facts(prim).path] for n in articulated[link]}:
            links[name].self_collide = False
