"""`kinema info`: links, joints and other contents of a robot file as a tree or as JSON."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text
from rich.tree import Tree

from kinema.core import KinemaError, Pose
from kinema.description import (
    Axis,
    AxisMotion,
    Joint,
    JointKind,
    KinematicTree,
    Link,
    Mesh,
    Robot,
    Shape,
    TreeEdge,
    World,
)

from .input_output import (
    STANDARD_STREAM,
    exit_status,
    open_input,
    output_console,
    print_diagnostics,
    print_json,
    read_file,
    report_error,
)
from .options import ReadSettings

# ---------------------------------------------------------------------------------------------------------- JSON output


def description_to_json(description: Robot | World) -> dict[str, Any]:
    """JSON object with everything that `kinema info` shows; a stable format."""
    world = description if isinstance(description, World) else World(robots=[description])
    poses = world.link_poses()
    unique = {(id(robot), link.name): name for name, robot, link in world.named_links()}
    parents = _parent_links(world, unique)
    joints = [(name, robot, joint) for name, robot, joint in world.named_joints() if not joint.implicit]
    return {
        "format": description.format,
        "kind": "world" if isinstance(description, World) else "robot",
        "name": description.name,
        "source": description.source,
        "n_links": len(world.links),
        "n_joints": len(joints),
        "n_dofs": world.n_dofs,
        "n_qs": world.n_qs,
        "total_mass": _number_json(world.total_mass),
        "robots": [_robot_json(r) for r in world.robots],
        "links": [_link_json(n, link, parents[n], poses.get(n)) for n, _, link in world.named_links()],
        "joints": [_joint_json(name, robot, joint, unique) for name, robot, joint in joints],
        "geoms": list(_geoms_json(world)),
        "diagnostics": [d.to_json() for d in description.diagnostics],
    }


UniqueNames = dict[tuple[int, str], str]
"""Robot (its `id`) and link name -> the link's name that is unique in the world."""


def _parent_links(world: World, unique: UniqueNames) -> dict[str, str | None]:
    """Parent link of each link, by unique names."""
    parents: dict[str, str | None] = dict.fromkeys(unique.values())
    for robot in world.robots:
        for edge in robot.tree().edges:
            if edge.parent is not None:
                parents[unique[id(robot), edge.child]] = unique[id(robot), edge.parent]
    return parents


def _robot_json(robot: Robot) -> dict[str, Any]:
    tree = robot.tree()
    return {
        "name": robot.name,
        "base": robot.base.value,
        "static": robot.static,
        "pose": _pose_json(robot.pose),
        "roots": list(tree.roots),
        "loop_joints": [j.name for j in tree.loops],
        "n_constraints": len(robot.constraints),
        "n_actuators": len(robot.actuators),
        "n_tendons": len(robot.tendons),
        "n_sensors": len(robot.sensors),
    }


def _link_json(name: str, link: Link, parent: str | None, pose: Pose | None) -> dict[str, Any]:
    inertial = link.inertial
    return {
        "name": name,
        "parent": parent,
        "mass": 0.0 if inertial is None else _number_json(inertial.mass),
        "com": None if inertial is None else _array_json(inertial.center),
        "inertia": None if inertial is None else _array_json(inertial.inertia),
        "pose": None if pose is None else _pose_json(pose),
        "origin": str(link.origin) if not link.origin.path else link.origin.path,
    }


def _joint_json(name: str, robot: Robot, joint: Joint, unique: UniqueNames) -> dict[str, Any]:
    parent, child = (None if end is None else unique.get((id(robot), end), end) for end in (joint.parent, joint.child))
    single = joint.axes[0] if len(joint.axes) == 1 else None
    return {
        "name": name,
        "type": joint.kind.value,
        "parent": parent,
        "child": child,
        "axis": None if single is None else _array_json(single.direction),
        "origin": _pose_json(joint.parent_pose),
        "lower": None if single is None else _number_json(single.lower),
        "upper": None if single is None else _number_json(single.upper),
        "effort": None if single is None else _number_json(single.effort),
        "velocity": None if single is None else _number_json(single.velocity),
        "robot": robot.name,
        "enabled": joint.enabled,
        "axes": [
            {
                "motion": axis.motion.value,
                "state": axis.state.value,
                "direction": _array_json(axis.direction),
                "lower": _number_json(axis.lower),
                "upper": _number_json(axis.upper),
                "effort": _number_json(axis.effort),
                "velocity": _number_json(axis.velocity),
                "damping": _number_json(axis.damping),
                "friction": _number_json(axis.friction),
                "armature": _number_json(axis.armature),
                "stiffness": _number_json(axis.stiffness),
                "mimic": None if axis.mimic is None else _mimic_json(axis.mimic),
            }
            for axis in joint.axes
        ],
        "pitch": _number_json(joint.pitch) if joint.kind is JointKind.SCREW else None,
        "child_origin": _pose_json(joint.child_pose),
        "source": str(joint.origin),
    }


