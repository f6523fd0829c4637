"""Links as rigid bodies with mass properties and initial velocities."""

from __future__ import annotations

import math

import numpy as np

from kinema.core import Array, matrix_to_quaternion
from kinema.description import Link
from kinema.tokens import kinema_usd, newton, physx, usd, usd_physics

from ..loss_report import Action
from .context import UsdContext, author_stored_fields, write_preserved
from .layer_builder import PrimBuilder
from .prim_paths import RobotPaths

RADIANS_PER_DEGREE = math.pi / 180


def author_link(ctx: UsdContext, robot_paths: RobotPaths, link: Link) -> PrimBuilder:
    """Write the prim of a link with transform, rigid body and mass attributes, without its shapes."""
    prim = ctx.builder.define_prim(robot_paths.links[link.name], usd.XFORM)
    author_stored_fields(ctx, prim, link)
    prim.set_transform(robot_paths.local_pose(link.name))
    if robot_paths.robot.static:
        prim.set_custom(kinema_usd.STATIC_LINK, True)
        _preserve_inertial(link, prim)
        write_preserved(ctx, prim, link)
        return prim
    prim.apply_schemas(usd_physics.RIGID_BODY_API)
    if not link.enabled:
        prim.set_attribute(usd_physics.RIGID_BODY_ENABLED, "bool", False)
        ctx.report_loss(Action.APPROXIMATED, link, "that it is disabled", "its shapes belong to what it is inside of")
    if link.kinematic:
        prim.set_attribute(usd_physics.KINEMATIC_ENABLED, "bool", True)
    if link.continuous_collision:
        prim.apply_schemas(physx.RIGID_BODY_API)
        prim.set_attribute(physx.CONTINUOUS_COLLISION[0], "bool", True)
    if link.starts_asleep:
        prim.set_attribute(usd_physics.STARTS_ASLEEP, "bool", True, uniform=True)
    _author_velocity(robot_paths, link, prim)
    _author_mass(ctx, link, prim)
    if link.gravity_scale != 1.0:
        _report_gravity_scale(ctx, link, prim)
    write_preserved(ctx, prim, link)
    return prim


def _author_velocity(robot_paths: RobotPaths, link: Link, prim: PrimBuilder) -> None:
    """Write initial velocities [m/s, deg/s] in the frame of the parent prim; the description has world axes."""
    outer = robot_paths.parent_links[link.name]
    frame = robot_paths.robot.pose if outer is None else robot_paths.robot.pose @ robot_paths.poses[outer]
    if link.linear_velocity.any():
        prim.set_single_precision(usd_physics.VELOCITY, "vector3f", frame.rotation.T @ link.linear_velocity)
    if link.angular_velocity.any():
        prim.set_single_precision(
            usd_physics.ANGULAR_VELOCITY, "vector3f", frame.rotation.T @ link.angular_velocity / RADIANS_PER_DEGREE
        )


def _report_gravity_scale(ctx: UsdContext, link: Link, prim: PrimBuilder) -> None:
    """Report the gravity scale, and disable gravity by the PhysX attribute if it is 0."""
    how = "it is in kinema:gravityScale, which other tools do not know"
    if link.gravity_scale == 0.0:
        prim.apply_schemas(physx.RIGID_BODY_API)
        prim.set_attribute(physx.DISABLE_GRAVITY, "bool", True)
        how = "it is in physxRigidBody:disableGravity, which is no part of UsdPhysics"
    ctx.report_loss(Action.EXTENSION, link, "its share of gravity", how)


# ------------------------------------------------------------------------------------------------------ mass properties


def _author_mass(ctx: UsdContext, link: Link, prim: PrimBuilder) -> None:
    """Write mass, centre of mass, density and inertia of a link."""
    inertial = link.inertial
    if inertial is None or inertial.mass == 0.0:
        _author_massless(ctx, link, prim)
        return
    prim.apply_schemas(usd_physics.MASS_API)
    prim.set_single_precision(usd_physics.MASS, "float", inertial.mass)
    prim.set_single_precision(usd_physics.CENTER_OF_MASS, "point3f", inertial.center)
    if link.density is not None:
        prim.set_single_precision(usd_physics.DENSITY, "float", link.density)
    if link.inertial_is_computed:
        prim.set_custom(kinema_usd.INERTIA_IS_COMPUTED, True)
    _author_inertia(ctx, link, prim, inertial.inertia)


def _author_massless(ctx: UsdContext, link: Link, prim: PrimBuilder) -> None:
    """Mark a link as massless and report that USD lets simulators infer a mass."""
    prim.set_custom(kinema_usd.MASSLESS, True)
    _preserve_inertial(link, prim)
    if any(s.collision and s.enabled for s in link.shapes):
        how = "USD gives every body the mass of its colliders, 1000 kg/m3 where nothing else is said"
    else:
        how = "USD has no body without mass; what a simulator makes of it is up to it"
    ctx.report_loss(Action.APPROXIMATED, link, "that it has no mass", how)


def _preserve_inertial(link: Link, prim: PrimBuilder) -> None:
    """Store mass properties of static and massless links in Kinema attributes."""
    if link.inertial is not None:
        prim.set_custom(kinema_usd.MASSLESS_MASS, link.inertial.mass)
        prim.set_custom(kinema_usd.MASSLESS_CENTER, link.inertial.center)
        prim.set_custom(kinema_usd.MASSLESS_INERTIA, symmetric_to_six(link.inertial.inertia))


def _author_inertia(ctx: UsdContext, link: Link, prim: PrimBuilder, inertia: Array) -> None:
    """Write principal moments and axes, and the full tensor in Newton's attribute."""
    prim.apply_schemas(newton.MASS_API)
    prim.set_attribute(newton.INERTIA, "double[]", symmetric_to_six(inertia))
    moments, axes = principal_moments_and_axes(inertia)
    if not (np.isfinite(moments).all() and (moments > 0).all()):
        how = "a principal moment is not positive, which USD takes as not given; it is in newton:inertia only"
        ctx.report_loss(Action.EXTENSION, link, "the inertia", how)
        return
    prim.set_attribute(usd_physics.DIAGONAL_INERTIA, "float3", moments)
    prim.set_attribute(usd_physics.PRINCIPAL_AXES, "quatf", axes)


def symmetric_to_six(inertia: Array) -> tuple[float, ...]:
    """Components xx, yy, zz, xy, xz, yz of a symmetric tensor (3, 3)."""
    (xx, xy, xz), (_, yy, yz), (_, _, zz) = inertia.tolist()
    return (xx, yy, zz, xy, xz, yz)


def principal_moments_and_axes(inertia: Array) -> tuple[Array, Array]:
    """Principal moments (3,) and axes quaternion (w, x, y, z); the identity for diagonal tensors, NaN if not finite."""
    symmetric = (inertia + inertia.T) / 2
    if not np.isfinite(symmetric).all():
        return np.full(3, np.nan), np.array([1.0, 0.0, 0.0, 0.0])
    if not (symmetric - np.diag(np.diag(symmetric))).any():
        return np.diag(symmetric).copy(), np.array([1.0, 0.0, 0.0, 0.0])
    moments, axes = np.linalg.eigh(symmetric)
    if np.linalg.det(axes) < 0:
        axes[:, 0] = -axes[:, 0]
    return moments, matrix_to_quaternion(axes)
