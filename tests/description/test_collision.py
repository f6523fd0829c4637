"""Which shapes may collide."""

from __future__ import annotations

from hypothesis import given, strategies as st

from kinema.description import (
    Base,
    CollisionGroup,
    CollisionPair,
    Joint,
    JointKind,
    Link,
    Plane,
    Robot,
    Shape,
    Sphere,
    World,
    colliding_pairs,
    rigid_body_indices,
    rotation,
)


def ball(name: str, **settings) -> Shape:
    return Shape(name=name, geometry=Sphere(0.1), **settings)


def chain(n: int, kind: JointKind = JointKind.REVOLUTE, **settings) -> Robot:
    """Links l0, l1, ... with balls s0, s1, ..."""
    axes = [] if kind is JointKind.FIXED else [rotation([0, 0, 1])]
    joints = [Joint(name=f"j{i}", kind=kind, parent=f"l{i}", child=f"l{i + 1}", axes=axes) for i in range(n - 1)]
    links = [Link(name=f"l{i}", shapes=[ball(f"s{i}")]) for i in range(n)]
    return Robot(name="chain", links=links, joints=joints, **settings)


def pairs(described: Robot | World) -> set[str]:
    return {"".join(sorted((a.shape.name, b.shape.name))) for a, b in colliding_pairs(described)}


def test_neighbours_do_not_collide_and_others_do() -> None:
    assert pairs(chain(4)) == {"s0s2", "s0s3", "s1s3"}


def test_a_joint_or_the_robot_may_let_neighbours_collide() -> None:
    robot = chain(3)
    robot.joint("j0").collision_enabled = True
    assert pairs(robot) == {"s0s1", "s0s2"}
    robot = chain(3)
    robot.collision.neighbours_collide = True
    assert pairs(robot) == {"s0s1", "s0s2", "s1s2"}


def test_links_fixed_to_each_other_are_one_body() -> None:
    robot = chain(4)
    robot.joint("j1").kind = JointKind.FIXED
    robot.joint("j1").axes = []
    assert rigid_body_indices(robot) == {"l0": 0, "l1": 1, "l2": 1, "l3": 2}
    assert pairs(robot) == {"s0s3"}


def test_what_hangs_on_the_ground_may_touch_it() -> None:
    robot = chain(2, base=Base.FIXED)
    robot.joints.append(Joint(name="w", kind=JointKind.REVOLUTE, parent=None, child="l0", axes=[rotation([0, 0, 1])]))
    world = World(robots=[robot], shapes=[Shape(name="floor", geometry=Plane())])
    assert pairs(world) == {"floors0", "floors1"}


def test_static_things_never_collide_with_each_other() -> None:
    world = World(robots=[chain(3, static=True)], shapes=[Shape(name="floor", geometry=Plane())])
    assert pairs(world) == set()


def test_self_collision_can_be_switched_off_for_a_robot_or_a_link() -> None:
    robot = chain(4)
    robot.collision.self_collide = False
    assert pairs(robot) == set()
    robot.link("l0").self_collide = True  # one of two is enough
    assert pairs(robot) == {"s0s2", "s0s3"}
    assert pairs(World(robots=[robot], shapes=[ball("x")])) == {"s0s2", "s0s3", "s0x", "s1x", "s2x", "s3x"}


def test_rules_of_a_robot_hold_only_among_its_own_links() -> None:
    """Two robots may have links of the same names."""
    first, second = chain(3), chain(3)
    first.name, second.name = "first", "second"
    first.collision.pairs = [CollisionPair(a="l0", b="l2")]
    world = World(robots=[first, second])
    found = [(a.robot, a.link, b.robot, b.link) for a, b in colliding_pairs(world)]
    assert ("first", "l0", "first", "l2") not in found
    assert ("second", "l0", "second", "l2") in found
    assert ("first", "l0", "second", "l2") in found
    world.collision.pairs = [CollisionPair(a="l0", b="l2")]
    assert not [p for p in colliding_pairs(world) if {p[0].link, p[1].link} == {"l0", "l2"}]


@given(*[st.integers(0, 7)] * 4)
def test_bit_masks_need_one_shared_bit_in_one_direction(type_a: int, aff_a: int, type_b: int, aff_b: int) -> None:
    robot = chain(3)
    a, b = robot.links[0].shapes[0], robot.links[2].shapes[0]
    a.contype, a.conaffinity, b.contype, b.conaffinity = type_a, aff_a, type_b, aff_b
    assert ("s0s2" in pairs(robot)) == bool((type_a & aff_b) or (type_b & aff_a))


def test_excluded_pairs_of_links_and_of_shapes() -> None:
    robot = chain(4)
    robot.collision.pairs = [CollisionPair(a="l3", b="l0"), CollisionPair(a="s1", b="s3", between="shapes")]
    assert pairs(robot) == {"s0s2"}


def test_a_pair_asked_for_beats_every_filter_but_not_rigidity() -> None:
    robot = chain(3)
    robot.links[0].shapes[0].contype = robot.links[0].shapes[0].conaffinity = 0
    robot.collision.pairs = [
        CollisionPair(a="s0", b="s1", between="shapes", collide=True),
        CollisionPair(a="l0", b="l1"),
    ]
    assert pairs(robot) == {"s0s1"}


def groups_allow(groups: list[CollisionGroup]) -> set[str]:
    """The pairs among three unconnected links that the groups leave."""
    links = [Link(name=f"l{i}", shapes=[ball(f"s{i}")]) for i in range(3)]
    robot = Robot(name="r", links=links)
    robot.collision.groups = groups
    return pairs(robot)


def test_groups_filter_each_other_whoever_says_it() -> None:
    a = CollisionGroup(name="A", members=["l0"], filtered=["B"])
    b = CollisionGroup(name="B", members=["l1"])
    assert groups_allow([a, b]) == {"s0s2", "s1s2"}


def test_a_group_may_filter_itself() -> None:
    assert groups_allow([CollisionGroup(name="A", members=["l0", "l1"], filtered=["A"])]) == {"s0s2", "s1s2"}


def test_an_inverted_group_collides_only_with_those_it_names() -> None:
    a = CollisionGroup(name="A", members=["l0"], filtered=["B"], invert=True)
    b = CollisionGroup(name="B", members=["l1"])
    c = CollisionGroup(name="C", members=["l2"])
    assert groups_allow([a, b, c]) == {"s0s1", "s1s2"}


def test_merged_groups_act_as_one() -> None:
    a = CollisionGroup(name="A", members=["l0"], merge="m")
    b = CollisionGroup(name="B", members=["l1"], merge="m")
    c = CollisionGroup(name="C", members=["l2"], filtered=["A"])
    assert groups_allow([a, b, c]) == {"s0s1"}


@given(st.permutations(range(4)))
def test_the_answer_does_not_depend_on_the_order_of_links(order: list[int]) -> None:
    robot = chain(4)
    robot.links = [robot.links[i] for i in order]
    assert pairs(robot) == {"s0s2", "s0s3", "s1s3"}


def test_disabled_shapes_collide_with_nothing() -> None:
    robot = chain(3)
    robot.links[0].shapes[0].enabled = False
    assert pairs(robot) == set()
