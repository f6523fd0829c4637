"""However a robot is written, with whatever frames, scopes and rotation formats: it is the same robot."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from kinema.core import Diagnostics, Pose
from kinema.description import Robot
from kit.diagnostics import ClaimedDiagnostics
from kit.robots.configurations import joint_coordinates

from .sdf_support import (
    N_COORDINATES,
    Writer,
    assert_close,
    by_short_name,
    model,
    random_pose,
    random_robot,
    read_robot,
    read_world,
    world,
)

_KINDS = tuple(N_COORDINATES)


def _both(tmp_path: Path, seed: int, n_models: int = 3) -> tuple[Robot, Robot, np.random.Generator]:
    """A random robot, read from its plain form and from a random one."""
    rng = np.random.default_rng(seed)
    robot = random_robot(rng, n_links=6, kinds=_KINDS, n_models=n_models)
    plain = read_robot(tmp_path, Writer(robot).text(), name="plain.sdf")
    writer = Writer(robot, rng)
    text = writer.text()
    for name, content in writer.files.items():
        (tmp_path / name).write_text(content)
    fancy = read_robot(tmp_path, text, name="fancy.sdf")
    assert [str(d) for r in (plain, fancy) for d in r.diagnostics if d.severity != "note"] == []
    return plain, fancy, rng


@settings(max_examples=60)
@given(seed=st.integers(0, 10**9))
def test_every_way_to_write_a_robot_means_the_same(tmp_path_factory: pytest.TempPathFactory, seed: int) -> None:
    """Poses of all links at random coordinates, axes and inertias do not depend on how they were written down."""
    plain, fancy, rng = _both(tmp_path_factory.mktemp("sdf"), seed)
    assert sorted(x.name for x in plain.links) == sorted(x.name for x in fancy.links)
    assert sorted(x.name for x in plain.joints) == sorted(x.name for x in fancy.joints)
    configuration = {j.name: joint_coordinates(j, rng) for j in plain.joints if j.n_qs}
    assert_close(plain.forward_kinematics(configuration), fancy.forward_kinematics(configuration))
    for link in plain.links:
        other = fancy.link(link.name)
        assert link.inertial is not None
        assert other.inertial is not None
        assert link.inertial.mass == other.inertial.mass
        assert_close(link.inertial.center, other.inertial.center)
        assert_close(link.inertial.inertia, other.inertial.inertia)
    for joint in plain.joints:
        for a, b in zip(joint.axes, fancy.joint(joint.name).axes, strict=True):
            assert_close(a.direction, b.direction)


@settings(max_examples=30)
@given(seed=st.integers(0, 10**9))
def test_the_plain_form_means_what_was_drawn(tmp_path_factory: pytest.TempPathFactory, seed: int) -> None:
    """The poses of links, joints and frames are those the generator had in mind."""
    folder = tmp_path_factory.mktemp("sdf")
    rng = np.random.default_rng(seed)
    drawn = random_robot(rng, n_links=5, kinds=_KINDS, n_models=2)
    writer = Writer(drawn, rng)
    text = writer.text()
    for name, content in writer.files.items():
        (folder / name).write_text(content)
    robot = read_robot(folder, text)
    poses = {name: Pose.from_matrix(m) for name, m in robot.forward_kinematics().items()}
    for part in drawn.of("link"):
        assert poses["::".join([*part.path, part.name])].is_close(part.pose, 1e-9)
    for part in drawn.of("joint"):
        joint = robot.joint("::".join([*part.path, part.name]))
        assert joint.parent is not None
        assert joint.child is not None
        assert (poses[joint.child] @ joint.child_pose).is_close(part.pose, 1e-9)
        assert (poses[joint.parent] @ joint.parent_pose).is_close(part.pose, 1e-9)
    frames = {f.name: f for f in robot.frames}
    for part in drawn.of("frame"):
        frame = frames["::".join([*part.path, part.name])]
        assert frame.link is not None
        assert (poses[frame.link] @ frame.pose).is_close(part.pose, 1e-9)
    for part in drawn.of("model"):
        frame = frames["::".join([*part.path, part.name, "__model__"])]
        assert frame.link is not None
        assert (poses[frame.link] @ frame.pose).is_close(part.pose, 1e-9)


@settings(max_examples=20)
@given(seed=st.integers(0, 10**9))
def test_moving_the_model_moves_everything(tmp_path_factory: pytest.TempPathFactory, seed: int) -> None:
    """A pose of the model is a pose of the robot, and nothing else changes."""
    folder = tmp_path_factory.mktemp("sdf")
    rng = np.random.default_rng(seed)
    drawn = random_robot(rng, n_links=4, kinds=_KINDS, n_models=1)
    pose = random_pose(rng, 10.0)
    still = read_robot(folder, Writer(drawn).text())
    moved = read_robot(folder, Writer(drawn).text(pose=pose))
    assert moved.pose.is_close(pose, 1e-9)
    configuration = {j.name: joint_coordinates(j, rng) for j in still.joints if j.n_qs}
    expected = {name: pose.matrix @ m for name, m in still.forward_kinematics(configuration).items()}
    assert_close(moved.forward_kinematics(configuration), expected)


@settings(max_examples=20)
@given(seed=st.integers(0, 10**9))
def test_the_order_of_elements_does_not_matter(tmp_path_factory: pytest.TempPathFactory, seed: int) -> None:
    """A file read backwards is the same robot."""
    folder = tmp_path_factory.mktemp("sdf")
    rng = np.random.default_rng(seed)
    drawn = random_robot(rng, n_links=5, kinds=_KINDS, n_models=2)
    forwards = read_robot(folder, Writer(drawn).text())
    drawn.parts.reverse()
    backwards = read_robot(folder, Writer(drawn).text())
    configuration = {j.name: joint_coordinates(j, rng) for j in forwards.joints if j.n_qs}
    assert_close(forwards.forward_kinematics(configuration), backwards.forward_kinematics(configuration))


@settings(max_examples=10)
@given(seed=st.integers(0, 10**9), prefix=st.sampled_from(["x", "größe ", "a/b", "🤖", "link.", "-"]))
def test_names_do_not_matter(tmp_path_factory: pytest.TempPathFactory, seed: int, prefix: str) -> None:
    """Renaming every part changes the names and nothing else."""
    folder = tmp_path_factory.mktemp("sdf")
    rng = np.random.default_rng(seed)
    drawn = random_robot(rng, n_links=4, kinds=_KINDS, n_models=2)
    text = Writer(drawn).text()
    before = read_robot(folder, text)
    for part in drawn.parts:
        text = text.replace(f'name="{part.name}"', f'name="{prefix}{part.name}"')
    for part in drawn.parts:
        for tag in ("parent", "child"):
            text = text.replace(f"{part.name}::", f"{prefix}{part.name}::") if part.kind == "model" else text
            text = text.replace(f"::{part.name}</{tag}>", f"::{prefix}{part.name}</{tag}>")
            text = text.replace(f">{part.name}</{tag}>", f">{prefix}{part.name}</{tag}>")
    after = read_robot(folder, text)
    poses = by_short_name(before.forward_kinematics())
    assert_close({f"{prefix}{name}": m for name, m in poses.items()}, by_short_name(after.forward_kinematics()))


def test_a_frame_may_stand_on_a_moving_link(tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """A frame belongs to the link it is attached to, whatever its pose is relative to."""
    text = model(
        '<link name="a"/><link name="b"><pose>1 0 0 0 0 0</pose></link>'
        '<frame name="f" attached_to="b"><pose relative_to="a">0 2 0 0 0 0</pose></frame>'
        '<frame name="g" attached_to="f"/>'
    )
    robot = read_robot(tmp_path, text, diagnostics)
    f, g = robot.frames
    assert (f.link, g.link) == ("b", "b")
    assert_close(f.pose.position, [-1, 2, 0])
    assert f.pose.is_close(g.pose)


def test_frames_of_a_world(tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """A world's frame may place a model, or stand on one: then it belongs to that robot."""
    text = world(
        '<frame name="table"><pose>0 0 1 0 0 0</pose></frame>'
        '<model name="m"><pose relative_to="table">1 0 0 0 0 0</pose><link name="a"/></model>'
        '<frame name="tip" attached_to="m::a"><pose>0 0 0.5 0 0 0</pose></frame>'
        '<model name="n"><pose relative_to="tip"/><link name="a"/></model>'
    )
    result = read_world(tmp_path, text, diagnostics)
    poses = result.link_poses()
    assert_close(poses["m::a"].position, [1, 0, 1])
    assert_close(poses["n::a"].position, [1, 0, 1.5])
    assert [f.name for f in result.frames] == ["table"]
    assert [(f.name, f.link) for f in result.robots[0].frames] == [("tip", "a")]


