"""What each kind of MuJoCo's sensors looks at; `Unable` says why one cannot be simulated."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from kinema.description import (
    Box,
    Camera,
    Capsule,
    Cylinder,
    Ellipsoid,
    Frame,
    Geometry,
    Sphere,
    Tendon,
    Transmission,
)
from kinema.words import mjcf

from .find import find_joint
from .options import all_actuators
from .paths import tendon_path
from .sensor_draft import DraftReading, Looking, Place
from .tendons import tendon_moment


class Unable(Exception):
    """Why a sensor cannot be simulated, in words."""


Maker = Callable[[Looking], list[DraftReading]]
WIDTHS = {"framequat": 4, "ballquat": 4, "camprojection": 2}
"""Numbers of kinds that have not one for each axis."""
AS_SEEN = ("framepos", "framequat", "framexaxis", "frameyaxis", "framezaxis", "framelinvel", "frameangvel")
"""What may be seen from another frame."""


def found(place: Place | None, what: str) -> Place:
    """A place that there has to be."""
    if place is None:
        raise Unable(f"{what} is not there")
    return place


def _looks_at(looking: Looking) -> str:
    return f'the {looking.sensor.target_kind or "thing"} "{looking.sensor.target}" that it looks at'


def _spot(looking: Looking) -> list[DraftReading]:
    """Something about the frame that a sensor sits in."""
    kind, place = looking.sensor.kind, found(looking.target(), _looks_at(looking))
    return [DraftReading(kind, WIDTHS.get(kind, 3), place.spot, item=place.link)]


def _frame(looking: Looking) -> list[DraftReading]:
    """Likewise, perhaps as seen from another one."""
    (reading,) = _spot(looking)
    if looking.sensor.reference and looking.sensor.kind in AS_SEEN:
        reading.seen_from = found(looking.reference(), f'its reference "{looking.sensor.reference}"').spot
    return [reading]


def _joint(looking: Looking) -> list[DraftReading]:
    kind, joint = looking.sensor.kind, find_joint(looking.draft, looking.entity, looking.sensor.target)
    if joint is None:
        raise Unable(f'the joint "{looking.sensor.target}" is not simulated as a coordinate')
    ball, spherical = kind.startswith("ball"), joint.joint.n_qs == 4
    if not (spherical if ball else joint.joint.n_dofs == 1 or (spherical and "limit" in kind)):
        raise Unable(f'the joint "{looking.sensor.target}" has {joint.joint.n_dofs} degrees of freedom')
    item = joint.q_start if kind in ("jointpos", "ballquat") else joint.dof_start
    width = 4 if kind == "ballquat" else 3 if ball else 1
    return [DraftReading(kind, width, item=item)]


def _actuator(looking: Looking) -> list[DraftReading]:
    number = looking.actuator(looking.sensor.target)
    if number is None:
        raise Unable(f'the actuator "{looking.sensor.target}" is not simulated')
    return [DraftReading(looking.sensor.kind, 1, item=number)]


def _tendon(looking: Looking) -> Tendon:
    tendon = looking.tendon()
    if not isinstance(tendon, Tendon):
        raise Unable(f'there is no tendon "{looking.sensor.target}"')
    return tendon


def _tendon_length(looking: Looking) -> list[DraftReading]:
    tendon, draft = _tendon(looking), looking.draft
    if tendon.is_fixed:
        moment = tendon_moment(draft, looking.entity, tendon)
        return [DraftReading(looking.sensor.kind, 1, numbers=tuple(moment.tolist()))]
    path = tendon_path(draft, looking.entity, tendon)
    if path is None:
        raise Unable(f'the path of tendon "{tendon.name}" cannot be followed')
    return [DraftReading(looking.sensor.kind, 1, item=path)]


def _tendon_limit(looking: Looking) -> list[DraftReading]:
    number = looking.draft.rows_of_tendons.get((looking.entity, id(_tendon(looking))), -1)
    return [DraftReading(looking.sensor.kind, 1, item=number)]


def _tendon_force(looking: Looking) -> list[DraftReading]:
    tendon = _tendon(looking)
    on_it = [
        looking.actuator(a.name)
        for a in all_actuators(looking.description)
        if a.transmission is Transmission.TENDON and a.target == tendon.name
    ]
    return [DraftReading(looking.sensor.kind, 1, numbers=tuple(float(i) for i in on_it if i is not None))]


def _subtree(looking: Looking) -> list[DraftReading]:
    place = found(looking.target(), _looks_at(looking))
    return [DraftReading(looking.sensor.kind, 3, item=place.link)]


def volume_of(form: Geometry | None) -> tuple[str, tuple[float, float, float]]:
    """The kind and size of what a frame is drawn as."""
    match form:
        case Sphere():
            return "sphere", (form.radius, 0.0, 0.0)
        case Capsule() | Cylinder():
            kind = "capsule" if isinstance(form, Capsule) else "cylinder"
            return kind, (form.radius, form.length / 2, 0.0)
        case Ellipsoid():
            x, y, z = (float(v) for v in form.radii)
            return "ellipsoid", (x, y, z)
        case Box():
            x, y, z = (float(v) / 2 for v in form.size)
            return "box", (x, y, z)
    raise Unable("its frame has no volume")


def _marker(looking: Looking, name: str) -> tuple[str, tuple[float, float, float]]:
    named = looking.named("frames", name)
    if named is None or not isinstance(named[0], Frame):
        raise Unable(f'the frame "{name}" is not there')
    return volume_of(named[0].marker)


def _touch(looking: Looking) -> list[DraftReading]:
    (reading,) = _spot(looking)
    kind, size = _marker(looking, looking.sensor.target)
    reading.width, reading.words, reading.numbers, reading.positive = 1, (kind,), size, True
    return [reading]


def _inside(looking: Looking) -> list[DraftReading]:
    place = found(looking.target(), _looks_at(looking))
    around = found(looking.reference(), f'its frame "{looking.sensor.reference}"')
    kind, size = _marker(looking, looking.sensor.reference)
    return [DraftReading("insidesite", 1, place.spot, around.spot, words=(kind,), numbers=size)]


def _projection(looking: Looking) -> list[DraftReading]:
    place = found(looking.target(), _looks_at(looking))
    seen_by = found(looking.reference(), f'its camera "{looking.sensor.reference}"')
    named = looking.named("cameras", looking.sensor.reference)
    assert named is not None
    camera = named[0]
    assert isinstance(camera, Camera)
    width, height = camera.resolution or (1, 1)
    size, lens = camera.settings.get(mjcf.SENSORSIZE), camera.settings.get(mjcf.INTRINSIC)
    if camera.settings.get(mjcf.PROJECTION, "perspective") != "perspective":
        raise Unable("its camera has no perspective")
    focal = 0.5 / math.tan(camera.vertical_fov / 2) * height
    numbers = (focal, focal, 0.0, 0.0)
    if size and lens and np.any(size):
        numbers = (*(lens[i] / size[i] * (width, height)[i] for i in (0, 1)), lens[2], lens[3])
    return [DraftReading("camprojection", 2, place.spot, seen_by.spot, numbers=(*numbers, width, height))]


def _rangefinder(looking: Looking) -> list[DraftReading]:
    own = looking.sensor
    if own.target_kind != "frame" or int(own.settings.get(mjcf.DIM, 1)) != 1:
        raise Unable("only distances along one ray of a frame are simulated")
    (reading,) = _spot(looking)
    return [rays(looking, reading, np.array([[0.0, 0.0, 1.0]]), ("-1",))]


def rays(looking: Looking, reading: DraftReading, directions: np.ndarray, nothing: tuple[str, ...]) -> DraftReading:
    """Distances along rays from where a reading is; `nothing` is what is told where they hit nothing."""
    before = sum(len(d) for d in looking.directions)
    looking.directions.append(directions)
    reading.kind, reading.width, reading.positive = "rays", len(directions), True
    reading.numbers, reading.words = (3.0 * before, float(len(directions)), *reading.numbers), nothing
    return reading


CONTACT_DATA = ("found", "force", "torque", "dist", "pos", "normal", "tangent")
CONTACT_WIDTHS = (1, 3, 3, 1, 3, 3, 3)
REDUCED = ("none", "mindist", "maxforce", "netforce")


def _contact(looking: Looking) -> list[DraftReading]:
    """Contacts between two things; what is asked for of them is a bit each, in MuJoCo's order."""
    sensor = looking.sensor
    bits, how, count = (int(x) for x in (*sensor.settings.get(mjcf.INTPRM, ()), 1, 0, 1)[:3])
    spec = [name for i, name in enumerate(CONTACT_DATA) if bits >> i & 1]
    width = sum(w for i, w in enumerate(CONTACT_WIDTHS) if bits >> i & 1)
    if not 0 <= how < len(REDUCED) or (0 < how < 3 and count > 1):
        raise Unable("of the worst contacts only one is told")
    reading = DraftReading("contact", max(count, 1) * width)
    volume, size, sides = "", (0.0, 0.0, 0.0), []
    for kind, name, place, objtype in (
        (sensor.target_kind, sensor.target, looking.target(), sensor.settings.get(mjcf.OBJTYPE)),
        (sensor.reference_kind, sensor.reference, looking.reference(), sensor.settings.get(mjcf.REFTYPE)),
    ):
        if kind == "frame":
            volume, size = _marker(looking, name)
            reading.at = found(place, f'its frame "{name}"').spot
        if kind in ("", "frame"):
            sides.append("any -1 ")
        else:
            link = found(place, f'the {kind} "{name}"').link
            sides.append(f"{'shape' if kind == 'shape' else 'tree' if objtype == mjcf.XBODY else 'link'} {link} {name}")
    reading.words, reading.about = (" ".join(spec), REDUCED[how], volume), tuple(sides)
    reading.numbers = (float(max(count, 1)), *size)
    return [reading]


