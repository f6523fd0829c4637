"""Access to a compiled MuJoCo model for the converters: unique object names, origins in the files, value conversion."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from kinema.core import Array, Diagnostics, Origin, Pose, TakenNames, XmlElement, unique_name
from kinema.description import Inertial, SolverParameters
from kinema.tokens import mjcf

from .mujoco_compiler import CompiledModel, mujoco
from .placements import Placements
from .prepare import AssetFile
from .repeated_bodies import BodyCopies, NumberedObject, RepeatedBodies

_DEFAULT_SOLREF = (0.02, 1.0)
_DEFAULT_SOLIMP = (0.9, 0.95, 0.001, 0.5, 2.0)


@dataclass(frozen=True, slots=True)
class ObjectName:
    """Name of an object, and whether it was generated."""

    text: str
    generated: bool = False


@dataclass(slots=True, eq=False)
class ModelReader:
    """Access to a compiled model during conversion: names, origins, specs and caches."""

    compiled: CompiledModel
    diagnostics: Diagnostics
    repeated: RepeatedBodies | None = None
    """Bodies that are not compiled, but copied."""
    copies: BodyCopies | None = field(init=False, default=None)
    """Numbers and names of these bodies."""
    names: dict[str, list[ObjectName]] = field(init=False)
    """Object kind (`body`, `joint`, `geom`, ...) -> names by MuJoCo's index."""
    placements: Placements = field(init=False)
    """Poses, joint axes and sizes, computed from the file."""
    inertials: dict[int, Inertial] = field(init=False, default_factory=dict)
    """Body -> inertial of the bodies read so far, without those that have none."""
    unscaled_inertials: dict[int, Inertial] = field(init=False, default_factory=dict)
    """Body -> inertial before MuJoCo scales all of them to a given total mass."""
    inverse_inertias: dict[int, dict[int, float]] = field(init=False, default_factory=dict)
    """Cache: root of a kinematic tree -> diagonal of its inverse mass matrix, by degree of freedom."""
    _spec_elements: dict[str, dict[int, Any]] = field(init=False, default_factory=dict)
    cube_map_pixels: dict[int, np.ndarray | None] = field(init=False, default_factory=dict)
    """Cache: texture index -> pixels of a cube map (see `cube_map_faces`)."""
    cube_map_mean_colors: dict[int, tuple[float, float, float] | None] = field(init=False, default_factory=dict)
    """Cache: texture index -> mean colour of a cube map."""

    def __post_init__(self) -> None:
        if self.repeated is not None:
            self.copies = BodyCopies(self.repeated, self.model)
        self.names = _object_names(self.model, self.copies)
        self.placements = Placements(self.compiled, self.spec_element)

    @property
    def model(self) -> Any:
        """The `mujoco.MjModel`."""
        return self.compiled.model

    @property
    def main_origin(self) -> Origin:
        """Origin of the root element of the main file."""
        return self.compiled.prepared.document.root.origin

    def name(self, kind: str, index: int) -> str:
        """Name of an object; empty for index -1."""
        return self.names[kind][index].text if index >= 0 else ""

    def link_name(self, body: int) -> str | None:
        """Name of the link of a body; None for the world body."""
        return self.names[mjcf.BODY][body].text if body > 0 else None

    # -- sources of compiled objects --------------------------------------------------------------------------------

    def spec_element(self, kind: str, index: int) -> Any:
        """The `MjSpec` element of an object, such as `spec_element("geoms", 3)`; None if there is none."""
        if kind not in self._spec_elements:
            # early versions of MuJoCo 3 have no id, but list elements in order
            elements = enumerate(getattr(self.compiled.spec, kind))
            self._spec_elements[kind] = {int(getattr(e, "id", i)): e for i, e in elements}
        return self._spec_elements[kind].get(index)

    def xml_element(self, kind: str, index: int) -> XmlElement | None:
        """XML element from which an object was compiled; None if unknown."""
        found = self.spec_element(kind, index)
        return None if found is None else self.compiled.text.element_at(found.info)

    def origin(self, kind: str, index: int) -> Origin:
        """Origin of an object in the files."""
        element = self.xml_element(kind, index)
        return self.main_origin if element is None else element.origin

    def asset_file(self, element: XmlElement | None) -> AssetFile | None:
        """Asset file of an XML element; None if it has none."""
        return None if element is None else self.compiled.prepared.assets.get(id(element))

    def node_arguments(self, kind: str, plural: str, index: int) -> dict[str, Any]:
        """Name and origin of an object, as keyword arguments of a `Node`."""
        name = self.names[kind][index]
        return {"name": name.text, "name_is_generated": name.generated, "origin": self.origin(plural, index)}

    # -- reporting --------------------------------------------------------------------------------------------------

    def warning(self, code: str, message: str, origin: Origin, hint: str = "") -> None:
        """Report a warning with an MJCF code."""
        self.diagnostics.warning(f"{mjcf.FORMAT}.{code}", message, hint=hint, origin=origin)

    def note(self, code: str, message: str, origin: Origin) -> None:
        """Report a note with an MJCF code."""
        self.diagnostics.note(f"{mjcf.FORMAT}.{code}", message, origin=origin)


def to_pose(position: Any, quaternion: Any) -> Pose:
    """Pose of a position and a quaternion (w, x, y, z)."""
    return Pose.from_quaternion(position, quaternion)


