"""Random CAD assemblies, written as SDFormat: other programs put every link where the assembly had it."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from kinema.core import Array
from kit.cad.fake_fusion import FakeDesign
from kit.cad.random_designs import designs
from kit.oracles import OracleMissing, drake
from kit.robots.same import agree
from kit.written.sdf import Written, drake_positions, libsdformat_accepts, model_names

from .stations import Station, at_zero, robot_of, stations

TOLERANCE = 1e-9


def _expected(written: Written, station: Station) -> dict[str, Array]:
    """The design's poses in the world, by the names in the file."""
    return {written.name("link", name): pose.matrix for name, pose in station.poses.items()}


@settings(max_examples=25)
@given(designs())
def test_libsdformat(design: FakeDesign) -> None:
    """The poses that libsdformat resolves are those of the assembly with all joints at zero; it has no complaint."""
    robot = robot_of(design)
    with tempfile.TemporaryDirectory() as folder:
        written = Written.make(robot, Path(folder))
        (model, *_) = libsdformat_accepts(written)["models"]
    assert not written.lowered[0].coordinate_offsets
    base: Any = model["pose_in_world"]
    seen = {link["name"].rpartition("::")[2]: base @ link["pose"] for link in model["links"]}
    agree(seen, _expected(written, at_zero(robot, design)), TOLERANCE)


@settings(max_examples=12)
@given(designs(), st.data())
def test_drake(design: FakeDesign, data: st.DataObject) -> None:
    """At the assembly pose and along each joint, for all joint types, parked anywhere."""
    robot = robot_of(design)
    places = stations(robot, design, data)
    with tempfile.TemporaryDirectory() as folder:
        written = Written.make(robot, Path(folder))
        (model,) = model_names(written)
        requests = []
        for station in places:
            at = drake_positions(written, 0, written.in_file(0, station.configuration))
            requests.append({f"{model}::{name}": q for name, q in at.items()})
        try:
            result = drake(written.file, requests)
        except OracleMissing as missing:
            pytest.skip(str(missing))
    assert "error" not in result, result["error"]
    for seen, station in zip(result["configurations"], places, strict=True):
        expected = {f"{model}::{name}": pose for name, pose in _expected(written, station).items()}
        agree(seen["poses"], expected, TOLERANCE)
