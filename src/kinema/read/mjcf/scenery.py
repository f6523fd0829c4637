"""Sites, cameras, lights, and the simulation settings of the file."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from kinema.description import Camera, Frame, Light
from kinema.foundation import Array, Pose, rotation_aligning, vector
from kinema.words import mjcf

from .engine import mujoco
from .geoms import primitive
from .joints import class_of
from .materials import visual_material
from .meshes import MeshAssets
from .reading import Reading, floats, given, pose_of, set_given, short_floats, word

_LIGHT_KINDS = {"spot": "spot", "directional": "directional", "point": "point"}


def frames(reading: Reading, meshes: MeshAssets) -> list[tuple[set[int], Frame]]:
    """Every site with its body."""
    return [({int(reading.model.site_bodyid[s])}, _frame(reading, meshes, s)) for s in range(reading.model.nsite)]


def _frame(reading: Reading, meshes: MeshAssets, number: int) -> Frame:
    model = reading.model
    kind = int(model.site_type[number])
    look = visual_material(reading, int(model.site_matid[number]), model.site_rgba[number])
    is_mesh = kind == mujoco().mjtGeom.mjGEOM_MESH
    frame = Frame(
        **reading.node(mjcf.SITE, "sites", number),
        link=reading.link(int(model.site_bodyid[number])),
        pose=pose_of(model.site_pos[number], model.site_quat[number]),
        marker=meshes.centred(int(model.site_dataid[number])) if is_mesh else primitive(kind, model.site_size[number]),
        color=look.color,
    )
    set_given(
        frame.attributes,
        {
            mjcf.GROUP: int(model.site_group[number]),
            mjcf.MATERIAL: look.name,
            mjcf.USER: model.site_user[number] if model.nuser_site else (),
            mjcf.CLASS: class_of(reading, "sites", number),
        },
    )
    return frame


def cameras(reading: Reading) -> list[tuple[set[int], Camera]]:
    """Every camera with its body."""
    return [({int(reading.model.cam_bodyid[c])}, _camera(reading, c)) for c in range(reading.model.ncam)]


def _camera(reading: Reading, number: int) -> Camera:
    model = reading.model
    camera = Camera(
        **reading.node(mjcf.CAMERA, "cameras", number),
        link=reading.link(int(model.cam_bodyid[number])),
        pose=pose_of(model.cam_pos[number], model.cam_quat[number]),
    )
    height = float(model.cam_fovy[number])
    if _is_orthographic(model, number):
        camera.settings |= {mjcf.PROJECTION: mjcf.ORTHOGRAPHIC, mjcf.HEIGHT: height}
        message = f'camera "{camera.name}" is orthographic; its height is kept as a setting'
        reading.warning("orthographic-camera", message, camera.origin)
    else:
        camera.vertical_fov = math.radians(height)
    width, rows = (int(n) for n in model.cam_resolution[number])
    if (width, rows) != (1, 1):
        camera.resolution = (width, rows)
    mode = word(model.cam_mode[number], "mjtCamLight")
    camera.settings |= given(
        {
            mjcf.MODE: "" if mode == "fixed" else mode,
            mjcf.TARGET: reading.name(mjcf.BODY, int(model.cam_targetbodyid[number])),
            mjcf.IPD: float(model.cam_ipd[number]),
            mjcf.SENSORSIZE: model.cam_sensorsize[number],
            mjcf.INTRINSIC: model.cam_intrinsic[number] if model.cam_sensorsize[number].any() else (),
            mjcf.OUTPUT: int(getattr(model, "cam_output", (0,) * model.ncam)[number]),
            mjcf.USER: model.cam_user[number] if model.nuser_cam else (),
        }
    )
    return camera


def _is_orthographic(model: Any, number: int) -> bool:
    table = getattr(model, "cam_projection", None)
    if table is None:  # MuJoCo before 3.4
        table = model.cam_orthographic
    return bool(table[number])


def lights(reading: Reading) -> list[tuple[set[int], Light]]:
    """Every light with its body."""
    return [({int(reading.model.light_bodyid[i])}, _light(reading, i)) for i in range(reading.model.nlight)]


def _light(reading: Reading, number: int) -> Light:
    model = reading.model
    kind = _light_kind(model, number)
    red, green, blue = short_floats(model.light_diffuse[number])
    light = Light(
        **reading.node(mjcf.LIGHT, "lights", number),
        kind=_LIGHT_KINDS.get(kind, "point"),
        link=reading.link(int(model.light_bodyid[number])),
        pose=Pose(vector(model.light_pos[number]), _shining(model.light_dir[number])),
        color=(red, green, blue),
        casts_shadow=bool(model.light_castshadow[number]),
    )
    mode = word(model.light_mode[number], "mjtCamLight")
    light.settings = {mjcf.ACTIVE: bool(model.light_active[number])} | given(
        {
            mjcf.TYPE: "" if kind in _LIGHT_KINDS else kind,
            mjcf.MODE: "" if mode == "fixed" else mode,
            mjcf.TARGET: reading.name(mjcf.BODY, int(model.light_targetbodyid[number])),
            mjcf.TEXTURE: reading.name(mjcf.TEXTURE, int(getattr(model, "light_texid", (-1,) * model.nlight)[number])),
            **{
                name: getattr(model, f"light_{name}")[number]
                for name in mjcf.LIGHT_SETTINGS
                if hasattr(model, f"light_{name}")
            },
        }
    )
    if kind not in _LIGHT_KINDS:
        message = f'light "{light.name}" is of type {kind!r}; it is taken for a point light'
        reading.warning("light-type", message, light.origin)
    return light


def _light_kind(model: Any, number: int) -> str:
    table = getattr(model, "light_type", None)
    if table is None:  # MuJoCo before 3.3.3
        return "directional" if model.light_directional[number] else "spot"
    return word(table[number], "mjtLightType")


def _shining(direction: Any) -> Array:
    """A rotation whose -z is the direction."""
    length = float(np.linalg.norm(direction))
    return rotation_aligning(-vector(direction) / length) if length > 0 and math.isfinite(length) else np.eye(3)


# -- settings ---------------------------------------------------------------------------------------------------------

_WORDS = {"integrator": "mjtIntegrator", "cone": "mjtCone", "jacobian": "mjtJacobian", "solver": "mjtSolver"}


def options(model: Any) -> dict[str, Any]:
    """Everything `<option>` says, with MuJoCo's defaults where it says nothing; flags by their names in the file."""
    result: dict[str, Any] = {}
    for name in (n for n in dir(model.opt) if not n.startswith("_")):
        value = getattr(model.opt, name)
        if callable(value) or name in ("gravity", "disableflags", "enableflags"):
            continue
        if name in _WORDS:
            result[name] = word(value, _WORDS[name])
        else:
            result[name] = floats(value) if isinstance(value, np.ndarray) else value
    result[mjcf.FLAGS] = _flags(model)
    return result


def _flags(model: Any) -> dict[str, bool]:
    """True for what is on."""
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


def gravity(model: Any) -> Array:
    """What acts: zero where the file switches gravity off [m/s2]."""
    off = int(model.opt.disableflags) & int(mujoco().mjtDisableBit.mjDSBL_GRAVITY)
    return np.zeros(3) if off else vector(model.opt.gravity)
