"""Meshes with what is laid on them as COLLADA 1.4.1 files, images beside them.

Its common profile is Phong's model: a diffuse colour or an image, a highlight, a share of light that goes through.
What it has no word for is handed back as a list.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from kinema.shapes import Appearance, CornerValues, MeshData

from .dae_effects import DaeEffects
from .dressed_obj import rows
from .text import Element, number, to_xml
from .textures import Losses

_NAMESPACE = "http://www.collada.org/2005/11/COLLADASchema"


def dressed_dae(
    mesh: MeshData, appearance: Appearance | None, name: str, place: Callable[[str], str], losses: Losses
) -> str:
    """The mesh as a COLLADA file; positions read back exactly, the rest to nine digits.

    Args:
        mesh: the triangles, in metres; axes stay as they are.
        appearance: what is laid on them; None for nothing.
        name: what the mesh is called.
        place: puts an image beside the file and says where; `NoImage` where it cannot.
        losses: where to put what cannot be said.
    """
    looks = appearance or Appearance()
    root = Element("COLLADA", {"xmlns": _NAMESPACE, "version": "1.4.1"})
    asset = root.child("asset")
    asset.child("contributor").child("authoring_tool", "Kinema")
    for tag in ("created", "modified"):
        asset.child(tag, "2000-01-01T00:00:00")  # the same content is the same file
    asset.child("unit", name="meter", meter="1")
    asset.child("up_axis", "Z_UP")
    groups = [(look, faces) for look, faces in looks.faces_of_materials(mesh.n_faces) if len(faces)]
    effects = DaeEffects(place, losses)
    symbols = [effects.add(look) for look, _ in groups]
    root.children += effects.libraries()
    geometry = root.child("library_geometries").child("geometry", id="mesh", name=name)
    _fill(geometry.child("mesh"), mesh, looks, [(s, f) for s, (_, f) in zip(symbols, groups, strict=True)])
    _scene(root, name, [symbol for symbol in dict.fromkeys(symbols) if symbol])
    return to_xml(root)


def _fill(element: Element, mesh: MeshData, looks: Appearance, groups: Sequence[tuple[str, np.ndarray]]) -> None:
    layers = list(_layers(looks))
    _source(element, "positions", mesh.vertices, "XYZ", "%r")
    for _, name, axes, _, layer in layers:
        _source(element, name, layer.values, axes, "%.9g")
    vertices = element.child("vertices", id="vertices")
    vertices.child("input", semantic="POSITION", source="#positions")
    table = np.stack([mesh.faces, *(layer.corners for *_, layer in layers)], axis=-1)
    for symbol, faces in groups:
        made = element.child("triangles", count=str(len(faces)), material=symbol or None)
        made.child("input", semantic="VERTEX", source="#vertices", offset="0")
        for place, (semantic, name, _, number_of_set, _) in enumerate(layers, start=1):
            given = number_of_set if semantic == "TEXCOORD" else None
            made.child("input", semantic=semantic, source=f"#{name}", offset=str(place), set=given)
        made.child("p", rows("%d ", table[faces].reshape(-1)).strip())


def _layers(looks: Appearance) -> Iterator[tuple[str, str, str, str, CornerValues]]:
    """What each layer is called, its axes, the number of its set, and its values."""
    if looks.normals is not None:
        yield "NORMAL", "normals", "XYZ", "0", looks.normals
    for i, coordinates in enumerate(looks.coordinates):
        yield "TEXCOORD", f"coordinates_{i}", "ST", str(i), coordinates
    if looks.colors is not None:
        yield "COLOR", "colors", "RGBA", "0", looks.colors


def _source(element: Element, name: str, values: np.ndarray, axes: str, form: str) -> None:
    source = element.child("source", id=name)
    text = rows(f"{form} ", values.reshape(-1)).strip()
    source.child("float_array", text, id=f"{name}_array", count=str(values.size))
    accessor = source.child("technique_common").child(
        "accessor", source=f"#{name}_array", count=str(len(values)), stride=str(len(axes))
    )
    for axis in axes:
        accessor.child("param", name=axis, type="float")


def _scene(root: Element, name: str, symbols: Sequence[str]) -> None:
    scene = root.child("library_visual_scenes").child("visual_scene", id="scene")
    instance = scene.child("node", id="node", name=name).child("instance_geometry", url="#mesh")
    if symbols:
        common = instance.child("bind_material").child("technique_common")
        for symbol in symbols:
            bound = common.child("instance_material", symbol=symbol, target=f"#{symbol}")
            bound.child("bind_vertex_input", semantic="UV", input_semantic="TEXCOORD", input_set=number(0))
    root.child("scene").child("instance_visual_scene", url="#scene")
