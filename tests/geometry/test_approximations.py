"""What stands for a mesh in collisions."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from kinema.core import CACHE_ENV_VARIABLE, KinemaError
from kinema.description import Approximation
from kinema.geometry import (
    APPROXIMATIONS,
    ApproximationOptions,
    BoundingSphere,
    DecompositionOptions,
    GeometryError,
    MeshData,
    MeshError,
    OrientedBoundingBox,
    Polytope,
    SignedDistanceField,
    apply_affine,
    approximate_for_collision,
    box,
    collision_approximation as decompose_module,
    convex_decomposition,
    plane,
    signed_volume,
    sphere,
)

from .mesh_writers import random_turn


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(CACHE_ENV_VARIABLE, str(tmp_path))
    return tmp_path


def corner() -> MeshData:
    """A closed solid like the letter L, 0.3 m wide and high, 0.1 m deep and thick."""
    outline = np.array([[0, 0], [3, 0], [3, 1], [1, 1], [1, 3], [0, 3]]) * 0.1
    ring = np.arange(6)
    triangles = np.array([[0, 1, 2], [0, 2, 3], [0, 3, 4], [0, 4, 5]])
    sides = [[a, (a + 1) % 6, (a + 1) % 6 + 6] for a in ring] + [[a, (a + 1) % 6 + 6, a + 6] for a in ring]
    vertices = np.concatenate([np.c_[outline, np.zeros(6)], np.c_[outline, np.full(6, 0.1)]])
    return MeshData(vertices, np.concatenate([triangles[:, ::-1], triangles + 6, sides]))


def test_every_approximation_of_the_description_is_there() -> None:
    assert set(APPROXIMATIONS) == {member.value for member in Approximation}


def test_what_each_gives() -> None:
    mesh = corner()
    assert signed_volume(mesh) == pytest.approx(0.005)
    options = ApproximationOptions(sdf_resolution=6, max_simplified_faces=16, max_hull_vertices=6)
    pieces = {
        how: approximate_for_collision(mesh, how, options).geometries
        for how in APPROXIMATIONS
        if how != "convexDecomposition"
    }
    assert pieces["none"] == (mesh,)
    (hull,) = pieces["convexHull"]
    assert isinstance(hull, Polytope)
    assert len(hull.vertices) == 6
    (ball,) = pieces["boundingSphere"]
    assert isinstance(ball, BoundingSphere)
    assert ball.radius == pytest.approx(np.hypot(np.hypot(0.3, 0.3), 0.1) / 2)
    (cube,) = pieces["boundingCube"]
    assert isinstance(cube, OrientedBoundingBox)
    assert cube.volume == pytest.approx(0.009)
    (fewer,) = pieces["meshSimplification"]
    assert isinstance(fewer, MeshData)
    assert fewer.n_faces <= 16 < mesh.n_faces
    (field,) = pieces["sdf"]
    assert isinstance(field, SignedDistanceField)
    assert field.sample(np.array([[0.2, 0.2, 0.05]]))[0] == pytest.approx(0.1, abs=0.02)


@pytest.mark.parametrize("how", ["convexHull", "convexDecomposition", "boundingCube"])
def test_a_flat_mesh_is_given_a_thickness_and_a_line_is_refused(how: str) -> None:
    found = approximate_for_collision(apply_affine(plane(2, 1), random_turn(1)), how)
    assert "planar" in found.notes[0]
    (piece,) = found.geometries
    assert isinstance(piece, Polytope | OrientedBoundingBox)
    volume = piece.volume if isinstance(piece, OrientedBoundingBox) else signed_volume(piece.to_mesh())
    assert volume == pytest.approx(2 * 1 * 2e-3, rel=1e-6)
    line = MeshData(np.array([[0, 0, 0], [1, 0, 0], [2, 0, 0]]), np.array([[0, 1, 2]]))
    with pytest.raises(MeshError, match="line"):
        approximate_for_collision(line, how)


@settings(max_examples=10)
@given(seed=st.integers(0, 10**6), trouble=st.sampled_from(["soup", "grid", "thin", "line", "tiny", "far"]))
def test_meshes_of_any_kind_give_finite_numbers_or_one_sentence(seed: int, trouble: str) -> None:
    """Triangles between random points, however badly they lie."""
    random = np.random.default_rng(seed)
    points = random.normal(size=(random.integers(1, 12), 3))
    if trouble == "grid":
        points = np.round(points)
    elif trouble in ("thin", "line"):
        points *= [1.0, 1.0 if trouble == "thin" else 0.0, 10.0 ** -random.uniform(3, 17)]
    elif trouble == "tiny":
        points *= 1e-160
    elif trouble == "far":
        points = 1e-9 * points + 1e3
    mesh = MeshData(points, random.integers(0, len(points), (random.integers(1, 30), 3)))
    options = ApproximationOptions(sdf_resolution=2, max_simplified_faces=8)
    for how in APPROXIMATIONS:
        if how == "convexDecomposition":
            continue
        try:
            (piece,) = approximate_for_collision(mesh, how, options).geometries
        except GeometryError:
            continue
        arrays = [value for value in vars(piece).values() if isinstance(value, np.ndarray)]
        assert all(np.isfinite(array).all() for array in arrays)


def test_unknown_names_are_refused() -> None:
    with pytest.raises(GeometryError, match="'convex'"):
        approximate_for_collision(box((1, 1, 1)), "convex")


# -- decomposition ----------------------------------------------------------------------------------------------------


def test_a_corner_has_two_parts(cache: Path) -> None:
    """They fill it, and are found again on disk."""
    pytest.importorskip("coacd")
    progress: list[float] = []
    parts = convex_decomposition(corner(), progress=lambda what, share: progress.append(share))
    assert len(parts) == 2
    assert sum(signed_volume(part) for part in parts) == pytest.approx(0.005, rel=0.01)
    assert progress
    assert all(0 <= share <= 1 for share in progress)
    assert len(list(cache.rglob("geometry/*.entry"))) == 1
    progress.clear()
    again = convex_decomposition(corner(), progress=lambda what, share: progress.append(share))
    assert not progress
    for first, second in zip(parts, again, strict=True):
        np.testing.assert_array_equal(first.vertices, second.vertices)


def test_parts_have_few_vertices_and_their_number_is_kept_to() -> None:
    pytest.importorskip("coacd")
    how = DecompositionOptions(max_parts=1, max_part_vertices=16, threshold=0.5)
    ball = apply_affine(sphere(1.0, 16), 1e-3 * np.eye(3), (100.0, 0.0, 0.0))
    found = approximate_for_collision(ball, "convexDecomposition", ApproximationOptions(decomposition=how))
    (part,) = found.geometries
    assert isinstance(part, Polytope)
    assert 8 < len(part.vertices) <= 16
    np.testing.assert_allclose(part.vertices.mean(axis=0), (100.0, 0.0, 0.0), atol=3e-4)


def test_without_the_library_one_sentence_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "coacd", None)
    with pytest.raises(KinemaError, match="needs the package 'coacd': pip install coacd"):
        convex_decomposition(corner())


def test_a_library_that_crashes_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    worker = tmp_path / "worker.py"
    monkeypatch.setattr(decompose_module, "_COACD_WORKER", worker)
    monkeypatch.setattr(decompose_module, "import_optional", lambda *_, **__: importlib)
    worker.write_text("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)")
    with pytest.raises(MeshError, match="crashed with signal 11"):
        convex_decomposition(corner())
    worker.write_text("print('no luck today'); raise SystemExit(3)")
    with pytest.raises(MeshError, match="no luck today"):
        convex_decomposition(corner())


def test_an_interrupt_ends_the_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It would run for an hour, and the pipe to it stays open as long as it lives."""
    worker = tmp_path / "worker.py"
    monkeypatch.setattr(decompose_module, "_COACD_WORKER", worker)
    monkeypatch.setattr(decompose_module, "import_optional", lambda *_, **__: importlib)
    worker.write_text("import time; print('Processing [50.0%]', flush=True); time.sleep(3600)")
    progress: list[float] = []

    def interrupt(_: str, share: float) -> None:
        progress.append(share)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        convex_decomposition(corner(), progress=interrupt)
    assert progress == [0.5]


@pytest.mark.parametrize("wrong", [{"threshold": 0.0}, {"max_parts": 0}, {"max_part_vertices": 3}])
def test_settings_that_make_no_sense_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(GeometryError):
        DecompositionOptions(**wrong)  # pyright: ignore[reportArgumentType]
