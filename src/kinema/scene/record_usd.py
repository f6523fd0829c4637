"""Recordings as USD: what entities look like, once, and where their links are, in time samples.

The file refers to a stage for each entity, in a folder beside it. What is recorded is meant to be seen: bodies are
kinematic in it, and joints are not active, so that a simulator that opens it plays it as well.
"""

from __future__ import annotations

import importlib
import math
import uuid
from pathlib import Path
from typing import Any

import numpy as np

from kinema.description import World
from kinema.foundation import Array, Pose, quaternion_to_matrix
from kinema.write import link_paths, write

from .record_frames import Frames, Source

LAYOUT = "flat"
STILL = 1e-12
"""What moves by less [m, or sines of angles] does not move."""


def write_usd(path: Path, source: Source, frames: Frames, envs: np.ndarray, spacing: float) -> None:
    """A stage with a prim `/World/env_<i>` for each environment, and in it one for each entity."""
    usd, geom, sdf = (importlib.import_module(f"pxr.{name}") for name in ("Usd", "UsdGeom", "Sdf"))
    folder = path.with_name(f"{path.stem}_entities")
    folder.mkdir(exist_ok=True)
    unfinished = path.with_name(f".{path.stem}-{uuid.uuid4().hex}{path.suffix}")
    stage = usd.Stage.Open(sdf.Layer.CreateNew(str(unfinished)))
    stage.SetDefaultPrim(geom.Xform.Define(stage, "/World").GetPrim())
    geom.SetStageUpAxis(stage, geom.Tokens.z)
    geom.SetStageMetersPerUnit(stage, 1.0)
    per_second = _per_second(frames.times)
    codes = [per_second * t for t in frames.times]
    stage.SetTimeCodesPerSecond(per_second)
    stage.SetFramesPerSecond(per_second)
    stage.SetStartTimeCode(codes[0])
    stage.SetEndTimeCode(codes[-1])
    stacked = frames.stacked()
    files: dict[tuple[int, int], str] = {}
    for column, env in enumerate(envs):
        offset = _offset(column, len(envs), spacing)
        home = geom.Xform.Define(stage, f"/World/env_{int(env)}")
        if any(offset):
            home.AddTranslateOp().Set(tuple(float(x) for x in offset))
        for number in range(len(source.running.model.entities)):
            variant = int(source.variants[number][1][env])
            if (number, variant) not in files:
                files[number, variant] = _write_entity(source, number, variant, folder, path)
            root = _refer(stage, home.GetPath(), source, number, files[number, variant])
            poses = {name: stacked[f"link_{name}"][:, column] for name in ("pos", "quat") if f"link_{name}" in stacked}
            _animate(stage, root, source, (number, variant), codes, poses, offset)
    stage.GetRootLayer().Save()
    unfinished.replace(path)


def _per_second(times: list[float]) -> float:
    """Time codes to a second: as many as there are frames."""
    gaps = np.diff(times)
    return 24.0 if not len(gaps) else float(max(1, round(1.0 / max(float(gaps.min()), 1e-6))))


def _offset(number: int, count: int, spacing: float) -> Array:
    """Environments side by side in a square."""
    across = math.ceil(math.sqrt(count))
    return np.array([spacing * (number % across), spacing * (number // across), 0.0])


def _write_entity(source: Source, number: int, variant: int, folder: Path, path: Path) -> str:
    """What an entity looks like, or one of its variants; the way to it from the recording."""
    looks = source.variants[number][0]
    file = folder / (f"{number}.usdc" if len(looks) == 1 else f"{number}_{variant}.usdc")
    write(looks[variant], file, layout=LAYOUT, exact=False)
    return f"./{file.relative_to(path.parent).as_posix()}"


def _refer(stage: Any, home: Any, source: Source, number: int, file: str) -> str:
    tf, geom = (importlib.import_module(f"pxr.{name}") for name in ("Tf", "UsdGeom"))
    name = tf.MakeValidIdentifier(source.running.model.entities[number].name)
    prim = geom.Xform.Define(stage, home.AppendChild(name)).GetPrim()
    prim.GetReferences().AddReference(file)
    description, pose = source.entities[number]
    if isinstance(description, World) and pose is not None:
        op = geom.Xformable(prim).AddTransformOp(opSuffix="placed")
        op.Set(_matrix(pose.rotation, pose.position))
    return str(prim.GetPath())


def _matrix(rotation: Array, position: Array) -> Any:
    """As USD has it: rows are axes, and the last one is the place."""
    gf: Any = importlib.import_module("pxr.Gf")
    full = np.eye(4)
    full[:3, :3], full[3, :3] = np.asarray(rotation).T, position
    return gf.Matrix4d(*full.ravel().tolist())


def _animate(
    stage: Any,
    root: str,
    source: Source,
    which: tuple[int, int],
    codes: list[float],
    poses: dict[str, Array],
    offset: Array,
) -> None:
    """Where the links of an entity's variant are, as time samples of their prims."""
    number, variant = which
    usd, geom, physics = (importlib.import_module(f"pxr.{x}") for x in ("Usd", "UsdGeom", "UsdPhysics"))
    info = source.running.model.entities[number]
    written, paths = link_paths(source.variants[number][0][variant], LAYOUT)
    _stop_physics(stage.GetPrimAtPath(root), usd, physics)
    cache = geom.XformCache(usd.TimeCode.Default())
    for k, path in enumerate(paths):
        prim = stage.GetPrimAtPath(root + path[len(written) :])
        link = info.link_start + k
        around = np.array(cache.GetLocalToWorldTransform(prim.GetParent())).T
        there = np.linalg.inv(around)
        local = []
        for pos, quat in zip(poses["pos"][:, link], poses["quat"][:, link], strict=True):
            world = Pose(pos + offset, quaternion_to_matrix(quat)).matrix
            local.append(there @ world)
        xform = geom.Xformable(prim)
        xform.ClearXformOpOrder()
        op = xform.AddTransformOp(precision=geom.XformOp.PrecisionDouble)
        still = max(np.abs(m - local[0]).max() for m in local) < STILL
        op.Set(_matrix(local[0][:3, :3], local[0][:3, 3]))
        for code, m in [] if still else zip(codes, local, strict=True):
            op.Set(_matrix(m[:3, :3], m[:3, 3]), code)


def _stop_physics(root: Any, usd: Any, physics: Any) -> None:
    """Bodies follow the samples, and nothing holds them."""
    for prim in usd.PrimRange(root):
        if prim.HasAPI(physics.RigidBodyAPI):
            physics.RigidBodyAPI(prim).CreateKinematicEnabledAttr().Set(True)
    for prim in [p for p in usd.PrimRange(root) if p.IsA(physics.Joint)]:
        prim.SetActive(False)
