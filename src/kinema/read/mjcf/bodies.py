"""Bodies to links."""

from __future__ import annotations

from typing import Any

import numpy as np

from kinema.description import Inertial, Link, Shape
from kinema.foundation import Array, quaternion_to_matrix
from kinema.words import mjcf

from .engine import mujoco
from .leftovers import plugins_of
from .reading import Reading, floats, set_given, word

_EQUAL = 1e-9
"""Relative difference of moments of inertia that is none."""

_SLIDES_ALONE = 2
"""What MuJoCo's `body_simple` is then."""


def link_of(reading: Reading, body: int, shapes: list[Shape]) -> Link:
    """The link that stands for a body, with its shapes."""
    model = reading.model
    computed = _is_computed(reading, body)
    unknown = computed and any(_brings_unknown_mass(shape) for shape in shapes)
    link = Link(
        **reading.node(mjcf.BODY, "bodies", body),
        inertial=None if unknown else inertial_of(reading, body),
        inertial_is_computed=computed,
        shapes=shapes,
        extras=plugins_of(reading, "bodies", body),
        nested_in=reading.link(int(model.body_parentid[body])),
        kinematic=int(model.body_mocapid[body]) >= 0,
        gravity_scale=1.0 - float(model.body_gravcomp[body]),
    )
    if unknown:
        message = f'the inertia of body "{link.name}" would come from a mesh that could not be read; it is left out'
        reading.warning("no-inertia", message, link.origin, "give the file, or an <inertial>")
    _settings(reading, body, link)
    return link


def inertial_of(reading: Reading, body: int) -> Inertial | None:
    """Mass, centre and inertia; None for a body without mass."""
    model = reading.model
    mass = float(model.body_mass[body])
    if mass == 0.0:
        return None
    with np.errstate(invalid="ignore", over="ignore"):  # infinite numbers are for the checks to find
        axes = quaternion_to_matrix(model.body_iquat[body])
        inertia: Array = axes @ np.diag(model.body_inertia[body]) @ axes.T
        inertia = (inertia + inertia.T) / 2
    written = _written_inertia(reading, body)
    if written is not None and np.abs(written - inertia).max() <= 1e-9 * np.abs(inertia).max():
        inertia = written  # MuJoCo's own is the same but for the rounding of its principal axes
    return Inertial(mass, np.array(model.body_ipos[body]), inertia)


def _written_inertia(reading: Reading, body: int) -> Array | None:
    """The matrix of a `fullinertia`; None where the file gives none."""
    spec = reading.spec("bodies", body)
    if spec is None or not np.isfinite(spec.fullinertia).all():
        return None
    xx, yy, zz, xy, xz, yz = (float(v) for v in spec.fullinertia)
    return np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])


def _is_computed(reading: Reading, body: int) -> bool:
    """Whether MuJoCo makes the inertia from the geoms."""
    spec = reading.spec("bodies", body)
    if spec is None or not reading.model.body_mass[body]:
        return False
    rule = int(getattr(spec, "compiler", reading.compiled.spec.compiler).inertiafromgeom)
    kinds = mujoco().mjtInertiaFromGeom
    return rule == kinds.mjINERTIAFROMGEOM_TRUE or (
        rule == kinds.mjINERTIAFROMGEOM_AUTO and not bool(spec.explicitinertial)
    )


def _brings_unknown_mass(shape: Shape) -> bool:
    return bool(shape.attributes.get(mjcf.key(mjcf.UNREADABLE))) and shape.mass is None and shape.density != 0.0


def _settings(reading: Reading, body: int, link: Link) -> None:
    model = reading.model
    spec = reading.spec("bodies", body)
    sleep = getattr(spec, "sleep", None)
    policy = "" if sleep is None else word(sleep, "mjtSleepPolicy")
    link.starts_asleep = policy == "init"
    set_given(
        link.attributes,
        {
            mjcf.SLEEP: "" if policy.startswith("auto") else policy,
            mjcf.INERTIA_AXES: _open_axes(model, body),
            mjcf.SLIDES_ALONE: int(model.body_simple[body]) == _SLIDES_ALONE,
            mjcf.USER: model.body_user[body] if model.nuser_body else (),
            mjcf.CHILDCLASS: "" if spec is None or spec.childclass == "main" else spec.childclass,
        },
    )


def _open_axes(model: Any, body: int) -> tuple[float, ...]:
    """The axes of an inertia that nothing else tells: those a sensor looks at, and those of equal moments in a medium.

    The latter decide what the medium does to the body.
    """
    if not model.body_mass[body]:
        return ()
    if _is_looked_at(model, body):
        return floats(model.body_iquat[body])
    if not (model.opt.density or model.opt.viscosity):
        return ()
    a, b, c = sorted(floats(model.body_inertia[body]))
    axes = np.abs(quaternion_to_matrix(model.body_iquat[body]))
    tells = min(b - a, c - b) > _EQUAL * c or np.abs(axes - axes.round()).max() < _EQUAL
    return () if tells else floats(model.body_iquat[body])


def _is_looked_at(model: Any, body: int) -> bool:
    """Whether a sensor looks at the axes of a body's inertia, or from there."""
    kind = int(mujoco().mjtObj.mjOBJ_BODY)
    looks = (model.sensor_objtype == kind) & (model.sensor_objid == body)
    return bool((looks | ((model.sensor_reftype == kind) & (model.sensor_refid == body))).any())
