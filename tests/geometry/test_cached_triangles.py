"""Triangles of mesh files from the cache."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from kinema.core import CACHE_ENV_VARIABLE, cache
from kinema.description import Mesh, mesh_data, mesh_digest
from kinema.geometry import MeshError, load_mesh, load_mesh_from_bytes, parse_mesh

OBJ = b"mtllib other.mtl\nv 0 0 0\nv 1 0 0\nv 0 1 0\nv 0 0 1\ng a\nf 1 2 3\ng b\nf 1 2 4\n"


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(CACHE_ENV_VARIABLE, str(tmp_path / "cache"))
    cache._memory_cache.clear()


def test_cached_triangles_are_those_of_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Parsed once; read from disk by another process, here by one that cannot parse."""
    file = tmp_path / "x.obj"
    file.write_bytes(OBJ)
    parsed = parse_mesh(OBJ, ".obj").mesh
    load_mesh(file)
    cache._memory_cache.clear()
    monkeypatch.setattr("kinema.geometry.mesh_loading.parse_mesh", None)
    again = load_mesh(file)
    np.testing.assert_array_equal(again.vertices, parsed.vertices)
    np.testing.assert_array_equal(again.faces, parsed.faces)
    assert again.faces.dtype == parsed.faces.dtype


def test_errors_are_not_cached() -> None:
    for _ in range(2):
        with pytest.raises(MeshError, match=r"vertices|vertex"):
            load_mesh_from_bytes(b"f 1 2 3\n", ".obj")


def test_a_digest_tells_meshes_apart(tmp_path: Path) -> None:
    """By the file's bytes, the part, its place and the scale; equal ones of other names are the same."""
    first, second = tmp_path / "x.obj", tmp_path / "y.obj"
    for file in (first, second):
        file.write_bytes(OBJ)
    plain = Mesh(path=str(first))
    others = [
        Mesh(path=str(first), scale=np.array([2.0, 1.0, 1.0])),
        Mesh(path=str(first), submesh="a"),
        Mesh(path=str(first), submesh="a", center_submesh=True),
        Mesh(vertices=np.zeros((3, 3)), faces=np.array([[0, 1, 2]])),
    ]
    assert mesh_digest(Mesh(path=str(second))) == mesh_digest(plain)
    assert len({mesh_digest(mesh) for mesh in [plain, *others]}) == 5
    second.write_bytes(OBJ.replace(b"v 0 0 1", b"v 0 0 2"))
    assert mesh_digest(Mesh(path=str(second))) != mesh_digest(plain)
    assert mesh_digest(Mesh()) is None
    assert mesh_data(Mesh()) is None
    with pytest.raises(MeshError, match="does not exist"):
        mesh_digest(Mesh(path=str(tmp_path / "missing.obj")))
