"""Islands: trees that touch, or are tied to each other. Each has the number of its first tree."""

from __future__ import annotations

from collections.abc import Iterable

from kinema import trace
from kinema.trace import SCRATCH, Place, Row, RowCode, Value

from ..collide.planned import SetKind
from ..collide.touches import Among, Touches
from ..sweeps.idle import trees_of_frames
from ..sweeps.sweeps import Sweeps
from ..sweeps.tree import WORLD
from ..sweeps.trees import PerTree, each_tree


def trees_of(s: Sweeps, frames: Iterable[int]) -> list[int]:
    """The trees of some frames, but for the world."""
    known = trees_of_frames(s.model)
    return [known[frame] for frame in frames if frame != WORLD]


def find_islands(s: Sweeps, touches: Touches | None, tied: Iterable[Iterable[int]]) -> PerTree:
    """Of each tree the number of its island; `tied` are degrees of freedom that constraints hold together."""
    numbers, changed = PerTree(s), s.take_fixed(1)
    each_tree(s, "islands of one", lambda t: {"island": numbers.of(t)}, lambda c: c.write("island", [c.number("tree")]))
    of_dofs = [trees_of_frames(s.model)[frame] for frame in s.model.dofs.frame_idx.tolist()]
    pairs = sorted({(of_dofs[group[0]], of_dofs[d]) for group in map(list, tied) for d in group})
    known = [Row("tie", _ends(numbers, a, b, changed)) for a, b in pairs if a != b]
    rows = []
    for touch in [] if touches is None else touches.among(Among.FRAMES):
        assert touches is not None
        one, other = trees_of(s, touch.plan.frames)
        rows.append(touches.row(touch, _ends(numbers, one, other, changed)))

    def join(code: RowCode) -> None:
        a, b = code.read("one"), code.read("other")
        both = trace.minimum(a, b)
        code.write("one", [both])
        code.write("other", [both])
        code.write("changed", [code.read("changed") + trace.absolute(a - b)])

    def joined(code: RowCode, _: SetKind) -> None:
        join(code)

    def again() -> tuple[Value, Value]:
        s.recorder.write(SCRATCH, [0.0], changed.row)
        with s.staying():
            s.loop("islands that are tied", known, join)
        if touches is not None:
            touches.each("islands that touch", joined, rows, Among.FRAMES)
        return 0.5, s.recorder.read(SCRATCH, changed.row)

    if known or rows:
        s.repeat("islands", again, len(s.trees) + 1)
    return numbers


def _ends(numbers: PerTree, a: int, b: int, changed: Place) -> dict[str, Place]:
    return {"one": numbers.of(a), "other": numbers.of(b), "changed": changed}
