"""Scenes of things that touch, as MJCF: one file, which every simulator reads."""

from __future__ import annotations

import enum
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from kinema.foundation import KinemaError
from kinema.read import read
from kinema.shapes import rough_terrain
from kinema.write import write

BOXES, BOX = 20, 0.05
"""Boxes of the tower, and half an edge of each [m]."""
OBJECTS, BIN = 50, 0.3
"""Objects of the clutter, and half the width of the bin they lie in [m]."""
CUBE = 0.03
"""Half an edge of a hand's cube [m]."""
BENEATH, DROPS, SLOW = "0 0 -1000", 9, 0.1
"""Where the cube is before its place is found, rows of places over the hand that are tried, and how slow it is where it
stays [m/s]."""
TOUCHES = 'contype="255" conaffinity="255" condim="3"'
"""What is added touches everything; said of it, because a robot's defaults would count for it."""
OF_COLLISIONS = 3
"""The group of shapes that are there to be touched, as files mostly have it."""
MOST_FILES, MOST_BYTES = 2_000, 500_000_000
"""What a robot's folder may hold, to be copied beside a scene."""


class Place(enum.StrEnum):
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
def scene_file(place: Place, robot: Path | None) -> Iterator[Path]:
    """The scene as a file, for as long as it is needed."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if robot is None:
            text = tower() if place is Place.TOWER else clutter()
        else:
            text = _around(_copied(robot, folder), place)
        path = folder / "kinema_bench_scene.xml"
        path.write_text(text, encoding="utf-8")
        if place is Place.CUBE:
            path.write_text(text.replace(BENEATH, _numbers(_where_it_stays(path))), encoding="utf-8")
        yield path


def compiled(file: Path) -> Any:
    """MuJoCo's model of a file."""
    import mujoco

    try:
        return mujoco.MjModel.from_xml_path(str(file))
    except ValueError as error:
        raise KinemaError(f"{file.name}: MuJoCo does not take it: {str(error).splitlines()[0]}") from None


def tower() -> str:
    """Boxes on top of one another."""
    box = f'<freejoint/><geom type="box" size="{BOX} {BOX} {BOX}" mass="1"/>'
    bodies = "".join(f'<body pos="0 0 {BOX * (2 * i + 1):.6g}">{box}</body>' for i in range(BOXES))
    return _whole('<geom type="plane" size="0 0 1"/>' + bodies, "tower")


