"""Contact scenes of the benchmark (floor, terrain, cube, tower, clutter) as MJCF files that all simulators read."""

from __future__ import annotations

import enum
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from kinema.core import KinemaError
from kinema.geometry import rough_terrain
from kinema.read import read
from kinema.write import write

N_BOXES, BOX_HALF_SIZE = 20, 0.05
"""Number of boxes of the tower and their half size [m]."""
N_OBJECTS, BIN_HALF_WIDTH = 50, 0.3
"""Number of objects of the clutter and half width of the bin [m]."""
CUBE_HALF_SIZE = 0.03
"""Half size of the cube [m]."""
PLACEHOLDER_POSITION, N_DROP_ROWS, RESTING_SPEED = "0 0 -1000", 9, 0.1
"""Where the cube is before its place is found, rows of places over the hand that are tried.

And how slow it is where it stays [m/s].
"""
CONTACT_ATTRIBUTES = 'contype="255" conaffinity="255" condim="3"'
"""What is added touches everything; said of it, because a robot's defaults would count for it."""
COLLISION_GROUP = 3
"""Geom group of collision geoms by convention."""
MAX_FILES, MAX_BYTES = 2_000, 500_000_000
"""What a robot's folder may hold, to be copied beside a scene."""


class ContactScene(enum.StrEnum):
    """Where things touch."""

    FLOOR = "floor"
    """A robot as its file has it, with a floor where the file has none."""
    TERRAIN = "terrain"
    """A robot on rough ground."""
    CUBE = "cube"
    """A hand with a cube dropped into it."""
    TOWER = "tower"
    """Twenty boxes on top of one another; no robot."""
    CLUTTER = "clutter"
    """Fifty boxes, balls, capsules and cylinders in a bin; no robot."""


@contextmanager
def scene_file(scene: ContactScene, robot: Path | None) -> Iterator[Path]:
    """The scene as a file, for as long as it is needed."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if robot is None:
            text = tower_mjcf() if scene is ContactScene.TOWER else clutter_mjcf()
        else:
            text = _robot_scene_mjcf(_copy_robot(robot, folder), scene)
        path = folder / "kinema_bench_scene.xml"
        path.write_text(text, encoding="utf-8")
        if scene is ContactScene.CUBE:
            path.write_text(
                text.replace(PLACEHOLDER_POSITION, _format_values(_find_cube_drop_position(path))), encoding="utf-8"
            )
        yield path


def load_mujoco_model(file: Path) -> Any:
    """MuJoCo's model of a file."""
    import mujoco

    try:
        return mujoco.MjModel.from_xml_path(str(file))
    except ValueError as error:
        raise KinemaError(f"{file.name}: MuJoCo does not take it: {str(error).splitlines()[0]}") from None


def tower_mjcf() -> str:
    """Boxes on top of one another."""
    box = f'<freejoint/><geom type="box" size="{BOX_HALF_SIZE} {BOX_HALF_SIZE} {BOX_HALF_SIZE}" mass="1"/>'
    bodies = "".join(f'<body pos="0 0 {BOX_HALF_SIZE * (2 * i + 1):.6g}">{box}</body>' for i in range(N_BOXES))
    return _mjcf_document('<geom type="plane" size="0 0 1"/>' + bodies, "tower")


