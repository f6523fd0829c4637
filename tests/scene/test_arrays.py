"""The arrays of `scene.sim.rigid_solver`, beside MuJoCo, descriptions and geometry; all are declared and documented."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import mujoco
import numpy as np
import pytest

import kinema as km
from kinema import geometry
from kinema.core import quaternion_to_matrix
from kinema.scene.geom_arrays import GeomType
from kinema.scene.rigid_solver import array_tables, declared_arrays
from kit.assets import ROOT
from kit.constraint_parity import matching_rows
from kit.mujoco_models import full_mass_matrix, quiet

CONTRACT = {
    "links_state": "pos quat i_pos cinr_inertial cinr_mass cinr_pos cinr_quat cdd_vel cdd_ang j_pos j_quat j_vel j_ang "
    "cacc_ang cacc_lin cfrc_ang cfrc_vel cfrc_applied_ang cfrc_applied_vel cfrc_coupling_ang cfrc_coupling_vel "
    "contact_force hibernated mass_shift root_COM",
    "dofs_state": "pos vel vel_prev vel_next acc force qf_bias qf_passive qf_actuator qf_applied qf_constraint "
    "ctrl_force ctrl_pos ctrl_vel ctrl_mode cdof_ang cdof_vel cdofvel_ang cdofvel_vel cdofd_ang cdofd_vel",
    "links_info": "parent_idx q_start q_end dof_start dof_end inertial_pos inertial_quat inertial_mass is_fixed "
    "entity_idx geom_start geom_end",
    "geoms_info": "type data pos center quat friction sol_params vert_start vert_end face_start face_end edge_start "
    "edge_end verts_state_start verts_state_end is_convex contype conaffinity needs_coup coup_friction coup_softness "
    "coup_restitution",
    "geoms_state": "pos quat aabb_min aabb_max verts_updated hibernated",
    "verts_info": "init_pos init_normal geom_idx",
    "verts_state": "pos",
    "faces_info": "verts_idx normal geom_idx",
    "edges_info": "v0 v1 length",
    "sdf_info": "T_mesh_to_sdf sdf_res sdf_cell_size sdf_max sdf_cell_start geoms_sdf_val geoms_sdf_grad "
    "geoms_sdf_closest_vert",
    "support_info": "support_cell_start support_v support_vid support_res",
    "contacts": "geom_a geom_b link_a link_b normal pos penetration friction sol_params force n_contacts",
    "broad_phase": "broad_collision_pairs n_broad_pairs sort_buffer_min sort_buffer_max sort_buffer_idx",
    "constraints": "jac mass_mat mass_mat_L mass_mat_D_inv mass_mat_mask efc_force efc_D efc_b efc_AR qacc "
    "qfrc_constraint Ma Mgrad cost gauss quad",
    "vgeoms_info": "pos quat link_idx vvert_start vvert_end vface_start vface_end color",
    "vgeoms_state": "pos quat",
    "vverts_info": "init_pos init_normal uv vgeom_idx",
    "vfaces_info": "vverts_idx vgeom_idx",
    "": "qpos0 links_T n_awake_dofs n_awake_entities n_awake_links awake_dofs awake_entities awake_links gravity "
    "substep_dt iterations tolerance noslip_iterations noslip_tolerance",
}
"""The 170 names of the array contract."""
N_ENVS = 2
HAS_TORCH = find_spec("torch") is not None
WEDGE = np.array([[-0.125, -0.0625, 0.0], [0.125, -0.0625, 0.0], [0.0, 0.125, 0.0], [0.0, 0.0, 0.25]])
"""Vertices of a mesh that stay exact in single precision relative to its centre of mass and principal axes, as MuJoCo
stores them."""
ROBOT = """<mujoco><option cone="{cone}"/>
<asset><mesh name="wedge" vertex="{wedge}"/></asset>
<worldbody><geom name="floor" type="plane" size="2 2 .1" friction=".8 .01 .001"/>
<body name="base" pos="0 0 .099"><freejoint/>
 <geom name="box" type="box" size=".2 .15 .1" mass="2" rgba="1 0 0 .5"/>
 <body name="arm" pos=".2 0 .1">
  <joint name="elbow" axis="0 1 0" range="-20 20" damping=".3" stiffness="2" frictionloss=".05"/>
  <geom name="rod" type="capsule" size=".03" fromto="0 0 0 .3 0 0" mass=".4" condim="4"/>
  <geom name="paint" type="sphere" size=".05" pos=".3 0 0" contype="0" conaffinity="0" mass=".01"/></body></body>
<body name="wedge" pos="0 .6 -.0005"><freejoint/>
 <geom name="wedge" type="mesh" mesh="wedge" condim="1" solref=".03 1.2" density="500"/></body>
<body name="ball" pos=".7 0 .049"><freejoint/>
 <geom name="ball" size=".05" condim="6" mass=".3" friction=".6 .02 .003"/></body>
