"""SDFormat before libsdformat and Drake."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from kinema.core import Array, collect
from kinema.description import Robot, World
from kinema.read import read

from ..oracles import OracleMissing, drake, libsdformat
from ..written.sdf import Written, drake_positions, libsdformat_complaints, model_names
from .cases import (
    TOLERANCE,
    Coordinate,
    Verdict,
    anchors,
    configurations,
    mass_matrix,
    matrix_error,
    pose_error,
    replace_detail,
    verdict,
    worse,
)

_LOOPS = "Drake has no kinematic loops"
_GEARS = "Drake has no gearbox joints"
_REVOLUTE2 = "Drake has no revolute2 joints"
_INVALID = "libsdformat rejects physically impossible inertias"
_WATER = "Drake replaces physically impossible inertias by those of a ball of water"
_MESHES = "MakeConvexHull only applies to"
_BAKED = "Drake makes hulls of OBJ files only; the file was written with `--meshes bake`"
_ONLY = "Drake checked the mechanism only"
_SPARED = {
    "refers to unknown package": f"a mesh of the robot is missing, {_ONLY}",
    "specifies an unsupported scheme": f"a mesh of the robot is a web address, {_ONLY}",
    "dynamic friction must be less": f"Drake rejects surfaces with mu2 above mu, {_ONLY}",
}
"""What Drake says of shapes that are the robot's own -> what is said of it."""


def judge_sdf(written: Written) -> list[Verdict]:
    """The verdicts on a written file."""
    return [_libsdformat(written), _drake(written)]


def _libsdformat(written: Written) -> Verdict:
    """No complaints, and every link where it stands at first."""
    try:
        result = libsdformat(written.file)
    except OracleMissing as missing:
        return Verdict("libsdformat", "absent", str(missing))
    complaints, impossible = libsdformat_complaints(written, result)
    if complaints:
        return Verdict("libsdformat", "wrong", "; ".join(complaints))
    if impossible:
        return Verdict("libsdformat", "limited", _INVALID)
    found = {
        f"{link['name']}": model["pose_in_world"] @ link["pose"]
        for model in _tops(result)
        for link in _links(result, model)
    }
    poses = (0.0, "")
    for index, (robot, model) in enumerate(zip(written.robots, model_names(written), strict=True)):
        at = {j.name: j.rest.copy() for j in robot.joints}
        for (joint, number), offset in written.lowered[index].coordinate_offsets.items():
            at[joint][number] = offset
        ours = {f"{model}::{name}": pose for name, pose in written.expected(index, at).items()}
        poses = worse(poses, pose_error(found, ours, {}))
    return verdict("libsdformat", poses, (0.0, ""))


def _tops(result: dict[str, Any]) -> list[dict[str, Any]]:
    return [m for m in result["models"] if "::" not in m["name"]]


def _links(result: dict[str, Any], model: dict[str, Any]) -> list[dict[str, Any]]:
    return [x for m in result["models"] if m["name"].split("::")[0] == model["name"] for x in m["links"]]


# -- Drake ------------------------------------------------------------------------------------------------------------


def _drake(written: Written) -> Verdict:
    limit = next(filter(None, map(_why_drake_refuses, written.lowered)), "")
    requests: list[dict[str, Any]] = []
    plans = [configurations(robot, seed=6) for robot in written.robots]
    n_requests = max([1, *map(len, plans)])
    for number in range(n_requests):
        request: dict[str, Any] = {}
        for index, (robot, model) in enumerate(zip(written.robots, model_names(written), strict=True)):
            if not robot.static:  # Drake welds every link of it to the world
                at = written.in_file(index, plans[index][number])
                request |= {f"{model}::{name}": q for name, q in drake_positions(written, index, at).items()}
        requests.append(request)
    try:
        result, note = _ask_drake(written, requests)
    except OracleMissing as missing:
        return Verdict("Drake", "absent", str(missing))
    if "error" in result:
        return Verdict("Drake", "limited" if limit else "wrong", limit or result["error"])
    found = _drake_agrees(written, plans, result)
    spoken = [w for w in result["warnings"] if "While" in w]
    if spoken and found.pose_error <= TOLERANCE:
        impossible = all("invalid" in w or "inertia" in w.lower() for w in spoken)
        return Verdict("Drake", "limited" if impossible else "wrong", _WATER if impossible else spoken[0])
    return replace_detail(found, note)


