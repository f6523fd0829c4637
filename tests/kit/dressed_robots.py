"""Made-up robots, each for something that can be seen."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path

import numpy as np

from kinema.core import Pose
from kinema.description import Base, Inertial, Joint, JointKind, Link, Mesh, Robot, Shape, VisualMaterial, rotation
from kinema.geometry import Appearance, CornerAttribute, PbrMaterial

from .dressed_meshes import (
    BOX,
    dae_with_effects,
    dressed_box,
    everything,
    face_normals,
    obj_with_library,
    two_materials,
)


def _robot(name: str, *shapes: Shape) -> Robot:
    """A base and an arm that carries the shapes."""
    mass = Inertial(1.0, np.zeros(3), np.eye(3))
    for number, shape in enumerate(shapes):
        shape.name = shape.name or f"shape_{number}"
    links = [Link(name="base", inertial=mass), Link(name="arm", inertial=mass, shapes=list(shapes))]
    joints = [Joint(name="j", kind=JointKind.REVOLUTE, parent="base", child="arm", axes=[rotation((0, 0, 1))])]
    return Robot(name=name, links=links, joints=joints, base=Base.FIXED)


def _material(look: PbrMaterial) -> VisualMaterial:
    return VisualMaterial(**{f.name: getattr(look, f.name) for f in dataclasses.fields(PbrMaterial)})


def _seen(mesh: Mesh, **given: object) -> Shape:
    return Shape(geometry=mesh, collision=False, pose=Pose.translation((0.5, 0.0, 0.25)), **given)  # type: ignore[arg-type]


def parts(folder: Path) -> Robot:
    """A mesh given in place, with two materials."""
    mesh, appearance = dressed_box(*map(_material, two_materials(folder)))
    return _robot("parts", _seen(Mesh(vertices=mesh.vertices, faces=mesh.faces, appearance=appearance)))


def colliding_parts(folder: Path) -> Robot:
    """The same, and it collides."""
    robot = parts(folder)
    robot.links[1].shapes[0].collision = True
    return robot


def rich(folder: Path) -> Robot:
    """One material that says everything."""
    mesh, appearance = dressed_box()
    in_place = Mesh(vertices=mesh.vertices, faces=mesh.faces, appearance=appearance)
    return _robot("rich", _seen(in_place, material=_material(everything(folder))))


def mirrored(folder: Path) -> Robot:
    """A mesh under a mirroring scale."""
    mesh, appearance = dressed_box(*map(_material, two_materials(folder)))
    scale = np.array([1.0, -2.0, 0.5])
    return _robot("mirrored", _seen(Mesh(vertices=mesh.vertices, faces=mesh.faces, appearance=appearance, scale=scale)))


def faces_in_colors(folder: Path) -> Robot:
    """Faces in colours of their own."""
    del folder
    colors = np.column_stack([np.arange(12) % 3 / 2, np.arange(12) % 2, np.full(12, 0.25), np.ones(12)])
    layer = CornerAttribute(colors.astype(np.float64), np.repeat(np.arange(12)[:, None], 3, axis=1))
    appearance = Appearance(normals=face_normals(BOX), colors=layer)
    return _robot("faces", _seen(Mesh(vertices=BOX.vertices, faces=BOX.faces, appearance=appearance)))


def vertices_in_colors(folder: Path) -> Robot:
    """Colours that run across faces, with an opacity."""
    del folder
    colors = np.column_stack([np.arange(8) / 8, np.arange(8)[::-1] / 8, np.full(8, 0.5), np.full(8, 0.5)])
    appearance = Appearance(colors=CornerAttribute(colors, BOX.faces))
    return _robot("vertices", _seen(Mesh(vertices=BOX.vertices, faces=BOX.faces, appearance=appearance)))


def obj_file(folder: Path) -> Robot:
    """An OBJ with a library of two materials."""
    return _robot("obj", _seen(Mesh(path=str(obj_with_library(folder)), uri="box.obj")))


def dae_file(folder: Path) -> Robot:
    """A COLLADA file with two effects, scaled."""
    return _robot("dae", _seen(Mesh(path=str(dae_with_effects(folder)), uri="box.dae", scale=np.full(3, 2.0))))


def painted_over(folder: Path) -> Robot:
    """A mesh file whose materials are hidden by the shape's own."""
    paint = VisualMaterial(name="over", color=(0.75, 0.5, 0.25, 1.0))
    return _robot("over", _seen(Mesh(path=str(obj_with_library(folder)), uri="box.obj"), material=paint))


ROBOTS: dict[str, Callable[[Path], Robot]] = {
    make.__name__: make
    for make in (
        *(parts, colliding_parts, rich, mirrored, faces_in_colors, vertices_in_colors),
        *(obj_file, dae_file, painted_over),
    )
}
