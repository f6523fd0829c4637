"""How easily constraints are moved: the inverse inertias that decide how hard they are, for many models at once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from kinema.foundation import Array
from kinema.model import Model
from kinema.trace import Program, can_run, interpret_in, run_side_by_side

from ..arrays import Owner
from ..collide.numbers import WEIGHTS, hardest_of
from ..collide.planned import PlannedSet, planned_sets
from ..constrain.blocks import block_name
from ..constrain.kinds import kinds_and_blocks
from ..force.rotors import mass_with_rotors
from ..rigid.kinematics import twist_at, twists
from ..rigid.links import link_bodies
from ..settings import Settings
from ..step import Step
from ..sweeps.idle import trees_of_frames
from ..sweeps.own import ARRAY
from ..sweeps.sweeps import Sweeps
from ..sweeps.tree import WORLD, Link, Node, grow
from ..variants import WEIGHING
from .condition import SMALLEST, measured
from .programs import MANY_FRAMES, named, table_program
from .variants import own_numbers


@dataclass(frozen=True, slots=True, eq=False)
class Mobility:
    """What inverse inertias there are at the start, of some models or environments."""

    inverse: Array
    """Of degrees of freedom, (columns, n_dofs, n_dofs)."""
    of_dof: Array
    """Of each by itself, (columns, n_dofs)."""
    of_link: Mapping[int, Array]
    """Of links: mean of translation and rotation at their centres of mass, (columns, 2)."""


OFF_AXIS = {"single": 1e-5, "double": 0.0}
"""How easily a link that contacts push on is moved at least, in shares of how easily it is turned [m2].

