"""Export of USD layers to files: text with relative targets, crate, package, or a payload of several layers.

Text export replaces every long array by a short placeholder, formats the array separately (about a third faster than
inside of a layer), and then substitutes the text. Equal arrays are formatted once; constant arrays by repetition.

A layered stage is a small interface layer that loads geometry and physics as a payload: viewers can open the geometry
alone, and other simulators can replace the physics.
"""

from __future__ import annotations

import shutil
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, Protocol

import numpy as np

from kinema.core import WriteError
from kinema.tokens import kinema_usd, mjc, newton, physx, usd, usd_physics

from ..textures import TEXTURE_FOLDER as TEXTURES
from . import pxr
from .context import UsdContext

# -------------------------------------------------------------------------------------- fast text export of long arrays

_PLACEHOLDER_MARK = -8388593
"""First number of a placeholder array; the second is the array index."""
PLACEHOLDER_BEGIN, PLACEHOLDER_END = f"{_PLACEHOLDER_MARK}, ".encode(), b"]"
"""Delimiters of a placeholder in the text, after the opening brackets."""
_ENTRIES_PER_CHUNK = 20_000
"""Number of array entries formatted at once."""
_MAX_CACHED_BYTES = 2**24
"""Maximum text of repeated arrays kept in memory [bytes]."""


class LongArrays:
    """Long arrays of a layer, equal contents shared, with their texts."""

    def __init__(self, attributes: Sequence[Any]) -> None:
        self._values: list[Any] = []
        self._remaining_uses: list[int] = []
        self._attribute_indices: list[tuple[Any, int]] = []
        self._cached_texts: dict[int, list[bytes]] = {}
        self._cached_bytes = 0
        known: dict[tuple[object, ...], int] = {}
        for attribute in attributes:
            value = attribute.default
            key = (type(value), len(value), zlib.crc32(memoryview(value)))
            number = known.get(key)
            if number is None or self._values[number] != value:
                number = known[key] = len(self._values)
                self._values.append(value)
                self._remaining_uses.append(0)
            self._remaining_uses[number] += 1
            self._attribute_indices.append((attribute, number))

    def __len__(self) -> int:
        """Number of attributes with long arrays."""
        return len(self._attribute_indices)

    def insert_placeholders(self) -> None:
        """Replace the values of all attributes by placeholder arrays."""
        for attribute, number in self._attribute_indices:
            attribute.default = _placeholder_value(self._values[number], number)

    def restore_values(self) -> None:
        """Restore the values of all attributes."""
        for attribute, number in self._attribute_indices:
            attribute.default = self._values[number]

    def __getitem__(self, index: int) -> Iterator[bytes]:
        """Text of an array in chunks, from after the opening brackets to the closing one."""
        self._remaining_uses[index] -= 1
        if index in self._cached_texts:
            yield from self._cached_texts[index] if self._remaining_uses[index] else self._cached_texts.pop(index)
            return
        value = self._values[index]
        if not self._remaining_uses[index] or self._cached_bytes >= _MAX_CACHED_BYTES:
            yield from _array_text(value)
            return
        held = list(_array_text(value))
        self._cached_bytes += sum(map(len, held))
        self._cached_texts[index] = held
        yield from held


def _placeholder_value(value: Any, index: int) -> Any:
    numbers = np.asarray(value)
    row = [_PLACEHOLDER_MARK, index, 0]
    made = row[:2] if numbers.ndim == 1 else [row[: numbers.shape[1]]]
    return type(value).FromNumpy(np.array(made, dtype=numbers.dtype))


def _array_text(value: Any) -> Iterator[bytes]:
    """USD text of an array in chunks, from after the opening brackets; constant arrays by repetition."""
    numbers = np.asarray(value)
    before = 1 if numbers.ndim == 1 else 2  # the brackets of the list, and of its first row
    if (numbers == numbers[0]).all():
        one = str(value[:1]).encode()[1:-1]
        yield ((one + b", ") * (len(value) - 1) + one)[before - 1 :]
    else:
        for start in range(0, len(value), _ENTRIES_PER_CHUNK):
            text = str(value[start : start + _ENTRIES_PER_CHUNK]).encode()[1:-1]
            yield text[before - 1 :] if not start else b", " + text
    yield PLACEHOLDER_END


