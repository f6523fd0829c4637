"""The XML files of a model: the main file, what it includes, and the models it attaches.

MuJoCo itself never opens a file. An `<include>` is replaced here by what the included file holds, which is all it
means; then every element still knows the file and line it comes from, which MuJoCo would forget.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from kinema.foundation import Diagnostics, ReadError
from kinema.read.resolve import Resolved, Resolver
from kinema.read.source import read_bytes
from kinema.read.xml_repair import parse_tolerant
from kinema.read.xml_text import MAX_BYTES, MAX_ELEMENTS, XmlElement
from kinema.words import mjcf

MAX_INCLUDE_DEPTH = 40
MAX_MODELS = 200

_MODEL_ROOT = mjcf.ROOT
_FRAGMENT_ROOT = "mujocoinclude"


@dataclass(slots=True, eq=False)
class Directories:
    """Where a model's assets lie, as its `<compiler>` elements say; the last one that says something counts."""

    mesh: str = ""
    texture: str = ""
    strip_path: bool = False


@dataclass(slots=True, eq=False)
class Document:
    """One model: its file, its elements with includes put in their places, and the models it may attach."""

    file: Path
    root: XmlElement
    directories: Directories = field(default_factory=Directories)
    models: dict[int, Document] = field(default_factory=dict)
    """`id` of an `<asset><model>` element -> the model its file holds."""

    def all_documents(self) -> list[Document]:
        """This model and all below it, each once, this one first."""
        found: dict[int, Document] = {}
        stack: list[Document] = [self]
        while stack:
            document = stack.pop()
            if id(document) not in found:
                found[id(document)] = document
                stack.extend(document.models.values())
        return list(found.values())


def collect(file: Path, resolver: Resolver, diagnostics: Diagnostics) -> Document:
    """The model in a file with everything it is made of, or a `ReadError`."""
    return _Collector(resolver, diagnostics).document(file, read_bytes(file), ())


