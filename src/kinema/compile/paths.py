"""Paths: lengths between places on links, for spatial tendons and for actuators that pull along no coordinate."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from kinema.description import Cylinder, JointKind, Sphere, Tendon, TendonPathItem, TendonPathKind
from kinema.foundation import Array, Pose
from kinema.model import Motion, PathsInfo

from .draft import Draft, DraftJoint, Piece, Spot
from .find import find_shape, find_spot

N_ENDS = 4
N_NUMBERS = 6
PULLED = 3
"""How many of a piece's ends are pulled on: all but the point beside which a shape is wrapped."""
NOWHERE = Spot(-1, Pose())


def new_path(draft: Draft, pieces: list[tuple[str, list[Spot], float, tuple[float, ...]]]) -> int:
    """Another path, of pieces: the kind of each, its ends, its factor and its numbers."""
    path = 1 + max((p.path for p in draft.pieces), default=-1)
    draft.pieces += [Piece(path, *piece) for piece in pieces]
    return path


def path_pattern(draft: Draft, path: int) -> Array:
    """Ones for the degrees of freedom that change a path's length."""
    moved = [_moves(draft, piece) for piece in draft.pieces if piece.path == path]
    return np.any(moved, axis=0).astype(np.float64) if moved else np.zeros(draft.n_dofs)


def is_in_branch(draft: Draft, ends: Sequence[Spot]) -> bool:
    """Whether whatever moves one of two ends moves the other as well: nothing in between is in two branches."""
    first, second = (set(_movers(draft, spot.frame)) for spot in ends)
    return first <= second or second <= first


def _moves(draft: Draft, piece: Piece) -> npt.NDArray[np.bool_]:
    """Those that move some of its ends, but not all of them alike."""
    own = [set(_movers(draft, spot.frame)) for spot in piece.ends[:PULLED]]
    result = np.zeros(draft.n_dofs, np.bool_)
    result[sorted(set.union(*own) - set.intersection(*own))] = True
    return result


def _movers(draft: Draft, frame: int) -> Iterator[int]:
    while frame != -1:
        parent, placed, joint = draft.frames[frame]
        first = draft.joints[joint].dof_start + placed.step.dof
        yield from range(first, first + (3 if placed.step.motion is Motion.BALL else 1))
        frame = parent


def pack_paths(draft: Draft) -> PathsInfo:
    """One row for each piece."""
    pieces, n = draft.pieces, len(draft.pieces)
    ends = [[*p.ends, *[NOWHERE] * (N_ENDS - len(p.ends))] for p in pieces]
    numbers = [[*p.numbers, *[0.0] * (N_NUMBERS - len(p.numbers))] for p in pieces]
    return PathsInfo(
        path_idx=np.array([p.path for p in pieces], np.int32),
        kinds=[p.kind for p in pieces],
        frame_idx=np.array([[e.frame for e in own] for own in ends], np.int32).reshape(n, N_ENDS),
        pos=np.array([[e.pose.position for e in own] for own in ends], np.float64).reshape(n, N_ENDS, 3),
        rot=np.array([[e.pose.rotation for e in own] for own in ends], np.float64).reshape(n, N_ENDS, 3, 3),
        factor=np.array([p.factor for p in pieces], np.float64),
        numbers=np.array(numbers, np.float64).reshape(n, N_NUMBERS),
        moves=np.array([_moves(draft, p) for p in pieces], np.bool_).reshape(n, draft.n_dofs),
    )


# ----------------------------------------------------------------------------------------------------------- tendons


def tendon_path(draft: Draft, entity: int, tendon: Tendon) -> int | None:
    """The path of a spatial tendon; None where it goes through something that is not there."""
    key = (entity, id(tendon))
    if key not in draft.paths_of_tendons:
        pieces = _pieces(draft, entity, tendon.path)
        if pieces is None:
            return None
        draft.paths_of_tendons[key] = new_path(draft, pieces)
    return draft.paths_of_tendons[key]


def _pieces(
    draft: Draft, entity: int, path: list[TendonPathItem]
) -> list[tuple[str, list[Spot], float, tuple[float, ...]]] | None:
    result: list[tuple[str, list[Spot], float, tuple[float, ...]]] = []
    before: Spot | None = None
    shape: TendonPathItem | None = None
    factor = 1.0
    for item in path:
        match item.kind:
            case TendonPathKind.PULLEY:
                before, shape, factor = None, None, 1.0 / item.coefficient
            case TendonPathKind.WRAP:
                shape = item
            case TendonPathKind.SITE:
                spot = find_spot(draft, entity, item.target)
                if spot is None:
                    return None
                if before is not None:
                    kind, more, numbers = ("straight", [], ()) if shape is None else _wrapped(draft, entity, shape)
                    if not kind:
                        return None
                    result.append((kind, [before, spot, *more], factor, numbers))
                before, shape = spot, None
            case TendonPathKind.JOINT:
                return None
    return result


def _wrapped(draft: Draft, entity: int, item: TendonPathItem) -> tuple[str, list[Spot], tuple[float, ...]]:
    """The kind of a piece that goes around a shape, what it has beside the two ends, and its numbers."""
    found, beside = find_shape(draft, entity, item.target), find_spot(draft, entity, item.side)
    if found is None or (item.side and beside is None) or not isinstance(found[1], Sphere | Cylinder):
        return "", [], ()
    (shape, geometry), radius = found, found[1].radius
    kind = "sphere" if isinstance(geometry, Sphere) else "cylinder"
    if beside is None:
        return kind, [shape], (radius,)
    side = "either"  # that may change, unless the two move together
    if beside.frame == shape.frame:
        away = np.linalg.norm(beside.pose.position - shape.pose.position)
        side = "inside" if away < radius else "beside"
    return f"{kind} {side}", [shape, beside], (radius,)


# --------------------------------------------------------------------------------------------------------- actuators


def joint_path(draft: Draft, joint: DraftJoint, gear: tuple[float, ...], *, in_parent: bool) -> int | None:
    """What an actuator on a ball or a free joint pulls along; None where the joint runs against the tree."""
    own = [i for i, (_, _, j) in enumerate(draft.frames) if draft.joints[j] is joint]
    first, last = draft.frames[own[0]], draft.frames[own[-1]]
    if last[1].step.inverted:
        return None
    ends = [Spot(own[-1], Pose()), Spot(first[0], first[1].start)]
    if joint.joint.kind is not JointKind.FREE:
        return new_path(draft, [("pose" if in_parent else "turn", ends, 1.0, (0.0, 0.0, 0.0, *gear[:3]))])
    if in_parent:
        return new_path(draft, [("push", ends, 1.0, gear)])
    pushed, turned = (*gear[:3], 0.0, 0.0, 0.0), (0.0, 0.0, 0.0, *gear[3:])
    return new_path(draft, [("push", ends, 1.0, pushed), ("thrust", ends, 1.0, turned)])
