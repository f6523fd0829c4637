"""Inertias of free bodies for many bodies at once: mass matrices, their pivots and inverses, in NumPy.

The mass matrix of a free body is given in closed form by its spatial inertia and its orientation, so that no program
has to be traced and interpreted. Articulated trees of the same model are left out.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from kinema.core import Array, reproducible_inverse, reproducible_product, rotate_tensor
from kinema.model import Model

from ..free_bodies import articulated_trees
from ..topology import tree_index_of_frames
from ..tree.body_context import BODY_DOFS
from .inertia_check import MIN_INERTIA_RATIO, MassMatrixConditioning


@dataclass(frozen=True, slots=True, eq=False)
class FreeBodyInertias:
    """Masses of all free bodies, in the axes of their last frames."""

    frames: npt.NDArray[np.intp]
    """Last frame of each body, (n,)."""
    first_dofs: npt.NDArray[np.intp]
    mass: Array
    """(n,)"""
    first_moment: Array
    """Mass times centre of mass, (n, 3)."""
    rotational: Array
    """Inertia about the origin of the frame, (n, 3, 3)."""

    @classmethod
    def from_model(cls, model: Model) -> FreeBodyInertias:
        """Sums of the inertias of the links of each free body."""
        links, trees = model.links, np.array(tree_index_of_frames(model))
        frames = np.flatnonzero(np.append(trees[1:] != trees[:-1], True))
        frames = frames[~articulated_trees(model)[trees[frames]]]
        moving, body = links_of_free_bodies(model)
        rotation, m = links.rot[moving], links.inertial_mass[moving]
        center = links.pos[moving] + reproducible_product(rotation, links.inertial_pos[moving][:, :, None])[:, :, 0]
        about_center = rotate_tensor(rotation, links.inertial_i[moving])
        about_origin = about_center + m[:, None, None] * _point_inertia(center)
        mass, moment = np.zeros(len(frames)), np.zeros((len(frames), 3))
        rotational = np.zeros((len(frames), 3, 3))
        np.add.at(mass, body, m)
        np.add.at(moment, body, m[:, None] * center)
        np.add.at(rotational, body, about_origin)
        first_frames = np.searchsorted(trees, trees[frames])
        first_dofs = model.frames.dof_start[first_frames].astype(np.intp)
        return cls(frames, first_dofs, mass, moment, rotational)

    def mass_matrices(self, rotations: Array, armature: Array) -> Array:
        """Joint-space mass matrices (n, 6, 6): world translations, then rotations in the axes of the frame.

        Args:
            rotations: orientation of the last frame of each body in the world, (n, 3, 3).
            armature: of all dofs of the model, (n_dofs,).
        """
        n = len(self.mass)
        result = np.zeros((n, BODY_DOFS, BODY_DOFS))
        result[:, :3, :3] = self.mass[:, None, None] * np.eye(3)
        coupling = -reproducible_product(rotations, _cross_matrix(self.first_moment))
        result[:, :3, 3:], result[:, 3:, :3] = coupling, coupling.swapaxes(1, 2)
        result[:, 3:, 3:] = self.rotational
        result[:, range(BODY_DOFS), range(BODY_DOFS)] += armature[self.first_dofs[:, None] + np.arange(BODY_DOFS)]
        return result


def links_of_free_bodies(model: Model) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
    """Links of the free bodies of a model, and the index of the body of each among the free bodies."""
    trees, is_articulated = np.array(tree_index_of_frames(model)), articulated_trees(model)
    moving = np.flatnonzero(model.links.frame_idx >= 0)
    tree = trees[model.links.frame_idx[moving]]
    is_free = ~is_articulated[tree]
    return moving[is_free], (np.cumsum(~is_articulated) - 1)[tree[is_free]]


def _cross_matrix(vectors: Array) -> Array:
    """Matrices of the cross products with vectors (n, 3), (n, 3, 3)."""
    x, y, z = vectors.T
    zero = np.zeros(len(vectors))
    return np.array([[zero, -z, y], [z, zero, -x], [-y, x, zero]]).transpose(2, 0, 1)


def _point_inertia(points: Array) -> Array:
    """Rotational inertias of unit point masses at points (n, 3) about the origin, (n, 3, 3)."""
    squares = (points * points).sum(axis=1)
    return squares[:, None, None] * np.eye(3) - points[:, :, None] * points[:, None, :]


def body_rotations(model: Model, frames: npt.NDArray[np.intp], qpos: Array) -> Array:
    """Orientations of the last frames of free bodies in the world at a configuration, (n, 3, 3)."""
    table = model.frames
    starts = table.q_start[frames]
    quaternions = qpos[starts[:, None] + np.arange(4)]
    w, x, y, z = (quaternions / np.linalg.norm(quaternions, axis=1, keepdims=True)).T
    rotation = np.array(
        [
            [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
            [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
            [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
        ]
    ).transpose(2, 0, 1)
    frame = frames.copy()
    while (frame >= 0).all():
        rotation = reproducible_product(table.rot[frame], rotation)
        frame = table.parent_idx[frame].astype(np.intp)
    return rotation


def free_body_conditioning(model: Model, qpos: Array) -> MassMatrixConditioning | None:
    """Diagonal and pivots of the mass matrix of free bodies at a configuration; None if a pivot is negligible.

    Zero for the dofs of articulated trees.
    """
    bodies = FreeBodyInertias.from_model(model)
    matrices = bodies.mass_matrices(body_rotations(model, bodies.frames, qpos), model.dofs.armature)
    diagonal, pivots = _diagonal_and_pivots(matrices)
    if not (pivots > MIN_INERTIA_RATIO * diagonal).all():
        return None
    dofs = (bodies.first_dofs[:, None] + np.arange(BODY_DOFS)).ravel()
    result = np.zeros((2, model.n_dofs))
    result[:, dofs] = diagonal.ravel(), pivots.ravel()
    return MassMatrixConditioning(result[0].tolist(), result[1].tolist())


def _diagonal_and_pivots(matrices: Array) -> tuple[Array, Array]:
    """Diagonals of mass matrices and pivots of their factorization L^T D L, (n, 6) each; NaN after a pivot of zero."""
    diagonal, rest = np.diagonal(matrices, axis1=1, axis2=2).copy(), matrices.copy()
    pivots = np.zeros_like(diagonal)
    with np.errstate(all="ignore"):
        for k in reversed(range(BODY_DOFS)):
            pivots[:, k] = rest[:, k, k]
            row = rest[:, k, :k]
            rest[:, :k, :k] -= row[:, :, None] * row[:, None, :] / pivots[:, k, None, None]
    return diagonal, pivots


def free_body_inverses(
    model: Model,
) -> tuple[list[tuple[npt.NDArray[np.intp], Array]], dict[int, Array]] | None:
    """Inverse mass matrices of free bodies at qpos0, (1, 6, 6) each with its dofs, and inverse inertias of links.

    Of a link of a free body, the means of the translational and of the rotational diagonal of J M^-1 J^T at its centre
    of mass.
    None if a mass matrix is singular.
    """
    bodies = FreeBodyInertias.from_model(model)
    rotations = body_rotations(model, bodies.frames, model.qpos0)
    matrices = bodies.mass_matrices(rotations, model.dofs.armature)
    if not (_diagonal_and_pivots(matrices)[1] > 0.0).all():
        return None
    inverses = reproducible_inverse(matrices)
    dofs = bodies.first_dofs[:, None] + np.arange(BODY_DOFS)
    links = model.links
    of_links = {-1: np.zeros((1, 2)), **{x: np.zeros((1, 2)) for x in range(model.n_links)}}
    moving, body = links_of_free_bodies(model)
    center = (
        links.pos[moving] + reproducible_product(links.rot[moving], links.inertial_pos[moving][:, :, None])[:, :, 0]
    )
    jacobians = np.zeros((len(moving), 6, BODY_DOFS))
    jacobians[:, :3, :3] = np.eye(3)
    jacobians[:, :3, 3:] = -reproducible_product(rotations[body], _cross_matrix(center))
    jacobians[:, 3:, 3:] = rotations[body]
    diagonal = (reproducible_product(jacobians, inverses[body]) * jacobians).sum(axis=2)
    values = np.stack([diagonal[:, :3].mean(axis=1), diagonal[:, 3:].mean(axis=1)], axis=1)
    of_links |= {link: value[None] for link, value in zip(moving.tolist(), values, strict=True)}
    return [(d, inverse[None]) for d, inverse in zip(dofs, inverses, strict=True)], of_links
