"""What is seen of a written robot, by readers that are not ours: trimesh for mesh files, OpenUSD for stages.

Only where links are comes from our own readers, which are judged elsewhere (docs/judges.md).
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import trimesh
from scipy.spatial.transform import Rotation

_Paint = tuple[tuple[float, ...], Any]
"""A colour, and an image or None."""
_GREY = (0.5, 0.5, 0.5, 1.0)
"""Of what says no colour."""


@dataclass(frozen=True)
class SeenPart:
    """Triangles of one material, in the world."""

    corners: np.ndarray
    """Shape (n, 3, 3) [m]."""
    normals: np.ndarray | None
    """Shape (n, 3, 3)."""
    coordinates: np.ndarray | None
    """Shape (n, 3, 2); v upwards."""
    color: tuple[float, ...]
    image: Any = None
    """A picture of Pillow's."""


def foreign_parts(file: Path, poses: dict[str, np.ndarray]) -> list[SeenPart]:
    """All that is seen of a URDF, SDFormat or USD file.

    Args:
        file: the file.
        poses: of links in the world; OpenUSD finds them by itself.
    """
    if file.suffix == ".usda":
        return list(_of_stage(file))
    root = ElementTree.parse(file).getroot()
    read = _of_urdf if file.suffix == ".urdf" else _of_sdf
    return [part for link in root.iter("link") for part in read(file, root, link, poses[link.get("name", "")])]


def _matrix(position: str | None, angles: str | None) -> np.ndarray:
    pose = np.eye(4)
    pose[:3, :3] = Rotation.from_euler("xyz", [float(x) for x in (angles or "0 0 0").split()]).as_matrix()
    pose[:3, 3] = [float(x) for x in (position or "0 0 0").split()]
    return pose


# -- URDF and SDFormat -------------------------------------------------------------------------------------------------


def _of_urdf(file: Path, root: Any, link: Any, pose: np.ndarray) -> Iterator[SeenPart]:
    defined = {m.get("name"): m for m in root.findall("material")}
    for visual in link.findall("visual"):
        origin, material = visual.find("origin"), visual.find("material")
        place = np.eye(4) if origin is None else _matrix(origin.get("xyz"), origin.get("rpy"))
        said = material if material is None or len(material) else defined[material.get("name")]
        color = None if said is None else _urdf_color(file, said)
        (geometry,) = visual.find("geometry")
        sizes = {name: [float(x) for x in text.split()] for name, text in geometry.attrib.items() if name != "filename"}
        yield from _shaped(file, geometry.tag, geometry.get("filename"), sizes, pose @ place, color)


def _urdf_color(file: Path, material: Any) -> _Paint:
    color, texture = material.find("color"), material.find("texture")
    own = (1.0,) * 4 if color is None else tuple(float(x) for x in color.get("rgba").split())
    return own, None if texture is None else _opened(file.parent / texture.get("filename"))


def _opened(path: Path) -> Any:
    with importlib.import_module("PIL.Image").open(path) as image:
        return image.copy()


def _of_sdf(file: Path, root: Any, link: Any, pose: np.ndarray) -> Iterator[SeenPart]:
    del root
    for visual in link.findall("visual"):
        given = (visual.findtext("pose") or "0 0 0 0 0 0").split()
        color = visual.findtext("material/diffuse")
        (geometry,) = visual.find("geometry")
        sizes = {e.tag: [float(x) for x in (e.text or "").split()] for e in geometry if e.tag not in ("uri", "submesh")}
        place = pose @ _matrix(" ".join(given[:3]), " ".join(given[3:]))
        image = visual.findtext("material/pbr/metal/albedo_map")
        own = None if color is None else tuple(float(x) for x in color.split())
        own = None if own is None and image is None else (own or (1.0,) * 4, image and _opened(file.parent / image))
        yield from _shaped(file, geometry.tag, geometry.findtext("uri"), sizes, place, own)


def _shaped(
    file: Path, kind: str, reference: str | None, sizes: dict[str, list[float]], pose: np.ndarray, paint: _Paint | None
) -> Iterator[SeenPart]:
    if kind != "mesh":
        mesh = {
            "box": lambda: trimesh.creation.box(sizes["size"]),
            "sphere": lambda: trimesh.creation.icosphere(subdivisions=4, radius=sizes["radius"][0]),
            "cylinder": lambda: trimesh.creation.cylinder(sizes["radius"][0], sizes["length"][0], sections=64),
            "capsule": lambda: trimesh.creation.capsule(sizes["length"][0], sizes["radius"][0], count=[64, 64]),
        }[kind]()
        mesh.apply_transform(pose)
        yield SeenPart(mesh.triangles, None, None, _GREY if paint is None else paint[0])
        return
    scene: Any = trimesh.load_scene(file.parent / (reference or ""), process=False)
    scale = np.diag([*sizes.get("scale", [1.0, 1.0, 1.0]), 1.0])
    for name in scene.graph.nodes_geometry:
        transform, key = scene.graph[name]
        yield _of_trimesh(scene.geometry[key], pose @ scale @ transform, paint)


