"""Recordings as USD: geometry of the entities as references, link poses as time samples.

The recording references one stage per entity (and variant) in a folder `<name>_entities` beside it. Rigid bodies are
kinematic and joints inactive, so that a simulator that opens the file plays the recorded motion.
"""

from __future__ import annotations

import importlib
import math
import uuid
from pathlib import Path
from typing import Any

import numpy as np

from kinema.core import Array, Pose, quaternion_to_matrix
from kinema.description import World
from kinema.write import link_prim_paths, write

from .recording_formats import RecordedFrames, RecordedScene

USD_LAYOUT = "flat"
"""Prim layout of the entity stages."""
STATIC_TOLERANCE = 1e-12
"""Links whose pose matrix changes by less [m, or components of rotation matrices] get no time samples."""


def write_usd(path: Path, recorded: RecordedScene, frames: RecordedFrames, envs: np.ndarray, spacing: float) -> None:
    """Write a recording as a USD stage: prim `/World/env_<i>` per environment, with one prim per entity.

    The stage is written to a temporary file, which replaces `path` at the end.

    Args:
        path: file to write.
        recorded: the scene.
        frames: recorded frames with `link_pos` and `link_quat`.
        envs: indices of the recorded environments.
        spacing: distance of the environments in the stage [m].
    """
    usd, geom, sdf = (importlib.import_module(f"pxr.{name}") for name in ("Usd", "UsdGeom", "Sdf"))
    folder = path.with_name(f"{path.stem}_entities")
    folder.mkdir(exist_ok=True)
    temporary = path.with_name(f".{path.stem}-{uuid.uuid4().hex}{path.suffix}")
    stage = usd.Stage.Open(sdf.Layer.CreateNew(str(temporary)))
    stage.SetDefaultPrim(geom.Xform.Define(stage, "/World").GetPrim())
    geom.SetStageUpAxis(stage, geom.Tokens.z)
    geom.SetStageMetersPerUnit(stage, 1.0)
    time_codes_per_second = _time_codes_per_second(frames.times)
    time_codes = [time_codes_per_second * t for t in frames.times]
    stage.SetTimeCodesPerSecond(time_codes_per_second)
    stage.SetFramesPerSecond(time_codes_per_second)
    stage.SetStartTimeCode(time_codes[0])
    stage.SetEndTimeCode(time_codes[-1])
    stacked = frames.stacked()
    files: dict[tuple[int, int], str] = {}
    for column, env in enumerate(envs):
        offset = _grid_offset(column, len(envs), spacing)
        env_xform = geom.Xform.Define(stage, f"/World/env_{int(env)}")
        if any(offset):
            env_xform.AddTranslateOp().Set(tuple(float(x) for x in offset))
        for entity_idx in range(len(recorded.built.model.entities)):
            variant = int(recorded.variants[entity_idx][1][env])
            if (entity_idx, variant) not in files:
                files[entity_idx, variant] = _write_entity(recorded, entity_idx, variant, folder, path)
            root = _add_entity_reference(stage, env_xform.GetPath(), recorded, entity_idx, files[entity_idx, variant])
            poses = {name: stacked[f"link_{name}"][:, column] for name in ("pos", "quat") if f"link_{name}" in stacked}
            _write_link_samples(stage, root, recorded, (entity_idx, variant), time_codes, poses, offset)
            if "present" in stacked:
                _write_visibility(stage.GetPrimAtPath(root), time_codes, stacked["present"][:, column, entity_idx])
    stage.GetRootLayer().Save()
    temporary.replace(path)


def _time_codes_per_second(times: list[float]) -> float:
    """Time codes per second: the frame rate of the shortest frame interval; 24 for a single frame."""
    intervals = np.diff(times)
    return 24.0 if not len(intervals) else float(max(1, round(1.0 / max(float(intervals.min()), 1e-6))))


