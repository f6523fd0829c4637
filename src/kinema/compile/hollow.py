"""Meshes with hollows: what they touch as, and their distance fields."""

from __future__ import annotations

from kinema import shapes
from kinema.description import Approximation, Mesh
from kinema.model import SampledField

NONCONVEX = {
    "hull": Approximation.CONVEX_HULL,
    "decompose": Approximation.CONVEX_DECOMPOSITION,
    "sdf": Approximation.SDF,
}
"""What a user may have meshes touch as that are clearly not convex."""
ITS_OWN_SHAPE = (Approximation.NONE, Approximation.MESH_SIMPLIFICATION)
"""What asks for triangles as they are: where they make hollows, a distance field stands for them."""
KEEPS_HOLLOWS = 'Scene(nonconvex="sdf") or scene.add(..., nonconvex="decompose") keeps hollows'
"""What to do where they are missed."""
CLEARLY = 1.3
"""A mesh is clearly not convex if its hull has this many times its volume."""


def touches_as(mesh: Mesh, data: shapes.MeshData, nonconvex: str | None) -> tuple[shapes.MeshData, str, str]:
    """Its triangles, perhaps fewer of them, what stands for them, a word of `shapes.APPROXIMATIONS`, and what to say.

    A user's word counts for meshes that are clearly not convex, and whose file asks for their hull or for nothing.
    Where nobody says anything the hull is taken, as MuJoCo does, and that is said.
    """
    how = mesh.approximation
    if how == Approximation.MESH_SIMPLIFICATION:
        (simpler,) = shapes.approximate(data, how.value).pieces
        assert isinstance(simpler, shapes.MeshData)
        data = simpler
    if how not in (None, Approximation.CONVEX_HULL, *ITS_OWN_SHAPE):
        return data, how.value, ""
    larger = _times_larger(data)
    if how in ITS_OWN_SHAPE:
        return data, (NONCONVEX[nonconvex or "sdf"] if larger > CLEARLY else Approximation.CONVEX_HULL).value, ""
    if larger > CLEARLY:
        if nonconvex is not None:
            return data, NONCONVEX[nonconvex].value, ""
        note = f"is not convex: it touches as its hull, which has {larger:.2g} times its volume"
        return data, Approximation.CONVEX_HULL.value, note
    return data, Approximation.CONVEX_HULL.value, ""


def _times_larger(data: shapes.MeshData) -> float:
    """The volume of the hull, in those of the mesh; 1 where it has no volume to speak of, as a flat one."""
    if shapes.is_flat(data):
        return 1.0
    own, hull = abs(shapes.signed_volume(data)), shapes.signed_volume(shapes.convex_hull(data))
    return float(hull / max(own, 1e-9 * hull))


def sampled(field: shapes.DistanceField, data: shapes.MeshData) -> SampledField:
    """A distance field with the points of its mesh that can be the first to touch."""
    x, y, z = (int(n) for n in field.res)
    return SampledField(
        res=(x, y, z),
        cell_size=field.cell_size,
        origin=field.origin,
        values=field.val,
        gradients=field.grad,
        nearest=field.closest_vert,
        points=shapes.touching_points(data),
    )
