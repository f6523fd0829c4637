"""Random robots, written as SDFormat, are where they were: at zero, and along each of their joints."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings

from kinema.description import JointKind
from kit.robots.configurations import rest_coordinates
from kit.robots.random_robots import random_robot
from kit.robots.same import agree, colliding_links
from kit.robots.seeds import seeds
from kit.robots.variety import HELD_KINDS, SDF
from kit.written.sdf import (
    Written,
    drake_agrees,
    drake_refuses,
    libsdformat_accepts,
    own_reader_agrees,
    seen_from_roots,
    stands_where_it_stood,
)

TOLERANCE = 1e-9
_FOLLOWERS = (JointKind.REVOLUTE, JointKind.UNIVERSAL, JointKind.CYLINDRICAL)
FOR_DRAKE = replace(SDF, kinds=HELD_KINDS, stacked=(JointKind.REVOLUTE,), followers=_FOLLOWERS, loops=())


@given(seeds)
@settings(max_examples=60)
def test_a_random_robot_is_where_it_was(seed: int) -> None:
    """Our reader has every link in its place: at zero, at random, and with every coordinate moved by itself."""
    with tempfile.TemporaryDirectory() as folder:
        written = Written.make(random_robot(seed, SDF), Path(folder))
        stands_where_it_stood(written, TOLERANCE)
        own_reader_agrees(written, TOLERANCE, count=2)
        (robot,), (again,) = written.robots, written.read()
        zero = rest_coordinates(robot)
        for joint in robot.joints:
            if joint.kind in (JointKind.FREE, JointKind.DISTANCE, JointKind.SPHERICAL):
                continue
            for i in range(joint.n_qs):
                q = {**zero, joint.name: joint.rest + 0.8 * np.eye(joint.n_qs)[i]}
                rest = {j.name: j.rest for j in again.joints}
                theirs = again.forward_kinematics({**rest, **written.in_file(0, q)})
                agree(*seen_from_roots(again, theirs, written.expected(0, q)), TOLERANCE)


@given(seeds)
@settings(max_examples=10)
def test_libsdformat_accepts_random_robots(seed: int) -> None:
    """Nothing is missing and nothing is malformed."""
    with tempfile.TemporaryDirectory() as folder:
        libsdformat_accepts(Written.make(random_robot(seed, SDF), Path(folder)))


@pytest.mark.parametrize("seed", range(6))
def test_drake_has_random_robots_where_they_were(seed: int, tmp_path: Path) -> None:
    """Drake, at zero and at random configurations."""
    written = Written.make(random_robot(seed, FOR_DRAKE), tmp_path)
    if drake_refuses(written):
        pytest.skip("Drake has no loops")
    drake_agrees(written, TOLERANCE)


@given(seeds)
@settings(max_examples=40)
def test_pairs_that_collide_are_the_same_or_reported(seed: int) -> None:
    """For every pair of links, as many pairs of shapes may collide, or the report names the pair."""
    with tempfile.TemporaryDirectory() as folder:
        written = Written.make(random_robot(seed, SDF), Path(folder))
        (robot,), (again,) = written.robots, written.read()
        before = {
            frozenset(written.name("link", n) for n in pair): (count, pair)
            for pair, count in colliding_links(robot).items()
        }
        after = colliding_links(again)
        said = {
            frozenset((x.name, x.what.split('"')[1]))
            for x in written.report
            if "which links it collides with" in x.what
        }
        back = {written.name("link", link.name): link.name for link in robot.links}
        for pair in before.keys() | after.keys():
            if before.get(pair, (0, pair))[0] != after[pair]:
                assert frozenset(back[n] for n in pair) in said
