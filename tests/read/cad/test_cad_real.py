"""A real extraction from Fusion 360, made by another exporter: in our snapshot its numbers make the right robot."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kinema.core import Pose
from kinema.description import JointKind, Robot
from kinema.geometry import inertia_from_second_moment, second_moment_from_inertia
from kinema.read.cad import read_cad
from kit.assets import assets
from kit.diagnostics import ClaimedDiagnostics

Extraction = dict[str, Any]


@pytest.fixture(scope="module")
def extraction() -> Extraction:
    return json.loads(assets("cad/fusion_snapshot/snapshot.json").read_text(encoding="utf-8"))


# -- from that exporter's format to ours ------------------------------------------------------------------------------


def matrix(transform: dict[str, list[float]]) -> list[float]:
    """Their rotation and translation as 16 numbers."""
    r, t = transform["rotation"], transform["translation"]
    return [*r[0:3], t[0], *r[3:6], t[1], *r[6:9], t[2], 0.0, 0.0, 0.0, 1.0]


def tensor(inertia: dict[str, float]) -> np.ndarray:
    i = inertia
    return np.array([[i["ixx"], i["ixy"], i["ixz"]], [i["ixy"], i["iyy"], i["iyz"]], [i["ixz"], i["iyz"], i["izz"]]])


def physical(owner: dict[str, Any]) -> dict[str, Any]:
    """Mass properties about the origin of the component; they have no principal moments for bodies."""
    i = owner["inertia_at_origin"]
    result = {
        "mass": owner["mass_kg"],
        "center": owner["com_component_local"],
        "inertia": [i["ixx"], i["iyy"], i["izz"], i["ixy"], i["iyz"], i["ixz"]],
        "frame": "component",
    }
    if "inertia_at_com" in owner:
        result["principal"] = np.linalg.eigvalsh(tensor(owner["inertia_at_com"])).tolist()
    return result


def adapted(extraction: Extraction) -> dict[str, Any]:
    """The extraction as a snapshot. Its joints are in the frames of the components that own them."""
    occurrences = extraction["occurrences"]
    return {
        "kinema": "cad-snapshot",
        "version": 1,
        "units": "m,kg,rad",
        "name": extraction["design_name"],
        "occurrences": [
            {
                "path": path,
                "parent": o["parent_path"],
                "component": o["component_name"],
                "pose": matrix(o["transform2"]),
                "physical": physical(o) if o["bodies"] else None,
                "bodies": [{"name": b["name"], "physical": physical(b)} for b in o["bodies"]],
            }
            for path, o in occurrences.items()
        ],
        "joints": [adapted_joint(j, occurrences) for j in extraction["joints"].values()],
        "rigid_groups": [{"name": g["name"], "occurrences": g["occurrence_paths"]} for g in extraction["rigid_groups"]],
    }


def owner_of(joint: dict[str, Any], occurrences: dict[str, Any]) -> str:
    """The path of the occurrence that owns a joint; empty for the root component."""
    owners = [p for p, o in occurrences.items() if o["component_name"] == joint["defining_component_raw"]]
    return owners[0] if owners else ""


def adapted_joint(joint: dict[str, Any], occurrences: dict[str, Any]) -> dict[str, Any]:
    owner = owner_of(joint, occurrences)
    context = np.array(matrix(occurrences[owner]["transform2"])).reshape(4, 4) if owner else np.eye(4)
    prefix = f"{owner}+" if owner else ""
    as_built = joint["joint_source"] == "as_built"
    axis = np.array(joint["axis_vector"])
    motion = {
        "axis": (context[:3, :3] @ axis).tolist(),
        "value": 0.0,
        "lower": joint["rotation_min"] if joint["motion_type"] == "revolute" else joint["slide_min_m"],
        "upper": joint["rotation_max"] if joint["motion_type"] == "revolute" else joint["slide_max_m"],
    }
    name = {"revolute": "rotation", "slider": "slide"}.get(joint["motion_type"])
    origins = [joint["geometry_or_origin_one_cm"], joint["geometry_or_origin_two_cm"]]
    if as_built:
        origins = [None, joint["geometry_origin_cm"]]
    return {
        "name": joint["name"],
        "kind": "as_built" if as_built else "joint",
        "type": joint["motion_type"],
        "context": owner or None,
        "one": prefix + joint["occurrence_one_path"],
        "two": prefix + joint["occurrence_two_path"],
        "frame1": frame(context, origins[0], axis),
        "frame2": frame(context, origins[1], axis),
        "motions": {name: motion} if name else {},
    }


def frame(context: np.ndarray, origin: list[float] | None, axis: np.ndarray) -> list[float] | None:
    """A frame with that z at an origin in cm; they do not say the other axes."""
    if origin is None:
        return None
    x = np.cross(axis, np.eye(3)[int(np.argmin(np.abs(axis)))])
    x /= np.linalg.norm(x)
    local = np.eye(4)
    local[:3] = np.column_stack([x, np.cross(axis, x), axis, np.array(origin) / 100])
    return (context @ local).ravel().tolist()


@pytest.fixture
def robot(extraction: Extraction, tmp_path: Path, diagnostics: ClaimedDiagnostics) -> Robot:
    file = tmp_path / "snapshot.json"
    file.write_text(json.dumps(adapted(extraction)), encoding="utf-8")
    return read_cad(file, diagnostics=diagnostics)


# -- what comes out of it ---------------------------------------------------------------------------------------------


def test_links_and_joints(robot: Robot, extraction: Extraction, diagnostics: ClaimedDiagnostics) -> None:
    """Eleven joints, one of which lies inside a rigid group; thirteen parts, three of which are that group."""
    assert len(extraction["joints"]) == 11
    assert len(robot.joints) == 10
    inside = [d for d in diagnostics if d.code == "cad.joint-inside-link"]
    assert ["zed2i_camera_center_joint" in d.message for d in inside] == [True]
    assert len(robot.links) == 11
    group = robot.link("zed2i_camera_link:1").attributes["cad:occurrences"]
    assert sorted(group) == sorted(extraction["rigid_groups"][0]["occurrence_paths"])
    kinds = {j.name: j.kind for j in robot.joints}
    assert kinds["rl_wheel"] is JointKind.CONTINUOUS
    assert kinds["Azimuth"] is JointKind.REVOLUTE
    assert kinds["panther_to_mount"] is JointKind.PRISMATIC
    assert kinds["mount_to_turret"] is JointKind.FIXED
    tree = robot.tree()
    assert tree.roots == ("body_link v5:1",)
    assert tree.loops == ()


def test_every_part_is_where_fusion_had_it(robot: Robot, extraction: Extraction) -> None:
    """At zero, where this assembly stands."""
    poses = robot.link_poses({})
    for link in robot.links:
        occurrence = extraction["occurrences"][link.attributes["cad:occurrences"][0]]
        expected = Pose.from_matrix(np.array(matrix(occurrence["transform2"])).reshape(4, 4))
        assert max(poses[link.name].distance(expected)) < 1e-12


def test_principal_moments_equal_those_of_fusion(robot: Robot, extraction: Extraction) -> None:
    """To 1e-6, for every part and for the group of three; and so do masses and centres."""
    for link in robot.links:
        members = [extraction["occurrences"][path] for path in link.attributes["cad:occurrences"]]
        assert link.inertial is not None
        assert link.inertial.mass == pytest.approx(sum(m["mass_kg"] for m in members), rel=1e-9)
        if len(members) > 1:
            continue
        theirs = np.linalg.eigvalsh(tensor(members[0]["inertia_at_com"]))
        np.testing.assert_allclose(np.linalg.eigvalsh(link.inertial.inertia), theirs, rtol=1e-6)
        np.testing.assert_allclose(link.inertial.center, members[0]["com_component_local"], atol=1e-12)


def test_the_group_is_the_sum_of_its_bodies(robot: Robot, extraction: Extraction) -> None:
    """By the parallel-axis theorem, worked out body by body about the root's origin."""
    link = robot.link("zed2i_camera_link:1")
    mass, first, second = 0.0, np.zeros(3), np.zeros((3, 3))
    for path in link.attributes["cad:occurrences"]:
        occurrence = extraction["occurrences"][path]
        pose = Pose.from_matrix(np.array(matrix(occurrence["transform2"])).reshape(4, 4))
        for body in occurrence["bodies"]:
            m, c = body["mass_kg"], pose.apply(body["com_component_local"])
            spread = second_moment_from_inertia(tensor(body["inertia_at_origin"]))
            spread -= m * np.outer(body["com_component_local"], body["com_component_local"])
            mass, first = mass + m, first + m * c
            second += pose.rotation @ spread @ pose.rotation.T + m * np.outer(c, c)
    center = first / mass
    whole = inertia_from_second_moment(second - mass * np.outer(center, center))
    assert link.inertial is not None
    assert link.pose is not None
    np.testing.assert_allclose(link.pose.apply(link.inertial.center), center, atol=1e-12)
    turned = link.pose.rotation @ link.inertial.inertia @ link.pose.rotation.T
    np.testing.assert_allclose(turned, whole, atol=1e-9 * whole.max())


