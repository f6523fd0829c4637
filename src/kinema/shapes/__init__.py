"""Meshes and primitive shapes: arrays in, arrays out.

SI units and float64 throughout; every function works in the frame its input is given in. SciPy is imported only by the
functions that need it.
"""

from kinema.shapes.affine import apply_linear, merge, weld
from kinema.shapes.formats.source import LoadedMesh
from kinema.shapes.hull import convex_hull
from kinema.shapes.limits import MeshLimits
from kinema.shapes.load import MESH_SUFFIXES, load_mesh, load_mesh_with_notes, parse_mesh
from kinema.shapes.mass import (
    MassProperties,
    box_mass,
    capsule_mass,
    combine,
    cone_mass,
    cylinder_mass,
    ellipsoid_mass,
    inertia_from_second_moment,
    mesh_mass_properties,
    second_moment_from_inertia,
    shell_mass_properties,
    signed_volume,
    sphere_mass,
    transform,
    under_linear_map,
    unsigned_mass_properties,
)
from kinema.shapes.mesh_data import MeshData, MeshError, ShapeError, check_mesh
from kinema.shapes.primitives import box, capsule, cone, cylinder, ellipsoid, height_field, plane, sphere
from kinema.shapes.quality import MeshQuality, mesh_quality

__all__ = [
    "MESH_SUFFIXES",
    "LoadedMesh",
    "MassProperties",
    "MeshData",
    "MeshError",
    "MeshLimits",
    "MeshQuality",
    "ShapeError",
    "apply_linear",
    "box",
    "box_mass",
    "capsule",
    "capsule_mass",
    "check_mesh",
    "combine",
    "cone",
    "cone_mass",
    "convex_hull",
    "cylinder",
    "cylinder_mass",
    "ellipsoid",
    "ellipsoid_mass",
    "height_field",
    "inertia_from_second_moment",
    "load_mesh",
    "load_mesh_with_notes",
    "merge",
    "mesh_mass_properties",
    "mesh_quality",
    "parse_mesh",
    "plane",
    "second_moment_from_inertia",
    "shell_mass_properties",
    "signed_volume",
    "sphere",
    "sphere_mass",
    "transform",
    "under_linear_map",
    "unsigned_mass_properties",
    "weld",
]
