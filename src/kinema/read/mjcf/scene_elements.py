"""Converts sites, cameras, lights and the simulation options of an MJCF model."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from kinema.core import Array, Pose, float64_array, reproducible_norm, rotation_aligning_z
from kinema.description import OPTIONS_WITHOUT_DEFAULT, Camera, Frame, Light
from kinema.tokens import mjcf

from .bodies import default_class
from .geoms import MeshAssets, primitive_geometry
from .materials import read_visual_material
from .model_reader import (
    ModelReader,
    enum_name,
    float32_to_floats,
    nonempty_settings,
    store_nonempty_settings,
    to_floats,
)
from .mujoco_compiler import mujoco

_LIGHT_KINDS = {"spot": "spot", "directional": "directional", "point": "point"}


def read_sites(reader: ModelReader, meshes: MeshAssets) -> list[tuple[set[int], Frame]]:
    """All sites as frames, each with its body."""
    return [({int(reader.model.site_bodyid[s])}, _read_site(reader, meshes, s)) for s in range(reader.model.nsite)]


def _read_site(reader: ModelReader, meshes: MeshAssets, index: int) -> Frame:
    """Convert a site to a frame with marker geometry."""
    model = reader.model
    kind = int(model.site_type[index])
    material = read_visual_material(reader, int(model.site_matid[index]), model.site_rgba[index])
    is_mesh = kind == mujoco().mjtGeom.mjGEOM_MESH
    frame = Frame(
        **reader.node_arguments(mjcf.SITE, "sites", index),
        link=reader.link_name(int(model.site_bodyid[index])),
        pose=reader.placements.pose("sites", index),
        marker=meshes.centred_mesh(int(model.site_dataid[index]))
        if is_mesh
        else primitive_geometry(kind, reader.placements.sizes("sites", index)),
        color=material.color,
    )
    store_nonempty_settings(
        frame.attributes,
        {
            mjcf.GROUP: int(model.site_group[index]),
            mjcf.MATERIAL: material.name,
            mjcf.USER: model.site_user[index] if model.nuser_site else (),
            mjcf.CLASS: default_class(reader, "sites", index),
        },
    )
    return frame


def read_cameras(reader: ModelReader) -> list[tuple[set[int], Camera]]:
    """All cameras, each with its body."""
    return [({int(reader.model.cam_bodyid[c])}, _read_camera(reader, c)) for c in range(reader.model.ncam)]


def _read_camera(reader: ModelReader, index: int) -> Camera:
    """Convert a camera; orthographic cameras are approximated with a warning."""
    model = reader.model
    camera = Camera(
        **reader.node_arguments(mjcf.CAMERA, "cameras", index),
        link=reader.link_name(int(model.cam_bodyid[index])),
        pose=reader.placements.pose("cameras", index),
    )
    height = float(model.cam_fovy[index])
    if _is_orthographic(model, index):
        camera.settings |= {mjcf.PROJECTION: mjcf.ORTHOGRAPHIC, mjcf.HEIGHT: height}
        message = f'camera "{camera.name}" is orthographic; its height is kept as a setting'
        reader.warning("orthographic-camera", message, camera.origin)
    else:
        camera.vertical_fov = math.radians(height)
    width, rows = (int(n) for n in model.cam_resolution[index])
    if (width, rows) != (1, 1):
        camera.resolution = (width, rows)
    mode = enum_name(model.cam_mode[index], "mjtCamLight")
    camera.settings |= nonempty_settings(
        {
            mjcf.MODE: "" if mode == "fixed" else mode,
            mjcf.TARGET: reader.name(mjcf.BODY, int(model.cam_targetbodyid[index])),
            mjcf.IPD: float(model.cam_ipd[index]),
            mjcf.SENSORSIZE: model.cam_sensorsize[index],
            mjcf.INTRINSIC: model.cam_intrinsic[index] if model.cam_sensorsize[index].any() else (),
            mjcf.OUTPUT: int(getattr(model, "cam_output", (0,) * model.ncam)[index]),
            mjcf.USER: model.cam_user[index] if model.nuser_cam else (),
        }
    )
    return camera


def _is_orthographic(model: Any, index: int) -> bool:
    table = getattr(model, "cam_projection", None)
    if table is None:  # MuJoCo before 3.4
        table = model.cam_orthographic
    return bool(table[index])


def read_lights(reader: ModelReader) -> list[tuple[set[int], Light]]:
    """All lights, each with its body."""
    return [({int(reader.model.light_bodyid[i])}, _read_light(reader, i)) for i in range(reader.model.nlight)]


def _read_light(reader: ModelReader, index: int) -> Light:
    """Convert a light; unknown types become point lights with a warning."""
    model = reader.model
    kind = _light_kind(model, index)
    red, green, blue = float32_to_floats(model.light_diffuse[index])
    light = Light(
        **reader.node_arguments(mjcf.LIGHT, "lights", index),
        kind=_LIGHT_KINDS.get(kind, "point"),
        link=reader.link_name(int(model.light_bodyid[index])),
        pose=Pose(float64_array(model.light_pos[index]), _rotation_towards(model.light_dir[index])),
        color=(red, green, blue),
        casts_shadow=bool(model.light_castshadow[index]),
    )
    mode = enum_name(model.light_mode[index], "mjtCamLight")
    light.settings = {mjcf.ACTIVE: bool(model.light_active[index])} | nonempty_settings(
        {
            mjcf.TYPE: "" if kind in _LIGHT_KINDS else kind,
            mjcf.MODE: "" if mode == "fixed" else mode,
            mjcf.TARGET: reader.name(mjcf.BODY, int(model.light_targetbodyid[index])),
            mjcf.TEXTURE: reader.name(mjcf.TEXTURE, int(getattr(model, "light_texid", (-1,) * model.nlight)[index])),
            **{
                name: getattr(model, f"light_{name}")[index]
                for name in mjcf.LIGHT_SETTINGS
                if hasattr(model, f"light_{name}")
            },
        }
    )
    if kind not in _LIGHT_KINDS:
        message = f'light "{light.name}" is of type {kind!r}; it is taken for a point light'
        reader.warning("light-type", message, light.origin)
    return light


def _light_kind(model: Any, index: int) -> str:
    table = getattr(model, "light_type", None)
    if table is None:  # MuJoCo before 3.3.3
        return "directional" if model.light_directional[index] else "spot"
    return enum_name(table[index], "mjtLightType")


def _rotation_towards(direction: Any) -> Array:
    """Rotation matrix with -z along the direction; identity for a zero vector."""
    length = reproducible_norm(direction)
    return (
        rotation_aligning_z(-float64_array(direction) / length) if length > 0 and math.isfinite(length) else np.eye(3)
    )


# -- simulation options ------------------------------------------------------------------------------------------------

_OPTION_ENUMS = {"integrator": "mjtIntegrator", "cone": "mjtCone", "jacobian": "mjtJacobian", "solver": "mjtSolver"}


def read_options(reader: ModelReader) -> dict[str, Any]:
    """Simulation options of `<option>` including defaults, except for time step and integrator; flags by MJCF name."""
    result: dict[str, Any] = {}
    model, parts = reader.model, reader.compiled.prepared.document.all_documents()
    given = {name for part in parts for option in part.root.find_all(mjcf.OPTION) for name in option.attributes}
    for name in (n for n in dir(model.opt) if not n.startswith("_")):
        value = getattr(model.opt, name)
        if callable(value) or name in ("gravity", "disableflags", "enableflags"):
            continue
        if name in OPTIONS_WITHOUT_DEFAULT and name not in given:
            continue
        if name in _OPTION_ENUMS:
            result[name] = enum_name(value, _OPTION_ENUMS[name])
        else:
            result[name] = to_floats(value) if isinstance(value, np.ndarray) else value
    result[mjcf.FLAGS] = _read_flags(model)
    return result


def _read_flags(model: Any) -> dict[str, bool]:
    """MJCF flag name -> whether the feature is enabled."""
    mj = mujoco()
    flags: dict[str, bool] = {}
    for enumeration, bits, on in (
        (mj.mjtDisableBit, int(model.opt.disableflags), False),
        (mj.mjtEnableBit, int(model.opt.enableflags), True),
    ):
        for name, bit in enumeration.__members__.items():
            if not name.startswith("mjN"):
                flags[name.split("_", 1)[1].lower()] = bool(bits & int(bit)) == on
    return flags


def read_gravity(model: Any) -> Array:
    """Gravity [m/s2], shape (3,); zero if disabled by a flag."""
    off = int(model.opt.disableflags) & int(mujoco().mjtDisableBit.mjDSBL_GRAVITY)
    return np.zeros(3) if off else float64_array(model.opt.gravity)
