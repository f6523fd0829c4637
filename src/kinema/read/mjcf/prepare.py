"""Prepares an MJCF model for MuJoCo: asset files are validated and loaded into memory, no element keeps a file path.

Meshes and height fields are read and checked here. Textures are replaced by a single colour, skins (visual only) are
removed, and missing or damaged meshes are replaced by a small cube.
"""

from __future__ import annotations

import hashlib
import math
import struct
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath

import numpy as np

from kinema.core import Diagnostics, ReadError, XmlElement
from kinema.geometry import MeshData, MeshError, box, load_mesh_from_bytes
from kinema.tokens import mjcf

from ..cursor import parse_float
from ..resolve import Resolver, read_bytes
from .documents import ModelDocument, find_file

# -- height field files ------------------------------------------------------------------------------------------------

MAX_HEIGHTS = 4_000_000

_PNG_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_PNG_CHUNKS = (b"IHDR", b"PLTE", b"tRNS", b"IDAT", b"IEND")
_PNG_CHANNELS = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}


class HeightMapError(ValueError):
    """Unusable height field file; the text is the reason."""


def validate_png(data: bytes) -> bytes:
    """Check a PNG file and strip its ancillary chunks; raises `HeightMapError`.

    The decompressed size is bounded, because a small file may expand to a very large image.
    """
    if not data.startswith(_PNG_SIGNATURE):
        raise HeightMapError("it is not a PNG file")
    chunks, pixels = [_PNG_SIGNATURE], b""
    expected = None
    for kind, content, whole in _png_chunks(data):
        if expected is None:
            if kind != b"IHDR" or len(content) != 13:
                raise HeightMapError("it has no header")
            expected = _unpacked_png_size(content)
        if kind == b"IDAT":
            pixels += content
        if kind in _PNG_CHUNKS:
            chunks.append(whole)
    if expected is None or not pixels:
        raise HeightMapError("it has no pixels")
    try:
        unpacked = zlib.decompressobj().decompress(pixels, expected + 1)
    except zlib.error:
        raise HeightMapError("its pixels are damaged") from None
    if len(unpacked) > expected:
        raise HeightMapError("it holds more pixels than its header says")
    return b"".join(chunks)


def _png_chunks(data: bytes) -> Iterator[tuple[bytes, bytes, bytes]]:
    """Type, content and full bytes of each PNG chunk."""
    position = len(_PNG_SIGNATURE)
    while position + 12 <= len(data):
        (length,) = struct.unpack_from(">I", data, position)
        end = position + 12 + length
        if end > len(data):
            raise HeightMapError("it is cut off")
        yield data[position + 4 : position + 8], data[position + 8 : end - 4], data[position:end]
        position = end


def _unpacked_png_size(header: bytes) -> int:
    """Upper bound on the decompressed size [bytes] of a PNG from its header."""
    width, height, depth, color, _, _, interlace = struct.unpack(">IIBBBBB", header)
    if not (width > 0 and height > 0 and width * height <= MAX_HEIGHTS):
        raise HeightMapError(f"it has {width} x {height} pixels; 1 to {MAX_HEIGHTS} are read")
    if color not in _PNG_CHANNELS or depth not in (1, 2, 4, 8, 16):
        raise HeightMapError("its kind of pixels does not exist")
    row = 1 + (width * _PNG_CHANNELS[color] * depth + 7) // 8
    return row * height * (2 if interlace else 1) + 64 * (width + height)


def validate_hfield(data: bytes) -> bytes:
    """Check MuJoCo's binary height field format (rows, columns, float32 heights); raises `HeightMapError`."""
    if len(data) < 8:
        raise HeightMapError("it is cut off")
    rows, columns = struct.unpack_from("<ii", data)
    if not (rows >= 2 and columns >= 2 and rows * columns <= MAX_HEIGHTS):
        raise HeightMapError(f"it has {rows} x {columns} heights; 2 x 2 to {MAX_HEIGHTS} are read")
    if len(data) != 8 + 4 * rows * columns:
        raise HeightMapError(f"it has {len(data)} bytes, not those of {rows} x {columns} heights")
    return data


# -- prepared model ----------------------------------------------------------------------------------------------------

MAX_ASSET_BYTES = 256 * 2**20
"""Maximum size of one asset file and of all asset files together."""
PLACEHOLDER = "kinema_placeholder.stl"

