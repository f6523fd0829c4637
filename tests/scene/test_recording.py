"""Recordings: what is in their files, where USD has everything at each time, and playing them again."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from pxr import Usd, UsdGeom, UsdPhysics

import kinema as km
from kinema.core import quaternion_to_matrix
from kinema.write import link_prim_paths
from kit.assets import EXAMPLES

BALL = """<robot name="ball"><link name="ball"><inertial><mass value="1"/>
<inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial></link></robot>"""


@pytest.fixture(scope="module")
def scene() -> km.Scene:
    made = km.Scene(dt=0.01, contacts=False, quiet=True, gravity=(0, 0, 0))
    made.add(EXAMPLES / "arm" / "arm.urdf", fixed=True, pos=(0.5, 0.0, 0.0))
    made.build(n_envs=3)
    return made


@pytest.fixture
def moving(scene: km.Scene) -> km.Scene:
    """At its start, with each environment moving in its own way."""
    scene.reset()
    speeds = np.linspace(0.5, 1.5, 3)[:, None] * np.ones((3, scene.entities[0].n_dofs))
    scene.built.arrays.write("vel", slice(None), speeds)
    return scene


def stepped(scene: km.Scene, steps: int) -> dict[str, np.ndarray]:
    """What a recording is to hold, by stepping and looking oneself."""
    seen: dict[str, list[np.ndarray]] = {"qpos": [], "pos": [], "quat": []}

    def look() -> None:
        seen["qpos"].append(np.array(scene.entities[0].get_qpos()))
        seen["pos"].append(np.moveaxis(np.array(scene.links.pos.numpy()), 0, 1))
        seen["quat"].append(np.moveaxis(np.array(scene.links.quat.numpy()), 0, 1))

    look()
    for _ in range(steps):
        scene.step()
        look()
    return {name: np.stack(rows) for name, rows in seen.items()}


@pytest.mark.parametrize("suffix", [".npz", ".parquet", ".mcap"])
def test_arrays_and_playing_them_again(moving: km.Scene, tmp_path: Path, suffix: str) -> None:
    if suffix != ".npz":
        pytest.importorskip("pyarrow" if suffix == ".parquet" else "mcap", reason="this needs the extra record")
    file = tmp_path / f"run{suffix}"
    with moving.record(file) as recording:
        seen = stepped(moving, 4)
    assert not recording.is_open
    assert repr(recording).endswith("5 frames of 3 environments, closed>")
    replay = moving.replay(file)
    np.testing.assert_array_equal(replay.arrays["qpos"], seen["qpos"])
    assert np.ptp(seen["qpos"], axis=0).max() > 0.01, "something moves"
    moving.step(10)
    for frame, time in enumerate(replay):
        assert time == replay.times[frame]
        np.testing.assert_array_equal(moving.entities[0].get_qpos(), seen["qpos"][frame])
    with pytest.raises(km.KinemaError, match="5 frames"):
        replay.set_frame(5)


@pytest.mark.parametrize("suffix", [".npz", ".parquet", ".mcap"])
def test_robots_whose_elements_have_the_same_names(tmp_path: Path, suffix: str) -> None:
    """Joints, links and sensors of each are recorded under names of their own, and played again."""
    if suffix != ".npz":
        pytest.importorskip("pyarrow" if suffix == ".parquet" else "mcap", reason="this needs the extra record")
    (tmp_path / "ball.urdf").write_text(BALL, encoding="utf-8")
    scene = km.Scene(dt=0.01, contacts=False, quiet=True, gravity=(0, 0, 0))
    balls = [scene.add(tmp_path / "ball.urdf", fixed=False, pos=(i, 0.0, 0.0)) for i in range(2)]
    scene.add(km.Box((0.1, 0.1, 0.1)), kinematic=True, pos=(0.0, 3.0, 0.0))
    for ball in balls:
        scene.add_sensor(km.Imu(link=ball.links[0]))
    scene.build(n_envs=2)
    for speed, ball in enumerate(balls):
        ball.set_dofs_velocity([0.0, speed, 0.0, 0.0, 0.0, 0.0])
    with scene.record(tmp_path / f"run{suffix}", sensors=True):
        scene.step(3)
    final = [np.array(ball.get_qpos()) for ball in balls]
    replay = scene.replay(tmp_path / f"run{suffix}")
    scene.reset()
    replay.set_frame(-1)
    assert final[1][0, 1] > 0.01
    np.testing.assert_array_equal([ball.get_qpos() for ball in balls], final)
    names = replay.metadata["names"]
    assert names["qvel"][:7] == [*(f"ball/ball_free[{k}]" for k in range(6)), "ball_1/ball_free[0]"]
    assert names["sensordata"][:5] == [*(f"imu.orientation[{k}]" for k in range(4)), "imu.angular_velocity[0]"]
    assert replay.metadata["links"][:2] == ["ball/ball", "ball_1/ball"]
    for name, listed in names.items():
        assert len(listed) == len(set(listed))
        assert name not in replay.arrays or replay.arrays[name].shape[2:] in ((len(listed),), (1, 7))


def test_a_table_as_pyarrow_reads_it(moving: km.Scene, tmp_path: Path) -> None:
    """One row per frame and environment, with the unit of each coordinate and velocity."""
    parquet = pytest.importorskip("pyarrow.parquet", reason="Parquet needs the extra record")
    with moving.record(tmp_path / "run.parquet", envs_idx=[0, 2]):
        seen = stepped(moving, 3)
    table = parquet.read_table(tmp_path / "run.parquet")
    assert table.column("frame").to_pylist() == [0, 0, 1, 1, 2, 2, 3, 3]
    assert table.column("env").to_pylist() == [0, 2] * 4
    np.testing.assert_allclose(table.column("time").to_numpy(), np.repeat(0.01 * np.arange(4), 2))
    joints = [j.name for j in moving.entities[0].joints]
    rows = np.column_stack([table.column(f"q.{name}").to_numpy() for name in joints])
    np.testing.assert_array_equal(rows.reshape(4, 2, -1), seen["qpos"][:, [0, 2]])
    units = [table.schema.field(f"{x}.{joints[k]}").metadata[b"unit"] for x, k in (("q", 0), ("v", 0), ("q", -1))]
    assert units == [b"rad", b"rad/s", b"m"]


def test_every_second_step_of_one_environment(moving: km.Scene, tmp_path: Path) -> None:
    with moving.record(tmp_path / "some.npz", every=2, envs_idx=[1]):
        moving.step(5)
    with np.load(tmp_path / "some.npz") as stored:
        assert stored["qpos"].shape[:2] == (3, 1)
        assert stored["link_pos"].shape[:2] == (3, 1)
        np.testing.assert_allclose(np.diff(stored["time"]), 0.02)
        arm = moving.entities[0]
        assert stored["qvel_names"].tolist() == stored["command_names"].tolist() == [j.name for j in arm.joints]
        assert stored["link_names"].tolist() == [link.name for link in arm.links]
        assert stored["command"].shape == stored["qvel"].shape


def test_times_go_on_after_a_reset(moving: km.Scene, tmp_path: Path) -> None:
    """The time of the scene starts again, that of the frames does not."""
    moving.reset()
    file = tmp_path / "some" / "where" / "again.npz"  # in folders that it makes
    with moving.record(file):
        moving.step(3)
        moving.reset()
        moving.step(2)
    assert moving.time == pytest.approx(0.02)
    with np.load(file) as stored:
        np.testing.assert_allclose(stored["time"], 0.01 * np.arange(6))


def test_usd_has_links_where_they_were(moving: km.Scene, tmp_path: Path) -> None:
    """Each link's pose at each time, read by OpenUSD, is what the scene said then."""
    file = tmp_path / "run.usda"
    with moving.record(file, env_spacing=3.0):
        seen = stepped(moving, 3)
    stage = Usd.Stage.Open(str(file))
    per_second = stage.GetTimeCodesPerSecond()
    assert stage.GetEndTimeCode() - stage.GetStartTimeCode() == pytest.approx(0.03 * per_second)
    root, paths = link_prim_paths(moving.entities[0].description, "flat")
    offsets = [(0, 0, 0), (3, 0, 0), (0, 3, 0)]
    for frame in range(4):
        cache = UsdGeom.XformCache(Usd.TimeCode(stage.GetStartTimeCode() + 0.01 * frame * per_second))
        for env, offset in enumerate(offsets):
            for link, path in enumerate(paths):
                prim = stage.GetPrimAtPath(f"/World/env_{env}/arm{path[len(root) :]}")
                found = np.array(cache.GetLocalToWorldTransform(prim)).T
                np.testing.assert_allclose(found[:3, 3], seen["pos"][frame, env, link] + offset, atol=1e-6)
                turned = quaternion_to_matrix(np.array(seen["quat"][frame, env, link], np.float64))
                np.testing.assert_allclose(found[:3, :3], turned, atol=1e-5)
    assert any(prim.IsA(UsdGeom.Gprim) for prim in stage.Traverse()), "there is something to be seen"
    assert len(km.read(file).links) == 3 * len(moving.entities[0].links), "our own reader finds every link"
    assert not [p for p in stage.Traverse() if p.IsA(UsdPhysics.Joint)], "and nothing that pulls it elsewhere"


