"""Triangle meshes, primitives, terrain, mass properties, convex hulls, distance fields and PBR materials.

All quantities are in SI units and float64. Every function works in the coordinate frame of its input. SciPy is imported
only inside the functions that need it.
"""

from typing import TYPE_CHECKING

from kinema.core import export_lazily

from .appearance import (
    Appearance as Appearance,
    Color as Color,
    CornerAttribute as CornerAttribute,
    MapRole as MapRole,
    PbrMaterial as PbrMaterial,
    Texture as Texture,
    TextureMapping as TextureMapping,
    WrapMode as WrapMode,
    normalize_normals as normalize_normals,
    phong_exponent_from_roughness as phong_exponent_from_roughness,
    roughness_from_phong_exponent as roughness_from_phong_exponent,
    roughness_from_shininess as roughness_from_shininess,
    to_rgba as to_rgba,
    validated_corner_attribute as validated_corner_attribute,
)
from .convex_overlap import (
    ConvexBody as ConvexBody,
    core_distance as core_distance,
    penetration_depth as penetration_depth,
)
from .formats.loaded_mesh import LoadedMesh as LoadedMesh
from .mass_properties import (
    MassProperties as MassProperties,
    apply_affine_to_mass_properties as apply_affine_to_mass_properties,
    box_mass_properties as box_mass_properties,
    capsule_mass_properties as capsule_mass_properties,
    combine_mass_properties as combine_mass_properties,
    cone_mass_properties as cone_mass_properties,
    cylinder_mass_properties as cylinder_mass_properties,
    ellipsoid_mass_properties as ellipsoid_mass_properties,
    inertia_from_second_moment as inertia_from_second_moment,
    mesh_mass_properties as mesh_mass_properties,
    second_moment_from_inertia as second_moment_from_inertia,
    shell_mesh_mass_properties as shell_mesh_mass_properties,
    signed_volume as signed_volume,
    sphere_mass_properties as sphere_mass_properties,
    transform_mass_properties as transform_mass_properties,
    unsigned_mesh_mass_properties as unsigned_mesh_mass_properties,
)
from .mesh import (
    GeometryError as GeometryError,
    MeshData as MeshData,
    MeshError as MeshError,
    MeshLimits as MeshLimits,
    ProgressCallback as ProgressCallback,
    apply_affine as apply_affine,
    extract_faces as extract_faces,
    face_normals as face_normals,
    merge_meshes as merge_meshes,
    unique_edges as unique_edges,
    validate_mesh as validate_mesh,
    vertex_normals as vertex_normals,
    weld_vertices as weld_vertices,
)
from .mesh_loading import (
    MESH_SUFFIXES as MESH_SUFFIXES,
    load_mesh as load_mesh,
    load_mesh_from_bytes as load_mesh_from_bytes,
    load_mesh_with_metadata as load_mesh_with_metadata,
    parse_mesh as parse_mesh,
    read_mesh_bytes as read_mesh_bytes,
)
from .primitives import (
    DEFAULT_SEGMENTS as DEFAULT_SEGMENTS,
    box as box,
    capsule as capsule,
    cone as cone,
    cylinder as cylinder,
    ellipsoid as ellipsoid,
    height_field as height_field,
    plane as plane,
    sphere as sphere,
)
from .terrain import (
    Terrain as Terrain,
    flat_terrain as flat_terrain,
    rough_terrain as rough_terrain,
    slope_terrain as slope_terrain,
    stairs_terrain as stairs_terrain,
    terrain_from_image as terrain_from_image,
)
from .texture_projection import (
    CubeMapProjection as CubeMapProjection,
    PlanarProjection as PlanarProjection,
    cube_map_atlas as cube_map_atlas,
)

if TYPE_CHECKING:
    from .exports import *  # noqa: F403
else:
    export_lazily(__name__, "exports")  # files, hulls and distance fields: not needed for primitives
