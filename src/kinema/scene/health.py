"""What a scene does when something goes wrong: numbers that are none, and more contacts than there is room for."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from kinema.foundation import Diagnostics, KinemaError
from kinema.sim import ROOM

from .arguments import whole
from .capturing import Capturing
from .contacts import contacts_of
from .states import restore, state_of_scene

ON_ERROR = ("flag", "freeze", "reset")
"""What may be done with an environment that is no longer made of numbers."""
ON_OVERFLOW = ("keep", "grow")
"""What may be done once there were more contacts than there is room for."""
SPARE = 1.5
"""How many times as much room there is after a trial as two bodies took in it."""
LOOK_EVERY = 64
"""How many calls of `step` go by on a GPU before it is asked whether contacts were lost: looking makes it wait. Where a
policy on that GPU drives the scene, the time between two looks doubles after each."""


class Health(Capturing):
    """The part of a scene that watches over its environments."""

    diagnostics: Diagnostics
    on_overflow: str
    _max_contacts: int | None
    _calls: int = 0

    @property
    def max_contacts(self) -> int:
        """For how many contacts between any two bodies there is room, at most.

        Where nobody asked for a number, and teams of a GPU's threads solve, it is the room for all of an environment.
        It may be changed at any time; the programs are compiled anew when they are next needed. Of more contacts than
        that the deepest are kept, and `get_overflow_envs_mask` tells where.
        """
        if self._max_contacts is not None:
            return self._max_contacts
        return ROOM if self._running is None else self._running.room_for_contacts

    @max_contacts.setter
    def max_contacts(self, count: int) -> None:
        asked = whole(count, "max_contacts", "contact")
        if self._running is None:
            self._max_contacts = asked
        elif asked != self.max_contacts:
            self._max_contacts = asked
            self._running.engine.make_room(asked)

    def try_contacts(self, steps: int = 200, seed: int = 0) -> int:
        """Find out by a trial how much room contacts need, and make it; the answer is `max_contacts` from now on.

        All environments take some steps from where they are, all but the first with random speeds (1 m/s, 1 rad/s) on
        top of their own, and then are where they were, to the last bit. Where two bodies had more contacts than there
        is room for, there is half as much again as they had. Nothing is run, or compiled, where there is room for every
        point that shapes can make. The same seed gives the same answer.

        Args:
            steps: how many are taken [steps of `dt`, or of its parts where there are substeps].
            seed: of the random speeds.
        """
        self._marks("most_wanted")
        steps, running = whole(steps, "try_contacts", "step"), self.running
        if not running.may_lose_contacts:
            return self.max_contacts
        before, engine = state_of_scene(running), running.engine
        own = np.array(engine.field("vel").numpy())
        own[:, 1:] += np.random.default_rng(seed).normal(size=own[:, 1:].shape)
        engine.field("vel").assign(own)
        engine.step(steps)
        wanted = int(self.get_wanted_contacts().max(initial=0))
        restore(running, before)
        if wanted > self.max_contacts:
            self.max_contacts = int(np.ceil(SPARE * wanted))
            message = f"two bodies had {wanted} contacts in a trial of {steps} steps: there is room for"
            self.diagnostics.note("scene.room", f"{message} {self.max_contacts} from now on")
        return self.max_contacts

    def get_error_envs_mask(self) -> Any:
        """Which environments have come to contain something that is no finite number, (n_envs,); `reset` heals them."""
        running = self.running
        if running.outputs.on_device:
            return (running.memory.source("error").to_torch() != 0.0).any(dim=0)
        return (running.memory.all("error") != 0.0).any(axis=0)

    def get_overflow_envs_mask(self) -> np.ndarray:
        """Which environments had more contacts than there is room for, since their last reset, (n_envs,)."""
        return self._marks("most_wanted") > 0.0

    def get_most_contacts(self) -> np.ndarray:
        """The most contacts at once since the last reset, those that there was no room for included, (n_envs,)."""
        return self._marks("most_contacts").astype(np.int64)

    def get_wanted_contacts(self) -> np.ndarray:
        """The `max_contacts` that would have been enough since the last reset; 0 where there was room, (n_envs,)."""
        return self._marks("most_wanted").astype(np.int64)

    @property
    def bytes_per_env(self) -> int:
        """The memory that an environment takes [bytes]: state, commands and, on a GPU, what a step works in.

        The latter is known once the step is compiled (`prepare`). It grows with `max_contacts`.
        """
        return self.running.engine.bytes_per_env

    def get_contacts(self, envs_idx: Any = None) -> dict[str, np.ndarray]:
        """What touches now, as arrays (n_envs, most, ...) by name; `valid_mask` says which rows count.

        For a: `geom_a`, `link_a` (-1 for the world), `force_a` [N]; of both `position`, `normal` (to b), `penetration`.
        """
        self._note_overflow()
        return contacts_of(self.running, envs_idx)

    def get_energy(self) -> tuple[np.ndarray, np.ndarray]:
        """Kinetic and potential energy (weight, and springs in joints) of everything [J], (n_envs,) each."""
        system = self.running.engine.fields.system
        return np.array(system.kinetic_energy.numpy()), np.array(system.potential_energy.numpy())

    def _marks(self, name: str) -> np.ndarray:
        running = self.running
        if not running.engine.settings.contacts:
            raise KinemaError(
                "nothing touches in this scene: it was made with contacts=False, or its file switches them off"
            )
        return np.array(running.memory.all(name)[0])

    def _grow(self) -> None:
        """Room for all contacts that there ever were."""
        wanted = int(self.get_wanted_contacts().max(initial=0)) if self.running.engine.settings.contacts else 0
        self.max_contacts = max(self.max_contacts, wanted)

    def _after_steps(self) -> None:
        """Say that contacts were lost, once; on a GPU not at once."""
        running = self.running
        if self._captures or not running.may_lose_contacts:
            return
        self._calls += 1
        due = self._calls % LOOK_EVERY == 0
        if running.outputs.on_device:
            due = due and (self._calls & (self._calls - 1)) == 0
        if running.engine.device.is_cpu or due:
            self._note_overflow()

    def _note_overflow(self) -> None:
        """Warn of contacts that were lost, with the number that would do; make room where that is asked for."""
        if not self.running.may_lose_contacts:
            return
        wanted = self._marks("most_wanted")
        most = int(wanted.max(initial=0))
        grows = self.on_overflow == "grow"
        if most <= self.max_contacts or (not grows and any(d.code == "scene.overflow" for d in self.diagnostics)):
            return
        count = int(np.count_nonzero(wanted))
        whose = "" if self.running.engine.settings.team else f" between two bodies ({self.max_contacts})"
        who = f"{count} of {len(wanted)} environments"
        message = f"{who} had more contacts than there is room for{whose}: the deepest are kept"
        if grows:
            self.max_contacts = max(2 * self.max_contacts, most)
            hint = (
                f"from now on there is room for {self.max_contacts}; Scene(max_contacts={most}) has it from the start"
            )
        else:
            hint = f"Scene(max_contacts={most}) is room for all of them, and so is scene.reset(grow=True)"
        self.diagnostics.warning("scene.overflow", message, hint=hint)
        warnings.warn(f"{message}; {hint}", RuntimeWarning, stacklevel=4)
