"""The last passes: everything into flat arrays."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from kinema.description import Axis, Joint, JointKind
from kinema.foundation import Array
from kinema.model import DofsInfo, EntityInfo, FramesInfo, JointsInfo, LinksInfo, Motion
from kinema.words import mjcf

from .draft import Body, Draft
from .motions import Elementary
from .soft_limits import limit_softness, limit_spring, range_of
from .springs import joint_curves

DEFAULT_SOLREF = (0.02, 1.0)
DEFAULT_SOLIMP = (0.9, 0.95, 0.001, 0.5, 2.0)
"""How hard constraints are where files do not say: MuJoCo's own."""


def _ints(values: object) -> npt.NDArray[np.int32]:
    return np.array(list(values), dtype=np.int32)  # type: ignore[call-overload]


def _rows(values: list[Array], shape: tuple[int, ...]) -> Array:
    return np.array(values, dtype=np.float64).reshape((len(values), *shape))


def pack_links(draft: Draft) -> LinksInfo:
    """One row for each link."""
    bodies = draft.bodies
    inertials = [b.link.inertial for b in bodies]
    geoms = np.cumsum([0, *(len(b.link.collisions) for b in bodies)])
    return LinksInfo(
        names=[b.name for b in bodies],
        parent_idx=_ints(-1 if b.parent is None else b.parent.index for b in bodies),
        entity_idx=_ints(b.entity for b in bodies),
        is_fixed=np.array([b.frame == -1 for b in bodies], dtype=np.bool_),
        q_start=_ints(_first(b)[0] for b in bodies),
        q_end=_ints(_first(b)[0] + sum(j.joint.n_qs for j in b.joints) for b in bodies),
        dof_start=_ints(_first(b)[1] for b in bodies),
        dof_end=_ints(_first(b)[1] + sum(j.joint.n_dofs for j in b.joints) for b in bodies),
        frame_idx=_ints(b.frame for b in bodies),
        pos=_rows([b.place.position for b in bodies], (3,)),
        rot=_rows([b.place.rotation for b in bodies], (3, 3)),
        inertial_mass=np.array([0.0 if i is None else i.mass for i in inertials]),
        inertial_pos=_rows([np.zeros(3) if i is None else i.center for i in inertials], (3,)),
        inertial_i=_rows([np.zeros((3, 3)) if i is None else i.inertia for i in inertials], (3, 3)),
        gravity_scale=np.array([b.link.gravity_scale for b in bodies]),
        slides_alone=np.array([_slides_alone(b) for b in bodies], dtype=np.bool_),
        sleep=[_sleep(b) for b in bodies],
        geom_start=_ints(geoms[:-1]),
        geom_end=_ints(geoms[1:]),
    )


def _slides_alone(body: Body) -> bool:
    """Whether its file takes it so, and it still moves as the file has it."""
    kinds = {j.joint.kind for j in body.joints}
    held = body.parent is None or body.parent.frame == -1
    return bool(body.link.attributes.get(mjcf.key(mjcf.SLIDES_ALONE))) and held and kinds == {JointKind.PRISMATIC}


def _sleep(body: Body) -> str:
    """How a body sleeps, as its file says it."""
    asked = str(body.link.attributes.get(mjcf.key(mjcf.SLEEP), ""))
    return asked or ("init" if body.link.starts_asleep else "")


def _first(body: Body) -> tuple[int, int]:
    """Where the link's own coordinates and degrees of freedom start."""
    if body.joints:
        return min(j.q_start for j in body.joints), min(j.dof_start for j in body.joints)
    return (0, 0) if body.parent is None else _first(body.parent)


def pack_joints(draft: Draft) -> JointsInfo:
    """One row for each joint that moves."""
    joints = draft.joints
    return JointsInfo(
        names=[j.name for j in joints],
        kinds=[j.joint.kind.value for j in joints],
        link_idx=_ints(-1 if j.body is None else j.body.index for j in joints),
        q_start=_ints(j.q_start for j in joints),
        q_end=_ints(j.q_start + j.joint.n_qs for j in joints),
        dof_start=_ints(j.dof_start for j in joints),
        dof_end=_ints(j.dof_start + j.joint.n_dofs for j in joints),
    )