# ------------------------------------------------------------------------------------------------------- layered stages

_PHYSICS_PROPERTIES = (
    *usd_physics.PROPERTY_PREFIXES,
    *(newton.NAMESPACE, mjc.NAMESPACE, physx.NAMESPACE_PREFIX, kinema_usd.NAMESPACE, usd.COLLECTION_PREFIX),
    usd.PHYSICS_BINDING,
)
_PHYSICS_SCHEMAS = (
    usd_physics.SCHEMA_PREFIX,
    newton.SCHEMA_PREFIX,
    mjc.SCHEMA_PREFIX,
    physx.SCHEMA_PREFIX,
    usd.COLLECTION_API,
)
_STAGE_METADATA = (usd.UP_AXIS, usd.METERS_PER_UNIT, usd.KILOGRAMS_PER_UNIT, usd.DEFAULT_PRIM, usd.CUSTOM_LAYER_DATA)


def split_layers(ctx: UsdContext, main_file: str) -> dict[str, pxr.Layer]:
    """Split a stage into geometry, physics, payload and interface layers.

    Returns:
        File name -> layer; names of files in subfolders contain a slash.
    """
    whole = ctx.builder.layer
    folder = f"{PurePosixPath(main_file).stem}_payload"
    geometry, simulated, contents, interface = (_new_layer(whole) for _ in range(4))
    for layer, keeps in ((geometry, _strip_physics), (simulated, _strip_geometry)):
        pxr.Sdf.CopySpec(whole, ctx.paths.root, layer, ctx.paths.root)
        _prune(layer.GetPrimAtPath(ctx.paths.root), keeps)
    contents.subLayerPaths = ["./physics.usda", "./geometry.usdc"]
    _author_interface(ctx, interface, f"./{folder}/contents.usda")
    if ctx.meshes.library is not None:
        name = ctx.meshes.library[0]
        _rebase_references(geometry, f"./{name}", f"../{name}")
    for layer in (geometry, simulated):
        _rebase_image_paths(layer)
    return {
        f"{folder}/geometry.usdc": geometry,
        f"{folder}/physics.usda": simulated,
        f"{folder}/contents.usda": contents,
        main_file: interface,
    }


def _new_layer(source_layer: pxr.Layer) -> pxr.Layer:
    layer = pxr.Sdf.Layer.CreateAnonymous(".usda")
    for key in _STAGE_METADATA:
        if source_layer.pseudoRoot.HasInfo(key):
            layer.pseudoRoot.SetInfo(key, source_layer.pseudoRoot.GetInfo(key))
    return layer


def _author_interface(ctx: UsdContext, layer: pxr.Layer, payload: str) -> None:
    """Write the interface layer: the root prim with a payload, and copies of other root prims."""
    root = ctx.paths.root
    source = ctx.builder.layer.GetPrimAtPath(root)
    prim = pxr.Sdf.CreatePrimInLayer(layer, root)
    prim.specifier, prim.typeName = source.specifier, source.typeName
    for key in (usd.KIND, usd.DISPLAY_NAME):
        if source.HasInfo(key):
            prim.SetInfo(key, source.GetInfo(key))
    prim.payloadList.prependedItems = [pxr.Sdf.Payload(payload)]
    for other in ctx.builder.layer.rootPrims:
        if other.path != source.path:  # the scene of a robot stands beside it
            pxr.Sdf.CopySpec(ctx.builder.layer, other.path, layer, other.path)


def _rebase_references(layer: pxr.Layer, old: str, new: str) -> None:
    layer.UpdateCompositionAssetDependency(old, new)


def _rebase_image_paths(layer: pxr.Layer) -> None:
    """Prefix relative image paths by the parent folder, for layers in the payload folder."""

    def move(path: pxr.Path) -> None:
        spec = layer.GetAttributeAtPath(path) if path.IsPropertyPath() else None
        if spec is not None and spec.typeName == "asset" and spec.default is not None:
            old = str(spec.default.path)
            if old.startswith(f"./{TEXTURES}/"):
                spec.default = pxr.Sdf.AssetPath(f".{old}")

    layer.Traverse("/", move)


# ------------------------------------------------------------------------- assignment of prims and properties to layers