@dataclass(slots=True, eq=False)
class _Collector:
    resolver: Resolver
    diagnostics: Diagnostics
    n_bytes: int = 0
    n_elements: int = 0
    known: dict[Path, Document] = field(default_factory=dict)
    """Models that were read, so that one attached from two places is read once."""

    def document(self, file: Path, data: bytes, above: tuple[Path, ...]) -> Document:
        """The model in a file; `above` are the files of the models that attach it."""
        root = self._parse(data, str(file))
        _check_root(root)
        document = Document(file, root)
        self._splice(root, document, (_real(file),), {_real(file)})
        document.directories = _directories(root)
        self._models(document, (*above, _real(file)))
        return document

    def _parse(self, data: bytes, file: str) -> XmlElement:
        root = parse_tolerant(data, file, self.diagnostics, "mjcf")
        self.n_bytes += len(data)
        self.n_elements += sum(1 for _ in root.iterate())
        if self.n_bytes > MAX_BYTES or self.n_elements > MAX_ELEMENTS:
            raise ReadError(f"{file}: the model and its includes have too many elements ({self.n_elements})")
        return root

    # -- includes -------------------------------------------------------------------------------------------------

    def _splice(self, element: XmlElement, document: Document, stack: tuple[Path, ...], included: set[Path]) -> None:
        """Replace every include below an element, in place."""
        todo = [element]
        while todo:
            current = todo.pop()
            children: list[XmlElement] = []
            for child in current.children:
                if child.tag == "include":
                    children += self._included(child, document, stack, included)
                else:
                    children.append(child)
                    todo.append(child)
            current.children = children

    def _included(
        self, element: XmlElement, document: Document, stack: tuple[Path, ...], included: set[Path]
    ) -> list[XmlElement]:
        """The elements an include stands for, with their own includes replaced."""
        uri = element.attributes.get("file", "")
        found = self._find(uri, document, element)
        if found.path is None:
            self._error("missing-include", f"the included file {uri!r} cannot be read: {found.reason}", element)
            return []
        path = _real(found.path)
        if path in stack:
            raise ReadError(f"{element.origin}: the include of {uri!r} is circular")
        if path in included:
            self._error("repeated-include", f"{uri!r} is included already; MuJoCo takes a file once only", element)
            return []
        if len(stack) > MAX_INCLUDE_DEPTH:
            raise ReadError(f"{element.origin}: includes are nested more than {MAX_INCLUDE_DEPTH} deep")
        included.add(path)
        data = self._bytes(found.path, "missing-include", element)
        if data is None:
            return []
        root = self._parse(data, str(found.path))
        if not root.children:
            self._error("empty-include", f"the included file {uri!r} holds no elements", element)
        self._splice(root, document, (*stack, path), included)
        return root.children

    # -- attached models ------------------------------------------------------------------------------------------

    def _models(self, document: Document, stack: tuple[Path, ...]) -> None:
        for asset in document.root.find_all(mjcf.ASSET):
            for element in asset.find_all(mjcf.MODEL):
                found = self._model(element, document, stack)
                if found is not None:
                    document.models[id(element)] = found

    def _model(self, element: XmlElement, document: Document, stack: tuple[Path, ...]) -> Document | None:
        uri = element.attributes.get("file", "")
        found = self._find(uri, document, element)
        if found.path is None:
            self._error("missing-model", f"the attached model {uri!r} cannot be read: {found.reason}", element)
            return None
        path = _real(found.path)
        if path in stack:
            raise ReadError(f"{element.origin}: the model {uri!r} attaches itself")
        if path not in self.known:
            if len(self.known) >= MAX_MODELS or len(stack) > MAX_INCLUDE_DEPTH:
                raise ReadError(f"{element.origin}: too many models are attached")
            data = self._bytes(found.path, "missing-model", element)
            if data is None:
                return None
            self.known[path] = self.document(found.path, data, stack)
        return self.known[path]

    def _find(self, uri: str, document: Document, element: XmlElement) -> Resolved:
        return find_file(uri, document.file, Path(element.file), self.resolver)

    def _bytes(self, path: Path, code: str, element: XmlElement) -> bytes | None:
        try:
            return read_bytes(path)
        except ReadError as error:
            self._error(code, str(error), element)
            return None

    def _error(self, code: str, message: str, element: XmlElement) -> None:
        self.diagnostics.error(f"mjcf.{code}", message, origin=element.origin)


def find_file(uri: str, model_file: Path, element_file: Path, resolver: Resolver) -> Resolved:
    """A file beside the model's main file or, failing that, beside the file that the reference stands in.

    That is MuJoCo's order for includes.
    """
    uri = uri.replace("\\", "/")
    found = resolver.resolve(uri, model_file)
    if found.path is None and element_file.parent != model_file.parent:
        beside = resolver.resolve(uri, element_file)
        if beside.path is not None or beside.refused:
            return beside
    return found


def _check_root(root: XmlElement) -> None:
    if root.tag == _MODEL_ROOT:
        return
    if root.tag == "robot":
        raise ReadError(f"{root.origin}: this is a URDF file (its root is <robot>), not MJCF")
    if root.tag == _FRAGMENT_ROOT:
        raise ReadError(f"{root.origin}: this file is a fragment for other files to include, not a model of its own")
    raise ReadError(f"{root.origin}: the root of an MJCF file is <mujoco>, this one is <{root.tag}>")


def _directories(root: XmlElement) -> Directories:
    result = Directories()
    for compiler in root.find_all(mjcf.COMPILER):
        given = compiler.attributes
        result.mesh = given.get("meshdir", given.get("assetdir", result.mesh))
        result.texture = given.get("texturedir", given.get("assetdir", result.texture))
        result.strip_path = given.get("strippath", str(result.strip_path).lower()) == "true"
    return result


def _real(path: Path) -> Path:
    return path.resolve()