def pack_frames(draft: Draft) -> FramesInfo:
    """One row for each elementary motion."""
    frames = draft.frames
    return FramesInfo(
        parent_idx=_ints(parent for parent, _, _ in frames),
        motion=_ints(int(m.step.motion) for _, m, _ in frames),
        pos=_rows([m.start.position for _, m, _ in frames], (3,)),
        rot=_rows([m.start.rotation for _, m, _ in frames], (3, 3)),
        axis=_rows([m.step.axis for _, m, _ in frames], (3,)),
        pitch=np.array([m.step.pitch for _, m, _ in frames]),
        reference=np.array([m.step.reference for _, m, _ in frames]),
        inverted=np.array([m.step.inverted for _, m, _ in frames], dtype=np.bool_),
        spring_quat=_rows([_spring_quaternion(m.step, draft.joints[j].start) for _, m, j in frames], (4,)),
        cone=_rows([_cone(m.step) for _, m, _ in frames], (2,)),
        cone_axis=_ints(m.step.joint.cone.axis if m.step.joint.cone else 0 for _, m, _ in frames),
        q_start=_ints(draft.joints[j].q_start + m.step.q for _, m, j in frames),
        dof_start=_ints(draft.joints[j].dof_start + m.step.dof for _, m, j in frames),
    )


def _cone(step: Elementary) -> Array:
    """How far a ball may swing; no limit where all of its rotation is limited instead."""
    cone = step.joint.cone
    if cone is None or cone.total or step.motion is not Motion.BALL:
        return np.full(2, np.inf)
    return np.array([cone.angle_y, cone.angle_z])


def _limits(draft: Draft, joint: Joint, axis: Axis) -> tuple[float, float]:
    if joint.kind is JointKind.SPHERICAL and joint.cone is not None and joint.cone.total:
        return 0.0, joint.cone.angle_y
    return range_of(joint, axis, draft.diagnostics)


def _spring_quaternion(step: Elementary, start: Array) -> Array:
    """As MuJoCo has it: no turn for a spherical joint, the start for a free one (where there is a spring at all)."""
    if step.joint.kind is JointKind.FREE and step.motion is Motion.BALL and any(a.stiffness for a in step.joint.axes):
        return start[3:7]
    return np.array([1.0, 0.0, 0.0, 0.0])


def pack_dofs(draft: Draft) -> DofsInfo:
    """One row for each degree of freedom: the passive side, and the drives that formats put on joints."""
    axes = [axis for j in draft.joints for axis in j.joint.moving_axes]
    frame_of = {}
    for i, (_, m, j) in enumerate(draft.frames):
        for k in range(3 if m.step.motion is Motion.BALL else 1):
            frame_of[draft.joints[j].dof_start + m.step.dof + k] = i
    drives = [axis.drive for axis in axes]
    efforts = np.array([_efforts(j.joint, axis) for j in draft.joints for axis in j.joint.moving_axes]).reshape(-1, 2)
    limits = np.array([_limits(draft, j.joint, axis) for j in draft.joints for axis in j.joint.moving_axes])
    limits = limits.reshape(-1, 2)
    damper_curves, spring_curves, spring_yield = joint_curves(draft)
    softness = [limit_softness(j.joint, axis) for j in draft.joints for axis in j.joint.moving_axes]
    most = np.array([a.drive.max_force if a.drive else np.inf for a in axes], dtype=np.float64)

    def column(name: str) -> Array:
        return np.array([getattr(a, name) for a in axes], dtype=np.float64)

    def driven(name: str) -> Array:
        return np.array([0.0 if d is None else getattr(d, name) for d in drives], dtype=np.float64)

    return DofsInfo(
        names=[n for j in draft.joints for n in _dof_names(j.joint)],
        frame_idx=_ints(frame_of[i] for i in range(len(axes))),
        q_idx=_ints(q for j in draft.joints for q in _coordinates(j.joint, j.q_start)),
        armature=column("armature"),
        damping=column("damping"),
        damping_poly=damper_curves,
        stiffness=column("stiffness"),
        stiffness_poly=spring_curves,
        spring_yield=spring_yield,
        spring_ref=column("spring_reference"),
        frictionloss=column("friction"),
        lower=limits[:, 0],
        upper=limits[:, 1],
        limit_solref=_rows([np.array(s.solref or DEFAULT_SOLREF) for s in softness], (2,)),
        limit_solimp=_rows([np.array(s.solimp or DEFAULT_SOLIMP) for s in softness], (5,)),
        limit_spring=_rows(
            [np.array(limit_spring(j.joint, a)) for j in draft.joints for a in j.joint.moving_axes], (2,)
        ),
        friction_solref=_rows([np.array(a.friction_solver.solref or DEFAULT_SOLREF) for a in axes], (2,)),
        friction_solimp=_rows([np.array(a.friction_solver.solimp or DEFAULT_SOLIMP) for a in axes], (5,)),
        limit_margin=np.array([a.limit_solver.margin for a in axes], dtype=np.float64),
        invweight=np.ones(len(axes)),
        effort_lower=efforts[:, 0],
        effort_upper=efforts[:, 1],
        kp=driven("stiffness"),
        kv=driven("damping"),
        force_lower=np.maximum(efforts[:, 0], -most),
        force_upper=np.minimum(efforts[:, 1], most),
        target_pos=driven("target_position"),
        target_vel=driven("target_velocity"),
        acceleration_drive=np.array([d is not None and d.type.value == "acceleration" for d in drives], dtype=np.bool_),
        actuator_gravcomp=np.array(
            [_bears_weight(j.joint) for j in draft.joints for _ in j.joint.moving_axes], dtype=np.bool_
        ),
    )