def clutter() -> str:
    """Objects of four kinds, let go above a bin in layers, each turned anyhow."""
    rng = np.random.default_rng(0)
    walls = "".join(
        f'<geom type="box" size="{x} {y} 0.2" pos="{px:g} {py:g} 0.2"/>'
        for x, y, px, py in (
            *((0.02, BIN, side * BIN, 0.0) for side in (-1, 1)),
            *((BIN, 0.02, 0.0, side * BIN) for side in (-1, 1)),
        )
    )
    kinds = ('type="box" size="0.03 0.04 0.05"', 'size="0.04"', 'type="capsule" size="0.025 0.04"')
    kinds += ('type="cylinder" size="0.035 0.03"',)
    bodies = []
    for i in range(OBJECTS):
        layer, at = divmod(i, 9)
        x, y = 0.16 * (at % 3 - 1), 0.16 * (at // 3 - 1)
        turn = rng.normal(size=4)
        turn /= np.linalg.norm(turn)
        bodies.append(
            f'<body pos="{x:g} {y:g} {0.1 + 0.14 * layer:g}" quat="{_numbers(turn)}"><freejoint/>'
            f'<geom {kinds[i % 4]} mass="0.1"/></body>'
        )
    return _whole('<geom type="plane" size="0 0 1"/>' + walls + "".join(bodies), "clutter")


def _around(robot: Path, place: Place) -> str:
    """A robot's file, included, and what its place adds."""
    model = _touchable(robot)
    low, _ = _extent(model)
    has_floor = bool((model.geom_type == 0).any())
    floor = "" if has_floor else f'<geom type="plane" size="0 0 1" pos="0 0 {low[2]:.6g}" {TOUCHES}/>'
    assets, things = "", floor
    if place is Place.TERRAIN:
        assets, things = _terrain()
    elif place is Place.CUBE:
        things += (
            f'<body name="bench cube" pos="{BENEATH}"><freejoint/>'
            f'<geom type="box" size="{CUBE} {CUBE} {CUBE}" mass="0.1" {TOUCHES}/></body>'
        )
    return (
        f'<mujoco model="{place.value}"><include file="{robot.name}"/>'
        f"<asset>{assets}</asset><worldbody>{things}</worldbody></mujoco>"
    )


def _touchable(robot: Path) -> Any:
    """MuJoCo's model of a file; where nothing in it can be touched, its shapes for collisions (group 3) are let."""
    import mujoco

    model = compiled(robot)
    if ((model.geom_contype | model.geom_conaffinity) != 0).any() or model.npair:
        return model
    spec = mujoco.MjSpec.from_file(str(robot))
    for geom in spec.geoms:
        if geom.group == OF_COLLISIONS:
            geom.contype = geom.conaffinity = 1
    spec.compile()
    robot.write_text(spec.to_xml(), encoding="utf-8")
    return compiled(robot)


def _where_it_stays(scene: Path) -> np.ndarray:
    """From where a cube that is let go stays in the hand: as near to the middle of its joints as can be [m]."""
    import mujoco

    model = compiled(scene)
    low, high = _extent(model, besides=1)
    data = mujoco.MjData(model)
    mujoco.mj_kinematics(model, data)
    middle = data.xanchor[:-1].mean(axis=0)
    x, y = (axis.ravel() for axis in np.meshgrid(*np.linspace(low[:2], high[:2], DROPS).T))
    places = np.column_stack([x, y, np.full(x.shape, high[2] + 1.5 * CUBE)])
    places = places[np.argsort(np.linalg.norm(places[:, :2] - middle[:2], axis=1))]
    for place in places:
        mujoco.mj_resetData(model, data)
        data.qpos[-7:-4] = place
        mujoco.mj_step(model, data, round(0.6 / model.opt.timestep))
        if data.qpos[-5] > low[2] + 2.0 * CUBE and np.linalg.norm(data.qvel[-6:-3]) < SLOW:
            return place
    return places[0]


def _terrain() -> tuple[str, str]:
    """Rough ground, 8 by 8 metres, all of it above the floor of the robot's file."""
    ground = rough_terrain((8.0, 8.0), spacing=0.1, height=0.12, seed=0)
    heights = ground.heights - ground.heights.min()
    rows, columns = heights.shape
    top = float(heights.max())
    asset = (
        f'<hfield name="bench terrain" nrow="{rows}" ncol="{columns}" size="4 4 {top:.6g} 0.02" '
        f'elevation="{_numbers((heights / top).ravel())}"/>'
    )
    return asset, f'<geom type="hfield" hfield="bench terrain" pos="0 0 0.03" {TOUCHES}/>'


def _extent(model: Any, besides: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """The box around all that can be touched, as the file places it, besides the last shapes [m]."""
    import mujoco

    data = mujoco.MjData(model)
    mujoco.mj_kinematics(model, data)
    touching = (model.geom_contype | model.geom_conaffinity) != 0
    touching &= ~np.isin(model.geom_type, (0, 1))  # planes and height fields have no end
    touching[model.ngeom - besides :] = False
    if not touching.any():
        raise KinemaError("nothing of this robot can be touched")
    where, reach = data.geom_xpos[touching], model.geom_rbound[touching, None]
    return (where - reach).min(axis=0), (where + reach).max(axis=0)


def _copied(robot: Path, folder: Path) -> Path:
    """The robot beside the scene: its folder as it is, or as MJCF where it is of another format."""
    described = read(robot)  # says it where there is nothing to read
    if b"<mujoco" in robot.read_bytes()[:100_000]:
        files = [path for path in robot.parent.rglob("*") if path.is_file()]
        if len(files) > MOST_FILES or sum(path.stat().st_size for path in files) > MOST_BYTES:
            raise KinemaError(f"{robot.parent}: too much to copy; give the robot a folder of its own")
        shutil.copytree(robot.parent, folder, dirs_exist_ok=True)
        return folder / robot.name
    write(described, folder / "robot.xml")
    return folder / "robot.xml"


def _whole(bodies: str, name: str) -> str:
    return f'<mujoco model="{name}"><worldbody>{bodies}</worldbody></mujoco>'


def _numbers(values: np.ndarray) -> str:
    return " ".join(f"{v:.6g}" for v in values)
