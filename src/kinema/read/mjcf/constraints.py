"""Converts MuJoCo equality constraints, mimic relations written by Kinema, contact exclusions and contact pairs.

MJCF has only soft constraints. Kinema writes a mimic relation as a joint equality with a reserved name; such an
equality is converted back to a mimic relation if it is unmodified.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from kinema.core import Pose
from kinema.description import (
    Assembly,
    CollisionPair,
    Constraint,
    ConstraintKind,
    Joint,
    Mimic,
    Robot,
    SolverParameters,
)
from kinema.tokens import mjcf

from .actuators import tendon_bodies
from .materials import pair_physics_material
from .model_reader import ModelReader, solver_parameters, to_floats
from .mujoco_compiler import mujoco

# -- equality constraints ----------------------------------------------------------------------------------------------


def read_constraints(reader: ModelReader) -> list[tuple[set[int], Constraint]]:
    """All equality constraints, each with the set of constrained bodies."""
    return [(equality_bodies(reader.model, e), _read_constraint(reader, e)) for e in range(reader.model.neq)]


def _read_constraint(reader: ModelReader, index: int) -> Constraint:
    """Convert one equality constraint (connect, weld, joint, tendon, or a preserved flex constraint)."""
    model, kinds = reader.model, mujoco().mjtEq
    constraint = Constraint(
        **reader.node_arguments(mjcf.EQUALITY, "equalities", index),
        kind=ConstraintKind.OTHER,
        active=bool(model.eq_active0[index]),
        solver=solver_parameters(model.eq_solref[index], model.eq_solimp[index]),
    )
    data = to_floats(model.eq_data[index])
    first, second = int(model.eq_obj1id[index]), int(model.eq_obj2id[index])
    match int(model.eq_type[index]):
        case kinds.mjEQ_CONNECT:
            constraint.kind = ConstraintKind.CONNECT
            _set_bodies(reader, index, constraint, *_connected_points(reader, index, data))
        case kinds.mjEQ_WELD:
            constraint.kind = ConstraintKind.WELD
            constraint.torque_scale = data[10]
            # the weld point in body 1 with the relative rotation, and the same point (the anchor) in body 2
            _set_bodies(reader, index, constraint, *_welded_frames(reader, index, data))
        case kinds.mjEQ_JOINT:
            constraint.kind = ConstraintKind.JOINT
            constraint.a, constraint.b = reader.name(mjcf.JOINT, first), reader.name(mjcf.JOINT, second) or None
            constraint.polynomial = data[:5]  # type: ignore[assignment]  # ty: ignore[invalid-assignment]
        case kinds.mjEQ_TENDON:
            constraint.kind = ConstraintKind.TENDON
            constraint.a, constraint.b = reader.name(mjcf.TENDON, first), reader.name(mjcf.TENDON, second) or None
            constraint.polynomial = data[:5]  # type: ignore[assignment]  # ty: ignore[invalid-assignment]
        case other:
            _preserve_flex_constraint(reader, index, constraint, other)
    return constraint


def _is_between_sites(model: Any, index: int) -> bool:
    return int(model.eq_objtype[index]) == int(mujoco().mjtObj.mjOBJ_SITE)


def _connected_points(reader: ModelReader, index: int, data: Sequence[float]) -> tuple[Pose, Pose]:
    """Anchor of a connect constraint in both bodies."""
    model, on_second = reader.model, data[3:6]
    if not _is_between_sites(model, index):
        first, second = int(model.eq_obj1id[index]), int(model.eq_obj2id[index])
        on_second = reader.placements.anchor_on_second(first, second, data[0:3], on_second)
    return Pose.translation(data[0:3]), Pose.translation(on_second)


def _welded_frames(reader: ModelReader, index: int, data: Sequence[float]) -> tuple[Pose, Pose]:
    """Frames of a weld constraint on both bodies; the second one is the anchor."""
    model = reader.model
    if _is_between_sites(model, index):
        return Pose(), Pose()  # those of the sites
    bodies = int(model.eq_obj1id[index]), int(model.eq_obj2id[index])
    return reader.placements.weld_frame(index, bodies, data).pose, Pose.translation(data[0:3])


def _set_bodies(reader: ModelReader, index: int, constraint: Constraint, pose_a: Pose, pose_b: Pose) -> None:
    """Set the links and frames of a connect or weld constraint between bodies or sites."""
    model = reader.model
    first, second = int(model.eq_obj1id[index]), int(model.eq_obj2id[index])
    if _is_between_sites(model, index):
        pose_a = reader.placements.pose("sites", first)
        pose_b = reader.placements.pose("sites", second)
        constraint.attributes[mjcf.attribute_key(mjcf.SITES)] = (
            reader.name(mjcf.SITE, first),
            reader.name(mjcf.SITE, second),
        )
        first, second = int(model.site_bodyid[first]), int(model.site_bodyid[second])
    constraint.a, constraint.b = reader.link_name(first), reader.link_name(second)
    constraint.pose_a, constraint.pose_b = pose_a, pose_b


def _preserve_flex_constraint(reader: ModelReader, index: int, constraint: Constraint, kind: int) -> None:
    """Preserve the data of a flex constraint as attributes, with a warning."""
    model = reader.model
    name = mujoco().mjtEq(kind).name.split("_", 1)[1].lower()
    constraint.attributes |= {
        mjcf.attribute_key(mjcf.TYPE): name,
        mjcf.attribute_key(mjcf.DATA): to_floats(model.eq_data[index]),
    }
    if model.nflex:
        constraint.attributes[mjcf.attribute_key(mjcf.FLEX)] = reader.name(mjcf.FLEX, int(model.eq_obj1id[index]))
    message = f'the equality constraint "{constraint.name}" of a deformable body is kept, but not understood'
    reader.warning("deformable-constraint", message, constraint.origin)


def equality_bodies(model: Any, index: int) -> set[int]:
    """Bodies constrained by an equality, including the world body."""
    kinds, objects = mujoco().mjtEq, mujoco().mjtObj
    indices = [int(i) for i in (model.eq_obj1id[index], model.eq_obj2id[index]) if i >= 0]
    match int(model.eq_type[index]):
        case kinds.mjEQ_CONNECT | kinds.mjEQ_WELD:
            if int(model.eq_objtype[index]) == int(objects.mjOBJ_SITE):
                return {int(model.site_bodyid[s]) for s in indices}
            return set(indices)
        case kinds.mjEQ_JOINT:
            return {int(model.jnt_bodyid[j]) for j in indices}
        case kinds.mjEQ_TENDON:
            return {b for t in indices for b in tendon_bodies(model, t)}
    return flex_bodies(model, int(model.eq_obj1id[index])) if model.nflex else set()


def flex_bodies(model: Any, flex: int) -> set[int]:
    """Bodies that carry the vertices and nodes of a flex."""
    first, count = int(model.flex_vertadr[flex]), int(model.flex_vertnum[flex])
    bodies = {int(b) for b in model.flex_vertbodyid[first : first + count]}
    if hasattr(model, "flex_nodebodyid"):
        first, count = int(model.flex_nodeadr[flex]), int(model.flex_nodenum[flex])
        bodies |= {int(b) for b in model.flex_nodebodyid[first : first + count]}
    return {b for b in bodies if b >= 0}


# -- mimic relations ---------------------------------------------------------------------------------------------------

MIMIC_NAME_PREFIX = mjcf.MIMIC_PREFIX
"""Reserved name prefix of equality constraints that represent mimic relations; shared with the writer."""


def convert_mimic_constraints(assemblies: Sequence[Assembly]) -> None:
    """Convert equality constraints that represent mimic relations to `Axis.mimic`, in place."""
    for robot in assemblies:
        if isinstance(robot, Robot):
            robot.constraints = [c for c in robot.constraints if not _convert_mimic(robot, c)]


def _convert_mimic(robot: Robot, constraint: Constraint) -> bool:
    """Convert one equality to a mimic of its first joint; returns False if it does not represent a mimic."""
    offset, factor, *higher = constraint.polynomial
    if not constraint.name.startswith(MIMIC_NAME_PREFIX) or constraint.kind is not ConstraintKind.JOINT or any(higher):
        return False
    if not constraint.active or constraint.solver != SolverParameters() or constraint.b is None:
        return False
    follower, leader = _single_axis_joint(robot, constraint.a), _single_axis_joint(robot, constraint.b)
    if follower is None or leader is None or follower is leader or follower.axes[0].mimic is not None:
        return False
    # the polynomial acts on deviations from the reference positions
    axis = follower.axes[0]
    axis.mimic = Mimic(
        joint=constraint.b, multiplier=factor, offset=offset + axis.reference, reference=leader.axes[0].reference
    )
    if offset:
        follower.state = np.array([axis.reference])  # MuJoCo's initial state is the reference
    return True


def _single_axis_joint(robot: Robot, name: str | None) -> Joint | None:
    joint = next((j for j in robot.joints if j.name == name), None)
    return joint if joint is not None and joint.n_qs == len(joint.axes) == 1 else None


# -- contact exclusions and contact pairs ------------------------------------------------------------------------------

WORLD_NAME = "world"


def read_contact_pairs(reader: ModelReader) -> list[tuple[set[int], CollisionPair]]:
    """All contact exclusions and explicit contact pairs, each with the set of bodies concerned."""
    model = reader.model
    return [_read_exclude(reader, e) for e in range(model.nexclude)] + [
        _read_pair(reader, p) for p in range(model.npair)
    ]


def _read_exclude(reader: ModelReader, index: int) -> tuple[set[int], CollisionPair]:
    signature = int(reader.model.exclude_signature[index])
    bodies = (signature >> 16, signature & 0xFFFF)
    first, second = (reader.link_name(b) or WORLD_NAME for b in bodies)
    pair = CollisionPair(
        a=first,
        b=second,
        name=_object_name(reader.model, "mjOBJ_EXCLUDE", index),
        origin=reader.origin("excludes", index),
    )
    return set(bodies), pair


def _read_pair(reader: ModelReader, index: int) -> tuple[set[int], CollisionPair]:
    model = reader.model
    geoms = int(model.pair_geom1[index]), int(model.pair_geom2[index])
    pair = CollisionPair(
        a=reader.name(mjcf.GEOM, geoms[0]),
        b=reader.name(mjcf.GEOM, geoms[1]),
        name=_object_name(model, "mjOBJ_PAIR", index),
        collide=True,
        between="shapes",
        surface=pair_physics_material(model, index),
        origin=reader.origin("pairs", index),
    )
    return {int(model.geom_bodyid[g]) for g in geoms}, pair


def parent_child_collide(model: Any) -> bool:
    """Whether contacts between a body and its parent are enabled."""
    return bool(model.opt.disableflags & int(mujoco().mjtDisableBit.mjDSBL_FILTERPARENT))


def _object_name(model: Any, kind: str, index: int) -> str:
    mj = mujoco()
    return mj.mj_id2name(model, int(getattr(mj.mjtObj, kind)), index) or ""
