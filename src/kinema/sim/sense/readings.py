"""The readings of a model as rows of loops: where their numbers go, and how they are cut off."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kinema import trace
from kinema.model import ReadingsInfo
from kinema.trace import Place, RowCode, Value

from ..rigid.kinematics import Pose
from ..sweeps.columns import PartRow
from ..sweeps.maths import add, product, rotate
from ..sweeps.quantities import Quantity
from ..sweeps.sweeps import Sweeps
from ..sweeps.tree import Ref, frame_ref

ARRAY = "reading"
"""The array of all numbers."""
HERE, THERE = frame_ref("here "), frame_ref("there ")
"""The frame of what is looked at, and of what it is seen from, in the code of a reading."""


@dataclass(frozen=True, slots=True)
class ReadingKind:
    """What decides which code a reading runs."""

    name: str
    cut: str
    """`both` for numbers that are cut off above and below, `above`, or empty."""
    relative: bool = False
    words: tuple[object, ...] = ()
    n_numbers: int = 0


class Readings:
    """All readings of a model."""

    def __init__(self, s: Sweeps) -> None:
        self.s = s
        self.info: ReadingsInfo = s.model.sensors.readings

    def which(self, *kinds: str) -> list[int]:
        """The numbers of all readings of some kinds."""
        return [i for i, kind in enumerate(self.info.kinds) if kind in kinds]

    def place(self, i: int) -> Place:
        """Where the numbers of a reading go."""
        first = self.s.places[self.s.prefix + ARRAY]
        return Place(first.arena, first.row + int(self.info.start[i]))

    def kind(self, i: int, *words: object) -> ReadingKind:
        """Which code it runs."""
        info = self.info
        cut = "" if info.cutoff[i] <= 0 else "above" if info.positive[i] else "both"
        return ReadingKind(info.kinds[i], cut, bool(info.relative[i]), (*info.words[i], *words), len(info.numbers[i]))

    def row(
        self,
        i: int,
        own: Mapping[str, Place] | None = None,
        targets: Mapping[str, Ref] | None = None,
        numbers: Mapping[str, Sequence[float]] | None = None,
        *words: object,
    ) -> PartRow:
        """A row of a reading, whose code knows where it is and what it is seen from."""
        info = self.info
        frames = {str(word.index): frame_ref(int(info.frame_idx[i, k])) for k, word in enumerate((HERE, THERE))}
        told = {f"{word} pos": info.pos[i, k].tolist() for k, word in enumerate(("here", "there"))}
        told |= {f"{word} rot": info.rot[i, k].ravel().tolist() for k, word in enumerate(("here", "there"))}
        told |= {"cutoff": [float(info.cutoff[i])], "numbers": list(info.numbers[i])}
        return self.s.row(
            self.kind(i, *words),
            {**frames, **(targets or {})},
            {ARRAY: self.place(i), **(own or {})},
            {**told, **(numbers or {})},
        )

    def plain(self, i: int, own: Mapping[str, Place]) -> PartRow:
        """A row of a reading that is nowhere in particular."""
        cutoff = {"cutoff": [float(self.info.cutoff[i])]}
        return self.s.row(self.kind(i), {}, {ARRAY: self.place(i), **own}, cutoff)


def pose_of(code: RowCode, frames: Quantity[Pose], ref: Ref) -> Pose:
    """Where the thing of a row is that sits in one of its two frames."""
    word, at = str(ref.index).strip(), frames[ref]
    flat = code.numbers(f"{word} rot")
    own = [flat[3 * i : 3 * i + 3] for i in range(3)]
    return Pose(product(at.rotation, own), add(at.position, rotate(at.rotation, code.numbers(f"{word} pos"))))


def tell(code: RowCode, values: Sequence[Value], kind: ReadingKind | None = None) -> None:
    """The numbers of a reading, cut off where that is asked for; its kind where that is not all that the row's is."""
    kind = kind or code.kind  # type: ignore[assignment]
    assert isinstance(kind, ReadingKind)
    code.write(ARRAY, cut_off(code, kind, values))


def cut_off(code: RowCode, kind: ReadingKind, values: Sequence[Value]) -> Sequence[Value]:
    """Numbers that are not too large, nor too far below zero."""
    if not kind.cut:
        return values
    most = code.number("cutoff")
    values = [trace.minimum(x, most) for x in values]
    return [trace.maximum(x, -most) for x in values] if kind.cut == "both" else values
