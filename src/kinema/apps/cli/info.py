"""`kinema info`: a robot at a glance."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text
from rich.tree import Tree

from kinema.description import Axis, AxisMotion, Joint, KinematicTree, Link, Robot, Shape, TreeEdge, World
from kinema.foundation import KinemaError

from .diagnostics_table import output_console, print_diagnostics
from .info_json import describe
from .reading import ReadSettings, named_input, print_json, read_file, report_error, status
from .standard_input import STANDARD


def run(file: Path, how: ReadSettings, *, json: bool) -> int:
    """Print the file's contents; the exit status."""
    try:
        with named_input(file, how) as (name, reading):
            described = read_file(name, reading)
    except KinemaError as error:
        return report_error(error, json)
    if json:
        print_json({**describe(described), **({"source": str(file)} if file == STANDARD else {})})
    else:
        _print(described)
    return status(described.diagnostics.items)


def _print(described: Robot | World) -> None:
    console = output_console()
    robots = described.robots if isinstance(described, World) else [described]
    console.print(_headline(described))
    if isinstance(described, World) and described.shapes:
        console.print(Text.assemble(("world  ", "bold"), (_shape_summary(described.shapes), "dim")))
    for robot in robots:
        for tree in _robot_trees(robot, show_name=isinstance(described, World)):
            console.print(tree)
        _print_rest(console, robot)
    if isinstance(described, World):
        _print_rest(console, described)
    print_diagnostics(console, described.diagnostics.items, brief=True)


def _headline(described: Robot | World) -> Table:
    world = described if isinstance(described, World) else World(robots=[described])
    table = Table.grid(padding=(0, 3))
    title = Text.assemble((described.name or "(unnamed)", "bold cyan"), "  ", (described.format.upper(), "dim"))
    n_joints = sum(not j.implicit for j in world.joints)
    counts = [
        _counted(len(world.robots), "robot") if isinstance(described, World) else "",
        _counted(len(world.links), "link"),
        _counted(n_joints, "joint"),
        f"{world.n_dofs} dof",
        f"{world.total_mass:.6g} kg",
    ]
    table.add_row(title, "  ".join(c for c in counts if c))
    return table


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


# -- the tree ---------------------------------------------------------------------------------------------------------


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
        _grow(top, None, children, links)
        tops.append(top)
    for root in tree.roots:
        owner = f"[bold]{escape(robot.name)}[/]  " if show_name else ""
        top = Tree(f"{owner}{_link_label(links[root])}  [dim]({base})[/]", guide_style="dim")
        _grow(top, root, children, links)
        tops.append(top)
    if tree.loops:
        tops.append(_loops(tree))
    return tops


def _grow(top: Tree, root: str | None, children: dict[str | None, list[TreeEdge]], links: dict[str, Link]) -> None:
    """Add everything below a link; without recursion, because chains may be long."""
    todo = [(top, edge) for edge in reversed(children.get(root, []))]
    while todo:
        branch, edge = todo.pop()
        label = f"{_edge_label(edge)} [dim]→[/] {_link_label(links[edge.child])}"
        grown = branch.add(label)
        todo.extend((grown, e) for e in reversed(children.get(edge.child, [])))


def _loops(tree: KinematicTree) -> Tree:
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
    """Such as `2 box, mesh` of what collides, and the number of shapes that are only seen."""
    collide = Counter(s.kind for s in shapes if s.collision)
    words = [f"{n} {kind}" if n > 1 else kind for kind, n in collide.items()]
    seen = sum(s.visual and not s.collision for s in shapes)
    if seen:
        words.append(_counted(seen, "visual"))
    return ", ".join(words)


# -- everything else --------------------------------------------------------------------------------------------------


def _print_rest(console: Console, part: Robot | World) -> None:
    """One line on what has no place in the tree."""
    kept = len(part.extras)
    if isinstance(part, Robot):
        kept += sum(len(n.extras) for n in [*part.links, *part.joints])
    counts = {
        "actuator": len(part.actuators),
        "tendon": len(part.tendons),
        "constraint": len(part.constraints),
        "sensor": len(part.sensors),
        "frame": len(part.frames),
        "camera": len(part.cameras),
        "light": len(part.lights),
        "keyframe": len(part.keyframes),
        "collision rule": len(part.collision.pairs) + len(part.collision.groups),
        "kept block": kept,
    }
    words = [_counted(n, noun) for noun, n in counts.items() if n]
    if words:
        console.print(Text("also: " + ", ".join(words), style="dim"))
