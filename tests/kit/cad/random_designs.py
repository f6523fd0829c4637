"""Random designs: arbitrary frames, all joint types, rigid groups, nesting and repetition."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st

from .fake_fusion import ComponentData, FakeDesign, box_body
from .fake_joints import DIRECTIONS, make_joint, unit
from .fake_math import Matrix, shift, turn

number = st.floats(-1.0, 1.0, allow_subnormal=False)
direction = st.tuples(number, number, number).filter(lambda v: np.linalg.norm(v) > 0.1).map(unit)
types = st.sampled_from([t for t in DIRECTIONS if t != "inferred"])


@st.composite
def frames(draw: st.DrawFn, reach: float = 30.0) -> Matrix:
    """A pose anywhere; quarter turns, where rpy angles lock, come up often."""
    angle = draw(st.one_of(st.sampled_from([0.0, np.pi / 2, np.pi, -np.pi / 2]), st.floats(-3.1, 3.1)))
    axis = draw(st.one_of(st.sampled_from([unit(v) for v in np.eye(3)]), direction))
    return shift(reach * np.array(draw(st.tuples(number, number, number)))) @ turn(axis, angle)


@st.composite
def parts(draw: st.DrawFn, design: FakeDesign, name: str) -> ComponentData:
    size = draw(st.tuples(*[st.floats(0.5, 6.0)] * 3))
    return design.component(name, box_body(f"{name} body", size, draw(frames(3.0)), density=0.0027))


@st.composite
def joint_settings(draw: st.DrawFn, type: str) -> dict[str, Any]:
    values = {m: draw(st.floats(-8, 8) if "slide" in m else st.floats(-3, 3)) for m in DIRECTIONS[type]}
    limits = {}
    for motion, value in values.items():
        if draw(st.booleans()):
            limits[motion] = (value - draw(st.floats(0.5, 2)), None if draw(st.booleans()) else value + 1.0)
    directions = {}
    if type in ("revolute", "slider", "cylindrical", "pin_slot") and draw(st.booleans()):
        directions[draw(st.sampled_from(list(DIRECTIONS[type])))] = draw(direction)
    return {
        "values": values,
        "directions": directions,
        "limits": limits,
        "kind": draw(st.sampled_from(["joint", "as_built"])),
        "flipped": draw(st.booleans()),
        "angle": draw(st.floats(-3, 3)),
        "offset": 0.0 if type == "ball" else draw(st.floats(-3, 3)),
        "origins": draw(st.sampled_from(["", "1", "2", "12"])),
    }


@st.composite
def designs(draw: st.DrawFn) -> FakeDesign:
    """A tree of up to five parts, any of which may be in a sub-assembly that stands there twice."""
    quirks = draw(st.sets(st.sampled_from(["old_api", "native_paths", "proxies_not_lifted", "root_raises"])))
    design = FakeDesign("random", *quirks)
    shared = [draw(parts(design, f"part{i}")) for i in range(draw(st.integers(1, 3)))]
    _grow(draw, design.root, shared, draw(st.integers(1, 3)), is_root=True)
    if draw(st.booleans()):
        inner = design.component("inner", *shared[0].bodies) if draw(st.booleans()) else design.component("inner")
        _grow(draw, inner, shared, draw(st.integers(1, 2)), is_root=False)
        ends = [(o.name,) for o in design.root.occurrences]
        for i in range(draw(st.integers(1, 2))):
            here = design.root.add(inner, draw(frames()))
            type = draw(types)
            settings = draw(joint_settings(type))
            make_joint(
                design.root, f"to inner {i}", type, here, draw(st.sampled_from(ends)), draw(frames()), **settings
            )
    return design


def _grow(draw: st.DrawFn, component: ComponentData, shared: list[ComponentData], count: int, is_root: bool) -> None:
    """Parts joined one to the other; the first is held by the ground, or rides on the sub-assembly.

    Sometimes one more part is in a rigid group with one of them.
    """
    ends: list[tuple[str, ...]] = []
    for i in range(count):
        part = draw(st.sampled_from(shared))
        path = component.add(part, draw(frames()))
        if not ends:
            held = component.find(path)
            held.grounded, held.rides = is_root, not is_root
        else:
            type = draw(types)
            settings = draw(joint_settings(type))
            pair = (path, draw(st.sampled_from(ends)))
            # the first part is held, so that the ends of its joint may not be swapped
            make_joint(component, f"{component.name} j{i}", type, *pair, draw(frames()), **settings)
        ends.append(path)
    if draw(st.booleans()):
        loose = component.add(draw(st.sampled_from(shared)), draw(frames()))
        component.group(f"{component.name} group", draw(st.sampled_from(ends)), loose)
