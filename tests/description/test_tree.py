"""The spanning tree: the rule, its independence of file order, loops, and reversed joints."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from kinema.core import Pose
from kinema.description import (
    Joint,
    JointKind,
    KinematicTree,
    Link,
    Robot,
    reverse_joint,
    rotation,
    spanning_tree,
    translation,
)
from kit.robots.random_robots import random_robot
from kit.robots.seeds import seeds
from kit.robots.variety import GRAPH


def hinge(name: str, parent: str | None, child: str | None, **more) -> Joint:
    rng = np.random.default_rng(sum(name.encode()))
    return Joint(
        name=name,
        kind=JointKind.REVOLUTE,
        parent=parent,
        child=child,
        parent_pose=Pose.from_rpy(rng.normal(size=3), rng.normal(size=3)),
        child_pose=Pose.from_rpy(rng.normal(size=3), rng.normal(size=3)),
        axes=[rotation(rng.normal(size=3))],
        **more,
    )


def links(*names: str, **nested_in: str) -> list[Link]:
    return [Link(name=n, nested_in=nested_in.get(n)) for n in names]


def shape_of(tree: KinematicTree) -> list[tuple[str | None, str, str, bool]]:
    return [(e.parent, e.child, e.joints[0].name, e.reversed) for e in tree.edges]


def test_a_chain_is_its_own_tree() -> None:
    tree = spanning_tree(links("a", "b", "c"), [hinge("j1", "a", "b"), hinge("j2", "b", "c")])
    assert tree.roots == ("a",)
    assert shape_of(tree) == [("a", "b", "j1", False), ("b", "c", "j2", False)]


def test_a_joint_to_the_world_makes_its_link_the_root() -> None:
    """Even where the other joints run towards it."""
    tree = spanning_tree(links("a", "b"), [hinge("j", "a", "b"), hinge("w", None, "b")])
    assert tree.roots == ()
    assert shape_of(tree) == [(None, "b", "w", False), ("b", "a", "j", True)]


def test_a_world_joint_may_name_the_world_as_its_child() -> None:
    tree = spanning_tree(links("a"), [hinge("w", "a", None)])
    assert shape_of(tree) == [(None, "a", "w", True)]


def test_the_declared_root_beats_the_direction_of_joints() -> None:
    tree = spanning_tree(links("a", "b", "c"), [hinge("j1", "a", "b"), hinge("j2", "b", "c")], root="c")
    assert tree.roots == ("c",)
    assert shape_of(tree) == [("c", "b", "j2", True), ("b", "a", "j1", True)]


def test_nesting_beats_the_direction_of_joints() -> None:
    tree = spanning_tree(links("a", "b", b="a"), [hinge("j", "b", "a")])
    assert tree.roots == ("a",)
    assert shape_of(tree) == [("a", "b", "j", True)]


def test_forward_joints_are_used_before_reversed_ones() -> None:
    joints = [hinge("back", "c", "a"), hinge("j1", "a", "b"), hinge("j2", "b", "c")]
    tree = spanning_tree(links("a", "b", "c"), joints, root="a")
    assert shape_of(tree) == [("a", "b", "j1", False), ("b", "c", "j2", False)]
    assert [j.name for j in tree.loops] == ["back"]


def test_a_four_bar_linkage_has_one_loop() -> None:
    joints = [hinge("j1", "a", "b"), hinge("j2", "a", "c"), hinge("j3", "b", "d"), hinge("j4", "c", "d")]
    tree = spanning_tree(links("a", "b", "c", "d"), joints)
    assert [j.name for j in tree.loops] == ["j4"]


def test_joints_that_declare_a_loop_or_a_distance_or_are_disabled_carry_nothing() -> None:
    joints = [
        hinge("loop", "a", "b", closes_loop=True),
        hinge("off", "a", "b", enabled=False),
        Joint(name="rope", kind=JointKind.DISTANCE, parent="a", child="b"),
    ]
    tree = spanning_tree(links("a", "b"), joints)
    assert tree.roots == ("a", "b")
    assert [j.name for j in tree.loops] == ["loop", "rope"]


def test_joints_that_lead_nowhere_are_set_aside() -> None:
    tree = spanning_tree(links("a"), [hinge("j", "a", "ghost"), hinge("self", "a", "a"), hinge("w", None, None)])
    assert [j.name for j in tree.dangling] == ["j", "self", "w"]
    assert tree.edges == ()


def test_two_joints_between_two_links_are_a_loop_unless_they_stack() -> None:
    first, second = hinge("j1", "a", "b"), hinge("j2", "a", "b")
    assert [j.name for j in spanning_tree(links("a", "b"), [first, second]).loops] == ["j2"]
    second.stacked = True
    tree = spanning_tree(links("a", "b"), [first, second])
    assert not tree.loops
    assert [j.name for j in tree.edges[0].joints] == ["j1", "j2"]


graphs = seeds.map(lambda seed: random_robot(seed, GRAPH))
"""Some joints reversed, perhaps with loops and a joint to the world."""


@settings(max_examples=150)
@given(graphs, st.randoms(use_true_random=False))
def test_the_tree_does_not_depend_on_the_order_of_joints(graph: Robot, rng: random.Random) -> None:
    shuffled = graph.joints.copy()
    rng.shuffle(shuffled)
    first, second = spanning_tree(graph.links, graph.joints), spanning_tree(graph.links, shuffled)
    assert first.roots == second.roots
    assert shape_of(first) == shape_of(second)
    assert {j.name for j in first.loops} == {j.name for j in second.loops}


@settings(max_examples=150)
@given(graphs)
def test_every_link_hangs_once_and_every_joint_is_used_once(graph: Robot) -> None:
    tree = spanning_tree(graph.links, graph.joints)
    placed = [*tree.roots, *(e.child for e in tree.edges)]
    assert sorted(placed) == sorted(link.name for link in graph.links)
    used = [j.name for e in tree.edges for j in e.joints] + [j.name for j in tree.loops]
    assert sorted(used) == sorted(j.name for j in graph.joints)
    seen: set[str | None] = {None, *tree.roots}
    for edge in tree.edges:
        assert edge.parent in seen
        seen.add(edge.child)


@settings(max_examples=150)
@given(graphs, st.data())
def test_a_reversed_joint_in_the_file_gives_the_same_motion(graph: Robot, data: st.DataObject) -> None:
    """Swapping frames and negating the axis of any joints does not move a link, in any configuration."""
    links, joints, root = graph.links, graph.joints, graph.links[0].name
    values = {j.name: data.draw(st.floats(-3, 3)) for j in joints}
    flipped = [reverse_joint(j) if data.draw(st.booleans()) else j for j in joints]
    tree = spanning_tree(links, joints, root)
    # the same tree edges, so that with loops the same joints carry
    carried = {j.name for e in tree.edges for j in e.joints}
    kept = [j for j in flipped if j.name in carried]
    poses = Robot(links=links, joints=joints, root=root).link_poses(values)
    again = Robot(links=links, joints=kept, root=root).link_poses({k: values[k] for k in carried})
    for name, pose in poses.items():
        assert pose.is_close(again[name], 1e-9)


def test_stacked_joints_turn_one_after_the_other() -> None:
    """The second joint's anchor is carried by the first; frames given in the child."""
    anchor1, anchor2 = Pose.translation([0, 0, 1]), Pose.translation([0, 1, 0])
    body = Pose.translation([5, 0, 0])
    joints = [
        Joint(
            name="z",
            kind=JointKind.REVOLUTE,
            parent="a",
            child="b",
            parent_pose=body @ anchor1,
            child_pose=anchor1,
            axes=[rotation([0, 0, 1])],
        ),
        Joint(
            name="x",
            kind=JointKind.PRISMATIC,
            parent="a",
            child="b",
            parent_pose=body @ anchor2,
            child_pose=anchor2,
            axes=[translation([1, 0, 0])],
            stacked=True,
        ),
    ]
    robot = Robot(links=links("a", "b"), joints=joints)
    pose = robot.forward_kinematics({"z": np.pi / 2, "x": 0.5})["b"]
    np.testing.assert_allclose(pose[:3, 3], [5, 0.5, 0], atol=1e-15)  # the slide goes along the turned x axis


def test_a_long_chain_needs_no_recursion() -> None:
    n = 5000
    chain = [Link(name=str(i)) for i in range(n)]
    joints = [Joint(name=f"j{i}", kind=JointKind.FIXED, parent=str(i), child=str(i + 1)) for i in range(n - 1)]
    assert len(spanning_tree(chain, joints).edges) == n - 1


@pytest.mark.parametrize("order", [("a", "b"), ("b", "a")])
def test_the_order_of_links_decides_a_tie(order: tuple[str, str]) -> None:
    tree = spanning_tree(links(*order), [])
    assert tree.roots == order
