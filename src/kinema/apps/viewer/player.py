"""Playing: a scene that is built when it is first wanted, and stepped in the time of the clock."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence

from kinema.foundation import KinemaError, Pose
from kinema.scene import Scene

from .commands import Commands
from .exhibit import Exhibit
from .grounding import FIXED, SAID, add_floor_below
from .pulling import Pull

FRAME = 1 / 40
"""Seconds between pictures while something moves, unless browsers draw more slowly."""
_BUSY = 0.6
"""The part of that time which steps may take; what is left is for drawing."""
_PULL_EVERY = 0.004
"""Simulated seconds after which a spring is looked at again."""


class Player:
    """The simulation of all exhibits."""

    def __init__(
        self, exhibits: Sequence[Exhibit], n_envs: int = 1, scene: Scene | None = None, floor: Pose | None = None
    ) -> None:
        self.exhibits = list(exhibits)
        self.floor = floor or Pose()
        """Where a floor is drawn; it is one for robots that are free, where their files have none."""
        self.base = SAID
        """What holds the robots: one of `BASES`."""
        self.n_envs = n_envs if scene is None else scene.n_envs
        self.scene = scene
        self.lock = threading.RLock()
        """Held by whoever looks at the scene or changes it."""
        self.playing = False
        self.speed = 1.0
        self.frame = FRAME
        """Seconds between pictures now."""
        self.fault = ""
        """Why it cannot be simulated; empty where it can, or nobody has tried."""
        self.pull: Pull | None = None
        self.on_frame: Callable[[], None] = lambda: None
        """Called after each frame's steps."""
        self.on_state: Callable[[str], None] = lambda _: None
        """Called with a word when something begins or ends: `compiling`, `playing`, `paused`, `failed`."""
        self.commands = Commands([]) if scene is None else Commands([e.entity for e in self.exhibits if e.entity])
        self._changed = True
        self._alive = True
        self._compiled = False
        self._wake = threading.Event()
        self._thread = threading.Thread(target=self._run, name="kinema-player", daemon=True)
        self._thread.start()

    # --------------------------------------------------------------------------------------------------- building

    def ready(self) -> bool:
        """Whether there is a scene; it is made now if it was not. False where it cannot be, and `fault` says why."""
        with self.lock:
            if self.scene is None and not self.fault:
                try:
                    self._build()
                except KinemaError as error:
                    self.fault = str(error)
                    self.on_state("failed")
            return self.scene is not None

    def _build(self) -> None:
        steps = [e.description.options.get("timestep") for e in self.exhibits]
        dt = next((float(x) for x in steps if x and 1e-5 <= float(x) <= 0.02), 0.002)
        scene = Scene(dt=dt, quiet=True)
        entities = [
            scene.add(
                e.description, fixed=FIXED[self.base], pos=e.offset.position, quat=e.offset.quaternion, name=e.title
            )
            for e in self.exhibits
        ]
        add_floor_below(scene, self.exhibits, entities, self.floor)
        scene.build(self.n_envs, external_forces=True)
        for exhibit, entity in zip(self.exhibits, entities, strict=True):
            exhibit.entity = entity
        for exhibit in self.exhibits:
            exhibit.give_to(None)
        self.commands = Commands(entities, self.commands.way)
        self.scene = scene
        self._changed = True

    def choose_base(self, base: str) -> None:
        """Let robots be held otherwise, one of `BASES`: from the start again, and compiled anew when it plays."""
        with self.lock:
            self.base, self.fault, self.scene, self.pull = base, "", None, None
            self._compiled = False
            self.commands = Commands([], self.commands.way)
            for exhibit in self.exhibits:
                exhibit.entity = None
                exhibit.reset()
        self.on_frame()
        self._wake.set()

    def be_like(self, other: Player) -> None:
        """Speed, commands and what holds the base, as another had them."""
        self.speed, self.base, self.commands.way = other.speed, other.base, other.commands.way

    # --------------------------------------------------------------------------------------------------- playing

    def play(self) -> None:
        """Go on, from where the joints are."""
        self.playing = True
        self._wake.set()

    def pause(self) -> None:
        """Stop where it is."""
        self.playing = False
        self.on_state("paused")

    def tell(self) -> None:
        """Commands have changed."""
        self._changed = True

    def step(self, count: int = 1) -> None:
        """Take some steps now; a first one compiles, which takes a while."""
        if not self._compiled and not self.fault:
            self.on_state("compiling")  # before it is built, which takes a while as well
        with self.lock:
            if not self.ready():
                return
            assert self.scene is not None
            try:
                self._steps(self.scene, count)
            except KinemaError as error:
                self.fault, self.playing = str(error), False
                self.on_state("failed")
                return
            if not self._compiled:
                self._compiled = True
                self.on_state("playing" if self.playing else "paused")

    def _steps(self, scene: Scene, count: int) -> None:
        while count > 0:
            self.commands.tell(scene.time, changed=self._changed)
            self._changed = False
            some = count
            if self.pull is not None:
                self.pull.apply()
                some = min(count, max(1, round(_PULL_EVERY / scene.dt)))
            scene.step(some)
            count -= some

    def reset(self, keyframe: str | None = None) -> None:
        """Back to the start, or to a state that a file names."""
        with self.lock:
            if keyframe is None:
                for exhibit in self.exhibits:
                    exhibit.reset()
            if (keyframe is not None or self.scene is not None) and self.ready():
                assert self.scene is not None
                self.scene.reset(keyframe=keyframe)
                self._changed = keyframe is None
                for exhibit in self.exhibits:
                    exhibit.take_from(0)
        self.on_frame()

    def grab(self, pull: Pull | None) -> None:
        """Begin to pull, or let go."""
        with self.lock:
            if pull is None and self.pull is not None:
                self.pull.release()
            self.pull = pull

    def close(self) -> None:
        """End the thread."""
        self._alive = self.playing = False
        self._wake.set()
        self._thread.join(timeout=2.0)

    def _run(self) -> None:
        """Steps in the time of the clock while it plays; sleeps otherwise."""
        cost, last, owed = 1e-4, time.perf_counter(), 0.0
        while self._alive:
            if not self.playing:
                self._wake.wait()
                self._wake.clear()
                last, owed = time.perf_counter(), 0.0
                continue
            began = time.perf_counter()
            owed, last = owed + (began - last) * self.speed, began
            if not self._compiled:
                self.step()
                last, owed = time.perf_counter(), 0.0
            elif (scene := self.scene) is not None and owed >= scene.dt:
                count = min(int(owed / scene.dt), max(1, int(_BUSY * self.frame / cost)))
                self.step(count)
                owed = min(owed - count * scene.dt, self.frame)  # what cannot be made up for is forgotten
                cost = 0.8 * cost + 0.2 * (time.perf_counter() - began) / count
            if self.fault:
                self.playing = False
            self._show()
            time.sleep(max(0.0, self.frame - (time.perf_counter() - began)))

    def _show(self) -> None:
        if self._alive:
            self.on_frame()
