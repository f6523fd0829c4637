"""Parsing context of SDFormat elements: version, included files; names, numbers, poses and unread content."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from kinema.core import Array, Diagnostics, Pose, ReadError, XmlElement, float64_array, parse_xml
from kinema.description import Extra
from kinema.tokens import sdf

from ..cursor import Cursor
from ..resolve import Resolver, read_bytes
from ..xml_repair import parse_xml_tolerant
from .elements import NEWEST_VERSION, SCOPE_DELIMITER, WORLD_FRAME, PoseElement, RootElement, Version, parse_version

# -- substitutes for models of the Gazebo library ----------------------------------------------------------------------

_SUN_SDF = """<sdf version="1.9">
  <light type="directional" name="sun">
    <pose>0 0 10 0 0 0</pose>
    <direction>-0.5 0.1 -0.9</direction>
    <diffuse>0.8 0.8 0.8 1</diffuse>
    <cast_shadows>true</cast_shadows>
  </light>
</sdf>"""

_GROUND_PLANE_SDF = """<sdf version="1.9">
  <model name="ground_plane">
    <static>true</static>
    <link name="link">
      <inertial><mass>1</mass><inertia/></inertial>
      <collision name="collision"><geometry><plane><size>100 100</size></plane></geometry></collision>
      <visual name="visual"><geometry><plane><size>100 100</size></plane></geometry></visual>
    </link>
  </model>
