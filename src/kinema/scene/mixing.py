"""Environments with different things in the same place: variants of one entity, brought into one form."""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from kinema.compile import Part
from kinema.description import Link, Robot, Shape, World
from kinema.foundation import KinemaError
from kinema.model import ABSENT, Model

Which = npt.NDArray[np.intp]
Kind = tuple[str, str]
"""Of a shape: its geometry, and what a mesh touches as."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Mixed:
    """The variants of an entity."""

    parts: list[Part]
    """One for each, all of one form: what is compiled."""
    shown: list[Robot | World]
    """What each looks like."""
    absent: list[set[tuple[str, str]]]
    """Of each the shapes that only others have, by the names of link and shape."""
    seed: int | None
    """What draws them; None for one after the other."""

    def which(self, n_envs: int) -> Which:
        """The variant of each environment: however many others there are, an environment has the same."""
        count = len(self.parts)
        if self.seed is None:
            return np.arange(n_envs) % count
        source = np.random.default_rng([self.seed, zlib.crc32(self.parts[0].name.encode())])
        return source.integers(0, count, n_envs)

    def hide(self, model: Model, entity: int, variant: int) -> None:
        """Nothing touches the shapes that a variant has not got."""
        geoms = model.geoms
        for i, (name, link) in enumerate(zip(geoms.names, geoms.link_idx.tolist(), strict=True)):
            owner = "" if link < 0 else model.links.names[link]
            if geoms.entity_idx[i] == entity and (owner, name) in self.absent[variant]:
                geoms.radius[i] = ABSENT


def combinations(mixed: Mapping[int, Mixed], n_envs: int) -> tuple[list[dict[int, int]], Which]:
    """What environments are made of, each once: the variant of each mixed entity; and which each environment has."""
    if not mixed:
        return [{}], np.broadcast_to(np.zeros(1, np.intp), (n_envs,))  # of no size, however many there are
    chosen = np.stack([own.which(n_envs) for own in mixed.values()], axis=1)
    _, first, which = np.unique(chosen, axis=0, return_index=True, return_inverse=True)
    order = np.argsort(first)  # the first environment's comes first
    place = np.argsort(order)
    found = [dict(zip(mixed, chosen[i].tolist(), strict=True)) for i in first[order]]
    return found, place[which.reshape(-1)]


def share_numbers(models: Sequence[Model]) -> None:
    """Meshes and height fields of all models in one array, each once; models learn where theirs are."""
    known: dict[bytes, int] = {}
    pieces: list[np.ndarray] = []
    length = 0
    for model in models:
        geoms, starts = model.geoms, []
        ends = [*geoms.first_number.tolist(), len(geoms.numbers)][1:]
        for start, end in zip(geoms.first_number.tolist(), ends, strict=True):
            own = geoms.numbers[start:end]
            if own.tobytes() not in known:
                known[own.tobytes()] = length
                pieces.append(own)
                length += len(own)
            starts.append(known[own.tobytes()])
        geoms.first_number = np.array(starts, np.int32)
    for model in models:
        model.geoms.numbers = np.concatenate([np.zeros(0), *pieces])


def mixed_parts(variants: Sequence[Robot | World], parts: Sequence[Part], seed: int | None) -> Mixed:
    """Variants of an entity: the same links and shapes by name, and what of each is not really there."""
    if len({_form(v) for v in variants}) == 1:
        return Mixed(parts=list(parts), shown=list(variants), absent=[set() for _ in variants], seed=seed)
    robots = [v for v in variants if isinstance(v, Robot)]
    alike = len(robots) == len(variants) and len({(len(r.links), len(r.joints)) for r in robots}) == 1
    if not alike:
        raise KinemaError(
            "variants: all have the same links and joints; robots that differ in these, and worlds, go in scenes of "
            "their own"
        )
    shown = [_named_alike(robot, robots[0]) for robot in robots]
    made = [replace(robot, links=list(robot.links)) for robot in shown]
    absent: list[set[tuple[str, str]]] = [set() for _ in robots]
    for number in range(len(robots[0].links)):
        slots = _slots([robot.links[number] for robot in made])
        for robot, missing in zip(made, absent, strict=True):
            link = robot.links[number]
            shapes, gone = _filled(link, slots)
            robot.links[number] = replace(link, shapes=shapes)
            missing |= {(link.name, name) for name in gone}
    joined = [replace(part, description=robot) for part, robot in zip(parts, made, strict=True)]
    return Mixed(parts=joined, shown=list(shown), absent=absent, seed=seed)


def _form(variant: Robot | World) -> object:
    """What is equal for variants of one form."""
    links = variant.links
    own = variant.shapes if isinstance(variant, World) else []
    shapes = [[(s.name, _kind(s)) for s in _touching(link.shapes)] for link in links]
    joints = [(j.name, j.kind) for j in variant.joints]
    return str(([link.name for link in links], joints, shapes, [(s.name, _kind(s)) for s in _touching(own)]))


def _touching(shapes: Sequence[Shape]) -> list[Shape]:
    return [s for s in shapes if s.collision and s.enabled]


def _kind(shape: Shape) -> Kind:
    form = shape.geometry
    return type(form).__name__, str(getattr(form, "approximation", ""))


def _named_alike(robot: Robot, first: Robot) -> Robot:
    """A robot whose one link is called as the first one's; of more links all have to be called alike."""
    if len(robot.links) == 1 and not robot.joints:
        return replace(robot, name=first.name, links=[replace(robot.links[0], name=first.links[0].name)])
    if [x.name for x in robot.links] != [x.name for x in first.links]:
        raise KinemaError("variants: robots of one entity have links of the same names, in the same order")
    return robot


def _slots(links: Sequence[Link]) -> dict[tuple[Kind, int], Shape]:
    """Room for the shapes of any of some links: by kind, and number within it, with one that fits there."""
    slots: dict[tuple[Kind, int], Shape] = {}
    for link in links:
        for slot, shape in _numbered(link):
            slots.setdefault(slot, shape)
    return dict(sorted(slots.items(), key=lambda item: item[0]))


def _numbered(link: Link) -> list[tuple[tuple[Kind, int], Shape]]:
    seen: dict[Kind, int] = {}
    result = []
    for shape in _touching(link.shapes):
        kind = _kind(shape)
        seen[kind] = seen.get(kind, -1) + 1
        result.append(((kind, seen[kind]), shape))
    return result


def _filled(link: Link, slots: Mapping[tuple[Kind, int], Shape]) -> tuple[list[Shape], set[str]]:
    """The shapes of a link in all slots, those of others where it has none; and the names of these."""
    own = dict(_numbered(link))
    shapes, gone = [], set()
    for slot, example in slots.items():
        (form, touches), number = slot
        name = " ".join([form.lower(), *([touches] if touches else []), *([str(number + 1)] if number else [])])
        shapes.append(replace(own.get(slot, example), name=name))
        if slot not in own:
            gone.add(name)
    return shapes, gone
