"""Environments that differ by chance, as robots in the world do from their files."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np

from kinema.foundation import Diagnostics, KinemaError
from kinema.sim import PARAMETERS, Control

from .batches import Index, environments
from .draws import Draw
from .entity import Entity
from .progress import Progress
from .running import Built, Running
from .states import state_of_scene, transfer
from .summary import show

GAINS = {"kp": Control.POSITION, "kv": Control.VELOCITY}
"""What they are the gains of."""


@dataclass(frozen=True, slots=True)
class Target:
    """What is drawn, for which environments and which parts of an entity."""

    entity: Entity
    envs: Index
    links: Any
    dofs: Any


Setter = Callable[[Target, Draw, Callable[[tuple[int, ...]], np.ndarray]], None]
"""Sets a parameter from a draw; the last argument gives numbers for items of a shape."""


def _mass(at: Target, draw: Draw, drawn: Any) -> None:
    own = at.entity._links(at.links, "randomize")
    built = at.entity._built_links("inertial_mass", at.envs)[:, own]
    wanted = draw.applied(built, drawn((len(own),)), "scale")
    if (wanted < 0.0).any():
        raise KinemaError("randomize: mass: a link would weigh less than nothing")
    at.entity.set_mass_shift(wanted - built, own, at.envs)


def _com(at: Target, draw: Draw, drawn: Any) -> None:
    own = at.entity._links(at.links, "randomize")
    built = at.entity._built_links("inertial_pos", at.envs)[:, own]
    at.entity.set_com_shift(draw.applied(built, drawn((len(own), 3)), "add") - built, own, at.envs)


def _of_dofs(name: str) -> Setter:
    def change(at: Target, draw: Draw, drawn: Any) -> None:
        own = at.entity._dofs(at.dofs, "randomize")
        if name in GAINS:
            _ensure_gains(at, name, own)
        _note_zeros(at, name, own, draw)
        if name == "frictionloss":  # joints without any stay without
            own = own[_in_all(_built(at, name, own) > 0.0)]
        if len(own):
            values = draw.applied(_built(at, name, own), drawn((len(own),)), "scale")
            getattr(at.entity, f"set_dofs_{name}")(values, own, at.envs)

    return change


def _ensure_gains(at: Target, name: str, own: Index) -> None:
    """Gains to start from, where nobody gave any; and a word where actuators of a file have theirs."""
    entity, controls = at.entity, at.entity._running.controls
    dofs = entity.info.dof_start + own
    controls.ensure_gains(GAINS[name], dofs)
    moved = [entity.dof_names[i] for i in own if controls.modes[entity.info.dof_start + i] == Control.ACTUATOR]
    if moved:
        text = f"{name}: actuators of the file move {_listed(moved)}, and keep the gains that it gives them"
        hint = "what is drawn counts once control_dofs_position or _velocity takes over"
        _say(at, "scene.gains-of-actuators", text, hint)


def _note_zeros(at: Target, name: str, own: Index, draw: Draw) -> None:
    """Times nothing is nothing."""
    if (draw.how or "scale") != "scale":
        return
    without = [at.entity.dof_names[i] for i in own[_in_all(_built(at, name, own) == 0.0)]]
    if without and name not in GAINS and len(without) == len(own):
        text = f"{name}: {_listed(without)} had none when built, and no multiple of nothing is anything"
        _say(at, "scene.nothing-to-scale", text, 'how="add" or how="set" draws some')


def _listed(names: list[str]) -> str:
    shown = ", ".join(f'"{name}"' for name in names[:3])
    return shown if len(names) <= 3 else f"{shown} and {len(names) - 3} more"


def _say(at: Target, code: str, text: str, hint: str) -> None:
    """Once."""
    diagnostics = at.entity.scene.diagnostics
    if not any(d.code == code and d.message == text for d in diagnostics):
        diagnostics.warning(code, text, hint=hint)


def _limits(at: Target, draw: Draw, drawn: Any) -> None:
    """Scaled about their middle; moved together by what is added."""
    own = at.entity._dofs(at.dofs, "randomize")
    own = own[_in_all(np.isfinite(_built(at, "lower", own)) & np.isfinite(_built(at, "upper", own)))]
    if not len(own):
        return
    lower, upper = _built(at, "lower", own), _built(at, "upper", own)
    middle, half, number = (lower + upper) / 2, (upper - lower) / 2, drawn((len(own),))
    if draw.how == "set":
        raise KinemaError("randomize: limits are scaled about their middle or moved, not set: use set_dofs_limit")
    if draw.how == "add":
        middle = middle + number
    else:
        half = half * np.maximum(number, 0.0)
    at.entity.set_dofs_limit(middle - half, middle + half, own, at.envs)


def _friction(at: Target, draw: Draw, drawn: Any) -> None:
    _of_geoms(at, "friction", draw, drawn, columns=1)


def _geometry_scale(at: Target, draw: Draw, drawn: Any) -> None:
    _of_geoms(at, "size", draw, drawn, columns=3)


def _of_geoms(at: Target, name: str, draw: Draw, drawn: Any, columns: int) -> None:
    entity: Any = at.entity
    table = entity._built_geoms(name)[at.envs][:, entity._own_geoms()]
    if columns > 1 and draw.how not in (None, "scale"):
        raise KinemaError(f"randomize: geometry_scale: sizes are scaled; how={draw.how!r} has no meaning for them")
    number = drawn((table.shape[1],))
    values = draw.applied(table[..., 0], number, "scale") if columns == 1 else table * number[..., None]
    getattr(entity, f"set_geoms_{name}")(values, None, at.envs)


def _gravity(at: Target, draw: Draw, drawn: Any) -> None:
    built = at.entity._running.model.gravity
    at.entity.set_gravity(draw.applied(built, drawn((3,)), "add"), at.envs)


def _built(at: Target, name: str, own: Index) -> np.ndarray:
    """As it was built, whatever was drawn since."""
    return at.entity._built(name, at.envs)[..., own]


def _in_all(holds: np.ndarray) -> np.ndarray:
    """Of which items something holds, whichever variant an environment has."""
    return np.asarray(holds.reshape(-1, holds.shape[-1]).all(axis=0))


@dataclass(frozen=True, slots=True)
class Kind:
    """A parameter: what has to differ between environments for it, and who sets it."""

    asks: str
    change: Setter


RANDOM_KINDS = {
    "mass": Kind("mass_shift", _mass),
    "com": Kind("com_shift", _com),
    "friction": Kind("geom_friction", _friction),
    "geometry_scale": Kind("geom_size", _geometry_scale),
    **{name: Kind(name, _of_dofs(name)) for name in ("kp", "kv", "armature", "damping", "frictionloss")},
    "limits": Kind("limit", _limits),
    "gravity": Kind("gravity", _gravity),
}
"""What can be drawn."""


class Randomizing(Built, ABC):
    """The part of a scene that makes its environments differ."""

    entities: list[Entity]
    diagnostics: Diagnostics
    progress: Progress

    @abstractmethod
    def _rebuild(self, per_env: frozenset[str]) -> Running:
        """The same scene, with parameters that differ between environments."""

    def randomize(
        self,
        entity: Entity | None = None,
        *,
        links: Any = None,
        dofs: Any = None,
        envs_idx: Any = None,
        seed: int = 0,
        **draws: Draw,
    ) -> None:
        """Draw parameters anew for all environments, or some; once or as often as wanted.

        What is drawn changes the values as they were built, not those drawn before. Inertias follow masses.

        Args:
            entity: whose; None for that of all entities (gravity is everybody's).
            links: of which links, by name, pattern or number; None for all.
            dofs: of which degrees of freedom, likewise.
            envs_idx: in which environments; None for all.
            seed: the same seed gives an environment the same numbers, however many others there are.
            **draws: what, from which distribution (`km.uniform`, `km.loguniform`, `km.normal`): `mass`, `com` [m],
                `friction`, `geometry_scale`, `kp`, `kv`, `armature`, `damping`, `frictionloss`, `limits`,
                `gravity` [m/s2].

        A parameter that `build(per_env=...)` did not foresee costs one compilation (`allow_per_env`).
        """
        for name, draw in draws.items():
            if name not in RANDOM_KINDS:
                raise KinemaError(f"randomize: {name!r} cannot be drawn; these can: {', '.join(RANDOM_KINDS)}")
            if not isinstance(draw, Draw):
                raise KinemaError(f"randomize: {name}: expected km.uniform(low, high) or its like, not {draw!r}")
        if entity is not None and not any(entity is own for own in self.entities):
            raise KinemaError(f"randomize: expected an entity of this scene, not {entity!r}")
        if not isinstance(seed, Integral) or isinstance(seed, bool) or seed < 0:
            raise KinemaError(f"randomize: seed: expected a whole number that is not negative, not {seed!r}")
        self.allow_per_env(*(RANDOM_KINDS[name].asks for name in draws))
        chosen = environments(envs_idx, self.running.n_envs)
        envs = np.arange(self.running.n_envs) if chosen is None else chosen
        for one in self.entities if entity is None else [entity]:
            target = Target(one, envs, links, dofs)
            for name, draw in draws.items():
                if name == "gravity" and one is not self.entities[0] and entity is None:
                    continue  # there is one for all
                RANDOM_KINDS[name].change(
                    target,
                    draw,
                    lambda shape, d=draw, n=name, e=one.name: d.numbers(envs, shape, int(seed), f"{e} {n}"),
                )

    def allow_per_env(self, *parameters: str) -> None:
        """Let parameters differ between environments from now on.

        What `build(per_env=...)` did not foresee makes one more compilation necessary, which is announced; everything
        goes on from where it is. Arrays that were handed out before (`out="view"`, `"torch"`) are stale then.
        """
        unknown = [p for p in parameters if p not in PARAMETERS]
        if unknown:
            raise KinemaError(f"{unknown[0]!r} cannot differ between environments; these can: {', '.join(PARAMETERS)}")
        known = self.running.engine.settings.per_env
        missing = sorted(set(parameters) - known)
        if not missing:
            return
        listed = ", ".join(missing)
        text = f"{listed}: environments have their own from now on, for which the step is compiled once more"
        asked = ", ".join(f'"{p}"' for p in sorted(known | set(missing)))
        self.diagnostics.note("scene.recompiled", text, hint=f"scene.build(per_env=({asked},)) saves that")
        show(text, self.progress)
        state = state_of_scene(self.running)
        transfer(self._rebuild(known | set(missing)), state)
