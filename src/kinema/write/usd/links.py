"""Links to rigid bodies with their masses."""

from __future__ import annotations

import math

import numpy as np

from kinema.description import Link
from kinema.foundation import Array, matrix_to_quaternion
from kinema.words import newton, ours, physics, physx, usd

from ..report import Action
from .draft import PrimDraft
from .names import author_name, give_back
from .plan import RobotPlan
from .writing import Writing

DEGREE = math.pi / 180


def author_link(writing: Writing, parts: RobotPlan, link: Link) -> PrimDraft:
    """A link's prim in its place, without its shapes."""
    prim = writing.draft.prim(parts.links[link.name], usd.XFORM)
    author_name(writing, prim, link)
    prim.place(parts.place(link.name))
    if parts.robot.static:
        prim.keep(ours.STATIC_LINK, True)
        _keep_inertial(link, prim)
        give_back(writing, prim, link)
        return prim
    prim.apply(physics.RIGID_BODY_API)
    if not link.enabled:
        prim.set(physics.RIGID_BODY_ENABLED, "bool", False)
        writing.lose(Action.APPROXIMATED, link, "that it is disabled", "its shapes belong to what it is inside of")
    if link.kinematic:
        prim.set(physics.KINEMATIC_ENABLED, "bool", True)
    if link.starts_asleep:
        prim.set(physics.STARTS_ASLEEP, "bool", True, uniform=True)
    _velocity(parts, link, prim)
    _mass(writing, link, prim)
    if link.gravity_scale != 1.0:
        _gravity(writing, link, prim)
    give_back(writing, prim, link)
    return prim


def _velocity(parts: RobotPlan, link: Link, prim: PrimDraft) -> None:
    """Velocities are along the axes of what the body is in; the description's are along the world's."""
    outer = parts.inside[link.name]
    frame = parts.robot.pose if outer is None else parts.robot.pose @ parts.poses[outer]
    if link.linear_velocity.any():
        prim.number(physics.VELOCITY, "vector3f", frame.rotation.T @ link.linear_velocity)
    if link.angular_velocity.any():
        prim.number(physics.ANGULAR_VELOCITY, "vector3f", frame.rotation.T @ link.angular_velocity / DEGREE)


def _gravity(writing: Writing, link: Link, prim: PrimDraft) -> None:
    prim.keep(ours.GRAVITY_SCALE, link.gravity_scale)
    how = "it is in kinema:gravityScale, which other tools do not know"
    if link.gravity_scale == 0.0:
        prim.apply(physx.RIGID_BODY_API)
        prim.set(physx.DISABLE_GRAVITY, "bool", True)
        how = "it is in physxRigidBody:disableGravity, which is no part of UsdPhysics"
    writing.lose(Action.EXTENSION, link, "its share of gravity", how)


# -- mass -------------------------------------------------------------------------------------------------------------


def _mass(writing: Writing, link: Link, prim: PrimDraft) -> None:
    inertial = link.inertial
    if inertial is None or inertial.mass == 0.0:
        _massless(writing, link, prim)
        return
    prim.apply(physics.MASS_API)
    prim.number(physics.MASS, "float", inertial.mass)
    prim.number(physics.CENTER_OF_MASS, "point3f", inertial.center)
    if link.density is not None:
        prim.number(physics.DENSITY, "float", link.density)
    if link.inertial_is_computed:
        prim.keep(ours.INERTIA_IS_COMPUTED, True)
    _inertia(writing, link, prim, inertial.inertia)


def _massless(writing: Writing, link: Link, prim: PrimDraft) -> None:
    """USD has no body without mass: other tools compute one from its shapes, or make one up."""
    prim.keep(ours.MASSLESS, True)
    _keep_inertial(link, prim)
    if any(s.collision and s.enabled for s in link.shapes):
        how = "USD gives every body the mass of its colliders, 1000 kg/m3 where nothing else is said"
    else:
        how = "USD has no body without mass; what a simulator makes of it is up to it"
    writing.lose(Action.APPROXIMATED, link, "that it has no mass", how)


def _keep_inertial(link: Link, prim: PrimDraft) -> None:
    """Mass properties that USD has no use for: of what never moves, or of no mass."""
    if link.inertial is not None:
        prim.keep(ours.MASSLESS_MASS, link.inertial.mass)
        prim.keep(ours.MASSLESS_CENTER, link.inertial.center)
        prim.keep(ours.MASSLESS_INERTIA, six_numbers(link.inertial.inertia))


def _inertia(writing: Writing, link: Link, prim: PrimDraft, inertia: Array) -> None:
    """Principal moments and axes for everybody, and the tensor itself."""
    prim.apply(newton.MASS_API)
    prim.set(newton.INERTIA, "double[]", six_numbers(inertia))
    moments, axes = principal(inertia)
    if not (np.isfinite(moments).all() and (moments > 0).all()):
        how = "a principal moment is not positive, which USD takes as not given; it is in newton:inertia only"
        writing.lose(Action.EXTENSION, link, "the inertia", how)
        return
    prim.set(physics.DIAGONAL_INERTIA, "float3", moments)
    prim.set(physics.PRINCIPAL_AXES, "quatf", axes)


def six_numbers(inertia: Array) -> tuple[float, ...]:
    """A symmetric tensor as xx, yy, zz, xy, xz, yz."""
    (xx, xy, xz), (_, yy, yz), (_, _, zz) = inertia.tolist()
    return (xx, yy, zz, xy, xz, yz)


def principal(inertia: Array) -> tuple[Array, Array]:
    """Principal moments, and the quaternion of their axes: the link's own where the tensor is diagonal already."""
    symmetric = (inertia + inertia.T) / 2
    if not np.isfinite(symmetric).all():
        return np.full(3, np.nan), np.array([1.0, 0.0, 0.0, 0.0])
    if not (symmetric - np.diag(np.diag(symmetric))).any():
        return np.diag(symmetric).copy(), np.array([1.0, 0.0, 0.0, 0.0])
    moments, axes = np.linalg.eigh(symmetric)
    if np.linalg.det(axes) < 0:
        axes[:, 0] = -axes[:, 0]
    return moments, matrix_to_quaternion(axes)