</worldbody><actuator><position joint="elbow" kp="5"/></actuator></mujoco>"""
EXACT: dict[str, Any] = {"quiet": True, "precision": "double", "tolerance": 1e-14, "iterations": 200}


def ring() -> tuple[np.ndarray, np.ndarray]:
    """A ring of square cross-section, which is not convex."""
    corners = ((0.06, 0.0), (0.1, 0.0), (0.1, 0.04), (0.06, 0.04))
    angles = np.linspace(0.0, 2.0 * np.pi, 12, endpoint=False)
    vertices = [[r * np.cos(a), r * np.sin(a), z] for a in angles for r, z in corners]
    faces = []
    for i in range(12):
        for k in range(4):
            a, b, c, d = 4 * i + k, 4 * ((i + 1) % 12) + k, 4 * i + (k + 1) % 4, 4 * ((i + 1) % 12) + (k + 1) % 4
            faces += [[a, b, c], [c, b, d]]
    return np.array(vertices), np.array(faces)


def beside_mujoco(
    folder: Path, text: str, *, with_ring: bool = True, per_env: tuple[str, ...] = (), **options: Any
) -> SimpleNamespace:
    """A scene of a file, with a fixed ring far away, and MuJoCo's states at equal coordinates, speeds and controls."""
    file = folder / "robot.xml"
    file.write_text(text, encoding="utf-8")
    scene = km.Scene(**{**EXACT, **options})
    robot = scene.add(file)
    if with_ring:
        vertices, faces = ring()
        scene.add(
            km.Mesh(vertices=vertices, faces=faces, approximation="sdf", resolution=10), fixed=True, pos=(5, 0, 5)
        )
    scene.build(n_envs=N_ENVS, per_env=per_env)
    model = mujoco.MjModel.from_xml_path(str(file))
    model.opt.tolerance, model.opt.iterations, model.opt.ls_iterations = 1e-14, 500, 200
    states, generator = [], np.random.default_rng(0)
    for env in range(N_ENVS):
        data = mujoco.MjData(model)
        for joint in np.flatnonzero(model.jnt_type == mujoco.mjtJoint.mjJNT_HINGE):
            data.qpos[model.jnt_qposadr[joint]] = 0.5 * (env + 0.1)
        data.qvel[:] = 0.3 * generator.normal(size=model.nv)
        data.ctrl[:] = 0.4
        with quiet():
            mujoco.mj_forward(model, data)
            mujoco.mj_rnePostConstraint(model, data)
        states.append(data)
    robot.set_qpos(np.array([data.qpos for data in states]))
    robot.set_qvel(np.array([data.qvel for data in states]))
    if model.nu:
        robot.control(np.array([data.ctrl for data in states]))
    bodies = [model.body(link.name).id for link in robot.links]
    return SimpleNamespace(
        scene=scene, robot=robot, solver=scene.sim.rigid_solver, model=model, states=states, bodies=bodies
    )


@pytest.fixture(scope="module")
def side(tmp_path_factory: pytest.TempPathFactory) -> SimpleNamespace:
    wedge = " ".join(map(str, WEDGE.ravel().tolist()))
    return beside_mujoco(tmp_path_factory.mktemp("arrays"), ROBOT.format(cone="pyramidal", wedge=wedge))


def stacked(side: SimpleNamespace, read: Any) -> np.ndarray:
    """MuJoCo's values of all environments, which are the second axis."""
    return np.stack([np.array(read(data)) for data in side.states], axis=1)


def sizes(solver: Any) -> dict[str, int]:
    """Lengths of all axes that declarations name."""
    model, geoms = solver._built.model, solver.geoms_info
    contacts = solver.contacts.active
    return {
        "n_envs": solver.n_envs,
        "n_links": model.n_links,
        "n_dofs": model.n_dofs,
        "n_qs": model.n_qs,
        "n_entities": len(model.entities),
        "n_equalities": len(model.equalities.names),
        "n_couplings": len(model.couplings.names),
        "n_sensor_values": model.sensors.n_values,
        "n_geoms": len(geoms.type),
        "n_verts": int(geoms.vert_end.max(initial=0)),
        "n_faces": int(geoms.face_end.max(initial=0)),
        "n_edges": int(geoms.edge_end.max(initial=0)),
        "n_free_verts": int(geoms.verts_state_end.max(initial=0)),
        "n_cells": int(solver.sdf_info.sdf_res.prod(axis=1).sum()),
        "n_support_cells": 180**2 * int((geoms.is_convex & (geoms.type != GeomType.PLANE)).sum()),
        "n_pairs": len({*zip(model.pairs.geom_a.tolist(), model.pairs.geom_b.tolist(), strict=True)}),
        "max_contacts": len(contacts),
        "n_constraints": len(solver.constraints.efc_D.numpy()),
        "n_vgeoms": len(solver.vgeoms_info.link_idx),
        "n_vverts": int(solver.vgeoms_info.vvert_end.max(initial=0)),
        "n_vfaces": int(solver.vgeoms_info.vface_end.max(initial=0)),
    }


def check_all_arrays(solver: Any, *, tensors: bool) -> None:
    """Every declared array has the declared shape and type, finite values, and `to_torch`."""
    for group in declared_arrays():
        check_arrays(solver, group, tensors=tensors)


def check_arrays(solver: Any, group: str, *, tensors: bool) -> None:
    """Likewise for the arrays of one group."""
    lengths, precision = sizes(solver), solver._built.arrays.dtype
    for declaration, _ in declared_arrays()[group]:
        name = f"{group}.{declaration.name}"
        array = getattr(getattr(solver, group) if group else solver, declaration.name)
        values = array.numpy()
        assert values.shape == tuple(lengths[x] if isinstance(x, str) else x for x in declaration.shape), name
        assert values.dtype == (precision if declaration.dtype == "float" else declaration.dtype), name
        assert tuple(array.shape) == values.shape, name
        assert np.isfinite(values).all() or "aabb" in name or "sort_buffer" in name, name
        if tensors:
            assert array.to_torch().shape == values.shape, name
            np.testing.assert_array_equal(array.to_torch().cpu().numpy(), values, name)


def test_every_array_of_the_contract_is_declared() -> None:
    declared = {(group, x.name) for group, arrays in declared_arrays().items() for x, _ in arrays}
    contract = {(group, name) for group, names in CONTRACT.items() for name in names.split()}
    assert len(contract) == 170
    assert contract <= declared