def test_a_pose_that_depends_on_itself(tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """One error for a circle of frames; the rest of the model is read."""
    text = model(
        '<link name="a"><pose relative_to="f"/></link><frame name="f"><pose relative_to="a">1 0 0 0 0 0</pose></frame>'
        '<link name="b"><pose>0 0 3 0 0 0</pose></link>'
    )
    robot = read_robot(tmp_path, text, diagnostics)
    assert '"a"' in diagnostics.claim("sdf.frame-cycle").message
    assert_close(robot.link_poses()["b"].position, [0, 0, 3])


@pytest.mark.parametrize(
    "body",
    [
        '<link name="a"><pose relative_to="nowhere">1 0 0 0 0 0</pose></link>',
        '<link name="a"/><frame name="f" attached_to="nowhere"/>',
        '<link name="a"/><model name="n"><link name="b"><pose relative_to="a"/></link></model>',
        '<link name="a"/><joint name="j" type="revolute"><parent>world</parent><child>a</child>'
        '<axis><xyz expressed_in="nowhere">1 0 0</xyz></axis></joint>',
        '<link name="a"><visual name="v"><pose relative_to="nowhere"/><geometry><box/></geometry></visual></link>',
    ],
)
def test_a_frame_that_is_not_there(tmp_path: Path, diagnostics: ClaimedDiagnostics, body: str) -> None:
    """A name that leads nowhere, or out of its model, is an error where it stands."""
    robot = read_robot(tmp_path, model(body), diagnostics)
    found = diagnostics.claim("sdf.unknown-frame")
    assert found.origin.line == 1
    assert robot.link("a")


def test_old_files_may_look_out_of_their_model(tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """Before 1.8 a nested model could name what is around it."""
    text = model(
        '<link name="a"/><model name="n"><link name="b"/>'
        '<joint name="j" type="fixed"><parent>a</parent><child>b</child></joint></model>',
        version="1.6",
    )
    joint = read_robot(tmp_path, text, diagnostics).joint("n::j")
    assert (joint.parent, joint.child) == ("a", "n::b")


def test_a_long_chain_of_frames_is_no_trouble(tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """Thousands of frames, each relative to the next, are resolved without recursion."""
    n = 3000
    frames = "".join(
        f'<frame name="f{i}" attached_to="f{i + 1}"><pose>0.001 0 0 0 0 0</pose></frame>' for i in range(n)
    )
    text = model(f'{frames}<frame name="f{n}"/><link name="a"><pose relative_to="f0"/></link>')
    robot = read_robot(tmp_path, text, diagnostics)
    assert_close(robot.link_poses()["a"].position, [n * 0.001, 0, 0])


def test_diagnostics_are_made_where_none_are_given(tmp_path: Path) -> None:
    """The description carries what the reader had to say."""
    robot = read_robot(tmp_path, model('<link name="a"/>'))
    assert isinstance(robot.diagnostics, Diagnostics)
    assert robot.diagnostics.codes() == ["sdf.default-inertial"]