def clutter_mjcf() -> str:
    """Objects of four kinds, let go above a bin in layers, each turned anyhow."""
    rng = np.random.default_rng(0)
    walls = "".join(
        f'<geom type="box" size="{x} {y} 0.2" pos="{px:g} {py:g} 0.2"/>'
        for x, y, px, py in (
            *((0.02, BIN_HALF_WIDTH, side * BIN_HALF_WIDTH, 0.0) for side in (-1, 1)),
            *((BIN_HALF_WIDTH, 0.02, 0.0, side * BIN_HALF_WIDTH) for side in (-1, 1)),
        )
    )
    kinds = ('type="box" size="0.03 0.04 0.05"', 'size="0.04"', 'type="capsule" size="0.025 0.04"')
    kinds += ('type="cylinder" size="0.035 0.03"',)
    bodies = []
    for i in range(N_OBJECTS):
        layer, at = divmod(i, 9)
        x, y = 0.16 * (at % 3 - 1), 0.16 * (at // 3 - 1)
        turn = rng.normal(size=4)
        turn /= np.linalg.norm(turn)
        bodies.append(
            f'<body pos="{x:g} {y:g} {0.1 + 0.14 * layer:g}" quat="{_format_values(turn)}"><freejoint/>'
            f'<geom {kinds[i % 4]} mass="0.1"/></body>'
        )
    return _mjcf_document('<geom type="plane" size="0 0 1"/>' + walls + "".join(bodies), "clutter")


def _robot_scene_mjcf(robot: Path, scene: ContactScene) -> str:
    """A robot's file, included, and what its place adds."""
    model = _load_with_collision_geoms(robot)
    low, _ = _bounding_box(model)
    has_floor = bool((model.geom_type == 0).any())
    floor = "" if has_floor else f'<geom type="plane" size="0 0 1" pos="0 0 {low[2]:.6g}" {CONTACT_ATTRIBUTES}/>'
    assets, things = "", floor
    if scene is ContactScene.TERRAIN:
        assets, things = _terrain_mjcf()
    elif scene is ContactScene.CUBE:
        things += (
            f'<body name="bench cube" pos="{PLACEHOLDER_POSITION}"><freejoint/>'
            f'<geom type="box" size="{CUBE_HALF_SIZE} {CUBE_HALF_SIZE} {CUBE_HALF_SIZE}" mass="0.1" '
            f"{CONTACT_ATTRIBUTES}/></body>"
        )
    return (
        f'<mujoco model="{scene.value}"><include file="{robot.name}"/>'
        f"<asset>{assets}</asset><worldbody>{things}</worldbody></mujoco>"
    )


def _load_with_collision_geoms(robot: Path) -> Any:
    """MuJoCo's model of a file; where nothing in it can be touched, its shapes for collisions (group 3) are let."""
    import mujoco

    model = load_mujoco_model(robot)
    if ((model.geom_contype | model.geom_conaffinity) != 0).any() or model.npair:
        return model
    spec = mujoco.MjSpec.from_file(str(robot))
    for geom in spec.geoms:
        if geom.group == COLLISION_GROUP:
            geom.contype = geom.conaffinity = 1
    spec.compile()
    robot.write_text(spec.to_xml(), encoding="utf-8")
    return load_mujoco_model(robot)


def _find_cube_drop_position(scene_path: Path) -> np.ndarray:
    """From where a cube that is let go stays in the hand: as near to the middle of its joints as can be [m]."""
    import mujoco

    model = load_mujoco_model(scene_path)
    low, high = _bounding_box(model, n_excluded_geoms=1)
    data = mujoco.MjData(model)
    mujoco.mj_kinematics(model, data)
    middle = data.xanchor[:-1].mean(axis=0)
    x, y = (axis.ravel() for axis in np.meshgrid(*np.linspace(low[:2], high[:2], N_DROP_ROWS).T))
    places = np.column_stack([x, y, np.full(x.shape, high[2] + 1.5 * CUBE_HALF_SIZE)])
    places = places[np.argsort(np.linalg.norm(places[:, :2] - middle[:2], axis=1))]
    for place in places:
        mujoco.mj_resetData(model, data)
        data.qpos[-7:-4] = place
        mujoco.mj_step(model, data, round(0.6 / model.opt.timestep))
        if data.qpos[-5] > low[2] + 2.0 * CUBE_HALF_SIZE and np.linalg.norm(data.qvel[-6:-3]) < RESTING_SPEED:
            return place
    return places[0]


def _terrain_mjcf() -> tuple[str, str]:
    """Rough ground, 8 by 8 metres, all of it above the floor of the robot's file."""
    ground = rough_terrain((8.0, 8.0), spacing=0.1, height=0.12, seed=0)
    heights = ground.heights - ground.heights.min()
    rows, columns = heights.shape
    top = float(heights.max())
    asset = (
        f'<hfield name="bench terrain" nrow="{rows}" ncol="{columns}" size="4 4 {top:.6g} 0.02" '
        f'elevation="{_format_values((heights / top).ravel())}"/>'
    )
    return asset, f'<geom type="hfield" hfield="bench terrain" pos="0 0 0.03" {CONTACT_ATTRIBUTES}/>'


def _bounding_box(model: Any, n_excluded_geoms: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """The box around all that can be touched, as the file places it, besides the last shapes [m]."""
    import mujoco

    data = mujoco.MjData(model)
    mujoco.mj_kinematics(model, data)
    touching = (model.geom_contype | model.geom_conaffinity) != 0
    touching &= ~np.isin(model.geom_type, (0, 1))  # planes and height fields have no end
    touching[model.ngeom - n_excluded_geoms :] = False
    if not touching.any():
        raise KinemaError("nothing of this robot can be touched")
    where, reach = data.geom_xpos[touching], model.geom_rbound[touching, None]
    return (where - reach).min(axis=0), (where + reach).max(axis=0)


def _copy_robot(robot: Path, folder: Path) -> Path:
    """The robot beside the scene: its folder as it is, or as MJCF where it is of another format."""
    described = read(robot)  # says it where there is nothing to read
    if b"<mujoco" in robot.read_bytes()[:100_000]:
        files = [path for path in robot.parent.rglob("*") if path.is_file()]
        if len(files) > MAX_FILES or sum(path.stat().st_size for path in files) > MAX_BYTES:
            raise KinemaError(f"{robot.parent}: too much to copy; give the robot a folder of its own")
        shutil.copytree(robot.parent, folder, dirs_exist_ok=True)
        return folder / robot.name
    write(described, folder / "robot.xml")
    return folder / "robot.xml"


def _mjcf_document(bodies: str, name: str) -> str:
    return f'<mujoco model="{name}"><worldbody>{bodies}</worldbody></mujoco>'


def _format_values(values: np.ndarray) -> str:
    return " ".join(f"{v:.6g}" for v in values)
