"""Who may collide: bit masks, self-collision, neighbours and pairs, judged by OpenUSD and by reading back."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from kinema.core import Pose, collect
from kinema.description import (
    Base,
    CollisionGroup,
    CollisionPair,
    CollisionRules,
    Inertial,
    Joint,
    JointKind,
    Link,
    Robot,
    Shape,
    Sphere,
    World,
    rotation,
)
from kinema.read import read
from kinema.write import LossReport, write
from kit.robots.same import colliding_links

masks = st.lists(st.tuples(st.integers(0, 7), st.integers(0, 7)), min_size=1, max_size=7)


def ball(name: str, contype: int = 1, conaffinity: int = 1) -> Link:
    shape = Shape(name=f"{name} ball", geometry=Sphere(0.1), contype=contype, conaffinity=conaffinity)
    inertial = Inertial(1.0, np.zeros(3), np.eye(3) * 0.01)
    return Link(name=name, inertial=inertial, shapes=[shape])


def loose(masks: list[tuple[int, int]]) -> Robot:
    """Balls that nothing connects."""
    links = [ball(f"b{i}", *mask) for i, mask in enumerate(masks)]
    for i, link in enumerate(links):
        link.pose = Pose.translation([i, 0, 0])
    return Robot(name="balls", links=links, base=Base.FREE)


def chain(n: int, *, fixed: tuple[int, ...] = ()) -> Robot:
    """Balls on a string of hinges, some of them glued."""
    robot = loose([(1, 1)] * n)
    for i in range(1, n):
        kind = JointKind.FIXED if i in fixed else JointKind.REVOLUTE
        axes = [] if i in fixed else [rotation([0, 0, 1])]
        robot.joints.append(Joint(name=f"j{i}", kind=kind, parent=f"b{i - 1}", child=f"b{i}", axes=axes))
    return robot


def round_trip(described: Robot | World, folder: Path, layout: str = "nested") -> tuple[Robot | World, LossReport]:
    file = folder / "balls.usda"
    report = write(described, file, layout=layout)
    return read(file, policy=collect), report


def groups_of(file: Path) -> list[str]:
    from pxr import Usd

    stage = Usd.Stage.Open(str(file))
    return [str(p.GetPath()) for p in stage.Traverse() if p.GetTypeName() == "PhysicsCollisionGroup"]


def openusd_says(file: Path) -> set[frozenset[str]]:
    """The pairs of links that OpenUSD's table of collision groups lets collide, by name."""
    from pxr import Usd, UsdPhysics

    stage = Usd.Stage.Open(str(file))
    table = UsdPhysics.CollisionGroup.ComputeCollisionGroupTable(stage)
    members: dict[str, str] = {}
    for prim in stage.Traverse():
        if prim.GetTypeName() == "PhysicsCollisionGroup":
            query = UsdPhysics.CollisionGroup(prim).GetCollidersCollectionAPI().ComputeMembershipQuery()
            for other in stage.Traverse():
                if other.HasAPI(UsdPhysics.CollisionAPI) and query.IsPathIncluded(other.GetPath()):
                    members[str(other.GetPath())] = str(prim.GetPath())
    shapes = [p for p in stage.Traverse() if p.HasAPI(UsdPhysics.CollisionAPI)]
    enabled = [p for p in shapes if UsdPhysics.CollisionAPI(p).GetCollisionEnabledAttr().Get()]
    result: set[frozenset[str]] = set()
    for a, b in itertools.combinations(enabled, 2):
        group_a, group_b = members.get(str(a.GetPath())), members.get(str(b.GetPath()))
        if group_a is None or group_b is None or table.IsCollisionEnabled(group_a, group_b):
            result.add(frozenset((a.GetParent().GetName(), b.GetParent().GetName())))
    return result


@settings(max_examples=40)
@given(masks=masks)
def test_bit_masks_become_groups_exactly(tmp_path: Path, masks: list[tuple[int, int]]) -> None:
    """Every pair collides in the stage, by OpenUSD's own table and read back, if and only if its masks say so."""
    robot = loose(masks)
    back, report = round_trip(robot, tmp_path)
    assert colliding_links(back) == colliding_links(robot)
    assert openusd_says(tmp_path / "balls.usda") == set(colliding_links(robot))
    assert not report.dropped


@settings(max_examples=40)
@given(masks=masks)
def test_no_fewer_groups_would_do(tmp_path: Path, masks: list[tuple[int, int]]) -> None:
    """Colliders that behave alike share a group, so that no two groups could be merged."""
    round_trip(loose(masks), tmp_path)
    awake = [m for m in masks if any(m)]
    meets = [[bool(a[0] & b[1] or b[0] & a[1]) for b in awake] for a in awake]
    rows = {tuple(row[k] for k in range(len(awake))) for row in meets}
    filtering = {row for row in rows if not all(row)}
    # a collider that meets none of its kind is alone with that only if there is another of its kind
    assert len(groups_of(tmp_path / "balls.usda")) <= len(filtering)


