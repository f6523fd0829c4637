"""A model in parts that do not touch each other, and how long the straight lines of these would be."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from kinema.model import Model

from ..sweeps.tree import WORLD

LARGEST_UNROLLED = 20_000
"""Operations beyond which straight lines take too long to compile, at about a second for a thousand."""
STEPPED_BY_JOINT = 520
"""About how many operations a degree of freedom takes when a tree is stepped joint by joint, whatever its depth."""

FELT = {"box": 400, "ellipsoid": 1_200}
"""About how many more operations it takes that something feels a medium."""


@dataclass(frozen=True, slots=True, eq=False)
class Component:
    """Frames that depend on each other, and what belongs to them: global numbers, in order."""

    frames: list[int]
    qs: list[int]
    dofs: list[int]
    links: list[int]
    actuators: list[int]
    tendons: list[int]
    samples: list[int]
    """Of the controls that its actuators remember."""

    @property
    def is_contiguous(self) -> bool:
        """Whether its coordinates and degrees of freedom are ranges."""
        return all(x[-1] - x[0] == len(x) - 1 for x in (self.qs, self.dofs))


def components(model: Model) -> list[Component]:
    """The parts of a model, in the order of their first frames: trees, joined by tendons and actuators on several."""
    label = _labels(model)
    parts: dict[int, Component] = {}
    for frame, own in enumerate(label):
        part = parts.setdefault(own, Component([], [], [], [], [], [], []))
        part.frames.append(frame)
        part.qs.extend(model.qs_of_frame(frame))
        part.dofs.extend(model.dofs_of_frame(frame))
    for link, frame in enumerate(model.links.frame_idx.tolist()):
        if frame != WORLD:
            parts[label[frame]].links.append(link)
    for actuator in range(model.n_actuators):
        touched = _touched(model, actuator)
        if touched:
            part = parts[label[touched[0]]]
            part.actuators.append(actuator)
            start = int(model.actuators.samples[:actuator].sum())
            part.samples.extend(range(start, start + int(model.actuators.samples[actuator])))
    for tendon in range(len(model.tendons.names)):
        pulled = _pulled(model, model.tendons.moment[tendon])
        if pulled:
            parts[label[pulled[0]]].tendons.append(tendon)
    for part in parts.values():
        part.qs.sort()
        part.dofs.sort()
    return list(parts.values())


def _labels(model: Model) -> list[int]:
    """Of each frame the first one that it depends on, or that depends on it."""
    label = list(range(model.n_frames))

    def find(frame: int) -> int:
        while label[frame] != frame:
            label[frame] = label[label[frame]]
            frame = label[frame]
        return frame

    def join(together: Sequence[int]) -> None:
        roots = sorted({find(f) for f in together})
        for root in roots[1:]:
            label[root] = roots[0]

    for frame, parent in enumerate(model.frames.parent_idx.tolist()):
        if parent != WORLD:
            join([frame, parent])
    for actuator in range(model.n_actuators):
        join(_touched(model, actuator))
    for moment in (*model.tendons.moment, *(model.couplings.moment_a != 0) + (model.couplings.moment_b != 0)):
        join(_pulled(model, moment))
    for path in set(model.paths.path_idx.tolist()):
        join([f for f in model.paths.frame_idx[model.paths.path_idx == path].ravel().tolist() if f != WORLD])
    for pair in (*zip(model.ties.frame_a.tolist(), model.ties.frame_b.tolist(), strict=True), *touching(model)):
        join([f for f in pair if f != WORLD])
    return [find(f) for f in range(model.n_frames)]


def touching(model: Model) -> list[tuple[int, int]]:
    """Frames that may touch."""
    geoms, pairs = model.geoms, model.pairs
    own = (geoms.frame_idx[geom].tolist() for geom in (pairs.geom_a, pairs.geom_b))
    return sorted(set(zip(*own, strict=True)))


def _pulled(model: Model, moment: np.ndarray) -> list[int]:
    return [int(model.dofs.frame_idx[d]) for d in moment.nonzero()[0]]


def _touched(model: Model, actuator: int) -> list[int]:
    frame = int(model.actuators.frame_idx[actuator])
    return _pulled(model, model.actuators.moment[actuator]) + ([] if frame == WORLD else [frame])


def estimated_operations(model: Model, frames: Sequence[int] | None = None) -> int:
    """About how many operations an unrolled step takes: more for each degree of freedom, the more of them move it."""
    depth: dict[int, int] = {WORLD: 0}
    total = 0
    chosen = range(model.n_frames) if frames is None else frames
    total += sum(FELT[kind] for kind, f in zip(model.fluid.kinds, model.fluid.frame_idx, strict=True) if f in chosen)
    for frame in chosen:
        n = len(model.dofs_of_frame(frame))
        above = depth[int(model.frames.parent_idx[frame])]
        depth[frame] = above + n
        total += sum(120 + 22 * d + 2 * d * d // 5 for d in range(above, above + n))
    return total


def is_deep(model: Model, part: Component) -> bool:
    """Whether its straight line takes more operations than stepping it joint by joint: chains of about 27 hinges."""
    return estimated_operations(model, part.frames) > STEPPED_BY_JOINT * len(part.dofs)
