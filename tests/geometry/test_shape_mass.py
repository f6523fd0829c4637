"""Mass properties: closed forms, integrals over meshes, and the laws between them."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import trimesh
from hypothesis import given, settings, strategies as st

from kinema.geometry import (
    GeometryError,
    MassProperties,
    MeshData,
    MeshError,
    apply_affine,
    apply_affine_to_mass_properties,
    box,
    box_mass_properties,
    capsule,
    capsule_mass_properties,
    combine_mass_properties,
    cone,
    cone_mass_properties,
    convex_hull,
    cylinder,
    cylinder_mass_properties,
    ellipsoid,
    ellipsoid_mass_properties,
    height_field,
    merge_meshes,
    mesh_mass_properties,
    plane,
    shell_mesh_mass_properties,
    signed_volume,
    sphere,
    sphere_mass_properties,
    transform_mass_properties,
    unsigned_mesh_mass_properties,
)

from .mesh_writers import random_turn

EXAMPLES = 30

mujoco: Any = importlib.import_module("mujoco")  # its types are in a compiled module that checkers cannot read

DENSITY = 730.0
ROUND: dict[str, tuple[Callable[[int], MeshData], MassProperties]] = {
    "sphere": (lambda n: sphere(0.7, n), sphere_mass_properties(0.7, DENSITY)),
    "ellipsoid": (lambda n: ellipsoid((0.3, 0.5, 1.1), n), ellipsoid_mass_properties((0.3, 0.5, 1.1), DENSITY)),
    "capsule": (lambda n: capsule(0.2, 0.9, n), capsule_mass_properties(0.2, 0.9, DENSITY)),
    "cylinder": (lambda n: cylinder(0.4, 1.3, n), cylinder_mass_properties(0.4, 1.3, DENSITY)),
    "cone": (lambda n: cone(0.5, 1.2, n), cone_mass_properties(0.5, 1.2, DENSITY)),
}

seeds = st.integers(0, 10**6)


def random_solid(seed: int) -> MeshData:
    """A closed, unsymmetric, generally concave solid: a bumpy height field, turned and moved."""
    random = np.random.default_rng(seed)
    mesh = height_field(random.uniform(0.2, 1.0, (4, 5)), 1.0, 1.5, 0.3)
    return apply_affine(mesh, random_turn(seed), random.normal(size=3))


def assert_same(actual: MassProperties, expected: MassProperties, *, rtol: float = 1e-10) -> None:
    scale = np.abs(expected.inertia).max()
    length = np.sqrt(scale / abs(expected.mass))
    np.testing.assert_allclose(actual.mass, expected.mass, rtol=rtol)
    np.testing.assert_allclose(actual.center, expected.center, rtol=rtol, atol=rtol * length)
    np.testing.assert_allclose(actual.inertia, expected.inertia, rtol=rtol, atol=rtol * scale)


# Closed forms ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", ROUND)
def test_meshes_converge_to_the_closed_form_with_second_order(shape: str) -> None:
    make, exact = ROUND[shape]
    errors = []
    for segments in (32, 64, 128):
        measured = mesh_mass_properties(make(segments), DENSITY)
        inertia_error = np.abs(measured.inertia - exact.inertia).max() / exact.inertia.max()
        errors.append([abs(measured.mass / exact.mass - 1), inertia_error])
        np.testing.assert_allclose(measured.center, exact.center, atol=1e-13)
    ratios = np.array(errors)[:-1] / np.array(errors)[1:]
    np.testing.assert_allclose(ratios, 4.0, rtol=0.02)
    assert np.max(errors[-1]) < 3e-3


def test_box_mesh_is_exact() -> None:
    assert_same(
        mesh_mass_properties(box((0.2, 0.3, 0.7)), DENSITY), box_mass_properties((0.2, 0.3, 0.7), DENSITY), rtol=1e-13
    )


def test_a_capsule_without_length_is_a_sphere() -> None:
    assert_same(capsule_mass_properties(0.3, 0.0, DENSITY), sphere_mass_properties(0.3, DENSITY), rtol=1e-14)


def test_a_shape_of_no_size_has_no_mass_and_a_negative_one_is_refused() -> None:
    assert box_mass_properties((1, 1, 0), DENSITY).mass == 0
    for make in (
        lambda: box_mass_properties((1, 1, -1), 1),
        lambda: cone_mass_properties(-1, 1, 1),
        lambda: capsule_mass_properties(1, np.nan, 1),
    ):
        with pytest.raises(GeometryError):
            make()


@pytest.mark.parametrize(
    ("geom", "exact"),
    [
        ('type="box" size="0.1 0.2 0.3"', box_mass_properties((0.2, 0.4, 0.6), 1000.0)),
        ('type="sphere" size="0.1"', sphere_mass_properties(0.1, 1000.0)),
        ('type="ellipsoid" size="0.1 0.2 0.3"', ellipsoid_mass_properties((0.1, 0.2, 0.3), 1000.0)),
        ('type="capsule" size="0.1 0.2"', capsule_mass_properties(0.1, 0.4, 1000.0)),
        ('type="cylinder" size="0.1 0.2"', cylinder_mass_properties(0.1, 0.4, 1000.0)),
    ],
)
def test_closed_forms_agree_with_mujoco(geom: str, exact: MassProperties) -> None:
    xml = f"<mujoco><worldbody><body><freejoint/><geom {geom}/></body></worldbody></mujoco>"
    assert_same(mujoco_properties(mujoco.MjModel.from_xml_string(xml)), exact, rtol=1e-12)


# Meshes against others ------------------------------------------------------------------------------------------------


def mujoco_properties(model: Any) -> MassProperties:
    """Of the first body."""
    turn = np.zeros(9)
    mujoco.mju_quat2Mat(turn, model.body_iquat[1])
    turn = turn.reshape(3, 3)
    return MassProperties(
        float(model.body_mass[1]), model.body_ipos[1].copy(), turn @ np.diag(model.body_inertia[1]) @ turn.T
    )


def mujoco_mesh(mesh: MeshData, mode: str) -> MassProperties:
    spec = mujoco.MjSpec()
    # The single-precision vertices are the mesh; the caller rounds them.
    asset = spec.add_mesh(name="m", uservert=mesh.vertices.reshape(-1), userface=mesh.faces.reshape(-1))
    asset.inertia = getattr(mujoco.mjtMeshInertia, f"mjMESH_INERTIA_{mode.upper()}")
    body = spec.worldbody.add_body()
    body.add_freejoint()
    body.add_geom(type=mujoco.mjtGeom.mjGEOM_MESH, meshname="m", density=DENSITY)
    return mujoco_properties(spec.compile())


def single_precision(mesh: MeshData) -> MeshData:
    return MeshData(mesh.vertices.astype(np.float32).astype(np.float64), mesh.faces)


@pytest.mark.parametrize("seed", range(4))
def test_meshes_agree_with_mujoco(seed: int) -> None:
    mesh = single_precision(random_solid(seed))
    assert_same(mesh_mass_properties(mesh, DENSITY), mujoco_mesh(mesh, "exact"), rtol=1e-6)
    assert_same(unsigned_mesh_mass_properties(mesh, DENSITY), mujoco_mesh(mesh, "legacy"), rtol=1e-6)
    assert_same(shell_mesh_mass_properties(mesh, DENSITY), mujoco_mesh(mesh, "shell"), rtol=1e-6)
    assert_same(mesh_mass_properties(convex_hull(mesh), DENSITY), mujoco_mesh(mesh, "convex"), rtol=1e-6)


def test_open_meshes_agree_with_mujoco() -> None:
    closed = single_precision(random_solid(1))
    mesh = MeshData(closed.vertices, closed.faces[5:])
    assert_same(mesh_mass_properties(mesh, DENSITY), mujoco_mesh(mesh, "exact"), rtol=1e-6)
    assert_same(unsigned_mesh_mass_properties(mesh, DENSITY), mujoco_mesh(mesh, "legacy"), rtol=1e-6)


@settings(max_examples=EXAMPLES)
@given(seed=seeds)
def test_meshes_agree_with_trimesh(seed: int) -> None:
    mesh = random_solid(seed)
    other = trimesh.Trimesh(mesh.vertices, mesh.faces, process=False)
    other.density = DENSITY
    expected = MassProperties(float(other.mass), np.asarray(other.center_mass), np.asarray(other.moment_inertia))
    assert_same(mesh_mass_properties(mesh, DENSITY), expected)


# Laws -----------------------------------------------------------------------------------------------------------------


@settings(max_examples=EXAMPLES)
@given(seed=seeds)
def test_moving_the_mesh_moves_its_properties(seed: int) -> None:
    mesh = random_solid(seed)
    turn = random_turn(seed)
    shift = np.random.default_rng(seed).normal(size=3)
    moved = mesh_mass_properties(apply_affine(mesh, turn, shift), DENSITY)
    assert_same(moved, transform_mass_properties(mesh_mass_properties(mesh, DENSITY), turn, shift))


@settings(max_examples=EXAMPLES)
@given(seed=seeds, scale=st.floats(1e-4, 1e4))
def test_scaling_the_mesh_scales_mass_and_inertia(seed: int, scale: float) -> None:
    mesh = random_solid(seed)
    small, large = mesh_mass_properties(mesh, 1.0), mesh_mass_properties(apply_affine(mesh, scale * np.eye(3)), 1.0)
    expected = MassProperties(small.mass * scale**3, small.center * scale, small.inertia * scale**5)
    assert_same(large, expected)


@settings(max_examples=EXAMPLES)
@given(seed=seeds)
def test_a_linear_map_of_the_mesh_is_one_of_its_properties(seed: int) -> None:
    """Shear and mirrors included."""
    mesh = random_solid(seed)
    random = np.random.default_rng(seed)
    matrix, shift = random.normal(size=(3, 3)), random.normal(size=3)
    mapped = mesh_mass_properties(apply_affine(mesh, matrix, shift), DENSITY)
    assert_same(mapped, apply_affine_to_mass_properties(mesh_mass_properties(mesh, DENSITY), matrix, shift), rtol=1e-8)


def test_a_squeezed_sphere_is_an_ellipsoid() -> None:
    radii = np.array([0.3, 0.5, 1.1])
    assert_same(
        apply_affine_to_mass_properties(sphere_mass_properties(1.0, DENSITY), np.diag(radii)),
        ellipsoid_mass_properties(radii, DENSITY),
        rtol=1e-14,
    )


def test_a_linear_map_can_keep_the_mass() -> None:
    before = box_mass_properties((1, 1, 1), DENSITY)
    after = apply_affine_to_mass_properties(before, np.diag([2.0, 1, 1]), keep_mass=True)
    assert_same(after, box_mass_properties((2, 1, 1), DENSITY / 2), rtol=1e-14)


@settings(max_examples=EXAMPLES)
@given(seed=seeds)
def test_parts_combine_to_the_whole(seed: int) -> None:
    first, second = random_solid(seed), random_solid(seed + 1)
    parts = [mesh_mass_properties(first, DENSITY), mesh_mass_properties(second, DENSITY)]
    assert_same(combine_mass_properties(parts), mesh_mass_properties(merge_meshes([first, second]), DENSITY))


def test_a_hole_is_a_part_of_negative_mass() -> None:
    """A cube with a cubic cavity, once as a mesh with an inner surface and once by subtraction."""
    inner = apply_affine(box((0.5, 0.5, 0.5)), np.eye(3), (0.1, 0.0, 0.0))
    hollow = merge_meshes([box((2, 2, 2)), MeshData(inner.vertices, inner.faces[:, ::-1])])
    hole = transform_mass_properties(box_mass_properties((0.5, 0.5, 0.5), -DENSITY), np.eye(3), (0.1, 0, 0))
    assert_same(
        mesh_mass_properties(hollow, DENSITY), combine_mass_properties([box_mass_properties((2, 2, 2), DENSITY), hole])
    )


def test_nothing_combines_to_nothing() -> None:
    nothing = combine_mass_properties([])
    assert nothing.mass == 0
    assert not nothing.inertia.any()


def test_a_small_mesh_far_away_keeps_its_precision() -> None:
    """Moments about the world origin would lose all digits: (1e5 / 1e-2)^2 = 1e14. Powers of two move exactly."""
    far = np.array([2.0**17, -(2.0**16), 2.0**17])
    mesh = box((2.0**-6, 2.0**-7, 2.0**-8))
    near_properties = mesh_mass_properties(mesh, DENSITY)
    far_properties = mesh_mass_properties(MeshData(mesh.vertices + far, mesh.faces), DENSITY)
    np.testing.assert_allclose(far_properties.mass, near_properties.mass, rtol=1e-12)
    np.testing.assert_allclose(far_properties.inertia, near_properties.inertia, rtol=1e-6, atol=1e-9)
    np.testing.assert_array_equal(far_properties.center, far)


def test_an_inside_out_mesh_has_negative_mass_at_the_same_centre() -> None:
    mesh = random_solid(3)
    outward = mesh_mass_properties(mesh, DENSITY)
    inward = mesh_mass_properties(MeshData(mesh.vertices, mesh.faces[:, ::-1]), DENSITY)
    assert_same(inward, MassProperties(-outward.mass, outward.center, -outward.inertia))
    assert signed_volume(mesh) > 0


@settings(max_examples=EXAMPLES)
@given(seed=seeds)
def test_flat_meshes_have_no_volume(seed: int) -> None:
    turn = random_turn(seed)
    sheet = apply_affine(plane(1.0, 2.0), turn, np.random.default_rng(seed).normal(size=3))
    two_sided = merge_meshes([sheet, MeshData(sheet.vertices, sheet.faces[:, ::-1])])
    for mesh in (sheet, two_sided):
        with pytest.raises(MeshError, match="no volume"):
            mesh_mass_properties(mesh, DENSITY)
        with pytest.raises(MeshError, match="no volume"):
            unsigned_mesh_mass_properties(mesh, DENSITY)


def test_a_thin_shell_ball_has_two_thirds_m_r_squared() -> None:
    shell = shell_mesh_mass_properties(sphere(0.5, 256), 3.0)
    np.testing.assert_allclose(shell.mass, 3.0 * 4 * np.pi * 0.25, rtol=1e-3)
    np.testing.assert_allclose(shell.inertia, np.eye(3) * 2 / 3 * shell.mass * 0.25, rtol=1e-3, atol=1e-12)