@pytest.mark.parametrize(
    "group",
    [
        pytest.param(group, marks=() if group else pytest.mark.slow("compiles the programs of most groups of fields"))
        for group in declared_arrays()
    ],
    ids=lambda group: group or "solver",
)
def test_every_array_has_its_declared_shape_and_type(side: SimpleNamespace, group: str) -> None:
    """All can be tensors."""
    check_arrays(side.solver, group, tensors=HAS_TORCH)


def test_documentation_lists_the_declarations() -> None:
    """`python tools/arrays.py` writes the tables."""
    page = (ROOT / "docs" / "arrays.md").read_text(encoding="utf-8")
    assert "\n".join(array_tables()) in page


def test_links(side: SimpleNamespace) -> None:
    state, bodies, n = side.solver.links_state, side.bodies, len(side.bodies)
    roots = side.model.body_rootid[bodies]
    for name, expected in {
        "pos": lambda d: d.xpos[bodies],
        "quat": lambda d: d.xquat[bodies],
        "i_pos": lambda d: d.xipos[bodies],
        "root_COM": lambda d: d.subtree_com[roots],
        "cdd_ang": lambda d: d.cvel[bodies, :3],
        "cdd_vel": lambda d: d.cvel[bodies, 3:],
        "cacc_ang": lambda d: d.cacc[bodies, :3],
        "cacc_lin": lambda d: d.cacc[bodies, 3:],
        "cfrc_ang": lambda d: d.cfrc_int[bodies, :3],
        "cfrc_vel": lambda d: d.cfrc_int[bodies, 3:],
        "contact_force": lambda d: d.cfrc_ext[bodies, 3:],
        "cinr_mass": lambda d: side.model.body_mass[bodies],
    }.items():
        values = getattr(state, name).numpy()[:n]
        np.testing.assert_allclose(values, stacked(side, expected), atol=2e-5, err_msg=name)
    inertia = state.cinr_inertial.numpy()[:n][..., [0, 1, 2, 0, 0, 1], [0, 1, 2, 1, 2, 2]]
    np.testing.assert_allclose(inertia, stacked(side, lambda d: d.cinert[bodies, :6]), atol=1e-10)
    moment = state.cinr_mass.numpy()[:n, :, None] * state.cinr_pos.numpy()[:n]
    np.testing.assert_allclose(moment, stacked(side, lambda d: d.cinert[bodies, 6:9]), atol=1e-10)
    for name in ("hibernated", "mass_shift", "cfrc_coupling_ang", "cfrc_coupling_vel", "cfrc_applied_vel"):
        assert not getattr(state, name).numpy().any()
    elbow = stacked(side, lambda d: d.xanchor[[side.model.joint("elbow").id]])[0]
    np.testing.assert_allclose(state.j_pos.numpy()[1], elbow, atol=1e-12)


def test_parent_wrenches_of_constrained_links(tmp_path: Path) -> None:
    """Equality constraints are external to the tree: a chain whose end is held, and a body that is welded to it."""
    links = "".join(
        f'<body name="b{i}" pos="0 0 -.2"><joint axis="0 1 {i}"/><geom size=".04" mass="{1 + i}"/>' for i in range(3)
    )
    side = beside_mujoco(
        tmp_path,
        f"""<mujoco><worldbody><body name="b" pos="0 0 1"><joint axis="1 0 0"/><geom size=".04" mass="1"/>
        {links}</body></body></body></body>
        <body name="free" pos=".5 0 .4"><freejoint/><geom size=".05" mass=".5"/></body></worldbody>
        <equality><connect body1="b2" anchor=".1 0 0"/><weld body1="free" body2="b1"/></equality>
        <contact><exclude body1="b" body2="b0"/></contact></mujoco>""",
        with_ring=False,
    )
    for name, columns in (("cfrc_ang", slice(0, 3)), ("cfrc_vel", slice(3, 6))):
        expected = stacked(side, lambda d, columns=columns: d.cfrc_int[side.bodies, columns])
        np.testing.assert_allclose(getattr(side.solver.links_state, name).numpy(), expected, atol=1e-5, err_msg=name)


def test_dofs(side: SimpleNamespace) -> None:
    state, n = side.solver.dofs_state, side.model.nv
    for name, expected in {
        "vel": lambda d: d.qvel,
        "vel_next": lambda d: d.qvel,
        "acc": lambda d: d.qacc,
        "qf_bias": lambda d: d.qfrc_bias,
        "qf_passive": lambda d: d.qfrc_passive,
        "qf_actuator": lambda d: d.qfrc_actuator,
        "qf_constraint": lambda d: d.qfrc_constraint,
        "qf_applied": lambda d: d.qfrc_applied,
        "force": lambda d: full_mass_matrix(side.model, d) @ d.qacc,
        "cdof_ang": lambda d: d.cdof[:, :3],
        "cdof_vel": lambda d: d.cdof[:, 3:],
        "cdofd_ang": lambda d: d.cdof_dot[:, :3],
        "cdofd_vel": lambda d: d.cdof_dot[:, 3:],
        "cdofvel_ang": lambda d: d.cdof[:, :3] * d.qvel[:, None],
        "cdofvel_vel": lambda d: d.cdof[:, 3:] * d.qvel[:, None],
    }.items():
        values = getattr(state, name).numpy()[:n]
        np.testing.assert_allclose(values, stacked(side, expected), atol=5e-5, err_msg=name)
    np.testing.assert_array_equal(state.ctrl_mode.numpy()[[0, 6]], [[0, 0], [3, 3]])


