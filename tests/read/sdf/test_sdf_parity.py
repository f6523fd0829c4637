"""The reader against two independent ones: libsdformat (poses, axes, inertias) and Drake (kinematics)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kinema.core import Pose, quaternion_to_matrix
from kinema.core.transforms import matrix_to_rpy
from kinema.description import Joint, JointKind, Robot, World
from kinema.read import Resolver
from kinema.read.sdf import read_sdf
from kit import oracles
from kit.assets import all_assets, asset_id, assets
from kit.robots.configurations import joint_coordinates

from .sdf_support import Writer, assert_close, random_robot

_ASSETS = all_assets("sdf/**/*.sdf")
_LOOPS_OR_GEARS = {"cassie_v2.sdf", "demo_joint_types.sdf", "joint_complete.sdf"}
"""Drake has no loops, gearboxes and revolute2 joints."""
_N_CONFIGURATIONS = 20


def _libsdformat(file: Path, *search: Path) -> dict[str, Any]:
    try:
        return oracles.libsdformat(file, search)
    except oracles.OracleMissing as missing:
        pytest.skip(str(missing))


def _drake(file: Path, configurations: list[dict[str, list[float]]], *search: Path) -> dict[str, Any]:
    try:
        result = oracles.drake(file, configurations, search)
    except oracles.OracleMissing as missing:
        pytest.skip(str(missing))
    assert "error" not in result, result["error"]
    return result


def _read(file: Path, *search: Path) -> Robot | World:
    return read_sdf(file, resolve=Resolver(search_paths=search, use_environment=False))


def _robots(described: Robot | World) -> list[Robot]:
    return described.robots if isinstance(described, World) else [described]


def _errors(described: Robot | World) -> list[str]:
    return [str(d) for d in described.diagnostics.errors()]


# -- libsdformat -------------------------------------------------------------------------------------------------------


def _compare_with_libsdformat(described: Robot | World, truth: dict[str, Any], tolerance: float = 1e-9) -> None:
    """Every link, joint and frame that libsdformat has, where it has it."""
    for robot in _robots(described):
        models = [m for m in truth["models"] if m["name"].partition("::")[0] == robot.name]
        assert_close(robot.pose.matrix, models[0]["pose_in_world"])
        assert robot.static == models[0]["static"]
        prefix = f"{robot.name}::"
        links = {x["name"].removeprefix(prefix): x for m in models for x in m["links"]}
        joints = {x["name"].removeprefix(prefix): x for m in models for x in m["joints"]}
        frames = {x["name"].removeprefix(prefix): x for m in models for x in m["frames"]}
        assert links.keys() == {x.name for x in robot.links}
        gears = {c.name for c in robot.constraints}
        assert joints.keys() == {x.name for x in robot.joints if not x.implicit} | gears
        for link in robot.links:
            _compare_link(link, links[link.name], tolerance)
        for joint in robot.joints:
            if not joint.implicit:
                _compare_joint(robot, joint, joints[joint.name], prefix, tolerance)
        assert frames.keys() <= {f.name for f in robot.frames}
        for frame in robot.frames:
            if frame.name in frames and frame.link is not None:
                place = robot.link(frame.link).pose
                assert place is not None
                assert_close((place @ frame.pose).matrix, frames[frame.name]["pose"], tolerance)


def _compare_link(link: Any, truth: dict[str, Any], tolerance: float) -> None:
    assert_close(link.pose.matrix, truth["pose"], tolerance)
    assert link.inertial.mass == pytest.approx(truth["mass"], rel=1e-9)
    assert_close(link.inertial.center, truth["com"])
    assert_close(link.inertial.inertia, truth["inertia"], 1e-9 * max(1.0, np.abs(truth["inertia"]).max()))
    for kind, shapes in (("collisions", link.collisions), ("visuals", link.visuals)):
        expected = {x["name"]: x["pose"] for x in truth[kind]}
        for shape in shapes:
            if shape.kind != "plane":
                assert_close(shape.pose.matrix, expected[shape.name])


def _compare_joint(robot: Robot, joint: Joint, truth: dict[str, Any], prefix: str, tolerance: float) -> None:
    assert joint.attributes["sdf:type"] == truth["type"]
    parent = truth["parent"].removeprefix(prefix)
    assert (joint.parent or "world", joint.child) == (parent, truth["child"].removeprefix(prefix))
    assert joint.child is not None
    place = robot.link(joint.child).pose
    assert place is not None
    assert_close((place @ joint.child_pose).matrix, truth["pose"], tolerance)
    if joint.parent is not None:
        place = robot.link(joint.parent).pose
        assert place is not None
        assert_close((place @ joint.parent_pose).matrix, truth["pose"], tolerance)
    if joint.kind in (JointKind.FIXED, JointKind.SPHERICAL):
        return
    for axis, said in zip(joint.axes, truth["axes"], strict=False):
        assert_close(axis.direction, said["xyz"], tolerance)
        if joint.kind is not JointKind.CONTINUOUS:
            assert axis.lower == (said["lower"] if said["lower"] > -1e16 else -np.inf)
            assert axis.upper == (said["upper"] if said["upper"] < 1e16 else np.inf)
        assert (axis.effort, axis.velocity) == (said["effort"], said["velocity"])
        assert (axis.damping, axis.friction) == (said["damping"], said["friction"])
        assert (axis.stiffness, axis.spring_reference) == (said["spring_stiffness"], said["spring_reference"])
    if joint.kind is JointKind.SCREW:
        assert joint.pitch == pytest.approx(-2 * np.pi / truth["thread_pitch"], rel=1e-12)


@pytest.mark.parametrize("file", _ASSETS, ids=asset_id)
def test_real_files_mean_what_libsdformat_says(file: Path) -> None:
    """Poses, axes, limits, inertias and shapes of public robots; and no error that libsdformat does not report."""
    described = _read(file)
    truth = _libsdformat(file, file.parent.parent, *file.parents[3:5])
    _compare_with_libsdformat(described, truth)
    if not truth["errors"]:
        assert _errors(described) == []


@pytest.mark.parametrize("seed", range(12))
def test_random_files_mean_what_libsdformat_says(tmp_path: Path, seed: int) -> None:
    """Random robots, written with nested and included models, frames, placement frames and all rotation formats."""
    rng = np.random.default_rng(seed)
    kinds = ("revolute", "continuous", "prismatic", "fixed", "universal", "ball")
    drawn = random_robot(rng, n_links=7, kinds=kinds, n_models=3)
    writer = Writer(drawn, rng)
    file = tmp_path / "robot.sdf"
    file.write_text(writer.text("1.9"))
    for name, content in writer.files.items():
        (tmp_path / name).write_text(content)
    truth = _libsdformat(file, tmp_path)
    assert truth["errors"] == []
    described = _read(file)
    assert _errors(described) == []
    _compare_with_libsdformat(described, truth)


_BOX = """<sdf version="1.9"><model name="box" placement_frame="F"><pose>9 8 7 0.1 0 0</pose>
<link name="L"><pose>0 0 1 0 0 0.3</pose></link><link name="L2"/>
<model name="deep"><pose>0 1 0 0 0 0</pose><link name="X"/></model>
<frame name="F" attached_to="L"><pose>1 0 0 0 0 0</pose></frame>
<frame name="G"><pose relative_to="__model__">0 0 4 0 0.2 0</pose></frame>
<joint name="j" type="revolute"><parent>L</parent><child>L2</child>
<axis><xyz expressed_in="__model__">1 0 1</xyz></axis></joint>
<joint name="k" type="fixed"><parent>L2</parent><child>deep::X</child></joint></model></sdf>"""


@pytest.mark.parametrize("merge", ["false", "true"])
@pytest.mark.parametrize(
    "inside",
    [
        "",
        "<pose>1 2 3 0.4 0 0.5</pose>",
        "<pose>1 2 3 0 0 0.5</pose><placement_frame>L</placement_frame>",
        "<pose relative_to='base'>1 2 3 0 0 0.5</pose><name>other</name><placement_frame>deep::X</placement_frame>",
    ],
)
def test_includes_mean_what_libsdformat_says(tmp_path: Path, merge: str, inside: str) -> None:
    """Included and merged models, placed by their own or by another frame."""
    (tmp_path / "box").mkdir()
    (tmp_path / "box" / "model.sdf").write_text(_BOX)
    (tmp_path / "box" / "model.config").write_text('<model><name>box</name><sdf version="1.9">model.sdf</sdf></model>')
    file = tmp_path / "robot.sdf"
    file.write_text(
        f"""<sdf version="1.9"><world name="w"><model name="M"><pose>0 0 5 0.1 0.2 0.3</pose>
        <link name="base"><pose>0 3 0 1 0 0</pose></link>
        <include merge="{merge}"><uri>model://box</uri>{inside}</include></model>
        <include><uri>model://box</uri>{inside.replace(" relative_to='base'", "")}</include></world></sdf>"""
    )
    truth = _libsdformat(file, tmp_path)
    assert truth["errors"] == []
    described = _read(file, tmp_path)
    assert _errors(described) == []
    # libsdformat writes the pose of a merged model down with six digits and reads it again
    _compare_with_libsdformat(described, truth, 1e-9 if merge == "false" else 2e-5)


