"""State of one run of the USD writer, names and preserved attributes of prims, and prims placed on links."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kinema.core import Array, Pose
from kinema.description import Assembly, Camera, Extra, Frame, Light, Node, Robot, World
from kinema.tokens import WriteOptions, kinema_usd, mjcf, usd

from ..loss_report import Action, reportable_attributes
from .collision_filters import CollisionFilters
from .layer_builder import LayerBuilder, PrimBuilder, set_custom_json, write_kinema_attributes
from .materials import UsdMaterials
from .meshes import StageMeshes
from .prim_paths import RobotPaths, StagePaths, is_free_edge

# ------------------------------------------------------------------------------------------------------- writer context


@dataclass(slots=True, eq=False)
class UsdContext:
    """State of one run of the USD writer."""

    description: Robot | World
    paths: StagePaths
    builder: LayerBuilder
    options: WriteOptions
    collision_filters: CollisionFilters
    materials: UsdMaterials
    meshes: StageMeshes
    duplicate_names: frozenset[str] = frozenset()
    """Names shared by several links, joints or shapes, whose prims need an explicit name attribute."""
    collider_paths: dict[str, list[str]] = field(default_factory=dict)
    """Prim path of a link -> prim paths of its colliders."""
    free_joint_filters: list[tuple[str, str]] = field(default_factory=list)
    """Prim paths of bodies whose collision is filtered by a free joint, which has no prim."""
    placed_counts: Counter[str] = field(default_factory=Counter)
    """Number of cameras, lights and frames written so far, by class name."""
    frame_paths: dict[str, str] = field(default_factory=dict)
    """Name and scoped name of a frame -> prim path, for all robots."""
    tendon_paths: dict[str, str] = field(default_factory=dict)
    """Name and scoped name of a tendon -> prim path, for all robots."""
    scene: PrimBuilder | None = None
    """Physics scene prim, if there is one."""
    filtered_pairs: dict[str, list[str]] = field(default_factory=dict)
    """Prim path -> prim paths with which it never collides."""

    def report_loss(self, action: Action, node: Node | tuple[str, str], what: str, how: str = "") -> None:
        """Add a loss to the report."""
        self.builder.report_loss(action, node, what, how)

    def is_articulated(self, robot_paths: RobotPaths) -> bool:
        """Whether the robot's tree is written as an articulation, which the nested layout requires.

        A USD source without articulation stays without one in the flat layout.
        """
        robot = robot_paths.robot
        if robot.static or not any(e.parent is not None and not is_free_edge(e) for e in robot_paths.tree.edges):
            return False
        return self.options.layout == "nested" or robot.root is not None or self.description.format != usd.FORMAT


# ------------------------------------------------------------------------------ names and preserved attributes of prims


def author_stored_fields(ctx: UsdContext, prim: PrimBuilder, node: Node) -> None:
    """Store the fields of a node with a Kinema attribute, and its name if the prim name differs or is ambiguous."""
    write_kinema_attributes(prim, node)
    if prim.name != node.name or prim.name in ctx.duplicate_names:
        prim.set_custom(kinema_usd.NAME, node.name)
    if node.name and prim.name != node.name and not node.name_is_generated and ctx.description.format != usd.FORMAT:
        prim.set_metadata(displayName=node.name)


def write_preserved(ctx: UsdContext, prim: PrimBuilder, node: Node, already_written: Sequence[Extra] = ()) -> None:
    """Restore preserved attributes and schemas of USD sources on a prim, and store or report all other settings.

    Extras in `already_written` are not reported.
    """
    known: set[str] = set()
    for key, value in node.attributes.items():
        if key.startswith(usd.PRESERVED_PREFIX) and isinstance(value, tuple):
            name = key.removeprefix(usd.PRESERVED_PREFIX)
            if _restore_attribute(prim, name, *value):
                known.add(name)
    for schema in node.attributes.get(usd.PRESERVED_SCHEMAS, ()):
        prim.apply_schemas(schema)
    kept = set_custom_json(prim, kinema_usd.ATTRIBUTES, _preservable_attributes(node.attributes))
    left = [extra for extra in node.extras if not any(extra is other for other in already_written)]
    lost = [f"{e.format} {e.tag}" for e in left if not (e.format == usd.FORMAT and e.tag in known)]
    lost += [
        key
        for key in reportable_attributes(node.attributes)
        if not key.startswith(usd.PRESERVED_PREFIX) and key not in kept
    ]
    if lost:
        shown = ", ".join(dict.fromkeys(lost))
        ctx.report_loss(Action.DROPPED, node, f"settings of its own format: {shown}", "USD has no place for them")
    report_preserved(ctx, node, reportable_attributes(kept))


def _preservable_attributes(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Attributes to store for the round trip: without preserved USD attributes and local file paths."""
    return {
        k: v
        for k, v in attributes.items()
        if not k.startswith(usd.PRESERVED_PREFIX) and k != mjcf.attribute_key(mjcf.FILES)
    }


def report_preserved(ctx: UsdContext, node: Node, names: Sequence[str]) -> None:
    """Report settings that are stored for Kinema's reader only."""
    if names:
        what = f"settings of its own format: {', '.join(names)}"
        ctx.report_loss(Action.EXTENSION, node, what, "they are kept for Kinema alone")


def _restore_attribute(prim: PrimBuilder, name: str, type_name: Any, value: Any) -> bool:
    """Set a preserved attribute; returns False if it exists already or OpenUSD refuses the value."""
    if not isinstance(type_name, str) or prim.spec.attributes.get(name) is not None:
        return False
    try:
        prim.set_attribute(name, type_name, value, custom=True)
    except Exception:  # OpenUSD raises many types, one of them its own
        return False
    return True


# --------------------------------------------------------------------------- parent prims of cameras, lights and frames


def define_placed_prim(
    ctx: UsdContext, assembly: Assembly, node: Camera | Light | Frame, prim_type: str, *, scale: Array | None = None
) -> PrimBuilder:
    """Define a prim of a camera, light or frame below its link, its robot or the stage root, with its transform.

    Args:
        ctx: the writer context.
        assembly: the robot or world that owns the node.
        node: the camera, light or frame.
        prim_type: USD prim type.
        scale: scale (3,) of the prim.
    """
    parent, base = ctx.paths.root, Pose()
    for parts in ctx.paths.robots:
        link = node.link
        if link is not None and link in parts.links and (assembly is parts.robot or not isinstance(assembly, Robot)):
            parent = parts.links[link]
        elif link is None and assembly is parts.robot:
            # what is in the world is posed there; the robot's prim may be elsewhere
            parent, base = parts.path, parts.robot.pose.inverse()
    if node.link is not None and parent == ctx.paths.root:
        ctx.report_loss(Action.APPROXIMATED, node, f'that it is on the link "{node.link}"', "there is no such link")
    prim = ctx.builder.define_prim(ctx.paths.names.child_path(parent, node.name, prim_type.lower()), prim_type)
    author_stored_fields(ctx, prim, node)
    prim.set_transform(base @ node.pose, scale)
    kind_of_node = type(node).__name__
    prim.set_custom(kinema_usd.ORDER, ctx.placed_counts[kind_of_node])
    ctx.placed_counts[kind_of_node] += 1
    return prim
