"""What spatial tendons do to what a link carries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from kinema.trace import Place, Row, RowCode

from ..constrain.rows import Block, Rows
from ..constrain.tendons import (
    fill_tendon_friction,
    fill_tendon_limits,
    tendon_friction_blocks,
    tendon_limit_blocks,
)
from ..fields.situation import Situation
from ..force.paths import ENDS, PULLED, lengths_of
from ..force.pieces import PIECES
from ..sweeps.maths import add, cross, scale, sub
from .readings import Readings
from .tables import hanging_on
from .ties import row_forces

ALONG = ("straight", "sphere", "cylinder")
"""Kinds of pieces that tendons are made of."""


def add_tendons(
    now: Situation, readings: Readings, which: Sequence[int], sums: Mapping[int, Place], origin: Place
) -> None:
    """Add the torque about an origin, and the force, of tendons between what a reading's link carries and the rest."""
    s, info, ends = now.s, now.s.model.paths, _ends(now, readings, which)
    if not ends:
        return
    along = lengths_of(now)
    forces = _forces(now, sorted({int(info.path_idx[piece]) for _, piece, _ in ends}))
    table = []
    for i, piece, end in ends:
        pull = along.pulls[piece]
        own = {"sum": sums[i], "origin": origin, "about": pull["about"], "pull": pull[end]}
        table.append(Row("end", {**own, "force": forces[int(info.path_idx[piece])]}))
    s.loop("tendons that are felt", table, _add_pull)


def _ends(now: Situation, readings: Readings, which: Sequence[int]) -> list[tuple[int, int, str]]:
    """Readings, and the pieces of tendons and ends of them that are on what each carries."""
    model, info = now.s.model, now.s.model.paths
    result = []
    for i in (i for i in which if readings.info.item[i] >= 0):
        frames = carried_frames(now, int(readings.info.item[i]))
        for piece, kind in enumerate(info.kinds):
            if kind.startswith(ALONG):
                for k in range(min(PULLED, PIECES[kind][0])):
                    if int(info.frame_idx[piece, k]) in frames:
                        result.append((i, piece, ENDS[k]))  # noqa: PERF401  four loops do not read well as one
    return result if len(model.paths.kinds) else []


def carried_frames(now: Situation, link: int) -> set[int]:
    """The moving frames of all that a link carries; none where it sits rigidly on its parent, which shares one."""
    links = now.s.model.links
    parent = int(links.parent_idx[link])
    if parent >= 0 and links.frame_idx[link] == links.frame_idx[parent]:
        return set()
    return {int(f) for f in links.frame_idx[np.flatnonzero(hanging_on(now.s.model, link))]} - {-1}


def _forces(now: Situation, paths: Sequence[int]) -> dict[int, Place]:
    """The force along each path: of springs, dampers, actuators, limits and friction."""
    s, model = now.s, now.s.model
    sums = {path: s.take(1) for path in paths}
    s.loop("no pulls", [Row("sum", {"sum": x}) for x in sums.values()], lambda code: code.write("sum", [0.0]))
    table = []
    for pairs, info in ((now.tendons.pairs, model.tendons), (now.actuators.pairs, model.actuators)):
        for i, pair in pairs.items():
            if int(info.path_idx[i]) in sums:
                lever = float(next(x for x in info.moment[i] if x))
                table.append(Row("pull", {"sum": sums[int(info.path_idx[i])], "force": pair}, {"lever": [lever]}))
    table += _of_constraints(now, sums)
    s.loop("pulls along tendons that are felt", table, _add_force)
    return sums


def _of_constraints(now: Situation, sums: Mapping[int, Place]) -> list[Row]:
    """Rows for limits and friction of the tendons along these paths."""
    s, tendons, table = now.s, now.s.model.tendons, []

    def on_them(blocks: list[Block], word: str) -> list[Block]:
        return [b for b in blocks if int(tendons.path_idx[int(b.tells[word])]) in sums]  # type: ignore[call-overload]

    for word, asked, make, fill in (
        ("tendon limit", s.settings.limits, tendon_limit_blocks, fill_tendon_limits),
        ("tendon friction", s.settings.constraints, tendon_friction_blocks, fill_tendon_friction),
    ):
        blocks = on_them(make(s.model, s.nodes), word) if asked else []
        if not blocks:
            continue
        acceleration = now.acceleration
        rows = Rows(s, blocks)
        fill(now.known, rows)
        rows.set_targets()
        rows.product(acceleration, "residual")
        rows.each(f"forces of {word}s, measured", row_forces)
        for block, places in zip(blocks, rows.places, strict=True):
            path = int(tendons.path_idx[int(block.tells[word])])  # type: ignore[call-overload]
            own = {"sum": sums[path], "force": places["force"]}
            own |= {"sign": places["sign"]} if "sign" in places else {}
            table.append(Row("signed" if "sign" in places else "pull", own, {"lever": [1.0]}))
    return table


def _add_force(code: RowCode) -> None:
    force = code.number("lever") * code.read("force")
    code.write("sum", [code.read("sum") + (force * code.read("sign") if code.kind == "signed" else force)])


def _add_pull(code: RowCode) -> None:
    flat, arm = code.array("pull", 6), sub(code.array("about", 3), code.array("origin", 3))
    moved = [*add(flat[:3], cross(arm, flat[3:])), *flat[3:]]
    code.write("sum", add(code.array("sum", 6), scale(code.read("force"), moved)))