def test_errors(moving: km.Scene, tmp_path: Path) -> None:
    broken = tmp_path / "broken.npz"
    broken.write_bytes(b"PK not much")
    with moving.record(tmp_path / "other.npz"):
        pass
    for suffix in (".npz", ".mp4"):
        (tmp_path / f"folder{suffix}").mkdir()
    other = km.Scene(dt=0.01, contacts=False, quiet=True)
    (tmp_path / "ball.urdf").write_text(BALL, encoding="utf-8")
    other.add(tmp_path / "ball.urdf", fixed=False)
    other.build()
    for wrong, said in (
        (lambda: moving.record(tmp_path / "run.avi"), "recordings are written as"),
        (lambda: moving.record(broken / "run.npz"), "cannot be made: it is a file"),
        (lambda: moving.record(tmp_path / "folder.npz"), r"folder\.npz: Is a directory"),
        (lambda: moving.record(tmp_path / "folder.mp4"), r"folder\.mp4: Is a directory"),
        (lambda: moving.record(tmp_path / "run.npz", every=0), "record"),
        (lambda: moving.replay(tmp_path / "none.npz"), "no such file"),
        (lambda: moving.replay(broken), "not a recording"),
        (lambda: moving.replay(tmp_path / "ball.urdf"), "replayed from .npz, .parquet, .mcap, not '.urdf'"),
        (lambda: other.replay(tmp_path / "other.npz"), "another scene"),
    ):
        with pytest.raises(km.KinemaError, match=said):
            wrong()


