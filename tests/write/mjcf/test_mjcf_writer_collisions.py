"""Collision rules as bit masks, excluded bodies and pairs: exact, and no more of them than needed."""

from __future__ import annotations

from collections import Counter
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, strategies as st

from kinema.description import (
    Base,
    CollisionGroup,
    CollisionPair,
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
from kinema.write.mjcf.collision_filters import masks_by_biclique_cover
from kit.written.mjcf import Written, assert_collisions, write


def masks_collide(a: tuple[int, int], b: tuple[int, int]) -> bool:
    """MuJoCo's mask test for two geoms given as (contype, conaffinity)."""
    return bool(a[0] & b[1] or b[0] & a[1])


def ball(name: str) -> Shape:
    return Shape(name=name, geometry=Sphere(0.1))


def chain(count: int, name: str = "robot", shapes: int = 1) -> Robot:
    """Links in a row, the first of them free."""
    robot = Robot(name=name, base=Base.FREE)
    for i in range(count):
        inertial = Inertial(1.0, np.zeros(3), np.eye(3))
        balls = [ball(f"{name} shape {i} {k}") for k in range(shapes)]
        robot.links.append(Link(name=f"{name} {i}", inertial=inertial, shapes=balls))
        if i:
            joint = Joint(name=f"{name} j{i}", kind=JointKind.CONTINUOUS, parent=f"{name} {i - 1}", child=f"{name} {i}")
            joint.axes = [rotation((0, 0, 1))]
            robot.joints.append(joint)
    return robot


def elements(written: Written) -> Counter[str]:
    """How many elements of each kind say who collides."""
    model = written.model
    masks = {(int(a), int(b)) for a, b in zip(model.geom_contype, model.geom_conaffinity, strict=True)}
    bits = 0
    for a, b in masks:
        bits |= a | b
    return Counter(exclude=model.nexclude, pair=model.npair, bits=bin(bits).count("1"))


def test_nothing_is_said_where_nothing_is_filtered(tmp_path: Path) -> None:
    """MuJoCo's own rules are the description's: no masks, no pairs."""
    written = write(chain(5), tmp_path)
    assert_collisions(written)
    assert elements(written) == Counter(bits=1)
    assert "contype" not in written.path.read_text()


def test_no_self_collision_is_one_bit(tmp_path: Path) -> None:
    """The robot's geoms miss each other but still touch those of other models, which have MuJoCo's default masks."""
    robot = chain(6)
    robot.collision.self_collide = False
    written = write(robot, tmp_path)
    assert_collisions(written)
    assert elements(written) == Counter(bits=1)
    model = written.model
    assert all(
        masks_collide((int(a), int(b)), (1, 1)) for a, b in zip(model.geom_contype, model.geom_conaffinity, strict=True)
    )


def test_robots_without_self_collision_in_a_world(tmp_path: Path) -> None:
    """Four robots that collide with each other and the floor, not with themselves: two bits, and one for the floor."""
    robots = [chain(3, f"r{i}") for i in range(4)]
    for robot in robots:
        robot.collision.self_collide = False
    written = write(World(name="w", robots=robots, shapes=[ball("floor")]), tmp_path)
    assert_collisions(written)
    assert elements(written)["exclude"] == elements(written)["pair"] == 0
    assert elements(written)["bits"] <= 3


def test_collision_groups_are_bits(tmp_path: Path) -> None:
    """Groups that filter each other, as USD has them."""
    robots = [chain(3, f"r{i}") for i in range(3)]
    world = World(name="w", robots=robots)
    world.collision.groups = [
        CollisionGroup(name=f"g{i}", members=[x.name for x in r.links], filtered=[f"g{(i + 1) % 3}"])
        for i, r in enumerate(robots[:2])
    ]
    written = write(world, tmp_path)
    assert_collisions(written)
    assert elements(written)["exclude"] == elements(written)["pair"] == 0


def test_a_pair_of_links_is_an_exclude(tmp_path: Path) -> None:
    """With its name; other links are left alone."""
    robot = chain(5)
    robot.collision.pairs = [CollisionPair(a="robot 0", b="robot 3", name="apart")]
    written = write(robot, tmp_path)
    assert_collisions(written)
    assert elements(written) == Counter(exclude=1, bits=1)
    assert '<exclude name="apart" body1="robot 0" body2="robot 3"/>' in written.path.read_text()


def test_a_joint_that_lets_its_links_collide(tmp_path: Path) -> None:
    """MuJoCo never lets a body touch its parent, but by an explicit pair."""
    robot = chain(3)
    robot.joints[0].collision_enabled = True
    written = write(robot, tmp_path)
    assert_collisions(written)
    assert elements(written) == Counter(pair=1, bits=1)


def test_neighbours_that_collide(tmp_path: Path) -> None:
    """All neighbours at once: MuJoCo's rule is switched off; one joint that forbids it is an exclude."""
    robot = chain(4)
    robot.collision.neighbours_collide = True
    robot.joints[1].collision_enabled = False
    written = write(robot, tmp_path)
    assert_collisions(written)
    assert elements(written) == Counter(exclude=1, bits=1)
    assert 'filterparent="disable"' in written.path.read_text()


def test_a_fixed_base_does_not_touch_its_first_link(tmp_path: Path) -> None:
    """MuJoCo lets what hangs on the world touch it; a base that the description does not hold there is a neighbour."""
    robot = chain(3)
    robot.base = Base.UNSPECIFIED
    written = write(robot, tmp_path)
    assert_collisions(written)
    assert elements(written) == Counter(exclude=1, bits=1)


def test_single_shapes_of_two_links(tmp_path: Path) -> None:
    """A pair of shapes that never collide, while others of their links do."""
    robot = chain(4, shapes=2)
    robot.collision.pairs = [CollisionPair(a="robot shape 0 0", b="robot shape 3 1", between="shapes")]
    written = write(robot, tmp_path)
    assert_collisions(written)


def test_own_masks_are_kept(tmp_path: Path) -> None:
    """The masks of the shapes stand where they say everything, up to all 32 bits."""
    robot = chain(3)
    for i, link in enumerate(robot.links):
        link.shapes[0].contype, link.shapes[0].conaffinity = 2**31 >> i, 0xFFFFFFFF
    written = write(robot, tmp_path)
    assert_collisions(written)
    assert [int(m) & 0xFFFFFFFF for m in written.model.geom_contype] == [2**31, 2**30, 2**29]


# -- masks ------------------------------------------------------------------------------------------------------------


@given(
    st.integers(1, 7).flatmap(
        lambda n: st.tuples(st.just(n), st.lists(st.sampled_from([True, False, None]), min_size=28, max_size=28))
    )
)
def test_masks_cover_what_is_wanted_and_nothing_else(case: tuple[int, list[bool | None]]) -> None:
    """Any relation between classes; where it does not matter, anything goes. No class is left without a bit."""
    count, values = case
    table = dict(zip(((i, j) for i in range(7) for j in range(i, 7)), values, strict=True))

    def wanted(i: int, j: int) -> bool | None:
        return table[min(i, j), max(i, j)]

    masks = masks_by_biclique_cover(count, wanted)
    assert masks is not None
    assert all(a or b for a, b in masks)
    for i, j in [*combinations(range(count), 2), *((i, i) for i in range(count))]:
        if wanted(i, j) is not None:
            assert masks_collide(masks[i], masks[j]) == wanted(i, j)


@pytest.mark.parametrize("parts", [2, 4, 8, 16])
def test_classes_that_only_miss_themselves_take_few_bits(parts: int) -> None:
    """Any two of n classes collide, none with itself: as many bits as number the classes."""
    masks = masks_by_biclique_cover(parts, lambda i, j: i != j)
    assert masks is not None
    bits = 0
    for a, b in masks:
        bits |= a | b
    assert bin(bits).count("1") == parts.bit_length() - 1


def test_too_many_bits_are_given_up() -> None:
    """A relation that needs more than 31 bits: each class collides with exactly one other."""
    assert masks_by_biclique_cover(80, lambda i, j: i // 2 == j // 2 and i != j) is None
