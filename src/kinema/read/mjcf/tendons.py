"""Tendons."""

from __future__ import annotations

from typing import Any

from kinema.description import Tendon, TendonPathItem, TendonPathKind
from kinema.words import mjcf

from .engine import mujoco
from .materials import visual_material
from .reading import Reading, floats, polynomial, set_given, solver_parameters


def tendons(reading: Reading) -> list[tuple[set[int], Tendon]]:
    """Every tendon with the bodies its path touches."""
    return [(bodies_of_tendon(reading.model, t), _tendon(reading, t)) for t in range(reading.model.ntendon)]


def _tendon(reading: Reading, number: int) -> Tendon:
    model = reading.model
    tendon = Tendon(
        **reading.node(mjcf.TENDON, "tendons", number),
        path=[_path_item(reading, wrap) for wrap in _wraps(model, number)],
        stiffness=float(model.tendon_stiffness[number]),
        damping=float(model.tendon_damping[number]),
        friction=float(model.tendon_frictionloss[number]),
        armature=float(model.tendon_armature[number]) if hasattr(model, "tendon_armature") else 0.0,
        spring_length=_spring_length(reading, number),
        width=float(model.tendon_width[number]),
        limit_solver=solver_parameters(
            model.tendon_solref_lim[number], model.tendon_solimp_lim[number], model.tendon_margin[number]
        ),
        friction_solver=solver_parameters(model.tendon_solref_fri[number], model.tendon_solimp_fri[number]),
    )
    if model.tendon_limited[number]:
        tendon.lower, tendon.upper = floats(model.tendon_range[number])
    if hasattr(model, "tendon_actfrclimited") and model.tendon_actfrclimited[number]:
        low, high = floats(model.tendon_actfrcrange[number])
        tendon.force_range = (low, high)
    look = visual_material(reading, int(model.tendon_matid[number]), model.tendon_rgba[number])
    tendon.color = look.color or tendon.color
    set_given(
        tendon.attributes,
        {
            mjcf.MATERIAL: look.name,
            mjcf.GROUP: int(model.tendon_group[number]),
            mjcf.UNUSED_RANGE: () if model.tendon_limited[number] else floats(model.tendon_range[number]),
            mjcf.STIFFNESSPOLY: polynomial(model, "tendon_stiffnesspoly", number),
            mjcf.DAMPINGPOLY: polynomial(model, "tendon_dampingpoly", number),
            mjcf.SPRINGYIELD: float(getattr(model, "tendon_springyield", (0.0,) * model.ntendon)[number]),
            mjcf.USER: model.tendon_user[number] if model.nuser_tendon else (),
        },
    )
    return tendon


def _spring_length(reading: Reading, number: int) -> tuple[float, float] | None:
    """As the file says it; -1 means the length at the reference configuration, which is None here."""
    spec = reading.spec("tendons", number)
    written = floats(spec.springlength) if spec is not None else ()
    if len(written) == 2 and written[0] == -1.0:
        return None
    low, high = floats(reading.model.tendon_lengthspring[number])
    return low, high


def _wraps(model: Any, number: int) -> range:
    first = int(model.tendon_adr[number])
    return range(first, first + int(model.tendon_num[number]))


def _path_item(reading: Reading, wrap: int) -> TendonPathItem:
    model, kinds = reading.model, mujoco().mjtWrap
    target, parameter = int(model.wrap_objid[wrap]), float(model.wrap_prm[wrap])
    match int(model.wrap_type[wrap]):
        case kinds.mjWRAP_JOINT:
            return TendonPathItem(
                kind=TendonPathKind.JOINT, target=reading.name(mjcf.JOINT, target), coefficient=parameter
            )
        case kinds.mjWRAP_PULLEY:
            return TendonPathItem(kind=TendonPathKind.PULLEY, coefficient=parameter)
        case kinds.mjWRAP_SITE:
            return TendonPathItem(kind=TendonPathKind.SITE, target=reading.name(mjcf.SITE, target))
    # a sphere or a cylinder; the parameter is the number of the side site
    side = reading.name(mjcf.SITE, round(parameter))
    return TendonPathItem(kind=TendonPathKind.WRAP, target=reading.name(mjcf.GEOM, target), side=side)


def bodies_of_tendon(model: Any, number: int) -> set[int]:
    """The bodies that a tendon's path touches."""
    kinds = mujoco().mjtWrap
    bodies: set[int] = set()
    for wrap in _wraps(model, number):
        target = int(model.wrap_objid[wrap])
        match int(model.wrap_type[wrap]):
            case kinds.mjWRAP_JOINT:
                bodies.add(int(model.jnt_bodyid[target]))
            case kinds.mjWRAP_SITE:
                bodies.add(int(model.site_bodyid[target]))
            case kinds.mjWRAP_SPHERE | kinds.mjWRAP_CYLINDER:
                bodies.add(int(model.geom_bodyid[target]))
                side = round(float(model.wrap_prm[wrap]))
                if side >= 0:
                    bodies.add(int(model.site_bodyid[side]))
    return bodies
