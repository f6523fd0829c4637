"""Cameras added to a scene (`Scene.add_camera`): images of all environments, stills; the render scene they share."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol
from weakref import WeakSet

import numpy as np

from kinema.builder import EntitySpec
from kinema.core import Array, ArrayLike, KinemaError, Pose
from kinema.render import (
    IMAGES,
    Camera,
    DeviceScene,
    Image,
    PathTracedImages,
    PathTracer,
    Renderer,
    frame_box_pose,
    look_at,
    srgb_to_linear,
    write_exr,
    write_picture,
)
from kinema.runtime import find_device, warp

from .arguments import Selection, finite_vector, one_of, pose_from_arguments, positive_int, resolve_envs
from .built_scene import HasBuiltScene
from .element_selection import HasEntities, select_link
from .entity_queries import WORLD_LINK
from .presence import presence_of_links
from .render_scene import VisualEntity, build_render_scene, cameras_of_description

DEFAULT_RESOLUTION = (640, 480)
"""Width and height of the images of an added camera [pixels]."""
DEFAULT_FOV = 0.785398163397
"""Vertical field of view of an added camera [rad]."""
HIDDEN_HEIGHT = -1e4
"""Position of links that an environment does not have (of other variants, or absent) [m]: far outside of all views."""


class RenderedSceneSource(HasBuiltScene, HasEntities, Protocol):
    """Interface of `Scene` for its rendering."""

    device: str
    _entity_specs: list[EntitySpec]

    @property
    def n_envs(self) -> int:
        """Number of environments."""
        ...

    @property
    def links(self) -> Any:
        """Flat arrays of all links."""
        ...


# ------------------------------------------------------------------------------------------- rendered scene


class RenderedScene:
    """Render scene of all entities of a built scene on its device, which cameras of any resolution share.

    Args:
        scene: the built scene.
        kind: `visual` (default) or `collision` shapes.
        per_env: surface and light parameters that differ between environments (`DeviceScene`).
    """

    def __init__(self, scene: RenderedSceneSource, *, kind: str = "visual", per_env: Sequence[str] = ()) -> None:
        """Build the render scene of all entities and upload it to the device (see the class)."""
        self.scene = scene
        self._variant_rows = variant_link_rows(scene)
        visuals = visual_entities(scene)
        self.file_cameras = {
            camera.name: camera
            for visual in visuals
            for camera in cameras_of_description(visual.description, visual.link_rows, visual.base)
        }
        """Cameras of the files by name."""
        self.render_scene = build_render_scene(visuals, kind=kind)
        self.render_scene.n_links = scene.built.model.n_links + len(self._variant_rows)
        self.device_scene = DeviceScene(self.render_scene, scene.n_envs, find_device(scene.device), per_env)
        self.renderers: WeakSet[Renderer] = WeakSet()
        """Renderers of the added cameras, whose camera poses are updated together with those of the links."""
        self._version: object = None

    def file_camera(self, name: str) -> Camera:
        """The camera of the files with a name; raises `KinemaError` if there is none."""
        if name not in self.file_cameras:
            raise KinemaError(f"there is no camera {name!r}; the files have: {', '.join(self.file_cameras) or 'none'}")
        return self.file_cameras[name]

    def synchronize(self) -> object:
        """Update link and camera poses if the state of the scene has changed; returns the version of the state."""
        engine = self.scene.built.engine
        version = engine, engine.version
        if version != self._version:
            self._version = version
            self.update_poses(motion_blur=False)
            for renderer in self.renderers:
                renderer.camera_batch.update_poses()
        return version

    def invalidate(self) -> None:
        """Update all poses at the next synchronization, because a camera was moved."""
        self._version = None

    def update_poses(self, *, motion_blur: bool) -> None:
        """Copy the current link poses of the simulation to the render scene.

        Links of entity variants have additional rows, which are appended.
        """
        links = self.scene.links
        if not self.render_scene.n_links:
            self.device_scene.update_poses(motion_blur=motion_blur)
            return
        pos, quat = _as_float32(links.pos.warp), _as_float32(links.quat.warp)
        pos = self._hide_absent_links(pos)
        if self._variant_rows:
            pos, quat = self._append_variant_rows(pos), self._append_variant_rows(quat)
        self.device_scene.update_poses(pos, quat, motion_blur=motion_blur)

    def _hide_absent_links(self, rows: Any) -> Any:
        """Warp array of link positions (3 n_links, n_envs) with absent links at `HIDDEN_HEIGHT`."""
        present = presence_of_links(self.scene.built.engine)
        if present is None or present.all():
            return rows
        values = np.where(np.repeat(present, 3, axis=0), rows.numpy(), np.float32(HIDDEN_HEIGHT))
        wp = warp()
        return wp.array(np.ascontiguousarray(values), dtype=wp.float32, device=rows.device)

    def _append_variant_rows(self, rows: Any) -> Any:
        """Append rows for the links of entity variants to an array of link positions or quaternions.

        Each variant has copies of the rows of its entity. In environments with another variant the positions are set to
        `HIDDEN_HEIGHT`, which hides the links.

        Args:
            rows: Warp array (components * n_links, n_envs), three components for positions, four for quaternions.
        """
        values = rows.numpy()
        n_components = len(values) // self.scene.built.model.n_links
        blocks = [values]
        for link, has_variant in self._variant_rows:
            block = values[n_components * link : n_components * (link + 1)].copy()
            if n_components == 3:
                block[:, ~has_variant] = HIDDEN_HEIGHT
            blocks.append(block)
        wp = warp()
        return wp.array(np.ascontiguousarray(np.concatenate(blocks)), dtype=wp.float32, device=rows.device)

    def bounds(self, env: int) -> tuple[Array, Array]:
        """Lower and upper corner of the bounding box of all shapes in an environment [m], without infinite planes."""
        if not self.scene.built.model.n_links:
            return self.render_scene.bounds()
        pos, quat = (np.asarray(x.numpy(), np.float64) for x in (self.scene.links.pos, self.scene.links.quat))
        poses = [Pose.from_quaternion(p, q) for p, q in zip(pos[:, env], quat[:, env], strict=True)]
        present = presence_of_links(self.scene.built.engine)
        absent = () if present is None else np.flatnonzero(~present[:, env]).tolist()
        return self.render_scene.bounds([*poses, *(poses[link] for link, _ in self._variant_rows)], absent)


def visual_entities(scene: RenderedSceneSource) -> list[VisualEntity]:
    """Descriptions to render with their base poses and the rows of their links in the pose arrays.

    One per entity, or one per variant of an entity; the link rows of variants follow those of all links of the scene.
    """
    model, visuals, next_row = scene.built.model, [], scene.built.model.n_links
    for i, (entity, spec, info) in enumerate(zip(scene.entities, scene._entity_specs, model.entities, strict=True)):
        rows = {model.links.names[row]: row for row in range(info.link_start, info.link_end)}
        variants = entity._index.variants
        if variants is None:
            visuals.append(VisualEntity(description=spec.description, pose=spec.pose, link_rows=rows, entity_idx=i))
            continue
        for description, variant_spec in zip(variants.descriptions, variants.specs, strict=True):
            names = [link.name for link in description.links]
            visuals.append(
                VisualEntity(
                    description=description,
                    pose=variant_spec.pose,
                    link_rows={name: next_row + k for k, name in enumerate(names)},
                    entity_idx=i,
                )
            )
            next_row += len(names)
    return visuals


def variant_link_rows(scene: RenderedSceneSource) -> list[tuple[int, np.ndarray]]:
    """Additional link rows of variants: scene index of the link, mask (n_envs,) of environments with the variant."""
    rows = []
    for entity in scene.entities:
        for variant in range(entity.n_variants) if entity.n_variants > 1 else ():
            has_variant = entity.variant_idx == variant
            rows += [(link, has_variant) for link in range(entity.info.link_start, entity.info.link_end)]
    return rows


def camera_link_row(scene: HasEntities, camera: Camera) -> int:
    """Row of the link that a camera is attached to in the scene's arrays; -1 for the world."""
    found = select_link(scene, camera.link, f"camera {camera.name!r}: link")
    return WORLD_LINK if found is None else found[0].info.link_start + found[1]


