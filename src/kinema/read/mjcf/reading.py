"""What every converter of this package works from: the compiled model, names for everything, and places."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from kinema.description import SolverParameters
from kinema.foundation import Array, Diagnostics, Origin, Pose, unique_name
from kinema.read.xml_text import XmlElement
from kinema.words import mjcf

from .engine import mujoco
from .load import Compiled
from .prepare import Asset

_DEFAULT_SOLREF = (0.02, 1.0)
_DEFAULT_SOLIMP = (0.9, 0.95, 0.001, 0.5, 2.0)


@dataclass(frozen=True, slots=True)
class Name:
    """What an object is called, and whether the file or we named it."""

    text: str
    generated: bool = False


@dataclass(slots=True, eq=False)
class Reading:
    """A compiled model being turned into a description."""

    compiled: Compiled
    diagnostics: Diagnostics
    names: dict[str, list[Name]] = field(init=False)
    """Kind (`body`, `joint`, `geom`, ...) -> the name of each object, by MuJoCo's number."""
    _spec: dict[str, dict[int, Any]] = field(init=False, default_factory=dict)
    cubes: dict[int, np.ndarray | None] = field(init=False, default_factory=dict)
    """The pixels of textures of six sides, by MuJoCo's number (see `cube_sides`)."""
    means: dict[int, tuple[float, float, float] | None] = field(init=False, default_factory=dict)
    """Their mean colours."""

    def __post_init__(self) -> None:
        self.names = _all_names(self.model)

    @property
    def model(self) -> Any:
        """The `mujoco.MjModel`."""
        return self.compiled.model

    @property
    def main_origin(self) -> Origin:
        """The main file's root."""
        return self.compiled.prepared.document.root.origin

    def name(self, kind: str, number: int) -> str:
        """What an object is called; empty for number -1."""
        return self.names[kind][number].text if number >= 0 else ""

    def link(self, body: int) -> str | None:
        """The link that stands for a body; None for the world."""
        return self.names[mjcf.BODY][body].text if body > 0 else None

    # -- from compiled objects back to the file ---------------------------------------------------------------------

    def spec(self, kind: str, number: int) -> Any:
        """The `MjSpec` element of an object, such as `spec("geoms", 3)`; None where there is none."""
        if kind not in self._spec:
            # the first versions of MuJoCo 3 do not tell the number, but list elements in its order
            elements = enumerate(getattr(self.compiled.spec, kind))
            self._spec[kind] = {int(getattr(e, "id", i)): e for i, e in elements}
        return self._spec[kind].get(number)

    def element(self, kind: str, number: int) -> XmlElement | None:
        """The XML element an object was made by."""
        found = self.spec(kind, number)
        return None if found is None else self.compiled.text.element_at(found.info)

    def origin(self, kind: str, number: int) -> Origin:
        """Where an object stands in the files."""
        element = self.element(kind, number)
        return self.main_origin if element is None else element.origin

    def asset(self, element: XmlElement | None) -> Asset | None:
        """The file an element refers to."""
        return None if element is None else self.compiled.prepared.assets.get(id(element))

    def node(self, kind: str, plural: str, number: int) -> dict[str, Any]:
        """Name and origin, as arguments of any `Node`."""
        name = self.names[kind][number]
        return {"name": name.text, "name_is_generated": name.generated, "origin": self.origin(plural, number)}

    # -- reporting --------------------------------------------------------------------------------------------------

    def warning(self, code: str, message: str, origin: Origin, hint: str = "") -> None:
        """Report an approximation or a loss."""
        self.diagnostics.warning(f"{mjcf.FORMAT}.{code}", message, hint=hint, origin=origin)

    def note(self, code: str, message: str, origin: Origin) -> None:
        """Report what was done."""
        self.diagnostics.note(f"{mjcf.FORMAT}.{code}", message, origin=origin)


def pose_of(position: Any, quaternion: Any) -> Pose:
    """The pose of MuJoCo's position and quaternion (w, x, y, z)."""
    return Pose.from_quaternion(position, quaternion)


def solver_parameters(solref: Any, solimp: Any, margin: float = 0.0) -> SolverParameters:
    """Soft-constraint parameters; what equals MuJoCo's default is left to the default."""
    reference, impedance = floats(solref), floats(solimp)
    return SolverParameters(
        solref=None if reference == _DEFAULT_SOLREF else (reference[0], reference[1]),
        solimp=None if impedance == _DEFAULT_SOLIMP else impedance,  # type: ignore[arg-type]
        margin=float(margin),
    )


def floats(values: Any) -> tuple[float, ...]:
    """An array of MuJoCo's as plain numbers."""
    return tuple(float(v) for v in np.ravel(values))


