"""A stage on a device, in many environments: its arrays, its trees, and where everything is now."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np

from kinema.backend import Device, warp
from kinema.foundation import KinemaError, Pose

from .bodies import body_table
from .geometry import Kind
from .stage import LAMPS, Stage, check_stage
from .surfaces import MAPS
from .tables import glass_bodies, glow_table, instance_surfaces, mesh_table, surface_table
from .traits import Traits

PER_ENV = ("color", "finish", "emission", "lamp_color")
"""What may differ between environments."""
FEW = 48
"""Bodies that rays are held against one by one."""
LAYERS = 4
"""Surfaces that are seen one through the other."""


class Placed:
    """The arrays that kernels are given.

    `vgeoms_info` and `vgeoms_state` are the array contract's: one row for each visible shape.
    """

    def __init__(self, stage: Stage, n_envs: int, device: Device, per_env: Sequence[str] = ()) -> None:
        check_stage(stage)
        unknown = set(per_env) - set(PER_ENV)
        if unknown:
            raise KinemaError(f"per_env: {', '.join(sorted(unknown))} cannot differ; there are {', '.join(PER_ENV)}")
        self.stage, self.n_envs, self.device = stage, n_envs, device
        self._per_env = frozenset(per_env)
        self._wp = warp()
        self._surfaces = surface_table(stage)
        self._meshes = mesh_table(stage, self._surfaces)
        self._table = body_table(stage, self._meshes.starts)
        self.world = self._make_world()
        self.looks = self._make_looks()
        self.lamps = self._make_lamps()
        self._body_mounts = self.mounts([(b.link, b.pose) for b in self._table.bodies])
        self._instance_mounts = self.mounts([(i.link, i.pose) for i in stage.instances])
        n = max(len(stage.instances), 1)
        self._state = SimpleNamespace(
            pos=self.zeros((n, n_envs), self._wp.vec3), quat=self.zeros((n, n_envs), self._wp.vec4)
        )
        self.lamp_mounts = self.mounts([(lamp.link, lamp.pose) for lamp in stage.lamps])
        self._lamp_turn = self.zeros((max(len(stage.lamps), 1), n_envs), self._wp.vec4)
        self._bvh: Any = None
        self._is_placed = False

    # ------------------------------------------------------------------------------------------------- arrays

    def array(self, values: Any, dtype: Any = None) -> Any:
        """On the device."""
        return self._wp.array(values, dtype=dtype, device=self.device.name)

    def zeros(self, shape: Any, dtype: Any) -> Any:
        """On the device."""
        return self._wp.zeros(shape, dtype=dtype, device=self.device.name)

    def _rows(self, name: str, values: np.ndarray, dtype: Any) -> Any:
        """A row for all environments, or one for each."""
        n_rows = self.n_envs if name in self._per_env else 1
        return self.array(np.repeat(values[None], n_rows, axis=0), dtype)

    def mounts(self, places: Sequence[tuple[int, Pose]]) -> Any:
        """Things on links."""
        from .kernels.place import Mounts

        result = Mounts()
        places = places or [(-1, Pose())]
        result.link = self.array([link for link, _ in places], self._wp.int32)
        result.position = self.array(np.array([[p.position for _, p in places]], np.float32), self._wp.vec3)
        result.rotation = self.array(np.array([[p.quaternion for _, p in places]], np.float32), self._wp.vec4)
        return result

    def _make_world(self) -> Any:
        from .kernels.place import Boxes
        from .kernels.records import World

        wp, table, w = self._wp, self._table, World()
        bodies = table.bodies
        n, w.n_bodies, w.n_bounded = max(len(bodies), 1), len(bodies), table.n_bounded
        w.kind = self.array([int(b.geometry.kind) for b in bodies] or [0], wp.int32)
        w.size = self.array(np.array([b.geometry.size for b in bodies] or [(0, 0, 0)], np.float32), wp.vec3)
        self._trees = self._mesh_trees()
        trees = [0 if b.soup is None else self._trees[id(b.soup)].id for b in bodies]
        w.mesh = self.array(np.array(trees or [0], np.uint64), wp.uint64)
        w.instance = self.array([b.members[0] for b in bodies] or [0], wp.int32)
        for name in ("part_start", "part_instance", "part_face"):
            setattr(w, name, self.array(getattr(table, name), wp.int32))
        w.instance_turn = self.array(np.array([p.quaternion for p in table.instance_poses], np.float32), wp.vec4)
        w.position, w.last_position = (self.zeros((n, self.n_envs), wp.vec3) for _ in range(2))
        w.rotation, w.last_rotation = (self.zeros((n, self.n_envs), wp.vec4) for _ in range(2))
        w.ball = self.zeros((self.n_envs, max(w.n_bounded, 1)), wp.vec4)
        w.moving = 0
        boxes = Boxes()
        boxes.middle, boxes.extent = (
            self.array(np.array([getattr(b, name) for b in bodies] or [np.zeros(3)], np.float32), wp.vec3)
            for name in ("middle", "extent")
        )
        boxes.radius = self.array([b.radius for b in bodies] or [0.0], wp.float32)
        n_boxes = w.n_bounded * self.n_envs if self.has_tree else 0
        boxes.lower, boxes.upper = (self.zeros(n_boxes, wp.vec3) for _ in range(2))
        self._boxes = boxes
        return w

    def _mesh_trees(self) -> dict[int, Any]:
        wp, trees = self._wp, {}
        for body in self._table.bodies:
            soup = body.soup
            if soup is not None and id(soup) not in trees:
                points = self.array(soup.vertices.astype(np.float32), wp.vec3)
                indices = self.array(soup.faces.astype(np.int32).ravel(), wp.int32)
                trees[id(soup)] = wp.Mesh(points=points, indices=indices, bvh_constructor="sah")
        return trees

    @property
    def traits(self) -> Traits:
        """What kernels are compiled for. On a CPU for everything: it has no registers to save, and compiles slowly."""
        if self.device.is_cpu:
            return Traits(tree=self.has_tree)
        return self.own_traits

    @property
    def own_traits(self) -> Traits:
        """What there is, and what there may be in some environment."""
        surfaces, kinds = self._surfaces, {body.geometry.kind for body in self._table.bodies}
        return Traits(
            tree=self.has_tree,
            meshes=Kind.MESH in kinds,
            solids=bool(kinds - {Kind.MESH, Kind.PLANE}),
            images=bool((surfaces.maps >= 0).any()),
            glass="finish" in self._per_env or bool(surfaces.finish[:, 3].any()),
            varnish=bool(surfaces.coat[:, 0].any()),
            glow=float(self.lamps.glow_total) > 0.0,
        )

    @property
    def has_tree(self) -> bool:
        """Whether there are so many bodies that rays go through a tree of them."""
        return self._table.n_bounded > FEW

    def _make_looks(self) -> Any:
        from .kernels.records import Looks

        wp, looks, m, s = self._wp, Looks(), self._meshes, self._surfaces
        looks.faces = self.array(m.vfaces, wp.int32)
        looks.normals = self.array(m.vnormals, wp.vec3)
        looks.uvs = self.array(m.uvs, wp.vec2)
        looks.colors = self.array(m.colors, wp.vec4)
        looks.face_surface = self.array(m.face_surface, wp.int32)
        looks.instance_surface = self.array(instance_surfaces(self.stage, s), wp.int32)
        looks.color = self._rows("color", s.color, wp.vec4)
        looks.finish = self._rows("finish", s.finish, wp.vec4)
        looks.emission = self._rows("emission", s.emission, wp.vec3)
        looks.coat = self.array(s.coat, wp.vec2)
        looks.cutoff = self.array(s.cutoff, wp.float32)
        looks.maps = self.array(s.maps, wp.int32)
        looks.slot_image, looks.slot_place = self.array(s.slot_image, wp.int32), self.array(s.slot_place, wp.float32)
        looks.pixels = self.array(s.pixels, wp.uint32)
        c = np.arange(256) / 255.0
        looks.light_of_byte = self.array(
            np.where(c <= 0.04045, c / 12.92, ((c + 0.055) / 1.055) ** 2.4).astype(np.float32), wp.float32
        )
        veiled = (s.maps[:, [MAPS.index("color"), MAPS.index("opacity")]] >= 0).any() or "color" in self._per_env
        veiled = veiled or (s.color[:, 3] < 1.0).any() or (m.colors[:, 3] < 1.0).any()
        looks.layers = LAYERS if veiled else 1
        looks.linear, looks.taps = 0, 4
        return looks

    def _make_lamps(self) -> Any:
        from .kernels.records import Lamps

        wp, lamps, stage, given = self._wp, Lamps(), self.stage, self.stage.lamps
        lamps.kind = self.array(np.array([LAMPS.index(x.kind) for x in given], np.int32), wp.int32)
        shape = (max(len(given), 1), self.n_envs)
        lamps.position, lamps.direction = self.zeros(shape, wp.vec3), self.zeros(shape, wp.vec3)
        colors = np.array([x.color for x in given] or np.zeros((1, 3)), np.float32)
        lamps.color = self._rows("lamp_color", colors, wp.vec3)
        lamps.falloff = self.array(np.array([x.falloff for x in given] or np.ones((1, 3)), np.float32), wp.vec3)
        cones = [(np.cos(x.cone[0]), x.cone[1]) for x in given] or [(0.0, 0.0)]
        lamps.cone = self.array(np.array(cones, np.float32), wp.vec2)
        lamps.radius = self.array([x.radius for x in given] or [0.0], wp.float32)
        lamps.shadow = self.array([int(x.casts_shadow) for x in given] or [0], wp.int32)
        sky = stage.sky
        lamps.zenith, lamps.horizon, lamps.ground = wp.vec3(*sky.zenith), wp.vec3(*sky.horizon), wp.vec3(*sky.ground)
        lamps.ambient = float(sky.ambient)
        panorama = np.zeros((0, 0, 3), np.float32) if sky.panorama is None else sky.panorama.astype(np.float32)
        lamps.panorama = self.array(panorama, wp.vec3) if panorama.size else self.zeros((0, 0), wp.vec3)
        glow = glow_table(stage, self._table)
        for name in ("corner", "first", "second", "emission"):
            setattr(lamps, f"glow_{name}", self.array(getattr(glow, name), wp.vec3))
        lamps.glow_body, lamps.glows = self.array(glow.body, wp.int32), self.array(glow.glows, wp.int32)
        lamps.glow_share, lamps.glow_total = self.array(glow.share, wp.float32), glow.total
        clear = glass_bodies(stage, self._table) if glow.total > 0.0 or panorama.size else []
        lamps.glass_body = self.array(np.array(clear, np.int32), wp.int32)
        return lamps

    # ------------------------------------------------------------------------------------------------- moving

    def place(self, link_pos: Any = None, link_quat: Any = None, *, shutter: bool = False) -> None:
        """Put everything where its link is; where it was before is kept, for flow and for blur.

        Args:
            link_pos: positions of links in rows (3 n_links, n_envs) [m], of Warp, in single precision.
            link_quat: their quaternions (w, x, y, z) likewise, (4 n_links, n_envs).
            shutter: whether it is open from the last place to this one.
        """
        from .kernels.place import aim_lamps, bound_bodies

        wp, w = self._wp, self.world
        self.links = (link_pos, link_quat) if link_pos is not None else self._no_links()
        w.position, w.last_position = w.last_position, w.position
        w.rotation, w.last_rotation = w.last_rotation, w.rotation
        w.moving = int(shutter and self._is_placed)
        if w.n_bodies:
            self.put(self._body_mounts, w.n_bodies, w.position, w.rotation)
            self.put(self._instance_mounts, len(self.stage.instances), self._state.pos, self._state.quat)
        if not self._is_placed:
            wp.copy(w.last_position, w.position)
            wp.copy(w.last_rotation, w.rotation)
        if self.stage.lamps:
            self.put(self.lamp_mounts, len(self.stage.lamps), self.lamps.position, self._lamp_turn)
            shape = (len(self.stage.lamps), self.n_envs)
            wp.launch(aim_lamps, dim=shape, inputs=[self._lamp_turn, self.lamps.direction], device=self.device.name)
        if w.n_bounded:
            shape = (w.n_bounded, self.n_envs)
            wp.launch(bound_bodies, dim=shape, inputs=[w, self._boxes], device=self.device.name)
            if self.has_tree:
                self._update_tree()
        self._is_placed = True

    def put(self, mounts: Any, n: int, position: Any, rotation: Any) -> None:
        """Where n things on links are."""
        from .kernels.place import place_mounts

        inputs = [mounts, *self.links, position, rotation]
        self._wp.launch(place_mounts, dim=(n, self.n_envs), inputs=inputs, device=self.device.name)

    def _no_links(self) -> tuple[Any, Any]:
        if self.stage.n_links:
            raise KinemaError("the stage has links: say where they are")
        return self.zeros((1, self.n_envs), self._wp.float32), self.zeros((1, self.n_envs), self._wp.float32)

    def _update_tree(self) -> None:
        if self._bvh is not None:
            self._bvh.refit()
            return
        groups = np.repeat(np.arange(self.n_envs, dtype=np.int32), self.world.n_bounded)
        self._bvh = self._wp.Bvh(self._boxes.lower, self._boxes.upper, groups=self.array(groups, self._wp.int32))
        self.world.bvh = self._bvh.id

    # ----------------------------------------------------------------------------------------------- contract

    @property
    def vgeoms_info(self) -> SimpleNamespace:
        """By visible shape: `pos quat link_idx vvert_start vvert_end vface_start vface_end color`."""
        stage, rows = self.stage, []
        for instance in stage.instances:
            mesh = instance.geometry.triangles
            vertex, face = self._meshes.starts.get(id(mesh), (0, 0))
            rows.append(
                (vertex, vertex + (len(mesh.vertices) if mesh else 0), face, face + (len(mesh.faces) if mesh else 0))
            )
        ranges = np.array(rows or np.zeros((0, 4)), np.int32).reshape(-1, 4)
        numbers = np.maximum(instance_surfaces(stage, self._surfaces), 0)[: len(stage.instances)]
        return SimpleNamespace(
            pos=np.array([i.pose.position for i in stage.instances]).reshape(-1, 3),
            quat=np.array([i.pose.quaternion for i in stage.instances]).reshape(-1, 4),
            link_idx=np.array([i.link for i in stage.instances], np.int32),
            vvert_start=ranges[:, 0],
            vvert_end=ranges[:, 1],
            vface_start=ranges[:, 2],
            vface_end=ranges[:, 3],
            color=self._surfaces.color[numbers],
        )

    @property
    def vgeoms_state(self) -> SimpleNamespace:
        """By visible shape and environment: `pos`, `quat`, as Warp arrays (n_vgeoms, n_envs)."""
        return self._state

    @property
    def vverts(self) -> np.ndarray:
        """The vertices of all meshes [m], in their own frames."""
        return self._meshes.vverts

    @property
    def vfaces(self) -> np.ndarray:
        """Their faces."""
        return self._meshes.vfaces

    @property
    def vnormals(self) -> np.ndarray:
        """The normals at vertices."""
        return self._meshes.vnormals

    @property
    def uvs(self) -> np.ndarray:
        """The texture coordinates of vertices."""
        return self._meshes.uvs