def _applied_schemas(spec: pxr.PrimSpec) -> list[str]:
    return list(spec.GetInfo(usd.API_SCHEMAS).prependedItems) if spec.HasInfo(usd.API_SCHEMAS) else []


def _is_physics_prim(spec: pxr.PrimSpec) -> bool:
    return str(spec.typeName).startswith(usd_physics.SCHEMA_PREFIX) or usd_physics.MATERIAL_API in _applied_schemas(
        spec
    )


def _is_physics_property(name: str) -> bool:
    """Whether a property belongs to the physics layer; exact values follow their attribute, primitives the geometry."""
    if name.startswith(kinema_usd.PRIMITIVE.name):
        return False
    return name.removeprefix(kinema_usd.EXACT_PREFIX).startswith(_PHYSICS_PROPERTIES)


def _is_physics_schema(name: str) -> bool:
    return name.startswith(_PHYSICS_SCHEMAS)


def _prune(spec: pxr.PrimSpec, strip: Callable[[pxr.PrimSpec], bool]) -> bool:
    """Apply `strip` to a prim and its descendants, removing children for which it returns False."""
    for child in list(spec.nameChildren):
        if not _prune(child, strip):
            del spec.nameChildren[child.name]
    return strip(spec)


def _strip_physics(spec: pxr.PrimSpec) -> bool:
    """Remove physics properties and schemas; returns False if the prim is not part of the geometry layer."""
    if _is_physics_prim(spec):
        return False
    for prop in list(spec.properties):
        if _is_physics_property(prop.name):
            spec.RemoveProperty(prop)
    _set_schemas(spec, [s for s in _applied_schemas(spec) if not _is_physics_schema(s)])
    return str(spec.typeName) != usd.SCOPE or bool(spec.nameChildren)


def _strip_geometry(spec: pxr.PrimSpec) -> bool:
    """Reduce a prim to an override with physics properties; returns False if nothing is left."""
    if _is_physics_prim(spec):
        return True
    for prop in list(spec.properties):
        if not _is_physics_property(prop.name):
            spec.RemoveProperty(prop)
    kept = [s for s in _applied_schemas(spec) if _is_physics_schema(s)]
    if any(p.name == usd.PHYSICS_BINDING for p in spec.properties):
        kept.append(usd.MATERIAL_BINDING_API)
    _set_schemas(spec, kept)
    only_physics = str(spec.typeName) == usd.SCOPE and all(_is_physics_prim(c) for c in spec.nameChildren)
    if not only_physics:  # it is defined by the geometry
        spec.specifier = pxr.Sdf.SpecifierOver
        spec.typeName = ""
    for key in (usd.KIND, usd.DISPLAY_NAME, usd.PAYLOAD):
        spec.ClearInfo(key)
    return bool(spec.nameChildren or list(spec.properties) or kept)


def _set_schemas(spec: pxr.PrimSpec, schemas: list[str]) -> None:
    if schemas:
        spec.SetInfo(usd.API_SCHEMAS, pxr.Sdf.TokenListOp.Create(prependedItems=schemas))
    else:
        spec.ClearInfo(usd.API_SCHEMAS)


# ---------------------------------------------------------------------------------------------------------------- files

_TARGET_PLACEHOLDER = "/__kinema_relative_"
_CHUNK_BYTES = 2**20
"""Size of text chunks [bytes]."""
_MAX_PLACEHOLDER_BYTES = 64
"""Upper bound of the placeholder length [bytes]."""


def save_stage(ctx: UsdContext, file: Path) -> None:
    """Write the stage and its layers into the folder of the file."""
    suffix = file.suffix.lower()
    if ctx.meshes.library is not None:
        name, layer = ctx.meshes.library
        _save_layer(layer, file.parent / name)
    if suffix == ".usdz":
        _save_package(ctx, file)
    elif ctx.options.layered:
        for name, layer in split_layers(ctx, file.name).items():
            (file.parent / name).parent.mkdir(parents=True, exist_ok=True)
            _save_layer(layer, file.parent / name)
    elif suffix == ".usda":
        _save_text_layer(ctx, file)
    else:
        _save_layer(ctx.builder.layer, file)


