"""Cameras in a scene: images of all its environments, where its links are now."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from kinema.backend import find_device, warp
from kinema.foundation import KinemaError, Pose
from kinema.render import Camera, Image, PathTracer, Placed, Renderer, Traced

from .scene import Scene
from .visual_lights import cameras_of
from .visuals import Shown, stage_of

FAR_BELOW = -1e4
"""Where that is which an environment has not got [m]."""


class SceneCameras:
    """Cameras that see everything in a scene, in all of its environments at once.

    Args:
        scene: built.
        cameras: of `kinema.render`, with `link` the row of a link in `scene.links` or -1; or names of cameras that the
            files have. All of those when not given.
        resolution: width and height of the images [pixels].
        images: `rgb`, `depth`, `normal`, `segmentation`, `flow`: see `kinema.render.Renderer`.
        shadows: whether lights cast them.
        samples: rays along each edge of a pixel, for smooth edges of `rgb`.
        per_env: what may differ between environments: `cameras` (`viewing.lens`, `viewing.mounts`), and `color`,
            `finish`, `emission` and `lamp_color` (`placed.looks`, `placed.lamps`).
        kind: `visual`, or `collision` for the shapes that touch.
    """

    def __init__(
        self,
        scene: Scene,
        cameras: Sequence[Camera | str] | None = None,
        resolution: tuple[int, int] = (64, 64),
        *,
        images: Sequence[str] = ("rgb", "depth"),
        shadows: bool = True,
        samples: int = 1,
        per_env: Sequence[str] = (),
        kind: str = "visual",
    ) -> None:
        self.scene = scene
        self._extra = variant_rows(scene)
        shown = shown_of(scene)
        known = {c.name: c for one in shown for c in cameras_of(one.description, one.links, one.base)}
        chosen = [_named(c, known) for c in (known.values() if cameras is None else cameras)]
        self.stage = stage_of(shown, kind=kind)
        self.stage.n_links = scene.running.model.n_links + len(self._extra)
        self.placed = Placed(
            self.stage, scene.n_envs, find_device(scene.device), [p for p in per_env if p != "cameras"]
        )
        self.renderer = Renderer(
            self.placed,
            chosen,
            resolution,
            images=images,
            shadows=shadows,
            samples=samples,
            per_env="cameras" in per_env,
        )
        self._chosen, self._resolution = chosen, resolution

    @property
    def viewing(self) -> Any:
        """The cameras' own arrays."""
        return self.renderer.viewing

    def render(self) -> dict[str, Image]:
        """The images of this moment, by name: (n_envs, n_cameras, rows, columns, ...). The next call changes them."""
        self._place(shutter=False)
        return self.renderer.render()

    def trace(self, samples: int = 64, *, shutter: bool = False, **options: Any) -> Traced:
        """A path-traced picture of this moment.

        Args:
            samples: paths for each pixel.
            shutter: whether it was open since the last image, so that what moved is blurred.
            options: of `PathTracer.trace`.
        """
        self._place(shutter=shutter)
        return PathTracer(self.placed, self._chosen, self._resolution).trace(samples, **options)

    def _place(self, *, shutter: bool) -> None:
        links = self.scene.links
        if not self.stage.n_links:
            self.placed.place(shutter=shutter)
            return
        pos, quat = _single(links.pos.warp), _single(links.quat.warp)
        if self._extra:
            pos, quat = self._with_variants(pos), self._with_variants(quat)
        self.placed.place(pos, quat, shutter=shutter)

    def _with_variants(self, rows: Any) -> Any:
        """The rows of links, and after them those of variants: far below where an environment has another."""
        known = rows.numpy()
        width = len(known) // self.scene.running.model.n_links
        made = [known]
        for link, here in self._extra:
            own = known[width * link : width * (link + 1)].copy()
            if width == 3:
                own[:, ~here] = FAR_BELOW
            made.append(own)
        wp = warp()
        return wp.array(np.ascontiguousarray(np.concatenate(made)), dtype=wp.float32, device=rows.device)


def shown_of(scene: Scene) -> list[Shown]:
    """What there is to see in a scene; variants of an entity have rows of links of their own, after all others."""
    model, shown, extra = scene.running.model, [], scene.running.model.n_links
    for entity, part, info in zip(scene.entities, scene._parts, model.entities, strict=True):
        rows = {model.links.names[row]: row for row in range(info.link_start, info.link_end)}
        if entity._mixed is None:
            shown.append(Shown(description=part.description, pose=part.pose, links=rows))
            continue
        for one, own in zip(entity._mixed.shown, entity._mixed.parts, strict=True):
            names = [link.name for link in one.links]
            shown.append(Shown(description=one, pose=own.pose, links={x: extra + i for i, x in enumerate(names)}))
            extra += len(names)
    return shown


def variant_rows(scene: Scene) -> list[tuple[int, np.ndarray]]:
    """Of each row of links that variants have: the link in the simulation, and which environments have it."""
    rows = []
    for entity in scene.entities:
        for variant in range(entity.n_variants) if entity.n_variants > 1 else ():
            here = entity.variant_idx == variant
            rows += [(link, here) for link in range(entity.info.link_start, entity.info.link_end)]
    return rows


def link_rows(poses: Sequence[Sequence[Pose]], device: str) -> tuple[Any, Any]:
    """Places of links as `Placed.place` takes them: one list for each environment."""
    wp = warp()
    positions = np.array([[p.position for p in row] for row in poses], np.float32)
    turns = np.array([[p.quaternion for p in row] for row in poses], np.float32)
    rows = (np.ascontiguousarray(x.reshape(len(poses), -1).T) for x in (positions, turns))
    first, second = (wp.array(x, dtype=wp.float32, device=device) for x in rows)
    return first, second


def _named(camera: Camera | str, known: dict[str, Camera]) -> Camera:
    if not isinstance(camera, str):
        return camera
    if camera not in known:
        raise KinemaError(f"there is no camera {camera!r}; the files have: {', '.join(known) or 'none'}")
    return known[camera]


def _single(rows: Any) -> Any:
    """In single precision."""
    wp = warp()
    return rows if rows.dtype == wp.float32 else wp.array(rows.numpy().astype(np.float32), device=rows.device)
