"""Falling asleep: islands of which nothing has moved for a while."""

from __future__ import annotations

from kinema import trace
from kinema.trace import SCRATCH, Place, Row, RowCode, Value

from ..arrays import Owner
from ..sweeps.idle import IDLE, trees_of_frames
from ..sweeps.sweeps import Sweeps
from ..sweeps.trees import PerTree, each_tree
from .policy import NEVER, lengths, policies

LONG_ENOUGH = 10.0
"""Steps that all of an island is still, before it sleeps: MuJoCo's."""


def fall_asleep(s: Sweeps, islands: PerTree) -> None:
    """Note who was still, and put islands to sleep that all were for long enough."""
    assert s.idle is not None
    idle, speeds, ready = s.idle, PerTree(s), s.take_fixed(1)
    s.recorder.write(SCRATCH, [0.0], ready.row)
    each_tree(s, "no speeds yet", lambda t: {"speed": speeds.of(t)}, lambda code: code.write("speed", [0.0]))
    trees, reach = trees_of_frames(s.model), lengths(s.model)
    rows = [
        Row(
            "dof",
            {**s.arrays_of_dof(d), **s.mark_of(node.index), "speed": speeds.of(trees[node.index])},
            {"length": [float(reach[d])]},
        )
        for node in s.nodes
        for d in node.dofs
    ]

    def fastest(code: RowCode) -> None:
        own = trace.absolute(code.read("vel")) * code.number("length")
        code.write("speed", [trace.maximum(code.read("speed"), own)])

    with s.staying():
        s.loop("speeds of trees", rows, fastest)

    policy = policies(s.model)

    def of_tree(tree: int) -> dict[str, Place]:
        own = {"speed": speeds.of(tree), "island": islands.of(tree), "ready": ready, IDLE: idle.of(tree)}
        return {**own, **s.arrays_of(Owner.TREE, tree)}

    rows = [Row("never" if policy[t] == NEVER else "may", of_tree(t), {"tree": [float(t)]}) for t in s.trees]

    def note(code: RowCode) -> None:
        if code.kind == "never":
            code.write("still", [0.0])
            return
        still = trace.select(code.read("speed"), s.settings.sleep, code.read("still") + 1.0, 0.0)
        code.write("still", [still])
        code.write("ready", [code.read("ready") + trace.select(still, LONG_ENOUGH - 0.5, 0.0, 1.0)])

    with s.staying():
        s.loop("who was still", rows, note)
    s.where("somebody was for long", s.recorder.read(SCRATCH, ready.row), lambda: _put_to_sleep(s, islands))


def _put_to_sleep(s: Sweeps, islands: PerTree) -> None:
    assert s.idle is not None
    idle = s.idle
    restless = PerTree(s)
    each_tree(s, "nobody is restless", lambda t: {"it": restless.of(t)}, lambda code: code.write("it", [0.0]))

    def places(tree: int) -> dict[str, Place]:
        own = {"island": islands.of(tree), "restless": restless.first, IDLE: idle.of(tree)}
        return {**own, **s.arrays_of(Owner.TREE, tree)}

    def stir(code: RowCode) -> None:
        def moved() -> list[Value]:
            code.recorder.write("restless", [1.0], 0, code.read("island"))
            return []

        code.recorder.where("restless", code.read("still"), LONG_ENOUGH - 0.5, moved, [])

    each_tree(s, "who is restless", places, stir)

    def sleep(code: RowCode) -> None:
        island = code.read("island")
        sleeps = trace.select(code.recorder.read("restless", 0, island), 0.5, island + 1.0, 0.0)
        code.write("asleep", [sleeps])

    each_tree(s, "who falls asleep", places, sleep)
    _note_state(s)


def _note_state(s: Sweeps) -> None:
    """What was when trees fell asleep; they stop, and changes to it will wake them."""
    assert s.idle is not None
    trees, idle = trees_of_frames(s.model), s.idle

    def row(kind: str, tree: int, **places: Place) -> Row:
        own = {"asleep": s.arrays_of(Owner.TREE, tree)["asleep"], IDLE: idle.of(tree)}
        return Row((kind, *(place.arena for place in places.values())), {**own, **places})

    rows: list[Row] = []
    for node in s.nodes:
        for q in node.qs:
            own = s.arrays_of(Owner.COORDINATE, q)
            rows.append(row("note", trees[node.index], now=own["qpos"], before=own["slept_qpos"]))
        for dof in node.dofs:
            own = s.arrays_of(Owner.DOF, dof)
            rows.append(row("stop", trees[node.index], before=own["vel"]))
            rows.append(row("note", trees[node.index], now=own["command"], before=own["slept_command"]))
    for actuator, moment in enumerate(s.model.actuators.moment):
        own = s.arrays_of(Owner.ACTUATOR, actuator)
        driven = {trees[int(s.model.dofs.frame_idx[d])] for d in moment.nonzero()[0]}
        rows += [row("note", tree, now=own["ctrl"], before=own["slept_ctrl"]) for tree in driven]
    own = s.arrays_of(Owner.ENVIRONMENT, 0)
    for tree in s.trees:
        for i in range(3):
            now, before = (Place(own[n].arena, own[n].row + i) for n in ("gravity", "slept_gravity"))
            rows.append(row("note", tree, now=now, before=before))

    def body(code: RowCode) -> None:
        def keep() -> list[Value]:
            code.write("before", [0.0 if "stop" in str(code.kind) else code.read("now")])
            return []

        code.recorder.where("asleep", 0.5, code.read("asleep"), keep, [])

    with s.staying():
        s.loop("as it was when they fell asleep", rows, body)