_OLD = """<sdf version="{version}"><model name="m"><pose>1 2 3 0.1 0.2 0.3</pose>
<link name="a"><pose>0.1 0.2 0.3 0.4 0.5 0.6</pose></link>
<link name="b"><pose>0.3 -0.2 0.3 -0.4 0.5 0.6</pose></link>
<joint name="j" type="revolute"><pose>0.1 0 0 0.7 0 0</pose><parent>a</parent><child>b</child>
<axis><xyz>1 2 3</xyz>{flag}<limit><lower>-1</lower><upper>2</upper></limit></axis></joint></model></sdf>"""


@pytest.mark.parametrize(
    ("version", "flag"),
    [
        *((v, "") for v in ("1.4", "1.5", "1.6", "1.7", "1.8", "1.9")),
        *((v, flag) for v in ("1.5", "1.6") for flag in ("true", "false")),
    ],
)
def test_every_version_puts_the_axis_where_libsdformat_does(tmp_path: Path, version: str, flag: str) -> None:
    """The axis was in the model's frame in 1.4, by a flag up to 1.6, and in the joint's frame since."""
    element = f"<use_parent_model_frame>{flag}</use_parent_model_frame>" if flag else ""
    file = tmp_path / "old.sdf"
    file.write_text(_OLD.format(version=version, flag=element))
    truth = _libsdformat(file)
    assert truth["errors"] == []
    _compare_with_libsdformat(_read(file), truth)


