"""What is measured of limits of joints and tendons: how far beyond they are, how fast, and how hard they push back.

Nothing is measured where a limit does not act.
"""

from __future__ import annotations

from kinema import trace
from kinema.trace import Row, RowCode, Value

from ..constrain.limits import fill_limits, limit_blocks
from ..constrain.rows import Block, Rows
from ..constrain.tendons import fill_tendon_limits, tendon_limit_blocks
from ..fields.situation import Situation
from .readings import Readings, tell
from .ties import row_forces

JOINTS = ("jointlimitpos", "jointlimitvel", "jointlimitfrc")
TENDONS = ("tendonlimitpos", "tendonlimitvel", "tendonlimitfrc")


def joint_limits(now: Situation, readings: Readings, which: list[int]) -> None:
    """Of joints."""
    if now.s.settings.limits:
        blocks = limit_blocks(now.s.model, now.s.nodes)
        own = {i: [b for b in blocks if readings.info.item[i] in b.dofs] for i in which}
        _tell(now, readings, own, joints=True)


def tendon_limits(now: Situation, readings: Readings, which: list[int]) -> None:
    """Of tendons."""
    if now.s.settings.limits:
        blocks = tendon_limit_blocks(now.s.model, now.s.nodes)
        own = {i: [b for b in blocks if b.tells["tendon limit"] == readings.info.item[i]] for i in which}
        _tell(now, readings, own, joints=False)


def _tell(now: Situation, readings: Readings, own: dict[int, list[Block]], *, joints: bool) -> None:
    s = now.s
    blocks = list({id(b): b for found in own.values() for b in found}.values())
    if not blocks:
        return
    acceleration = now.acceleration
    rows = Rows(s, blocks)
    (fill_limits if joints else fill_tendon_limits)(now.known, rows)
    rows.set_targets()
    rows.product(acceleration, "residual")
    rows.each("forces of limits, measured", row_forces)
    number = {id(b): i for i, b in enumerate(blocks)}
    table = []
    for i, found in own.items():
        if not found:
            continue
        sides = [rows.places[number[id(b)]] for b in found]
        words = {f"{name} {k}": side[name] for k, side in enumerate(sides) for name in _TOLD}
        row = readings.plain(i, words)
        margins = {"margin": [found[0].margin]}
        table.append(Row((row.kind, len(sides)), row.places, {**row.numbers, **margins}))
    s.loop("limits that are measured", table, _tell_first)


_TOLD = ("position", "speed", "force")


def _tell_first(code: RowCode) -> None:
    """Of the first limit that acts."""
    kind, n = code.kind  # type: ignore[misc]
    margin = code.number("margin")
    which = {"pos": "position", "vel": "speed", "frc": "force"}[kind.name[-3:]]
    told: Value = 0.0
    for k in reversed(range(n)):
        position = code.read(f"position {k}")
        value = position - margin if which == "position" else code.read(f"{which} {k}")
        told = trace.select(position, margin, value, told)
    tell(code, [told], kind)
