"""Planned motions are free of collisions at every sample, judged by MuJoCo and coal, and what prevents one is named."""

from __future__ import annotations

from dataclasses import dataclass

import mujoco
import numpy as np
import pytest

import kinema as km
from kinema.kinematics import CollisionChecker, PlanningError
from kit.assets import assets

from .shelf_problems import (
    ARM_DOFS,
    CoalVerifier,
    build_scene,
    link_pairs,
    random_configurations,
    random_problem,
)

ARM = """<body name="upper" pos="0 0 .5"><joint name="shoulder" axis="0 0 1" range="-150 150"/>
  <geom name="upper" type="capsule" size=".04" fromto=".06 0 0 .34 0 0"/>
<body name="fore" pos=".4 0 0"><joint name="elbow" axis="0 0 1" range="-160 160"/>
  <geom name="fore" type="capsule" size=".04" fromto=".06 0 0 .24 0 0"/>
<body name="hand" pos=".3 0 0"><joint name="wrist" axis="0 0 1" range="-120 120"/>
  <geom name="hand" type="box" size=".08 .03 .03" pos=".1 0 0"/>
</body></body></body>"""
OBSTACLE = '<body name="post" mocap="{mocap}"><geom name="post" type="box" size=".1 .1 .5"/></body>'
MJCF = '<mujoco><compiler autolimits="true"/><worldbody>{}</worldbody></mujoco>'
START, GOAL = np.array([0.9, 0.0, 0.0]), np.array([-0.9, 0.0, 0.0])
POSTS = np.array([[0.65, 0.0, 0.5], [0.6, 0.15, 0.5]])
LOAD = np.array([0.12, 0.12, 0.12])


@dataclass
class Arm:
    """Three links in a plane, a post in the way, and a load that the arm may carry."""

    scene: km.Scene
    arm: km.Entity
    post: km.Entity
    load: km.Entity

    def clearance(self, path: np.ndarray, post: np.ndarray, *, carries: bool = False) -> float:
        """Smallest distance of arm and load from the post along a path, by MuJoCo."""
        load = f'<geom name="load" type="box" size="{" ".join(map(str, LOAD / 2))}" pos=".26 0 0"/>' if carries else ""
        arm = ARM.replace("</body></body></body>", f"{load}</body></body></body>")
        model = mujoco.MjModel.from_xml_string(MJCF.format(arm + OBSTACLE.format(mocap="true")))
        data = mujoco.MjData(model)
        data.mocap_pos[0] = post
        names = ["upper", "fore", "hand", *(["load"] if carries else [])]
        geoms = [mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_GEOM, name) for name in (*names, "post")]
        distances = []
        for q in path:
            data.qpos = q
            mujoco.mj_kinematics(model, data)
            distances += [mujoco.mj_geomDistance(model, data, geom, geoms[-1], 1.0, None) for geom in geoms[:-1]]
        return min(distances)


@pytest.fixture(scope="module")
def planar(tmp_path_factory: pytest.TempPathFactory) -> Arm:
    """The arm in two environments with the post at different places."""
    path = tmp_path_factory.mktemp("planning") / "arm.xml"
    path.write_text(MJCF.format(ARM))
    scene = km.Scene(quiet=True)
    arm = scene.add(km.read(path), name="arm")
    post = scene.add(km.Box((0.2, 0.2, 1.0)), name="post")
    load = scene.add(km.Box(LOAD), name="load")
    scene.build(n_envs=2)
    post.set_pos(POSTS)
    load.set_pos((3.0, 0.0, 0.5))
    arm.set_qpos(START)
    return Arm(scene, arm, post, load)


def test_detour_around_an_obstacle(planar: Arm) -> None:
    """In each environment the arm folds to pass the post, which the straight motion would hit, within all limits."""
    limits = {"max_velocity": 2.0, "max_acceleration": (8.0, 9.0, 10.0), "max_jerk": 100.0}
    path = planar.arm.plan_path(GOAL, dt=0.005, **limits)
    assert path.shape[1:] == (2, 3)
    for env, post in enumerate(POSTS):
        straight = np.linspace(START, GOAL, 100)
        assert planar.clearance(straight, post) < 0.0
        assert planar.clearance(path[:, env], post) > 0.0
        np.testing.assert_allclose(path[[0, -1], env], [START, GOAL], atol=1e-6)
    plans = planar.arm.plan_path(GOAL, dt=0.005, return_plans=True, **limits)
    for env, plan in enumerate(plans):
        samples = plan.trajectory
        np.testing.assert_allclose(path[: len(samples), env], samples.position, atol=1e-6)
        assert np.abs(samples.velocity).max() <= 2.0 + 1e-9
        assert (np.abs(samples.acceleration) <= np.array(limits["max_acceleration"]) + 1e-9).all()
        assert (np.abs(np.diff(samples.acceleration[:-1], axis=0)) <= 100.0 * 0.005 + 1e-9).all()
    assert planar.arm._planner.always_touching(0) == set(), "no geoms of this arm touch in all configurations"
    thinned = planar.arm.plan_path(GOAL, num_waypoints=20, envs_idx=[1], **limits)
    assert thinned.shape == (20, 1, 3)


