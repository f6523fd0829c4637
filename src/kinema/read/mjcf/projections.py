"""How MuJoCo lays images on a mesh that has no texture coordinates.

One lies as seen from above, along z of the mesh's centred frame; six lie by the direction of a point from that frame's
origin, each coordinate times the half size where the material is `texuniform`.

Its renderer has `(u, v) = (x, y) * texrepeat / (2 * half size) + 1/2`, with the half sizes of the geom, or without them
where the material is `texuniform`. Texture coordinates that a mesh has are multiplied by `texrepeat`, and by the half
sizes where the material is `texuniform`; they count from the top of the image.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from kinema.description import Mesh
from kinema.foundation import Array, Pose
from kinema.shapes import CubeProjection, Placement, Projection

from .cube_textures import cube_sides
from .engine import mujoco
from .reading import Reading

_MIN_SIZE = 1e-15
"""MuJoCo divides by no less."""


def projection_of(reading: Reading, geom: int, mesh: Mesh, pose: Pose) -> Projection | CubeProjection | None:
    """How the image of a geom's material lies on its mesh; None where it has none, or the mesh has coordinates.

    Args:
        reading: this run.
        geom: MuJoCo's number of the geom.
        mesh: its mesh, before the scale.
        pose: of the scaled mesh in MuJoCo's centred frame.
    """
    model = reading.model
    material, number = int(model.geom_matid[geom]), int(model.geom_dataid[geom])
    if material < 0 or number < 0 or has_coordinates(reading, geom):
        return None
    texture = image_of(reading, geom)
    if texture < 0:
        return None
    if int(model.tex_type[texture]) != int(mujoco().mjtTexture.mjTEXTURE_2D):
        sides = cube_sides(reading, texture)
        if sides is None:
            return None
        sizes = np.asarray(model.geom_size[geom], dtype=np.float64)
        times = np.where(model.mat_texuniform[material] & (sizes > 0), sizes, 1.0)
        around = times[:, None] * (pose.rotation @ np.diag(mesh.scale))
        x, y, z = map(_row, around, times * pose.position)
        return CubeProjection(x, y, z, sides.shape[1])
    factors = 0.5 * np.asarray(model.mat_texrepeat[material], dtype=np.float64)
    if not model.mat_texuniform[material]:
        sizes = np.asarray(model.geom_size[geom][:2], dtype=np.float64)
        factors = factors / np.where(sizes > 0, np.maximum(sizes, _MIN_SIZE), 1.0)
    linear = factors[:, None] * (pose.rotation @ np.diag(mesh.scale))[:2]
    offset = factors * pose.position[:2] + 0.5
    return Projection(_row(linear[0], offset[0]), _row(linear[1], offset[1]))


def image_of(reading: Reading, geom: int) -> int:
    """MuJoCo's number of the texture that its renderer shows on a geom; -1 for none."""
    material = int(reading.model.geom_matid[geom])
    return -1 if material < 0 else int(reading.model.mat_texid[material][mujoco().mjtTextureRole.mjTEXROLE_RGB])


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
