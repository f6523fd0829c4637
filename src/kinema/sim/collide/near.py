"""Which pairs of shapes may touch: by what is around both, then, where there is a formula, by themselves."""

from __future__ import annotations

from dataclasses import replace

from kinema import trace
from kinema.trace import RowCode, Value

from ..arrays import UNLIMITED
from ..sweeps.maths import Vector, add, dot, rotate, sub
from .boxes_around import ROUNDING, boxed, gap, half_extents
from .pair_rows import LookKind
from .pairs import FORMULAS
from .solid import Grid, Hull, Samples, Solid, Work


def kind_of(code: RowCode) -> LookKind:
    """The kind of a row."""
    assert isinstance(code.kind, LookKind)
    return code.kind


def own_numbers(code: RowCode, word: str, count: int) -> list[Value]:
    """Numbers of a pair: of this environment, or of all of them."""
    return code.array(word, count) if word in kind_of(code).own else list(code.numbers(word))


def is_near(code: RowCode) -> tuple[Value, Value]:
    """Two numbers of which the first is smaller where what is around both shapes overlaps."""
    far, limit = by_spheres(code)
    if not boxed(kind_of(code).kinds):
        return far, limit
    between = code.recorder.where("boxes", far, limit, lambda: [_between_boxes(code)], [1.0])
    return between[0], 0.0


def by_spheres(code: RowCode) -> tuple[Value, Value]:
    """The same of spheres alone."""
    kinds, margin = kind_of(code).kinds, code.number("margin")
    centers = [_center(code, word, name) for word, name in zip(("a", "b"), kinds, strict=True)]
    apart, radius = sub(centers[1], centers[0]), own_numbers(code, "b radius", 1)[0]
    if kinds[0] == "plane":
        normal = [code.read("a", 5), code.read("a", 8), code.read("a", 11)]
        return dot(apart, normal), radius + margin
    reach = own_numbers(code, "a radius", 1)[0] + radius + margin
    return dot(apart, apart), reach * trace.absolute(reach)


def by_shapes(code: RowCode) -> tuple[Value, Value]:
    """The same of shapes that touch, where there is a formula; else of boxes around them where the search is dear."""
    kind, recorder, margin = kind_of(code), code.recorder, code.number("margin")
    if boxed(kind.kinds):
        return _between_boxes(code), 0.0
    if kind.kinds not in FORMULAS:
        return 0.0, 1.0
    least = recorder.local(1)

    def put(distance: Value) -> None:
        recorder.write(least, [distance])
        recorder.new_line()  # what a line reads is what was there before

    def note(distance: Value, point: Vector, normal: Vector, along: Vector | None = None) -> None:
        del point, normal, along  # only a contact needs these
        put(trace.minimum(recorder.read(least), distance))

    put(UNLIMITED)

    FORMULAS[kind.kinds].touch(Work(recorder, margin, note), *both_solids(code, kind))
    return recorder.read(least), margin


def _between_boxes(code: RowCode) -> Value:
    """How far the boxes around both shapes are apart, beyond what is near."""
    margin = code.number("margin")
    reach = own_numbers(code, "a radius", 1)[0] + own_numbers(code, "b radius", 1)[0] + margin
    named = zip(("a", "b"), kind_of(code).kinds, strict=True)
    return gap(*(_box(code, *x) for x in named)) - (margin + ROUNDING * reach)


def _box(code: RowCode, word: str, name: str) -> Solid:
    """Around a shape."""
    solid = _solid(code, word, name)
    if name != "mesh":
        return replace(solid, size=half_extents(name, solid.size))
    numbers = code.numbers(f"{word} box")
    middle = add(solid.position, rotate(solid.rotation, numbers[:3]))
    return replace(solid, position=middle, size=numbers[3:])


def _center(code: RowCode, word: str, name: str) -> Vector:
    """Of the sphere around a shape."""
    position = code.array(word, 3)
    if name not in ("mesh", "height field", "distance field"):
        return position
    return add(position, rotate(_solid(code, word, name).rotation, code.numbers(f"{word} center")))


def _solid(code: RowCode, word: str, name: str) -> Solid:
    flat = code.array(word, 12)
    rotation = [flat[3 * i : 3 * i + 3] for i in range(1, 4)]
    solid = Solid(flat[:3], rotation, own_numbers(code, f"{word} size", 3))

    def read(index: Value) -> Value:
        return code.recorder.read("shape_numbers", 0, index)

    first, one, two, extent = code.numbers(f"{word} numbers")
    if name == "mesh":
        return replace(solid, hull=Hull(read, first, one, two, extent))
    if name == "distance field":
        return replace(solid, samples=Samples(read, first, one, extent))
    return replace(solid, grid=Grid(read, first, one, two)) if name == "height field" else solid


def both_solids(code: RowCode, kind: LookKind) -> tuple[Solid, Solid]:
    """The two shapes, where they are."""
    a, b = (_solid(code, word, name) for word, name in zip(("a", "b"), kind.kinds, strict=True))
    return a, b
