"""Elements without a USD schema: sensors, keyframes and constraints as custom prims, and preserved MJCF assets."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from kinema.description import (
    Assembly,
    Constraint,
    ConstraintKind,
    Extra,
    Joint,
    JointKind,
    Keyframe,
    Node,
    Robot,
    Sensor,
    Shape,
    World,
)
from kinema.tokens import kinema_usd, mjcf, newton, usd, usd_physics

from ..loss_report import Action
from ..textures import ImageUnavailableError
from .context import UsdContext, author_stored_fields, write_preserved
from .layer_builder import NODE_FIELDS, PrimBuilder, is_default, usd_type_and_value
from .prim_paths import RobotPaths

# --------------------------------------------------------------------------------------------------------- record prims

_RECORD_SCOPES = {
    kinema_usd.RECORD_SENSOR: "Sensors",
    kinema_usd.RECORD_KEYFRAME: "Keyframes",
    kinema_usd.RECORD_CONSTRAINT: "Constraints",
}


def author_sensors_and_keyframes(ctx: UsdContext, assembly: Assembly, parent_path: str) -> None:
    """Write sensors and keyframes of a robot or world as record prims."""
    for sensor in assembly.sensors:
        author_record(ctx, sensor, kinema_usd.RECORD_SENSOR, parent_path)
    for keyframe in assembly.keyframes:
        author_record(ctx, keyframe, kinema_usd.RECORD_KEYFRAME, parent_path)


def author_record(ctx: UsdContext, node: Sensor | Keyframe | Constraint, record_type: str, parent_path: str) -> None:
    """Write a custom prim with the fields of a node that has no USD schema."""
    scope = ctx.builder.define_scope(f"{parent_path}/{_RECORD_SCOPES[record_type]}")
    prim = ctx.builder.define_prim(ctx.paths.names.child_path(scope, node.name, record_type), usd.SCOPE)
    author_stored_fields(ctx, prim, node)
    prim.set_custom(kinema_usd.RECORD, record_type)
    author_fields(ctx, prim, node, record_type)
    write_preserved(ctx, prim, node)
    ctx.report_loss(Action.EXTENSION, node, f"the {record_type}", "USD has none; it is kept for Kinema alone")


def author_fields(
    ctx: UsdContext, prim: PrimBuilder, node: Node, record_type: str, *, already_written: Collection[str] = ()
) -> None:
    """Write non-default fields of a node as custom attributes, except those already written."""
    for name in (field.name for field in dataclasses.fields(node)):
        if name in NODE_FIELDS or name in already_written or is_default(node, name):
            continue
        kept = usd_type_and_value(getattr(node, name))
        if kept is None:
            ctx.report_loss(Action.DROPPED, node, f"its {name}", "USD has no place for it")
        else:
            prim.set_attribute(kinema_usd.record_attribute(record_type, name), *kept, custom=True)


# ---------------------------------------------------------------------------------------------------------- constraints

_CONSTRAINT_JOINT_TYPES = {
    ConstraintKind.CONNECT: usd_physics.SPHERICAL_JOINT,
    ConstraintKind.WELD: usd_physics.FIXED_JOINT,
    ConstraintKind.DISTANCE: usd_physics.DISTANCE_JOINT,
}
_FIELDS_IN_JOINT = ("kind", "a", "b", "pose_a", "pose_b", "distance", "active")
_FIELDS_IN_MIMIC = ("kind", "a", "b", "polynomial", "active")


def author_constraints_and_records(
    ctx: UsdContext, assembly: Assembly, robots: list[RobotPaths], parent_path: str
) -> None:
    """Write constraints (as joints, mimics or records), sensors and keyframes below `parent_path`."""
    for number, constraint in enumerate(assembly.constraints):
        # joints and records stand in different places: without numbers their order would be lost
        constraint = replace(constraint, order=number) if constraint.order is None else constraint
        if constraint.kind in _CONSTRAINT_JOINT_TYPES:
            _author_constraint_joint(ctx, constraint, robots)
        elif not (constraint.kind is ConstraintKind.JOINT and _author_constraint_mimic(ctx, constraint, robots)):
            author_record(ctx, constraint, kinema_usd.RECORD_CONSTRAINT, parent_path)
    author_sensors_and_keyframes(ctx, assembly, parent_path)


def _author_constraint_joint(ctx: UsdContext, constraint: Constraint, robots: list[RobotPaths]) -> None:
    """Write a connect, weld or distance constraint as a joint excluded from the articulation."""
    homes = [next((p for p in robots if end in p.links), None) for end in (constraint.a, constraint.b)]
    lost = [e for e, home in zip((constraint.a, constraint.b), homes, strict=True) if e is not None and home is None]
    home = homes[0] or homes[1]
    if lost or home is None or any(h is not None and h.robot.static for h in homes):
        ctx.report_loss(Action.DROPPED, constraint, "the constraint", "it does not hold a moving link to another")
        return
    path = ctx.paths.names.child_path(
        ctx.builder.define_scope(f"{home.path}/PhysicsConstraints"), constraint.name, "constraint"
    )
    prim = ctx.builder.define_prim(path, _CONSTRAINT_JOINT_TYPES[constraint.kind])
    ends = ((constraint.a, constraint.pose_a, homes[0]), (constraint.b, constraint.pose_b, homes[1]))
    for side, (link, pose, own) in enumerate(ends):
        prim.set_relationship(usd_physics.BODIES[side], [home.path if link is None or own is None else own.links[link]])
        frame = home.robot.pose.inverse() @ pose if link is None else pose
        prim.set_single_precision(usd_physics.LOCAL_POSITIONS[side], "point3f", frame.position)
        prim.set_single_precision(usd_physics.LOCAL_ROTATIONS[side], "quatf", frame.quaternion)
    prim.set_attribute(usd_physics.EXCLUDE_FROM_ARTICULATION, "bool", True, uniform=True)
    prim.set_attribute(usd_physics.COLLISION_ENABLED, "bool", True)
    if not constraint.active:
        prim.set_attribute(usd_physics.JOINT_ENABLED, "bool", False)
    if constraint.kind is ConstraintKind.DISTANCE:
        prim.set_single_precision(usd_physics.MIN_DISTANCE, "float", constraint.distance)
        prim.set_single_precision(usd_physics.MAX_DISTANCE, "float", constraint.distance)
    prim.set_custom(kinema_usd.CONSTRAINT, constraint.kind.value)
    author_stored_fields(ctx, prim, constraint)
    author_fields(ctx, prim, constraint, kinema_usd.RECORD_CONSTRAINT, already_written=_FIELDS_IN_JOINT)
    write_preserved(ctx, prim, constraint)
    joint_type = _CONSTRAINT_JOINT_TYPES[constraint.kind].removeprefix(usd_physics.SCHEMA_PREFIX)
    how = f"it is a {joint_type} outside the articulation, and hard"
    ctx.report_loss(Action.APPROXIMATED, constraint, f"a {constraint.kind.value} constraint", how)


def _author_constraint_mimic(ctx: UsdContext, constraint: Constraint, robots: list[RobotPaths]) -> bool:
    """Write a linear joint constraint by NewtonMimicAPI; returns False if impossible."""
    offset, factor, *higher = constraint.polynomial
    if constraint.b is None or any(higher) or not constraint.active:
        return False
    for parts in robots:
        follower, leader = (parts.joint_by_name.get(name or "") for name in (constraint.a, constraint.b))
        if not (_is_single_axis_joint(follower, parts) and _is_single_axis_joint(leader, parts)):
            continue
        assert follower is not None and leader is not None  # noqa: PT018  they may follow
        prim = ctx.builder.prims[parts.joints[id(follower)]]
        if newton.MIMIC_API in prim.schemas or follower.axes[0].motion is not leader.axes[0].motion:
            return False
        prim.apply_schemas(newton.MIMIC_API)
        prim.set_relationship(newton.MIMIC_JOINT, [parts.joints[id(leader)]])
        degrees = 57.29577951308232 if follower.kind in (JointKind.REVOLUTE, JointKind.CONTINUOUS) else 1.0
        if offset:
            prim.set_single_precision(newton.MIMIC_OFFSET, "float", offset * degrees)
        prim.set_single_precision(newton.MIMIC_FACTOR, "float", factor)
        prim.set_custom(kinema_usd.MIMIC_IS_CONSTRAINT, constraint.name)
        if constraint.order is not None:
            prim.set_custom(kinema_usd.GLOBAL_ORDER, constraint.order)
        author_fields(ctx, prim, constraint, kinema_usd.RECORD_CONSTRAINT, already_written=_FIELDS_IN_MIMIC)
        if constraint.name_is_generated:
            prim.set_custom(kinema_usd.MIMIC_NAME_IS_GENERATED, True)
        how = f'it is written as joint "{follower.name}" following "{leader.name}" (NewtonMimicAPI)'
        ctx.report_loss(Action.APPROXIMATED, constraint, "a joint constraint", how)
        return True
    return False


def _is_single_axis_joint(joint: Joint | None, robot_paths: RobotPaths) -> bool:
    return joint is not None and len(joint.axes) == 1 and id(joint) in robot_paths.joints


# ------------------------------------------------------------------------------------------------ preserved MJCF assets

_PRESERVED_TAGS = (mjcf.TEXTURE, mjcf.MATERIAL, mjcf.MESH, mjcf.HFIELD)
_FILE_ATTRIBUTE = re.compile(rf'\b({"|".join(mjcf.TEXTURE_FILES)})(\s*=\s*)"([^"]*)"')
_NAME_ATTRIBUTE = re.compile(r'\bname\s*=\s*"([^"]*)"')
_TEXTURE_ATTRIBUTE = re.compile(r'\btexture\s*=\s*"([^"]*)"')


def preserve_assets(ctx: UsdContext, prim: PrimBuilder, assembly: Assembly) -> list[Extra]:
    """Store unused MJCF assets as text on a prim; returns all extras that the stage now contains."""
    shown = _displayed_textures(ctx.description) - _referenced_textures(assembly)
    kept: dict[int, str] = {}
    given: list[Extra] = []
    for extra in assembly.extras:
        if extra.format != mjcf.FORMAT or extra.tag not in _PRESERVED_TAGS:
            continue
        found = _NAME_ATTRIBUTE.search(extra.text)
        if extra.tag == mjcf.TEXTURE and found and found[1] in shown:
            given.append(extra)  # materials show its image
        elif (text := _text_with_local_files(ctx, assembly, extra)) is not None:
            kept[id(extra)] = text
            given.append(extra)
    if kept:
        listed = [[extra.tag, kept[id(extra)]] for extra in given if id(extra) in kept]
        prim.set_custom(kinema_usd.ASSETS, json.dumps(listed, ensure_ascii=False))
        tags = ", ".join(dict.fromkeys(tag for tag, _ in listed))
        ctx.report_loss(
            Action.EXTENSION, assembly, f"assets that no shape shows: {tags}", "they are kept for Kinema alone"
        )
    return given


def _text_with_local_files(ctx: UsdContext, assembly: Assembly, extra: Extra) -> str | None:
    """Preserved text with its files copied beside the stage; None if a file is unavailable."""
    known: Mapping[str, str] = assembly.attributes.get(mjcf.attribute_key(mjcf.FILES), {})
    home = Path(extra.origin.file or assembly.source).parent
    places: dict[str, str] = {}
    for _, _, uri in _FILE_ATTRIBUTE.findall(extra.text):
        file = Path(known[uri]) if known.get(uri) else home / uri.replace("\\", "/")
        try:
            places[uri] = ctx.materials.place_file(str(file))
        except ImageUnavailableError:
            return None
    return _FILE_ATTRIBUTE.sub(lambda m: f'{m[1]}{m[2]}"{places[m[3]]}"', extra.text)


def _displayed_textures(description: Robot | World) -> set[str]:
    """Names of MJCF textures whose images are written with materials."""
    materials = [shape.material for shape in _all_shapes(description) if shape.material is not None]
    tables = [
        m.attributes.get(mjcf.attribute_key(mjcf.TEXTURES), {})
        for m in materials
        if m.texture and not m.mean_texture_color
    ]
    return {name for table in tables for name in table.values()}


def _referenced_textures(assembly: Assembly) -> set[str]:
    """Names of textures in preserved material texts."""
    texts = [extra.text for extra in assembly.extras if extra.tag == mjcf.MATERIAL]
    return {name for text in texts for name in _TEXTURE_ATTRIBUTE.findall(text)}


def _all_shapes(description: Robot | World) -> Iterator[Shape]:
    for robot in description.robots if isinstance(description, World) else [description]:
        for link in robot.links:
            yield from link.shapes
    if isinstance(description, World):
        yield from description.shapes