def _save_layer(layer: pxr.Layer, file: Path) -> None:
    """Export a layer to a file; raises a `WriteError` if OpenUSD fails."""
    try:
        done = layer.Export(str(file))
    except pxr.Tf.ErrorException as error:
        raise WriteError(f"{file.name}: OpenUSD cannot write it: {' '.join(str(error).split())}") from None
    if not done:
        raise WriteError(f"{file.name}: OpenUSD cannot write it")


def _save_text_layer(ctx: UsdContext, file: Path) -> None:
    """Write a text layer with relative body targets and fast formatting of long arrays.

    OpenUSD stores absolute targets and formats arrays slowly; both are replaced by placeholders during export.
    """
    layer = ctx.builder.layer
    relative: list[tuple[bytes]] = []
    with pxr.Sdf.ChangeBlock():
        for prim, name, target in ctx.builder.relative_targets:
            spec = ctx.builder.prims[prim].spec.relationships[name]
            spec.targetPathList.explicitItems = [f"{_TARGET_PLACEHOLDER}{len(relative)}"]
            relative.append((f"<{pxr.Sdf.Path(target).MakeRelativePath(pxr.Sdf.Path(prim))}>".encode(),))
    targets = _Placeholders(f"<{_TARGET_PLACEHOLDER}".encode(), b">", relative)
    lists = LongArrays(list(ctx.builder.long_arrays.values()))
    numbers = _Placeholders(PLACEHOLDER_BEGIN, PLACEHOLDER_END, lists)
    with pxr.Sdf.ChangeBlock():
        lists.insert_placeholders()
    if not (_save_with_replacements(layer, file, [targets, numbers]) and numbers.count == len(lists)):
        with pxr.Sdf.ChangeBlock():  # the robot itself has numbers that look like a stand-in
            lists.restore_values()
        _save_with_replacements(layer, file, [targets])


def _save_with_replacements(layer: pxr.Layer, file: Path, placeholder_tables: Sequence[_Placeholders]) -> bool:
    """Export a text layer and substitute placeholders; returns False if an unknown placeholder occurs."""
    made = file.with_name(f"{file.name}.made.usda")
    _save_layer(layer, made)
    with made.open("rb") as text, file.open("wb") as output:
        pieces: Iterable[bytes] = iter(lambda: text.read(_CHUNK_BYTES), b"")
        for stand_ins in placeholder_tables:
            pieces = stand_ins.replace_in(pieces)
        try:
            output.writelines(pieces)
        except (LookupError, ValueError):
            return False
    made.unlink()
    return True


class _ReplacementTexts(Protocol):
    """Texts of placeholders by index."""

    def __getitem__(self, index: int, /) -> Iterable[bytes]: ...


@dataclass
class _Placeholders:
    """Placeholders in a text: begin mark, index, end mark."""

    begin: bytes
    end: bytes
    texts: _ReplacementTexts
    count: int = 0
    """Number of substituted placeholders."""

    def replace_in(self, chunks: Iterable[bytes]) -> Iterator[bytes]:
        """Substitute placeholders in a text given in chunks."""
        rest = b""
        for piece in chunks:
            whole = rest + piece
            begun = whole.rfind(self.begin[:1], -_MAX_PLACEHOLDER_BYTES)  # what may go on in the next piece
            cut = begun if begun >= 0 and self.end not in whole[begun:] else len(whole)
            whole, rest = whole[:cut], whole[cut:]
            first, *others = whole.split(self.begin)
            yield first
            for other in others:
                number, _, after = other.partition(self.end)
                yield from self.texts[int(number.partition(b",")[0].rstrip(b")"))]
                yield after
                self.count += 1
        yield rest


def _save_package(ctx: UsdContext, file: Path) -> None:
    """Write a USDZ package of the stage and remove the separate files."""
    inner = file.with_suffix(".usdc")
    _save_layer(ctx.builder.layer, inner)
    try:
        done = pxr.UsdUtils.CreateNewUsdzPackage(str(inner), str(file))
    finally:
        inner.unlink(missing_ok=True)
        shutil.rmtree(file.parent / TEXTURES, ignore_errors=True)  # they are in the package
    if not done:
        raise WriteError(f"{file.name}: OpenUSD cannot pack it")