def test_products_of_inertia_are_in_tensor_sign(extraction: Extraction) -> None:
    """With that sign all 127 bodies are possible; with the other one, many would have a negative spread of mass."""
    bodies = [b for o in extraction["occurrences"].values() for b in o["bodies"]]
    assert len(bodies) == 127
    impossible = {1: 0, -1: 0}
    for body in bodies:
        for sign in impossible:
            about_origin = tensor(body["inertia_at_origin"]) * np.where(np.eye(3) > 0, 1, sign)
            second = second_moment_from_inertia(about_origin)
            second -= body["mass_kg"] * np.outer(body["com_component_local"], body["com_component_local"])
            impossible[sign] += bool(np.linalg.eigvalsh(second)[0] < -1e-6 * np.trace(second))
    assert impossible[1] == 0
    assert impossible[-1] > 20


def test_joint_frames_agree(robot: Robot, extraction: Extraction) -> None:
    """Joints lie where Fusion's geometry is, with z along Fusion's axis; the wheels' at the wheels' own origins."""
    by_name = {link.name: link for link in robot.links}
    for joint in robot.joints:
        theirs = extraction["joints"][joint.name]
        assert joint.parent is not None
        assert joint.child is not None
        parent, child = by_name[joint.parent], by_name[joint.child]
        assert parent.pose is not None
        assert child.pose is not None
        here = parent.pose @ joint.parent_pose
        assert max(here.distance(child.pose @ joint.child_pose)) < 1e-12
        owner = owner_of(theirs, extraction["occurrences"])
        context = (
            Pose.from_matrix(np.array(matrix(extraction["occurrences"][owner]["transform2"])).reshape(4, 4))
            if owner
            else Pose()
        )
        origin = theirs["geometry_origin_cm"] or theirs["geometry_or_origin_two_cm"]
        if origin is not None:
            np.testing.assert_allclose(here.position, context.apply(np.array(origin) / 100), atol=1e-12)
        if joint.kind is not JointKind.FIXED:
            np.testing.assert_allclose(here.rotation[:, 2], context.rotation @ theirs["axis_vector"], atol=1e-12)
        if joint.name.endswith("_wheel"):
            np.testing.assert_allclose(here.position, child.pose.position, atol=1e-12)
    slider = robot.joint("panther_to_mount").axes[0]
    assert (slider.lower, slider.upper) == (-0.05, 0.2)