def test_masks_that_let_everything_collide_need_no_group(tmp_path: Path) -> None:
    """The usual case leaves no trace."""
    round_trip(loose([(1, 1), (3, 1), (1, 3)]), tmp_path)
    assert groups_of(tmp_path / "balls.usda") == []


@pytest.mark.parametrize("layout", ["nested", "flat"])
def test_a_robot_that_does_not_collide_with_itself(tmp_path: Path, layout: str) -> None:
    """It still collides with others: one group that filters itself."""
    robots = [chain(4), chain(3)]
    for robot, name in zip(robots, ("shy", "bold"), strict=True):
        robot.name = name
        for link in robot.links:
            link.name = f"{name} {link.name}"
            link.shapes[0].name = f"{name} {link.shapes[0].name}"
        for joint in robot.joints:
            joint.parent, joint.child = f"{name} {joint.parent}", f"{name} {joint.child}"
    robots[0].collision = CollisionRules(self_collide=False)
    world = World(name="w", robots=robots)
    back, _ = round_trip(world, tmp_path, layout)
    assert isinstance(back, World)
    assert back.robots[0].collision.self_collide is False
    assert colliding_links(back) == colliding_links(world)
    assert len(groups_of(tmp_path / "balls.usda")) == 1


def test_links_held_together_are_kept_apart_for_others_too(tmp_path: Path) -> None:
    """Links glued to each other are one body here; in the stage, pairs that no joint names are filtered."""
    robot = chain(4, fixed=(1, 2))
    back, _ = round_trip(robot, tmp_path)
    assert colliding_links(back) == colliding_links(robot)
    text = (tmp_path / "balls.usda").read_text()
    assert "physics:filteredPairs" in text


@pytest.mark.parametrize("neighbours", [True, False])
@pytest.mark.parametrize("own", [True, False, None])
def test_neighbours_by_joint_and_by_rule(tmp_path: Path, neighbours: bool, own: bool | None) -> None:
    """A joint says whether its links collide; where it does not, the robot's rule does."""
    robot = chain(3)
    robot.collision = CollisionRules(neighbours_collide=neighbours)
    robot.joints[0].collision_enabled = own
    back, _ = round_trip(robot, tmp_path)
    assert colliding_links(back) == colliding_links(robot)


@pytest.mark.parametrize("layout", ["nested", "flat"])
def test_pairs_of_links_and_of_shapes(tmp_path: Path, layout: str) -> None:
    """Excluded pairs, also with the articulation's root, whose pairs would be read as the whole articulation's."""
    robot = chain(5)
    robot.collision.pairs = [
        CollisionPair(a="b0", b="b2"),
        CollisionPair(a="b4", b="b1"),
        CollisionPair(a="b0 ball", b="b4 ball", between="shapes"),
    ]
    back, _ = round_trip(robot, tmp_path, layout)
    assert colliding_links(back) == colliding_links(robot)
    assert sum(colliding_links(robot).values()) == 10 - 4 - 3


def test_a_pair_that_collides_in_spite_of_masks(tmp_path: Path) -> None:
    """The groups leave it room; one that a joint keeps apart is reported."""
    robot = chain(3)
    for link in robot.links:
        link.shapes[0].contype = link.shapes[0].conaffinity = 0
    robot.collision.pairs = [CollisionPair(a="b0 ball", b="b2 ball", between="shapes", collide=True)]
    back, report = round_trip(robot, tmp_path)
    assert colliding_links(back) == colliding_links(robot) == {frozenset(("b0", "b2")): 1}
    assert not [loss for loss in report.dropped if loss.kind == "pair"]
    robot.collision.pairs = [CollisionPair(a="b0 ball", b="b1 ball", between="shapes", collide=True)]
    _, report = round_trip(robot, tmp_path)
    assert [loss.what for loss in report.dropped if loss.kind == "pair"] == ["that it collides in any case"]


def test_groups_come_back_as_they_were(tmp_path: Path) -> None:
    """Merged and inverted groups, by name."""
    robot = loose([(1, 1)] * 5)
    robot.collision.groups = [
        CollisionGroup(name="feet", members=["b0 ball", "b1 ball"], filtered=["hands"], between="shapes"),
        CollisionGroup(name="hands", members=["b2 ball"], merge="limbs", between="shapes"),
        CollisionGroup(name="head", members=["b3"], merge="limbs", between="links"),
        CollisionGroup(name="tail", members=["b4 ball"], filtered=["feet"], invert=True, between="shapes"),
    ]
    back, _ = round_trip(robot, tmp_path)
    assert [g.name for g in back.collision.groups] == ["feet", "hands", "head", "tail"]
    assert [g.filtered for g in back.collision.groups] == [["hands"], [], [], ["feet"]]
    assert colliding_links(back) == colliding_links(robot)