def test_links_info(side: SimpleNamespace) -> None:
    info, model, bodies, n = side.solver.links_info, side.model, side.bodies, len(side.bodies)
    np.testing.assert_array_equal(info.parent_idx, [-1, 0, -1, -1, -1])
    np.testing.assert_array_equal(info.dof_end - info.dof_start, [6, 1, 6, 6, 0])
    np.testing.assert_array_equal(info.q_start, [0, 7, 8, 15, 0])
    np.testing.assert_array_equal(info.entity_idx, [0, 0, 0, 0, 1])
    np.testing.assert_allclose(info.inertial_mass[:n], model.body_mass[bodies])
    np.testing.assert_allclose(info.inertial_pos[:n], model.body_ipos[bodies], atol=1e-12)
    np.testing.assert_array_equal(info.is_fixed, [False] * 4 + [True])
    owners = side.solver.geoms_info.link_idx
    for link, (start, end) in enumerate(zip(info.geom_start, info.geom_end, strict=True)):
        assert (owners[start:end] == link).all()
        assert end - start == (owners == link).sum() == 1


def geoms_of(side: SimpleNamespace) -> list[int]:
    """MuJoCo's geoms in our order, without the ring."""
    return [side.model.geom(name).id for name in ("floor", "box", "rod", "wedge", "ball")]


def test_geoms(side: SimpleNamespace) -> None:
    info, state, model, geoms = side.solver.geoms_info, side.solver.geoms_state, side.model, geoms_of(side)
    own = [k for k in range(5) if k != 3]  # MuJoCo moves frames of meshes to their centre of mass
    np.testing.assert_array_equal(info.type, [*model.geom_type[geoms], GeomType.DISTANCE_FIELD])
    assert info.names[:5] == ("floor", "box", "rod", "wedge", "ball")
    np.testing.assert_array_equal(info.link_idx, [-1, 0, 1, 2, 3, 4])
    np.testing.assert_allclose(info.data[[1, 2, 4], :3], model.geom_size[geoms][[1, 2, 4]], atol=1e-12)
    np.testing.assert_allclose(info.pos[own], model.geom_pos[geoms][own], atol=1e-12)
    np.testing.assert_allclose(info.friction[:5], model.geom_friction[geoms, 0])
    np.testing.assert_allclose(info.sol_params[:5], np.column_stack([model.geom_solref, model.geom_solimp])[geoms])
    np.testing.assert_array_equal(info.contype[:5], model.geom_contype[geoms])
    np.testing.assert_array_equal(info.conaffinity[:5], model.geom_conaffinity[geoms])
    np.testing.assert_array_equal(info.is_convex, [True] * 5 + [False])
    assert not info.needs_coup.any()
    geom_pos, geom_mat = (
        stacked(side, lambda d, name=name: getattr(d, name)[geoms]) for name in ("geom_xpos", "geom_xmat")
    )
    np.testing.assert_allclose(state.pos[own], geom_pos[own], atol=1e-10)
    found = np.array([[quaternion_to_matrix(q).ravel() for q in row] for row in state.quat.numpy()])
    np.testing.assert_allclose(found[own], geom_mat[own], atol=1e-10)
    assert state.verts_updated.numpy().all()


def test_collision_meshes(side: SimpleNamespace) -> None:
    """Vertices, triangles and edges of each geom form closed surfaces that face outwards, as large as the geom."""
    solver = side.solver
    info, verts, faces, edges = solver.geoms_info, solver.verts_info, solver.faces_info, solver.edges_info
    for geom in range(len(info.type)):
        first, end = info.vert_start[geom], info.vert_end[geom]
        own = slice(info.face_start[geom], info.face_end[geom])
        lines = slice(info.edge_start[geom], info.edge_end[geom])
        assert (verts.geom_idx[first:end] == geom).all()
        assert (faces.geom_idx[own] == geom).all()
        triangles = faces.verts_idx[own]
        assert first <= triangles.min() < triangles.max() < end
        corners = verts.init_pos[triangles]
        np.testing.assert_allclose(np.einsum("fij,fj->fi", corners - corners[:, :1], faces.normal[own]), 0.0, atol=1e-9)
        np.testing.assert_allclose(np.linalg.norm(verts.init_normal[first:end], axis=1), 1.0)
        a, b = edges.v0[lines], edges.v1[lines]
        assert (a < b).all()
        np.testing.assert_allclose(edges.length[lines], np.linalg.norm(verts.init_pos[a] - verts.init_pos[b], axis=1))
        if info.type[geom] == GeomType.PLANE:
            continue
        holes = 1 if info.type[geom] == GeomType.DISTANCE_FIELD else 0
        assert (end - first) - len(a) + len(triangles) == 2 - 2 * holes  # Euler characteristic of a closed surface
        assert (np.cross(corners[:, 0], corners[:, 1]) * corners[:, 2]).sum() > 0.0
    wedge = slice(info.vert_start[3], info.vert_end[3])
    np.testing.assert_allclose(np.sort(verts.init_pos[wedge], axis=0), np.sort(WEDGE, axis=0), atol=1e-7)
    box = verts.init_pos[info.vert_start[1] : info.vert_end[1]]
    np.testing.assert_allclose(np.abs(box), np.tile([0.2, 0.15, 0.1], (8, 1)))
    np.testing.assert_allclose(verts.init_normal[info.vert_start[1] : info.vert_end[1]], np.sign(box) / 3**0.5)


