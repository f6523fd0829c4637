"""XML documents of an MJCF model: the main file with its includes expanded, and the models that it attaches.

MuJoCo itself never opens a file. `<include>` elements are expanded here, so every element keeps the file and line of
its origin, which MuJoCo's own expansion would lose.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from kinema.core import MAX_XML_BYTES, MAX_XML_ELEMENTS, Diagnostics, ReadError, XmlElement
from kinema.tokens import mjcf

from ..resolve import Resolved, Resolver, read_bytes
from ..xml_repair import parse_xml_tolerant

MAX_INCLUDE_DEPTH = 40
MAX_MODELS = 200

_MODEL_ROOT = mjcf.ROOT
_FRAGMENT_ROOT = "mujocoinclude"


@dataclass(slots=True, eq=False)
class AssetDirectories:
    """Asset directories of a model given by its `<compiler>` elements; the last value counts."""

    mesh: str = ""
    texture: str = ""
    strip_path: bool = False


@dataclass(slots=True, eq=False)
class ModelDocument:
    """An MJCF model: file, XML tree with includes expanded, and the models that it attaches."""

    file: Path
    root: XmlElement
    directories: AssetDirectories = field(default_factory=AssetDirectories)
    attached_models: dict[int, ModelDocument] = field(default_factory=dict)
    """`id` of an `<asset><model>` element -> the attached model."""

    def all_documents(self) -> list[ModelDocument]:
        """This model and all transitively attached models, each once, this one first."""
        found: dict[int, ModelDocument] = {}
        stack: list[ModelDocument] = [self]
        while stack:
            document = stack.pop()
            if id(document) not in found:
                found[id(document)] = document
                stack.extend(document.attached_models.values())
        return list(found.values())


def load_document(file: Path, resolver: Resolver, diagnostics: Diagnostics) -> ModelDocument:
    """Load an MJCF file with includes and attached models; raises `ReadError` if it is unreadable."""
    return _DocumentLoader(resolver, diagnostics).load_document(file, read_bytes(file), ())


@dataclass(slots=True, eq=False)
class _DocumentLoader:
    resolver: Resolver
    diagnostics: Diagnostics
    n_bytes: int = 0
    n_elements: int = 0
    loaded_models: dict[Path, ModelDocument] = field(default_factory=dict)
    """File -> loaded model, so that a model attached twice is read once."""

    def load_document(self, file: Path, data: bytes, attaching_files: tuple[Path, ...]) -> ModelDocument:
        """Load the model in a file; `attaching_files` are the files of the attaching models (cycle check)."""
        root = self._parse(data, str(file))
        _check_root(root)
        document = ModelDocument(file, root)
        self._expand_includes(root, document, (_realpath(file),), {_realpath(file)})
        document.directories = _asset_directories(root)
        self._load_attached_models(document, (*attaching_files, _realpath(file)))
        return document

    def _parse(self, data: bytes, file: str) -> XmlElement:
        root = parse_xml_tolerant(data, file, self.diagnostics, "mjcf")
        self.n_bytes += len(data)
        self.n_elements += sum(1 for _ in root.iterate())
        if self.n_bytes > MAX_XML_BYTES or self.n_elements > MAX_XML_ELEMENTS:
            raise ReadError(f"{file}: the model and its includes have too many elements ({self.n_elements})")
        return root

    # -- includes -------------------------------------------------------------------------------------------------

    def _expand_includes(
        self, element: XmlElement, document: ModelDocument, stack: tuple[Path, ...], included: set[Path]
    ) -> None:
        """Replace every `<include>` below an element by the included elements, in place."""
        todo = [element]
        while todo:
            current = todo.pop()
            children: list[XmlElement] = []
            for child in current.children:
                if child.tag == "include":
                    children += self._included_elements(child, document, stack, included)
                else:
                    children.append(child)
                    todo.append(child)
            current.children = children

    def _included_elements(
        self, element: XmlElement, document: ModelDocument, stack: tuple[Path, ...], included: set[Path]
    ) -> list[XmlElement]:
        """Elements of an included file with nested includes expanded; empty with an error if unreadable."""
        uri = element.attributes.get("file", "")
        found = self._find(uri, document, element)
        if found.path is None:
            self._error("missing-include", f"the included file {uri!r} cannot be read: {found.reason}", element)
            return []
        path = _realpath(found.path)
        if path in stack:
            raise ReadError(f"{element.origin}: the include of {uri!r} is circular")
        if path in included:
            self._error("repeated-include", f"{uri!r} is included already; MuJoCo takes a file once only", element)
            return []
        if len(stack) > MAX_INCLUDE_DEPTH:
            raise ReadError(f"{element.origin}: includes are nested more than {MAX_INCLUDE_DEPTH} deep")
        included.add(path)
        data = self._read_bytes(found.path, "missing-include", element)
        if data is None:
            return []
        root = self._parse(data, str(found.path))
        if not root.children:
            self._error("empty-include", f"the included file {uri!r} holds no elements", element)
        self._expand_includes(root, document, (*stack, path), included)
        return root.children

    # -- attached models ------------------------------------------------------------------------------------------

    def _load_attached_models(self, document: ModelDocument, stack: tuple[Path, ...]) -> None:
        for asset in document.root.find_all(mjcf.ASSET):
            for element in asset.find_all(mjcf.MODEL):
                found = self._load_attached_model(element, document, stack)
                if found is not None:
                    document.attached_models[id(element)] = found

    def _load_attached_model(
        self, element: XmlElement, document: ModelDocument, stack: tuple[Path, ...]
    ) -> ModelDocument | None:
        """Load the model of an `<asset><model>` element; None with an error if it is unreadable."""
        uri = element.attributes.get("file", "")
        found = self._find(uri, document, element)
        if found.path is None:
            self._error("missing-model", f"the attached model {uri!r} cannot be read: {found.reason}", element)
            return None
        path = _realpath(found.path)
        if path in stack:
            raise ReadError(f"{element.origin}: the model {uri!r} attaches itself")
        if path not in self.loaded_models:
            if len(self.loaded_models) >= MAX_MODELS or len(stack) > MAX_INCLUDE_DEPTH:
                raise ReadError(f"{element.origin}: too many models are attached")
            data = self._read_bytes(found.path, "missing-model", element)
            if data is None:
                return None
            self.loaded_models[path] = self.load_document(found.path, data, stack)
        return self.loaded_models[path]

    def _find(self, uri: str, document: ModelDocument, element: XmlElement) -> Resolved:
        return find_file(uri, document.file, Path(element.file), self.resolver)

    def _read_bytes(self, path: Path, code: str, element: XmlElement) -> bytes | None:
        try:
            return read_bytes(path)
        except ReadError as error:
            self._error(code, str(error), element)
            return None

    def _error(self, code: str, message: str, element: XmlElement) -> None:
        self.diagnostics.error(f"mjcf.{code}", message, origin=element.origin)


def find_file(uri: str, model_file: Path, element_file: Path, resolver: Resolver) -> Resolved:
    """Resolve a reference relative to the main file, then relative to the file that contains it.

    This is MuJoCo's search order for includes.
    """
    uri = uri.replace("\\", "/")
    found = resolver.resolve(uri, model_file)
    if found.path is None and element_file.parent != model_file.parent:
        beside = resolver.resolve(uri, element_file)
        if beside.path is not None or beside.refused:
            return beside
    return found


def _check_root(root: XmlElement) -> None:
    """Raise `ReadError` unless the root element is `<mujoco>`."""
    if root.tag == _MODEL_ROOT:
        return
    if root.tag == "robot":
        raise ReadError(f"{root.origin}: this is a URDF file (its root is <robot>), not MJCF")
    if root.tag == _FRAGMENT_ROOT:
        raise ReadError(f"{root.origin}: this file is a fragment for other files to include, not a model of its own")
    raise ReadError(f"{root.origin}: the root of an MJCF file is <mujoco>, this one is <{root.tag}>")


def _asset_directories(root: XmlElement) -> AssetDirectories:
    result = AssetDirectories()
    for compiler in root.find_all(mjcf.COMPILER):
        given = compiler.attributes
        result.mesh = given.get("meshdir", given.get("assetdir", result.mesh))
        result.texture = given.get("texturedir", given.get("assetdir", result.texture))
        result.strip_path = given.get("strippath", str(result.strip_path).lower()) == "true"
    return result


def _realpath(path: Path) -> Path:
    return path.resolve()
