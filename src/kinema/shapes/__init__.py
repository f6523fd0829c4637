"""Meshes, primitive shapes and terrain, and what stands for them in collisions: arrays in, arrays out.

SI units and float64 throughout; every function works in the frame its input is given in. SciPy is imported only by the
functions that need it.
"""

from kinema.shapes.affine import apply_linear, faces_alone, merge, weld
from kinema.shapes.appearance import Appearance, CornerValues, corner_values, unit_normals, with_alpha
from kinema.shapes.approximate import APPROXIMATIONS, Approximated, ApproximationOptions, Piece, approximate
from kinema.shapes.bounds import BoundingBox, BoundingSphere, axis_box, bounding_sphere, oriented_box
from kinema.shapes.builtin_images import builtin_reference
from kinema.shapes.channel_images import channel_reference, packed_reference
from kinema.shapes.cube_images import unfolded_cube
from kinema.shapes.decompose import Decomposition, convex_parts
from kinema.shapes.distance.field import DistanceField, distance_field, signed_distances
from kinema.shapes.flat import THICKNESS, is_flat, thickened
from kinema.shapes.formats.png import PictureError
from kinema.shapes.formats.source import LoadedMesh
from kinema.shapes.hull import convex_hull
from kinema.shapes.image_files import image_name, image_pixels, mean_color, read_image, to_png
from kinema.shapes.images import IMAGE_SUFFIXES, png_bytes
from kinema.shapes.limits import MeshLimits
from kinema.shapes.load import MESH_SUFFIXES, load_mesh, load_mesh_with_notes, mesh_bytes, mesh_triangles, parse_mesh
from kinema.shapes.look import (
    Color,
    Look,
    MapRole,
    Placement,
    Texture,
    Wrap,
    exponent_of_roughness,
    roughness_of_exponent,
    roughness_of_shininess,
)
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
from kinema.shapes.polytope import Polytope, polytope
from kinema.shapes.primitives import (
    DEFAULT_SEGMENTS,
    box,
    capsule,
    cone,
    cylinder,
    ellipsoid,
    height_field,
    plane,
    sphere,
)
from kinema.shapes.projection import CubeProjection, Projection
from kinema.shapes.quality import MeshQuality, mesh_quality
from kinema.shapes.report import Report
from kinema.shapes.simplify import simplified
from kinema.shapes.support_field import SUPPORT_RES, SupportField, support_directions, support_field, support_vertices
from kinema.shapes.terrain import (
    Terrain,
    flat_terrain,
    rough_terrain,
    slope_terrain,
    stairs_terrain,
    terrain_from_image,
)
from kinema.shapes.touching_points import touching_points

__all__ = [
    "APPROXIMATIONS",
    "DEFAULT_SEGMENTS",
    "IMAGE_SUFFIXES",
    "MESH_SUFFIXES",
    "SUPPORT_RES",
    "THICKNESS",
    "Appearance",
    "Approximated",
    "ApproximationOptions",
    "BoundingBox",
    "BoundingSphere",
    "Color",
    "CornerValues",
    "CubeProjection",
    "Decomposition",
    "DistanceField",
    "LoadedMesh",
    "Look",
    "MapRole",
    "MassProperties",
    "MeshData",
    "MeshError",
    "MeshLimits",
    "MeshQuality",
    "PictureError",
    "Piece",
    "Placement",
    "Polytope",
    "Projection",
    "Report",
    "ShapeError",
    "SupportField",
    "Terrain",
    "Texture",
    "Wrap",
    "apply_linear",
    "approximate",
    "axis_box",
    "bounding_sphere",
    "box",
    "box_mass",
    "builtin_reference",
    "capsule",
    "capsule_mass",
    "channel_reference",
    "check_mesh",
    "combine",
    "cone",
    "cone_mass",
    "convex_hull",
    "convex_parts",
    "corner_values",
    "cylinder",
    "cylinder_mass",
    "distance_field",
    "ellipsoid",
    "ellipsoid_mass",
    "exponent_of_roughness",
    "faces_alone",
    "flat_terrain",
    "height_field",
    "image_name",
    "image_pixels",
    "inertia_from_second_moment",
    "is_flat",
    "load_mesh",
    "load_mesh_with_notes",
    "mean_color",
    "merge",
    "mesh_bytes",
    "mesh_mass_properties",
    "mesh_quality",
    "mesh_triangles",
    "oriented_box",
    "packed_reference",
    "parse_mesh",
    "plane",
    "png_bytes",
    "polytope",
    "read_image",
    "rough_terrain",
    "roughness_of_exponent",
    "roughness_of_shininess",
    "second_moment_from_inertia",
    "shell_mass_properties",
    "signed_distances",
    "signed_volume",
    "simplified",
    "slope_terrain",
    "sphere",
    "sphere_mass",
    "stairs_terrain",
    "support_directions",
    "support_field",
    "support_vertices",
    "terrain_from_image",
    "thickened",
    "to_png",
    "touching_points",
    "transform",
    "under_linear_map",
    "unfolded_cube",
    "unit_normals",
    "unsigned_mass_properties",
    "weld",
    "with_alpha",
]