def _bears_weight(joint: Joint) -> bool:
    return bool(joint.attributes.get(mjcf.key(mjcf.ACTUATORGRAVCOMP)))


def _efforts(joint: Joint, axis: Axis) -> tuple[float, float]:
    """The bounds of what actuators may do; MuJoCo's need not be symmetric."""
    own = joint.attributes.get(mjcf.key(mjcf.ACTUATORFRCRANGE), ())
    if len(own) == 2 and max(map(abs, own)) == axis.effort:  # not where somebody has changed the effort since
        return float(own[0]), float(own[1])
    return -axis.effort, axis.effort


def _dof_names(joint: Joint) -> list[str]:
    axes: list[Axis] = joint.moving_axes
    return [joint.name] if len(axes) == 1 else [f"{joint.name}[{i}]" for i in range(len(axes))]


def _coordinates(joint: Joint, start: int) -> list[int]:
    """Of each degree of freedom its coordinate, -1 where that is in a quaternion."""
    if joint.kind is JointKind.FREE:
        return [start, start + 1, start + 2, -1, -1, -1]
    if joint.kind is JointKind.SPHERICAL:
        return [-1, -1, -1]
    return list(range(start, start + joint.n_dofs))


def pack_entities(draft: Draft, actuators_of: list[int]) -> list[EntityInfo]:
    """The ranges of each part."""
    result = []
    for e, part in enumerate(draft.parts):
        before = [j for j in draft.joints if j.entity < e]
        own = [j for j in draft.joints if j.entity == e]
        links = sum(b.entity < e for b in draft.bodies)
        q, dof = sum(j.joint.n_qs for j in before), sum(j.joint.n_dofs for j in before)
        result.append(
            EntityInfo(
                name=part.name,
                link_start=links,
                link_end=links + sum(b.entity == e for b in draft.bodies),
                joint_start=len(before),
                joint_end=len(before) + len(own),
                q_start=q,
                q_end=q + sum(j.joint.n_qs for j in own),
                dof_start=dof,
                dof_end=dof + sum(j.joint.n_dofs for j in own),
                actuator_start=sum(a < e for a in actuators_of),
                actuator_end=sum(a <= e for a in actuators_of),
            )
        )
    return result


def start_coordinates(draft: Draft) -> Array:
    """Where the simulation starts: each joint where its file shows it."""
    return np.concatenate([np.zeros(0), *(j.start for j in draft.joints)])
