"""Triangles with their looks as a glTF file, which is what browsers draw materials and textures from."""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from kinema.foundation import Array
from kinema.shapes import Look, MapRole, MeshError, Placement, Wrap, read_image, to_png

_PLAIN = (0.72, 0.74, 0.77, 1.0)
"""The colour of what has none."""
_WRAPS = {Wrap.REPEAT: 10497, Wrap.CLAMP: 33071, Wrap.MIRROR: 33648, Wrap.BLACK: 33071}
_MIMES = {".png": "image/png", ".jpg": "image/jpeg", ".webp": "image/webp"}
_ARRAY, _INDEX = 34962, 34963
_UNLIT = "KHR_materials_unlit"


@dataclass(frozen=True, slots=True, eq=False)
class Painted:
    """Triangles of one look: each corner is a vertex of its own, unless corners agree."""

    positions: Array
    """(n, 3) [m]"""
    normals: Array
    faces: np.ndarray
    look: Look | None = None
    coordinates: Array | None = None
    """Of textures, (n, 2), v upwards, moved as the look says."""
    colors: Array | None = None
    """Red, green, blue, alpha, (n, 4)."""
    closed: bool = False
    """Whether nobody can look at it from behind, so that half of its faces need not be drawn."""
    lit: bool = True
    """Whether it has its colour by light; else it has it by itself, which costs a browser next to nothing."""


@dataclass(slots=True, eq=False)
class _File:
    """A glTF file while it is made."""

    data: bytearray = field(default_factory=bytearray)
    views: list[dict[str, Any]] = field(default_factory=list)
    accessors: list[dict[str, Any]] = field(default_factory=list)
    materials: list[dict[str, Any]] = field(default_factory=list)
    textures: list[dict[str, Any]] = field(default_factory=list)
    samplers: list[dict[str, Any]] = field(default_factory=list)
    images: list[dict[str, Any]] = field(default_factory=list)
    known: dict[Any, int] = field(default_factory=dict)

    def view(self, data: bytes, **more: Any) -> int:
        """Bytes, and the number that they are called by."""
        self.data += b"\0" * (-len(self.data) % 4)
        self.views.append({"buffer": 0, "byteOffset": len(self.data), "byteLength": len(data), **more})
        self.data += data
        return len(self.views) - 1

    def accessor(self, values: np.ndarray, kind: str, component: int, target: int) -> int:
        """An array of vertices or of corners."""
        entry: dict[str, Any] = {
            "bufferView": self.view(np.ascontiguousarray(values).tobytes(), target=target),
            "componentType": component,
            "count": len(values),
            "type": kind,
        }
        if kind == "VEC3":
            entry |= {"min": values.min(axis=0).tolist(), "max": values.max(axis=0).tolist()}
        self.accessors.append(entry)
        return len(self.accessors) - 1

    def texture(self, reference: str, wraps: tuple[Wrap, Wrap]) -> int | None:
        """An image with what is beyond its edges; None where it cannot be read."""
        key = (reference, wraps)
        if key not in self.known:
            image = self._image(reference)
            if image is None:
                return None
            self.samplers.append({"wrapS": _WRAPS[wraps[0]], "wrapT": _WRAPS[wraps[1]]})
            self.textures.append({"source": image, "sampler": len(self.samplers) - 1})
            self.known[key] = len(self.textures) - 1
        return self.known[key]

    def _image(self, reference: str) -> int | None:
        key = ("image", reference)
        if key not in self.known:
            try:
                data, suffix = read_image(reference)
                if suffix not in _MIMES:
                    data, suffix = to_png(data), ".png"
            except MeshError:
                return None
            self.images.append({"bufferView": self.view(data), "mimeType": _MIMES[suffix]})
            self.known[key] = len(self.images) - 1
        return self.known[key]


def glb(parts: Sequence[Painted]) -> bytes:
    """The bytes of a file with these triangles in it."""
    file = _File()
    primitives = [_primitive(file, part) for part in parts if len(part.faces)]
    document = {
        "asset": {"version": "2.0"},
        "scene": 0,
        "scenes": [{"nodes": [0]}],
        "nodes": [{"mesh": 0}],
        "meshes": [{"primitives": primitives}],
        "buffers": [{"byteLength": len(file.data)}],
        "bufferViews": file.views,
        "accessors": file.accessors,
        "materials": file.materials,
        **{
            name: list(values)
            for name, values in (
                ("textures", file.textures),
                ("samplers", file.samplers),
                ("images", file.images),
                ("extensionsUsed", () if all(part.lit for part in parts) else (_UNLIT,)),
            )
            if values
        },
    }
    text = json.dumps(document, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 4)
    data = bytes(file.data) + b"\0" * (-len(file.data) % 4)
    size = 12 + 8 + len(text) + 8 + len(data)
    head = struct.pack("<4sII", b"glTF", 2, size)
    return head + struct.pack("<I4s", len(text), b"JSON") + text + struct.pack("<I4s", len(data), b"BIN\0") + data