def _as_float32(rows: Any) -> Any:
    """Warp array converted to float32 if necessary."""
    wp = warp()
    return rows if rows.dtype == wp.float32 else wp.array(rows.numpy().astype(np.float32), device=rows.device)


# -------------------------------------------------------------------------------------------- added cameras


class AddedCameras:
    """Cameras that were added to a scene; they share one render scene, which is made when the first image is read."""

    def __init__(self, scene: RenderedSceneSource) -> None:
        self.scene = scene
        self._rendered: RenderedScene | None = None

    def add(self, camera: Camera | str | None, res: tuple[int, int], samples: int) -> SceneCamera:
        """Camera of the scene with images of a size, and rays along each edge of a pixel."""
        if isinstance(camera, Camera):
            select_link(self.scene, camera.link, "add_camera: link")  # errors are reported at once
            camera.check_field_of_view()
        return SceneCamera(self, camera, res, samples=positive_int(samples, "add_camera: samples", "ray"))

    @property
    def rendered(self) -> RenderedScene:
        """Render scene of the built scene; raises `KinemaError` before build."""
        if self._rendered is None:
            _ = self.scene.built
            self._rendered = RenderedScene(self.scene)
        return self._rendered


class SceneCamera:
    """A camera of a scene; `read()` returns images of the current state in all environments."""

    def __init__(
        self, cameras: AddedCameras, camera: Camera | str | None, resolution: tuple[int, int], *, samples: int
    ) -> None:
        """Camera, name of a camera of the files, or None for a camera that shows the whole scene."""
        self._cameras, self._given = cameras, camera
        self._resolved: Camera | None = None
        if not isinstance(resolution, Sequence | np.ndarray) or len(resolution) != 2:
            raise KinemaError(f"res: expected width and height in pixels, not {resolution!r}")
        width, height = resolution
        self.resolution = positive_int(width, "res", "pixel"), positive_int(height, "res", "pixel")
        """Width and height of the images [pixels]."""
        self._samples = samples
        self._renderer: Renderer | None = None
        self._images: dict[str, Image] = {}
        self._version: object = None
        self._n_moves = 0
        """Number of calls of `set_pose`."""

    def __repr__(self) -> str:
        width, height = self.resolution
        return f"<SceneCamera: {width} x {height}>"

    @property
    def n_envs(self) -> int:
        """Number of environments of the scene."""
        return self._cameras.scene.built.n_envs

    def read(self, image: str | None = None, envs_idx: Selection = None) -> Any:
        """Images of the current state by name, `read()["depth"]`, or one image, `read("depth")`.

        Images are (n_envs, height, width, ...), NumPy or PyTorch as the scene's getters. All images that were ever read
        are rendered together, once per state. For the first image of a camera there is no motion of the camera in the
        flow.

        Args:
            image: None for all, as a mapping whose images are rendered when they are first accessed; or one of `rgb`
                (3), 8 bits; `depth` along the viewing direction [m], infinite for the background; `normal` (3) in world
                axes, towards the camera; `segmentation` (3), indices of entity, of link in the entity and of shape, -1
                for the background; `flow` (2), motion in the image, right and down, of the visible point since the
                state for which images were read before [pixels].
            envs_idx: environments by index, slice or mask; None for all.
        """
        if image is None:
            return CameraImages(self, envs_idx)
        return self._read(one_of(image, "read: image", IMAGES), envs_idx)

    @property
    def version(self) -> object:
        """Version of the state and of the pose of the camera that `read` shows; it changes with both."""
        engine = self._cameras.scene.built.engine
        return engine, engine.version, self._n_moves

    def _read(self, name: str, envs_idx: Selection) -> Any:
        """Render the current state if necessary; return one image of the selected environments in the output type."""
        self._render(name)
        outputs = self._cameras.scene.built.outputs
        envs = outputs.resolve_envs(envs_idx)
        if outputs.kind == "torch":
            values = self._images[name].to_torch()[:, 0]
            return values if envs is None else values[outputs.arrays.device_index(envs)]
        array = self._images[name].numpy()[:, 0]
        return outputs.convert(array if envs is None else array[envs])

    def trace(self, samples: int = 64, **options: Any) -> PathTracedImages:
        """Path-traced images of the current state of all environments.

        Args:
            samples: paths per pixel; default 64.
            **options: options of `kinema.render.PathTracer.trace`.
        """
        rendered, samples = self._cameras.rendered, positive_int(samples, "trace: samples", "path")
        rendered.synchronize()
        return PathTracer(rendered.device_scene, [self._camera], self.resolution).trace(samples, **options)

    def save(
        self,
        path: str | os.PathLike[str],
        image: str = "rgb",
        *,
        env: int = 0,
        pathtrace: int = 0,
        exposure: float | None = None,
    ) -> None:
        """Write an image of the current state of one environment as PNG, JPEG or EXR.

        EXR files have 32-bit floats: linear colour (R, G, B), depth (Z), normal (X, Y, Z), segmentation (entity, link,
        shape) or flow (U, V). PNG and JPEG have colour only.

        Args:
            path: file, `.png`, `.jpg`, `.jpeg` (extra `render`) or `.exr`.
            image: one of the images of `read`; default `rgb`.
            env: index of the environment; default 0.
            pathtrace: paths per pixel of the path tracer; 0 (default) for ray casting.
            exposure: factor on the path-traced radiance in PNG and JPEG files; None to choose it automatically.
        """
        file, name = Path(path), one_of(image, "save: image", IMAGES)
        is_exr = file.suffix.lower() == ".exr"
        if not is_exr and name != "rgb":
            raise KinemaError(f"save: {name} images are saved as .exr, not {file.suffix!r}")
        if pathtrace and name != "rgb":
            raise KinemaError("save: the path tracer saves rgb images")
        if not is_exr:
            write_picture(file, self.picture(env, pathtrace, exposure))
            return
        env = self._env(env, "save")
        if pathtrace:
            pixels = self.trace(pathtrace).radiance[env, 0]
        else:
            self._render(name)
            pixels = self._images[name].numpy()[env, 0]
            pixels = srgb_to_linear(pixels) if name == "rgb" else pixels
        write_exr(file, dict(zip(EXR_CHANNELS[name], np.moveaxis(np.atleast_3d(pixels), 2, 0), strict=True)))

    def picture(self, env: int = 0, pathtrace: int = 0, exposure: float | None = None) -> np.ndarray:
        """Colours of the current state of one environment, (height, width, 3), 8 bits; arguments as of `save`."""
        env = self._env(env, "picture")
        if pathtrace:
            return self.trace(pathtrace).tone_mapped(exposure)[env, 0]
        self._render("rgb")
        return np.array(self._images["rgb"].numpy()[env, 0])

    def set_pose(
        self,
        pos: ArrayLike,
        lookat: ArrayLike | None = None,
        *,
        up: ArrayLike = (0.0, 0.0, 1.0),
        quat: ArrayLike | None = None,
        euler: ArrayLike | None = None,
    ) -> None:
        """Move the camera on its link or in the world; arguments as of `Scene.add_camera`."""
        self._camera.pose = camera_pose(pos, lookat, up, quat, euler)
        self._n_moves += 1
        if self._renderer is not None:
            self._renderer.camera_batch.set_first_camera_poses([self._camera.pose])
            self._cameras.rendered.invalidate()
            self._version = None

    def _env(self, env: Any, label: str) -> int:
        """Validated index of an environment."""
        rows = resolve_envs(env, self._cameras.scene.n_envs)
        if rows is None or len(rows) != 1:
            raise KinemaError(f"{label}: env: expected the index of one environment, not {env!r}")
        return int(rows[0])

    @property
    def _camera(self) -> Camera:
        """Camera with resolved link; by default one that shows the whole scene, placed on first use."""
        if self._resolved is not None:
            return self._resolved
        rendered, given = self._cameras.rendered, self._given
        if given is None:
            low, high = rendered.bounds(0)
            width, height = self.resolution
            azimuth, elevation = (math.radians(angle) for angle in (-50.0, 19.0))
            pose = frame_box_pose(
                low, high, fov=DEFAULT_FOV, aspect=width / height, azimuth=azimuth, elevation=elevation
            )
            self._resolved = Camera(pose=pose, fov=DEFAULT_FOV)
        elif isinstance(given, str):
            self._resolved = replace(rendered.file_camera(given))
        else:
            self._resolved = replace(given, link=camera_link_row(rendered.scene, given))
        return self._resolved

    def _render(self, image: str) -> None:
        """Render the current state, unless the images are up to date and contain the requested one."""
        rendered, previous = self._cameras.rendered, self._renderer
        if previous is None or image not in self._images:
            self._renderer = Renderer(
                rendered.device_scene,
                [self._camera],
                self.resolution,
                images=[*self._images, image],
                samples=self._samples,
            )
            if previous is None:
                rendered.synchronize()
                self._renderer.camera_batch.update_poses()
            else:
                self._renderer.camera_batch = previous.camera_batch
                rendered.renderers.discard(previous)
            rendered.renderers.add(self._renderer)
            self._version = None
        version = rendered.synchronize()
        if version != self._version:
            assert self._renderer is not None
            self._images, self._version = self._renderer.draw(), version


