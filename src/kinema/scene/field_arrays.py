"""Distance fields under the names of the array contract."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np

from kinema.model import GeomsInfo


def field_arrays(geoms: GeomsInfo) -> SimpleNamespace:
    """One row for each shape, zeros for those that are none, and the nodes of all fields one after the other.

    `T_mesh_to_sdf` (n, 4, 4) maps the shape's axes [m] to whole numbers of nodes; `sdf_res` (n, 3) counts nodes along
    each axis; `sdf_cell_size` and `sdf_max` (the largest distance) are lengths [m]; `sdf_cell_start` is where the nodes
    of a shape begin in `geoms_sdf_val` [m], `geoms_sdf_grad` (n, 3) and `geoms_sdf_closest_vert`.
    """
    count = len(geoms.names)
    fields = geoms.fields or [None] * count
    there = [f for f in fields if f is not None]
    sizes = [0 if f is None else len(f.values) for f in fields]
    maps = np.zeros((count, 4, 4))
    for i, field in enumerate(fields):
        if field is not None:
            maps[i] = np.eye(4)
            maps[i, :3, :3] /= field.cell_size
            maps[i, :3, 3] = -field.origin / field.cell_size
    return SimpleNamespace(
        T_mesh_to_sdf=maps,
        sdf_res=np.array([(0, 0, 0) if f is None else f.res for f in fields], np.int32).reshape(count, 3),
        sdf_cell_size=np.array([0.0 if f is None else f.cell_size for f in fields]),
        sdf_max=np.array([0.0 if f is None else np.abs(f.values).max() for f in fields]),
        sdf_cell_start=(np.cumsum(sizes) - sizes).astype(np.int32),
        geoms_sdf_val=np.concatenate([np.zeros(0), *(f.values for f in there)]),
        geoms_sdf_grad=np.concatenate([np.zeros((0, 3)), *(f.gradients for f in there)]),
        geoms_sdf_closest_vert=np.concatenate([np.zeros(0, np.int64), *(f.nearest for f in there)]),
    )
