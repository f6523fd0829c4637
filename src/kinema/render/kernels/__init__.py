"""Warp functions and kernels of the renderers, imported when the first image is rendered.

All kernels of a Warp module are defined before the first launch, because Warp recompiles a module that grows.
"""

from . import path_tracing as path_tracing, poses as poses, ray_casting as ray_casting
