"""USD before OpenUSD's validators and Newton's importer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from kinema.core import Array, collect
from kinema.description import AxisMotion, Inertial, Joint, JointKind, Robot, World, joint_coordinates
from kinema.read import openusd_validation, read
from kinema.write import LossReport
from kinema.write.usd.joint_axes import map_axes_to_usd

from ..oracles import OracleMissing, newton
from .cases import (
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

SINGLE = 2e-5
"""What is asked of Newton's numbers, which have single precision, after a chain of joints."""
_LIMITS = {
    "is already a mimic joint": "Newton has no mimic joints of mimic joints",
    "Only root bodies": "Newton has no kinematic bodies with a parent",
    "not belonging to any articulation": ("Newton has no joints between bodies outside of an articulation"),
}
"""What Newton says -> what that means."""
_OUTSIDE = "Newton has no coordinates for joints outside of an articulation; compared at zero only"
_SQUARE = "the axes of a USD joint are orthogonal, those of the robot are not (in the loss report)"
_STACKED = (
    "Newton merges stacked joints into one, in the order of their names and about one point; those of the robot have "
    "another order or other points"
)
_SLID = "Newton's mass matrix rotates a six-axis joint about its frame on the parent, ignoring its translation"
_NO_MASS = "a mass of 0 makes UsdPhysics compute it from the shapes; Newton drops the inertia"
_MENDED = "Newton changes tiny or physically impossible inertias"


@dataclass
class NewtonCase:
    """What Newton is asked about a stage, and what it is to answer."""

    file: Path
    requests: list[dict[str, list[float]]]
    poses: list[dict[str, Array]]
    seen_from: dict[str, str | None]
    matrices: list[tuple[list[Coordinate], Array]]
    inertials: dict[str, Inertial | None]
    excuse: str = ""
    """What the robot has that Newton, or USD by the loss report, cannot have, if there is such a thing."""


def judge_openusd(file: Path) -> Verdict:
    """OpenUSD's own validators find nothing."""
    found = [str(d) for d in openusd_validation(file)]
    return Verdict("OpenUSD", "wrong" if found else "agrees", "; ".join(found[:3]))


def newton_case(described: Robot | World, file: Path, report: LossReport) -> NewtonCase:
    """What to ask Newton: our reading of the stage says which prim is which link and joint."""
    again = read(file, policy=collect)
    originals = described.robots if isinstance(described, World) else [described]
    copies = again.robots if isinstance(again, World) else [again]
    inertials = {link.origin.path: link.inertial for r in copies for link in r.links}
    case = NewtonCase(file, [], [], {}, [], inertials, _excuse(originals, report))
    for number in range(4):
        request: dict[str, list[float]] = {}
        poses: dict[str, Array] = {}
        names: list[Coordinate] = []
        blocks: list[Array] = []
        for original, copy in zip([r for r in originals if r.links], copies, strict=False):
            plan = configurations(original, seed=8)
            q = plan[min(number, len(plan) - 1)]
            _ask(original, copy, q, request, poses, case)
            own, block = _matrix(original, copy, q, report)
            names += own
            blocks.append(block)
        case.requests.append(request)
        case.poses.append(poses)
        case.matrices.append((names, _diagonal(blocks)))
    return case


def _excuse(robots: Sequence[Robot], report: LossReport) -> str:
    if any(loss.what == "the directions of its axes" for loss in report):
        return _SQUARE
    edges = [e for r in robots for e in r.tree().edges]
    if any(len(e.joints) > 1 for e in edges):
        return _STACKED
    slides_and_turns = (j for e in edges for j in e.joints if len({a.motion for a in j.moving_axes}) > 1)
    return _SLID if any(j.kind is not JointKind.FREE for j in slides_and_turns) else ""


def _ask(
    original: Robot,
    copy: Robot,
    q: Mapping[str, Array],
    request: dict[str, list[float]],
    poses: dict[str, Array],
    case: NewtonCase,
) -> None:
    path = {link.name: link.origin.path for link in copy.links}
    for name, pose in original.forward_kinematics(q).items():
        if name in path and not original.static:  # whose links are scenery in USD
            poses[path[name]] = pose
    case.seen_from |= {
        path[link]: None if anchor is None else path[anchor]
        for link, anchor in anchors(original).items()
        if link in path and (anchor is None or anchor in path)
    }
    own = joint_coordinates(copy.joints, {n: v for n, v in q.items() if _has(copy, n, v)})
    for joint in original.joints:
        place = next((j for j in copy.joints if j.name == joint.name), None)
        first = _first_of_stack(original, joint)
        if place is None or first is None or not joint.enabled:
            continue
        if first is not joint:  # Newton makes one joint of those that are stacked
            place = next(j for j in copy.joints if j.name == first.name)
        values = request.setdefault(place.origin.path, [])
        values += _positions(joint, own[joint.name])
    for path in [p for p, values in request.items() if not values]:
        del request[path]


def _first_of_stack(robot: Robot, joint: Joint) -> Joint | None:
    """The joint that others are stacked on; None for a joint that is on a free one."""
    edge = next((e for e in robot.tree().edges if joint in e.joints), None)
    if edge is None:
        return joint
    return None if any(j.kind is JointKind.FREE for j in edge.joints) else edge.joints[0]


def _has(robot: Robot, name: str, q: Array) -> bool:
    return any(j.name == name and j.n_qs == q.size for j in robot.joints)