def test_files_that_can_no_longer_be_written(moving: km.Scene, tmp_path: Path) -> None:
    """A folder that is gone at the end is one sentence; until then a recording leaves no file."""
    recording = moving.record(tmp_path / "some" / "run.npz")
    assert not list((tmp_path / "some").iterdir())
    (tmp_path / "some").rmdir()
    with pytest.raises(km.WriteError, match=r"run\.npz: No such file or directory"):
        recording.close()
    moving.step()
    recording.close()


def test_mcap_as_its_own_library_reads_it(moving: km.Scene, tmp_path: Path) -> None:
    """Topics of each environment, times, joints by name and links as Foxglove has them."""
    reader = pytest.importorskip("mcap.reader", reason="MCAP needs the extra record")
    with moving.record(tmp_path / "run.mcap", envs_idx=[0, 2]):
        seen = stepped(moving, 3)
    with (tmp_path / "run.mcap").open("rb") as file:
        messages = list(reader.make_reader(file).iter_messages())
    assert {channel.topic for _, channel, _ in messages} == {f"/env_{i}/{x}" for i in (0, 2) for x in ("state", "tf")}
    arm = moving.entities[0]
    states = [json.loads(m.data) for _, channel, m in messages if channel.topic == "/env_2/state"]
    assert [list(x["qpos"]) for x in states] == [[j.name for j in arm.joints]] * 4
    np.testing.assert_array_equal([list(x["qpos"].values()) for x in states], seen["qpos"][:, 2])
    own = [(s, m) for s, channel, m in messages if channel.topic == "/env_0/tf"]
    assert {s.name for s, _ in own} == {"foxglove.FrameTransforms"}
    np.testing.assert_allclose(np.diff([m.log_time for _, m in own]), 1e7, atol=1)
    last = json.loads(own[-1][1].data)["transforms"][-1]
    assert (last["parent_frame_id"], last["child_frame_id"]) == ("env_0", f"env_0/{arm.links[-1].name}")
    np.testing.assert_array_equal([last["translation"][x] for x in "xyz"], seen["pos"][-1, 0, -1])
    np.testing.assert_array_equal([last["rotation"][x] for x in "wxyz"], seen["quat"][-1, 0, -1])
