"""The medium that files ask for (MJCF `density`, `viscosity`, `wind`), and what feels it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from kinema.description import Box, Capsule, Cylinder, Ellipsoid, Geometry, Shape, Sphere
from kinema.foundation import Array, Pose, quaternion_to_matrix, vector
from kinema.model import FluidInfo, no_fluid
from kinema.words import mjcf

from .draft import Body, Draft
from .labels import shape_label
from .options import all_options, switches_of

LEAST_MASS = SMALLEST = 1e-15
"""What is lighter feels nothing; what is thinner counts as this."""
NEGLIGIBLE = 1e-12
"""Products of inertia this small against the moments."""
NAMES = ("density", "viscosity", "wind")


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Medium:
    """What the user asks for instead of what files say; None for as they say."""

    density: float | None = None
    viscosity: float | None = None
    wind: Array | None = None


AS_FILES_SAY = Medium()


@dataclass(frozen=True, slots=True, eq=False)
class _Felt:
    kind: str
    body: Body
    pose: Pose
    """In the link."""
    size: Array
    fluid: Array
    """MuJoCo's numbers of a shape: whether it counts, five coefficients, added mass and inertia."""


def pack_fluid(draft: Draft, asked: Medium = AS_FILES_SAY) -> FluidInfo:
    """The medium, and a row for each that moves in it; no rows where there is none and nobody asked for it."""
    said = _as_files_say(draft)
    for name in NAMES:
        if getattr(asked, name) is not None:
            said[name] = getattr(asked, name)
    wanted = asked.density is not None or asked.viscosity is not None
    if not (said["density"] or said["viscosity"] or wanted):
        return no_fluid()
    rows = [felt for body in draft.bodies if body.frame >= 0 and _feels(draft, body) for felt in _of_body(draft, body)]
    n = len(rows)
    poses = [row.body.place @ row.pose for row in rows]
    fluid = np.array([row.fluid for row in rows], np.float64).reshape(n, 12)
    return FluidInfo(
        density=float(said["density"]),
        viscosity=float(said["viscosity"]),
        wind=vector(said["wind"]),
        kinds=[row.kind for row in rows],
        link_idx=np.array([row.body.index for row in rows], np.int32),
        frame_idx=np.array([row.body.frame for row in rows], np.int32),
        pos=np.array([pose.position for pose in poses], np.float64).reshape(n, 3),
        rot=np.array([pose.rotation for pose in poses], np.float64).reshape(n, 3, 3),
        size=np.array([row.size for row in rows], np.float64).reshape(n, 3),
        coefficients=fluid[:, 1:6],
        added_mass=fluid[:, 6:9],
        added_inertia=fluid[:, 9:12],
    )


def _as_files_say(draft: Draft) -> dict[str, Any]:
    """The medium of the first file that has one; files that ask for another are told."""
    found: dict[str, Any] | None = None
    nothing = {"density": 0.0, "viscosity": 0.0, "wind": np.zeros(3)}
    for part in draft.parts:
        options = all_options(part.description)
        own = {name: options.get(name, nothing[name]) for name in NAMES}
        if not (own["density"] or own["viscosity"]):
            continue
        if found is None:
            found = own
        elif any(not np.array_equal(own[name], found[name]) for name in NAMES):
            draft.diagnostics.warning(
                "sim.fluid",
                f'the file of "{part.name}" asks for another medium than the rest of the scene moves in',
                hint="Scene(density=..., viscosity=..., wind=...) to choose",
                origin=part.description.origin,
            )
    return found or nothing


def _feels(draft: Draft, body: Body) -> bool:
    """Whether the medium acts on a link: not without mass, nor where passive forces are off."""
    inertial = body.link.inertial
    passive = switches_of(draft.parts[body.entity].description).passive
    return passive and inertial is not None and inertial.mass >= LEAST_MASS


def _of_body(draft: Draft, body: Body) -> list[_Felt]:
    """A link's ellipsoids, or else its box."""
    given = [(shape, _numbers(shape)) for shape in body.link.shapes]
    ellipsoids = [(shape, numbers) for shape, numbers in given if numbers[0] > 0.0]
    if not ellipsoids:
        return [_box(body)]
    rows = []
    for shape, numbers in ellipsoids:
        radii = _radii(shape.geometry)
        if radii is not None:
            rows.append(_Felt("ellipsoid", body, shape.pose, radii, numbers))
            continue
        draft.diagnostics.warning(
            "sim.fluid",
            f"the medium does not act on {shape_label(draft, shape, body)}: only primitives have an ellipsoid",
            origin=shape.origin,
        )
    return rows


def _numbers(shape: Shape) -> Array:
    given = shape.attributes.get(mjcf.key(mjcf.FLUID), ())
    return np.array(given, np.float64) if len(given) == 12 else np.zeros(12)


def _radii(geometry: Geometry) -> Array | None:
    """The half axes of the ellipsoid that stands for a shape."""
    match geometry:
        case Sphere():
            return np.full(3, geometry.radius)
        case Ellipsoid():
            return np.array(geometry.radii, np.float64)
        case Capsule():
            return np.array([geometry.radius, geometry.radius, 0.5 * geometry.length + geometry.radius])
        case Cylinder():
            return np.array([geometry.radius, geometry.radius, 0.5 * geometry.length])
        case Box():
            return 0.5 * np.array(geometry.size, np.float64)
    return None


def _box(body: Body) -> _Felt:
    """The box that has a link's mass and inertia."""
    inertial = body.link.inertial
    assert inertial is not None
    given = body.link.attributes.get(mjcf.key(mjcf.INERTIA_AXES))
    axes = _principal_axes(inertial.inertia) if given is None else quaternion_to_matrix(given)
    moments = np.diag(axes.T @ inertial.inertia @ axes)
    sides = np.sqrt(6.0 / inertial.mass * np.maximum(moments.sum() - 2.0 * moments, SMALLEST))
    return _Felt("box", body, Pose(inertial.center, axes), sides, np.zeros(12))


def _principal_axes(inertia: Array) -> Array:
    """Those of an inertia, as columns: the link's own where rounding alone says otherwise."""
    off = np.abs(inertia - np.diag(np.diag(inertia))).max()
    if off <= NEGLIGIBLE * np.abs(inertia).max():
        return np.eye(3)
    axes = np.linalg.eigh(inertia)[1]
    return axes * np.linalg.det(axes)  # a mirrored axis is the same one