def test_flattened_files_mean_what_libsdformat_says(tmp_path: Path) -> None:
    """Up to 1.7 tools wrote nested models out flat, with `n::__model__` as a frame; both readers see the same."""
    file = tmp_path / "flat.sdf"
    file.write_text(
        """<sdf version="1.7"><world name="w"><model name="m"><pose>1 0 0 0 0 0.4</pose><link name="base"/>
        <frame name="n::__model__" attached_to="n::a"><pose relative_to="__model__">0 0 2 0.3 0 0</pose></frame>
        <link name="n::a"><pose relative_to="n::__model__">0.1 0 0 0 0 0</pose></link>
        <link name="n::b"><pose relative_to="n::__model__">0 0.5 0 0 0.7 0</pose></link>
        <joint name="n::j" type="revolute"><parent>n::a</parent><child>n::b</child>
        <axis><xyz expressed_in="n::__model__">1 0 0</xyz></axis></joint>
        <joint name="k" type="fixed"><parent>base</parent><child>n::a</child></joint></model></world></sdf>"""
    )
    truth = _libsdformat(file)
    assert truth["errors"] == []
    described = _read(file)
    assert _errors(described) == []
    _compare_with_libsdformat(described, truth)


_FAULTS = {
    "unknown frame": '<link name="a"><pose relative_to="x"/></link>',
    "frame cycle": '<link name="a"/><frame name="f"><pose relative_to="g"/></frame>'
    '<frame name="g"><pose relative_to="f"/></frame>',
    "attached cycle": '<link name="a"/><frame name="f" attached_to="g"/><frame name="g" attached_to="f"/>',
    "unknown parent": '<link name="a"/><joint name="j" type="fixed"><parent>x</parent><child>a</child></joint>',
    "unknown child": '<link name="a"/><joint name="j" type="fixed"><parent>a</parent><child>x</child></joint>',
    "child is world": '<link name="a"/><joint name="j" type="fixed"><parent>a</parent><child>world</child></joint>',
    "joint with itself": '<link name="a"/><joint name="j" type="fixed"><parent>a</parent><child>a</child></joint>',
    "no links": '<frame name="f"/>',
    "duplicate name": '<link name="a"/><frame name="a"/>',
    "duplicate link": '<link name="a"/><link name="a"/>',
    "reserved name": '<link name="__a__"/>',
    "scoped name": '<link name="a::b"/>',
    "canonical link": '<link name="a"/><model name="n" canonical_link="x"><link name="b"/></model>',
    "placement frame": '<link name="a"/><model name="n" placement_frame="x"><link name="b"/></model>',
    "zero axis": '<link name="a"/><joint name="j" type="revolute"><parent>world</parent><child>a</child>'
    "<axis><xyz>0 0 0</xyz></axis></joint>",
    "joint type": '<link name="a"/><joint name="j" type="floating"><parent>world</parent><child>a</child></joint>',
    "escape": '<link name="a"/><model name="n"><link name="b"><pose relative_to="a"/></link></model>',
    "number": '<link name="a"><pose>1 2 x 0 0 0</pose></link>',
    "count": '<link name="a"><pose>1 2</pose></link>',
    "rotation format": '<link name="a"><pose rotation_format="axis_angle">0 0 0 0 0 0</pose></link>',
}