def _plain(looking: Looking) -> list[DraftReading]:
    return [DraftReading(looking.sensor.kind, 1, positive=looking.sensor.kind in ("clock", "e_kinetic"))]


def _user(looking: Looking) -> list[DraftReading]:
    return [DraftReading("user", int(looking.sensor.settings.get(mjcf.DIM, 1)))]


def _not_yet(looking: Looking) -> list[DraftReading]:
    raise Unable(f"a sensor of kind {looking.sensor.kind!r} is not simulated")


MJCF: dict[str, Maker] = {
    **dict.fromkeys(("gyro", "accelerometer", "velocimeter", "magnetometer", "force", "torque"), _spot),
    **dict.fromkeys((*AS_SEEN, "framelinacc", "frameangacc"), _frame),
    **dict.fromkeys(("jointpos", "jointvel", "jointactuatorfrc", "ballquat", "ballangvel"), _joint),
    **dict.fromkeys(("jointlimitpos", "jointlimitvel", "jointlimitfrc"), _joint),
    **dict.fromkeys(("actuatorpos", "actuatorvel", "actuatorfrc"), _actuator),
    **dict.fromkeys(("tendonpos", "tendonvel"), _tendon_length),
    **dict.fromkeys(("tendonlimitpos", "tendonlimitvel", "tendonlimitfrc"), _tendon_limit),
    "tendonactuatorfrc": _tendon_force,
    **dict.fromkeys(("subtreecom", "subtreelinvel", "subtreeangmom"), _subtree),
    "touch": _touch,
    "contact": _contact,
    "insidesite": _inside,
    "camprojection": _projection,
    "rangefinder": _rangefinder,
    **dict.fromkeys(("clock", "e_potential", "e_kinetic"), _plain),
    "user": _user,
    **dict.fromkeys(("distance", "normal", "fromto", "tactile", "plugin"), _not_yet),
}
"""By MJCF's words."""