def _mimic_json(mimic: Any) -> dict[str, Any]:
    return {
        "joint": mimic.joint,
        "axis": mimic.axis,
        "multiplier": _number_json(mimic.multiplier),
        "offset": _number_json(mimic.offset),
        "reference": _number_json(mimic.reference),
    }


def _geoms_json(world: World) -> Iterable[dict[str, Any]]:
    for shape in world.shapes:
        yield _geom_json(shape, "world")
    for name, _, link in world.named_links():
        for shape in link.shapes:
            yield _geom_json(shape, name)


def _geom_json(shape: Shape, link: str) -> dict[str, Any]:
    geometry = shape.geometry
    sizes: dict[str, Any] = {}
    for key in ("size", "radius", "length", "radii", "scale"):
        value = getattr(geometry, key, None)
        if value is not None:
            sizes[key] = _array_json(np.asarray(value, dtype=np.float64))
    if isinstance(geometry, Mesh):
        sizes["uri"] = geometry.uri
        sizes["file"] = geometry.path or None
    return {
        "name": shape.name,
        "link": link,
        "type": shape.kind,
        "visual": shape.visual,
        "collision": shape.collision,
        "pose": _pose_json(shape.pose),
        **sizes,
        "source": str(shape.origin),
    }


def _pose_json(pose: Pose) -> Any:
    return _array_json(pose.matrix)


def _array_json(array: np.ndarray) -> Any:
    """Nested lists of numbers; NaN and infinity become null."""
    if array.ndim == 0:
        return _number_json(float(array))
    return [_array_json(a) for a in array] if array.ndim > 1 else [_number_json(float(a)) for a in array]


