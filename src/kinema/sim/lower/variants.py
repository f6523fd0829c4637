"""What models of one form differ in, as numbers that each environment reads for itself."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from kinema.foundation import Array, KinemaError
from kinema.model import Model, OwnNumbers, OwnWord

from ..arrays import ARRAYS, Use, start_of
from ..collide.numbers import WEIGHTS, geom_numbers, pair_numbers, set_numbers
from ..collide.planned import kinds_of, planned_sets, set_name
from ..constrain.blocks import block_name, block_numbers
from ..constrain.kinds import kinds_and_blocks
from ..rigid.gyroscope import lone_bodies
from ..settings import Settings
from ..sweeps.rows import FrameKind, FrameNumbers, link_numbers
from ..sweeps.tree import grow
from ..variants import WEIGHING, other_form

PLAIN = (0.0, 1.0, -1.0)
"""What stays part of the program where all have it: it makes no difference to any bit."""
Part = tuple[str, int | str]


def keep_apart(models: Sequence[Model], settings: Settings) -> Settings:
    """Settings with all that models differ in among what environments read; the first model learns what that is."""
    if len(models) > 1:
        asked = differing_inputs(models, settings) | {"variants"}
        settings = replace(settings, per_env=settings.per_env | asked)
    models[0].own = own_numbers(models, settings)
    return replace(settings, own=models[0].own is not None)


def rows_of(model: Model, settings: Settings) -> Iterator[tuple[Part, str, Mapping[str, Sequence[Any]]]]:
    """All rows of tables that numbers may differ in: whose they are, their kind, the numbers by word."""
    nodes, numbers = grow(model).nodes, FrameNumbers(model)
    for node in nodes:
        yield ("frame", node.index), str(FrameKind.of(node)), numbers.of(node)
    for link in range(model.n_links):
        lifted, massive = bool(model.links.gravity_scale[link] != 1.0), bool(model.links.inertial_mass[link])
        yield ("link", link), f"{lifted} {massive}", dict(link_numbers(model, link))
    if settings.contacts:
        for geom in range(len(model.geoms.names)):
            yield ("geom", geom), "", geom_numbers(model, geom)
        for plan in planned_sets(model):
            yield ("set", set_name(plan)), str(plan.kind), set_numbers(model, plan)
            for p in plan.pairs:
                yield ("pair", p), str(kinds_of(model, p)), pair_numbers(model, settings, plan, p)
    for kind, blocks in kinds_and_blocks(model, settings, nodes):
        for block in blocks:
            yield ("block", block_name(block)), kind.name, block_numbers(block)


def own_numbers(models: Sequence[Model], settings: Settings) -> OwnNumbers | None:
    """What is read for each environment, or at least not compiled in; None where there is nothing.

    That is what models differ in; the masses of bodies that fly alone, so that a program for one such body is that for
    any; and how hard constraints are, where masses differ between environments.
    """
    first = models[0]
    alone = {("frame", ball.index) for _, ball in lone_bodies(grow(first).nodes) if settings.contacts}
    touching = {int(x) for x in first.geoms.frame_idx}
    weighed = bool(settings.per_env & WEIGHING)
    by_code: dict[tuple[str, str], list[_Word]] = {}
    alike = len(models) == 1 and not weighed
    for variants in zip(*(rows_of(model, settings) for model in models), strict=True):
        part, kind, known = variants[0]
        if alike and part[0] != "frame":  # frames come first, and nothing else is read there
            break
        if any(other[:2] != (part, kind) for other in variants):
            raise KinemaError(other_form(f"{part[0]} {part[1]}"))
        for word in known:
            table = np.array([np.asarray(other[2][word], np.float64) for other in variants]).T
            loose = part in alone and part[1] in touching and word == "inertia"
            weight = weighed and ((part[0] == "pair" and word in WEIGHTS) or (part[0], word) == ("block", "weights"))
            wanted = loose or weight or bool((table != table[:, :1]).any())
            code = f"pair {kind}" if part[0] == "pair" else f"{part}"
            by_code.setdefault((code, word), []).append(_Word((*part, word), table, wanted, loose))
    own, values = OwnNumbers(), []
    for words in by_code.values():  # what runs the same code reads the same numbers, so that there is no more code
        if any(word.wanted for word in words):
            plain = _plain(words)
            for word in words:
                own.words[word.key] = OwnWord(len(values), plain)
                values += list(word.table)
    own.values = np.array(values).reshape(-1, len(models))
    return own if values else None


@dataclass(frozen=True, slots=True, eq=False)
class _Word:
    """Numbers of a part in all models, and whether they are to be read."""

    key: tuple[str, int | str, str]
    table: Array
    wanted: bool
    loose: bool
    """Whether all of them are, for sums to be rounded alike whatever is nothing in them."""


def _plain(words: Sequence[_Word]) -> tuple[float | None, ...]:
    """What is nothing or one in all of them."""
    rows = zip(*(word.table for word in words), strict=True)
    firsts = [{float(x) for row in own for x in row} for own in rows]
    loose = any(word.loose for word in words)
    return tuple(next(iter(x)) if len(x) == 1 and not loose and x <= set(PLAIN) else None for x in firsts)


def differing_inputs(models: Sequence[Model], settings: Settings) -> set[str]:
    """The parameters that have to differ between environments because those of the models do."""
    asked: set[str] = set()
    for info in ARRAYS:
        if info.use is Use.CONSTANT or info.arena(settings) is None or info.name == "own_numbers":
            continue
        starts = [start_of(info, model, settings) for model in models]
        if any(not np.array_equal(start, starts[0]) for start in starts):
            if info.use is not Use.INPUT:
                raise KinemaError(f"variants: {info.name} differs to begin with; variants start alike")
            asked |= set(info.asked_as or (info.name,))
    return asked