_MUJOCO_MESH_SUFFIXES = {".stl", ".obj", ".msh"}
_CONTENT_TYPES = {
    "model/stl": ".stl",
    "model/obj": ".obj",
    "model/vnd.mujoco.msh": ".msh",
    "image/png": ".png",
    "image/vnd.mujoco.hfield": ".hf",
}
_DROPPED_TEXTURE_ATTRIBUTES = (
    "width",
    "height",
    "nchannel",
    "gridsize",
    "gridlayout",
    "content_type",
    "hflip",
    "vflip",
    "embed",
)
_DROPPED_ATTRIBUTES = {
    # file and memory settings without effect on the model; preserved in the extras
    mjcf.COMPILER: ("meshdir", "texturedir", "assetdir", "strippath"),
    mjcf.SIZE: ("memory", "njmax", "nconmax", "nstack", "nuserdata"),
}
_MAY_BE_EMPTY = {"name", "model", "prefix", "sep", "data", "value"}
_NUMERIC_ATTRIBUTES = frozenset(
    """
    pos quat axis size fromto euler axisangle xyaxes zaxis range ref springref stiffness damping armature frictionloss
    margin gap mass density diaginertia fullinertia friction solref solimp gear kp kv ctrlrange forcerange actrange
    qpos qvel ctrl act mpos mquat gravity timestep polycoef anchor relpose scale vertex refpos refquat rgba offset
    gainprm biasprm dynprm lengthrange springlength coef divisor elevation wind
    """.split()  # noqa: SIM905 (a list of quoted words would fill a page)
)


@dataclass(slots=True, eq=False)
class AssetFile:
    """Asset file of an element."""

    uri: str
    """Reference as written."""
    path: str = ""
    """Resolved file; empty if not found."""
    usable: bool = True
    """False if a placeholder replaces its content."""


@dataclass(slots=True, eq=False)
class PreparedModel:
    """An MJCF model ready for MuJoCo, with all files in memory."""

    document: ModelDocument
    attributes: dict[int, dict[str, str]] = field(default_factory=dict)
    """`id` of an element -> replacement attributes."""
    removed: set[int] = field(default_factory=set)
    """`id` of each element hidden from MuJoCo."""
    files: dict[str, bytes] = field(default_factory=dict)
    uris: dict[str, str] = field(default_factory=dict)
    """Name in `files` -> reference as written in the model."""
    attached_model_names: dict[int, str] = field(default_factory=dict)
    """`id` of an attached document -> its virtual file name."""
    assets: dict[int, AssetFile] = field(default_factory=dict)
    """`id` of an element -> its asset file."""
    resolved_paths: dict[str, str] = field(default_factory=dict)
    """Reference as written -> resolved file."""

    def copy(self) -> PreparedModel:
        """Copy whose elements can be removed or replaced independently."""
        assets = {key: replace(asset) for key, asset in self.assets.items()}
        return replace(
            self,
            attributes=dict(self.attributes),
            removed=set(self.removed),
            files=dict(self.files),
            uris=dict(self.uris),
            assets=assets,
        )

    def attributes_of(self, element: XmlElement) -> dict[str, str]:
        """Attributes of an element for MuJoCo, without empty values, on which MuJoCo may fail."""
        given = self.attributes.get(id(element), element.attributes)
        return {name: text for name, text in given.items() if text.strip() or name in _MAY_BE_EMPTY}

    def use_placeholder_mesh(self, element: XmlElement) -> None:
        """Replace a mesh by the placeholder cube and mark its asset as unusable."""
        kept = {k: v for k, v in element.attributes.items() if k in ("name", "class", "material")}
        name = kept.get("name") or _default_asset_name(element.attributes.get("file", ""))
        self.attributes[id(element)] = {**kept, "name": name, "file": PLACEHOLDER, "scale": "1 1 1"}
        self.files[PLACEHOLDER] = to_binary_stl(box((0.1, 0.1, 0.1)))
        self.assets.setdefault(id(element), AssetFile(element.attributes.get("file", ""))).usable = False


def prepare_model(document: ModelDocument, resolver: Resolver, diagnostics: Diagnostics) -> PreparedModel:
    """Load all asset files of a model into memory; missing and damaged files are reported."""
    prepared = PreparedModel(document)
    for index, part in enumerate(document.all_documents()):
        prepared.attached_model_names[id(part)] = f"kinema_model_{index}.xml"
    for part in document.all_documents():
        worker = _ModelPreparation(prepared, part, resolver, diagnostics)
        for element in part.root.iterate():
            worker.prepare_element(element)
    return prepared