def _of_trimesh(mesh: Any, pose: np.ndarray, paint: _Paint | None) -> SeenPart:
    corners = trimesh.transform_points(mesh.vertices, pose)[mesh.faces]
    has_normals = "vertex_normals" in mesh._cache.cache
    normals = (mesh.vertex_normals @ np.linalg.inv(pose[:3, :3]))[mesh.faces] if has_normals else None
    uv = getattr(mesh.visual, "uv", None)
    material = getattr(mesh.visual, "material", None)
    image = getattr(material, "baseColorTexture", None) or getattr(material, "image", None)
    color = getattr(material, "diffuse", None) if hasattr(material, "image") else None
    color = getattr(material, "baseColorFactor", None) if color is None else color
    own = np.ones(4) if color is None and image is not None else np.asarray(_GREY if color is None else color / 255.0)
    whole = paint or (tuple(own.tolist()), image)
    return SeenPart(corners, normals, None if uv is None else uv[mesh.faces], *whole)


# -- USD ---------------------------------------------------------------------------------------------------------------


def _of_stage(file: Path) -> Iterator[SeenPart]:
    usd, geom = (importlib.import_module(f"pxr.{name}") for name in ("Usd", "UsdGeom"))
    stage: Any = usd.Stage.Open(str(file))
    places = geom.XformCache()
    for prim in stage.Traverse():
        if not prim.IsA(geom.Gprim) or geom.Imageable(prim).ComputePurpose() != "default":
            continue
        if geom.Imageable(prim).ComputeVisibility() == "invisible":
            continue
        pose = np.array(places.GetLocalToWorldTransform(prim)).T
        if prim.IsA(geom.Mesh):
            yield from _of_mesh(prim, pose)
        else:
            yield _of_primitive(prim, pose)


def _of_primitive(prim: Any, pose: np.ndarray) -> SeenPart:
    paint = _color_of(prim)

    def size(name: str) -> list[float]:
        return [float(prim.GetAttribute(name).Get())]

    kind = prim.GetTypeName()
    if kind == "Cube":
        (shape,) = _shaped(Path(), "box", None, {"size": size("size") * 3}, pose, paint)
    else:
        word = {"radius": size("radius"), "length": [1.0] if kind == "Sphere" else size("height")}
        (shape,) = _shaped(Path(), kind.lower(), None, word, pose, paint)
    return shape


def _of_mesh(prim: Any, pose: np.ndarray) -> Iterator[SeenPart]:
    geom, shade = (importlib.import_module(f"pxr.{name}") for name in ("UsdGeom", "UsdShade"))
    mesh = geom.Mesh(prim)
    points = trimesh.transform_points(np.array(mesh.GetPointsAttr().Get(), dtype=float), pose)
    faces = np.array(mesh.GetFaceVertexIndicesAttr().Get()).reshape(-1, 3)
    primvars = geom.PrimvarsAPI(prim)
    normals = _layer(primvars.GetPrimvar("normals"), faces)
    if normals is None and mesh.GetNormalsAttr().HasAuthoredValue():
        normals = _spread(np.array(mesh.GetNormalsAttr().Get()), mesh.GetNormalsInterpolation(), faces)
    if normals is not None:
        normals = normals @ np.linalg.inv(pose[:3, :3])
        normals /= np.linalg.norm(normals, axis=-1, keepdims=True)
    coordinates = _layer(primvars.GetPrimvar("st"), faces)
    subsets = shade.MaterialBindingAPI(prim).GetMaterialBindSubsets()
    groups = [(s.GetPrim(), np.array(s.GetIndicesAttr().Get())) for s in subsets] or [(prim, np.arange(len(faces)))]
    for owner, chosen in groups:
        color, image = _color_of(owner)
        yield SeenPart(
            points[faces][chosen],
            None if normals is None else normals[chosen],
            None if coordinates is None else coordinates[chosen],
            color,
            image,
        )


def _layer(primvar: Any, faces: np.ndarray) -> np.ndarray | None:
    if not primvar or not primvar.HasValue():
        return None
    return _spread(np.array(primvar.ComputeFlattened()), primvar.GetInterpolation(), faces)


def _spread(values: np.ndarray, interpolation: str, faces: np.ndarray) -> np.ndarray:
    """Values of points, faces or corners as those of corners."""
    if interpolation == "vertex":
        return values[faces].astype(float)
    if interpolation == "uniform":
        return np.repeat(values[:, None], 3, axis=1).astype(float)
    return values.reshape(len(faces), 3, -1).astype(float)


def _color_of(prim: Any) -> tuple[tuple[float, ...], Any]:
    """The colour and image of what is bound to a prim, else the colour that it is displayed in."""
    geom, shade = (importlib.import_module(f"pxr.{name}") for name in ("UsdGeom", "UsdShade"))
    material = shade.MaterialBindingAPI(prim).ComputeBoundMaterial()[0]
    surface = material.ComputeSurfaceSource()[0] if material else None
    if surface:
        given, opacity = surface.GetInput("diffuseColor"), surface.GetInput("opacity")
        alpha = 1.0 if not opacity or opacity.Get() is None else float(opacity.Get())
        if given and given.HasConnectedSource():
            texture = shade.Shader(given.GetConnectedSources()[0][0].source.GetPrim())
            path = texture.GetInput("file").Get().resolvedPath
            scale = texture.GetInput("scale").Get() if texture.GetInput("scale") else (1, 1, 1, 1)
            return (*map(float, scale[:3]), alpha), _opened(path)
        if given and given.Get() is not None:
            return (*map(float, given.Get()), alpha), None
    color = geom.Gprim(prim).GetDisplayColorAttr().Get() if prim.IsA(geom.Gprim) else None
    return ((*map(float, color[0]), 1.0) if color else _GREY), None
