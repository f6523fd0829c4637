"""3D scene of the page: nodes of links and shapes, floor, lights, camera, highlights, grid of environments."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from kinema.core import Array, Pose
from kinema.description import Shape
from kinema.geometry import MeshData, merge_meshes

from .displayed_model import WORLD, DisplayedModel, ElementRef, bounding_box
from .gltf_meshes import (
    GltfPrimitive,
    encode_glb,
    is_infinite_plane,
    merge_primitives,
    planar_texture_coordinates,
    shape_primitives,
    shape_triangles,
    simplify_primitive,
)

# ---------------------------------------------------------------------------------------------------------------- floor

_PLANE_COLOR, _CELL_COLOR, _SECTION_COLOR = (238, 240, 243), (205, 208, 214), (168, 173, 182)
_GRID_FADE_DISTANCE, _LINES_RADIUS = 16.0, 7.0
"""How far the grid is seen, and the lines, in sizes of what stands on it."""
_SEGMENTS_PER_LINE = 12
_TEXTURE_RADIUS = 12.0
"""Radius of the floor with a texture, in sizes of what stands on it."""
_WHITE_RADIANCE = 6.0
"""The light that comes out white on the page, where one is light grey."""


def add_floor(
    scene: Any, pose: Pose, size: float, center: Array, *, simple_shading: bool, plane: Shape | None = None
) -> Any:
    """Add the floor slightly below its pose, to avoid z-fighting; returns its node.

    Args:
        scene: scene of the page.
        pose: frame of the floor, z upwards.
        size: size of the displayed models [m].
        center: point [m] below which the part of the floor with a texture is centred.
        simple_shading: no shading, and grid lines only unless the plane has a texture, because filling the floor takes
            half of the frame time in software rendering.
        plane: infinite plane of a file, whose texture is drawn.
    """
    cell = 10.0 ** math.floor(math.log10(size))
    place = pose.position - 1e-3 * size * pose.rotation[:, 2]
    if plane is not None and plane.material is not None and plane.material.texture:
        disc = replace(
            _textured_disc(plane, pose.inverse().apply(center), _TEXTURE_RADIUS * size), is_lit=not simple_shading
        )
        return scene.add_glb("/floor/0", encode_glb([disc]), position=place, wxyz=pose.quaternion, cast_shadow=False)
    if simple_shading:
        apart = cell * (0.5 if size < 2.5 * cell else 1.0 if size < 5.0 * cell else 2.0)
        lines = _grid_lines(_LINES_RADIUS * size, apart, 1e-3 * size)
        return scene.add_glb("/floor/0", encode_glb([lines]), position=place, wxyz=pose.quaternion, cast_shadow=False)
    return scene.add_grid(
        "/floor/0",
        infinite_grid=True,
        cell_size=cell / 2,
        section_size=cell * 2,
        fade_distance=_GRID_FADE_DISTANCE * size,
        fade_strength=2.0,
        position=place,
        wxyz=pose.quaternion,
        cell_color=_CELL_COLOR,
        section_color=_SECTION_COLOR,
        plane_color=_PLANE_COLOR,
        plane_opacity=1.0,
        shadow_opacity=0.25,
    )


def _textured_disc(plane: Shape, center: Array, radius: float) -> GltfPrimitive:
    """Disc of an infinite plane with its texture, which becomes transparent towards its rim."""
    fractions = np.linspace(0.0, 1.0, 13) ** 1.5
    angles = np.linspace(0.0, 2.0 * math.pi, 49)
    rings = radius * fractions[:, None]
    x, y = center[0] + rings * np.cos(angles), center[1] + rings * np.sin(angles)
    points = np.stack([x, y, np.zeros_like(x)], axis=-1).reshape(-1, 3)
    i = np.arange(len(points)).reshape(x.shape)
    a, b, c, d = (corner.ravel() for corner in (i[:-1, :-1], i[1:, :-1], i[1:, 1:], i[:-1, 1:]))
    colors = np.ones((len(points), 4))
    colors[:, 3] = np.repeat(np.clip((1.0 - fractions) / 0.8, 0.0, 1.0), len(angles))
    assert plane.material is not None
    red, green, blue, _ = plane.material.color or (1.0, 1.0, 1.0, 1.0)
    return GltfPrimitive(
        points,
        np.tile([0.0, 0.0, 1.0], (len(points), 1)),
        np.concatenate([np.stack([a, b, c], 1), np.stack([a, c, d], 1)]),
        replace(plane.material, color=(red, green, blue, 0.999)),  # transparent, so that its rim is blended
        texture_coordinates=planar_texture_coordinates(plane, points),
        colors=colors,
    )


def _grid_lines(radius: float, cell: float, width: float) -> GltfPrimitive:
    """Grid lines as thin strips, subdivided so that their colour can fade into the white background."""
    count = math.floor(radius / cell)
    points, faces = [], []
    for number, swap in ((n, s) for n in range(-count, count + 1) for s in (False, True)):
        at = number * cell
        along = math.sqrt(radius**2 - at**2) * np.linspace(-1.0, 1.0, _SEGMENTS_PER_LINE + 1)
        sides = [np.stack([along, np.full_like(along, at + side), np.zeros_like(along)], 1) for side in (-width, width)]
        strip = np.concatenate(sides)
        i = 2 * (_SEGMENTS_PER_LINE + 1) * len(points) + np.arange(_SEGMENTS_PER_LINE)
        turned = np.concatenate(
            [
                np.stack([i, i + 1, i + _SEGMENTS_PER_LINE + 1], 1),
                np.stack([i + 1, i + _SEGMENTS_PER_LINE + 2, i + _SEGMENTS_PER_LINE + 1], 1),
            ]
        )
        points.append(strip[:, [1, 0, 2]] if swap else strip)
        faces.append(turned[:, ::-1] if swap else turned)
    places = np.concatenate(points)
    fade = np.clip(np.linalg.norm(places, axis=1) / radius, 0.0, 1.0)[:, None] ** 2
    light = (np.array(_SECTION_COLOR) / 255.0) ** 2.2 * (1.0 - fade) + _WHITE_RADIANCE * fade
    colors = np.concatenate([light, np.ones_like(fade)], axis=1)
    normals = np.tile([0.0, 0.0, 1.0], (len(places), 1))
    return GltfPrimitive(places, normals, np.concatenate(faces), colors=colors, is_closed=True, is_lit=False)


# ---------------------------------------------------------------------------------------------------------- scene graph

SELECTION_COLOR = (255, 140, 0)
"""The colour of what is selected."""
DEFAULT_VIEW = "All"
VIEW_DIRECTIONS = {
    DEFAULT_VIEW: (1.0, -0.85, 0.55),
    "Front": (1.0, 0.0, 0.0),
    "Side": (0.0, -1.0, 0.0),
    "Top": (1e-3, 0.0, 1.0),  # one that looks straight down would not know what is up
}
"""Directions from which one looks."""
_FIELD_OF_VIEW = math.radians(40.0)
_FOLLOW_STEP = 0.01
"""Distance, in sizes of the scene, that a followed link moves before the camera does."""
DEFAULT_PAGE_SIZE = (1280, 760)
"""Width and height of the page [pixels] until a browser has reported its own."""
_PANEL_WIDTH, _NARROW_PAGE = 400, 700
"""Width of the panel [pixels], and width of pages below which the panel is folded."""


def frame_beside_panel(radius: float, width: float, height: float) -> tuple[float, float]:
    """Distance of the camera [m] at which a sphere fits beside the panel, and shift of the camera to the right [m].

    Args:
        radius: radius of the sphere [m].
        width: width of the page [pixels].
        height: height of the page [pixels].
    """
    panel = _PANEL_WIDTH if width > _NARROW_PAGE else 0
    slope = math.tan(_FIELD_OF_VIEW / 2)
    beside = math.atan(slope * (width - panel) / max(height, 1))
    distance = 1.25 * radius / math.sin(min(_FIELD_OF_VIEW / 2, beside))
    return distance, distance * slope * panel / max(height, 1)


def place_camera(camera: Any, low: Array, high: Array, view: str, width: float, height: float) -> float:
    """Point a camera at a box beside the panel; returns the radius of the box [m].

    Args:
        camera: camera of the page or of a client.
        low: lower corner of the box [m].
        high: upper corner of the box [m].
        view: direction, a key of `VIEW_DIRECTIONS`.
        width: width of the page [pixels].
        height: height of the page [pixels].
    """
    middle, radius = (low + high) / 2, max(float(np.linalg.norm(high - low)) / 2, 1e-3)
    direction = np.array(VIEW_DIRECTIONS[view])
    distance, shift = frame_beside_panel(radius, width, height)
    right = np.cross(direction, (0.0, 0.0, -1.0)) / np.linalg.norm(direction[:2])
    middle = middle + shift * right
    camera.position, camera.look_at = middle + direction / np.linalg.norm(direction) * distance, middle
    return radius


class SceneView:
    """Scene nodes of all displayed models."""

    def __init__(self, viser: Any, models: Sequence[DisplayedModel], *, simple_shading: bool = False) -> None:
        self.viser = viser
        self.scene = viser.scene
        self.models = list(models)
        self.simple_shading = simple_shading
        """Whether shadows and mirrored light are left out, for browsers without a GPU."""
        self.on_pick: Callable[[ElementRef], None] = lambda _: None
        """Called with the shape that is clicked on."""
        self.on_visual_added: list[Callable[[Any, ElementRef], None]] = []
        """Called with every node that can be seen and grabbed, when it is made."""
        self.nodes: dict[tuple[int, str], Any] = {}
        self._initial_positions: dict[tuple[int, str], Array] = {}
        self.visuals: list[Any] = []
        self._highlight: list[Any] = []
        self._followed: tuple[tuple[int, str] | None, Array] = (None, np.zeros(3))
        """Link that cameras follow, and its position when they were moved last [m]."""
        self._environment_nodes: list[Any] = []
        self.bounds_min, self.bounds_max = bounding_box(*self.models) or (np.full(3, -0.5), np.full(3, 0.5))

    @property
    def size(self) -> float:
        """Scene size [m]: diagonal of the bounding box of all models divided by the square root of their number."""
        return max(float(np.linalg.norm(self.bounds_max - self.bounds_min)) / max(len(self.models), 1) ** 0.5, 1e-3)

    # --------------------------------------------------------------------------------------------------- building

    def build(self) -> None:
        """Create all nodes, replacing existing ones."""
        with self.viser.atomic():
            self.scene.reset()
            self.nodes, self.visuals, self._highlight, self._environment_nodes = {}, [], [], []
            self.scene.set_up_direction("+z")
            self.scene.world_axes.visible = False
            self._add_environment()
            for exhibit in self.models:
                self._add_model(exhibit)
        self.frame_camera()

    def set_simple_shading(self, simple_shading: bool) -> None:
        """Switch shadows, reflections and the filled floor off or on."""
        with self.viser.atomic():
            for handle in self._environment_nodes:
                handle.remove()
            self.simple_shading = simple_shading
            self._add_environment()

    def _add_environment(self) -> None:
        """Add lights and floor."""
        self._environment_nodes = [
            *self._add_lights(),
            add_floor(
                self.scene,
                self.floor_pose,
                self.size,
                (self.bounds_min + self.bounds_max) / 2,
                simple_shading=self.simple_shading,
                plane=next((shape for _, shape in self._floor_planes()), None),
            ),
        ]

    def _add_lights(self) -> list[Any]:
        self.scene.configure_default_lights(enabled=not self.simple_shading)
        self.scene.configure_environment_map(None if self.simple_shading else "studio", environment_intensity=0.35)
        if not self.simple_shading:
            return []
        sky, ground = (255, 255, 255), (185, 190, 200)
        return [  # two lamps, one of which also shines on sides that are turned away from the other
            self.scene.add_light_hemisphere("/light/sky", sky_color=sky, ground_color=ground, intensity=1.6),
            self.scene.add_light_directional("/light/sun", intensity=3.0, position=(-0.2, 0.2, 1.0)),
        ]

    @property
    def floor_pose(self) -> Pose:
        """Pose of the first infinite plane of the files, or of a floor below all models."""
        low = min(0.0, float(self.bounds_min[2])) if self.bounds_min[2] < -1e-3 * self.size else 0.0
        return next((pose for pose, _ in self._floor_planes()), Pose.translation((0.0, 0.0, low)))

    def _floor_planes(self) -> list[tuple[Pose, Shape]]:
        """Infinite planes of the files that are drawn as the floor, with their world poses."""
        return [
            (exhibit.world_pose @ shape.pose, shape)
            for exhibit in self.models
            for shape in exhibit.static_shapes
            if is_infinite_plane(shape) and shape.visual
        ]

    def _add_model(self, model: DisplayedModel) -> None:
        poses = model.link_poses()
        for i, (link, shapes) in enumerate({**{link: [] for link in poses}, **model.drawn_shapes()}.items()):
            pose = poses[link] if poses[link].is_finite else Pose()
            name = f"/{model.index}/{i}"
            node = self.scene.add_frame(name, show_axes=False, position=pose.position, wxyz=pose.quaternion)
            self.nodes[model.index, link] = node
            self._initial_positions[model.index, link] = pose.position
            for j, shape in shapes:
                self._add_visual(ElementRef(model.index, "shape", link, j), f"{name}/visual/{j}", shape)

    def _add_visual(self, element: ElementRef, name: str, shape: Shape) -> None:
        parts = shape_primitives(shape)
        if not parts:
            return
        handle = self.scene.add_glb(name, encode_glb(parts))
        self.visuals.append(handle)
        self.make_pickable(handle, element)

    def make_pickable(self, handle: Any, element: ElementRef) -> None:
        """Make a node clickable and draggable."""
        handle.on_click(lambda _: self.on_pick(element))
        for listener in self.on_visual_added:
            listener(handle, element)

    def link_node_name(self, model: DisplayedModel, link: str | None) -> str:
        """Name of a link's node, whose children move with the link; None for the world of the model."""
        return self.nodes[model.index, WORLD if link is None else link].name

    # ---------------------------------------------------------------------------------------------------- moving

    def set_link_poses(self, model: DisplayedModel, poses: Mapping[str, tuple[Array, Array]]) -> None:
        """Set link positions and quaternions."""
        for link, (position, quaternion) in poses.items():
            node = self.nodes.get((model.index, link))
            if node is not None and np.isfinite(position).all() and np.isfinite(quaternion).all():
                node.position, node.wxyz = position, quaternion

    def set_present(self, model: DisplayedModel, present: bool) -> None:
        """Show or hide a model, which may be absent from the simulation."""
        for (index, _), node in self.nodes.items():
            if index == model.index and node.visible != present:
                node.visible = present

    def frame_camera(self, client: Any = None, view: str = DEFAULT_VIEW) -> None:
        """Move the camera to show everything: for one client at the current state, or initially for new clients."""
        low, high = (self.bounds_min, self.bounds_max) if client is None else self._current_bounds()
        if client is None:
            self.viser.initial_camera.fov = _FIELD_OF_VIEW
            radius = place_camera(self.viser.initial_camera, low, high, view, *DEFAULT_PAGE_SIZE)
            self.viser.initial_camera.near, self.viser.initial_camera.far = radius / 200, radius * 500
        else:
            place_camera(client.camera, low, high, view, client.camera.image_width, client.camera.image_height)

    def follow(self, link: tuple[int, str] | None) -> None:
        """Move all cameras with a link, by model and name, since the last call for the same link."""
        if link is None or link not in self.nodes:
            return
        position = np.array(self.nodes[link].position)
        moved = position - self._followed[1] if self._followed[0] == link else np.zeros(3)
        if self._followed[0] == link and np.linalg.norm(moved) < _FOLLOW_STEP * self.size:
            return
        self._followed = (link, position)
        if moved.any():
            for client in self.viser.get_clients().values():
                client.camera.position = client.camera.position + moved  # which moves the point that is looked at, too

    def _current_bounds(self) -> tuple[Array, Array]:
        """Bounding box of all links at their current poses, joined with the initial bounding box if near."""
        links = [key for key, node in self.nodes.items() if key[1] != WORLD and node.visible]
        if not links:
            return self.bounds_min, self.bounds_max
        now, then = np.array([(self.nodes[key].position, self._initial_positions[key]) for key in links]).swapaxes(0, 1)
        low = now.min(axis=0) - then.min(axis=0) + self.bounds_min
        high = now.max(axis=0) - then.max(axis=0) + self.bounds_max
        near = (low <= self.bounds_max).all() and (high >= self.bounds_min).all()
        return (np.minimum(low, self.bounds_min), np.maximum(high, self.bounds_max)) if near else (low, high)

    # ----------------------------------------------------------------------------------------------- highlighting

    def highlight(self, element: ElementRef | None, color: tuple[int, int, int] = SELECTION_COLOR) -> None:
        """Highlight one element, and no other."""
        with self.viser.atomic():
            for handle in self._highlight:
                handle.remove()
            self._highlight = [] if element is None else self.add_color_overlay(element, color, "highlight")

    def add_color_overlay(
        self, element: ElementRef, color: tuple[int, int, int], layer: str, opacity: float = 0.6
    ) -> list[Any]:
        """Add a transparent coloured overlay to an element; returns its nodes."""
        exhibit = self.models[element.model_index]
        link = element.name
        if element.kind == "joint":
            joint = exhibit.joints[element.name]
            number = next(i for i, m in enumerate(exhibit.mechanisms) if joint in m.robot.joints)
            link = exhibit.unique_link(number, joint.child) or exhibit.unique_link(number, joint.parent) or WORLD
        shapes = [shape for _, shape in exhibit.drawn_shapes().get(link, [])]
        if element.kind == "shape":
            shapes = [exhibit.link_shapes(link)[element.shape_index]]
        meshes = [(s, mesh) for s in shapes if not is_infinite_plane(s) and (mesh := shape_triangles(s)) is not None]
        under = self.link_node_name(exhibit, link)
        name = f"{under}/{layer}/{element.kind}{element.shape_index}"
        if not meshes:
            return [
                self.scene.add_frame(
                    name, axes_length=0.15 * self.size, axes_radius=0.006 * self.size, origin_color=color
                )
            ]
        joined = merge_meshes(
            [MeshData(s.pose.apply(_offset_vertices(m, 0.002 * self.size)), m.faces) for s, m in meshes]
        )
        return [
            self.scene.add_mesh_simple(
                name, joined.vertices, joined.faces, color=color, opacity=opacity, side="double", cast_shadow=False
            )
        ]


