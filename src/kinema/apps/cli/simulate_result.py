"""What `kinema simulate` is asked for, and what came of it."""

from __future__ import annotations

from dataclasses import dataclass, field

from kinema.foundation import Diagnostic, StageSeconds
from kinema.scene import Entity, Scene, SceneState

from .simulate_profile import Profile


@dataclass(frozen=True, kw_only=True, slots=True)
class Options:
    """What is asked for."""

    envs: int
    steps: int
    dt: float
    device: str
    integrator: str
    precision: str
    control: str
    seed: int
    contacts: bool
    limits: bool
    json: bool
    profile: bool = False


@dataclass(slots=True, eq=False)
class Code:
    """Which code the steps ran."""

    steps: dict[str, int] = field(default_factory=dict)
    """How many began at each tier."""

    def words(self, after: dict[str, float], *, waits: bool) -> str:
        """In a few words, if tiers became active `after` so many seconds; whether another tier is still to come."""
        if set(self.steps) == {"baseline", "optimised"}:
            return f"baseline for {self.steps['baseline']:,} steps, optimised after {after.get('optimised', 0.0):.1f} s"
        tier = next(iter(self.steps), "")
        more = " (the optimised tier was still being compiled in the background)" if waits else ""
        return f"{tier or 'none'}{more}"


@dataclass(slots=True, eq=False)
class Result:
    """What came of it."""

    scene: Scene
    entity: Entity
    stages: StageSeconds
    """Seconds from reading the file to the first step."""
    step_seconds: float
    energy: tuple[float, float] | None
    """Kinetic and potential together, on average over environments, before and after; where nothing but weight and
    springs act."""
    code: Code
    start: SceneState | None = None
    """Where it began, if it is to be profiled."""
    profile: Profile | None = None

    @property
    def diagnostics(self) -> list[Diagnostic]:
        """Of the file and of the scene."""
        return [*self.entity.description.diagnostics.items, *self.scene.diagnostics.items]
