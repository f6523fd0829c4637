"""Inverse weights of constraints (MuJoCo's invweight0): diagonals of J M^-1 J^T at qpos0 for dofs, links, tendons.

Arrays have a leading axis of columns: one column for each model variant, or for each environment.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from kinema.core import Array, reproducible_inverse, reproducible_product
from kinema.ir import Program, interpret_batched, interpret_in_place, supports_batching
from kinema.model import Model

from ..arrays import ElementKind, initial_kinematic_arrays
from ..collision.contact_buffer_specs import ContactBufferSpec, plan_contact_buffers
from ..collision.pair_parameters import INVWEIGHT_COLUMNS, stiffness_limit
from ..constraints.constraint_kinds import blocks_by_kind
from ..constraints.rows import block_key
from ..free_bodies import articulated_frames
from ..model_variants import INVWEIGHT_PARAMETERS
from ..pipeline import compute
from ..rigid.kinematics import motion_subspace, twist_at_point
from ..settings import Settings
from ..step import StepData
from ..topology import ancestor_frames, dynamic_frames
from ..tree.kinematic_tree import WORLD, FrameNode, LinkNode, build_tree
from ..tree.loop_context import tree_index_of_frames
from ..tree.node_constants import ARRAY
from ..tree.trace_context import TraceContext
from .free_body_inertia import free_body_inverses
from .per_env_parameters import find_per_env_parameters
from .program_tracing import MIN_BATCHED_FRAMES, named_array_offsets, trace_looped_program
from .reference_configuration import MIN_VALUE, path_lengths_and_moments


@dataclass(frozen=True, slots=True, eq=False)
class InverseInertias:
    """Inverse inertias of dofs and links at qpos0, for several columns (model variants or environments)."""

    trees: Sequence[tuple[npt.NDArray[np.intp], Array]]
    """Dofs of each kinematic tree, and their block of M^-1, (columns, n, n); all other entries are zero."""
    dof: Array
    """Diagonal of M^-1, (columns, n_dofs); 1 / mass for the dofs of simple sliders (`LinksInfo.is_simple_slider`)."""
    link: Mapping[int, Array]
    """Link -> mean translational and rotational diagonal of J M^-1 J^T at its centre of mass, (columns, 2)."""

    def of_column(self, column: int) -> InverseInertias:
        """Values of a single column."""
        i = slice(column, column + 1)
        trees, links = [(dofs, x[i]) for dofs, x in self.trees], {x: y[i] for x, y in self.link.items()}
        return InverseInertias(trees, self.dof[i], links)


MIN_LEVER_ARM, MIN_LEVER_ARM_SHARE = {"single": 0.003, "double": 0.0}, 0.03
"""Distance [m] by precision, and distance relative to the smaller of both geoms, of which the smaller one limits the
stiffness of a contact: its translational invweight is at least the rotational invweight times the squared distance.