@pytest.mark.parametrize("fault", _FAULTS)
def test_what_libsdformat_refuses_is_an_error_here_too(tmp_path: Path, fault: str) -> None:
    """Every one of these files is wrong, and both readers say so."""
    file = tmp_path / "wrong.sdf"
    file.write_text(f'<sdf version="1.9"><model name="m">{_FAULTS[fault]}</model></sdf>')
    truth = _libsdformat(file)
    assert truth["errors"] or any("Error" in w for w in truth["warnings"])
    assert _errors(_read(file))


# -- Drake -------------------------------------------------------------------------------------------------------------


def _configurations(described: Robot | World, seed: int = 0) -> Iterator[tuple[dict[str, Any], dict[str, list[float]]]]:
    """The same coordinates for us and for Drake, whose ball joints take roll, pitch, yaw."""
    rng = np.random.default_rng(seed)
    for _ in range(_N_CONFIGURATIONS):
        ours: dict[str, Any] = {}
        theirs: dict[str, list[float]] = {}
        for robot in _robots(described):
            for joint in robot.joints:
                if not joint.n_qs:
                    continue
                q = joint_coordinates(joint, rng)
                ours[f"{robot.name}::{joint.name}" if isinstance(described, World) else joint.name] = q
                if joint.kind is JointKind.SPHERICAL:
                    q = matrix_to_rpy(quaternion_to_matrix(q))
                # Drake scopes a joint by the model of its child
                scope = f"{robot.name}::{joint.child}".rpartition("::")[0]
                theirs[f"{scope}::{joint.name.rpartition('::')[2]}"] = q.tolist()
        yield ours, theirs


def _compare_with_drake(described: Robot | World, file: Path, *search: Path) -> None:
    pairs = list(_configurations(described))
    truth = _drake(file, [theirs for _, theirs in pairs], *search)
    for (ours, _), theirs in zip(pairs, truth["configurations"], strict=True):
        poses = described.forward_kinematics(ours)
        if isinstance(described, World):
            names = {name: f"{robot.name}::{link.name}" for name, robot, link in described.named_links()}
        else:
            names = {name: f"{described.name}::{name}" for name in poses}
        assert_close({names[name]: m for name, m in poses.items()}, theirs["poses"])
    if any("While" in w for w in truth["warnings"]):
        return  # Drake replaced an inertia that no body can have
    bodies = {b["name"]: b for b in truth["bodies"]}
    for robot in _robots(described):
        for link in robot.links:
            body = bodies[f"{robot.name}::{link.name}"]
            assert link.inertial is not None
            assert link.inertial.mass == pytest.approx(body["mass"], rel=1e-9)
            assert_close(link.inertial.center, body["com"])
            assert_close(link.inertial.inertia, body["inertia"], 1e-9 * max(1.0, np.abs(body["inertia"]).max()))


