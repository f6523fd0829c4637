"""Episodes by the thousand: played in groups by whoever there is, the same bits whoever it was."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import os
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from kinema.backend import find_device
from kinema.foundation import KinemaError, add_entries, recorded_entries

from .bar import progress_bar
from .dataset import DataSet, Draft, part_name
from .executor import InProcess, Limits
from .ledger import key_of
from .nodes import Needs, own_version
from .opening import On, opened
from .played import Played
from .policies import Policy
from .recipes import Recipe, function_name
from .shards import FORMATS, KEEP, arrow, columns, digest
from .stage import Stage
from .stores import Store


@dataclass(frozen=True, slots=True)
class Group:
    """Episodes that are played together, and go to one file."""

    number: int
    first: int
    count: int


@dataclass(frozen=True, slots=True)
class Keeping:
    """What becomes of them."""

    policy: Policy
    keep: str
    every: int
    store: str
    """The folder, or its address, that workers write to if they can; empty where they hand over what they have."""
    sign: str = ""
    """A file in that folder by which it is known: on another machine there may be another folder of that name."""
    format: str = "parquet"

    def seen_from_here(self) -> Keeping:
        """The same for this machine, where that folder may not be."""
        there = not self.sign or (Path(self.store) / self.sign).exists()
        return self if there else dataclasses.replace(self, store="")


class Player:
    """What plays groups, in whatever process it is; what one gave can be packed while the next is played."""

    def __init__(self, stage: Stage, keeping: Keeping) -> None:
        self._stage, self._keeping = stage, keeping.seen_from_here()

    def __call__(self, group: Group) -> tuple[dict[str, Any], bytes]:
        """Play a group: its record, and its file where it was not written already."""
        return self.begin(group)()

    def begin(self, group: Group) -> Callable[[], tuple[dict[str, Any], bytes]]:
        """Play a group; what is left is to pack it."""
        begin = time.perf_counter()
        played = self._stage.play(np.arange(group.first, group.first + group.count), self._keeping.policy)
        return functools.partial(self._pack, group, played, time.perf_counter() - begin)

    def _pack(self, group: Group, played: Played, seconds: float) -> tuple[dict[str, Any], bytes]:
        how = self._keeping
        found = columns(played, how.keep, how.every)
        content, name = FORMATS[how.format](found), f"{part_name(group.number)}.{how.format}"
        record = {
            "file": name,
            "first": group.first,
            "episodes": group.count,
            "rows": len(found["episode"]),
            "digest": digest(found),
            "bytes": len(content),
            "seconds": round(seconds, 4),
        }
        if how.store:
            Store(how.store).write(name, content)
            content = b""
        return record, content


def make_player(recipe: Recipe, group: int, keeping: Keeping, code: Mapping[str, bytes]) -> Player:
    """A worker's own stage, with the programs that others compiled."""
    add_entries(code)
    return Player(Stage(recipe, group), keeping)