def test_vertices_and_boxes_in_the_world(side: SimpleNamespace) -> None:
    """AABBs contain all vertices, and touch them unless the surface is curved."""
    solver = side.solver
    info, state, verts = solver.geoms_info, solver.geoms_state, solver.verts_state.pos.numpy()
    assert info.verts_state_start[0] == info.verts_state_end[0]
    assert np.isinf(state.aabb_max[0]).all()
    for geom, slack in ((1, 0.0), (2, 1e-3), (3, 0.0), (4, 1e-3)):
        own = verts[info.verts_state_start[geom] : info.verts_state_end[geom]]
        local = solver.verts_info.init_pos[info.vert_start[geom] : info.vert_end[geom]]
        for env in range(N_ENVS):
            rotation = quaternion_to_matrix(state.quat[geom, env])
            np.testing.assert_allclose(own[:, env], local @ rotation.T + state.pos[geom, env], atol=1e-10)
        low, high = state.aabb_min[geom], state.aabb_max[geom]
        assert (low - 1e-12 <= own.min(axis=0)).all()
        assert (own.max(axis=0) <= high + 1e-12).all()
        np.testing.assert_allclose(own.min(axis=0), low, atol=1e-9 + slack)
        np.testing.assert_allclose(own.max(axis=0), high, atol=1e-9 + slack)


def test_distance_fields(side: SimpleNamespace) -> None:
    info, verts = side.solver.sdf_info, side.solver.verts_info
    np.testing.assert_array_equal(info.sdf_res[:5], 0)
    n, cell = info.sdf_res[5], info.sdf_cell_size[5]
    grid = np.stack(np.meshgrid(*(np.arange(k) for k in n), indexing="ij"), axis=-1).reshape(-1, 3)
    nodes = (grid - info.T_mesh_to_sdf[5, :3, 3]) * cell
    mesh = geometry.MeshData(*ring())
    np.testing.assert_allclose(info.geoms_sdf_val, geometry.signed_distances(mesh, nodes), atol=1e-9)
    assert info.sdf_max[5] == np.abs(info.geoms_sdf_val).max()
    assert info.sdf_cell_start[5] == 0
    np.testing.assert_allclose(np.linalg.norm(info.geoms_sdf_grad, axis=1), 1.0)
    own = verts.init_pos[verts.geom_idx == 5]
    distances = np.linalg.norm(nodes[:, None] - own, axis=2)
    chosen = np.linalg.norm(nodes - verts.init_pos[info.geoms_sdf_closest_vert], axis=1)
    np.testing.assert_allclose(chosen, distances.min(axis=1), atol=1e-9)


def test_support_tables(side: SimpleNamespace) -> None:
    """Each cell has the vertex of its geom that is the farthest in the direction of the cell."""
    support, verts = side.solver.support_info, side.solver.verts_info
    res = int(support.support_res)
    assert res == 180
    np.testing.assert_array_equal(np.diff(support.support_cell_start), [0, *[res**2] * 4])
    i, j = np.random.default_rng(0).integers(0, res, (2, 200))
    azimuth, polar = 2.0 * np.pi * i / res - np.pi, np.pi * j / (res - 1)
    ways = np.stack([np.sin(polar) * np.cos(azimuth), np.sin(polar) * np.sin(azimuth), np.cos(polar)], axis=1)
    for geom in (1, 2, 3, 4):
        cells = support.support_cell_start[geom] + res * i + j
        own = verts.init_pos[verts.geom_idx == geom]
        reach = (support.support_v[cells] * ways).sum(axis=1)
        np.testing.assert_allclose(reach, (ways @ own.T).max(axis=1), atol=1e-12)
        np.testing.assert_array_equal(verts.init_pos[support.support_vid[cells]], support.support_v[cells])
        assert (verts.geom_idx[support.support_vid[cells]] == geom).all()


def test_contacts(side: SimpleNamespace) -> None:
    found, geoms, model = side.solver.contacts, geoms_of(side), side.model
    np.testing.assert_array_equal(found.n_contacts, [data.ncon for data in side.states])
    for env, data in enumerate(side.states):
        n, theirs = data.ncon, [data.contact[k] for k in range(data.ncon)]
        pairs = np.sort(np.array(geoms)[np.stack([found.geom_a[:n, env], found.geom_b[:n, env]], axis=1)], axis=1)
        ours = [*zip(pairs.tolist(), found.pos[:n, env].round(5).tolist(), strict=True)]
        order = sorted(range(n), key=lambda k: ours[k])
        theirs.sort(key=lambda c: (sorted(c.geom.tolist()), np.round(c.pos, 5).tolist()))
        for k, contact in zip(order, theirs, strict=True):
            assert pairs[k].tolist() == sorted(contact.geom.tolist())
            np.testing.assert_allclose(found.pos[k, env], contact.pos, atol=1e-7)
            np.testing.assert_allclose(found.penetration[k, env], -contact.dist, atol=1e-7)
            sign = 1.0 if geoms[found.geom_a[k, env]] == contact.geom[0] else -1.0
            np.testing.assert_allclose(found.normal[k, env], sign * contact.frame[:3], atol=1e-7)
            np.testing.assert_allclose(found.frame[k, env, 0], found.normal[k, env])
            np.testing.assert_allclose(found.friction[k, env], contact.friction[0])
            np.testing.assert_allclose(found.sol_params[k, env], [*contact.solref, *contact.solimp])
        for side_name in ("a", "b"):
            links = side.solver.geoms_info.link_idx[getattr(found, f"geom_{side_name}")[:n, env]]
            np.testing.assert_array_equal(getattr(found, f"link_{side_name}")[:n, env], links)
        assert not found.active[n:, env].any()
        assert (found.geom_a[n:, env] == -1).all()
        assert not found.force[n:, env].any()
    assert model.ngeom == len(geoms) + 1


