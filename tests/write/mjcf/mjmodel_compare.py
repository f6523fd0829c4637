"""Two compiled models, field by field.

Every field of `MjModel` is compared unless it is named here with a reason. Objects are matched by their order, which
writing keeps, those of assets by what they look like on the geoms that use them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import mujoco
import numpy as np

from kinema.core import Array, quaternion_to_matrix

NOT_COMPARED = {
    # prefix of a field -> why it may differ
    "name": "addresses of names; the names themselves are compared",
    "path": "paths of files",
    "bvh": "search trees over shapes, which follow from them",
    "mesh_": "geoms are compared with their vertices in place",
    "mat_": "geoms are compared with the look they have",
    "tex_": "for the eye only",
    "hfield_data": "geoms are compared with their heights",
    "hfield_pathadr": "paths of files",
    "skin_": "for the eye only",
    "signature": "a checksum of sizes and names",
    "npaths": "paths of files",
    "nnames": "names that the file does not need",
    "nbuffer": "memory",
    "narena": "memory",
    "ntexdata": "assets that nothing shows",
    "nbvh": "follows from the assets",
    "nmesh": "an asset that is used in two ways may be two",
    "nmat": "a material that differs only by colour is one",
    "geom_aabb": "follows from size and mesh",
    "geom_rbound": "follows from size and mesh",
    "body_sameframe": "follows from the axes of the inertia",
    "geom_sameframe": "likewise",
    "site_sameframe": "likewise",
    "body_iquat": "the inertia is compared as a tensor",
    "body_inertia": "the inertia is compared as a tensor",
    "site_dataid": "assets in another order",
    "geom_size": "compared as far as the type has sizes",
    "site_size": "compared as far as the type has sizes",
    "geom_pos": "of a mesh: compared with its vertices in place",
    "geom_quat": "of a mesh: likewise",
    "geom_rgba": "compared with the material",
    "dof_length": "follows from the boxes around meshes, whose axes may be any where the mesh is symmetric",
}
SINGLE = 2e-6
"""Relative: a field that MuJoCo keeps in single precision."""


def differences(a: Any, b: Any, tolerance: float = 1e-9) -> list[str]:
    """What is not the same, in words."""
    found = [*_plain(a, b, tolerance), *_names(a, b)]
    if a.nbody != b.nbody or a.ngeom != b.ngeom:
        return [*found, "different numbers of bodies or geoms"]
    return [*found, *_inertias(a, b, tolerance), *_geoms(a, b), *_options(a, b)]


def _plain(a: Any, b: Any, tolerance: float) -> Iterator[str]:
    for field in (n for n in dir(a) if not n.startswith("_")):
        one, other = getattr(a, field), getattr(b, field, None)
        if callable(one) or any(field.startswith(prefix) for prefix in NOT_COMPARED):
            continue
        if field.startswith("n") and isinstance(one, int):
            if one != other:
                yield f"{field}: {one} and {other}"
        elif isinstance(one, np.ndarray) and other is not None:
            yield from _array(a, field, one, other, tolerance)


def _array(model: Any, field: str, one: np.ndarray, other: np.ndarray, tolerance: float) -> Iterator[str]:
    if one.shape != other.shape:
        yield f"{field}: shapes {one.shape} and {other.shape}"
        return
    if one.dtype.kind not in "fiub" or not one.size:
        return
    if field.endswith("quat") and one.ndim == 2 and one.shape[1] == 4:
        other = other * np.where((one * other).sum(axis=1, keepdims=True) < 0, -1.0, 1.0)
    limit = SINGLE if one.dtype == np.float32 else tolerance
    if field in ("cam_fovy", "cam_intrinsic"):
        limit = 1e-6  # from numbers in single precision
    x, y = one.astype(np.float64), other.astype(np.float64)
    with np.errstate(invalid="ignore"):
        wrong = ~((x == y) | (np.abs(x - y) <= limit * np.maximum(1.0, np.abs(x))))
    if wrong.any():
        where = tuple(int(i) for i in np.argwhere(wrong)[0])
        yield f"{field}{list(where)}: {x[where]!r} and {y[where]!r} ({int(wrong.sum())} differ)"


_OBJECTS = (
    *("body", "joint", "geom", "site", "camera", "light", "tendon", "equality", "actuator", "sensor", "key"),
    *("mesh", "hfield", "texture", "material"),
)


def _names(a: Any, b: Any) -> Iterator[str]:
    for kind in _OBJECTS:
        code = int(getattr(mujoco.mjtObj, f"mjOBJ_{kind.upper()}"))
        number = 0
        while True:
            one, other = (_name(m, code, number) for m in (a, b))
            if one is None and other is None:
                break
            if one and one != other:
                yield f"{kind} {number} is called {one!r} and {other!r}"
            number += 1


def _name(model: Any, code: int, number: int) -> str | None:
    """The name; empty for none, None for no such object."""
    counts = {
        **{int(getattr(mujoco.mjtObj, f"mjOBJ_{k.upper()}")): n for k, n in _COUNTS.items()},
    }
    return None if number >= int(getattr(model, counts[code])) else mujoco.mj_id2name(model, code, number) or ""


_COUNTS = {
    "body": "nbody",
    "joint": "njnt",
    "geom": "ngeom",
    "site": "nsite",
    "camera": "ncam",
    "light": "nlight",
    "tendon": "ntendon",
    "equality": "neq",
    "actuator": "nactuator",
    "sensor": "nsensor",
    "key": "nkey",
    "mesh": "nmesh",
    "hfield": "nhfield",
    "texture": "ntex",
    "material": "nmat",
}


def _inertias(a: Any, b: Any, tolerance: float) -> Iterator[str]:
    for body in range(a.nbody):
        one, other = (_tensor(m, body) for m in (a, b))
        scale = max(float(np.abs(one).max()), 1e-12)
        if float(np.abs(one - other).max()) > tolerance * scale:
            yield f"inertia of body {body}: {one.tolist()} and {other.tolist()}"


def _tensor(model: Any, body: int) -> Array:
    axes = quaternion_to_matrix(model.body_iquat[body])
    return axes @ np.diag(model.body_inertia[body]) @ axes.T


_N_SIZES = {"PLANE": 3, "SPHERE": 1, "CAPSULE": 2, "CYLINDER": 2, "ELLIPSOID": 3, "BOX": 3}


def _geoms(a: Any, b: Any) -> Iterator[str]:
    for geom in range(a.ngeom):
        kind = mujoco.mjtGeom(int(a.geom_type[geom])).name.removeprefix("mjGEOM_")
        count = _N_SIZES.get(kind, 0)
        if not np.allclose(a.geom_size[geom][:count], b.geom_size[geom][:count], rtol=1e-12, atol=0):
            yield f"size of geom {geom}"
        if kind in ("MESH", "SDF"):
            one, other = (_vertices(m, geom) for m in (a, b))
            if one.shape != other.shape or not np.allclose(one, other, rtol=0, atol=1e-6 * (1 + np.abs(one).max())):
                yield f"vertices of geom {geom}"
        else:
            one, other = (np.append(_turn(m, geom).ravel(), m.geom_pos[geom]) for m in (a, b))
            if not np.allclose(one, other, rtol=0, atol=1e-9):
                yield f"pose of geom {geom}"
            if kind == "HFIELD" and not np.allclose(_heights(a, geom), _heights(b, geom), atol=1e-6):
                yield f"heights of geom {geom}"
        looks = [_look(m, geom) for m in (a, b)]
        if not np.allclose(looks[0], looks[1], atol=1e-6):
            yield f"look of geom {geom}: {looks[0]} and {looks[1]}"


def _turn(model: Any, geom: int) -> Array:
    return quaternion_to_matrix(model.geom_quat[geom])


def _vertices(model: Any, geom: int) -> Array:
    mesh = int(model.geom_dataid[geom])
    first, count = int(model.mesh_vertadr[mesh]), int(model.mesh_vertnum[mesh])
    points = model.mesh_vert[first : first + count] @ _turn(model, geom).T + model.geom_pos[geom]
    return points[np.lexsort(np.round(points, 5).T)]


def _heights(model: Any, geom: int) -> Array:
    field = int(model.geom_dataid[geom])
    first, rows, columns = (int(t[field]) for t in (model.hfield_adr, model.hfield_nrow, model.hfield_ncol))
    size = model.hfield_size[field]
    return np.append(size[2] * model.hfield_data[first : first + rows * columns], size)


def _look(model: Any, geom: int) -> Array:
    """What is seen: the material's colour unless the geom has one of its own."""
    material, own = int(model.geom_matid[geom]), model.geom_rgba[geom]
    if material < 0:
        return np.append(own, np.zeros(6))
    is_grey = np.allclose(own, (0.5, 0.5, 0.5, 1.0))
    parts = ("emission", "specular", "shininess", "reflectance", "metallic", "roughness")
    rest = [float(getattr(model, f"mat_{p}")[material]) for p in parts]
    return np.append(model.mat_rgba[material] if is_grey else own, rest)


def _options(a: Any, b: Any) -> Iterator[str]:
    for group in ("opt", "vis", *([] if a.nmesh else ["stat"])):  # statistics follow from boxes around meshes
        yield from _struct(getattr(a, group), getattr(b, group), group)


def _struct(one: Any, other: Any, path: str) -> Iterator[str]:
    for field in (n for n in dir(one) if not n.startswith("_")):
        x, y = getattr(one, field), getattr(other, field)
        if callable(x):
            continue
        if isinstance(x, int | float | np.ndarray | np.generic):
            if not np.allclose(x, y, rtol=1e-6, atol=1e-9):
                yield f"{path}.{field}: {x} and {y}"
        else:
            yield from _struct(x, y, f"{path}.{field}")
