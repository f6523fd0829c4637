"""What MuJoCo is given in place of the files: the same elements with every file in memory.

No element leaves here with a path in it. Meshes and height maps are read by us and checked; textures are not read at
all, a single colour stands for each; skins, which are for the eye only, are left out. Where a mesh is missing or
damaged a small cube stands for it, so that the rest can still be read.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

import numpy as np

from kinema.foundation import Diagnostics, ReadError
from kinema.read.cursor import parse_float
from kinema.read.resolve import Resolver
from kinema.read.source import read_bytes
from kinema.read.xml_text import XmlElement
from kinema.shapes import MeshData, MeshError, box, mesh_triangles
from kinema.words import mjcf

from .height_maps import HeightMapError, checked_grid, checked_png
from .sources import Document, find_file

MAX_ASSET_BYTES = 256 * 2**20
"""Of one file, and of all of them together."""
PLACEHOLDER = "kinema_placeholder.stl"

_MUJOCO_MESHES = {".stl", ".obj", ".msh"}
_CONTENT_TYPES = {
    "model/stl": ".stl",
    "model/obj": ".obj",
    "model/vnd.mujoco.msh": ".msh",
    "image/png": ".png",
    "image/vnd.mujoco.hfield": ".hf",
}
_TEXTURE_SIZES = ("width", "height", "nchannel", "gridsize", "gridlayout", "content_type", "hflip", "vflip", "embed")
_DROPPED = {
    # what asks for files or memory and says nothing about the model; kept in the description's extras
    mjcf.COMPILER: ("meshdir", "texturedir", "assetdir", "strippath"),
    mjcf.SIZE: ("memory", "njmax", "nconmax", "nstack", "nuserdata"),
}
_MAY_BE_EMPTY = {"name", "model", "prefix", "sep", "data", "value"}
_NUMERIC = frozenset(
    """
    pos quat axis size fromto euler axisangle xyaxes zaxis range ref springref stiffness damping armature frictionloss
    margin gap mass density diaginertia fullinertia friction solref solimp gear kp kv ctrlrange forcerange actrange
    qpos qvel ctrl act mpos mquat gravity timestep polycoef anchor relpose scale vertex refpos refquat rgba offset
    gainprm biasprm dynprm lengthrange springlength coef divisor elevation wind
    """.split()  # noqa: SIM905 (a list of quoted words would fill a page)
)


@dataclass(slots=True, eq=False)
class Asset:
    """A file that an element refers to."""

    uri: str
    """The reference as the file writes it."""
    path: str = ""
    """The file it was resolved to; empty when there is none."""
    usable: bool = True
    """False where something else stands for its content."""


@dataclass(slots=True, eq=False)
class Prepared:
    """A model ready for MuJoCo."""

    document: Document
    attributes: dict[int, dict[str, str]] = field(default_factory=dict)
    """`id` of an element -> the attributes it is given in place of its own."""
    removed: set[int] = field(default_factory=set)
    """`id` of each element that MuJoCo does not see."""
    files: dict[str, bytes] = field(default_factory=dict)
    uris: dict[str, str] = field(default_factory=dict)
    """A name in `files` -> what the model's file calls it."""
    models: dict[int, str] = field(default_factory=dict)
    """`id` of an attached document -> the name MuJoCo knows its text by."""
    assets: dict[int, Asset] = field(default_factory=dict)
    """`id` of an element -> the file it refers to."""
    paths: dict[str, str] = field(default_factory=dict)
    """A reference as the model writes it -> the file that was found for it."""

    def attributes_of(self, element: XmlElement) -> dict[str, str]:
        """What MuJoCo is told: it takes an empty value for none, or fails on it, so none is given."""
        given = self.attributes.get(id(element), element.attributes)
        return {name: text for name, text in given.items() if text.strip() or name in _MAY_BE_EMPTY}

    def replace_mesh(self, element: XmlElement) -> None:
        """Let the placeholder stand for a mesh."""
        kept = {k: v for k, v in element.attributes.items() if k in ("name", "class", "material")}
        name = kept.get("name") or _default_name(element.attributes.get("file", ""))
        self.attributes[id(element)] = {**kept, "name": name, "file": PLACEHOLDER, "scale": "1 1 1"}
        self.files[PLACEHOLDER] = binary_stl(box((0.1, 0.1, 0.1)))
        self.assets.setdefault(id(element), Asset(element.attributes.get("file", ""))).usable = False