def check_rows(side: SimpleNamespace) -> None:
    """All rows, those of contacts included, and what follows from them, beside MuJoCo's."""
    rows, model = side.solver.constraints, side.model
    n = model.nv
    for env, data in enumerate(side.states):
        jacobian = np.zeros((data.nefc, n))
        for i, unit in enumerate(np.eye(data.nefc)):
            mujoco.mj_mulJacTVec(model, data, jacobian[i], unit)
        own = np.flatnonzero(rows.efc_D[:, env] > 0.0)
        ours = np.column_stack([rows.jac[own, :n, env], 1e-3 * rows.efc_aref[own, env]])
        own = own[matching_rows(ours, np.column_stack([jacobian, 1e-3 * data.efc_aref]), data.ne)[0]]
        assert len(own) == data.nefc == np.count_nonzero(rows.efc_D[:, env])
        np.testing.assert_allclose(rows.jac[own, :n, env], jacobian, atol=1e-7)
        for name in ("efc_pos", "efc_vel", "efc_D", "efc_aref", "efc_b", "efc_force"):
            scale = max(1.0, np.abs(getattr(data, name)).max())
            np.testing.assert_allclose(
                getattr(rows, name)[own, env], getattr(data, name), atol=1e-6 * scale, err_msg=name
            )
        mass = full_mass_matrix(model, data)
        expected = jacobian @ np.linalg.solve(mass, jacobian.T) + np.diag(data.efc_R)
        np.testing.assert_allclose(rows.efc_AR[np.ix_(own, own)][..., env], expected, rtol=1e-6, atol=1e-6)
        cost = np.zeros(1)
        mujoco.mj_constraintUpdate(model, data, jacobian @ data.qacc - data.efc_aref, cost, 0)
        np.testing.assert_allclose(rows.quad[:, env].sum(), cost[0], rtol=1e-5)
        np.testing.assert_allclose(rows.mass_mat.numpy()[:n, :n, env], mass, atol=1e-10)
        np.testing.assert_allclose(rows.qacc.numpy()[:n, env], data.qacc, atol=5e-5)
        np.testing.assert_allclose(rows.Ma.numpy()[:n, env], mass @ data.qacc, atol=5e-5)
    force = np.einsum("rdn,rn->dn", rows.jac.numpy(), rows.efc_force.numpy())
    np.testing.assert_allclose(force, rows.qfrc_constraint.numpy(), atol=1e-9)
    lower, diagonal = rows.mass_mat_L.numpy(), 1.0 / rows.mass_mat_D_inv.numpy()
    product = np.einsum("kin,kn,kjn->ijn", lower, diagonal, lower)
    np.testing.assert_allclose(product, rows.mass_mat.numpy(), atol=1e-10)
    assert rows.mass_mat_mask.numpy().all()
    np.testing.assert_allclose(rows.quad.numpy().sum(axis=0) + rows.gauss.numpy(), rows.cost.numpy(), rtol=1e-8)


def test_constraint_rows(side: SimpleNamespace) -> None:
    check_rows(side)


BALL = """<mujoco><option cone="{cone}"/><worldbody>
<geom type="plane" size="1 1 1" surfacevel=".3 .1 0 0 0 .2"/><body name="ball" pos="0 0 .048"><freejoint/>
<geom size=".05" condim="6" mass=".3" friction=".6 .02 .003"/></body></worldbody></mujoco>"""


def test_rows_of_elliptic_cones(tmp_path: Path) -> None:
    """With torsional and rolling friction, on a moving surface; the scene has no other constraint rows."""
    side = beside_mujoco(tmp_path, BALL.format(cone="elliptic"), with_ring=False)
    check_rows(side)
    assert side.solver.constraints.jac.shape == (6, 6, N_ENVS)


@pytest.mark.exhaustive
def test_edges_after_noslip_iterations(tmp_path: Path) -> None:
    """Forces along the edges of pyramids are those of the contacts; friction is that of the environment."""
    side = beside_mujoco(
        tmp_path, BALL.format(cone="pyramidal"), with_ring=False, per_env=("geom_friction",), noslip_iterations=20
    )
    rows = side.solver.constraints
    assert (rows.efc_force[...] >= 0.0).all()
    force = np.einsum("rdn,rn->dn", rows.jac.numpy(), rows.efc_force.numpy())
    np.testing.assert_allclose(force, rows.qfrc_constraint.numpy(), atol=1e-9)
    side.robot.set_friction(2.0, envs_idx=[1])
    np.testing.assert_allclose(side.solver.contacts.friction[0], [1.0, 2.0])
    np.testing.assert_allclose(side.solver.geoms_info.friction, [1.0, 0.6])


def test_broad_phase(side: SimpleNamespace) -> None:
    """Candidates are all allowed pairs with overlapping boxes; the buffers are the boxes in the order of their ends."""
    solver = side.solver
    found, state = solver.broad_phase, solver.geoms_state
    low, high = state.aabb_min.numpy(), state.aabb_max.numpy()
    allowed = {
        tuple(sorted(pair))
        for pair in solver._geoms.row_of_model_geom[
            np.stack([solver._built.model.pairs.geom_a, solver._built.model.pairs.geom_b], axis=1)
        ].tolist()
    }
    for env in range(N_ENVS):
        order = found.sort_buffer_idx[:, env]
        assert sorted(order) == list(range(len(low)))
        assert (np.diff(found.sort_buffer_min[1:, env]) >= 0.0).all()
        np.testing.assert_array_equal(found.sort_buffer_min[:, env], low[order, env, 0])
        np.testing.assert_array_equal(found.sort_buffer_max[:, env], high[order, env, 0])
        n = int(found.n_broad_pairs[env])
        pairs = {tuple(sorted(pair)) for pair in found.broad_collision_pairs[:n, env].tolist()}
        expected = {
            (a, b) for a, b in allowed if (low[a, env] <= high[b, env]).all() and (low[b, env] <= high[a, env]).all()
        }
        assert len(pairs) == n
        assert pairs == expected
        assert (found.broad_collision_pairs[n:, env] == -1).all()
        contacts = solver.contacts
        touching = zip(contacts.geom_a[:, env].tolist(), contacts.geom_b[:, env].tolist(), strict=True)
        assert {tuple(sorted(pair)) for pair in touching} - {(-1, -1)} <= pairs