def short_floats(values: Any) -> tuple[float, ...]:
    """The same, of 32-bit numbers: rounded to the decimals that such a number can hold, which are those written."""
    return tuple(float(f"{float(v):.7g}") for v in np.ravel(values))


def rgba(values: Any) -> tuple[float, float, float, float]:
    """A colour."""
    red, green, blue, alpha = short_floats(values)
    return red, green, blue, alpha


def word(value: Any, enumeration: str) -> str:
    """An enumeration's value in MJCF's word: `mjtGain` 0 is `fixed`."""
    member = getattr(mujoco(), enumeration)(int(value)).name
    return member.split("_", 1)[1].lower()


def polynomial(model: Any, name: str, number: int) -> tuple[float, ...]:
    """Coefficients of higher order (MuJoCo 3.6 and later); empty where all are zero."""
    table: Array | None = getattr(model, name, None)
    values = () if table is None else floats(table[number])
    return values if any(values) else ()


def given(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings as plain values, without those that are empty, zero or None."""
    result: dict[str, Any] = {}
    for name, value in settings.items():
        if isinstance(value, np.ndarray):
            value = short_floats(value) if value.dtype == np.float32 else floats(value)
        elif isinstance(value, np.generic):
            value = short_floats(value)[0] if value.dtype == np.float32 else value.item()
        if isinstance(value, tuple) and not any(value):
            continue
        if value:
            result[name] = value
    return result


def set_given(attributes: dict[str, Any], settings: Mapping[str, Any]) -> None:
    """Keep settings among the attributes of a node; those that are empty, zero or None are left out."""
    attributes |= {mjcf.key(name): value for name, value in given(settings).items()}


# -- names ------------------------------------------------------------------------------------------------------------

_ON_BODIES = {mjcf.JOINT: "jnt_bodyid", mjcf.GEOM: "geom_bodyid", mjcf.SITE: "site_bodyid", mjcf.CAMERA: "cam_bodyid"}
_KINDS = {
    # kind -> (mjtObj, the model's count)
    mjcf.BODY: ("mjOBJ_BODY", "nbody"),
    mjcf.JOINT: ("mjOBJ_JOINT", "njnt"),
    mjcf.GEOM: ("mjOBJ_GEOM", "ngeom"),
    mjcf.SITE: ("mjOBJ_SITE", "nsite"),
    mjcf.CAMERA: ("mjOBJ_CAMERA", "ncam"),
    mjcf.LIGHT: ("mjOBJ_LIGHT", "nlight"),
    mjcf.MESH: ("mjOBJ_MESH", "nmesh"),
    mjcf.HFIELD: ("mjOBJ_HFIELD", "nhfield"),
    mjcf.MATERIAL: ("mjOBJ_MATERIAL", "nmat"),
    mjcf.TEXTURE: ("mjOBJ_TEXTURE", "ntex"),
    mjcf.FLEX: ("mjOBJ_FLEX", "nflex"),
    mjcf.TENDON: ("mjOBJ_TENDON", "ntendon"),
    mjcf.EQUALITY: ("mjOBJ_EQUALITY", "neq"),
    mjcf.ACTUATOR: ("mjOBJ_ACTUATOR", "nactuator"),
    mjcf.SENSOR: ("mjOBJ_SENSOR", "nsensor"),
    mjcf.KEY: ("mjOBJ_KEY", "nkey"),
}


def n_actuators(model: Any) -> int:
    """Number of actuators; one may have several controls since MuJoCo 3.16."""
    return int(getattr(model, "nactuator", model.nu))


def _all_names(model: Any) -> dict[str, list[Name]]:
    """A name for every object, unique among its kind; what has none is called after its body or its number."""
    mj = mujoco()
    result: dict[str, list[Name]] = {}
    for kind, (object_type, counter) in _KINDS.items():
        count = n_actuators(model) if kind == mjcf.ACTUATOR else int(getattr(model, counter))
        number_of_type = int(getattr(mj.mjtObj, object_type))
        given = [mj.mj_id2name(model, number_of_type, i) or "" for i in range(count)]
        taken = {name for name in given if name}
        bodies = getattr(model, _ON_BODIES[kind]) if kind in _ON_BODIES else None
        seen: Counter[int] = Counter()
        result[kind] = []
        for i, name in enumerate(given):
            if name:
                result[kind].append(Name(name))
                continue
            wanted = f"{kind}_{i}"
            if bodies is not None:
                # counted, because trying one name after the other would take long in a large world
                seen[bodies[i]] += 1
                suffix = f"_{seen[bodies[i]]}" if seen[bodies[i]] > 1 else ""
                wanted = f"{result[mjcf.BODY][bodies[i]].text}_{kind}{suffix}"
            result[kind].append(Name(unique_name(wanted, taken), generated=True))
    return result
