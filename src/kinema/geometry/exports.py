"""Lazily imported public names of the package: mesh and image files, convex hulls, approximations, distance fields."""

from .bounding_volumes import (
    BoundingSphere as BoundingSphere,
    OrientedBoundingBox as OrientedBoundingBox,
    axis_aligned_bounding_box as axis_aligned_bounding_box,
    bounding_sphere as bounding_sphere,
    oriented_bounding_box as oriented_bounding_box,
)
from .collision_approximation import (
    APPROXIMATIONS as APPROXIMATIONS,
    ApproximationOptions as ApproximationOptions,
    CollisionApproximation as CollisionApproximation,
    CollisionGeometry as CollisionGeometry,
    DecompositionOptions as DecompositionOptions,
    approximate_for_collision as approximate_for_collision,
    contact_sample_points as contact_sample_points,
    convex_decomposition as convex_decomposition,
)
from .convex import (
    SUPPORT_RESOLUTION as SUPPORT_RESOLUTION,
    Polytope as Polytope,
    SupportTable as SupportTable,
    build_support_table as build_support_table,
    convex_hull as convex_hull,
    convex_polytope as convex_polytope,
    support_table_directions as support_table_directions,
    support_vertex_indices as support_vertex_indices,
)
from .distance.signed_distance_field import (
    SignedDistanceField as SignedDistanceField,
    build_signed_distance_field as build_signed_distance_field,
    signed_distances as signed_distances,
)
from .formats.gltf_writer import (
    GLTF_IMAGE_TYPES as GLTF_IMAGE_TYPES,
    GlbBuilder as GlbBuilder,
    GltfMaterials as GltfMaterials,
    glb_chunks as glb_chunks,
)
from .formats.image_files import IMAGE_SUFFIXES as IMAGE_SUFFIXES, ImageError as ImageError, encode_png as encode_png
from .mesh_quality import (
    PLANAR_MESH_THICKNESS as PLANAR_MESH_THICKNESS,
    MeshQuality as MeshQuality,
    is_planar as is_planar,
    measure_mesh_quality as measure_mesh_quality,
    thicken_planar_mesh as thicken_planar_mesh,
)
from .mesh_simplification import simplify_mesh as simplify_mesh
from .textures import (
    builtin_texture_reference as builtin_texture_reference,
    channel_image_reference as channel_image_reference,
    convert_to_png as convert_to_png,
    image_name as image_name,
    mean_image_color as mean_image_color,
    packed_image_reference as packed_image_reference,
    read_image as read_image,
    read_image_pixels as read_image_pixels,
)