def prepare(document: Document, resolver: Resolver, diagnostics: Diagnostics) -> Prepared:
    """The model with its files in memory; what is missing is reported."""
    prepared = Prepared(document)
    for index, part in enumerate(document.all_documents()):
        prepared.models[id(part)] = f"kinema_model_{index}.xml"
    for part in document.all_documents():
        worker = _Preparation(prepared, part, resolver, diagnostics)
        for element in part.root.iterate():
            worker.element(element)
    return prepared


@dataclass(slots=True, eq=False)
class _Preparation:
    prepared: Prepared
    document: Document
    resolver: Resolver
    diagnostics: Diagnostics

    def element(self, element: XmlElement) -> None:
        match element.tag:
            case mjcf.MESH if "file" in element.attributes:
                self._mesh(element)
            case mjcf.HFIELD if "file" in element.attributes:
                self._height_field(element)
            case mjcf.TEXTURE:
                self._texture(element)
            case mjcf.MODEL if "file" in element.attributes:
                self._model(element)
            case mjcf.FLEXCOMP if "file" in element.attributes:
                self._flexcomp(element)
            case mjcf.SKIN:
                if element.attributes.get("file"):
                    self._resolve(element.attributes["file"], element, self.document.directories.mesh)
                self.prepared.removed.add(id(element))
            case tag if tag in _DROPPED:
                self._change(element, drop=_DROPPED[tag])
            case _ if any(name.startswith("file") for name in element.attributes):
                # no such attribute exists; whatever MuJoCo makes of it, it shall not be a path
                names = tuple(n for n in element.attributes if n.startswith("file"))
                self._change(element, drop=names, file="kinema/none")
        self._check_numbers(element)

    def _change(self, element: XmlElement, *, drop: Sequence[str] = (), **given: str) -> None:
        kept = {k: v for k, v in element.attributes.items() if k not in drop}
        self.prepared.attributes[id(element)] = {**kept, **given}

    # -- one method for each kind of file ---------------------------------------------------------------------------

    def _mesh(self, element: XmlElement) -> None:
        data, suffix = self._load(element, self.document.directories.mesh, "mesh")
        if data is None:
            self.prepared.replace_mesh(element)
            return
        try:
            mesh = mesh_triangles(data, suffix)
        except MeshError as error:
            asset = self.prepared.assets[id(element)]
            message = f"the mesh {asset.uri!r} cannot be used: {error.reason}"
            self.diagnostics.error("mjcf.corrupt-mesh", message, origin=element.origin)
            self.prepared.replace_mesh(element)
            return
        if suffix not in _MUJOCO_MESHES or (suffix == ".stl" and not _is_binary_stl(data)):
            message = f"MuJoCo does not read meshes such as {self.prepared.assets[id(element)].uri!r}; Kinema does"
            hint = "convert it to binary STL or OBJ to use the model with MuJoCo"
            self.diagnostics.warning("mjcf.mesh-format", message, hint=hint, origin=element.origin)
            data, suffix = binary_stl(mesh), ".stl"
        self._change(
            element,
            drop=("content_type",),
            name=element.attributes.get("name") or _default_name(element.attributes["file"]),
            file=self._virtual(element, data, suffix),
        )

    def _height_field(self, element: XmlElement) -> None:
        name = element.attributes.get("name") or _default_name(element.attributes["file"])
        data, suffix = self._load(element, self.document.directories.mesh, "hfield")
        if data is not None:
            try:
                data = checked_png(data) if suffix == ".png" else checked_grid(data)
                virtual = self._virtual(element, data, ".png" if suffix == ".png" else ".hf")
                self._change(element, drop=("content_type",), name=name, file=virtual)
                return
            except HeightMapError as error:
                asset = self.prepared.assets[id(element)]
                message = f"the height field {asset.uri!r} cannot be used: {error}; it is taken for flat"
                self.diagnostics.error("mjcf.corrupt-hfield", message, origin=element.origin)
        self.prepared.assets[id(element)].usable = False
        self._change(element, drop=("file", "content_type", "elevation"), name=name, nrow="2", ncol="2")

    def _texture(self, element: XmlElement) -> None:
        """A texture is a name, a kind and colours; its pixels are never made or read."""
        references = [a for a in mjcf.TEXTURE_FILES if element.attributes.get(a)]
        for attribute in references:
            uri = element.attributes[attribute]
            asset = self._resolve(uri, element, self.document.directories.texture)
            self.prepared.assets.setdefault(id(element), asset)
            if not asset.path:
                message = f"the texture {uri!r} cannot be found"
                self.diagnostics.warning("mjcf.missing-texture", message, origin=element.origin)
        instead = {"width": "1", "height": "1"}
        if references:
            instead["builtin"] = "flat"
            if not element.attributes.get("name") and "file" in references:
                instead["name"] = _default_name(element.attributes["file"])
        self._change(element, drop=(*mjcf.TEXTURE_FILES, *_TEXTURE_SIZES), **instead)

    def _model(self, element: XmlElement) -> None:
        attached = self.document.models.get(id(element))
        if attached is None:
            self.prepared.removed.add(id(element))
        else:
            self._change(element, drop=("content_type",), file=self.prepared.models[id(attached)])

    def _flexcomp(self, element: XmlElement) -> None:
        data, suffix = self._load(element, self.document.directories.mesh, "flexcomp")
        if data is None:
            self.prepared.removed.add(id(element))
        else:
            self._change(element, file=self._virtual(element, data, suffix))

    # -- files ------------------------------------------------------------------------------------------------------

    def _load(self, element: XmlElement, directory: str, kind: str) -> tuple[bytes | None, str]:
        """The bytes an element's `file` leads to, and the suffix that says what they are."""
        uri = element.attributes["file"]
        declared = _CONTENT_TYPES.get(element.attributes.get("content_type", ""))
        suffix = declared or PurePosixPath(_name_of(uri)).suffix.lower()
        asset = self._resolve(uri, element, directory, kind)
        self.prepared.assets[id(element)] = asset
        if not asset.path:
            return None, suffix
        try:
            data = read_bytes(asset.path, limit=MAX_ASSET_BYTES)
        except ReadError as error:
            self.diagnostics.error(f"mjcf.missing-{kind}", f"{uri!r} cannot be read: {error}", origin=element.origin)
            asset.path = ""
            return None, suffix
        if len(data) + sum(map(len, self.prepared.files.values())) > MAX_ASSET_BYTES:
            raise ReadError(f"{element.origin}: the model's files have more than {MAX_ASSET_BYTES} bytes together")
        return data, suffix

    def _resolve(self, uri: str, element: XmlElement, directory: str, kind: str = "") -> Asset:
        """Where MuJoCo would look: in the asset folder of the model, then beside the file the reference stands in."""
        plain = uri.replace("\\", "/")
        name = _name_of(uri) if self.document.directories.strip_path else plain
        in_folder = str(PurePosixPath(directory.replace("\\", "/")) / name) if directory else name
        found = self.resolver.resolve(in_folder, self.document.file)
        if found.path is None:
            beside = find_file(name, Path(element.file), Path(element.file), self.resolver)
            found = beside if beside.path is not None else found
        if found.path is None and kind:
            what = {"mesh": "mesh", "hfield": "height field"}.get(kind, "deformable body")
            message = f"the file {uri!r} of the {what} cannot be read: {found.reason}"
            self.diagnostics.error(f"mjcf.missing-{kind}", message, origin=element.origin)
        if found.path is not None:
            self.prepared.paths[uri] = str(found.path)
        return Asset(uri, str(found.path) if found.path else "", usable=found.path is not None)

    def _virtual(self, element: XmlElement, data: bytes, suffix: str) -> str:
        # called by its content, because MuJoCo remembers what it made of a file by the file's name
        name = f"kinema_{hashlib.sha256(data).hexdigest()[:32]}{suffix}"
        self.prepared.files[name] = data
        self.prepared.uris[name] = element.attributes["file"]
        return name

    # -- numbers ----------------------------------------------------------------------------------------------------

    def _check_numbers(self, element: XmlElement) -> None:
        """MuJoCo takes NaN for a number and fails, or does not, much later."""
        for name, text in element.attributes.items():
            if name not in _NUMERIC or "nan" not in text.lower():
                continue
            values = [parse_float(word) for word in text.split()]
            if any(v is not None and math.isnan(v) for v in values):
                message = f"{name!r} of <{element.tag}> is not a number (NaN)"
                self.diagnostics.error("mjcf.not-finite", message, origin=element.origin)


def _name_of(uri: str) -> str:
    return uri.replace("\\", "/").rpartition("/")[2]


def _default_name(uri: str) -> str:
    """What MuJoCo calls an asset that has a file but no name."""
    name = _name_of(uri)
    return name.rpartition(".")[0] or name


def _is_binary_stl(data: bytes) -> bool:
    return len(data) >= 84 and len(data) == 84 + 50 * int.from_bytes(data[80:84], "little")


def binary_stl(mesh: MeshData) -> bytes:
    """The mesh as MuJoCo's favourite file."""
    record = np.dtype([("normal", "<f4", 3), ("corners", "<f4", (3, 3)), ("attribute", "<u2")])
    records = np.zeros(mesh.n_faces, dtype=record)
    records["corners"] = mesh.triangles()  # ty: ignore[invalid-assignment]
    return bytes(80) + mesh.n_faces.to_bytes(4, "little") + records.tobytes()
