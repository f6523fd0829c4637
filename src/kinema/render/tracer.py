"""Pictures with all the light that is in a scene: paths are followed from the camera until they end at a light."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from kinema.backend import synchronise, warp
from kinema.foundation import Array

from .cameras import Camera
from .denoise import denoised
from .energy import energy_table
from .lattice import STRIDES
from .launching import launch
from .oidn import has_oidn, oidn_denoised
from .placed import Placed
from .tone import developed
from .viewing import Viewing


@dataclass(frozen=True, eq=False, slots=True)
class Traced:
    """What came of it, (n_envs, n_cameras, rows, columns, ...) each."""

    light: Array
    """Red, green, blue, in proportion to light."""
    color: Array
    """The colour of the surface that is seen, before light; white for the sky."""
    normal: Array
    """Its normal in the world; zero for the sky."""
    depth: Array
    """Along the ray [m]; zero for the sky."""
    covered: Array
    """How much of a pixel shows anything but the sky."""
    samples: int
    seconds: float

    def picture(self, exposure: float | None = None) -> np.ndarray:
        """As a display takes it, 8 bits each; the exposure is chosen by the light there is when not given."""
        return developed(self.light, exposure)


class PathTracer:
    """Cameras whose pictures have global illumination, soft shadows, glossy surfaces, metal and glass.

    Args:
        placed: what they see.
        cameras: fixed, or on links.
        resolution: width and height of the images [pixels].
        bounces: how often light may be scattered on its way.
        brightest: indirect light of a single path is cut off here, against specks; 0 for never.
        roulette: after this many bounces dim paths end at random and those that go on stand for them, which saves
            time and costs some noise.
        seed: of the noise.
        per_env: whether lenses and places of cameras may differ between environments.
    """

    block = 128
    """Threads that a GPU starts together."""

    def __init__(
        self,
        placed: Placed,
        cameras: Sequence[Camera],
        resolution: tuple[int, int],
        *,
        bounces: int = 8,
        brightest: float = 8.0,
        roulette: int = 3,
        seed: int = 0,
        per_env: bool = False,
    ) -> None:
        from .kernels.bsdf import Energy
        from .kernels.paths import Course, Film, path_kernel

        wp = warp()
        self.placed = placed
        self.viewing = Viewing(placed, cameras, resolution, per_env=per_env)
        n = self.viewing.n_pixels
        film = Film()
        film.light, film.color, film.normal = (placed.zeros(n, wp.vec3) for _ in range(3))
        film.bright, film.square, film.depth, film.covered = (placed.zeros(n, wp.float32) for _ in range(4))
        self._film = film
        energy, (table, mean) = Energy(), energy_table()
        energy.table = placed.array(table.astype(np.float32), wp.vec2)
        energy.mean = placed.array(mean.astype(np.float32), wp.vec2)
        self._energy = energy
        course = Course()
        course.seed, course.bounces, course.brightest = int(seed), int(bounces), float(brightest)
        course.roulette = int(roulette)
        course.lens_open = int(any(c.aperture > 0.0 for c in cameras))
        course.strides = placed.array(STRIDES, wp.uint32)
        self._course = course
        self.kernel = path_kernel(placed.traits)

    def trace(
        self,
        samples: int = 64,
        *,
        seconds: float | None = None,
        denoise: bool | str = True,
        progress: Callable[[int, int], None] | None = None,
    ) -> Traced:
        """The picture of what is where it was placed last.

        Args:
            samples: paths for each pixel.
            seconds: no more are begun after this time.
            denoise: whether noise is taken away: by Open Image Denoise where it is installed, else by averaging along
                surfaces. `"portable"` for the latter in any case, so that pictures are the same everywhere.
            progress: told now and then how many samples there are, and how many are wanted.
        """
        placed, viewing, film, course = self.placed, self.viewing, self._film, self._course
        viewing.place()
        for array in (film.light, film.bright, film.square, film.color, film.normal, film.depth, film.covered):
            array.zero_()
        placed.looks.linear = 1
        began, done = time.perf_counter(), 0
        batch = 1
        while done < samples and (done == 0 or seconds is None or time.perf_counter() - began < seconds):
            course.first, course.count = done, min(batch, samples - done)
            inputs = [viewing.view, placed.world, placed.looks, placed.lamps, self._energy, course, film]
            launch(self.kernel, viewing.n_pixels, inputs, placed.device, block=self.block)
            synchronise(placed.device)
            done += course.count
            batch = min(2 * batch, 16)
            if progress is not None:
                progress(done, samples)
        placed.looks.linear = 0
        return self._gathered(done, time.perf_counter() - began, denoise)

    def _gathered(self, samples: int, seconds: float, denoise: bool | str) -> Traced:
        film, shape = self._film, self.viewing.shape
        covered = film.covered.numpy()
        seen = np.maximum(covered, 1.0)[:, None]
        light, color = film.light.numpy() / samples, film.color.numpy() / samples
        normal, depth = film.normal.numpy() / seen, film.depth.numpy() / seen[:, 0]
        if denoise and denoise != "portable" and has_oidn():
            light = oidn_denoised(light, color, normal, shape)
        elif denoise:
            mean = film.bright.numpy() / samples
            spread = np.maximum(film.square.numpy() / samples - mean**2, 0.0) / max(samples - 1, 1)
            light = denoised(light, spread, color, normal, depth, shape, self.placed.device)
        return Traced(
            light=light.reshape(*shape, 3),
            color=color.reshape(*shape, 3),
            normal=normal.reshape(*shape, 3),
            depth=depth.reshape(shape),
            covered=(covered / samples).reshape(shape),
            samples=samples,
            seconds=seconds,
        )