def _grid_offset(index: int, count: int, spacing: float) -> Array:
    """Position [m], (3,), of an environment in a square grid in the xy plane."""
    n_columns = math.ceil(math.sqrt(count))
    return np.array([spacing * (index % n_columns), spacing * (index // n_columns), 0.0])


def _write_entity(recorded: RecordedScene, entity_idx: int, variant: int, folder: Path, recording_path: Path) -> str:
    """Write the stage of an entity (or of one of its variants) to the folder.

    Return its path relative to the recording.
    """
    descriptions = recorded.variants[entity_idx][0]
    file = folder / (f"{entity_idx}.usdc" if len(descriptions) == 1 else f"{entity_idx}_{variant}.usdc")
    write(descriptions[variant], file, layout=USD_LAYOUT, exact=False)
    return f"./{file.relative_to(recording_path.parent).as_posix()}"


def _add_entity_reference(stage: Any, parent_path: Any, recorded: RecordedScene, entity_idx: int, file: str) -> str:
    """Add a prim for an entity below an environment prim, which references the entity's stage; return its path.

    The prim of a world gets the pose at which the world was added; the links of a robot are posed in world coordinates.
    """
    tf, geom = (importlib.import_module(f"pxr.{name}") for name in ("Tf", "UsdGeom"))
    name = tf.MakeValidIdentifier(recorded.built.model.entities[entity_idx].name)
    prim = geom.Xform.Define(stage, parent_path.AppendChild(name)).GetPrim()
    prim.GetReferences().AddReference(file)
    description, pose = recorded.entities[entity_idx]
    if isinstance(description, World) and pose is not None:
        op = geom.Xformable(prim).AddTransformOp(opSuffix="placed")
        op.Set(_usd_matrix(pose.rotation, pose.position))
    return str(prim.GetPath())


def _usd_matrix(rotation: Array, position: Array) -> Any:
    """Gf.Matrix4d of a rotation matrix and a position, in the row-vector convention of USD."""
    gf: Any = importlib.import_module("pxr.Gf")
    matrix = np.eye(4)
    matrix[:3, :3], matrix[3, :3] = np.asarray(rotation).T, position
    return gf.Matrix4d(*matrix.ravel().tolist())


def _write_link_samples(
    stage: Any,
    root: str,
    recorded: RecordedScene,
    entity_and_variant: tuple[int, int],
    time_codes: list[float],
    poses: dict[str, Array],
    offset: Array,
) -> None:
    """Write the poses of an entity's links as transform time samples, relative to their parent prims; disables physics.

    Args:
        stage: stage of the recording.
        root: path of the entity's prim.
        recorded: the scene.
        entity_and_variant: index of the entity, and of its variant.
        time_codes: time code of each frame.
        poses: `pos` [m] and `quat` (w, x, y, z) of all links, (frames, n_links, ...).
        offset: position of the environment in the stage [m], (3,).
    """
    entity_idx, variant = entity_and_variant
    usd, geom, physics = (importlib.import_module(f"pxr.{name}") for name in ("Usd", "UsdGeom", "UsdPhysics"))
    info = recorded.built.model.entities[entity_idx]
    written_root, paths = link_prim_paths(recorded.variants[entity_idx][0][variant], USD_LAYOUT)
    _disable_physics(stage.GetPrimAtPath(root), usd, physics)
    cache = geom.XformCache(usd.TimeCode.Default())
    for i, path in enumerate(paths):
        prim = stage.GetPrimAtPath(root + path[len(written_root) :])
        link = info.link_start + i
        parent_to_world = np.array(cache.GetLocalToWorldTransform(prim.GetParent())).T
        world_to_parent = np.linalg.inv(parent_to_world)
        local_poses = []
        for pos, quat in zip(poses["pos"][:, link], poses["quat"][:, link], strict=True):
            world = Pose(pos + offset, quaternion_to_matrix(quat)).matrix
            local_poses.append(world_to_parent @ world)
        xform = geom.Xformable(prim)
        xform.ClearXformOpOrder()
        op = xform.AddTransformOp(precision=geom.XformOp.PrecisionDouble)
        is_static = max(np.abs(matrix - local_poses[0]).max() for matrix in local_poses) < STATIC_TOLERANCE
        op.Set(_usd_matrix(local_poses[0][:3, :3], local_poses[0][:3, 3]))
        for code, matrix in [] if is_static else zip(time_codes, local_poses, strict=True):
            op.Set(_usd_matrix(matrix[:3, :3], matrix[:3, 3]), code)


def _write_visibility(prim: Any, time_codes: list[float], present: np.ndarray) -> None:
    """Make an entity invisible while it is absent, by samples at the first frame and where its presence changes."""
    if present.all():
        return
    geom: Any = importlib.import_module("pxr.UsdGeom")
    visibility = geom.Imageable(prim).CreateVisibilityAttr()
    for i in range(len(present)):
        if i == 0 or present[i] != present[i - 1]:
            visibility.Set(geom.Tokens.inherited if present[i] else geom.Tokens.invisible, time_codes[i])


def _disable_physics(root: Any, usd: Any, physics: Any) -> None:
    """Make all rigid bodies below a prim kinematic and deactivate all joints."""
    for prim in usd.PrimRange(root):
        if prim.HasAPI(physics.RigidBodyAPI):
            physics.RigidBodyAPI(prim).CreateKinematicEnabledAttr().Set(True)
    for prim in [p for p in usd.PrimRange(root) if p.IsA(physics.Joint)]:
        prim.SetActive(False)