</sdf>"""

BUILTIN_MODELS = {"sun": _SUN_SDF, "ground_plane": _GROUND_PLANE_SDF}
"""Model name -> SDFormat text, for models that old Gazebo worlds include without shipping them."""


# -- included files ----------------------------------------------------------------------------------------------------

MAX_INCLUDE_DEPTH = 32
"""Maximum length of a chain of includes."""


@dataclass(slots=True, eq=False)
class IncludeLibrary:
    """Included files, each resolved and parsed once."""

    resolver: Resolver
    diagnostics: Diagnostics
    parse: Callable[[XmlElement, IncludeLibrary, Diagnostics], RootElement]
    open_files: list[Path] = field(default_factory=list)
    """Files being parsed, each included by the previous one."""
    roots: dict[str, RootElement | None] = field(default_factory=dict)
    limit_was_reported: bool = False
    """Whether the size limit of includes was reported."""

    def load_include(self, cursor: Cursor, uri: str) -> RootElement | None:
        """Parsed document of an include; None with an error if it is unavailable."""
        found = self.resolver.resolve(uri, cursor.origin.file)
        if found.path is None:
            builtin = BUILTIN_MODELS.get(uri.removeprefix("model://").strip("/"))
            if builtin is None:
                hint = "give the folder that holds it as a search path"
                cursor.error("include-not-found", f"<include> of {uri!r}: {found.reason}", hint)
                return None
            cursor.warning("builtin-model", f"{uri!r} was not found; a built-in model of that name stands in for it")
            return self._parse_once(cursor, f"builtin:{uri}", lambda: parse_xml(builtin.encode(), f"<built-in {uri}>"))
        path = found.path
        if path.is_dir():
            file = self._model_file(path, cursor)
            if file is None:
                return None
            path = file
        return self._load_file(cursor, path, uri)

    def _load_file(self, cursor: Cursor, path: Path, uri: str) -> RootElement | None:
        """Parsed document of a file; None with an error for circular or too deep includes."""
        if path in self.open_files:
            chain = " includes ".join(p.name for p in [*self.open_files[self.open_files.index(path) :], path])
            cursor.error("circular-include", f"<include> of {uri!r} runs in a circle: {chain}", "it is left out")
            return None
        if len(self.open_files) >= MAX_INCLUDE_DEPTH:
            problem = f"<include> of {uri!r}: files include one another more than {MAX_INCLUDE_DEPTH} deep"
            cursor.error("include-too-deep", problem, "it is left out")
            return None
        self.open_files.append(path)
        try:
            return self._parse_once(cursor, str(path), lambda: self._parse_file(path))
        finally:
            self.open_files.pop()

    def _parse_file(self, path: Path) -> XmlElement:
        return parse_xml_tolerant(read_bytes(path), str(path), self.diagnostics, "sdf")

    def _parse_once(self, cursor: Cursor, key: str, open_document: Callable[[], XmlElement]) -> RootElement | None:
        """Parsed document, cached by key; None with an error if it is unreadable."""
        if key in self.roots:
            return self.roots[key]
        root = None
        try:
            element = open_document()
            if element.tag == "robot":
                hint = "convert it to SDFormat first"
                cursor.error("include-urdf", f"<include> of {Path(key).name}: URDF inside SDFormat is not read", hint)
            else:
                root = self.parse(element, self, self.diagnostics)
        except ReadError as error:
            cursor.error("include-unreadable", f"<include>: {error}", "it is left out")
        self.roots[key] = root
        return root

    def _model_file(self, folder: Path, cursor: Cursor) -> Path | None:
        """SDFormat file named in the `model.config` of a model folder: the newest supported version."""
        config = next((folder / n for n in ("model.config", "manifest.xml") if (folder / n).is_file()), None)
        if config is None:
            cursor.error("include-not-found", f"the folder {folder.name!r} has no model.config", "name a file in it")
            return None
        try:
            manifest = self._parse_file(config)
        except ReadError as error:
            cursor.error("include-unreadable", f"<include>: {error}")
            return None
        choice = _newest_supported_entry(manifest)
        if choice is None:
            cursor.error("include-not-found", f"{config.name} of {folder.name!r} names no file that can be read")
            return None
        found = self.resolver.resolve(choice.text, config)
        if found.path is None or not found.path.is_file():
            reason = found.reason or "it is not a file"
            cursor.error("include-not-found", f"{config.name} of {folder.name!r} names {choice.text!r}: {reason}")
            return None
        return found.path


def _newest_supported_entry(manifest: XmlElement) -> XmlElement | None:
    """The `<sdf>` entry with the newest supported version; otherwise the oldest unsupported one."""
    entries = [e for e in manifest.children if e.tag == sdf.FORMAT and e.text]
    versions = {id(e): parse_version(e.attributes.get("version")) or NEWEST_VERSION for e in entries}
    supported = [e for e in entries if versions[id(e)] <= NEWEST_VERSION]
    if supported:
        return max(supported, key=lambda e: versions[id(e)])
    return min(entries, key=lambda e: versions[id(e)], default=None)


# -- parsing context ---------------------------------------------------------------------------------------------------

MAX_MODEL_DEPTH = 64
"""Maximum nesting of models; real files stay below ten."""


@dataclass(frozen=True, slots=True)
class ParseContext:
    """Context of an element: version, include library and nesting depth."""

    version: Version
    library: IncludeLibrary
    depth: int = 0
    """Number of enclosing models."""
    pending_extras: list[Extra] = field(default_factory=list)
    """Unread content of unnamed elements (pose, shape), passed to the next enclosing named element."""

    def nested(self) -> ParseContext:
        """Context inside of one more model."""
        return replace(self, depth=self.depth + 1)

    def defer_unread(self, cursor: Cursor) -> None:
        """Pass the unread content of an unnamed element to the enclosing named element."""
        self.pending_extras.extend(collect_unread_extras(cursor))

    def collect_unread(self, cursor: Cursor) -> list[Extra]:
        """Unread content of a named element, including that of its unnamed children."""
        extras = [*self.pending_extras, *collect_unread_extras(cursor)]
        self.pending_extras.clear()
        return extras


# -- unread content ----------------------------------------------------------------------------------------------------


def keep_verbatim(
    cursor: Cursor, *tags: str, reason: str = "it has no meaning outside of its simulator"
) -> list[Extra]:
    """Known children without counterpart in the description, preserved verbatim with a note each."""
    extras: list[Extra] = []
    for child in cursor.children(*tags):
        extras.append(to_extra(child))
        name = child.element.attributes.get("name")
        what = f'<{child.tag}> "{name}"' if name else f"<{child.tag}>"
        child.note("kept", f"{what} of {element_label(cursor)} is kept as it is: {reason}")
    return extras


def to_extra(cursor: Cursor) -> Extra:
    """The element preserved verbatim."""
    return Extra(sdf.FORMAT, cursor.tag, cursor.element.verbatim, cursor.origin)


def collect_unread_extras(cursor: Cursor) -> list[Extra]:
    """Unread content preserved verbatim: custom elements with a note, unknown ones with a warning."""
    for name, meaning in sdf.KINEMA_NAMESPACE.items():
        if cursor.element.attributes.get(name) == meaning:
            cursor.accessed.add(f"@{name}")  # its content was read
    custom = [c.tag for c in cursor.element.children if ":" in c.tag and c.tag not in cursor.accessed]
    custom += [f"@{a}" for a in cursor.element.attributes if ":" in a]
    for tag in dict.fromkeys(c for c in custom if not c.startswith("@xmlns")):
        cursor.note(
            "custom-element", f"{tag!r} in {element_label(cursor)} is an extension of some program and is kept as it is"
        )
    return cursor.collect_unread(without_warning=custom)


def element_label(cursor: Cursor) -> str:
    """Label of an element for messages: `joint "elbow"`, or `<limit>` without a name."""
    name = cursor.element.attributes.get("name")
    return f'{cursor.tag} "{name}"' if name else f"<{cursor.tag}>"


# -- names -------------------------------------------------------------------------------------------------------------


def parse_name(cursor: Cursor, context: ParseContext) -> tuple[str, bool]:
    """Name of an element and whether it is generated; reserved and scoped names are reported."""
    text = cursor.attribute_text("name")
    if text is None or not text.strip():
        cursor.error("missing-name", f"<{cursor.tag}> has no name", f"{cursor.tag!r} is assumed")
        return cursor.tag, True
    name = text.strip()
    if is_reserved_name(name):
        hint = "names such as 'world' and '__model__' stand for frames of the format itself"
        report = cursor.error if context.version.names_are_unique_among_siblings else cursor.warning
        report("reserved-name", f"<{cursor.tag}> is called {name!r}, which is a reserved name", hint)
    if SCOPE_DELIMITER in name and context.version.scopes_are_closed:
        hint = f"since SDFormat 1.8 {SCOPE_DELIMITER!r} only stands between the names of nested models"
        cursor.error("scoped-name", f"{element_label(cursor)} has {SCOPE_DELIMITER!r} in its name", hint)
    return name, False


def is_reserved_name(name: str) -> bool:
    """Whether a name is reserved by the format."""
    return name == WORLD_FRAME or (len(name) >= 4 and name.startswith("__") and name.endswith("__"))


# -- values ------------------------------------------------------------------------------------------------------------


def child_float(cursor: Cursor, tag: str, default: float, *, must_be_finite: bool = True) -> float:
    """Number of a child; the default if the child is absent or empty."""
    child = cursor.child(tag)
    return default if child is None else parse_number(child, default, must_be_finite=must_be_finite)


def optional_float(cursor: Cursor, tag: str) -> float | None:
    """Number of a child, or None without such a child."""
    child = cursor.child(tag)
    return None if child is None else parse_number(child, 0.0)


def parse_number(cursor: Cursor, default: float, *, must_be_finite: bool = True) -> float:
    """Text of an element as a number; NaN, and infinity if `must_be_finite`, is an error."""
    if not cursor.text:
        return default
    value = cursor.text_as_float(default)
    if math.isnan(value) or (must_be_finite and math.isinf(value)):
        cursor.error(
            "not-finite", f"<{cursor.tag}>: {cursor.text[:40]!r} is not a usable number", f"{default:g} is assumed"
        )
        return default
    return value


def child_floats(cursor: Cursor, tag: str, default: Sequence[float]) -> Array:
    """Finite numbers of a child; the default if the child is absent or empty."""
    child = cursor.child(tag)
    return float64_array(default) if child is None else parse_numbers(child, default)


def parse_numbers(cursor: Cursor, default: Sequence[float]) -> Array:
    """Text of an element as finite numbers, as many as the default has."""
    if not cursor.text:
        return float64_array(default)
    values = cursor.text_as_floats(default)
    if not np.isfinite(values).all():
        assumed = " ".join(f"{d:g}" for d in default)
        cursor.error("not-finite", f"<{cursor.tag}>: {cursor.text[:60]!r} has no finite value", f"{assumed} is assumed")
        return float64_array(default)
    return values


def child_color(cursor: Cursor, tag: str) -> tuple[float, float, float, float] | None:
    """RGBA colour of a child; alpha is optional. None if absent."""
    child = cursor.child(tag)
    if child is None or not child.text:
        return None
    values = parse_numbers(child, (0.0, 0.0, 0.0, 1.0) if len(child.text.split()) != 3 else (0.0, 0.0, 0.0)).tolist()
    return (values[0], values[1], values[2], values[3] if len(values) == 4 else 1.0)


def child_integer(cursor: Cursor, tag: str) -> int | None:
    """Integer of a child, decimal or `0x...`; None if absent or malformed."""
    child = cursor.child(tag)
    if child is None or not child.text:
        return None
    text = child.text.lower()
    try:
        if len(text) <= 20 and text.isascii() and "_" not in text:
            return int(text, 16) if text.startswith("0x") else int(text)
    except ValueError:
        pass
    child.error(
        "not-a-number",
        f"<{tag}> of {element_label(cursor)}: {child.text[:40]!r} is not a whole number",
        "it is left out",
    )
    return None


def optional_flag(cursor: Cursor, tag: str) -> bool | None:
    """Boolean of a child, or None without such a child."""
    child = cursor.child(tag)
    return None if child is None or not child.text else child.parse_flag(child.text, False)


def child_settings(
    cursor: Cursor, *, numbers: Sequence[str] = (), flags: Sequence[str] = (), texts: Sequence[str] = ()
) -> dict[str, Any]:
    """Tag -> plain value of the given children that are present."""
    found: dict[str, Any] = {}
    for tag in numbers:
        value = optional_float(cursor, tag)
        if value is not None:
            found[tag] = value
    for tag in flags:
        flag = optional_flag(cursor, tag)
        if flag is not None:
            found[tag] = flag
    for tag in texts:
        child = cursor.child(tag)
        if child is not None:
            found[tag] = child.text
    return found


_MAX_PLAIN_TREE_DEPTH = 24


def to_plain_tree(element: XmlElement, depth: int = 0) -> Any:
    """Element as plain values: its text, or a dict of attributes (`@name`) and children (lists if repeated)."""
    if depth > _MAX_PLAIN_TREE_DEPTH:
        return element.verbatim
    if not element.children and not element.attributes:
        return element.text
    tree: dict[str, Any] = {f"@{name}": text for name, text in element.attributes.items()}
    if element.text:
        tree["text"] = element.text
    by_tag: dict[str, list[Any]] = {}
    for child in element.children:
        by_tag.setdefault(child.tag, []).append(to_plain_tree(child, depth + 1))
    tree.update({tag: values[0] if len(values) == 1 else values for tag, values in by_tag.items()})
    return tree


# -- poses -------------------------------------------------------------------------------------------------------------


def parse_child_pose(cursor: Cursor, context: ParseContext) -> PoseElement:
    """The `<pose>` of an element; identity if absent."""
    child = cursor.child("pose")
    return PoseElement(origin=cursor.origin) if child is None else parse_pose(child, context)


def parse_header(cursor: Cursor, context: ParseContext) -> dict[str, Any]:
    """Fields that all named elements with a pose have in common."""
    name, generated = parse_name(cursor, context)
    pose = parse_child_pose(cursor, context)
    return {"name": name, "name_is_generated": generated, "origin": cursor.origin, "pose": pose}


def parse_pose(cursor: Cursor, context: ParseContext) -> PoseElement:
    """Parse `<pose>`: position with Euler angles or quaternion, and the reference frame."""
    relative_to = (cursor.attribute_text("relative_to") or "").strip()
    if context.version.poses_name_a_frame:
        relative_to = relative_to or (cursor.attribute_text("frame") or "").strip()
    layout = (cursor.attribute_text("rotation_format") or "euler_rpy").strip()
    degrees = cursor.parse_flag(cursor.attribute_text("degrees"), False)
    context.defer_unread(cursor)
    if layout == "quat_xyzw":
        pose = _parse_quaternion_pose(cursor, degrees)
    else:
        if layout != "euler_rpy":
            hint = "known are euler_rpy and quat_xyzw; euler_rpy is assumed"
            cursor.error("rotation-format", f"{layout[:40]!r} is not a rotation format", hint)
        x, y, z, *angles = parse_numbers(cursor, (0.0,) * 6).tolist()
        pose = Pose.from_rpy((x, y, z), np.radians(angles) if degrees else angles)
    return PoseElement(pose=pose, relative_to=relative_to, origin=cursor.origin)


def _parse_quaternion_pose(cursor: Cursor, degrees: bool) -> Pose:
    """Pose with a quaternion (x, y, z, w); a zero quaternion is an error."""
    if degrees:
        cursor.error("rotation-format", "a pose with a quaternion cannot be in degrees", "remove the attribute")
    x, y, z, *q = parse_numbers(cursor, (0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0)).tolist()
    if not any(q):
        cursor.error("rotation-format", "the quaternion of a pose is zero", "no rotation is assumed")
        q = [0.0, 0.0, 0.0, 1.0]
    return Pose.from_quaternion((x, y, z), (q[3], q[0], q[1], q[2]))