A link that rotates about its own centre of mass has no translational inverse inertia there; its contacts would be so
stiff that squares overflow in single precision. The bound acts as if the centre of mass lay that far off the axis.
"""


def min_lever_arms(model: Model, precision: str) -> Array:
    """Distance [m] of the centre of mass from the axis that contacts of each geom pair assume at least, (n_pairs,)."""
    radii = np.where(model.geoms.radius > 0.0, model.geoms.radius, np.inf)
    smaller = np.minimum(radii[model.pairs.geom_a], radii[model.pairs.geom_b])
    return np.minimum(MIN_LEVER_ARM[precision], MIN_LEVER_ARM_SHARE * smaller)


def with_constraint_invweights(models: Sequence[Model], precision: str = "double") -> list[Model]:
    """Model variants with derived invweights of all constraints at qpos0.

    As in MuJoCo: of a dof the diagonal of M^-1 (averaged over the dofs of a ball joint and over the translations of a
    free joint), of a tendon or coupling J M^-1 J^T with its moment arms, of an equality constraint or contact the sum
    over its two links at their centres of mass. Stiffness and damping of acceleration drives of tendons are multiplied
    by the effective inertia 1 / invweight.
    """
    parameters = find_per_env_parameters(models, Settings()) if len(models) > 1 else None
    arrays = {"qpos": np.stack([model.qpos0 for model in models], axis=1)}
    if parameters is not None:
        arrays[ARRAY] = parameters.values
    inverse_inertias = compute_inverse_inertias(
        models[0].with_derived(per_env_parameters=parameters),
        Settings(per_env_parameters=parameters is not None),
        arrays,
    )
    return [
        with_invweights(model, ConstraintInvweights.from_inverse_inertias(model, inverse_inertias, precision), column)
        for column, model in enumerate(models)
    ]


def with_invweights(model: Model, invweights: ConstraintInvweights, column: int) -> Model:
    """Model with the derived invweights of its constraints, from one column (model variant).

    Stiffness and damping of acceleration drives of tendons are multiplied by the effective inertia 1 / invweight.
    """
    tendons, tendon_invweight = model.tendons, invweights.tendons[column]
    unit = np.where(tendons.acceleration_drive, 1.0 / tendon_invweight, 1.0)
    return model.with_derived(
        dof_invweight=invweights.dofs[column],
        equality_invweight=invweights.equalities[column],
        pair_invweight=invweights.pairs[column],
        geom_invweight=invweights.geoms[column],
        tendon_invweight=tendon_invweight,
        tendon_stiffness=unit * tendons.stiffness,
        tendon_damping=unit * tendons.damping,
        coupling_invweight=invweights.couplings[column],
    )


def compute_inverse_inertias(
    model: Model, settings: Settings, arrays: Mapping[str, Array], program_cache: dict[Settings, Program] | None = None
) -> InverseInertias:
    """Compute M^-1, its diagonal per dof, and mean translational and rotational inverse inertias of constrained links.

    A traced program for mass matrix, joint axes, link masses and centres of mass is interpreted at the configurations
    in `arrays`; M is inverted tree by tree. The values of a link are means over the diagonal of J M^-1 J^T at its
    centre of mass. Links are those of equality constraints and collision pairs.

    Args:
        model: the model.
        settings: settings with the per-environment parameters that the program reads.
        arrays: input arrays, (values, columns) each, `qpos` among them; one column per model variant or environment.
        program_cache: traced programs by settings, reused and extended.
    """
    program_cache = {} if program_cache is None else program_cache
    (columns,) = {array.shape[1] for array in arrays.values()}
    is_of_model = columns == 1 and set(arrays) == {"qpos"}
    if not (model.has_pair_rules and is_of_model):
        return _interpreted_inverse_inertias(model, settings, arrays, program_cache, None)
    found, frames = inverse_inertias_of_free_bodies(model), articulated_frames(model)
    if found is None:
        return _interpreted_inverse_inertias(model, settings, arrays, program_cache, None)
    if not frames:
        return found
    others = _interpreted_inverse_inertias(model, settings, arrays, program_cache, frames)
    is_articulated = np.isin(model.dofs.frame_idx, frames)
    dof_values = np.where(is_articulated, others.dof, found.dof)
    return InverseInertias([*found.trees, *others.trees], dof_values, {**found.link, **others.link})


def _interpreted_inverse_inertias(
    model: Model,
    settings: Settings,
    arrays: Mapping[str, Array],
    program_cache: dict[Settings, Program],
    frames: Sequence[int] | None,
) -> InverseInertias:
    """Inverse inertias of the trees with the given frames, None for all, by interpreting a traced program."""
    n, (columns,) = model.n_dofs, {array.shape[1] for array in arrays.values()}
    equalities, geoms, pairs = model.equalities, model.geoms, model.pairs
    ends = (equalities.link_a, equalities.link_b, geoms.link_idx[pairs.geom_a], geoms.link_idx[pairs.geom_b])
    if model.has_pair_rules:
        ends = (*ends, geoms.link_idx)
    links = sorted({int(x) for indices in ends for x in np.unique(indices).tolist() if x >= 0})
    trees, tree_of_frame = _tree_dofs(model), tree_index_of_frames(model)
    frames_of_links = dynamic_frames(model, model.links.frame_idx)
    inverted = range(len(trees))
    if frames is not None:
        links = [x for x in links if int(frames_of_links[x]) in set(frames)]
        inverted = sorted({tree_of_frame[frame] for frame in frames})
    moving_links = [x for x in links if frames_of_links[x] != WORLD]
    first_dofs = np.zeros(n, np.intp)
    row_length = max((int(np.ptp(trees[i])) + 1 for i in inverted if len(trees[i])), default=1)
    for dofs in trees:
        first_dofs[dofs] = dofs.min(initial=n)

    def trace(ctx: TraceContext) -> None:
        step = StepData(ctx)
        compute(step, "mass_matrix", "link_bodies")
        local_poses, world_poses, bodies = step.local_poses, step.world_poses, step.link_bodies
        step.mass_matrix.store("inertia", first_dofs.tolist(), row_length)

        def axes(node: FrameNode) -> None:
            pose = world_poses[node.ref]
            twists = [
                twist_at_point(pose, twist, pose.position) for twist in motion_subspace(node, local_poses[node.ref])
            ]
            ctx.write("angular", node, [x for twist in twists for x in twist.angular])
            ctx.write("linear", node, [x for twist in twists for x in twist.linear])
            ctx.write("origin", node, [x for _ in twists for x in pose.position])

        def mass_properties(link: LinkNode) -> None:
            ctx.write("mass", link, [link.mass])
            ctx.write("center", link, bodies[link.ref].com)

        ctx.for_each_frame("joint axes", axes)
        ctx.for_each_link("link masses", mass_properties)

    outputs = {"inertia": (ElementKind.DOF, row_length), "mass": (ElementKind.LINK, 1), "center": (ElementKind.LINK, 3)}
    outputs |= dict.fromkeys(("angular", "linear", "origin"), (ElementKind.DOF, 3))
    if settings not in program_cache:
        program_cache[settings] = trace_looped_program(
            model, settings, trace, named_array_offsets(settings, outputs), outputs, frames
        )
    memory = {name: np.array(x, np.float64) for name, x in arrays.items()} | {"vel": np.zeros((n, columns))}
    memory |= {name: np.repeat(x[:, None], columns, 1) for name, x in initial_kinematic_arrays(model).items()}
    for name, (element_kind, width) in outputs.items():
        memory[name] = np.zeros(((model.n_links if element_kind is ElementKind.LINK else n) * width, columns))
    if model.n_frames >= MIN_BATCHED_FRAMES and supports_batching(program_cache[settings]):
        interpret_batched(program_cache[settings], memory)
    else:
        interpret_in_place(program_cache[settings], memory, {})
    inertia = memory["inertia"].T.reshape(columns, n, row_length)
    inverses = {i: _invert_inertia(inertia[:, trees[i][:, None], trees[i] - trees[i].min(initial=n)]) for i in inverted}
    link_values: dict[int, Array] = {x: np.zeros((columns, 2)) for x in (-1, *links)}
    link_values |= _inverse_inertias_of_links(model, moving_links, memory, trees, inverses)
    dof_values = np.zeros((columns, n))
    for i, inverse in inverses.items():
        dof_values[:, trees[i]] = np.diagonal(inverse, axis1=1, axis2=2)
    for link in np.flatnonzero(model.links.is_simple_slider).tolist():
        inverse_mass = 1.0 / np.maximum(memory["mass"][link], MIN_VALUE)
        dof_values[:, model.links.dof_start[link] : model.links.dof_end[link]] = inverse_mass[:, None]
        link_values[link] = np.stack([inverse_mass, np.zeros(columns)], axis=1)
    return InverseInertias([(trees[i], inverse) for i, inverse in inverses.items()], dof_values, link_values)


def _inverse_inertias_of_links(
    model: Model,
    links: Sequence[int],
    memory: Mapping[str, Array],
    trees: Sequence[npt.NDArray[np.intp]],
    inverses: Mapping[int, Array],
) -> dict[int, Array]:
    """Mean translational and rotational diagonals of J M^-1 J^T of moving links, given motion axes and centres of mass.

    Args:
        model: the model.
        links: the links.
        memory: outputs of the program of `_interpreted_inverse_inertias`.
        trees: dofs of each tree.
        inverses: inverse mass matrix of the trees of the links.
    """
    n, result, tree_of_frame = model.n_dofs, dict[int, Array](), tree_index_of_frames(model)
    columns = memory["angular"].shape[1]
    angular, linear, origin = (memory[name].T.reshape(columns, n, 3) for name in ("angular", "linear", "origin"))
    for link in links:
        frame = int(model.links.frame_idx[link])
        dofs = trees[tree_of_frame[frame]]
        is_ancestor = np.isin(model.dofs.frame_idx[dofs], ancestor_frames(model, frame))[:, None]
        arm = memory["center"][3 * link : 3 * link + 3].T[:, None] - origin[:, dofs]
        axes_at_center = linear[:, dofs] + np.cross(angular[:, dofs], arm)
        tree_jacobian = (np.concatenate([axes_at_center, angular[:, dofs]], axis=2) * is_ancestor).swapaxes(1, 2)
        diagonal = (reproducible_product(tree_jacobian, inverses[tree_of_frame[frame]]) * tree_jacobian).sum(axis=2)
        result[link] = np.stack([diagonal[:, :3].mean(axis=1), diagonal[:, 3:].mean(axis=1)], axis=1)
    return result


def inverse_inertias_of_free_bodies(model: Model) -> InverseInertias | None:
    """Inverse inertias of a model of free bodies in closed form; None if a mass matrix is singular."""
    found = free_body_inverses(model)
    if found is None:
        return None
    trees, links = found
    dof_values = np.zeros((1, model.n_dofs))
    for dofs, inverse in trees:
        dof_values[:, dofs] = np.diagonal(inverse, axis1=1, axis2=2)
    return InverseInertias(trees, dof_values, links)


def _tree_dofs(model: Model) -> list[npt.NDArray[np.intp]]:
    """Dof indices of each kinematic tree; the mass matrix has no entries between trees."""
    tree_of_frame = np.array(tree_index_of_frames(model), np.intp)
    tree_of_dof = tree_of_frame[model.dofs.frame_idx] if model.n_dofs else np.zeros(0, np.intp)
    order = np.argsort(tree_of_dof, kind="stable")
    n_trees = int(tree_of_frame.max(initial=-1)) + 1
    return np.split(order, np.searchsorted(tree_of_dof[order], np.arange(1, n_trees))) if n_trees else []


@dataclass(frozen=True, slots=True, eq=False)
class ConstraintInvweights:
    """Invweights of all constraints, in the shapes of the model tables with a leading axis of columns."""

    dofs: Array
    """(columns, n_dofs)"""
    equalities: Array
    """Translation and rotation, (columns, n_equalities, 2)."""
    pairs: Array
    """Translation and rotation, (columns, n_pairs, 2)."""
    tendons: Array
    """(columns, n_tendons)"""
    couplings: Array
    """(columns, n_couplings)"""
    geoms: Array
    """Translation and rotation, with rules of collision, (columns, n_geoms, 2)."""

    @classmethod
    def of_model(cls, model: Model) -> ConstraintInvweights:
        """Invweights of a model with derived constants, as a single column."""
        derived = model.derived
        return cls(
            dofs=derived.dof_invweight[None],
            equalities=derived.equality_invweight[None],
            pairs=derived.pair_invweight[None],
            tendons=derived.tendon_invweight[None],
            couplings=derived.coupling_invweight[None],
            geoms=derived.geom_invweight[None],
        )

    @classmethod
    def from_inverse_inertias(
        cls, model: Model, inverse_inertias: InverseInertias, precision: str
    ) -> ConstraintInvweights:
        """Invweights of dofs, equality constraints, collision pairs, tendons and couplings from inverse inertias.

        Tendons: J M^-1 J^T with the moment arms as J. Equality constraints and pairs: sum of the values of both links.
        A coupling adds the invweights of its two sides; a side that is a single coordinate counts as the dof does for
        its limits. Translational weights of contacts are at least the squared `min_lever_arms` times the rotational
        ones; all but those of dofs by `MIN_VALUE`.
        """
        equalities, tendons, couplings, geoms = model.equalities, model.tendons, model.couplings, model.geoms
        dof_values, n_columns = inverse_inertias.dof.copy(), len(inverse_inertias.dof)
        for dofs in _dofs_sharing_invweight(model):
            dof_values[:, dofs] = dof_values[:, dofs].mean(axis=1, keepdims=True)
        _, moments = path_lengths_and_moments(model, model.qpos0)

        def transmission_values(moment_arms: Array, paths: npt.NDArray[np.int32]) -> Array:
            full = [
                moment_arm * (moments[path] if path >= 0 else 1.0)
                for moment_arm, path in zip(moment_arms, paths, strict=True)
            ]
            columns = [
                sum(
                    (
                        (reproducible_product(m[None, None, d], inverse)[:, 0] * m[d]).sum(axis=1)
                        for d, inverse in inverse_inertias.trees
                        if m[d].any()
                    ),
                    np.zeros(n_columns),
                )
                for m in full
            ]
            return np.stack(columns, axis=1) if columns else np.zeros((n_columns, 0))

        def link_pair_values(a: npt.NDArray[np.int32], b: npt.NDArray[np.int32]) -> Array:
            sums = [
                inverse_inertias.link[i] + inverse_inertias.link[j] for i, j in zip(a.tolist(), b.tolist(), strict=True)
            ]
            stacked = np.stack(sums, axis=1) if sums else np.zeros((n_columns, 0, 2))
            return np.maximum(stacked, MIN_VALUE)

        def coupling_side_values(moment_arms: Array, paths: npt.NDArray[np.int32]) -> Array:
            """Values of one side of the couplings; a single coordinate uses the invweight of its dof."""
            values = transmission_values(moment_arms, paths)
            is_single = (paths < 0) & (np.count_nonzero(moment_arms, axis=1) == 1)
            values[:, is_single] = reproducible_product(inverse_inertias.dof, moment_arms[is_single].T ** 2)
            return values

        coupling_values = coupling_side_values(couplings.moment_a, couplings.path_a) + coupling_side_values(
            couplings.moment_b, couplings.path_b
        )
        pairs = link_pair_values(geoms.link_idx[model.pairs.geom_a], geoms.link_idx[model.pairs.geom_b])
        pairs[:, :, 0] = np.maximum(pairs[:, :, 0], min_lever_arms(model, precision) ** 2 * pairs[:, :, 1])
        ruled = geoms.link_idx.tolist() if model.has_pair_rules else []
        of_geoms = np.stack([inverse_inertias.link[i] for i in ruled], axis=1) if ruled else np.zeros((n_columns, 0, 2))
        of_geoms = np.maximum(of_geoms, MIN_VALUE)
        if ruled:
            radii = np.where(geoms.radius > 0.0, geoms.radius, np.inf)
            arms = np.minimum(MIN_LEVER_ARM[precision], MIN_LEVER_ARM_SHARE * radii)
            of_geoms[:, :, 0] = np.maximum(of_geoms[:, :, 0], arms**2 * of_geoms[:, :, 1])
        return cls(
            geoms=of_geoms,
            dofs=dof_values,
            equalities=link_pair_values(equalities.link_a, equalities.link_b),
            pairs=pairs,
            tendons=np.maximum(transmission_values(tendons.moment, tendons.path_idx), MIN_VALUE),
            couplings=np.maximum(coupling_values, MIN_VALUE),
        )

    def flattened(self) -> Array:
        """All invweights in one array, (columns, n_values), in the order of the fields."""
        return np.concatenate([x.reshape(len(x), -1) for x in self._tables()], axis=1)

    def _tables(self) -> tuple[Array, ...]:
        return self.dofs, self.equalities, self.pairs, self.tendons, self.couplings


def compute_per_env_invweights(
    model: Model,
    settings: Settings,
    arrays: Mapping[str, Array],
    program_cache: dict[Settings, Program],
    precision: str,
) -> tuple[npt.NDArray[np.intp], Array, Array]:
    """Recompute the constraint invweights (approximate inverse inertias) of each environment from its masses.

    Args:
        model: the model, with its table of per-environment parameters.
        settings: settings of the step.
        arrays: the engine's arrays on which masses depend, (values, n_envs) each.
        program_cache: traced programs by settings, reused and extended.
        precision: `single` or `double`.

    Returns:
        Indices of the changed values in the per-environment parameter array, these values (n_indices, n_envs), and the
        invweights of dofs (n_dofs, n_envs).
    """
    assert model.derived.per_env_parameters is not None
    invweight_settings = replace(
        Settings(), per_env=settings.per_env & INVWEIGHT_PARAMETERS, per_env_parameters=ARRAY in arrays
    )
    (n_envs,) = {array.shape[1] for array in arrays.values()}
    qpos = np.repeat(model.qpos0[:, None], n_envs, axis=1)
    invweights = ConstraintInvweights.from_inverse_inertias(
        model, compute_inverse_inertias(model, invweight_settings, {**arrays, "qpos": qpos}, program_cache), precision
    )
    flat, rows, values = invweights.flattened().T, [], []
    for source, parameters, contact_buffer in _invweight_sources(model, settings):
        for name, sources in parameters.items():
            entry = model.derived.per_env_parameters.entries.get((*source, name))
            if entry is not None:
                new_values = flat[[int(i) for i in sources]]
                new_values = (
                    new_values
                    if name != "hardest" or contact_buffer is None
                    else stiffness_limit(settings, contact_buffer, new_values)
                )
                rows += range(entry.start, entry.start + len(sources))
                values.append(np.broadcast_to(new_values, (len(sources), n_envs)))
    return np.array(rows, np.intp), np.concatenate([np.zeros((0, n_envs)), *values]), invweights.dofs.T


def _invweight_sources(
    model: Model, settings: Settings
) -> Iterator[tuple[tuple[str, int | str], dict[str, list[float]], ContactBufferSpec | None]]:
    """Yield for each geom pair and constraint the invweights from which its parameters are computed.

    Each element is (key of the pair or constraint in the per-environment parameters, parameter name -> indices into
    `ConstraintInvweights.flattened`, contact buffer plan of a pair or None). Indices of constraints are found by
    building the constraints of a model whose invweights are replaced by their own indices.
    """
    names = [f"{element}_invweight" for element in ("dof", "equality", "pair", "tendon", "coupling")]
    tables = [getattr(model.derived, name) for name in names]
    ends = np.cumsum([table.size for table in tables])
    ids = [np.arange(end - x.size, end, dtype=np.float64).reshape(x.shape) for x, end in zip(tables, ends, strict=True)]
    tagged = model.with_derived(**dict(zip(names, ids, strict=True)))
    for spec in plan_contact_buffers(model) if settings.contacts else ():
        for p in spec.pairs:
            yield ("pair", p), {name: [float(ids[2][p, 0])] for name in INVWEIGHT_COLUMNS}, spec
    for _, blocks in blocks_by_kind(tagged, settings, build_tree(tagged).nodes):
        for block in blocks:
            yield ("block", block_key(block)), {"weights": list(block.invweights)}, None


def _invert_inertia(inertia: Array) -> Array:
    """Inverse of a batch of mass matrices; pseudoinverse if a matrix is singular or not finite."""
    inverse = reproducible_inverse(inertia)
    if np.isfinite(inverse).all():
        return inverse
    return np.asarray(np.linalg.pinv(np.nan_to_num(inertia)), np.float64)


def _dofs_sharing_invweight(model: Model) -> list[list[int]]:
    """Groups of dofs whose invweights are averaged: dofs of a ball joint, translations of a free joint."""
    balls = [list(node.dofs) for node in build_tree(model).nodes if len(node.dofs) > 1]
    joints = model.joints
    free = [i for i, kind in enumerate(joints.kinds) if kind == "free"]
    return balls + [list(range(joints.dof_start[i], joints.dof_start[i] + 3)) for i in free]