def _positions(joint: Joint, q: Array) -> list[float]:
    """A joint's coordinates as Newton counts them: from where the frames coincide, quaternions x y z w."""
    if joint.kind is JointKind.SPHERICAL:
        return [*q[1:4].tolist(), float(q[0])]
    if joint.kind in (JointKind.FREE, JointKind.FIXED, JointKind.DISTANCE):
        return []
    folded = joint.n_dofs == 1 and not joint.stacked
    values = [float(v) - (0.0 if folded else axis.reference) for v, axis in zip(q, joint.moving_axes, strict=True)]
    if joint.kind is JointKind.SCREW:
        return [joint.pitch / (2 * np.pi) * (values[0] - joint.moving_axes[0].reference), *values]
    return [values[i] for i in _order(joint)]


def _order(joint: Joint) -> list[int]:
    """The moving axes in the order of USD: slides along x, y, z, then turns about x, y, z."""
    axes = map_axes_to_usd(joint)
    keys = [(a.motion is AxisMotion.ROTATION, axes.slots[i]) for i, a in enumerate(joint.axes) if not a.locked]
    return sorted(range(len(keys)), key=lambda i: keys[i])


def _matrix(original: Robot, copy: Robot, q: Mapping[str, Array], report: LossReport) -> tuple[list[Coordinate], Array]:
    mended = {x.name for x in report if x.kind == "link" and ("inertia" in x.what or "mass" in x.what)}
    inertials = {link.name: link.inertial for link in copy.links if link.name in mended}
    names, matrix = mass_matrix(original, q, inertials, armature=False)
    path = {j.name: j.origin.path for j in copy.joints}
    rows: list[Coordinate] = []
    joints = {j.name: j for j in original.joints}
    for joint, number in names:
        first = _first_of_stack(original, joints[joint])
        stack = next((e.joints for e in original.tree().edges if joints[joint] in e.joints), ())
        before = sum(j.n_dofs for j in stack[: stack.index(joints[joint])]) if len(stack) > 1 else 0
        place = "" if first is None else path.get(first.name, "")
        rows.append((place, before + _order(joints[joint]).index(number)))
    return rows, matrix


def _diagonal(blocks: Sequence[Array]) -> Array:
    size = sum(len(b) for b in blocks)
    result, here = np.zeros((size, size)), 0
    for block in blocks:
        result[here : here + len(block), here : here + len(block)] = block
        here += len(block)
    return result


# -- the answers ------------------------------------------------------------------------------------------------------


def judge_newton(cases: Sequence[NewtonCase]) -> list[Verdict]:
    """Newton's verdicts on many stages, asked in one process."""
    try:
        answers = newton([(case.file, case.requests) for case in cases])
    except OracleMissing as missing:
        return [Verdict("Newton", "absent", str(missing))] * len(cases)
    return [_verdict(case, answer) for case, answer in zip(cases, answers, strict=True)]


def _verdict(case: NewtonCase, answer: dict[str, Any]) -> Verdict:
    if "error" in answer:
        why = next((why for words, why in _LIMITS.items() if words in answer["error"]), "")
        return Verdict("Newton", "limited" if why else "wrong", why or answer["error"])
    if case.excuse and (set(answer["unknown"]) or "different anchor" in " ".join(answer["warnings"])):
        return Verdict("Newton", "limited", case.excuse)
    loose = _outside(answer)
    if set(answer["unknown"]) - loose.keys():
        return Verdict("Newton", "wrong", f"it has other coordinates for {', '.join(answer['unknown'][:3])}")
    poses = matrix = (0.0, "")
    rows = {(joint, axis): i for i, (joint, axis) in enumerate(answer["velocities"])}
    for number, seen in enumerate(answer["configurations"]):
        ours = {name: pose for name, pose in case.poses[number].items() if not (number and name in loose.values())}
        poses = worse(poses, pose_error(seen["poses"], ours, case.seen_from if number else {}))
        names, wanted = case.matrices[number]
        chosen = [i for i, name in enumerate(names) if name in rows]
        theirs = [rows[names[i]] for i in chosen]
        found = matrix_error(
            seen["mass_matrix"][np.ix_(theirs, theirs)], wanted[np.ix_(chosen, chosen)], [names[i] for i in chosen]
        )
        matrix = worse(matrix, found)
    result = verdict("Newton", poses, matrix, SINGLE)
    if result.state == "wrong" and case.excuse and (case.excuse != _SLID or poses[0] <= SINGLE):
        return Verdict("Newton", "limited", case.excuse)
    if result.state == "wrong" and poses[0] <= SINGLE:
        why = _why_heavier(case, answer)
        return Verdict("Newton", "limited", why, *poses[:1]) if why else result
    return replace_detail(result, _OUTSIDE if loose else "")


def _outside(answer: dict[str, Any]) -> dict[str, str]:
    """The joints that are in no articulation, each with the body that it would move."""
    held = {j["child"] for j in answer["joints"] if j["in_tree"]}
    loose = {j["name"]: j["child"] for j in answer["joints"] if not j["in_tree"] and j["child"] not in held}
    moved = set(loose.values())
    for joint in answer["joints"]:
        if joint["parent"] in moved:
            moved.add(joint["child"])
            loose[joint["name"]] = joint["child"]
    return loose


def _why_heavier(case: NewtonCase, answer: dict[str, Any]) -> str:
    """Why Newton's masses are others than those of the file; empty where they are the same."""
    reasons = []
    for body in answer["bodies"]:
        inertial = case.inertials.get(body["name"])
        mass, inertia = (0.0, np.zeros((3, 3))) if inertial is None else (inertial.mass, inertial.inertia)
        if not mass and (body["mass"] or inertia.any()):
            reasons.append(_NO_MASS)
        elif mass and np.abs(body["inertia"] - inertia).max() > SINGLE * np.abs(inertia).max():
            reasons.append(_MENDED)
    return reasons[0] if reasons else ""
