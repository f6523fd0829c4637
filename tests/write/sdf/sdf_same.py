"""Whether two parts of descriptions are the same."""

from __future__ import annotations

import math

import numpy as np

from kinema.description import Axis, Joint, Shape, tessellate
from kit.robots.same import assert_same_pose

_NUMBERS = ("lower", "upper", "velocity", "effort", "stiffness", "spring_reference", "damping", "friction")
_SURFACE = (
    *("static_friction", "dynamic_friction", "dynamic_friction2", "torsional_friction", "restitution"),
    *("contact_stiffness", "contact_damping"),
)
_LOOK = ("color", "texture", "emission", "specular", "metallic", "roughness")


def assert_same_joint(a: Joint, b: Joint, tolerance: float) -> None:
    assert (b.name, b.kind, b.parent, b.child, b.closes_loop) == (a.name, a.kind, a.parent, a.child, a.closes_loop)
    assert_same_pose(a.child_pose, b.child_pose, tolerance, a.name)
    assert_same_pose(a.parent_pose, b.parent_pose, tolerance, a.name)
    assert math.isclose(a.pitch, b.pitch, rel_tol=tolerance)
    for one, other in zip(a.axes, b.axes, strict=True):
        assert_same_axis(one, other, tolerance)


def assert_same_axis(a: Axis, b: Axis, tolerance: float) -> None:
    assert (b.motion, b.locked) == (a.motion, a.locked)
    np.testing.assert_allclose(b.direction, a.direction, atol=tolerance)
    for field in _NUMBERS:
        np.testing.assert_allclose(getattr(b, field), getattr(a, field), rtol=tolerance, err_msg=field)
    assert (a.mimic is None) == (b.mimic is None)
    if a.mimic is not None and b.mimic is not None:
        for field in ("joint", "axis", "multiplier", "offset", "reference"):
            assert getattr(b.mimic, field) == getattr(a.mimic, field)


def assert_same_shape(a: Shape, b: Shape, tolerance: float) -> None:
    assert (b.kind, b.visual, b.collision, b.density) == (a.kind, a.visual, a.collision, a.density)
    assert (b.contype, b.conaffinity) == (a.contype, a.conaffinity)
    assert_same_pose(a.pose, b.pose, tolerance, a.name)
    one, other = tessellate(a.geometry), tessellate(b.geometry)
    assert (one is None) == (other is None)
    if one is not None and other is not None:
        np.testing.assert_allclose(other.vertices, one.vertices, atol=tolerance)
    assert (a.surface is None) == (b.surface is None)
    assert (a.material is None) == (b.material is None)
    for first, second, fields in ((a.surface, b.surface, _SURFACE), (a.material, b.material, _LOOK)):
        for field in fields if first is not None else ():
            mine, theirs = getattr(first, field), getattr(second, field)
            if field == "texture":
                assert bool(mine) == bool(theirs)
            elif mine is None or theirs is None:
                assert mine is theirs, field
            else:
                np.testing.assert_allclose(theirs, mine, rtol=tolerance, err_msg=field)