One that turns about its own centre of mass cannot be moved there at all, so that its contacts are as hard as numbers
go: in single precision they would be infinite once squared. They are as if the centre lay three millimetres off.
"""


def weigh_constraints(*models: Model, precision: str = "double") -> None:
    """How easily each constraint is moved at the start, into the tables of models of one form.

    As MuJoCo has them: of a degree of freedom (those of a ball, and the translations of a free joint, share theirs), of
    a coupling or a tendon by its levers, of a tie or a contact by the links it is between, at their centres of mass.
    """
    first = models[0]
    first.own = own_numbers(models, Settings()) if len(models) > 1 else None
    arrays = {"qpos": np.stack([model.qpos0 for model in models], axis=1)}
    if first.own is not None:
        arrays[ARRAY] = first.own.values
    found = mobility(first, Settings(own=first.own is not None), arrays)
    first.own = None
    for column, model in enumerate(models):
        _put(model, Weights.of(model, found, precision), column)


def mobility(
    model: Model, settings: Settings, arrays: Mapping[str, Array], programs: dict[Settings, Program] | None = None
) -> Mobility:
    """Inverse inertias, where columns of arrays tell how models or environments differ.

    `programs` keeps what takes longest, for the next time.
    """
    programs = {} if programs is None else programs
    n, (columns,) = model.n_dofs, {array.shape[1] for array in arrays.values()}
    ties, geoms, pairs = model.ties, model.geoms, model.pairs
    ends = (ties.link_a, ties.link_b, geoms.link_idx[pairs.geom_a], geoms.link_idx[pairs.geom_b])
    links = sorted({int(x) for own in ends for x in own if x >= 0})
    trees, of_frames = _dofs_of_trees(model), trees_of_frames(model)
    on_frames = [x for x in links if model.links.frame_idx[x] != WORLD]

    def run(s: Sweeps) -> None:
        step = Step(s)
        where, frames = step.where, step.frames
        mass_with_rotors(step).store("inertia")
        bodies = link_bodies(s, frames)

        def axes(node: Node) -> None:
            at = frames[node.here]
            own = [twist_at(at, twist, at.position) for twist in twists(node, where[node.here])]
            s.write("angular", node, [x for twist in own for x in twist.angular])
            s.write("linear", node, [x for twist in own for x in twist.linear])
            s.write("origin", node, [x for _ in own for x in at.position])

        def masses(link: Link) -> None:
            s.write("mass", link, [link.mass])
            s.write("center", link, bodies[link.here].center)

        s.each_frame("axes", axes)
        s.each_link("masses", masses)

    outputs = {"inertia": (Owner.DOF, n), "mass": (Owner.LINK, 1), "center": (Owner.LINK, 3)}
    outputs |= dict.fromkeys(("angular", "linear", "origin"), (Owner.DOF, 3))
    if settings not in programs:
        programs[settings] = table_program(model, settings, run, named(settings, outputs), outputs)
    told = {name: np.array(x, np.float64) for name, x in arrays.items()} | {"vel": np.zeros((n, columns))}
    for name, (owner, width) in outputs.items():
        told[name] = np.zeros(((model.n_links if owner is Owner.LINK else n) * width, columns))
    if model.n_frames >= MANY_FRAMES and can_run(programs[settings]):
        run_side_by_side(programs[settings], told)
    else:
        interpret_in(programs[settings], told, {})
    inertia, inverse = told["inertia"].T.reshape(columns, n, n), np.zeros((columns, n, n))
    for dofs in trees:
        inverse[:, dofs[:, None], dofs] = _inverse(inertia[:, dofs[:, None], dofs])
    of_link: dict[int, Array] = {x: np.zeros((columns, 2)) for x in (-1, *links)}
    angular, linear, origin = (told[name].T.reshape(columns, n, 3) for name in ("angular", "linear", "origin"))
    for link in on_frames:
        frame = int(model.links.frame_idx[link])
        moving = np.isin(model.dofs.frame_idx, _path(model, frame))[:, None]
        lever = told["center"][3 * link : 3 * link + 3].T[:, None] - origin
        jacobian = np.concatenate([linear + np.cross(angular, lever), angular], axis=2) * moving
        dofs = trees[of_frames[frame]]
        own = jacobian[:, dofs].swapaxes(1, 2)
        diagonal = ((own @ inverse[:, dofs[:, None], dofs]) * own).sum(axis=2)
        of_link[link] = np.stack([diagonal[:, :3].mean(axis=1), diagonal[:, 3:].mean(axis=1)], axis=1)
    of_dof = np.diagonal(inverse, axis1=1, axis2=2).copy()
    for link in np.flatnonzero(model.links.slides_alone).tolist():
        light = 1.0 / np.maximum(told["mass"][link], SMALLEST)
        of_dof[:, model.links.dof_start[link] : model.links.dof_end[link]] = light[:, None]
        of_link[link] = np.stack([light, np.zeros(columns)], axis=1)
    return Mobility(inverse, of_dof, of_link)


def _dofs_of_trees(model: Model) -> list[npt.NDArray[np.intp]]:
    """The degrees of freedom of each tree: inertia couples no others."""
    of_frames = np.array(trees_of_frames(model), np.intp)
    of_dofs = of_frames[model.dofs.frame_idx] if model.n_dofs else np.zeros(0, np.intp)
    return [np.flatnonzero(of_dofs == tree) for tree in range(int(of_frames.max(initial=-1)) + 1)]


def _path(model: Model, frame: int) -> list[int]:
    """A frame and all that carry it, up to the world."""
    path = []
    while frame != WORLD:
        path.append(frame)
        frame = int(model.frames.parent_idx[frame])
    return path


@dataclass(frozen=True, slots=True, eq=False)
class Weights:
    """How easily constraints are moved, (columns, ...) each as the tables of a model have it."""

    dofs: Array
    ties: Array
    pairs: Array
    tendons: Array
    couplings: Array

    @classmethod
    def of(cls, model: Model, known: Mobility, precision: str) -> Weights:
        """Those that follow from inverse inertias."""
        ties, tendons, couplings, geoms = model.ties, model.tendons, model.couplings, model.geoms
        own = known.of_dof.copy()
        for dofs in _sharing(model):
            own[:, dofs] = own[:, dofs].mean(axis=1, keepdims=True)
        _, moments = measured(model, model.qpos0)

        def along(levers: Array, paths: npt.NDArray[np.int32]) -> Array:
            full = [lever * (moments[path] if path >= 0 else 1.0) for lever, path in zip(levers, paths, strict=True)]
            columns = [((m @ known.inverse) * m).sum(axis=1) for m in full]
            return np.stack(columns, axis=1) if columns else np.zeros((len(known.inverse), 0))

        def between(a: npt.NDArray[np.int32], b: npt.NDArray[np.int32]) -> Array:
            sums = [known.of_link[i] + known.of_link[j] for i, j in zip(a.tolist(), b.tolist(), strict=True)]
            made = np.stack(sums, axis=1) if sums else np.zeros((len(known.inverse), 0, 2))
            return np.maximum(made, SMALLEST)

        def end(levers: Array, paths: npt.NDArray[np.int32]) -> Array:
            """Of a coupling: what holds a coordinate by itself counts as its limits do."""
            found = along(levers, paths)
            alone = (paths < 0) & (np.count_nonzero(levers, axis=1) == 1)
            found[:, alone] = known.of_dof @ levers[alone].T ** 2
            return found

        sides = end(couplings.moment_a, couplings.path_a) + end(couplings.moment_b, couplings.path_b)
        pairs = between(geoms.link_idx[model.pairs.geom_a], geoms.link_idx[model.pairs.geom_b])
        pairs[:, :, 0] = np.maximum(pairs[:, :, 0], OFF_AXIS[precision] * pairs[:, :, 1])
        return cls(
            dofs=own,
            ties=between(ties.link_a, ties.link_b),
            pairs=pairs,
            tendons=np.maximum(along(tendons.moment, tendons.path_idx), SMALLEST),
            couplings=np.maximum(sides, SMALLEST),
        )

    def flat(self) -> Array:
        """All of them, (columns, numbers)."""
        return np.concatenate([x.reshape(len(x), -1) for x in self._all()], axis=1)

    def _all(self) -> tuple[Array, ...]:
        return self.dofs, self.ties, self.pairs, self.tendons, self.couplings


def _put(model: Model, weights: Weights, column: int) -> None:
    """Into the tables of a model."""
    tendons = model.tendons
    model.dofs.invweight = weights.dofs[column]
    model.ties.weight[:] = weights.ties[column]
    model.pairs.weight[:] = weights.pairs[column]
    tendons.weight = weights.tendons[column]
    unit = np.where(tendons.per_inertia, 1.0 / tendons.weight, 1.0)
    tendons.stiffness, tendons.damping = unit * tendons.stiffness, unit * tendons.damping
    tendons.per_inertia[:] = False
    model.couplings.weight = weights.couplings[column]


def own_weights(
    model: Model, settings: Settings, arrays: Mapping[str, Array], programs: dict[Settings, Program], precision: str
) -> tuple[npt.NDArray[np.intp], Array, Array]:
    """How hard constraints are where masses differ between environments.

    `arrays` are those of the engine that masses follow from. Given back are rows of `own_numbers`, what belongs there,
    (rows, environments), and the inverse inertias of degrees of freedom, (n_dofs, environments). `programs` are kept.
    """
    assert model.own is not None
    asked = replace(Settings(), per_env=settings.per_env & WEIGHING, own=ARRAY in arrays)
    (columns,) = {array.shape[1] for array in arrays.values()}
    start = np.repeat(model.qpos0[:, None], columns, axis=1)
    weights = Weights.of(model, mobility(model, asked, {**arrays, "qpos": start}, programs), precision)
    known, rows, values = weights.flat().T, [], []
    for part, numbers, plan in _sources(model, settings):
        for word, sources in numbers.items():
            own = model.own.words.get((*part, word))
            if own is not None:
                found = known[[int(i) for i in sources]]
                found = found if word != "hardest" or plan is None else hardest_of(settings, plan, found)
                rows += range(own.start, own.start + len(sources))
                values.append(np.broadcast_to(found, (len(sources), columns)))
    return np.array(rows, np.intp), np.concatenate([np.zeros((0, columns)), *values]), weights.dofs.T


def _sources(
    model: Model, settings: Settings
) -> Iterator[tuple[tuple[str, int | str], dict[str, list[float]], PlannedSet | None]]:
    """Of each pair and block which of all weights it has, by their numbers in `Weights.flat`."""
    tables = (model.dofs.invweight, model.ties.weight, model.pairs.weight, model.tendons.weight, model.couplings.weight)
    ends = np.cumsum([table.size for table in tables])
    ids = [np.arange(end - x.size, end, dtype=np.float64).reshape(x.shape) for x, end in zip(tables, ends, strict=True)]
    tagged = replace(
        model,
        dofs=replace(model.dofs, invweight=ids[0]),
        ties=replace(model.ties, weight=ids[1]),
        tendons=replace(model.tendons, weight=ids[3]),
        couplings=replace(model.couplings, weight=ids[4]),
    )
    for plan in planned_sets(model) if settings.contacts else ():
        for p in plan.pairs:
            yield ("pair", p), {word: [float(ids[2][p, 0])] for word in WEIGHTS}, plan
    for _, blocks in kinds_and_blocks(tagged, settings, grow(tagged).nodes):
        for block in blocks:
            yield ("block", block_name(block)), {"weights": list(block.weights)}, None


def _inverse(inertia: Array) -> Array:
    """Where something has no inertia, which may be given it later, it counts for nothing."""
    try:
        found = np.linalg.inv(inertia)
    except np.linalg.LinAlgError:
        found = np.linalg.pinv(inertia)
    if not np.isfinite(found).all():
        found = np.linalg.pinv(np.nan_to_num(inertia))
    return np.asarray(found, np.float64)


def _sharing(model: Model) -> list[list[int]]:
    """Degrees of freedom that count as one: those of balls, and the translations of free joints."""
    balls = [list(node.dofs) for node in grow(model).nodes if len(node.dofs) > 1]
    joints = model.joints
    free = [i for i, kind in enumerate(joints.kinds) if kind == "free"]
    return balls + [list(range(joints.dof_start[i], joints.dof_start[i] + 3)) for i in free]