def test_visual_geoms(side: SimpleNamespace) -> None:
    """All shapes that are seen, also those that do not collide; their triangles enclose the same volumes."""
    solver, model = side.solver, side.model
    info, verts, faces = solver.vgeoms_info, solver.vverts_info, solver.vfaces_info
    names = ("floor", "box", "rod", "paint", "wedge", "ball")
    geoms = [model.geom(name).id for name in names]
    np.testing.assert_array_equal(info.link_idx, [-1, 0, 1, 1, 2, 3, 4])
    np.testing.assert_allclose(info.color[1], [1.0, 0.0, 0.0, 0.5])
    assert info.names[:6] == names
    own = [k for k in range(6) if k != 4]
    pos = stacked(side, lambda d: d.geom_xpos[geoms])
    np.testing.assert_allclose(solver.vgeoms_state.pos[own], pos[own], atol=1e-10)
    links = solver.links_state.quat.numpy()
    np.testing.assert_allclose(solver.vgeoms_state.quat[1], links[0], atol=1e-12)
    for k in range(7):
        first, end = info.vvert_start[k], info.vvert_end[k]
        triangles = faces.vverts_idx[info.vface_start[k] : info.vface_end[k]]
        assert first <= triangles.min() < triangles.max() < end
        assert (verts.vgeom_idx[first:end] == k).all()
        assert (faces.vgeom_idx[info.vface_start[k] : info.vface_end[k]] == k).all()
        corners = verts.init_pos[triangles]
        volume = (np.cross(corners[:, 0], corners[:, 1]) * corners[:, 2]).sum() / 6.0
        expected = {1: 8 * 0.2 * 0.15 * 0.1, 4: np.linalg.det(WEDGE[1:] - WEDGE[0]) / 6.0}.get(k)
        assert expected is None or volume == pytest.approx(expected, rel=1e-6)
    np.testing.assert_allclose(np.linalg.norm(verts.init_normal, axis=1), 1.0)


def test_texture_coordinates(tmp_path: Path) -> None:
    """A vertex with two pairs of coordinates becomes two vertices."""
    (tmp_path / "quad.obj").write_text(
        "v 0 0 0\nv 1 0 0\nv 1 1 0\nv 0 1 0\nvt 0 0\nvt 1 0\nvt 1 1\nvt 0.5 0.5\nf 1/1 2/2 3/3\nf 1/4 3/3 4/1\n",
        encoding="utf-8",
    )
    (tmp_path / "quad.urdf").write_text(
        '<robot name="quad"><link name="a"><inertial><mass value="1"/><inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0"'
        ' iyz="0"/></inertial><visual><geometry><mesh filename="quad.obj" scale="2 2 2"/></geometry></visual></link>'
        "</robot>",
        encoding="utf-8",
    )
    scene = km.Scene(quiet=True)
    scene.add(tmp_path / "quad.urdf", fixed=False)
    scene.build()
    verts, faces = scene.sim.rigid_solver.vverts_info, scene.sim.rigid_solver.vfaces_info
    assert len(verts.uv) == 5
    corners = np.concatenate([verts.init_pos[faces.vverts_idx], verts.uv[faces.vverts_idx]], axis=2)
    np.testing.assert_allclose(corners[1], [[0, 0, 0, 0.5, 0.5], [2, 2, 0, 1, 1], [0, 2, 0, 0, 0]])
    np.testing.assert_allclose(verts.init_normal, [[0, 0, 1]] * 5)
    assert scene.sim.rigid_solver.geoms_info.type.shape == (0,)


def test_values_of_the_whole_scene(side: SimpleNamespace) -> None:
    solver, model = side.solver, side.model
    np.testing.assert_allclose(solver.qpos0[: model.nq, 1], model.qpos0, atol=1e-12)
    data = mujoco.MjData(model)
    mujoco.mj_kinematics(model, data)
    np.testing.assert_allclose(solver.links_T[:4, :3, 3], data.xpos[side.bodies], atol=1e-12)
    np.testing.assert_allclose(solver.links_T[:4, :3, :3].reshape(4, 9), data.xmat[side.bodies], atol=1e-12)
    np.testing.assert_allclose(solver.gravity, [[0.0, 0.0, -9.81]] * N_ENVS)
    assert float(solver.substep_dt) == 0.002
    assert (int(solver.iterations), float(solver.tolerance), int(solver.noslip_iterations)) == (200, 1e-14, 0)
    assert solver.n_awake_dofs.tolist() == [19, 19]
    assert solver.awake_links[:, 1].tolist() == [0, 1, 2, 3, 4]


def test_arrays_follow_the_state(side: SimpleNamespace) -> None:
    """An array that is kept gives the values of the state at which it is read."""
    scene, solver = side.scene, side.solver
    before = scene.get_state()
    kept = solver.geoms_state.pos, solver.contacts.penetration, solver.constraints.efc_force, solver.links_state.pos
    first = [np.array(x.numpy()) for x in kept]
    side.robot.set_pos(side.robot.get_pos() + 1e-3)
    assert not any(np.array_equal(x.numpy(), y) for x, y in zip(kept, first, strict=True))
    np.testing.assert_allclose(kept[0][1], kept[3].numpy()[0], atol=1e-12)
    scene.set_gravity((0.0, 0.0, -1.0))
    np.testing.assert_allclose(solver.gravity[0], [0.0, 0.0, -1.0])
    scene.set_gravity((0.0, 0.0, -9.81))
    scene.set_state(before)
    for x, y in zip(kept, first, strict=True):
        np.testing.assert_allclose(x.numpy(), y, atol=1e-9)