@pytest.mark.parametrize("file", [f for f in _ASSETS if f.name not in _LOOPS_OR_GEARS], ids=asset_id)
def test_real_files_move_as_in_drake(file: Path) -> None:
    """World poses of all links at 20 random configurations, and the inertias."""
    _compare_with_drake(_read(file), file, file.parent.parent)


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_random_files_move_as_in_drake(tmp_path: Path, seed: int) -> None:
    """Random robots with every joint type that Drake has, in the newest version of the format."""
    rng = np.random.default_rng(seed)
    kinds = ("revolute", "continuous", "prismatic", "fixed", "universal", "ball", "screw")
    drawn = random_robot(rng, n_links=8, kinds=kinds, n_models=3)
    writer = Writer(drawn, rng)
    writer.chance_of_include = 0.0
    file = tmp_path / "robot.sdf"
    file.write_text(writer.text("1.12"))
    _compare_with_drake(_read(file), file)


@pytest.mark.parametrize("mass", ["", "<mass>2.5</mass>"])
def test_computed_inertias_are_those_of_drake(tmp_path: Path, mass: str) -> None:
    """Since 1.11 a link's inertia may be left to its collisions: densities, poses, every solid primitive."""
    shapes = {
        "box": "<size>0.1 0.2 0.3</size>",
        "sphere": "<radius>0.15</radius>",
        "cylinder": "<radius>0.1</radius><length>0.2</length>",
        "capsule": "<radius>0.1</radius><length>0.3</length>",
        "ellipsoid": "<radii>0.1 0.2 0.3</radii>",
    }
    collisions = "".join(
        f'<collision name="{kind}"><pose>0.{i} -0.2 0.3 0.4 0.{i} 0.6</pose>'
        f"{'' if i % 2 else '<density>700</density>'}<geometry><{kind}>{text}</{kind}></geometry></collision>"
        for i, (kind, text) in enumerate(shapes.items())
    )
    file = tmp_path / "auto.sdf"
    file.write_text(
        f"""<sdf version="1.11"><model name="m"><link name="a">
        <inertial auto="true"><density>300</density>{mass}</inertial>{collisions}</link></model></sdf>"""
    )
    _compare_with_drake(_read(file), file)


def test_joints_of_the_world_hold_as_in_drake(tmp_path: Path) -> None:
    """Since 1.10 joints may connect models (Drake takes fixed ones): they become one robot, placed as Drake does."""
    file = tmp_path / "world.sdf"
    file.write_text(
        """<sdf version="1.10"><world name="w">
        <model name="a"><pose>1 0 0 0 0 0.3</pose><link name="l"/></model>
        <model name="b"><pose relative_to="a::l">0 1 0 0.2 0 0</pose>
        <link name="l"><pose>0 0 1 0 0 0</pose></link></model>
        <frame name="f"><pose>0 0 2 0 0 0</pose></frame>
        <joint name="to_world" type="fixed"><parent>f</parent><child>a::l</child></joint>
        <joint name="between" type="fixed"><pose>0.1 0.2 0 0 0 0</pose><parent>a</parent><child>b::l</child></joint>
        </world></sdf>"""
    )
    described = _read(file)
    assert isinstance(described, World)
    assert _errors(described) == []
    (robot,) = described.robots
    (truth,) = _drake(file, [{}])["configurations"]
    assert_close(robot.forward_kinematics(), truth["poses"])


def test_cassie_closes_its_loops() -> None:
    """Where Drake refuses: at the zero configuration the joints that close Cassie's loops are closed."""
    file = assets("sdf/cassie_v2/example-robot-data/robots/cassie_description/robots/cassie_v2.sdf")
    robot = _read(file)
    assert isinstance(robot, Robot)
    poses = {name: Pose.from_matrix(m) for name, m in robot.forward_kinematics().items()}
    loops = robot.tree().loops
    assert len(loops) == 4
    for joint in loops:
        assert joint.parent is not None
        assert joint.child is not None
        assert (poses[joint.parent] @ joint.parent_pose).is_close(poses[joint.child] @ joint.child_pose, 1e-9)