def test_distances_change_by_at_most_the_bound_of_the_motion(planar: Arm) -> None:
    """The certificate of an edge: no distance of two geoms changes by more than its weights times the joint motion."""
    rng, planner = np.random.default_rng(0), planar.arm._planner
    geoms, pairs = planner.geoms_and_pairs(0, [(planar.load, 2)])
    kinematics, distances = planner.compiled()
    checker = CollisionChecker(kinematics, geoms, pairs, distances, START, range(3), padding=0.0)
    first, second = rng.uniform(-2.0, 2.0, (2, 300, 3))
    second = first + rng.uniform(0.0, 1.0, (300, 1)) ** 3 * (second - first)
    everywhere = np.full((300, len(checker.pairs)), 10.0)
    before, after = (checker.distances(q, everywhere) for q in (first, second))
    apart = (before > 0.0) & (after > 0.0)
    bound = np.abs(second - first) @ checker.weights.T
    change = np.abs(after - before)
    assert (change <= bound + 1e-5)[apart].all()
    assert (change / np.maximum(bound, 1e-9))[apart].max() > 0.5, "the bound is not far too large"
    assert np.count_nonzero(apart) > 300


def test_padding_is_kept(planar: Arm) -> None:
    """The arm keeps the requested distance along the whole motion."""
    path = planar.arm.plan_path(GOAL, dt=0.005, padding=0.04, envs_idx=[0])
    assert planar.clearance(path[:, 0], POSTS[0]) >= 0.04 - 1e-5


def test_goal_pose_of_a_link(planar: Arm) -> None:
    """A pose of a link is reached by the motion that inverse kinematics finds free of collisions."""
    pos, _ = planar.arm.forward_kinematics(GOAL, ["hand"])
    path = planar.arm.plan_path(link="hand", pos=pos[0, 0], envs_idx=[0])
    reached, _ = planar.arm.forward_kinematics(path[-1], ["hand"])
    np.testing.assert_allclose(reached[0, 0], pos[0, 0], atol=1e-3)
    assert planar.clearance(path[:, 0], POSTS[0]) > 0.0


def test_carried_object_moves_along(planar: Arm) -> None:
    """An object in the hand is part of the robot: the motion with it keeps clear of the post, that without may not."""
    arm, load = planar.arm, planar.load
    pos, quat = arm.forward_kinematics(START, ["hand"])
    turn = 2.0 * np.arctan2(quat[0, 0, 3], quat[0, 0, 0])
    load.set_pos(pos[0, 0] + 0.26 * np.array([np.cos(turn), np.sin(turn), 0.0]))
    load.set_quat(quat[0, 0])
    path = arm.plan_path(GOAL, dt=0.005, attached={load: "hand"}, envs_idx=[0])
    assert planar.clearance(path[:, 0], POSTS[0], carries=True) > 0.0
    held = planar.scene.attach(arm, load, link_a="hand", envs_idx=[0])
    welded = arm.plan_path(GOAL, dt=0.005, envs_idx=[0])
    assert planar.clearance(welded[:, 0], POSTS[0], carries=True) > 0.0
    held.detach()
    free = arm.plan_path(GOAL, dt=0.005, ignore=[(arm, load)], envs_idx=[0])
    assert planar.clearance(free[:, 0], POSTS[0], carries=True) < 0.0
    load.set_pos((3.0, 0.0, 0.5))


def test_reasons_of_failure_are_named(planar: Arm) -> None:
    """Geoms in collision at start or goal, limits, and a search without result are named."""
    arm, inside = planar.arm, np.array([0.0, 0.0, 0.0])
    with pytest.raises(
        PlanningError, match=r'goal of environment 0 is in collision: .*"fore" of arm and "box" of post'
    ):
        arm.plan_path(inside)
    with pytest.raises(PlanningError, match=r"the start of environment 1 is in collision.*of post"):
        arm.plan_path(GOAL, start=(0.25, 0.0, 0.0), envs_idx=[1])
    with pytest.raises(PlanningError, match=r"nearer than the padding of 0.6 m"):
        arm.plan_path(GOAL, padding=0.6, timeout=0.2)
    with pytest.raises(PlanningError, match="beyond the limits of wrist: 3 is not between"):
        arm.plan_path(np.array([-0.9, 0.0, 3.0]))
    with pytest.raises(PlanningError, match=r"no path was found in 0.2 s"):
        arm.plan_path(GOAL, dofs_idx=["shoulder"], timeout=0.2)
    with pytest.raises(km.KinemaError, match="goal configuration, or the target pose"):
        arm.plan_path()
    ignored = [(arm.get_link(link), planar.post) for link in ("fore", "hand")]
    np.testing.assert_allclose(arm.plan_path(inside, ignore=ignored)[-1], [inside, inside], atol=1e-6)


@pytest.mark.slow("compiles distances of meshes and inverse kinematics, and verifies each step by coal")
def test_shelf_problems_of_a_seven_dof_arm() -> None:
    """Motions of a Panda between a table and a shelf are free of collisions for Pinocchio's kinematics and coal."""
    pytest.importorskip("coal")
    pytest.importorskip("pinocchio")
    path = assets("urdf/panda/panda.urdf")
    robot = km.read(path)
    assert isinstance(robot, km.Robot)
    rng, solved = np.random.default_rng(0), 0
    while solved < 2:
        problem = random_problem(rng)
        _, arm = build_scene(robot, problem)
        ends = random_configurations(arm, problem, rng)
        if ends is None:
            continue
        arm.set_qpos(ends[0])
        motion = arm.plan_path(ends[1], dofs_idx=range(ARM_DOFS), dt=0.01)
        np.testing.assert_allclose(motion[[0, -1]], ends, atol=1e-5)
        assert CoalVerifier(path, robot, link_pairs(arm)).smallest_distance(problem, motion) > 0.0
        solved += 1
