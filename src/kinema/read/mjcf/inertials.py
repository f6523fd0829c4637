"""Mass, centre of mass and inertia of MuJoCo's bodies, computed from the file as far as possible.

As for poses, what MuJoCo's compiler has computed may differ in the last bits on another processor: it is compared with
the values that follow from the file, and taken only where these disagree, as for shells.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from kinema import geometry as geo
from kinema.core import Array, quaternion_to_matrix, rotate_tensor, symmetric_eigen
from kinema.description import Inertial, Link, Mesh, Shape, combine_inertials, geometry_mass_properties, mesh_data
from kinema.tokens import mjcf

from .model_reader import ModelReader
from .mujoco_compiler import mujoco
from .placements import resolve_orientation

_TOLERANCE = 1e-9
"""Largest relative difference from MuJoCo's mass and sum of moments; largest one of the centre of mass [m]."""
_AXES_TOLERANCE = 2e-6
"""Largest difference from MuJoCo's inertia, relative to its largest entry: the error of its principal axes."""


def read_inertial(reader: ModelReader, body: int, shapes: Sequence[Shape], *, computed: bool) -> Inertial | None:
    """Mass [kg], centre of mass [m] and inertia [kg m2] of a body; None for a massless body.

    Args:
        reader: the model.
        body: MuJoCo's index of the body.
        shapes: shapes of the body.
        computed: whether MuJoCo computes the inertia from the geoms.
    """
    compiled = _compiled_inertial(reader, body)
    if compiled is None:
        return None
    own = _inertial_from_shapes(reader, shapes) if computed else _written_inertial(reader, body)
    if own is not None:
        own = _with_bounds(own, reader.compiled.spec.compiler)
        if _total_mass(reader) is not None:
            reader.unscaled_inertials[body] = own
            return compiled
        if _agree(own, compiled):
            return own
    reader.placements.n_differences += 1
    return compiled


def _total_mass(reader: ModelReader) -> float | None:
    """Mass of all bodies together to which MuJoCo scales them (`settotalmass`) [kg]; None if it does not."""
    mass = float(reader.compiled.spec.compiler.settotalmass)
    return mass if mass > 0.0 else None


def scale_to_total_mass(reader: ModelReader, links: Mapping[int, Link]) -> None:
    """Set the inertials of all links, by body, where MuJoCo scales masses to a given total mass."""
    total = _total_mass(reader)
    if total is None:
        return
    bodies = [body for body in range(1, reader.model.nbody) if reader.model.body_mass[body]]
    scaled: dict[int, Inertial] = {}
    if all(body in reader.unscaled_inertials for body in bodies):
        unscaled = [reader.unscaled_inertials[body] for body in bodies]
        factor = total / float(np.sum([inertial.mass for inertial in unscaled]))
        for body, own in zip(bodies, unscaled, strict=True):
            compiled = _compiled_inertial(reader, body)
            inertial = Inertial(own.mass * factor, own.center, own.inertia * factor)
            if compiled is not None and _agree(inertial, compiled):
                scaled[body] = inertial
    reader.placements.n_differences += len(bodies) - len(scaled)
    for body, inertial in scaled.items():
        links[body].inertial = reader.inertials[body] = inertial


def _with_bounds(inertial: Inertial, compiler: Any) -> Inertial:
    """Inertial with the lower bounds of mass and moments of a `<compiler>`, balanced if it asks for that."""
    bound, balance = float(compiler.boundinertia), bool(compiler.balanceinertia)
    mass, inertia = max(inertial.mass, float(compiler.boundmass)), inertial.inertia
    if (bound > 0.0 or balance) and np.isfinite(inertia).all():
        moments, axes = symmetric_eigen(inertia)
        if moments[0] < bound:
            moments = np.maximum(moments, bound)
            inertia = rotate_tensor(axes, np.diag(moments))
            inertia = (inertia + inertia.T) / 2
        if balance and moments[0] + moments[1] < moments[2]:
            inertia = np.eye(3) * float((moments[0] + moments[1] + moments[2]) / 3.0)
    return Inertial(mass, inertial.center, inertia)


def is_inertia_from_geoms(reader: ModelReader, body: int) -> bool:
    """Whether MuJoCo computes the inertia of a body from its geoms."""
    spec = reader.spec_element("bodies", body)
    if spec is None or not reader.model.body_mass[body]:
        return False
    rule = int(getattr(spec, "compiler", reader.compiled.spec.compiler).inertiafromgeom)
    kinds = mujoco().mjtInertiaFromGeom
    return rule == kinds.mjINERTIAFROMGEOM_TRUE or (
        rule == kinds.mjINERTIAFROMGEOM_AUTO and not bool(spec.explicitinertial)
    )


