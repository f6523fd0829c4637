"""What is asked of every judge, and how answers are compared."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from kinema.core import Array, Pose, axis_angle_to_matrix
from kinema.description import Axis, AxisMotion, Base, Inertial, Joint, JointKind, Robot, TreeEdge, joint_transform

from ..robots.configurations import random_coordinates, rest_coordinates

JUDGES: dict[str, tuple[str, ...]] = {
    "urdf": ("check_urdf", "Pinocchio", "MuJoCo", "yourdfpy"),
    "sdf": ("libsdformat", "Drake"),
    "mjcf": ("MuJoCo",),
    "usd": ("OpenUSD", "Newton"),
}
"""Who is asked about the files of a format."""
TOLERANCE = 1e-6
"""[m], [rad], and relative, of masses and mass matrices."""
NEXT_TO_NOTHING = 1e-12
"""An inertia [kg m2] or mass [kg]."""
N_CONFIGURATIONS = 3
"""Random ones, beside the zero configuration."""
_SIMPLE = {JointKind.REVOLUTE, JointKind.CONTINUOUS, JointKind.PRISMATIC}
_SIMPLE |= {JointKind.CYLINDRICAL, JointKind.PLANAR, JointKind.UNIVERSAL, JointKind.SIX_AXIS}
"""Kinds of joints whose motion is that of their axes, one after the other."""

Coordinate = tuple[str, int]
"""A joint, and which of its coordinates."""


@dataclass(frozen=True)
class Verdict:
    """What a judge said of one file."""

    judge: str
    state: str
    """`agrees`, `limited` (refused, for a limit of the judge or a fault of the robot), `wrong` or `absent`."""
    detail: str = ""
    pose_error: float = 0.0
    """The greatest distance of a link from its place [m or rad]."""
    matrix_error: float = 0.0
    """The greatest error of the mass matrix, relative to the inertias of the two coordinates."""


@dataclass
class Judged:
    """All verdicts on one file in one format."""

    verdicts: list[Verdict] = field(default_factory=list)


def configurations(robot: Robot, seed: int) -> list[dict[str, Array]]:
    """The zero configuration and some random ones: coordinates of every joint; what is free stays where it is."""
    generator = np.random.default_rng(seed)
    moved = range(0 if robot.static else N_CONFIGURATIONS)
    return [rest_coordinates(robot), *(random_coordinates(robot, generator, 1.5, free=False) for _ in moved)]


# -- poses ------------------------------------------------------------------------------------------------------------


def anchors(robot: Robot) -> dict[str, str | None]:
    """The link that each link is seen from: the nearest one below it that is free, or None for the world."""
    tree = robot.tree()
    held = robot.static or robot.base is Base.FIXED
    result: dict[str, str | None] = {root: None if held else root for root in tree.roots}
    for edge in tree.edges:
        if any(j.kind is JointKind.FREE for j in edge.joints):
            result[edge.child] = edge.child
        else:
            result[edge.child] = None if edge.parent is None else result[edge.parent]
    return result


def pose_error(
    theirs: Mapping[str, Array], ours: Mapping[str, Array], seen_from: Mapping[str, str | None]
) -> tuple[float, str]:
    """How far [m or rad] the judge has a link from its place, at most, and which link.

    Distances are counted against the size of the whole, where it is greater than a metre.
    """
    worst, where = 0.0, ""
    size = max([1.0, *(float(np.abs(p[:3, 3]).max()) for p in ours.values())])
    for name, wanted in ours.items():
        if name not in theirs:
            return np.inf, f'there is no link "{name}"'
        seen, anchor = theirs[name], seen_from.get(name)
        if anchor is not None:
            seen, wanted = np.linalg.inv(theirs[anchor]) @ seen, np.linalg.inv(ours[anchor]) @ wanted
        off = float(np.abs(seen - wanted).max()) / size
        if not off <= worst:
            worst, where = off, f'the link "{name}"'
    return worst, where


# -- mass matrices ----------------------------------------------------------------------------------------------------


def mass_matrix(
    robot: Robot,
    coordinates: Mapping[str, Array],
    inertials: Mapping[str, Inertial | None] | None = None,
    *,
    armature: bool,
) -> tuple[list[Coordinate], Array]:
    """M(q) of all coordinates of the tree that are those of an axis, from the lines that they move along."""
    tree = robot.tree()
    poses = robot.link_poses(coordinates)
    given = inertials or {}
    masses = {link.name: given.get(link.name, link.inertial) for link in robot.links}
    solid = [(name, x) for name, x in masses.items() if x is not None]
    index = {name: i for i, (name, _) in enumerate(solid)}
    below = _below(tree.edges)
    names: list[Coordinate] = []
    rotors: list[float] = []
    columns: list[Array] = []
    for edge in tree.edges:
        base = robot.pose if edge.parent is None else poses[edge.parent]
        for joint, number, axis, frame in _axes(edge, base, poses[edge.child], coordinates):
            sign = -1.0 if edge.reversed else 1.0
            names.append((joint.name, number))
            rotors.append(axis.armature)
            column = np.zeros((len(solid), 6))
            direction = sign * (frame.rotation @ axis.direction)
            for name in below[edge.child]:
                inertial = masses[name]
                if inertial is None:
                    continue
                if axis.motion is AxisMotion.TRANSLATION:
                    column[index[name], :3] = direction
                else:
                    arm = poses[name].apply(inertial.center) - frame.position
                    column[index[name]] = [*np.cross(direction, arm), *direction]
            columns.append(column)
    moved = np.array(columns).reshape(len(columns), len(solid), 6)
    tensors = np.array([poses[n].rotation @ x.inertia @ poses[n].rotation.T for n, x in solid]).reshape(-1, 3, 3)
    weights = np.array([x.mass for _, x in solid])
    matrix = np.einsum("ilx,l,jlx->ij", moved[..., :3], weights, moved[..., :3], optimize=True)
    matrix = matrix + np.einsum("ilx,lxy,jly->ij", moved[..., 3:], tensors, moved[..., 3:], optimize=True)
    return names, matrix + (np.diag(rotors) if armature else 0.0)


def _below(edges: Sequence[TreeEdge]) -> dict[str, list[str]]:
    """Each link with all that hang on it."""
    result: dict[str, list[str]] = {}
    for edge in reversed(edges):
        result.setdefault(edge.child, []).append(edge.child)
        if edge.parent is not None:
            result.setdefault(edge.parent, []).extend(result[edge.child])
    return result


def _axes(
    edge: TreeEdge, parent: Pose, child: Pose, coordinates: Mapping[str, Array]
) -> Iterator[tuple[Joint, int, Axis, Pose]]:
    """The axes that an edge moves along, each with the frame in the world in which its direction is given."""
    here = child if edge.reversed else parent
    for number, joint in enumerate(edge.joints):
        frame = here @ (joint.child_pose if number else joint.parent_pose)
        q = coordinates[joint.name]
        if joint.kind in _SIMPLE:
            for i, axis in enumerate(joint.moving_axes):
                yield joint, i, axis, frame
                frame = frame @ _along(axis, float(q[i]) - axis.reference)
        else:
            frame = frame @ joint_transform(joint, q)
        here = frame @ joint.child_pose.inverse()


def _along(axis: Axis, value: float) -> Pose:
    if axis.motion is AxisMotion.ROTATION:
        return Pose(rotation=axis_angle_to_matrix(axis.direction, value))
    return Pose.translation(value * axis.direction)


def matrix_error(theirs: Array, ours: Array, names: Sequence[object]) -> tuple[float, str]:
    """The greatest error of an entry, relative to the inertias of its two coordinates, and where it is.

    Coordinates that move nothing with a mass, or next to nothing, are left out: judges give such links a little.
    """
    heavy = np.diag(ours) > NEXT_TO_NOTHING
    if not heavy.any():
        return 0.0, ""
    theirs, ours = theirs[np.ix_(heavy, heavy)], ours[np.ix_(heavy, heavy)]
    names = [name for name, chosen in zip(names, heavy, strict=True) if chosen]
    scale = np.sqrt(np.diag(ours))
    off = np.abs(theirs - ours) / np.outer(scale, scale)
    i, j = np.unravel_index(int(np.argmax(np.where(np.isnan(off), np.inf, off))), off.shape)
    return float(off[i, j]), f"its mass matrix at {names[int(i)]} and {names[int(j)]}"


def verdict(judge: str, poses: tuple[float, str], matrix: tuple[float, str], tolerance: float = TOLERANCE) -> Verdict:
    """Whether a judge agrees, by the greatest errors that were found."""
    found = [f"{where} is off by {off:.2g}" for off, where in (poses, matrix) if not off <= tolerance]
    return Verdict(judge, "wrong" if found else "agrees", "; ".join(found), poses[0], matrix[0])


def replace_detail(verdict: Verdict, note: str) -> Verdict:
    """The verdict with a note to it, where it is good."""
    return replace(verdict, detail=note) if verdict.state == "agrees" else verdict


def worse(a: tuple[float, str], b: tuple[float, str]) -> tuple[float, str]:
    """The greater of two errors."""
    return a if not a[0] <= b[0] else b
