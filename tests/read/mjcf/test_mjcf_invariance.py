"""What must not matter does not matter: the unit of angles, the order of siblings, names, where the robot stands."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from kinema.core import Array, Pose
from kinema.description import Robot, World
from kinema.read.mjcf import read_mjcf


@dataclass
class Part:
    """A body of a random model; angles in radians."""

    name: str
    position: tuple[float, ...]
    euler: tuple[float, ...]
    joints: list[tuple[str, tuple[float, ...], tuple[float, ...], float]]
    """Type, position, axis and reference of each."""
    radii: list[float]
    children: list[Part] = field(default_factory=list)


_number = st.floats(-2, 2).map(lambda x: round(x, 3))
_triple = st.tuples(_number, _number, _number)
_axis = _triple.filter(lambda a: math.hypot(*a) > 0.1)
_joints = st.lists(st.tuples(st.sampled_from(["hinge", "slide"]), _triple, _axis, _number), max_size=3)
_radii = st.lists(st.floats(0.05, 0.5).map(lambda x: round(x, 3)), min_size=1, max_size=3)


@st.composite
def _models(draw: st.DrawFn) -> list[Part]:
    """A few bodies, each on the world or on one before it."""
    parts: list[Part] = []
    roots: list[Part] = []
    for i in range(draw(st.integers(1, 6))):
        part = Part(f"body{i}", draw(_triple), draw(_triple), draw(_joints), draw(_radii))
        parent = draw(st.integers(-1, i - 1))
        (roots if parent < 0 else parts[parent].children).append(part)
        parts.append(part)
    return roots


@dataclass
class Style:
    """How a model is written down."""

    degrees: bool = True
    order: Callable[[list], list] = field(default=lambda items: items)
    rename: Callable[[str], str] = field(default=lambda name: name)
    around: str = "{}"

    def angle(self, radians: float) -> str:
        return repr(math.degrees(radians) if self.degrees else radians)

    def model(self, roots: list[Part]) -> str:
        unit = "degree" if self.degrees else "radian"
        bodies = self.around.format("".join(self.body(r) for r in self.order(roots)))
        return f'<mujoco><compiler angle="{unit}"/><worldbody>{bodies}</worldbody></mujoco>'

    def body(self, part: Part) -> str:
        name = self.rename(part.name)
        euler = " ".join(self.angle(a) for a in part.euler)
        joints = ""
        for i, (kind, position, axis, reference) in enumerate(part.joints):
            value = self.angle(reference) if kind == "hinge" else repr(reference)
            joints += (
                f'<joint name="{name}_{i}" type="{kind}" pos="{_text(position)}" axis="{_text(axis)}" ref="{value}"/>'
            )
        geoms = [f'<geom name="{name}_g{i}" size="{r}" pos="{r} 0 0"/>' for i, r in enumerate(part.radii)]
        children = [self.body(c) for c in part.children]
        inside = "".join(self.order(geoms)) + "".join(self.order(children))
        return f'<body name="{name}" pos="{_text(part.position)}" euler="{euler}">{joints}{inside}</body>'


def _text(values: tuple[float, ...]) -> str:
    return " ".join(map(repr, values))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("invariance")


def _read(folder: Path, roots: list[Part], style: Style) -> Robot | World:
    path = folder / "model.xml"
    path.write_text(style.model(roots), encoding="utf-8")
    return read_mjcf(path)


def _facts(described: Robot | World, seed: int, unname: Callable[[str], str] = lambda name: name) -> dict[str, Array]:
    """Pose at a random configuration, mass, centre, inertia, and where the shapes are, by the name of each link."""
    generator = np.random.default_rng(seed)
    names = sorted((unname(j.name), j.name) for j in described.joints if j.n_qs)
    q = {own: generator.uniform(-1, 1, 1) for _, own in names}
    poses = described.link_poses(q)
    facts: dict[str, Array] = {}
    for link in described.links:
        assert link.inertial is not None
        name = unname(link.name)
        facts[name] = np.concatenate([poses[link.name].matrix.ravel(), [link.inertial.mass], link.inertial.center])
        facts[f"{name} inertia"] = link.inertial.inertia
        for shape in link.shapes:
            facts[f"{name} {unname(shape.name)}"] = shape.pose.matrix
    return facts


def _same(one: dict[str, Array], other: dict[str, Array]) -> None:
    assert one.keys() == other.keys()
    for name, value in one.items():
        np.testing.assert_allclose(other[name], value, atol=1e-9 * max(1.0, np.abs(value).max()), err_msg=name)


@settings(max_examples=40)
@given(roots=_models(), seed=st.integers(0, 1000))
def test_unit_of_angles(folder: Path, roots: list[Part], seed: int) -> None:
    """Degrees or radians."""
    degrees = _read(folder, roots, Style(degrees=True))
    radians = _read(folder, roots, Style(degrees=False))
    _same(_facts(degrees, seed), _facts(radians, seed))
    for one, other in zip(degrees.joints, radians.joints, strict=True):
        assert [a.reference for a in one.axes] == pytest.approx([a.reference for a in other.axes], abs=1e-12)


@settings(max_examples=40)
@given(roots=_models(), seed=st.integers(0, 1000))
def test_order_of_siblings(folder: Path, roots: list[Part], seed: int) -> None:
    """Bodies and geoms backwards; joints of one body keep their order, which has a meaning."""
    forwards = _read(folder, roots, Style())
    backwards = _read(folder, roots, Style(order=lambda items: items[::-1]))
    _same(_facts(forwards, seed), _facts(backwards, seed))


@settings(max_examples=40)
@given(roots=_models(), seed=st.integers(0, 1000), prefix=st.sampled_from(["x", "a b/", "é🤖", "world_"]))
def test_names(folder: Path, roots: list[Part], seed: int, prefix: str) -> None:
    """Other names, the same robot."""
    plain = _read(folder, roots, Style())
    renamed = _read(folder, roots, Style(rename=lambda name: prefix + name))
    _same(_facts(plain, seed), _facts(renamed, seed, lambda name: name.removeprefix(prefix)))


@settings(max_examples=40)
@given(roots=_models(), seed=st.integers(0, 1000), position=_triple, angles=_triple)
def test_moved_by_a_frame(
    folder: Path, roots: list[Part], seed: int, position: tuple[float, ...], angles: tuple[float, ...]
) -> None:
    """A frame around everything moves everything, and nothing within a link."""
    still = _facts(_read(folder, roots, Style()), seed)
    euler = " ".join(repr(math.degrees(a)) for a in angles)
    around = f'<frame pos="{_text(position)}" euler="{euler}">{{}}</frame>'
    moved = _facts(_read(folder, roots, Style(around=around)), seed)
    x, y, z = angles
    turn = (
        Pose.from_rpy((0, 0, 0), (x, 0, 0)) @ Pose.from_rpy((0, 0, 0), (0, y, 0)) @ Pose.from_rpy((0, 0, 0), (0, 0, z))
    )
    placed = Pose.translation(position) @ turn
    for name, value in still.items():
        if " " not in name:
            value[:16] = (placed.matrix @ value[:16].reshape(4, 4)).ravel()
    _same(still, moved)
