"""One stage as a component of several layers: a small interface that loads geometry and physics as a payload.

Tools that only look at a robot open the geometry; those that simulate another way replace the physics.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import PurePosixPath

from kinema.words import mjc, newton, ours, physics, physx, usd

from ..textures import FOLDER as TEXTURES
from . import pxr
from .writing import Writing

_PHYSICS_PROPERTIES = (
    *physics.PROPERTIES,
    *(newton.NAMESPACE, mjc.NAMESPACE, physx.NAMESPACE, ours.NAMESPACE, usd.COLLECTION),
    usd.PHYSICS_BINDING,
)
_PHYSICS_SCHEMAS = (physics.SCHEMAS, newton.SCHEMAS, mjc.SCHEMAS, physx.SCHEMAS, usd.COLLECTION_API)
_STAGE_METADATA = (usd.UP_AXIS, usd.METERS_PER_UNIT, usd.KILOGRAMS_PER_UNIT, usd.DEFAULT_PRIM, usd.CUSTOM_LAYER_DATA)


def split_layers(writing: Writing, main: str) -> dict[str, pxr.Layer]:
    """File name -> layer, for all layers of the stage; names of files in folders have a slash."""
    whole = writing.draft.layer
    folder = f"{PurePosixPath(main).stem}_payload"
    geometry, simulated, contents, interface = (_new_layer(whole) for _ in range(4))
    for layer, keeps in ((geometry, _keep_geometry), (simulated, _keep_physics)):
        pxr.Sdf.CopySpec(whole, writing.plan.root, layer, writing.plan.root)
        _prune(layer.GetPrimAtPath(writing.plan.root), keeps)
    contents.subLayerPaths = ["./physics.usda", "./geometry.usdc"]
    _interface(writing, interface, f"./{folder}/contents.usda")
    if writing.meshes.library is not None:
        name = writing.meshes.library[0]
        _move_references(geometry, f"./{name}", f"../{name}")
    for layer in (geometry, simulated):
        _move_images(layer)
    return {
        f"{folder}/geometry.usdc": geometry,
        f"{folder}/physics.usda": simulated,
        f"{folder}/contents.usda": contents,
        main: interface,
    }


def _new_layer(whole: pxr.Layer) -> pxr.Layer:
    layer = pxr.Sdf.Layer.CreateAnonymous(".usda")
    for key in _STAGE_METADATA:
        if whole.pseudoRoot.HasInfo(key):
            layer.pseudoRoot.SetInfo(key, whole.pseudoRoot.GetInfo(key))
    return layer


def _interface(writing: Writing, layer: pxr.Layer, payload: str) -> None:
    root = writing.plan.root
    source = writing.draft.layer.GetPrimAtPath(root)
    prim = pxr.Sdf.CreatePrimInLayer(layer, root)
    prim.specifier, prim.typeName = source.specifier, source.typeName
    for key in (usd.KIND, usd.DISPLAY_NAME):
        if source.HasInfo(key):
            prim.SetInfo(key, source.GetInfo(key))
    prim.payloadList.prependedItems = [pxr.Sdf.Payload(payload)]
    for other in writing.draft.layer.rootPrims:
        if other.path != source.path:  # the scene of a robot stands beside it
            pxr.Sdf.CopySpec(writing.draft.layer, other.path, layer, other.path)


def _move_references(layer: pxr.Layer, old: str, new: str) -> None:
    layer.UpdateCompositionAssetDependency(old, new)


def _move_images(layer: pxr.Layer) -> None:
    """Images lie beside the interface, one folder above the layers that refer to them."""

    def move(path: pxr.Path) -> None:
        spec = layer.GetAttributeAtPath(path) if path.IsPropertyPath() else None
        if spec is not None and spec.typeName == "asset" and spec.default is not None:
            old = str(spec.default.path)
            if old.startswith(f"./{TEXTURES}/"):
                spec.default = pxr.Sdf.AssetPath(f".{old}")

    layer.Traverse("/", move)


# -- what goes where --------------------------------------------------------------------------------------------------


def _schemas(spec: pxr.PrimSpec) -> list[str]:
    return list(spec.GetInfo(usd.API_SCHEMAS).prependedItems) if spec.HasInfo(usd.API_SCHEMAS) else []


def _is_physics_prim(spec: pxr.PrimSpec) -> bool:
    return str(spec.typeName).startswith(physics.SCHEMAS) or physics.MATERIAL_API in _schemas(spec)


def _is_physics_property(name: str) -> bool:
    """An exact number goes where its attribute goes, and what a geometry stands for with the geometry."""
    if name.startswith(ours.SOLID.name):
        return False
    return name.removeprefix(ours.EXACT).startswith(_PHYSICS_PROPERTIES)


def _is_physics_schema(name: str) -> bool:
    return name.startswith(_PHYSICS_SCHEMAS)


def _prune(spec: pxr.PrimSpec, keeps: Callable[[pxr.PrimSpec], bool]) -> bool:
    """Take out of a prim, and of those below it, what a layer does not keep; whether anything is left."""
    for child in list(spec.nameChildren):
        if not _prune(child, keeps):
            del spec.nameChildren[child.name]
    return keeps(spec)


def _keep_geometry(spec: pxr.PrimSpec) -> bool:
    if _is_physics_prim(spec):
        return False
    for prop in list(spec.properties):
        if _is_physics_property(prop.name):
            spec.RemoveProperty(prop)
    _set_schemas(spec, [s for s in _schemas(spec) if not _is_physics_schema(s)])
    return str(spec.typeName) != usd.SCOPE or bool(spec.nameChildren)


def _keep_physics(spec: pxr.PrimSpec) -> bool:
    if _is_physics_prim(spec):
        return True
    for prop in list(spec.properties):
        if not _is_physics_property(prop.name):
            spec.RemoveProperty(prop)
    kept = [s for s in _schemas(spec) if _is_physics_schema(s)]
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
