"""COLLADA (.dae): the triangles of the scene with their node transforms, in metres.

`<unit meter="...">` is applied. `<up_axis>` is not: the coordinates come out in the axes they are written in, and the
declaration is passed on. That is how robot tools have always shown these files (RViz, Gazebo and their relatives undo
the rotation their importer makes for it), and robot descriptions are written to look right there; a file that says Y_UP
while its robot stands upright is common.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple
from xml.etree.ElementTree import Element

import numpy as np

from kinema.shapes.formats.collada_document import ColladaDocument
from kinema.shapes.formats.collada_effects import ColladaEffects
from kinema.shapes.formats.collada_geometry import ColladaGeometry, read_geometry
from kinema.shapes.formats.numbers import parse_floats
from kinema.shapes.formats.scene import SceneBuilder, axis_angle_matrix, scale_matrix, translation_matrix
from kinema.shapes.formats.source import LoadedMesh, MeshSource
from kinema.shapes.formats.xml_tree import parse_xml
from kinema.shapes.mesh_data import FloatArray, MeshError


def read_collada(source: MeshSource) -> LoadedMesh:
    """Read the visual scene of a COLLADA document."""
    root = parse_xml(source.data, source.limits)
    if root.tag != "COLLADA":
        raise MeshError(f"The XML is not COLLADA: its root element is <{root.tag[:40]}>.")
    document = ColladaDocument(root, source.limits, source.folder)
    effects = ColladaEffects(document)
    scene = SceneBuilder(source.limits)
    metres = scale_matrix(np.full(3, _unit(root)))
    meshes: dict[int, ColladaGeometry] = {}
    for placed in _placed_geometries(document, scene):
        geometry = placed.geometry
        if id(geometry) not in meshes:
            meshes[id(geometry)] = read_geometry(document, geometry, looks=source.looks)
        # robot tools call a part by the name of its node
        names = [e.get(key) for e in (placed.node, geometry) if e is not None for key in ("name", "id")]
        found = meshes[id(geometry)]
        scene.place(found.mesh, metres @ placed.pose, names, effects.bound(found.appearance, placed.instance))
    up_axis = (root.findtext("asset/up_axis") or "").strip()
    appearance = scene.appearance() if source.looks else None
    return LoadedMesh(scene.build(), up_axis or None, document.notes(), scene.parts, appearance, document.unseen())


class _Placed(NamedTuple):
    """A geometry in the scene."""

    geometry: Element
    pose: FloatArray
    """4x4, in the file's units."""
    node: Element | None = None
    instance: Element | None = None
    """What placed it, which may bind materials."""


def _unit(root: Element) -> float:
    """Length of the file's unit [m]."""
    unit = root.find("asset/unit")
    metres = float(unit.get("meter", "1")) if unit is not None else 1.0
    if not (math.isfinite(metres) and metres > 0.0):
        raise MeshError(f"The COLLADA unit is {metres} metres.")
    return metres


# Scene ----------------------------------------------------------------------------------------------------------------


def _placed_geometries(document: ColladaDocument, scene: SceneBuilder) -> Iterator[_Placed]:
    """Every geometry instance, depth first, in file order."""
    roots = _scene_nodes(document)
    if roots is None:
        document.note("There is no scene; every geometry was taken once, where it is.")
        for geometry in document.root.iterfind("library_geometries/geometry"):
            yield _Placed(geometry, np.eye(4))
        return
    pending = [(node, np.eye(4), 1) for node in reversed(roots)]
    while pending:
        node, parent_pose, depth = pending.pop()
        scene.visit_node(depth)
        pose = parent_pose @ _node_matrix(node)
        yield from _own_geometries(document, node, pose)
        children = [_child_node(document, child) for child in node if child.tag in ("node", "instance_node")]
        pending += [(child, pose, depth + 1) for child in reversed(children)]


def _scene_nodes(document: ColladaDocument) -> list[Element] | None:
    instance = document.root.find("scene/instance_visual_scene")
    if instance is not None:
        visual_scene = document.target(instance, "url", "visual_scene")
    else:
        visual_scene = document.root.find("library_visual_scenes/visual_scene")
    return None if visual_scene is None else visual_scene.findall("node")


def _child_node(document: ColladaDocument, child: Element) -> Element:
    return child if child.tag == "node" else document.target(child, "url", "node")


def _own_geometries(document: ColladaDocument, node: Element, pose: FloatArray) -> Iterator[_Placed]:
    for instance in node:
        if instance.tag == "instance_geometry":
            yield _Placed(document.target(instance, "url", "geometry"), pose, node, instance)
        elif instance.tag == "instance_controller":
            yield _Placed(*_controlled_geometry(document, instance, pose), node, instance)


def _controlled_geometry(document: ColladaDocument, instance: Element, pose: FloatArray) -> tuple[Element, FloatArray]:
    """The mesh behind a skin or morph, as it was modelled."""
    document.note("A skinned or morphing mesh was taken in the shape it was modelled in.")
    controller = document.target(instance, "url", "controller")
    skin = controller.find("skin")
    if skin is None:
        morph = controller.find("morph")
        if morph is None:
            raise MeshError("A COLLADA controller has neither a skin nor a morph.")
        return document.target(morph, "source", "geometry"), pose
    bind = skin.find("bind_shape_matrix")
    bind_pose = np.eye(4) if bind is None else _numbers(bind, 16).reshape(4, 4)
    return document.target(skin, "source", "geometry"), pose @ bind_pose


def _node_matrix(node: Element) -> FloatArray:
    """Product of the transforms of a node, in file order."""
    matrix = np.eye(4)
    for child in node:
        if child.tag == "matrix":
            matrix = matrix @ _numbers(child, 16).reshape(4, 4)
        elif child.tag == "translate":
            matrix = matrix @ translation_matrix(_numbers(child, 3))
        elif child.tag == "scale":
            matrix = matrix @ scale_matrix(_numbers(child, 3))
        elif child.tag == "rotate":
            *axis, degrees = _numbers(child, 4).tolist()
            # Exporters write zero rotations about a zero axis.
            if degrees != 0.0:
                matrix = matrix @ axis_angle_matrix(np.array(axis), math.radians(degrees))
        elif child.tag == "lookat":
            matrix = matrix @ _look_at(_numbers(child, 9).reshape(3, 3))
        elif child.tag == "skew":
            raise MeshError("The COLLADA scene uses <skew>, which is not supported.")
    return matrix


def _look_at(points: FloatArray) -> FloatArray:
    eye, target, up = points
    z = (eye - target) / np.linalg.norm(eye - target)
    x = np.cross(up, z) / np.linalg.norm(np.cross(up, z))
    matrix = translation_matrix(eye)
    matrix[:3, :3] = np.stack([x, np.cross(z, x), z], axis=-1)
    return matrix


def _numbers(element: Element, count: int) -> FloatArray:
    values = parse_floats((element.text or "").encode())
    if len(values) != count:
        raise MeshError(f"A COLLADA <{element.tag}> has {len(values)} numbers instead of {count}.")
    return values
