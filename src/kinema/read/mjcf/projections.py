"""How MuJoCo lays an image on a mesh that has no texture coordinates: from above, along z of the mesh's centred frame.

Its renderer has `(u, v) = (x, y) * texrepeat / (2 * half size) + 1/2`, with the half sizes of the geom, or without them
where the material is `texuniform`. Texture coordinates that a mesh has are multiplied by `texrepeat`, and by the half
sizes where the material is `texuniform`; they count from the top of the image.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from kinema.description import Mesh
from kinema.foundation import Array, Pose
from kinema.shapes import Placement, Projection

from .engine import mujoco
from .reading import Reading

_MIN_SIZE = 1e-15
"""MuJoCo divides by no less."""


def projection_of(reading: Reading, geom: int, mesh: Mesh, pose: Pose) -> Projection | None:
    """How the image of a geom's material lies on its mesh; None where it has none, or the mesh has coordinates.

    Args:
        reading: this run.
        geom: MuJoCo's number of the geom.
        mesh: its mesh, before the scale.
        pose: of the scaled mesh in MuJoCo's centred frame.
    """
    mj, model = mujoco(), reading.model
    material, number = int(model.geom_matid[geom]), int(model.geom_dataid[geom])
    if material < 0 or number < 0 or has_coordinates(reading, geom):
        return None
    texture = int(model.mat_texid[material][mj.mjtTextureRole.mjTEXROLE_RGB])
    if texture < 0 or int(model.tex_type[texture]) != int(mj.mjtTexture.mjTEXTURE_2D):
        return None
    factors = 0.5 * np.asarray(model.mat_texrepeat[material], dtype=np.float64)
    if not model.mat_texuniform[material]:
        sizes = np.asarray(model.geom_size[geom][:2], dtype=np.float64)
        factors = factors / np.where(sizes > 0, np.maximum(sizes, _MIN_SIZE), 1.0)
    linear = factors[:, None] * (pose.rotation @ np.diag(mesh.scale))[:2]
    offset = factors * pose.position[:2] + 0.5
    return Projection(_row(linear[0], offset[0]), _row(linear[1], offset[1]))


def has_coordinates(reading: Reading, geom: int) -> bool:
    """Whether a geom is a mesh with texture coordinates."""
    number = int(reading.model.geom_dataid[geom])
    return number >= 0 and int(reading.model.mesh_texcoordadr[number]) >= 0


def repeated(reading: Reading, geom: int, placement: Placement) -> Placement:
    """How an image lies on a geom whose mesh has texture coordinates.

    Args:
        reading: this run.
        geom: MuJoCo's number of the geom.
        placement: how it is flipped.
    """
    model = reading.model
    material = int(model.geom_matid[geom])
    if material < 0 or not has_coordinates(reading, geom):
        return placement
    times = np.asarray(model.mat_texrepeat[material], dtype=np.float64)
    if model.mat_texuniform[material]:
        times = times * np.asarray(model.geom_size[geom][:2], dtype=np.float64)
    across, down = times.tolist()
    if (across, down) == (1.0, 1.0):
        return placement
    (flip_u, flip_v), (u, v) = placement.scale, placement.offset
    scale, offset = (across * flip_u, down * flip_v), (u, v + flip_v * (1.0 - down))
    return replace(placement, scale=scale, offset=offset)


def _row(linear: Array, offset: float) -> tuple[float, float, float, float]:
    x, y, z = linear.tolist()
    return x, y, z, float(offset)