def solver_parameters(solref: Any, solimp: Any, margin: float = 0.0) -> SolverParameters:
    """Soft-constraint parameters (solref, solimp, margin); MuJoCo's defaults become None."""
    reference, impedance = to_floats(solref), to_floats(solimp)
    return SolverParameters(
        solref=None if reference == _DEFAULT_SOLREF else (reference[0], reference[1]),
        solimp=None if impedance == _DEFAULT_SOLIMP else impedance,  # type: ignore[arg-type]
        margin=float(margin),
    )


def to_floats(values: Any) -> tuple[float, ...]:
    """Flattened array as a tuple of floats."""
    return tuple(np.asarray(values, np.float64).ravel().tolist())


def float32_to_floats(values: Any) -> tuple[float, ...]:
    """Flattened float32 array as a tuple of floats, rounded to the 7 significant digits of single precision."""
    return tuple(float(f"{float(v):.7g}") for v in np.ravel(values))


def to_rgba(values: Any) -> tuple[float, float, float, float]:
    """RGBA colour of a float32 array."""
    red, green, blue, alpha = float32_to_floats(values)
    return red, green, blue, alpha


def enum_name(value: Any, enumeration: str) -> str:
    """MJCF keyword of an enumeration value: `mjtGain` 0 is `fixed`."""
    member = getattr(mujoco(), enumeration)(int(value)).name
    return member.split("_", 1)[1].lower()


def polynomial_coefficients(model: Any, name: str, index: int) -> tuple[float, ...]:
    """Higher-order polynomial coefficients (MuJoCo 3.6 and later); empty if all are zero."""
    table: Array | None = getattr(model, name, None)
    values = () if table is None else to_floats(table[index])
    return values if any(values) else ()


def nonempty_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings as plain Python values, without those that are empty, zero or None."""
    result: dict[str, Any] = {}
    for name, value in settings.items():
        if isinstance(value, np.ndarray):
            value = float32_to_floats(value) if value.dtype == np.float32 else to_floats(value)
        elif isinstance(value, np.generic):
            value = float32_to_floats(value)[0] if value.dtype == np.float32 else value.item()
        if isinstance(value, tuple) and not any(value):
            continue
        if value:
            result[name] = value
    return result


def store_nonempty_settings(attributes: dict[str, Any], settings: Mapping[str, Any]) -> None:
    """Store settings in the attributes of a node, without those that are empty, zero or None."""
    attributes |= {mjcf.attribute_key(name): value for name, value in nonempty_settings(settings).items()}


# -- names ------------------------------------------------------------------------------------------------------------

_BODY_INDEX_FIELDS = {
    mjcf.JOINT: "jnt_bodyid",
    mjcf.GEOM: "geom_bodyid",
    mjcf.SITE: "site_bodyid",
    mjcf.CAMERA: "cam_bodyid",
}
_OBJECT_TYPES = {
    # kind -> (mjtObj, count field of the model)
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
    """Number of actuators; since MuJoCo 3.16 an actuator may have several controls."""
    return int(getattr(model, "nactuator", model.nu))


def _object_names(model: Any, copies: BodyCopies | None) -> dict[str, list[ObjectName]]:
    """Unique names of all objects by kind; unnamed objects are named after their body or index.

    Names of the objects of copied bodies are stored with these.
    """
    mj = mujoco()
    result: dict[str, list[ObjectName]] = {}
    body_names: dict[int, str] = {}
    for kind, (object_type, counter) in _OBJECT_TYPES.items():
        count = n_actuators(model) if kind == mjcf.ACTUATOR else int(getattr(model, counter))
        object_code = int(getattr(mj.mjtObj, object_type))
        given = [mj.mj_id2name(model, object_code, i) or "" for i in range(count)]
        has_body = kind in _BODY_INDEX_FIELDS
        bodies = getattr(model, _BODY_INDEX_FIELDS[kind]).tolist() if has_body else list(range(count))
        if copies is None or not (has_body or kind == mjcf.BODY):
            objects = [NumberedObject(name, body, i) for i, (name, body) in enumerate(zip(given, bodies, strict=True))]
        else:
            objects = copies.objects(kind, given, bodies)
        names = _name_objects(kind, objects, body_names if has_body else None)
        result[kind] = [ObjectName("")] * count
        for item, name in zip(objects, names, strict=True):
            if kind == mjcf.BODY:
                body_names[item.body] = name.text
            if item.compiled >= 0:
                result[kind][item.compiled] = name
            elif copies is not None:
                copies.names[item.element] = name.text, name.generated
    return result


def _name_objects(
    kind: str, objects: Sequence[NumberedObject], body_names: Mapping[int, str] | None
) -> list[ObjectName]:
    """Unique names of the objects of a kind; `body_names` is None for objects that do not belong to a body."""
    used = TakenNames(item.given for item in objects if item.given)
    seen: Counter[int] = Counter()
    result = []
    for item in objects:
        if item.given:
            result.append(ObjectName(item.given))
            continue
        wanted = f"{kind}_{item.body}"
        if body_names is not None:
            # counting avoids quadratic time in large worlds
            seen[item.body] += 1
            suffix = f"_{seen[item.body]}" if seen[item.body] > 1 else ""
            wanted = f"{body_names[item.body]}_{kind}{suffix}"
        result.append(ObjectName(unique_name(wanted, used), generated=True))
    return result
