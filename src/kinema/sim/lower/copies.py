"""Loops over copies: parts of a model that are stepped by the same straight line, each with its own state.

A hundred arms of one kind, or a hundred free bodies, are stepped by the unrolled step of one, which a loop applies to
each of them. Numbers in which they differ, such as masses, are read from a table; all others stay folded.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from typing import Any

import numpy as np

from kinema.model import FluidInfo, Model
from kinema.trace import Place, Recorder, Row, RowCode, Value, record_loop, unroll

from ..arrays import ARRAYS, BY_NAME, Owner, Use
from ..constrain.limits import limit_blocks
from ..settings import Settings
from ..stages import take
from ..step import Step
from ..sweeps.rows import FrameKind, FrameNumbers, link_numbers
from ..sweeps.sweeps import Sweeps
from ..sweeps.tree import WORLD, Tree
from .components import Component
from .programs import named

MAY_DIFFER = ("position", "rotation", "inertia", "armature", "damping")
"""Numbers that copies may have their own of: the code reads them from a table where they do."""
INPUTS = frozenset(info.name for info in ARRAYS if info.use is Use.INPUT)


def record_copies(
    recorder: Recorder,
    model: Model,
    settings: Settings,
    places: Mapping[str, Place],
    parts: Sequence[Component],
    tree: Tree,
) -> None:
    """Step all of some parts, which have the same signature; `tree` is the whole model's."""
    first, settings = parts[0], replace(settings, roles=1, islands=False, team=False)
    of_frames = FrameNumbers(model)
    known = [_numbers(of_frames, settings, tree, part) for part in parts]
    differ = [name for name, values in known[0].items() if any(other[name] != values for other in known)]
    starts = {array: _start(array, first) for array in BY_NAME}

    def body(code: RowCode) -> None:
        own: dict[int, dict[str, Sequence[Value]]] = {}
        for frame, name in differ:
            columns = zip(code.numbers(f"{name} {frame}"), *(table[frame, name] for table in known), strict=True)
            values = [known[0] if len(set(known)) == 1 else symbol for symbol, *known in columns]
            own.setdefault(first.frames[frame], {})[name] = values
        inner = Recorder()
        sweeps = Sweeps(model, settings, named(settings), inner, tree, first.frames, own=own)
        take(Step(sweeps))
        program = inner.finish(n_scratch=sweeps.n_scratch)
        found = unroll(program, lambda array, item: code.read(array, item - starts[array]), code.recorder)
        for array, item in sorted(found):
            code.write(array, [found[array, item]], item - starts[array])

    rows = [
        Row("copy", _places(places, part), {f"{name} {frame}": table[frame, name] for frame, name in differ})
        for part, table in zip(parts, known, strict=True)
    ]
    record_loop(recorder, f"copies of a part with {len(first.dofs)} degrees of freedom", rows, body)


def _numbers(
    of_frames: FrameNumbers, settings: Settings, tree: Tree, part: Component
) -> dict[tuple[int, str], Sequence[Value]]:
    """What copies may have their own of, by the frame of the part and the name."""
    fixed = {"inertia"} if settings.per_env & {"mass_shift", "com_shift"} else set()
    result: dict[tuple[int, str], Sequence[Value]] = {}
    for i, frame in enumerate(part.frames):
        numbers = of_frames.of(tree.nodes[frame])
        result |= {(i, name): numbers[name] for name in MAY_DIFFER if name not in fixed}
    return result


def _start(array: str, part: Component) -> int:
    """The first item of an array that belongs to a part."""
    info = BY_NAME[array]
    firsts = {Owner.COORDINATE: part.qs, Owner.DOF: part.dofs, Owner.LINK: part.links}
    firsts |= {Owner.ACTUATOR: part.actuators, Owner.TENDON: part.tendons, Owner.SAMPLE: part.samples}
    own = firsts.get(info.owner)
    return info.width * own[0] if own else 0


def _places(places: Mapping[str, Place], part: Component) -> dict[str, Place]:
    """Where each array starts for one copy."""
    known = ((array, place) for array, place in places.items() if array in BY_NAME)
    return {array: Place(place.arena, place.row + _start(array, part)) for array, place in known}


def signature(
    model: Model, tree: Tree, part: Component, settings: Settings, numbers: FrameNumbers
) -> tuple[object, ...]:
    """Equal for parts that one code can step: same tree, same springs and actuators, laid out in the same way."""
    number = {WORLD: WORLD, **{frame: i for i, frame in enumerate(part.frames)}}
    links = model.links
    links_matter = bool(
        settings.external_forces
        or settings.per_env & {"mass_shift", "com_shift"}
        or (links.gravity_scale[part.links] != 1.0).any()
    )
    key: list[object] = [tuple(link - part.links[0] for link in part.links), links_matter]
    key += [tuple(x - own[0] for x in own) for own in (part.actuators, part.tendons, part.samples)]
    for frame in part.frames:
        node = tree.nodes[frame]
        constants = {k: v for k, v in numbers.of(node).items() if k not in MAY_DIFFER and k not in INPUTS}
        ranges = (node.qs.start - part.qs[0], node.dofs.start - part.dofs[0])
        key += [number[node.parent], FrameKind.of(node), ranges, str(constants)]
        key += [block.tells["side"] for block in limit_blocks(model, [node])] if settings.limits else []
    if links_matter:
        key += [(number[int(links.frame_idx[link])], str(link_numbers(model, link))) for link in part.links]
    key += [_content(model.actuators, a, part, number) for a in part.actuators]
    key += [_content(model.tendons, t, part, number) for t in part.tendons]
    key += [_felt(model.fluid, i, part, number) for i, f in enumerate(model.fluid.frame_idx) if f in part.frames]
    if is_held(model, part):  # what ties, couplings and paths are like is not compared
        key.append(part.frames[0])
    return tuple(key)


def _felt(fluid: FluidInfo, row: int, part: Component, number: Mapping[int, int]) -> tuple[object, ...]:
    """All that something is to the medium."""
    place = (fluid.kinds[row], number[int(fluid.frame_idx[row])], int(fluid.link_idx[row]) - part.links[0])
    arrays = (fluid.pos, fluid.rot, fluid.size, fluid.coefficients, fluid.added_mass, fluid.added_inertia)
    return (*place, *(array[row].tobytes() for array in arrays))


def is_held(model: Model, part: Component) -> bool:
    """Whether anything in a part is tied or coupled, or has a path to it."""
    tied = {*model.ties.frame_a.tolist(), *model.ties.frame_b.tolist(), *model.paths.frame_idx.ravel().tolist()}
    coupled = (model.couplings.moment_a != 0.0) | (model.couplings.moment_b != 0.0)
    return not tied.isdisjoint(part.frames) or bool(coupled[:, part.dofs].any())


def _content(table: Any, row: int, part: Component, number: Mapping[int, int]) -> tuple[object, ...]:
    """All that an actuator or tendon is, but for its name."""
    result: list[object] = []
    for f in fields(table):
        values = getattr(table, f.name)[row]
        if f.name == "moment":
            values = values[part.dofs]
        elif f.name == "frame_idx":
            values = number[int(values)]
        elif f.name == "shared_idx":  # copies bound their own
            values = next((i for i, a in enumerate(part.actuators) if table.shared_idx[a] == values >= 0), -1)
        if f.name != "names":
            result.append(values.tobytes() if isinstance(values, np.ndarray) else values)
    return tuple(result)