def inertia_axes(reader: ModelReader, body: int) -> tuple[float, ...]:
    """Quaternion of the principal axes of a body, as written if they are."""
    compiled: tuple[float, ...] = tuple(reader.model.body_iquat[body].tolist())
    spec = reader.spec_element("bodies", body)
    if spec is None or is_inertia_from_geoms(reader, body) or np.isfinite(spec.fullinertia).all():
        return compiled
    written = np.array(resolve_orientation(spec.iquat, spec.ialt, spec.compiler))
    written = written if (written * compiled).sum() >= 0.0 else -written
    return tuple(written.tolist()) if np.abs(written - compiled).max() <= _TOLERANCE else compiled


def _compiled_inertial(reader: ModelReader, body: int) -> Inertial | None:
    model = reader.model
    mass = float(model.body_mass[body])
    if mass == 0.0:
        return None
    axes, moments = model.body_iquat[body], model.body_inertia[body]
    return Inertial(mass, np.array(model.body_ipos[body]), _tensor(axes, moments))


def _tensor(quaternion: Sequence[float] | Array, moments: Array) -> Array:
    """Inertia tensor of principal moments along rotated axes."""
    with np.errstate(invalid="ignore", over="ignore"):  # non-finite values are diagnosed later
        inertia: Array = rotate_tensor(quaternion_to_matrix(quaternion), np.diag(moments))
        return (inertia + inertia.T) / 2


def _written_inertial(reader: ModelReader, body: int) -> Inertial | None:
    """Inertial of an `<inertial>` element; None without one."""
    spec = reader.spec_element("bodies", body)
    if spec is None or not np.isfinite(spec.ipos).all():
        return None
    if np.isfinite(spec.fullinertia).all():
        xx, yy, zz, xy, xz, yz = (float(v) for v in spec.fullinertia)
        inertia = np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])
    else:
        inertia = _tensor(resolve_orientation(spec.iquat, spec.ialt, spec.compiler), np.array(spec.inertia))
    return Inertial(float(spec.mass), np.array(spec.ipos), inertia)


def _inertial_from_shapes(reader: ModelReader, shapes: Sequence[Shape]) -> Inertial | None:
    """Inertial of the solid shapes of a body; None if it is unknown."""
    parts = []
    for shape in shapes:
        if shape.attributes.get(mjcf.attribute_key(mjcf.SHELLINERTIA)):
            return None
        if shape.mass == 0.0 or (shape.mass is None and not shape.density):
            continue
        try:
            unit = _unit_mass_properties(shape)
        except geo.GeometryError:
            return None
        if unit is not None and unit.mass > 0.0:
            density = shape.density if shape.mass is None else shape.mass / unit.mass
            assert density is not None
            parts.append((_scaled(unit, density), shape.pose))
    return combine_inertials(parts)


def _scaled(unit: geo.MassProperties, density: float) -> geo.MassProperties:
    return geo.MassProperties(density * unit.mass, unit.center, density * unit.inertia)


def _unit_mass_properties(shape: Shape) -> geo.MassProperties | None:
    """Mass properties of a shape of unit density by MuJoCo's method for it; None without volume."""
    if not isinstance(shape.geometry, Mesh):
        return geometry_mass_properties(shape.geometry, 1.0)
    triangles = mesh_data(shape.geometry)
    if triangles is None:
        return None
    match shape.attributes.get(mjcf.attribute_key(mjcf.MESH_INERTIA), "legacy"):
        case "exact":
            return geo.mesh_mass_properties(triangles, 1.0)
        case "convex":
            return geo.mesh_mass_properties(geo.convex_hull(triangles), 1.0)
        case "shell":
            return geo.shell_mesh_mass_properties(triangles, 1.0)
    return geo.unsigned_mesh_mass_properties(triangles, 1.0)


def _agree(own: Inertial, compiled: Inertial) -> bool:
    trace = float(compiled.inertia.trace())
    return (
        abs(own.mass - compiled.mass) <= _TOLERANCE * compiled.mass
        and float(np.abs(own.center - compiled.center).max()) <= _TOLERANCE
        and abs(float(own.inertia.trace()) - trace) <= _TOLERANCE * trace
        and float(np.abs(own.inertia - compiled.inertia).max()) <= _AXES_TOLERANCE * float(compiled.inertia.max())
    )
