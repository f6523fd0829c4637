"""The 3D side of the page: a node for every link, its shapes on it, the floor, the camera, and what is highlighted."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from kinema.description import Shape
from kinema.foundation import Array, Pose
from kinema.shapes import MeshData, merge

from .exhibit import WORLD, Exhibit, Part, bounds
from .floor import add_floor
from .glb import glb
from .painted import is_endless, painted, triangles

CHOSEN = (255, 140, 0)
"""The colour of what is selected."""
ALL = "All"
VIEWS = {
    ALL: (1.0, -0.85, 0.55),
    "Front": (1.0, 0.0, 0.0),
    "Side": (0.0, -1.0, 0.0),
    "Top": (1e-3, 0.0, 1.0),  # one that looks straight down would not know what is up
}
"""Directions from which one looks."""
_FIELD = math.radians(40.0)


class Stage:
    """All exhibits, as nodes of the page."""

    def __init__(self, viser: Any, exhibits: Sequence[Exhibit], *, plain: bool = False) -> None:
        self.viser = viser
        self.scene = viser.scene
        self.exhibits = list(exhibits)
        self.plain = plain
        """Whether shadows and mirrored light are left out, for browsers without a GPU."""
        self.on_pick: Callable[[Part], None] = lambda _: None
        """Called with the shape that is clicked on."""
        self.on_visual: list[Callable[[Any, Part], None]] = []
        """Called with every node that can be seen and grabbed, when it is made."""
        self.nodes: dict[tuple[int, str], Any] = {}
        self._starts: dict[tuple[int, str], Array] = {}
        self.visuals: list[Any] = []
        self._highlight: list[Any] = []
        self._around: list[Any] = []
        boxes = [box for exhibit in self.exhibits if (box := bounds(exhibit)) is not None]
        self.low = np.min([low for low, _ in boxes], axis=0) if boxes else np.full(3, -0.5)
        self.high = np.max([high for _, high in boxes], axis=0) if boxes else np.full(3, 0.5)

    @property
    def size(self) -> float:
        """How large everything is [m]: the diagonal of one exhibit, of those that there are."""
        return max(float(np.linalg.norm(self.high - self.low)) / max(len(self.exhibits), 1) ** 0.5, 1e-3)

    # --------------------------------------------------------------------------------------------------- building

    def build(self) -> None:
        """Make all nodes; those of an earlier time go."""
        with self.viser.atomic():
            self.scene.reset()
            self.nodes, self.visuals, self._highlight, self._around = {}, [], [], []
            self.scene.set_up_direction("+z")
            self.scene.world_axes.visible = False
            self._surround()
            for exhibit in self.exhibits:
                self._add(exhibit)
        self.frame()

    def draw_plainly(self, plain: bool) -> None:
        """With shadows, mirrored light and a filled floor, or without."""
        with self.viser.atomic():
            for handle in self._around:
                handle.remove()
            self.plain = plain
            self._surround()

    def _surround(self) -> None:
        """Light and floor."""
        self._around = [*self._light(), add_floor(self.scene, self.floor, self.size, plain=self.plain)]

    def _light(self) -> list[Any]:
        self.scene.configure_default_lights(enabled=not self.plain)
        self.scene.configure_environment_map(None if self.plain else "studio", environment_intensity=0.35)
        if not self.plain:
            return []
        sky, ground = (255, 255, 255), (185, 190, 200)
        return [  # two lamps, one of which also shines on sides that are turned away from the other
            self.scene.add_light_hemisphere("/light/sky", sky_color=sky, ground_color=ground, intensity=1.6),
            self.scene.add_light_directional("/light/sun", intensity=3.0, position=(-0.2, 0.2, 1.0)),
        ]

    @property
    def floor(self) -> Pose:
        """Where the first endless plane of the files is, else under everything."""
        planes = [
            exhibit.offset @ shape.pose
            for exhibit in self.exhibits
            for shape in exhibit.statics
            if is_endless(shape) and shape.visual
        ]
        low = min(0.0, float(self.low[2])) if self.low[2] < -1e-3 * self.size else 0.0
        return planes[0] if planes else Pose.translation((0.0, 0.0, low))

    def _add(self, exhibit: Exhibit) -> None:
        poses = exhibit.poses()
        for i, (link, shapes) in enumerate({**{link: [] for link in poses}, **exhibit.drawn()}.items()):
            pose = poses[link] if poses[link].is_finite else Pose()
            name = f"/{exhibit.number}/{i}"
            node = self.scene.add_frame(name, show_axes=False, position=pose.position, wxyz=pose.quaternion)
            self.nodes[exhibit.number, link] = node
            self._starts[exhibit.number, link] = pose.position
            for j, shape in shapes:
                self._add_visual(Part(exhibit.number, "shape", link, j), f"{name}/visual/{j}", shape)

    def _add_visual(self, part: Part, name: str, shape: Shape) -> None:
        parts = painted(shape)
        if not parts:
            return
        handle = self.scene.add_glb(name, glb(parts))
        self.visuals.append(handle)
        self.pickable(handle, part)

    def pickable(self, handle: Any, part: Part) -> None:
        """Let a node be clicked on and dragged."""
        handle.on_click(lambda _: self.on_pick(part))
        for listener in self.on_visual:
            listener(handle, part)

    def under(self, exhibit: Exhibit, link: str | None) -> str:
        """The name of a link's node; what is named below it moves with it. None for the exhibit's world."""
        return self.nodes[exhibit.number, WORLD if link is None else link].name

    # ---------------------------------------------------------------------------------------------------- moving

    def pose(self, exhibit: Exhibit, poses: Mapping[str, tuple[Array, Array]]) -> None:
        """Put links at positions and quaternions."""
        for link, (position, quaternion) in poses.items():
            node = self.nodes.get((exhibit.number, link))
            if node is not None and np.isfinite(position).all() and np.isfinite(quaternion).all():
                node.position, node.wxyz = position, quaternion

    def frame(self, client: Any = None, view: str = ALL) -> None:
        """Look at everything: new visitors from the start, or one who is here now, at where it has come to."""
        low, high = (self.low, self.high) if client is None else self._box_now()
        middle, radius = (low + high) / 2, max(float(np.linalg.norm(high - low)) / 2, 1e-3)
        direction = np.array(VIEWS[view])
        place = middle + direction / np.linalg.norm(direction) * radius * 1.12 / math.sin(_FIELD / 2)
        right = np.cross(direction, (0.0, 0.0, -1.0)) / np.linalg.norm(direction[:2])
        place, middle = place + 0.3 * radius * right, middle + 0.3 * radius * right  # where the panel is
        camera = self.viser.initial_camera if client is None else client.camera
        if client is None:
            camera.near, camera.far, camera.fov = radius / 200, radius * 500, _FIELD
        camera.position, camera.look_at = place, middle

    def _box_now(self) -> tuple[Array, Array]:
        """Around all links, with as much beside their frames as at the start; and around the start, if it is near."""
        links = [key for key in self.nodes if key[1] != WORLD]
        if not links:
            return self.low, self.high
        now, then = np.array([(self.nodes[key].position, self._starts[key]) for key in links]).swapaxes(0, 1)
        low = now.min(axis=0) - then.min(axis=0) + self.low
        high = now.max(axis=0) - then.max(axis=0) + self.high
        near = (low <= self.high).all() and (high >= self.low).all()
        return (np.minimum(low, self.low), np.maximum(high, self.high)) if near else (low, high)

    # ----------------------------------------------------------------------------------------------- highlighting

    def highlight(self, part: Part | None, color: tuple[int, int, int] = CHOSEN) -> None:
        """Let one part shine, and no other."""
        with self.viser.atomic():
            for handle in self._highlight:
                handle.remove()
            self._highlight = [] if part is None else self.paint(part, color, "highlight")

    def paint(self, part: Part, color: tuple[int, int, int], layer: str, opacity: float = 0.6) -> list[Any]:
        """Lay a colour over a part; the nodes that do."""
        exhibit = self.exhibits[part.exhibit]
        link = part.name
        if part.kind == "joint":
            joint = exhibit.joints[part.name]
            number = next(i for i, m in enumerate(exhibit.mechanisms) if joint in m.robot.joints)
            link = exhibit.unique_link(number, joint.child) or exhibit.unique_link(number, joint.parent) or WORLD
        shapes = [shape for _, shape in exhibit.drawn().get(link, [])]
        if part.kind == "shape":
            shapes = [exhibit.shapes(link)[part.index]]
        meshes = [(s, mesh) for s in shapes if not is_endless(s) and (mesh := triangles(s)) is not None]
        under = self.under(exhibit, link)
        name = f"{under}/{layer}/{part.kind}{part.index}"
        if not meshes:
            return [
                self.scene.add_frame(
                    name, axes_length=0.15 * self.size, axes_radius=0.006 * self.size, origin_color=color
                )
            ]
        joined = merge([MeshData(s.pose.apply(_grown(m, 0.002 * self.size)), m.faces) for s, m in meshes])
        return [
            self.scene.add_mesh_simple(
                name, joined.vertices, joined.faces, color=color, opacity=opacity, side="double", cast_shadow=False
            )
        ]


def _grown(mesh: MeshData, by: float) -> Array:
    """Vertices moved outwards a little, so that what is laid over a surface does not flicker with it."""
    a, b, c = (mesh.triangles()[:, i] for i in range(3))
    normals = np.cross(b - a, c - a)
    sums = np.zeros_like(mesh.vertices)
    for corner in range(3):
        np.add.at(sums, mesh.faces[:, corner], normals)
    lengths = np.linalg.norm(sums, axis=1, keepdims=True)
    return mesh.vertices + by * sums / np.where(lengths > 0, lengths, 1.0)
