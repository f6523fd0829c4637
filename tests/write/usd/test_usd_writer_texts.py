"""Stages as text: long lists of numbers, which are put into words beside OpenUSD."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from pxr import Sdf, Usd, UsdGeom

import kinema as km
from kinema.core import Pose
from kinema.description import Base, Link, Mesh, Robot, Shape


def robot(*meshes: np.ndarray) -> Robot:
    """A link with a mesh of each list of points, three to a face."""
    shapes = [
        Shape(name=f"s{i}", geometry=Mesh(vertices=points, faces=np.arange(len(points)).reshape(-1, 3)))
        for i, points in enumerate(meshes)
    ]
    for shape in shapes:
        shape.pose = Pose.translation([0.0, 0.0, len(shape.name)])
    return Robot(name="r", links=[Link(name="a", shapes=shapes)], base=Base.FREE)


def points(n: int, seed: int = 0) -> np.ndarray:
    """Random points in single precision, in powers of ten from 1e-12 to 1e6."""
    rng = np.random.default_rng(seed)
    return (rng.uniform(-1, 1, (n, 3)) * 10.0 ** rng.integers(-12, 7, (n, 3))).astype(np.float32).astype(np.float64)


@pytest.mark.parametrize(
    "meshes",
    [
        (points(300), points(300, 1), points(300), points(300)),
        (np.tile(points(3), (200, 1)), np.full((300, 3), 0.1, dtype=np.float32).astype(np.float64)),
        (np.vstack([[[-8388593.0, 1.0, 0.0]], points(299)]), points(300)),
        (np.vstack([[[-8388593.0, 7e6, 0.0]], points(299)]), points(300)),
    ],
    ids=["repeated", "one point", "a stand-in of ours", "a stand-in of nothing"],
)
def test_the_text_is_openusds(meshes: tuple[np.ndarray, ...], tmp_path: Path) -> None:
    """Word by word what OpenUSD would write; nothing but the text is left behind."""
    km.write(robot(*meshes), tmp_path / "r.usda")
    assert [file.name for file in tmp_path.iterdir()] == ["r.usda"]
    layer = Sdf.Layer.OpenAsAnonymous(str(tmp_path / "r.usda"))
    assert layer.ExportToString() == (tmp_path / "r.usda").read_text(encoding="utf-8")
    stage = Usd.Stage.Open(layer)
    for number, given in enumerate(meshes):
        found = UsdGeom.Mesh(stage.GetPrimAtPath(f"/r/a/s{number}"))
        assert np.array_equal(np.array(found.GetPointsAttr().Get(), dtype=np.float64), given)
        assert len(found.GetFaceVertexIndicesAttr().Get()) == len(given)
