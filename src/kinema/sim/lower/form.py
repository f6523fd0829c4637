"""The form that the step of a model takes, decided once and cached on disk.

It follows from the model, the settings and the kind of device, by functions of the algorithms themselves; a process
that finds it in the cache imports none of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from kinema.foundation import content_digest, load_or_make, source_digest
from kinema.model import Model, OwnNumbers, OwnWord

from ..settings import Broad, Settings
from .derived import SOURCES


@dataclass(frozen=True, slots=True)
class Target:
    """What a step is compiled for, as far as that decides its form; None is for what suits the model."""

    is_cpu: bool
    is_alone: bool
    """Whether an environment runs by itself, not in a vector of several."""
    emission: str
    team: bool | None
    roles: int | None
    """How many threads share an environment."""


def form_of_step(models: Sequence[Model], settings: Settings, target: Target, digest: str) -> tuple[Settings, bool]:
    """Settings with all that was left open, and whether the step is rolled; the first model learns its own numbers.

    `digest` is that of the models, and of all that they were completed from.
    """
    key = content_digest("form", source_digest(*SOURCES), digest, settings, target)
    found = load_or_make("derived", key, lambda: _form(models, settings, target))
    models[0].own = _own_numbers(found)
    return (
        replace(
            settings,
            per_env=frozenset(found["per_env"]),
            own=models[0].own is not None,
            broad=Broad(found["broad"]),
            team=found["team"],
            roles=found["roles"],
        ),
        found["rolled"],
    )


def _form(models: Sequence[Model], settings: Settings, target: Target) -> dict[str, Any]:
    from ..collide.broad import best_broad
    from ..sweeps.tree import grow
    from .limbs import best_roles
    from .plan import wants_rolling, wants_team
    from .variants import keep_apart

    model, team, roles = models[0], target.team, target.roles
    if team is None:
        team = not target.is_cpu and wants_team(model, settings)
    rolled = wants_rolling(model, replace(settings, team=team), target.emission, copies=target.is_cpu)
    if roles is None:
        undivided = target.is_cpu or rolled or settings.freezes or (settings.contacts and not team)
        roles = 1 if undivided else best_roles(grow(model))
    settings = keep_apart(models, replace(settings, roles=roles, team=team))
    settings = best_broad(model, settings, alone=target.is_alone)
    found: dict[str, Any] = {"team": team, "rolled": rolled, "roles": roles}
    found |= {"per_env": sorted(settings.per_env), "broad": settings.broad.value}
    if model.own is not None:
        found["own words"] = [[*part, own.start, own.known] for part, own in model.own.words.items()]
        found["own values"] = model.own.values
    return found


def _own_numbers(found: Mapping[str, Any]) -> OwnNumbers | None:
    if "own words" not in found:
        return None
    words = {
        (table, part, word): OwnWord(start, tuple(known)) for table, part, word, start, known in found["own words"]
    }
    return OwnNumbers(words=words, values=found["own values"])
