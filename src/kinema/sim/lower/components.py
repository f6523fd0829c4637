"""A model in parts that do not touch each other, and which of those are copies of one another."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, replace
from typing import TypeVar

import numpy as np

from kinema.model import ActuatorsInfo, DofsInfo, FramesInfo, JointsInfo, LinksInfo, Model, TendonsInfo

from ..arrays import ARRAYS, Use
from ..rigid.tree import WORLD
from ..settings import Settings

Table = TypeVar("Table", FramesInfo, LinksInfo, DofsInfo, ActuatorsInfo, TendonsInfo, JointsInfo)

LARGEST_UNROLLED = 20_000
"""Operations beyond which straight lines take too long to compile, at about a second for a thousand."""
STEPPED_BY_JOINT = 520
"""About how many operations a degree of freedom takes when a tree is stepped joint by joint, whatever its depth."""


@dataclass(frozen=True, slots=True, eq=False)
class Component:
    """Frames that depend on each other, and what belongs to them: global numbers, in order."""

    frames: list[int]
    qs: list[int]
    dofs: list[int]
    links: list[int]
    actuators: list[int]
    tendons: list[int]

    @property
    def is_contiguous(self) -> bool:
        """Whether its coordinates and degrees of freedom are ranges."""
        return all(x[-1] - x[0] == len(x) - 1 for x in (self.qs, self.dofs))


def components(model: Model) -> list[Component]:
    """The parts of a model, in the order of their first frames: trees, joined by tendons and actuators on several."""
    label = _labels(model)
    parts: dict[int, Component] = {}
    for frame, own in enumerate(label):
        part = parts.setdefault(own, Component([], [], [], [], [], []))
        part.frames.append(frame)
        part.qs.extend(model.qs_of_frame(frame))
        part.dofs.extend(model.dofs_of_frame(frame))
    for link, frame in enumerate(model.links.frame_idx.tolist()):
        if frame != WORLD:
            parts[label[frame]].links.append(link)
    for actuator in range(model.n_actuators):
        touched = _touched(model, actuator)
        if touched:
            parts[label[touched[0]]].actuators.append(actuator)
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
    for moment in model.tendons.moment:
        join(_pulled(model, moment))
    return [find(f) for f in range(model.n_frames)]


def _pulled(model: Model, moment: np.ndarray) -> list[int]:
    return [int(model.dofs.frame_idx[d]) for d in moment.nonzero()[0]]


def _touched(model: Model, actuator: int) -> list[int]:
    frame = int(model.actuators.frame_idx[actuator])
    return _pulled(model, model.actuators.moment[actuator]) + ([] if frame == WORLD else [frame])


def estimated_operations(model: Model, frames: Iterable[int] | None = None) -> int:
    """About how many operations an unrolled step takes: more for each degree of freedom, the more of them move it."""
    depth: dict[int, int] = {WORLD: 0}
    total = 0
    for frame in range(model.n_frames) if frames is None else frames:
        n = len(model.dofs_of_frame(frame))
        above = depth[int(model.frames.parent_idx[frame])]
        depth[frame] = above + n
        total += sum(120 + 22 * d + 2 * d * d // 5 for d in range(above, above + n))
    return total


def is_deep(model: Model, part: Component) -> bool:
    """Whether its straight line takes more operations than stepping it joint by joint: chains of about 27 hinges."""
    return estimated_operations(model, part.frames) > STEPPED_BY_JOINT * len(part.dofs)


def submodel(model: Model, part: Component) -> Model:
    """One part as a model of its own, with numbers that start from zero."""
    frame = {WORLD: WORLD, **{f: i for i, f in enumerate(part.frames)}}
    link = {f: i for i, f in enumerate(part.links)}
    q0, dof0 = part.qs[0], part.dofs[0]
    frames = _rows(model.frames, part.frames)
    links = _rows(model.links, part.links)
    dofs = _rows(model.dofs, part.dofs)
    actuators = _rows(model.actuators, part.actuators)
    tendons = _rows(model.tendons, part.tendons)
    frames = replace(
        frames,
        parent_idx=_renumbered(frames.parent_idx, frame),
        q_start=frames.q_start - q0,
        dof_start=frames.dof_start - dof0,
    )
    links = replace(
        links,
        parent_idx=np.array([link.get(int(p), -1) for p in links.parent_idx], np.int32),
        frame_idx=_renumbered(links.frame_idx, frame),
    )
    dofs = replace(
        dofs,
        frame_idx=_renumbered(dofs.frame_idx, frame),
        q_idx=np.where(dofs.q_idx >= 0, dofs.q_idx - q0, -1).astype(np.int32),
    )
    actuators = replace(
        actuators, moment=actuators.moment[:, part.dofs], frame_idx=_renumbered(actuators.frame_idx, frame)
    )
    return replace(
        model,
        entities=[],
        links=links,
        joints=_rows(model.joints, []),
        frames=frames,
        dofs=dofs,
        actuators=actuators,
        tendons=replace(tendons, moment=tendons.moment[:, part.dofs]),
        qpos0=model.qpos0[part.qs],
        names_of_frames=[model.names_of_frames[f] for f in part.frames] if model.names_of_frames else [],
    )


def _rows(table: Table, rows: Sequence[int]) -> Table:
    """Some rows of all arrays of a table."""
    chosen = {}
    for f in fields(table):
        values = getattr(table, f.name)
        chosen[f.name] = [values[r] for r in rows] if isinstance(values, list) else values[list(rows)]
    return replace(table, **chosen)


def _renumbered(numbers: np.ndarray, new: dict[int, int]) -> np.ndarray:
    return np.array([new[int(n)] for n in numbers], np.int32)


MAY_DIFFER = {
    "frames": ("pos", "rot"),
    "links": ("pos", "rot", "inertial_mass", "inertial_pos", "inertial_i"),
    "dofs": ("armature", "damping"),
}
"""Numbers that copies may have their own of: the code reads them from a table where they do."""
NEVER_READ = {
    "links": ("names", "entity_idx", "q_start", "q_end", "dof_start", "dof_end", "geom_start", "geom_end", "is_fixed"),
    "dofs": ("names", *(info.name for info in ARRAYS if info.use is Use.INPUT), "target_pos", "target_vel"),
    "actuators": ("names",),
    "tendons": ("names",),
}
"""What a step does not look at in the model: names, indices, and what it has as inputs."""


def signature(part: Component, own: Model, settings: Settings) -> tuple[object, ...]:
    """Equal for parts that one code can step: same tree, same springs and actuators, laid out in the same way."""
    links_matter = bool(
        settings.external_forces
        or settings.per_env & {"mass_shift", "com_shift"}
        or (own.links.gravity_scale != 1.0).any()
    )
    key: list[object] = [
        tuple(link - part.links[0] for link in part.links),
        tuple(a - part.actuators[0] for a in part.actuators),
    ]
    for name in ("frames", "links", "dofs", "actuators", "tendons"):
        table = getattr(own, name)
        skipped = (*NEVER_READ.get(name, ()), *MAY_DIFFER.get(name, ()))
        if name == "links" and links_matter:
            skipped = NEVER_READ["links"]
        key += [_content(getattr(table, f.name)) for f in fields(table) if f.name not in skipped]
    return tuple(key)


def _content(values: np.ndarray | list[str]) -> object:
    return tuple(values) if isinstance(values, list) else values.tobytes()