def _ask_drake(written: Written, requests: list[dict[str, Any]]) -> tuple[dict[str, Any], str]:
    """Drake's answer, and what it had to be spared to give one."""
    result = drake(written.file, requests, geometry=True)
    if _MESHES in result.get("error", ""):
        # which the option `bake` writes
        baked = Written.make(written.described, written.file.parent / "baked", meshes="bake")
        result, note = drake(baked.file, requests, geometry=True), _BAKED
    else:
        note = ""
    said = result.get("error", "")
    for words, why in _SPARED.items():
        if words in said:
            result, note = drake(written.file, requests, geometry=False), why
    return result, note


def _why_drake_refuses(lowered: Any) -> str:
    if lowered.robot.tree().loops:
        return _LOOPS
    if lowered.robot.constraints:
        return _GEARS
    revolute2 = any(j.attributes.get("sdf:type") == "revolute2" for j in lowered.robot.joints)
    return _REVOLUTE2 if revolute2 else ""


def _drake_agrees(written: Written, plans: list[list[dict[str, Array]]], result: dict[str, Any]) -> Verdict:
    poses = matrix = (0.0, "")
    again = read(written.file, policy=collect)
    models = again.robots if isinstance(again, World) else [again]
    for number, seen in enumerate(result["configurations"]):
        for index, (robot, model) in enumerate(zip(written.robots, model_names(written), strict=True)):
            q = plans[index][0 if robot.static else number]
            prefix = f"{model}::"
            theirs = {n.removeprefix(prefix): p for n, p in seen["poses"].items() if n.startswith(prefix)}
            seen_from = {
                written.name("link", link): None if at is None else written.name("link", at)
                for link, at in anchors(robot).items()
            }
            poses = worse(poses, pose_error(theirs, written.expected(index, q), seen_from if number else {}))
            if not robot.static:
                reference = _Reference.of(written, index, models[index], q)
                matrix = worse(matrix, _matrix(reference, prefix, seen["mass_matrix"], result))
    return verdict("Drake", poses, matrix)


@dataclass
class _Reference:
    """The mass matrix that Drake is to have."""

    robot: Robot
    coordinates: Mapping[str, Array]
    rows: Mapping[Coordinate, Coordinate]
    """Coordinates of the robot -> joints of the file and which of their axes."""

    @classmethod
    def of(cls, written: Written, index: int, again: Robot, q: Mapping[str, Array]) -> _Reference:
        """The description's own; where the file has links more or with another mass, that of our reading of it."""
        lowered = written.lowered[index]
        if any(loss.kind == "link" and ("mass" in loss.what or "it is added" in loss.how) for loss in written.report):
            at = {j.name: j.rest for j in again.joints} | written.in_file(index, q)
            return cls(again, at, {(j.name, i): (j.name, i) for j in again.joints for i in range(j.n_dofs)})
        rows = {
            (joint, i): (written.name("joint", name), axis)
            for joint, own in lowered.coordinates.items()
            for i, (name, axis) in own.items()
        }
        return cls(written.robots[index], q, rows)


def _matrix(reference: _Reference, prefix: str, theirs: Array, result: Mapping[str, Any]) -> tuple[float, str]:
    """How far Drake's mass matrix is off."""
    robot = reference.robot
    names, ours = mass_matrix(robot, reference.coordinates, armature=False)
    first: dict[str, int] = {}
    for row, joint in enumerate(result["velocities"]):
        first.setdefault(joint.removeprefix(prefix), row)
    floats = {j["child"].removeprefix(prefix) for j in result["joints"] if j["type"] == "quaternion_floating"}
    free = {anchor for anchor in anchors(robot).values() if anchor is not None}
    if not free <= floats:
        return 0.0, ""  # another link is the root of what floats: the coordinates move other links
    chosen = [i for i, name in enumerate(names) if reference.rows.get(name, ("", 0))[0] in first]
    rows = [first[reference.rows[names[i]][0]] + reference.rows[names[i]][1] for i in chosen]
    return matrix_error(theirs[np.ix_(rows, rows)], ours[np.ix_(chosen, chosen)], [names[i] for i in chosen])
