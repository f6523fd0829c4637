"""The mass of links, from what the CAD program says of occurrences and bodies, and whether it fits together."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kinema.description import Inertial
from kinema.foundation import Array, Diagnostics, Pose
from kinema.shapes import MassProperties, combine, inertia_from_second_moment, transform

from .elements import OccurrenceElement, PhysicalElement
from .schema import FORMAT

_PRINCIPAL = 1e-6
"""How far principal moments may differ, relative to the largest."""
_SUM = 1e-3
"""How far an occurrence's mass properties may be from the sum of its bodies', which are computed one by one."""
_BOX = 1e-2
"""How far outside the box, relative to its diagonal, a centre of mass may lie."""


def link_inertial(members: Sequence[OccurrenceElement], pose: Pose, diagnostics: Diagnostics) -> Inertial | None:
    """Mass, centre and inertia of some occurrences together, in a frame at `pose`; None where they have no mass."""
    parts = [part for member in members if (part := _of_occurrence(member, diagnostics)) is not None]
    if not parts or not sum(part.mass for part in parts) > 0:
        return None
    inverse = pose.inverse()
    whole = transform(combine(parts), inverse.rotation, inverse.position)
    return Inertial(whole.mass, whole.center, whole.inertia)


def _of_occurrence(occurrence: OccurrenceElement, diagnostics: Diagnostics) -> MassProperties | None:
    """Mass properties of an occurrence's own bodies, in the root frame."""
    name = occurrence.name or "the root component"
    stated = occurrence.physical and _in_root(occurrence.physical, occurrence.pose, name, diagnostics)
    bodies = [
        _in_root(body.physical, occurrence.pose, f'{name}" body "{body.name}', diagnostics)
        for body in occurrence.bodies
        if body.physical is not None
    ]
    complete = bool(bodies) and len(bodies) == len(occurrence.bodies)
    total = combine(bodies) if bodies else None
    if stated is None:
        if occurrence.bodies and not complete:
            which = "no mass" if not bodies else f"a mass for {len(bodies)} of {len(occurrence.bodies)} bodies only"
            hint = "give the bodies a physical material"
            message = f'occurrence "{name}" has {which}'
            diagnostics.warning(f"{FORMAT}.no-mass", message, hint=hint, origin=occurrence.place)
        result = total
    else:
        if complete and total is not None:
            _compare(stated, total, occurrence, name, diagnostics)
        result = stated
    if result is not None:
        _check_box(result, occurrence, name, diagnostics)
    return result  # ty: ignore[invalid-explicit-return]


def _in_root(element: PhysicalElement, pose: Pose, name: str, diagnostics: Diagnostics) -> MassProperties:
    """An element's mass properties about its centre, in the root frame; its principal moments are compared."""
    shift = element.mass * np.outer(element.center, element.center)
    about_center = element.inertia - inertia_from_second_moment(shift)
    if element.principal is not None:
        _check_principal(element, about_center, name, diagnostics)
    properties = MassProperties(element.mass, element.center, about_center)
    return transform(properties, pose.rotation, pose.position) if element.frame == "component" else properties


def _check_principal(element: PhysicalElement, about_center: Array, name: str, diagnostics: Diagnostics) -> None:
    wanted = np.sort(element.principal) if element.principal is not None else np.zeros(3)
    # what cancels when the inertia is moved to the centre of mass cannot be known any better
    noise = 64 * np.finfo(float).eps * float(np.abs(element.inertia).max())
    tolerance = _PRINCIPAL * float(np.abs(wanted).max()) + noise
    error = _distance(about_center, wanted)
    if error <= tolerance:
        return
    hint = "use a higher accuracy in the CAD program"
    flipped = element.inertia * (2 * np.eye(3) - 1)
    shift = inertia_from_second_moment(element.mass * np.outer(element.center, element.center))
    if _distance(flipped - shift, wanted) <= tolerance:
        hint = "the products of inertia have the opposite sign: write them in tensor sign, -integral of x y dm"
    elif _distance(element.inertia, wanted) <= tolerance:
        hint = "the inertia seems to be about the centre of mass: write it about the origin"
    message = (
        f'"{name}": the principal moments of its inertia are {error:.3g} kg m2 from those that the CAD program gives '
        f"({error / max(float(np.abs(wanted).max()), 1e-300):.2g} of the largest)"
    )
    diagnostics.warning(f"{FORMAT}.principal-moments", message, hint=hint, origin=element.place)


def _distance(tensor: Array, principal: Array) -> float:
    return float(np.abs(np.linalg.eigvalsh(tensor) - principal).max())


def _compare(
    stated: MassProperties, total: MassProperties, occurrence: OccurrenceElement, name: str, diagnostics: Diagnostics
) -> None:
    """Whether an occurrence's mass properties are the sum of its bodies'."""
    size = float(np.sqrt(np.abs(total.inertia).max() / total.mass)) if total.mass > 0 else 0.0
    off = []
    if abs(stated.mass - total.mass) > _SUM * max(stated.mass, total.mass):
        off.append(f"mass {stated.mass:g} kg for {total.mass:g} kg")
    elif float(np.linalg.norm(stated.center - total.center)) > _SUM * max(size, 1e-9) + 1e-9:
        off.append(f"centre of mass {np.linalg.norm(stated.center - total.center):.3g} m away")
    elif float(np.abs(stated.inertia - total.inertia).max()) > _SUM * float(np.abs(total.inertia).max()) + 1e-15:
        off.append("another inertia")
    if off:
        message = f'occurrence "{name}" and its bodies disagree: the occurrence has {off[0]}; the occurrence counts'
        hint = "hidden bodies, or a frame or unit mixed up by the exporter"
        diagnostics.warning(f"{FORMAT}.mass-disagrees", message, hint=hint, origin=occurrence.place)


def _check_box(properties: MassProperties, occurrence: OccurrenceElement, name: str, diagnostics: Diagnostics) -> None:
    """Whether the centre of mass lies where the bodies are: a frame or unit mixed up puts it elsewhere."""
    if occurrence.box is None or properties.mass <= 0:
        return
    low, high = occurrence.box
    outside = np.maximum(np.maximum(low - properties.center, properties.center - high), 0.0)
    slack = _BOX * float(np.linalg.norm(high - low)) + 1e-6
    distance = float(np.linalg.norm(outside))
    if distance > slack:
        message = f'occurrence "{name}": its centre of mass lies {distance:.3g} m outside the box around its bodies'
        hint = "the exporter mixed up a frame or a unit"
        diagnostics.warning(f"{FORMAT}.center-outside", message, hint=hint, origin=occurrence.place)