def _primitive(file: _File, part: Painted) -> dict[str, Any]:
    attributes = {
        "POSITION": file.accessor(part.positions.astype(np.float32), "VEC3", 5126, _ARRAY),
        "NORMAL": file.accessor(part.normals.astype(np.float32), "VEC3", 5126, _ARRAY),
    }
    if part.coordinates is not None:
        upside_down = part.coordinates * (1.0, -1.0) + (0.0, 1.0)  # glTF counts v downwards
        attributes["TEXCOORD_0"] = file.accessor(upside_down.astype(np.float32), "VEC2", 5126, _ARRAY)
    if part.colors is not None:
        attributes["COLOR_0"] = file.accessor(part.colors.astype(np.float32), "VEC4", 5126, _ARRAY)
    indices = file.accessor(part.faces.astype(np.uint32).ravel(), "SCALAR", 5125, _INDEX)
    material = _material(file, part)
    file.materials.append(material)
    return {"attributes": attributes, "indices": indices, "material": len(file.materials) - 1}


def _material(file: _File, part: Painted) -> dict[str, Any]:
    look = part.look or Look()
    has_paint = part.colors is not None or bool(look.texture)
    color = look.color or ((1.0, 1.0, 1.0, 1.0) if has_paint else _PLAIN)
    surface: dict[str, Any] = {
        "baseColorFactor": [*(_linear(c) for c in color[:3]), float(color[3])],
        "metallicFactor": 0.0 if look.metallic is None else float(look.metallic),
        "roughnessFactor": 0.6 if look.roughness is None else float(look.roughness),
    }
    material: dict[str, Any] = {"pbrMetallicRoughness": surface, "doubleSided": _two_sided(look, part, color[3])}
    if not part.lit:
        material["extensions"] = {_UNLIT: {}}
    if color[3] < 1.0 or MapRole.OPACITY in look.maps:
        material["alphaMode"] = "BLEND"
    if look.opacity_threshold is not None:
        material |= {"alphaMode": "MASK", "alphaCutoff": float(look.opacity_threshold)}
    if look.emission is not None and any(look.emission):
        material["emissiveFactor"] = [min(max(float(e), 0.0), 1.0) for e in look.emission]
    if part.coordinates is not None:
        _add_images(file, look, material, surface)
    return material


def _two_sided(look: Look, part: Painted, opacity: float) -> bool:
    hidden = part.closed and opacity >= 1.0 and not look.images
    return not hidden if look.double_sided is None else look.double_sided


def _add_images(file: _File, look: Look, material: dict[str, Any], surface: dict[str, Any]) -> None:
    def image(reference: str, placement: Placement, **more: Any) -> dict[str, Any] | None:
        number = file.texture(reference, placement.wrap)
        return None if number is None else {"index": number, **more}

    if look.texture:
        surface["baseColorTexture"] = image(look.texture, look.placement)
    maps = look.maps
    if MapRole.NORMAL in maps:
        bumps = maps[MapRole.NORMAL]
        material["normalTexture"] = image(bumps.file, bumps.placement, scale=bumps.strength)
    if MapRole.EMISSION in maps:
        material["emissiveTexture"] = image(maps[MapRole.EMISSION].file, maps[MapRole.EMISSION].placement)
        material.setdefault("emissiveFactor", [1.0, 1.0, 1.0])
    rough, metal = maps.get(MapRole.ROUGHNESS), maps.get(MapRole.METALLIC)
    shared = rough or metal
    if shared is not None and (rough is None or metal is None or rough.file == metal.file):
        # one image tells both in glTF: roughness in green, metal in blue
        surface["metallicRoughnessTexture"] = image(shared.file, shared.placement)
        surface["roughnessFactor"] = 1.0 if look.roughness is None else float(look.roughness)
        surface["metallicFactor"] = (1.0 if metal else 0.0) if look.metallic is None else float(look.metallic)
    for holder in (material, surface):
        for name in [n for n, value in holder.items() if value is None]:
            del holder[name]


def _linear(value: float) -> float:
    """A colour as files and screens have it, as glTF wants it: proportional to light."""
    v = min(max(float(value), 0.0), 1.0)
    return v / 12.92 if v <= 0.04045 else ((v + 0.055) / 1.055) ** 2.4
