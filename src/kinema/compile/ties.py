"""What holds links together beside the tree: constraints of the files, joints that close loops."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from kinema.description import Constraint, ConstraintKind, SolverParameters
from kinema.foundation import Array, Pose
from kinema.model import TiesInfo

from .breaking import NEVER, may_break
from .draft import Body, Draft
from .find import all_of
from .loops import Loop, find_end, in_world, loops_of
from .options import switches_of
from .pack import DEFAULT_SOLIMP, DEFAULT_SOLREF

HARD = SolverParameters(solref=(1e-9, 1.0), solimp=(0.9999, 0.9999, 0.001, 0.5, 2.0))
"""As hard as a step can carry (a time constant is never below two steps): mimics and loops of formats that know
nothing of softness. Its impedance does not rise with distance: what cannot be reached would pull joints apart."""


@dataclass(frozen=True, slots=True, eq=False)
class _Tie:
    name: str
    parts: tuple[str, ...]
    a: Body | None
    b: Body | None
    pose_a: Pose
    pose_b: Pose
    solver: SolverParameters
    torque_scale: float = 1.0
    pitch: float = 0.0
    breaks_at: tuple[float, float] = (np.inf, np.inf)
    active: bool = True


def pack_ties(draft: Draft) -> TiesInfo:
    """One row for each pair of links that are held together."""
    found = [(entity, tie) for entity in range(len(draft.parts)) for tie in _ties(draft, entity)]
    draft.breakable = {(e, tie.name): i for i, (e, tie) in enumerate(found) if min(tie.breaks_at) < np.inf}
    ties = [tie for _, tie in found]
    n = len(ties)

    def ends(side: str) -> tuple[list[int], list[int], Array, Array]:
        bodies, poses = [getattr(t, side) for t in ties], [getattr(t, f"pose_{side}") for t in ties]
        placed = [p if b is None else b.place @ p for b, p in zip(bodies, poses, strict=True)]
        return (
            [-1 if b is None else b.index for b in bodies],
            [-1 if b is None else b.frame for b in bodies],
            np.array([p.position for p in placed], np.float64).reshape(n, 3),
            np.array([p.rotation for p in placed], np.float64).reshape(n, 3, 3),
        )

    (link_a, frame_a, pos_a, rot_a), (link_b, frame_b, pos_b, rot_b) = ends("a"), ends("b")
    return TiesInfo(
        names=[t.name for t in ties],
        parts=[t.parts for t in ties],
        link_a=np.array(link_a, np.int32),
        link_b=np.array(link_b, np.int32),
        frame_a=np.array(frame_a, np.int32),
        frame_b=np.array(frame_b, np.int32),
        pos_a=pos_a,
        pos_b=pos_b,
        rot_a=rot_a,
        rot_b=rot_b,
        torque_scale=np.array([t.torque_scale for t in ties], np.float64),
        pitch=np.array([t.pitch for t in ties], np.float64),
        solref=np.array([t.solver.solref or DEFAULT_SOLREF for t in ties], np.float64).reshape(n, 2),
        solimp=np.array([t.solver.solimp or DEFAULT_SOLIMP for t in ties], np.float64).reshape(n, 5),
        hard=np.array([t.solver is HARD for t in ties], np.bool_),
        weight=np.ones((n, 2)),
        active=np.array([t.active for t in ties], np.bool_),
        break_force=np.array([t.breaks_at[0] for t in ties], np.float64),
        break_torque=np.array([t.breaks_at[1] for t in ties], np.float64),
    )


def _ties(draft: Draft, entity: int) -> Iterator[_Tie]:
    kinds = {ConstraintKind.CONNECT: ("point",), ConstraintKind.WELD: ("point", "rotation")}
    for constraint in active_constraints(draft, entity):
        if constraint.kind in kinds:
            a, b = (find_end(draft, entity, name) for name in (constraint.a, constraint.b))
            pose_a, pose_b = (
                in_world(draft, entity, end, p) for end, p in ((a, constraint.pose_a), (b, constraint.pose_b))
            )
            parts, weight = kinds[constraint.kind], constraint.torque_scale
            soft, on = constraint.solver, constraint.active
            yield _Tie(constraint.name, parts, a, b, pose_a, pose_b, soft, weight, active=on)
    for loop in loops_of(draft, entity):
        yield from _closing(draft, loop)


def active_constraints(draft: Draft, entity: int) -> list[Constraint]:
    """Those of a part that hold, or may be switched on."""
    description = draft.parts[entity].description
    if not switches_of(description).equality:
        return []
    return [c for c in all_of(description, "constraints") if c.active or draft.switchable]


def _closing(draft: Draft, loop: Loop) -> Iterator[_Tie]:
    joint = loop.joint
    if loop.parts is None:
        draft.diagnostics.warning(
            "sim.loop",
            f'joint "{joint.name}" ({joint.kind.value}) does not close its loop: what it leaves free is not along axes '
            "that are at right angles to each other",
            origin=joint.origin,
        )
    if loop.parts or (loop.parts is not None and may_break(joint)):
        at = [x if x < NEVER else np.inf for x in (joint.break_force, joint.break_torque)]
        yield _Tie(joint.name, loop.parts, *loop.ends, *loop.poses, HARD, pitch=loop.pitch, breaks_at=(at[0], at[1]))