def rollouts(  # noqa: PLR0913  one for each choice there is
    recipe: Recipe,
    policy: Policy,
    episodes: int,
    *,
    out: str | os.PathLike[str],
    on: On = None,
    group: int = 256,
    keep: str = "steps",
    every: int = 1,
    format: str = "parquet",
    limits: Limits | None = None,
    needs: Needs | None = None,
    quiet: bool = False,
) -> DataSet:
    """Play episodes and write them as Parquet or Arrow files with a manifest; what is there is not played again.

    Episode k is the same bits whoever plays it, in whichever order, and whoever dies on the way: all that is drawn
    depends on the recipe's seed and on k, and a group is always played in as many environments.

    Args:
        recipe: the scene, and what an episode is.
        policy: from what is seen, (group, k), to actions, (group, n): a function of NumPy arrays, a `torch.nn.Module`,
            the name of one (`package.module:name`), or None for robots that nobody moves. One that has a method
            `begin(episodes, seed)` is told when a group begins. Parameters `controller.*` of the recipe are given by
            name.
        episodes: how many, numbered from 0.
        out: the folder for them, or its address (`s3://...`). Workers write there themselves, but for those of
            machines that do not have that folder: they hand over what they have.
        on: who plays: a number of processes, the address of a Ray cluster (`auto` for the one that runs here), or None
            for this process.
        group: how many episodes are played at once, and written to one file.
        keep: a row for each of the `steps`, or one for each of the `episodes` with what it earned.
        every: of steps, only every so many.
        format: what the files are: `parquet`, or `arrow`, which is faster to read.
        limits: what a group may cost: an hour, and five tries where workers die, when not given.
        needs: what a worker takes of its node: a GPU, so many cores; when not given, a core, and a GPU where the
            recipe's scene is on one.
        quiet: no bar.

    Raises:
        KinemaError: a group failed (its log says why), or the folder holds something else.
    """
    _refuse_nonsense(episodes, group, keep, every, format)
    arrow()  # say at once that it is missing
    executor, own = opened(on, needs, gpu=recipe.wants_gpu)
    with contextlib.ExitStack() as held:
        if own:
            held.callback(executor.close)
        here = recipe if isinstance(executor, InProcess) else _for_this_machine(recipe)
        stage = Stage(here, group)
        head = {**_head(recipe, stage, policy, episodes), "keep": keep, "every": every, "format": format}
        draft = Draft(out, head, -(-episodes // group))
        held.callback(draft.close)
        keeping = Keeping(policy, keep, every, draft.store.place, draft.sign, format)
        left = (g for g in _groups(episodes, group) if not draft.has(g.number))
        done = episodes - sum(g.count for g in _groups(episodes, group) if not draft.has(g.number))
        if isinstance(executor, InProcess):
            start: Any = functools.partial(Player, stage, keeping)
        else:
            code = _compiled(stage, policy) if done < episodes and here is recipe else {}
            start = functools.partial(make_player, recipe, group, keeping, code)
            del stage
        limits = limits or Limits(seconds=3600.0, retries=5, ahead=1)
        with progress_bar(f"playing, {executor.name} of {executor.workers}", episodes, done, quiet) as advance:
            for outcome in executor.run(start, left, limits):
                if outcome.result is None:
                    raise KinemaError(f"{part_name(outcome.task.number)}: {outcome.failure}\n{outcome.log}".strip())
                record, content = outcome.result
                if content:
                    draft.store.write(record["file"], content)
                draft.note(outcome.task.number, record)
                advance(outcome.task.count)
        return draft.finish()


def _refuse_nonsense(episodes: int, group: int, keep: str, every: int, format: str) -> None:
    for name, value in (("episodes", episodes), ("group", group), ("every", every)):
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise KinemaError(f"rollouts: {name}: expected a whole number of at least 1, not {value!r}")
    if keep not in KEEP:
        raise KinemaError(f"rollouts: keep: {keep!r} is none of {', '.join(KEEP)}")
    if format not in FORMATS:
        raise KinemaError(f"rollouts: format: {format!r} is none of {', '.join(FORMATS)}")


def _groups(episodes: int, size: int) -> Iterator[Group]:
    for number, first in enumerate(range(0, episodes, size)):
        yield Group(number, first, min(size, episodes - first))


def _for_this_machine(recipe: Recipe) -> Recipe:
    """What can be built here: whoever has others play on GPUs need not have one."""
    if recipe.wants_gpu:
        try:
            find_device(str(recipe.scene["device"]))
        except KinemaError:
            return dataclasses.replace(recipe, scene={**recipe.scene, "device": "cpu"})
    return recipe


def _head(recipe: Recipe, stage: Stage, policy: Policy, episodes: int) -> dict[str, Any]:
    """What a data set is of: the content of the model, and everything that is done with it."""
    return {
        "kinema": own_version(),
        "recipe": key_of(stage.scene.running.key, recipe.about(), function_name(policy)),
        "seed": recipe.seed,
        "episodes": episodes,
        "group": stage.group,
        "seconds_per_step": stage.seconds,
        "links": list(stage.scene.running.model.links.names),
        "joints": list(stage.scene.running.model.joints.names),
    }


def _compiled(stage: Stage, policy: Policy) -> dict[str, bytes]:
    """The programs of a stage, compiled here once, so that no worker of this kind of machine has to."""
    with recorded_entries() as made:
        stage.play(np.arange(1), policy, steps=1)
    return made