class CameraImages(Mapping[str, Any]):
    """Images of a camera by name, `rgb`, `depth`, `normal`, `segmentation` and `flow`, of one state.

    An image is rendered when it is first accessed; `KinemaError` if the state has changed since `SceneCamera.read`.
    """

    def __init__(self, camera: SceneCamera, envs_idx: Selection) -> None:
        """Images of the current state in the selected environments."""
        self._camera, self._envs_idx = camera, envs_idx
        self._version = camera.version
        self._images: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._images:
            one_of(name, "images", IMAGES)
            if self._camera.version != self._version:
                raise KinemaError(f"images: the state has changed since camera.read(): {name} was not accessed before")
            self._images[name] = self._camera.read(name, self._envs_idx)
        return self._images[name]

    def __iter__(self) -> Iterator[str]:
        return iter(IMAGES)

    def __len__(self) -> int:
        return len(IMAGES)

    def __repr__(self) -> str:
        return f"<CameraImages: {', '.join(IMAGES)}>"


EXR_CHANNELS = {
    "rgb": ("R", "G", "B"),
    "depth": ("Z",),
    "normal": ("X", "Y", "Z"),
    "segmentation": ("entity", "link", "shape"),
    "flow": ("U", "V"),
}
"""Names of the channels of each image in EXR files."""


def camera_pose(
    pos: ArrayLike, lookat: ArrayLike | None, up: ArrayLike, quat: ArrayLike | None, euler: ArrayLike | None
) -> Pose:
    """Pose of a camera, which looks along its -z axis with +y up.

    Args:
        pos: position [m], (3,).
        lookat: point in the centre of the image [m], (3,); None for the orientation `quat` or `euler`.
        up: direction that is upwards in the image with `lookat`, (3,).
        quat: orientation (w, x, y, z).
        euler: angles about the fixed x, y, z axes [rad].
    """
    if lookat is None:
        return pose_from_arguments(pos, quat, euler)
    if quat is not None or euler is not None:
        raise KinemaError("lookat, quat, euler: give one of them, not several")
    eye, target, upwards = (
        finite_vector(x, name, "three") for x, name in ((pos, "pos"), (lookat, "lookat"), (up, "up"))
    )
    return look_at(eye, target, upwards)