@dataclass(slots=True, eq=False)
class _ModelPreparation:
    """Preparation of one document; fills `prepared`."""

    prepared: PreparedModel
    document: ModelDocument
    resolver: Resolver
    diagnostics: Diagnostics

    def prepare_element(self, element: XmlElement) -> None:
        """Load the file of an element or remove its file references, and check its numbers."""
        match element.tag:
            case mjcf.MESH if "file" in element.attributes:
                self._mesh(element)
            case mjcf.HFIELD if "file" in element.attributes:
                self._height_field(element)
            case mjcf.TEXTURE:
                self._texture(element)
            case mjcf.MODEL if "file" in element.attributes:
                self._attached_model(element)
            case mjcf.FLEXCOMP if "file" in element.attributes:
                self._flexcomp(element)
            case mjcf.SKIN:
                if element.attributes.get("file"):
                    self._resolve(element.attributes["file"], element, self.document.directories.mesh)
                self.prepared.removed.add(id(element))
            case tag if tag in _DROPPED_ATTRIBUTES:
                self._set_attributes(element, drop=_DROPPED_ATTRIBUTES[tag])
            case _ if any(name.startswith("file") for name in element.attributes):
                # undefined attributes that MuJoCo must not interpret as paths
                names = tuple(n for n in element.attributes if n.startswith("file"))
                self._set_attributes(element, drop=names, file="kinema/none")
        self._check_numbers(element)

    def _set_attributes(self, element: XmlElement, *, drop: Sequence[str] = (), **given: str) -> None:
        kept = {k: v for k, v in element.attributes.items() if k not in drop}
        self.prepared.attributes[id(element)] = {**kept, **given}

    # -- elements with files ----------------------------------------------------------------------------------------

    def _mesh(self, element: XmlElement) -> None:
        """Load and validate a mesh; formats unknown to MuJoCo are converted to binary STL."""
        data, suffix = self._load(element, self.document.directories.mesh, "mesh")
        if data is None:
            self.prepared.use_placeholder_mesh(element)
            return
        try:
            mesh = load_mesh_from_bytes(data, suffix)
        except MeshError as error:
            asset = self.prepared.assets[id(element)]
            message = f"the mesh {asset.uri!r} cannot be used: {error.reason}"
            self.diagnostics.error("mjcf.corrupt-mesh", message, origin=element.origin)
            self.prepared.use_placeholder_mesh(element)
            return
        if suffix not in _MUJOCO_MESH_SUFFIXES or (suffix == ".stl" and not _is_binary_stl(data)):
            message = f"MuJoCo does not read meshes such as {self.prepared.assets[id(element)].uri!r}; Kinema does"
            hint = "convert it to binary STL or OBJ to use the model with MuJoCo"
            self.diagnostics.warning("mjcf.mesh-format", message, hint=hint, origin=element.origin)
            data, suffix = to_binary_stl(mesh), ".stl"
        self._set_attributes(
            element,
            drop=("content_type",),
            name=element.attributes.get("name") or _default_asset_name(element.attributes["file"]),
            file=self._add_virtual_file(element, data, suffix),
        )

    def _height_field(self, element: XmlElement) -> None:
        """Load and validate a height field; replaced by a flat 2 x 2 field if unusable."""
        name = element.attributes.get("name") or _default_asset_name(element.attributes["file"])
        data, suffix = self._load(element, self.document.directories.mesh, "hfield")
        if data is not None:
            try:
                data = validate_png(data) if suffix == ".png" else validate_hfield(data)
                virtual = self._add_virtual_file(element, data, ".png" if suffix == ".png" else ".hf")
                self._set_attributes(element, drop=("content_type",), name=name, file=virtual)
                return
            except HeightMapError as error:
                asset = self.prepared.assets[id(element)]
                message = f"the height field {asset.uri!r} cannot be used: {error}; it is taken for flat"
                self.diagnostics.error("mjcf.corrupt-hfield", message, origin=element.origin)
        self.prepared.assets[id(element)].usable = False
        self._set_attributes(element, drop=("file", "content_type", "elevation"), name=name, nrow="2", ncol="2")

    def _texture(self, element: XmlElement) -> None:
        """Replace a texture by a 1 x 1 flat colour of the same name; its files are resolved but not read."""
        references = [a for a in mjcf.TEXTURE_FILES if element.attributes.get(a)]
        for attribute in references:
            uri = element.attributes[attribute]
            asset = self._resolve(uri, element, self.document.directories.texture)
            self.prepared.assets.setdefault(id(element), asset)
            if not asset.path:
                message = f"the texture {uri!r} cannot be found"
                self.diagnostics.warning("mjcf.missing-texture", message, origin=element.origin)
        replacement = {"width": "1", "height": "1"}
        if references:
            replacement["builtin"] = "flat"
            if not element.attributes.get("name") and "file" in references:
                replacement["name"] = _default_asset_name(element.attributes["file"])
        self._set_attributes(element, drop=(*mjcf.TEXTURE_FILES, *_DROPPED_TEXTURE_ATTRIBUTES), **replacement)

    def _attached_model(self, element: XmlElement) -> None:
        attached = self.document.attached_models.get(id(element))
        if attached is None:
            self.prepared.removed.add(id(element))
        else:
            self._set_attributes(element, drop=("content_type",), file=self.prepared.attached_model_names[id(attached)])

    def _flexcomp(self, element: XmlElement) -> None:
        data, suffix = self._load(element, self.document.directories.mesh, "flexcomp")
        if data is None:
            self.prepared.removed.add(id(element))
        else:
            self._set_attributes(element, file=self._add_virtual_file(element, data, suffix))

    # -- files ------------------------------------------------------------------------------------------------------

    def _load(self, element: XmlElement, directory: str, kind: str) -> tuple[bytes | None, str]:
        """Content and suffix of the file of an element; None with an error if it is unreadable."""
        uri = element.attributes["file"]
        declared = _CONTENT_TYPES.get(element.attributes.get("content_type", ""))
        suffix = declared or PurePosixPath(_file_name(uri)).suffix.lower()
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

    def _resolve(self, uri: str, element: XmlElement, directory: str, kind: str = "") -> AssetFile:
        """Resolve an asset in MuJoCo's order: asset directory of the model, then beside the referencing file."""
        plain = uri.replace("\\", "/")
        name = _file_name(uri) if self.document.directories.strip_path else plain
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
            self.prepared.resolved_paths[uri] = str(found.path)
        return AssetFile(uri, str(found.path) if found.path else "", usable=found.path is not None)

    def _add_virtual_file(self, element: XmlElement, data: bytes, suffix: str) -> str:
        # named by content, because MuJoCo caches assets by file name
        name = f"kinema_{hashlib.sha256(data).hexdigest()[:32]}{suffix}"
        self.prepared.files[name] = data
        self.prepared.uris[name] = element.attributes["file"]
        return name

    # -- numbers ----------------------------------------------------------------------------------------------------

    def _check_numbers(self, element: XmlElement) -> None:
        """Report NaN in numeric attributes, which MuJoCo does not detect reliably."""
        for name, text in element.attributes.items():
            if name not in _NUMERIC_ATTRIBUTES or "nan" not in text.lower():
                continue
            values = [parse_float(word) for word in text.split()]
            if any(v is not None and math.isnan(v) for v in values):
                message = f"{name!r} of <{element.tag}> is not a number (NaN)"
                self.diagnostics.error("mjcf.not-finite", message, origin=element.origin)


def _file_name(uri: str) -> str:
    return uri.replace("\\", "/").rpartition("/")[2]


def _default_asset_name(uri: str) -> str:
    """MuJoCo's name of an asset with a file but no name: the file name without suffix."""
    name = _file_name(uri)
    return name.rpartition(".")[0] or name


def _is_binary_stl(data: bytes) -> bool:
    return len(data) >= 84 and len(data) == 84 + 50 * int.from_bytes(data[80:84], "little")


def to_binary_stl(mesh: MeshData) -> bytes:
    """Binary STL file of a mesh."""
    record = np.dtype([("normal", "<f4", 3), ("corners", "<f4", (3, 3)), ("attribute", "<u2")])
    records = np.zeros(mesh.n_faces, dtype=record)
    records["corners"] = mesh.triangles()  # ty: ignore[invalid-assignment]
    return bytes(80) + mesh.n_faces.to_bytes(4, "little") + records.tobytes()
