"""`<include>`: finds the file, reads it once, and gives back its model, light or actor with the overrides applied."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

from kinema.description import Extra
from kinema.foundation import Diagnostics, ReadError

from ..cursor import Cursor
from ..resolve import Resolver
from ..source import read_bytes
from ..xml_text import XmlElement, parse_xml
from .builtin import BUILTIN
from .context import MAX_MODEL_DEPTH, Context, keep, optional_flag, pose_of
from .elements import LightElement, Member, ModelElement, PoseElement, RootElement
from .version import NEWEST, parse_version

MAX_INCLUDE_DEPTH = 32
"""How many files may include one another in a row."""
MAX_SIZE = 10_000
"""How many links, joints, frames and models may be included in all."""

Included = ModelElement | LightElement | Extra
"""An actor is kept as an extra."""


@dataclass(slots=True, eq=False)
class Library:
    """The files that were included so far, each parsed once."""

    resolver: Resolver
    diagnostics: Diagnostics
    parse: Callable[[XmlElement, Library, Diagnostics], RootElement]
    open_files: list[Path] = field(default_factory=list)
    """The files being read, each included by the one before."""
    roots: dict[str, RootElement | None] = field(default_factory=dict)
    is_full: bool = False

    def admits(self, size: int, member: Member, cursor: Cursor, context: Context) -> bool:
        """Whether something may be added to a model or world of that size; included models add up quickly."""
        if cursor.tag != "include" or not isinstance(member, ModelElement):
            return True
        if context.depth + member.height > MAX_MODEL_DEPTH:
            problem = f'model "{member.name}" makes models nested more than {MAX_MODEL_DEPTH} deep and is left out'
            cursor.error("nested-too-deep", problem)
            return False
        if size + member.size <= MAX_SIZE:
            return True
        if not self.is_full:
            problem = f"includes add up to more than {MAX_SIZE} links, joints and frames; the rest is left out"
            cursor.error("too-many-includes", problem)
        self.is_full = True
        return False

    def include(self, cursor: Cursor, context: Context) -> Included | None:
        """What an `<include>` stands for; None, with an error, where there is nothing to be had."""
        uri = cursor.child_text("uri").strip()
        if not uri:
            cursor.error("include-not-found", "<include> has no <uri>")
            return None
        try:
            root = self._load(cursor, uri)
        except OSError as error:  # a folder that may not be looked into
            cursor.error("include-unreadable", f"<include> of {uri!r}: {error.strerror or error}")
            return None
        if root is None:
            return None
        entities: list[Included] = [*root.models, *root.lights, *root.actors]
        if not entities:
            cursor.error("include-content", f"{uri!r} holds no model, light or actor to include")
            return None
        if len(entities) > 1:
            cursor.error("include-content", f"{uri!r} holds {len(entities)} models, lights or actors; the first counts")
        return _overridden(entities[0], cursor, context)

    def _load(self, cursor: Cursor, uri: str) -> RootElement | None:
        found = self.resolver.resolve(uri, cursor.origin.file)
        if found.path is None:
            builtin = BUILTIN.get(uri.removeprefix("model://").strip("/"))
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
            return self._parse_once(cursor, str(path), lambda: parse_xml(read_bytes(path), str(path)))
        finally:
            self.open_files.pop()

    def _parse_once(self, cursor: Cursor, key: str, open_document: Callable[[], XmlElement]) -> RootElement | None:
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
        """The file that a model's folder names in its `model.config`: the one with the newest version we read."""
        config = next((folder / n for n in ("model.config", "manifest.xml") if (folder / n).is_file()), None)
        if config is None:
            cursor.error("include-not-found", f"the folder {folder.name!r} has no model.config", "name a file in it")
            return None
        try:
            manifest = parse_xml(read_bytes(config), str(config))
        except ReadError as error:
            cursor.error("include-unreadable", f"<include>: {error}")
            return None
        choice = _newest_supported(manifest)
        if choice is None:
            cursor.error("include-not-found", f"{config.name} of {folder.name!r} names no file that can be read")
            return None
        found = self.resolver.resolve(choice.text, config)
        if found.path is None or not found.path.is_file():
            reason = found.reason or "it is not a file"
            cursor.error("include-not-found", f"{config.name} of {folder.name!r} names {choice.text!r}: {reason}")
            return None
        return found.path


def _newest_supported(manifest: XmlElement) -> XmlElement | None:
    """The `<sdf>` entry with the highest version up to ours; without any, one that is too new."""
    entries = [e for e in manifest.children if e.tag == "sdf" and e.text]
    versions = {id(e): parse_version(e.attributes.get("version")) or NEWEST for e in entries}
    supported = [e for e in entries if versions[id(e)] <= NEWEST]
    if supported:
        return max(supported, key=lambda e: versions[id(e)])
    return min(entries, key=lambda e: versions[id(e)], default=None)


def _overridden(entity: Included, cursor: Cursor, context: Context) -> Included:
    """The included thing with the name, pose, ... that the `<include>` gives it; the original stays as it is."""
    merge = cursor.flag(cursor.text_of("merge"), False)
    name, static = cursor.child_text("name").strip(), optional_flag(cursor, "static")
    pose_cursor, placement = cursor.child("pose"), cursor.child_text("placement_frame").strip()
    pose = None if pose_cursor is None else pose_of(pose_cursor, context)
    extras = keep(cursor, "plugin")
    extras += keep(cursor, "model_state", why="the state is that of a simulation in progress")
    extras += context.finish(cursor)
    if isinstance(entity, Extra):
        return entity
    changes: dict[str, object] = {"extras": [*entity.extras, *extras]}
    if name:
        changes |= {"name": name, "name_is_generated": False}
    if pose is not None:
        changes["pose"] = pose
    if isinstance(entity, ModelElement):
        changes |= _model_changes(entity, cursor, static, placement, pose)
        if merge:
            changes["merged"] = True
    return replace(entity, **changes)  # type: ignore[arg-type]


def _model_changes(
    model: ModelElement, cursor: Cursor, static: bool | None, placement: str, pose: PoseElement | None
) -> dict[str, object]:
    changes: dict[str, object] = {}
    if static is not None:
        changes["static"] = static
    if placement:
        changes["placement_frame"] = placement
        if pose is None:
            problem = f'<include> of model "{model.name}" has a <placement_frame> but no <pose>'
            cursor.error("placement-frame", problem, "the identity is assumed")
            changes["pose"] = PoseElement(origin=cursor.origin)
    return changes
