"""Visual shapes of a scene for a page: one glTF node per link, and its infinite planes."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from kinema.core import Pose
from kinema.scene import Scene, visual_entities

from ..viewer.displayed_model import WORLD, DisplayedModel
from ..viewer.gltf_meshes import (
    GltfPrimitive,
    encode_glb_nodes,
    is_infinite_plane,
    merge_primitives,
    shape_primitives,
    simplify_primitive,
)

MAX_TRIANGLES = 300_000
"""Triangles of a scene; meshes of more are simplified."""


@dataclass(slots=True, eq=False)
class PageVisuals:
    """Visual geometry of a page: triangles by link, and infinite planes."""

    nodes: dict[str, list[GltfPrimitive]] = field(default_factory=dict)
    """Index of a link, or `world` -> primitives in the frame of the link."""
    planes: list[dict[str, Any]] = field(default_factory=list)
    """Position and quaternion (w, x, y, z) of infinite planes, and the row of their link or -1."""

    def encode(self) -> bytes:
        """Binary glTF file with one node per link, by its index."""
        count = sum(len(part.faces) for parts in self.nodes.values() for part in parts)
        if count > MAX_TRIANGLES:
            share = MAX_TRIANGLES / count
            self.nodes = {
                name: [simplify_primitive(part, share) for part in parts] for name, parts in self.nodes.items()
            }
        return encode_glb_nodes(self.nodes)


def page_visuals(scene: Scene) -> PageVisuals:
    """Visual shapes of all entities of a built scene, and collision shapes where there are none."""
    result = PageVisuals()
    for visual in visual_entities(scene):
        displayed = DisplayedModel(0, "", visual.description)
        drawn = displayed.drawn_shapes()
        for link, shapes in displayed.shapes_by_link().items():
            row = visual.link_rows.get(link)
            base = Pose() if row is not None else visual.base @ displayed.link_poses().get(link, Pose())
            parts = [
                _posed(part, base)
                for _, shape in drawn[link]
                for part in shape_primitives(shape)
                if np.isfinite(part.positions).all()
            ]
            name = WORLD if row is None else str(row)
            if parts:
                result.nodes[name] = merge_primitives([*result.nodes.get(name, []), *parts])
            for shape in shapes:
                if is_infinite_plane(shape):
                    pose = base @ shape.pose
                    result.planes.append(
                        {
                            "link": -1 if row is None else row,
                            "pos": pose.position.tolist(),
                            "quat": pose.quaternion.tolist(),
                        }
                    )
    return result


def _posed(part: GltfPrimitive, pose: Pose) -> GltfPrimitive:
    """Primitive in the frame that a pose maps to."""
    return replace(part, positions=pose.apply(part.positions), normals=part.normals @ pose.rotation.T)