def _offset_vertices(mesh: MeshData, distance: float) -> Array:
    """Vertices moved outwards along their normals, to avoid z-fighting of overlays."""
    a, b, c = (mesh.triangles()[:, i] for i in range(3))
    normals = np.cross(b - a, c - a)
    sums = np.zeros_like(mesh.vertices)
    for corner in range(3):
        np.add.at(sums, mesh.faces[:, corner], normals)
    lengths = np.linalg.norm(sums, axis=1, keepdims=True)
    return mesh.vertices + distance * sums / np.where(lengths > 0, lengths, 1.0)


# ------------------------------------------------------------------------------------------------- grid of environments

MAX_SHOWN_ENVS = 64
HIDDEN_HEIGHT = -1e6
"""Position of models that are absent in an environment [m]: beyond all views."""
_CIRCLE_SEGMENTS = 8
"""Of circles of round shapes: they are small, and there are many."""
_COARSE_TRIANGLES = 20_000
"""Triangles of all environments together where they are drawn coarsely; textured ones are not counted."""


class EnvironmentGrid:
    """Instanced nodes of all environments that are shown side by side."""

    def __init__(self, scene_view: SceneView, n_envs: int, *, is_coarse: bool = False) -> None:
        self.scene_view = scene_view
        self.is_coarse = is_coarse
        """Whether meshes have few triangles, for browsers without a GPU."""
        self.n_envs = min(n_envs, MAX_SHOWN_ENVS)
        span = scene_view.bounds_max - scene_view.bounds_min
        columns = math.ceil(math.sqrt(self.n_envs))
        reach = max(float(span[0]), float(span[1]), 0.7 * float(span[2]))  # an arm that stands reaches out
        step = 1.15 * reach
        numbers = np.arange(self.n_envs)
        self.env_offsets = np.zeros((self.n_envs, 3))
        self.env_offsets[:, 0] = (numbers // columns - (columns - 1) / 2) * step
        self.env_offsets[:, 1] = (numbers % columns - (columns - 1) / 2) * step
        self.nodes: dict[tuple[int, str], Any] = {}
        """Batched node of each link that is drawn, by model and link."""
        with scene_view.viser.atomic():
            for exhibit in scene_view.models:
                self._add_model(exhibit)

    def _add_model(self, model: DisplayedModel) -> None:
        still = np.tile([1.0, 0.0, 0.0, 0.0], (self.n_envs, 1))
        drawn = {
            link: merge_primitives([p for _, shape in shapes for p in shape_primitives(shape, _CIRCLE_SEGMENTS)])
            for link, shapes in model.drawn_shapes().items()
        }
        every = sum(len(part.faces) for parts in drawn.values() for part in parts)
        share = _COARSE_TRIANGLES / max(every * self.n_envs, 1) if self.is_coarse else 1.0
        for i, (link, parts) in enumerate(drawn.items()):
            if parts:
                coarse = [simplify_primitive(part, share) for part in parts] if share < 1.0 else parts
                self.nodes[model.index, link] = self.scene_view.scene.add_batched_glb(
                    f"/crowd/{model.index}/{i}", encode_glb(coarse), still, self.env_offsets
                )

    def set_link_poses(self, model: DisplayedModel, poses: dict[str, tuple[Array, Array]]) -> None:
        """Set the links of all environments: positions (n, 3) and quaternions (n, 4); hidden where they are absent."""
        present = model.is_present(list(range(self.n_envs)))
        for link, (positions, quaternions) in poses.items():
            node = self.nodes.get((model.index, link))
            if node is not None:
                places = np.where(present[:, None], positions + self.env_offsets, HIDDEN_HEIGHT)
                node.batched_positions = np.nan_to_num(places).astype(np.float32)
                node.batched_wxyzs = np.nan_to_num(quaternions).astype(np.float32)

    def frame_camera(self, client: Any, view: str) -> None:
        """Move the camera of a client to show all environments."""
        reach = np.abs(self.env_offsets).max(axis=0)
        low, high = self.scene_view.bounds_min - reach, self.scene_view.bounds_max + reach
        place_camera(client.camera, low, high, view, client.camera.image_width, client.camera.image_height)

    def remove(self) -> None:
        """Remove all nodes."""
        with self.scene_view.viser.atomic():
            for node in self.nodes.values():
                node.remove()
        self.nodes = {}
