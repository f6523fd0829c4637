"""Articulations: connected components of links, declared roots, and self-collision."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from kinema.description import Joint, Link
from kinema.tokens import newton, physx, usd_physics

from . import pxr
from .kinema_attributes import declared_articulation_roots
from .stage_index import StageIndex

# -- connected components ----------------------------------------------------------------------------------------------


def connected_components(names: Sequence[str], joints: Iterable[Joint]) -> list[list[str]]:
    """Connected components of links under joints (union-find), in the order of `names`."""
    parent = {name: name for name in names}

    def find(name: str) -> str:
        while parent[name] != name:
            parent[name] = parent[parent[name]]
            name = parent[name]
        return name

    for joint in joints:
        if joint.parent is not None and joint.child is not None:
            a, b = find(joint.parent), find(joint.child)
            if a != b:
                parent[b] = a
    groups: dict[str, list[str]] = {}
    for name in names:
        groups.setdefault(find(name), []).append(name)
    return list(groups.values())


# -- articulation roots ------------------------------------------------------------------------------------------------


def declared_root_links(index: StageIndex, joints: Sequence[Joint]) -> list[str]:
    """Names of the links declared by articulation roots.

    The schema on a body declares that body; on a joint, the body that the joint connects to the world; on another prim,
    the topmost body below it if the bodies are nested. For sibling bodies the spanning tree decides.
    """
    roots: list[str] = []
    prims = declared_articulation_roots(index, index.articulations)
    joint_at = {joint.origin.path: joint for joint in joints}
    below = bodies_below(index, [index.values.facts(prim).path for prim in prims])
    for prim in prims:
        facts = index.values.facts(prim)
        if facts.path in index.bodies:
            roots.append(index.bodies[facts.path].name)
        elif facts.kind.is_joint:
            roots += _link_fixed_to_world(index, joint_at.get(facts.path))
        else:
            roots += _topmost_link(index, prim, below[facts.path])
    return roots


def articulation_robot_names(index: StageIndex) -> dict[str, str]:
    """Link -> robot name: name of the prim with the articulation root that contains the link."""
    if index.values.kinema_layer_data is not None:
        return {}  # stages of Kinema store robot names
    containers = [p for p in index.articulations if not index.values.facts(p).kind.is_joint]
    paths = [path for path in (index.values.facts(prim).path for prim in containers) if path not in index.bodies]
    below = bodies_below(index, paths)
    return {index.bodies[body].name: path.rpartition("/")[2] for path in paths for body in below[path]}


def bodies_below(index: StageIndex, paths: Sequence[str]) -> dict[str, list[str]]:
    """Path -> bodies below it; each body visits its ancestors, so the time is linear in the bodies."""
    below: dict[str, list[str]] = {path: [] for path in paths}
    for body in index.bodies if below else ():
        above = body.rpartition("/")[0]
        while above:
            if above in below:
                below[above].append(body)
            above = above.rpartition("/")[0]
    return below


def articulation_links(index: StageIndex) -> dict[str, list[str]]:
    """Path of each articulation root -> its links: the two of a joint, otherwise those at or below the prim."""
    paths = [index.values.facts(prim).path for prim in index.articulations]
    below = bodies_below(index, paths)
    result: dict[str, list[str]] = {}
    for prim, path in zip(index.articulations, paths, strict=True):
        inside = [path, *below[path]]
        if index.values.facts(prim).kind.is_joint:
            targets = [index.targets(prim, side)[:1] for side in usd_physics.BODIES]
            inside = [index.owner_path(str(target)) or "" for paths in targets for target in paths]
        result[path] = [index.bodies[p].name for p in inside if p in index.bodies]
    return result


def _link_fixed_to_world(index: StageIndex, joint: Joint | None) -> list[str]:
    """The link that a joint connects to the world, as a list; empty with a warning if neither side is the world."""
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


def _topmost_link(index: StageIndex, prim: pxr.Prim, body_paths: Sequence[str]) -> list[str]:
    """The single topmost body below an articulation root, as a list; empty if it is not unique."""
    if not body_paths:
        index.diagnostics.warning(
            "usd.empty-articulation",
            f"{prim.GetPath()} is marked as an articulation's root, but holds no enabled body",
            origin=index.origin(prim),
        )
        return []
    members = set(body_paths)
    tops = [path for path in body_paths if index.bodies[path].parent not in members]
    return [index.bodies[tops[0]].name] if len(tops) == 1 else []


_SELF_COLLISION_ATTRIBUTES = (newton.SELF_COLLISION_ENABLED, physx.ENABLED_SELF_COLLISIONS)


def apply_self_collision(
    index: StageIndex, links: Mapping[str, Link], articulated: Mapping[str, Sequence[str]]
) -> None:
    """Disable collisions between the links of articulations with disabled self-collision."""
    disabled = [
        p for p in index.articulations if any(index.authored(p, name) is False for name in _SELF_COLLISION_ATTRIBUTES)
    ]
    if not disabled:
        return
    links_of = articulation_links(index)
    for prim in disabled:
        for name in {n for link in links_of[index.values.facts(prim).path] for n in articulated[link]}:
            links[name].self_collide = False
