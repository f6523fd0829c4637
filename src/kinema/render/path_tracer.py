"""Path tracer: global illumination by Monte Carlo integration, accumulated over samples."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from kinema.core import Array
from kinema.runtime import synchronise, warp

from .cameras import Camera, CameraBatch
from .denoising import denoise_oidn, oidn_available
from .device_scene import DeviceScene
from .images import tone_map
from .kernel_launch import launch_over_items
from .sampling_tables import LATTICE_GENERATOR, ggx_albedo_tables


@dataclass(frozen=True, eq=False, slots=True)
class PathTracedImages:
    """Path-traced images with auxiliary images, each of shape (n_envs, n_cameras, rows, columns, ...)."""

    radiance: Array
    """Linear RGB radiance."""
    albedo: Array
    """Albedo of the first hit; white for the sky."""
    normal: Array
    """World normal of the first hit; zero for the sky."""
    depth: Array
    """Distance along the ray [m]; zero for the sky."""
    coverage: Array
    """Fraction of the samples of a pixel that hit a surface."""
    samples: int
    """Samples per pixel."""
    seconds: float
    """Rendering time [s]."""

    def tone_mapped(self, exposure: float | None = None) -> np.ndarray:
        """Tone-mapped 8-bit sRGB images; the exposure is chosen automatically if not given."""
        return tone_map(self.radiance, exposure)


class PathTracer:
    """Cameras with global illumination, soft shadows, glossy surfaces, metal and glass by path tracing.

    Args:
        device_scene: scene to render.
        cameras: cameras fixed in the world or on links.
        resolution: width and height of the images [pixels].
        max_bounces: maximum number of scattering events of a path.
        indirect_clamp: upper bound of the indirect contribution of a path, against fireflies; 0 for none.
        roulette_start: number of bounces after which Russian roulette ends dim paths, which saves time and adds noise.
        seed: random seed.
        per_env: whether intrinsics and mounting poses of cameras may differ between environments.
    """

    block_size = 128
    """Threads per block on a GPU."""

    def __init__(
        self,
        device_scene: DeviceScene,
        cameras: Sequence[Camera],
        resolution: tuple[int, int],
        *,
        max_bounces: int = 8,
        indirect_clamp: float = 8.0,
        roulette_start: int = 3,
        seed: int = 0,
        per_env: bool = False,
    ) -> None:
        """Allocate the film, upload the sampling tables and specialize the kernel for the scene."""
        from .kernels.bsdf import AlbedoTables
        from .kernels.path_tracing import Film, PathSettings, path_tracing_kernel

        wp = warp()
        self.device_scene = device_scene
        self.camera_batch = CameraBatch(device_scene, cameras, resolution, per_env=per_env)
        n_pixels = self.camera_batch.n_pixels
        film = Film()
        film.radiance, film.color, film.normal = (device_scene.zeros(n_pixels, wp.vec3) for _ in range(3))
        film.depth, film.n_hits = (device_scene.zeros(n_pixels, wp.float32) for _ in range(2))
        self._film = film
        albedo_tables, (directional, mean) = AlbedoTables(), ggx_albedo_tables()
        albedo_tables.directional = device_scene.array(directional.astype(np.float32), wp.vec2)
        albedo_tables.mean = device_scene.array(mean.astype(np.float32), wp.vec2)
        self._albedo_tables = albedo_tables
        settings = PathSettings()
        settings.seed, settings.max_bounces, settings.indirect_clamp = (
            int(seed),
            int(max_bounces),
            float(indirect_clamp),
        )
        settings.roulette_start = int(roulette_start)
        settings.depth_of_field = int(any(c.aperture > 0.0 for c in cameras))
        settings.generator = device_scene.array(LATTICE_GENERATOR, wp.uint32)
        self._settings = settings
        self.kernel = path_tracing_kernel(device_scene.kernel_features)

    def trace(
        self,
        samples: int = 64,
        *,
        time_limit: float | None = None,
        denoise: bool = True,
        progress: Callable[[int, int], None] | None = None,
    ) -> PathTracedImages:
        """Path-traced images of the scene at the poses of its last update.

        Args:
            samples: paths per pixel.
            time_limit: time after which no further batch of samples is started [s].
            denoise: whether images are denoised by Open Image Denoise, if it is installed (extra `denoise`); images of
                machines with and without it differ by their noise.
            progress: called after every batch with the number of completed and requested samples.
        """
        scene, cameras, film, settings = self.device_scene, self.camera_batch, self._film, self._settings
        cameras.update_poses()
        for array in (film.radiance, film.color, film.normal, film.depth, film.n_hits):
            array.zero_()
        scene.surfaces.linear_colors = 1
        start_time, done = time.perf_counter(), 0
        batch = 1
        while done < samples and (done == 0 or time_limit is None or time.perf_counter() - start_time < time_limit):
            settings.first_sample, settings.n_samples = done, min(batch, samples - done)
            inputs = [cameras.view, scene.bodies, scene.surfaces, scene.lights, self._albedo_tables, settings, film]
            launch_over_items(self.kernel, cameras.n_pixels, inputs, scene.device, block_size=self.block_size)
            synchronise(scene.device)
            done += settings.n_samples
            batch = min(2 * batch, 16)
            if progress is not None:
                progress(done, samples)
        scene.surfaces.linear_colors = 0
        return self._collect_images(done, time.perf_counter() - start_time, denoise)

    def _collect_images(self, samples: int, seconds: float, denoise: bool) -> PathTracedImages:
        """Average the film over `samples`, denoise it if requested, and return the images."""
        film, shape = self._film, self.camera_batch.shape
        n_hits = film.n_hits.numpy()
        divisor = np.maximum(n_hits, 1.0)[:, None]
        radiance, albedo = film.radiance.numpy() / samples, film.color.numpy() / samples
        normal, depth = film.normal.numpy() / divisor, film.depth.numpy() / divisor[:, 0]
        if denoise and oidn_available():
            radiance = denoise_oidn(radiance, albedo, normal, shape)
        return PathTracedImages(
            radiance=radiance.reshape(*shape, 3),
            albedo=albedo.reshape(*shape, 3),
            normal=normal.reshape(*shape, 3),
            depth=depth.reshape(shape),
            coverage=(n_hits / samples).reshape(shape),
            samples=samples,
            seconds=seconds,
        )