def test_views_of_the_state(side: SimpleNamespace) -> None:
    """Arrays that the engine holds are not copied."""
    vel = side.solver.dofs_state.vel.numpy()
    assert np.shares_memory(vel, side.scene.built.engine.state.view("vel").numpy())
    assert np.shares_memory(side.solver.qvel.numpy(), vel)
    assert not side.solver.geoms_info.pos.flags.writeable
    if HAS_TORCH:
        assert np.shares_memory(vel, side.solver.dofs_state.vel.to_torch().numpy())


def test_scene_without_contacts(tmp_path: Path) -> None:
    """Arrays of contacts have no rows, all others remain; constants do not compile anything."""
    file = tmp_path / "two.xml"
    file.write_text(BALL.format(cone="pyramidal"), encoding="utf-8")
    scene = km.Scene(quiet=True, contacts=False, out="torch" if HAS_TORCH else "numpy")
    scene.add(file)
    scene.add(km.Box(size=(0.2, 0.2, 0.2)), pos=(1, 0, 1))
    scene.build(n_envs=N_ENVS)
    solver = scene.sim.rigid_solver
    assert solver.geoms_info.type.tolist() == [GeomType.PLANE, GeomType.SPHERE, GeomType.BOX]
    assert solver.verts_info.init_pos.shape[1] == 3
    assert not solver._built.engine.fields._groups
    check_all_arrays(solver, tensors=HAS_TORCH)
    assert solver.contacts.pos.shape == (0, N_ENVS, 3)
    assert solver.constraints.jac.shape == (0, 12, N_ENVS)
    assert not solver.links_state.contact_force.numpy().any()
    assert scene.entities[1].get_pos().shape == (N_ENVS, 3)


def test_scene_that_cannot_move() -> None:
    """Without degrees of freedom, arrays of dofs and contacts have no rows; kinematic bodies have geoms that move."""
    scene = km.Scene(quiet=True)
    scene.add(km.Plane())
    scene.add(km.Box(size=(0.2, 0.2, 0.2)), fixed=True, pos=(0, 0, 0.05))
    scene.add(km.Box(size=(0.2, 0.2, 0.2)), kinematic=True, pos=(1, 0, 1))
    scene.build(n_envs=N_ENVS)
    assert scene.sim.rigid_solver.verts_state.pos.shape == (8, N_ENVS, 3)
    check_all_arrays(scene.sim.rigid_solver, tensors=False)
    np.testing.assert_allclose(scene.sim.rigid_solver.geoms_state.pos[1], [[0.0, 0.0, 0.05]] * N_ENVS, atol=1e-7)


def test_arrays_on_a_gpu(tmp_path: Path) -> None:
    """The same values as on a CPU, and tensors on the GPU."""
    file = tmp_path / "ball.xml"
    file.write_text(BALL.format(cone="elliptic"), encoding="utf-8")
    solvers = []
    for device in ("cuda:0", "cpu"):
        scene = km.Scene(**EXACT, device=device)
        scene.add(file)
        try:
            scene.build(n_envs=N_ENVS)
        except km.KinemaError as reason:
            pytest.skip(str(reason))
        scene.step(3)
        solvers.append(scene.sim.rigid_solver)
    check_all_arrays(solvers[0], tensors=HAS_TORCH)
    for group, arrays in declared_arrays().items():
        for declaration, _ in arrays:
            ours, expected = (getattr(getattr(x, group) if group else x, declaration.name).numpy() for x in solvers)
            if declaration.name not in ("n_iterations", "gradient", "Mgrad"):
                np.testing.assert_allclose(ours, expected, rtol=1e-5, atol=1e-5, err_msg=f"{group}.{declaration.name}")


def test_sleeping_geoms(tmp_path: Path) -> None:
    """Links and geoms of trees that sleep are marked; others are listed as awake."""
    file = tmp_path / "boxes.xml"
    boxes = "".join(
        f'<body name="{name}" pos="{x} 0 .099" sleep="{policy}"><freejoint/><geom type="box" size=".1 .1 .1"/></body>'
        for name, x, policy in (("tired", 0, "init"), ("fresh", 1, "never"))
    )
    file.write_text(
        f'<mujoco><option><flag sleep="enable"/></option><worldbody><geom type="plane" size="2 2 1"/>{boxes}'
        "</worldbody></mujoco>",
        encoding="utf-8",
    )
    scene = km.Scene(quiet=True)
    scene.add(file)
    scene.build(n_envs=N_ENVS)
    solver = scene.sim.rigid_solver
    assert solver.links_state.hibernated.numpy().tolist() == [[1] * N_ENVS, [0] * N_ENVS]
    assert solver.geoms_state.hibernated.tolist() == [[0] * N_ENVS, [1] * N_ENVS, [0] * N_ENVS]
    assert solver.n_awake_links.tolist() == [1] * N_ENVS
    assert solver.awake_dofs[:, 0].tolist() == [*range(6, 12), *[-1] * 6]
    np.testing.assert_array_equal(solver.constraints.mass_mat_mask.numpy()[:, 0], [False] * 6 + [True] * 6)
    scene.wake(envs_idx=[1])
    assert solver.n_awake_entities.tolist() == [1, 1]
    assert solver.geoms_state.hibernated[1].tolist() == [1, 0]
