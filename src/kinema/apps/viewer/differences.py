"""How two descriptions of one robot differ, link by link and joint by joint."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from kinema.description import Joint, Link, Shape

from .exhibit import Exhibit, Part, bounds
from .painted import triangles

CHANGED, MISSING = (255, 200, 0), (220, 40, 40)
"""Colours of what differs, and of what only one of the two has."""


@dataclass(frozen=True, slots=True)
class Difference:
    """One part that is not the same in both."""

    part: Part
    text: str
    missing: bool = False
    """Whether the other has no such part at all."""


def differences(first: Exhibit, second: Exhibit) -> list[Difference]:
    """What differs; parts belong to each other by their names. Lengths count from a millionth of the robot's size."""
    box = bounds(first)
    size = 1.0 if box is None else max(float(np.linalg.norm(box[1] - box[0])), 1e-6)
    found: list[Difference] = []
    for one, other in ((first, second), (second, first)):
        for kind, own, others in (("link", one.links, other.links), ("joint", one.joints, other.joints)):
            missing = [name for name in own if name not in others]
            found += [Difference(Part(one.number, kind, n), f"{other.title} has no {kind} {n}", True) for n in missing]
    poses = [first.poses(), second.poses()]
    for name in (n for n in first.links if n in second.links):
        told = _links_differ(first.links[name], second.links[name], size)
        places = [first.offset.inverse() @ poses[0][name], second.offset.inverse() @ poses[1][name]]
        if not places[0].is_close(places[1], 1e-6 * max(size, 1.0)):
            told.append("it stands elsewhere")
        found += [Difference(Part(e.number, "link", name), f"link {name}: {t}") for t in told for e in (first, second)]
    for name in (n for n in first.joints if n in second.joints):
        told = _joints_differ(first.joints[name], second.joints[name])
        found += [
            Difference(Part(e.number, "joint", name), f"joint {name}: {t}") for t in told for e in (first, second)
        ]
    return found


def _links_differ(a: Link, b: Link, size: float) -> list[str]:
    told = []
    masses = [0.0 if x.inertial is None else x.inertial.mass for x in (a, b)]
    if not math.isclose(*masses, rel_tol=1e-6, abs_tol=1e-9):
        told.append(f"mass {masses[0]:.6g} against {masses[1]:.6g} kg")
    if a.inertial is not None and b.inertial is not None:
        if not np.allclose(a.inertial.center, b.inertial.center, rtol=0, atol=1e-6 * size):
            told.append("another centre of mass")
        scale = float(np.abs(a.inertial.inertia).max(initial=0.0))
        if not np.allclose(a.inertial.inertia, b.inertial.inertia, rtol=1e-5, atol=1e-6 * scale):
            told.append("another inertia")
    for role in ("visual", "collision"):
        one, other = (_extent([s for s in x.shapes if getattr(s, role)]) for x in (a, b))
        if (one is None) != (other is None):
            told.append(f"{role} shapes in one of them only")
        elif one is not None and other is not None and not np.allclose(one, other, rtol=0, atol=1e-4 * size):
            told.append(f"{role} shapes of another extent")
    return told


def _extent(shapes: list[Shape]) -> np.ndarray | None:
    """The corners of the box around shapes, in their link."""
    points = [shape.pose.apply(mesh.vertices) for shape in shapes if (mesh := triangles(shape)) is not None]
    if not points:
        return None
    every = np.concatenate(points)
    return np.stack([every.min(axis=0), every.max(axis=0)])


def _joints_differ(a: Joint, b: Joint) -> list[str]:
    if a.n_dofs != b.n_dofs:
        return [f"{a.kind} against {b.kind}"]
    told = []
    for one, other in zip(a.moving_axes, b.moving_axes, strict=True):
        limits = [(x.lower - x.reference, x.upper - x.reference) for x in (one, other)]
        if not np.allclose(*limits, rtol=1e-5, atol=1e-6, equal_nan=True):
            told.append("limits {:.4g} to {:.4g} against {:.4g} to {:.4g}".format(*limits[0], *limits[1]))
        for word in ("damping", "friction", "armature"):
            values = [getattr(x, word) for x in (one, other)]
            if not math.isclose(*values, rel_tol=1e-5, abs_tol=1e-9):
                told.append(f"{word} {values[0]:.4g} against {values[1]:.4g}")
        if (one.mimic is None) != (other.mimic is None):
            told.append("it follows another joint in one of them only")
    return told