def _number_json(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None


# ---------------------------------------------------------------------------------------------------------- text output


def show_info(file: Path, read_settings: ReadSettings, *, json: bool) -> int:
    """Print the contents of a file; returns the exit status."""
    try:
        with open_input(file, read_settings) as (name, settings):
            described = read_file(name, settings)
    except KinemaError as error:
        return report_error(error, json)
    if json:
        print_json({**description_to_json(described), **({"source": str(file)} if file == STANDARD_STREAM else {})})
    else:
        _print_info(described)
    return exit_status(described.diagnostics.items)


def _print_info(description: Robot | World) -> None:
    console = output_console()
    robots = description.robots if isinstance(description, World) else [description]
    console.print(_headline(description))
    if isinstance(description, World) and description.shapes:
        console.print(Text.assemble(("world  ", "bold"), (_shape_summary(description.shapes), "dim")))
    for robot in robots:
        for tree in _robot_trees(robot, show_name=isinstance(description, World)):
            console.print(tree)
        _print_other_counts(console, robot)
    if isinstance(description, World):
        _print_other_counts(console, description)
    print_diagnostics(console, description.diagnostics.items, brief=True)


def _headline(description: Robot | World) -> Table:
    world = description if isinstance(description, World) else World(robots=[description])
    table = Table.grid(padding=(0, 3))
    title = Text.assemble((description.name or "(unnamed)", "bold cyan"), "  ", (description.format.upper(), "dim"))
    n_joints = sum(not j.implicit for j in world.joints)
    counts = [
        _pluralize(len(world.robots), "robot") if isinstance(description, World) else "",
        _pluralize(len(world.links), "link"),
        _pluralize(n_joints, "joint"),
        f"{world.n_dofs} dof",
        f"{world.total_mass:.6g} kg",
    ]
    table.add_row(title, "  ".join(c for c in counts if c))
    return table


def _pluralize(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


# ------------------------------------------------------------------------------------------------------------ link tree


def _robot_trees(robot: Robot, *, show_name: bool) -> list[Tree]:
    tree = robot.tree()
    links = {link.name: link for link in robot.links}
    children: dict[str | None, list[TreeEdge]] = {}
    for edge in tree.edges:
        children.setdefault(edge.parent, []).append(edge)
    base = "static" if robot.static else f"base {robot.base.value}"
    tops: list[Tree] = []
    if None in children:
        title = f"[bold]{escape(robot.name)}[/]  [dim]on the world[/]" if show_name else "[dim]world[/]"
        top = Tree(title, guide_style="dim")
        _add_subtree(top, None, children, links)
        tops.append(top)
    for root in tree.roots:
        owner = f"[bold]{escape(robot.name)}[/]  " if show_name else ""
        top = Tree(f"{owner}{_link_label(links[root])}  [dim]({base})[/]", guide_style="dim")
        _add_subtree(top, root, children, links)
        tops.append(top)
    if tree.loops:
        tops.append(_loop_joints_tree(tree))
    return tops


def _add_subtree(
    top: Tree, root: str | None, children: dict[str | None, list[TreeEdge]], links: dict[str, Link]
) -> None:
    """Add all descendants of a link to the tree; iterative, because chains may be long."""
    todo = [(top, edge) for edge in reversed(children.get(root, []))]
    while todo:
        branch, edge = todo.pop()
        label = f"{_edge_label(edge)} [dim]→[/] {_link_label(links[edge.child])}"
        grown = branch.add(label)
        todo.extend((grown, e) for e in reversed(children.get(edge.child, [])))


def _loop_joints_tree(tree: KinematicTree) -> Tree:
    top = Tree("[dim]closing loops[/]", guide_style="dim")
    for joint in tree.loops:
        top.add(f"{_joint_label(joint)} [dim]{escape(str(joint.parent))} – {escape(str(joint.child))}[/]")
    return top


def _edge_label(edge: TreeEdge) -> str:
    labels = " + ".join(_joint_label(j) for j in edge.joints)
    return f"{labels} [dim](reversed)[/]" if edge.reversed else labels


def _joint_label(joint: Joint) -> str:
    if joint.implicit:
        return "[dim]fixed[/]"
    details = [joint.kind.value]
    if len(joint.axes) <= 2:
        details += [_axis_label(axis) for axis in joint.axes]
    off = "" if joint.enabled else " [red]disabled[/]"
    return f"[yellow]{escape(joint.name)}[/] [dim]{escape(' '.join(d for d in details if d))}[/]{off}"


def _axis_label(axis: Axis) -> str:
    unit = "rad" if axis.motion is AxisMotion.ROTATION else "m"
    parts = [_direction(axis)]
    if math.isfinite(axis.lower) or math.isfinite(axis.upper):
        parts.append(f"[{axis.lower:.4g}, {axis.upper:.4g}] {unit}")
    if math.isfinite(axis.effort):
        parts.append(f"{axis.effort:.4g} {'N·m' if unit == 'rad' else 'N'}")
    if math.isfinite(axis.velocity):
        parts.append(f"{axis.velocity:.4g} {unit}/s")
    if axis.mimic is not None:
        parts.append(f"= {axis.mimic.multiplier:.4g}·{axis.mimic.joint}")
    return " ".join(parts)


def _direction(axis: Axis) -> str:
    for i, name in enumerate("xyz"):
        if abs(abs(axis.direction[i]) - 1) < 1e-9:
            return name if axis.direction[i] > 0 else f"-{name}"
    return "(" + " ".join(f"{v:.3g}" for v in axis.direction) + ")"


def _link_label(link: Link) -> str:
    mass = f" {link.inertial.mass:.4g} kg" if link.inertial is not None else ""
    shapes = _shape_summary(link.shapes)
    return f"[green]{escape(link.name)}[/]{mass}" + (f"  [dim]{escape(shapes)}[/]" if shapes else "")


def _shape_summary(shapes: Sequence[Shape]) -> str:
    """Summary of shapes, such as `2 box, mesh` for collision shapes, and the number of purely visual shapes."""
    collide = Counter(s.kind for s in shapes if s.collision)
    words = [f"{n} {kind}" if n > 1 else kind for kind, n in collide.items()]
    seen = sum(s.visual and not s.collision for s in shapes)
    if seen:
        words.append(_pluralize(seen, "visual"))
    return ", ".join(words)


# ------------------------------------------------------------------------------------------------------- other contents


def _print_other_counts(console: Console, description: Robot | World) -> None:
    """Print one line on elements that are not in the tree."""
    kept = len(description.extras)
    if isinstance(description, Robot):
        kept += sum(len(n.extras) for n in [*description.links, *description.joints])
    counts = {
        "actuator": len(description.actuators),
        "tendon": len(description.tendons),
        "constraint": len(description.constraints),
        "sensor": len(description.sensors),
        "frame": len(description.frames),
        "camera": len(description.cameras),
        "light": len(description.lights),
        "keyframe": len(description.keyframes),
        "collision rule": len(description.collision.pairs) + len(description.collision.groups),
        "kept block": kept,
    }
    words = [_pluralize(n, noun) for noun, n in counts.items() if n]
    if words:
        console.print(Text("also: " + ", ".join(words), style="dim"))
