"""A render scene on a device for many environments: Warp arrays, BVHs and current poses."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np

from kinema.core import KinemaError, Pose
from kinema.runtime import Device, warp

from .geometry import GeometryKind
from .kernel_launch import KernelFeatures
from .render_scene import LIGHT_KINDS, RenderScene, validate_render_scene
from .surfaces import TEXTURE_ROLES
from .tables import body_table, emitter_table, glass_bodies, instance_surfaces, mesh_table, surface_table

PER_ENV_PROPERTIES = ("color", "finish", "emission", "lamp_color")
"""Properties that may differ between environments."""
MAX_LINEAR_SEARCH_BODIES = 48
"""Number of bodies up to which rays test all bodies instead of traversing a BVH."""
MAX_TRANSPARENT_LAYERS = 4
"""Maximum number of transparent surfaces along a camera ray."""


class DeviceScene:
    """Device arrays of a render scene for `n_envs` environments, and their poses.

    `per_env` names the properties (of `PER_ENV_PROPERTIES`) with separate values per environment. `vgeoms_info` and
    `vgeoms_state` follow the array contract, with one row per visible shape.
    """

    def __init__(self, render_scene: RenderScene, n_envs: int, device: Device, per_env: Sequence[str] = ()) -> None:
        """Validate the scene, build its tables and BVHs and upload them; poses are set by `update_poses`."""
        validate_render_scene(render_scene)
        unknown = set(per_env) - set(PER_ENV_PROPERTIES)
        if unknown:
            raise KinemaError(
                f"per_env: unknown {', '.join(sorted(unknown))}; supported are {', '.join(PER_ENV_PROPERTIES)}"
            )
        self.render_scene, self.n_envs, self.device = render_scene, n_envs, device
        self._per_env = frozenset(per_env)
        self._wp = warp()
        self._surface_table = surface_table(render_scene)
        self._mesh_table = mesh_table(render_scene, self._surface_table)
        self._body_table = body_table(render_scene, self._mesh_table.starts)
        self.bodies = self._make_bodies()
        self.surfaces = self._make_surfaces()
        self.lights = self._make_lights()
        self._body_mounts = self.make_mounts([(body.link, body.pose) for body in self._body_table.bodies])
        self._instance_mounts = self.make_mounts(
            [(instance.link, instance.pose) for instance in render_scene.instances]
        )
        n = max(len(render_scene.instances), 1)
        self._vgeoms_state = SimpleNamespace(
            pos=self.zeros((n, n_envs), self._wp.vec3), quat=self.zeros((n, n_envs), self._wp.vec4)
        )
        self.light_mounts = self.make_mounts([(light.link, light.pose) for light in render_scene.lights])
        self._light_rotations = self.zeros((max(len(render_scene.lights), 1), n_envs), self._wp.vec4)
        self._bvh: Any = None
        self._has_poses = False

    # Arrays -----------------------------------------------------------------------------------------------------------

    def array(self, values: Any, dtype: Any = None) -> Any:
        """Warp array with the given values on the device of the scene."""
        return self._wp.array(values, dtype=dtype, device=self.device.name)

    def zeros(self, shape: Any, dtype: Any) -> Any:
        """Warp array of zeros on the device of the scene."""
        return self._wp.zeros(shape, dtype=dtype, device=self.device.name)

    def _per_env_array(self, name: str, values: np.ndarray, dtype: Any) -> Any:
        """Array of `values` with a leading axis: one row per environment if `name` is per-environment, else one row."""
        n_rows = self.n_envs if name in self._per_env else 1
        return self.array(np.repeat(values[None], n_rows, axis=0), dtype)

    def make_mounts(self, attachments: Sequence[tuple[int, Pose]]) -> Any:
        """`Mounts` struct of device arrays of objects attached to links, given as (link index, pose in the link)."""
        from .kernels.poses import Mounts

        result = Mounts()
        attachments = attachments or [(-1, Pose())]
        result.link = self.array([link for link, _ in attachments], self._wp.int32)
        result.position = self.array(np.array([[p.position for _, p in attachments]], np.float32), self._wp.vec3)
        result.rotation = self.array(np.array([[p.quaternion for _, p in attachments]], np.float32), self._wp.vec4)
        return result

    def _make_bodies(self) -> Any:
        """Fill the `Bodies` struct with geometry and pose arrays of the ray-traced bodies; builds BVHs of their meshes.

        Also allocates the arrays of body bounds (`_body_bounds`).
        """
        from .kernels.poses import BodyBounds
        from .kernels.structs import Bodies

        wp, table, arrays = self._wp, self._body_table, Bodies()
        bodies = table.bodies
        n_rows, arrays.n_bodies, arrays.n_bounded = max(len(bodies), 1), len(bodies), table.n_bounded
        arrays.kind = self.array([int(body.geometry.kind) for body in bodies] or [0], wp.int32)
        arrays.size = self.array(np.array([body.geometry.size for body in bodies] or [(0, 0, 0)], np.float32), wp.vec3)
        self._mesh_bvhs = self._build_mesh_bvhs()
        mesh_ids = [0 if body.soup is None else self._mesh_bvhs[id(body.soup)].id for body in bodies]
        arrays.mesh = self.array(np.array(mesh_ids or [0], np.uint64), wp.uint64)
        arrays.first_instance = self.array([body.instances[0] for body in bodies] or [0], wp.int32)
        arrays.face_start, arrays.face_instance = (
            self.array(table.face_start, wp.int32),
            self.array(table.face_instance, wp.int32),
        )
        arrays.face_index = self.array(table.face_index, wp.int32)
        arrays.instance_rotation = self.array(
            np.array([pose.quaternion for pose in table.instance_poses], np.float32), wp.vec4
        )
        arrays.position, arrays.previous_position = (self.zeros((n_rows, self.n_envs), wp.vec3) for _ in range(2))
        arrays.rotation, arrays.previous_rotation = (self.zeros((n_rows, self.n_envs), wp.vec4) for _ in range(2))
        arrays.bounding_sphere = self.zeros((self.n_envs, max(arrays.n_bounded, 1)), wp.vec4)
        arrays.motion_blur = 0
        bounds = BodyBounds()
        bounds.center = self.array(np.array([body.center for body in bodies] or [np.zeros(3)], np.float32), wp.vec3)
        bounds.half_extent = self.array(
            np.array([body.half_extent for body in bodies] or [np.zeros(3)], np.float32), wp.vec3
        )
        bounds.radius = self.array([body.bounding_radius for body in bodies] or [0.0], wp.float32)
        n_boxes = arrays.n_bounded * self.n_envs if self.uses_bvh else 0
        bounds.lower, bounds.upper = (self.zeros(n_boxes, wp.vec3) for _ in range(2))
        self._body_bounds = bounds
        return arrays

    def _build_mesh_bvhs(self) -> dict[int, Any]:
        """Warp meshes (with BVH) of all triangle soups, by id of the soup."""
        wp, meshes = self._wp, {}
        for body in self._body_table.bodies:
            soup = body.soup
            if soup is not None and id(soup) not in meshes:
                points = self.array(soup.vertices.astype(np.float32), wp.vec3)
                indices = self.array(soup.faces.astype(np.int32).ravel(), wp.int32)
                meshes[id(soup)] = wp.Mesh(points=points, indices=indices, bvh_constructor="sah")
        return meshes

    @property
    def kernel_features(self) -> KernelFeatures:
        """Features that kernels are compiled for.

        On a CPU all features, since specialization gains nothing there and compilation is slow; on a GPU those of the
        scene.
        """
        if self.device.is_cpu:
            return KernelFeatures(bvh=self.uses_bvh)
        return self.scene_features

    @property
    def scene_features(self) -> KernelFeatures:
        """Kernel features (textures, glass, ...) that occur in the scene or that per-environment properties may add."""
        surfaces, kinds = self._surface_table, {body.geometry.kind for body in self._body_table.bodies}
        return KernelFeatures(
            bvh=self.uses_bvh,
            meshes=GeometryKind.MESH in kinds,
            primitives=bool(kinds - {GeometryKind.MESH, GeometryKind.PLANE}),
            textures=bool((surfaces.texture_slots >= 0).any()),
            glass="finish" in self._per_env or bool(surfaces.finish[:, 3].any()),
            clearcoat=bool(surfaces.clearcoat[:, 0].any()),
            emitters=float(self.lights.emitter_power) > 0.0,
        )

    @property
    def uses_bvh(self) -> bool:
        """Whether there are so many bodies that rays traverse a BVH over them."""
        return self._body_table.n_bounded > MAX_LINEAR_SEARCH_BODIES

    def _make_surfaces(self) -> Any:
        """Fill the `Surfaces` struct: vertex attributes, material parameters and textures."""
        from .kernels.structs import Surfaces

        wp, arrays, meshes, surfaces = self._wp, Surfaces(), self._mesh_table, self._surface_table
        arrays.faces = self.array(meshes.vfaces, wp.int32)
        arrays.normals = self.array(meshes.vnormals, wp.vec3)
        arrays.uvs = self.array(meshes.uvs, wp.vec2)
        arrays.vertex_colors = self.array(meshes.colors, wp.vec4)
        arrays.face_surface = self.array(meshes.face_surface, wp.int32)
        arrays.instance_surface = self.array(instance_surfaces(self.render_scene, surfaces), wp.int32)
        arrays.color = self._per_env_array("color", surfaces.color, wp.vec4)
        arrays.finish = self._per_env_array("finish", surfaces.finish, wp.vec4)
        arrays.emission = self._per_env_array("emission", surfaces.emission, wp.vec3)
        arrays.clearcoat = self.array(surfaces.clearcoat, wp.vec2)
        arrays.alpha_cutoff = self.array(surfaces.alpha_cutoff, wp.float32)
        arrays.texture_slots = self.array(surfaces.texture_slots, wp.int32)
        arrays.slot_layout, arrays.slot_transform = (
            self.array(surfaces.slot_layout, wp.int32),
            self.array(surfaces.slot_transform, wp.float32),
        )
        arrays.texels = self.array(surfaces.texels, wp.uint32)
        srgb = np.arange(256) / 255.0
        arrays.srgb_to_linear_table = self.array(
            np.where(srgb <= 0.04045, srgb / 12.92, ((srgb + 0.055) / 1.055) ** 2.4).astype(np.float32), wp.float32
        )
        has_transparency = (
            surfaces.texture_slots[:, [TEXTURE_ROLES.index("color"), TEXTURE_ROLES.index("opacity")]] >= 0
        ).any() or "color" in self._per_env
        has_transparency = has_transparency or (surfaces.color[:, 3] < 1.0).any() or (meshes.colors[:, 3] < 1.0).any()
        arrays.max_layers = MAX_TRANSPARENT_LAYERS if has_transparency else 1
        arrays.linear_colors, arrays.taps = 0, 4
        return arrays

    def _make_lights(self) -> Any:
        """Fill the `Lights` struct: light sources, sky, environment map and emissive triangles."""
        from .kernels.structs import Lights

        wp, arrays, scene, sources = self._wp, Lights(), self.render_scene, self.render_scene.lights
        arrays.kind = self.array(np.array([LIGHT_KINDS.index(source.kind) for source in sources], np.int32), wp.int32)
        shape = (max(len(sources), 1), self.n_envs)
        arrays.position, arrays.direction = self.zeros(shape, wp.vec3), self.zeros(shape, wp.vec3)
        colors = np.array([source.color for source in sources] or np.zeros((1, 3)), np.float32)
        arrays.color = self._per_env_array("lamp_color", colors, wp.vec3)
        arrays.falloff = self.array(
            np.array([source.falloff for source in sources] or np.ones((1, 3)), np.float32), wp.vec3
        )
        cones = [(np.cos(source.cone[0]), source.cone[1]) for source in sources] or [(0.0, 0.0)]
        arrays.cone = self.array(np.array(cones, np.float32), wp.vec2)
        arrays.radius = self.array([source.radius for source in sources] or [0.0], wp.float32)
        arrays.casts_shadow = self.array([int(source.casts_shadow) for source in sources] or [0], wp.int32)
        sky = scene.sky
        arrays.zenith, arrays.horizon, arrays.ground = wp.vec3(*sky.zenith), wp.vec3(*sky.horizon), wp.vec3(*sky.ground)
        arrays.ambient = float(sky.ambient)
        environment = (
            np.zeros((0, 0, 3), np.float32) if sky.environment_map is None else sky.environment_map.astype(np.float32)
        )
        arrays.environment_map = self.array(environment, wp.vec3) if environment.size else self.zeros((0, 0), wp.vec3)
        emitters = emitter_table(scene, self._body_table)
        arrays.emitter_corner, arrays.emitter_emission = (
            self.array(values, wp.vec3) for values in (emitters.corner, emitters.emission)
        )
        arrays.emitter_edge1, arrays.emitter_edge2 = (
            self.array(values, wp.vec3) for values in (emitters.edge1, emitters.edge2)
        )
        arrays.emitter_body, arrays.is_emitter = (
            self.array(emitters.body, wp.int32),
            self.array(emitters.is_emitter, wp.int32),
        )
        arrays.emitter_cdf, arrays.emitter_power = self.array(emitters.cdf, wp.float32), emitters.power
        glass = glass_bodies(scene, self._body_table) if emitters.power > 0.0 or environment.size else []
        arrays.glass_bodies = self.array(np.array(glass, np.int32), wp.int32)
        return arrays

    # Poses ------------------------------------------------------------------------------------------------------------

    def update_poses(self, link_pos: Any = None, link_quat: Any = None, *, motion_blur: bool = False) -> None:
        """Update world poses of bodies, shapes and lights, bounds and the BVH from link poses.

        The previous body poses are kept for optical flow and motion blur.

        Args:
            link_pos: link positions [m] as a float32 Warp array (3 n_links, n_envs); None for a scene without links.
            link_quat: link quaternions (w, x, y, z) as a float32 Warp array (4 n_links, n_envs).
            motion_blur: whether the shutter is open from the previous to the new poses.
        """
        from .kernels.poses import update_body_bounds, update_light_directions

        wp, bodies = self._wp, self.bodies
        self.link_poses = (link_pos, link_quat) if link_pos is not None else self._empty_link_poses()
        bodies.position, bodies.previous_position = bodies.previous_position, bodies.position
        bodies.rotation, bodies.previous_rotation = bodies.previous_rotation, bodies.rotation
        bodies.motion_blur = int(motion_blur and self._has_poses)
        if bodies.n_bodies:
            self.compute_world_poses(self._body_mounts, bodies.n_bodies, bodies.position, bodies.rotation)
            self.compute_world_poses(
                self._instance_mounts, len(self.render_scene.instances), self._vgeoms_state.pos, self._vgeoms_state.quat
            )
        if not self._has_poses:
            wp.copy(bodies.previous_position, bodies.position)
            wp.copy(bodies.previous_rotation, bodies.rotation)
        if self.render_scene.lights:
            self.compute_world_poses(
                self.light_mounts, len(self.render_scene.lights), self.lights.position, self._light_rotations
            )
            shape = (len(self.render_scene.lights), self.n_envs)
            wp.launch(
                update_light_directions,
                dim=shape,
                inputs=[self._light_rotations, self.lights.direction],
                device=self.device.name,
            )
        if bodies.n_bounded:
            shape = (bodies.n_bounded, self.n_envs)
            wp.launch(update_body_bounds, dim=shape, inputs=[bodies, self._body_bounds], device=self.device.name)
            if self.uses_bvh:
                self._update_bvh()
        self._has_poses = True

    def compute_world_poses(self, mounts: Any, n_mounts: int, position: Any, rotation: Any) -> None:
        """Compute world poses of the first `n_mounts` mounts into `position` and `rotation` (n_mounts, n_envs)."""
        from .kernels.poses import compute_mount_poses

        inputs = [mounts, *self.link_poses, position, rotation]
        self._wp.launch(compute_mount_poses, dim=(n_mounts, self.n_envs), inputs=inputs, device=self.device.name)

    def _empty_link_poses(self) -> tuple[Any, Any]:
        """Placeholder link poses of a scene without links; `KinemaError` if the scene has links."""
        if self.render_scene.n_links:
            raise KinemaError("the render scene has links, so link poses are required")
        return self.zeros((1, self.n_envs), self._wp.float32), self.zeros((1, self.n_envs), self._wp.float32)

    def _update_bvh(self) -> None:
        """Build the BVH over the world boxes of all environments (one group each) on first use, later refit it."""
        if self._bvh is not None:
            self._bvh.refit()
            return
        groups = np.repeat(np.arange(self.n_envs, dtype=np.int32), self.bodies.n_bounded)
        self._bvh = self._wp.Bvh(
            self._body_bounds.lower, self._body_bounds.upper, groups=self.array(groups, self._wp.int32)
        )
        self.bodies.bvh = self._bvh.id

    # Array contract ---------------------------------------------------------------------------------------------------

    @property
    def vgeoms_info(self) -> SimpleNamespace:
        """NumPy arrays, one row per vgeom: `pos quat link_idx vvert_start vvert_end vface_start vface_end color`."""
        scene, rows = self.render_scene, []
        for instance in scene.instances:
            mesh = instance.geometry.triangles
            vertex, face = self._mesh_table.starts.get(id(mesh), (0, 0))
            rows.append(
                (vertex, vertex + (len(mesh.vertices) if mesh else 0), face, face + (len(mesh.faces) if mesh else 0))
            )
        ranges = np.array(rows or np.zeros((0, 4)), np.int32).reshape(-1, 4)
        surface_rows = np.maximum(instance_surfaces(scene, self._surface_table), 0)[: len(scene.instances)]
        return SimpleNamespace(
            pos=np.array([i.pose.position for i in scene.instances]).reshape(-1, 3),
            quat=np.array([i.pose.quaternion for i in scene.instances]).reshape(-1, 4),
            link_idx=np.array([i.link for i in scene.instances], np.int32),
            vvert_start=ranges[:, 0],
            vvert_end=ranges[:, 1],
            vface_start=ranges[:, 2],
            vface_end=ranges[:, 3],
            color=self._surface_table.color[surface_rows],
        )

    @property
    def vgeoms_state(self) -> SimpleNamespace:
        """World poses by visible shape and environment: Warp arrays `pos` and `quat`, shape (n_vgeoms, n_envs)."""
        return self._vgeoms_state

    @property
    def vverts(self) -> np.ndarray:
        """Vertices of all meshes in their own frames [m], shape (n, 3)."""
        return self._mesh_table.vverts

    @property
    def vfaces(self) -> np.ndarray:
        """Vertex indices of all mesh faces, shape (m, 3)."""
        return self._mesh_table.vfaces

    @property
    def vnormals(self) -> np.ndarray:
        """Vertex normals, shape (n, 3)."""
        return self._mesh_table.vnormals

    @property
    def uvs(self) -> np.ndarray:
        """Texture coordinates of vertices, shape (n, 2)."""
        return self._mesh_table.uvs
