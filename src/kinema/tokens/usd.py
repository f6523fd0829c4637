"""OpenUSD schemas other than physics (geometry, materials, lights, cameras, stage metadata); keys of preserved data."""

from __future__ import annotations

from typing import Final

FORMAT: Final = "usd"

# -- prim types -------------------------------------------------------------------------------------------------------

GEOM_SUBSET: Final = "GeomSubset"
MATERIAL: Final = "Material"
SCOPE: Final = "Scope"
SHADER: Final = "Shader"
XFORM: Final = "Xform"

CAPSULE: Final = "Capsule"
CONE: Final = "Cone"
CUBE: Final = "Cube"
CYLINDER: Final = "Cylinder"
MESH: Final = "Mesh"
PLANE: Final = "Plane"
SPHERE: Final = "Sphere"
TAPERED_CAPSULE: Final = "Capsule_1"
TAPERED_CYLINDER: Final = "Cylinder_1"

CAMERA: Final = "Camera"
DISK_LIGHT: Final = "DiskLight"
DISTANT_LIGHT: Final = "DistantLight"
RECT_LIGHT: Final = "RectLight"
SPHERE_LIGHT: Final = "SphereLight"

# -- API schemas ------------------------------------------------------------------------------------------------------

COLLECTION_API: Final = "CollectionAPI"
COLLIDERS_API: Final = "CollectionAPI:colliders"
"""Collection of the members of a collision group."""
MATERIAL_BINDING_API: Final = "MaterialBindingAPI"
SHADOW_API: Final = "ShadowAPI"

# -- metadata ---------------------------------------------------------------------------------------------------------

API_SCHEMAS: Final = "apiSchemas"
CUSTOM_LAYER_DATA: Final = "customLayerData"
DEFAULT_PRIM: Final = "defaultPrim"
DISPLAY_NAME: Final = "displayName"
KILOGRAMS_PER_UNIT: Final = "kilogramsPerUnit"
KIND: Final = "kind"
METERS_PER_UNIT: Final = "metersPerUnit"
PAYLOAD: Final = "payload"
UP_AXIS: Final = "upAxis"

# -- transforms and visibility ----------------------------------------------------------------------------------------

ORIENT: Final = "xformOp:orient"
SCALE: Final = "xformOp:scale"
TRANSFORM: Final = "xformOp:transform"
TRANSLATE: Final = "xformOp:translate"
XFORM_OP_ORDER: Final = "xformOpOrder"

PURPOSE: Final = "purpose"
VISIBILITY: Final = "visibility"

# -- geometry ---------------------------------------------------------------------------------------------------------

AXIS_TOKENS: Final = "XYZ"
"""Axis tokens."""
Z_AXIS: Final = "Z"

AXIS: Final = "axis"
EXTENT: Final = "extent"
HEIGHT: Final = "height"
LENGTH: Final = "length"
RADIUS: Final = "radius"
RADIUS_BOTTOM: Final = "radiusBottom"
RADIUS_TOP: Final = "radiusTop"
SIZE: Final = "size"
WIDTH: Final = "width"

FACE_VERTEX_COUNTS: Final = "faceVertexCounts"
FACE_VERTEX_INDICES: Final = "faceVertexIndices"
LEFT_HANDED: Final = "leftHanded"
ORIENTATION: Final = "orientation"
POINTS: Final = "points"
NORMALS: Final = "normals"
DOUBLE_SIDED: Final = "doubleSided"
SUBDIVISION_SCHEME: Final = "subdivisionScheme"

ANGULAR_VELOCITIES: Final = "angularVelocities"
PROTOTYPES: Final = "prototypes"
PROTOTYPE_INDICES: Final = "protoIndices"
VELOCITIES: Final = "velocities"

COLLECTION_PREFIX: Final = "collection:"
COLLIDERS: Final = "collection:colliders:includes"

# -- materials --------------------------------------------------------------------------------------------------------

DISPLAY_COLOR: Final = "primvars:displayColor"
DISPLAY_OPACITY: Final = "primvars:displayOpacity"
PRIMVARS_PREFIX: Final = "primvars:"
PRIMVAR_NORMALS: Final = "primvars:normals"
TEXTURE_COORDINATES: Final = "primvars:st"
"""Usual name of the first set of texture coordinates; further sets have a number appended."""
INDICES_SUFFIX: Final = ":indices"
"""Suffix of the index array of an indexed primvar."""

INTERPOLATION: Final = "interpolation"
"""Metadata of a primvar: the elements that its values belong to, one of the following five."""
CONSTANT: Final = "constant"
UNIFORM: Final = "uniform"
VERTEX: Final = "vertex"
VARYING: Final = "varying"
FACE_VARYING: Final = "faceVarying"

ELEMENT_TYPE: Final = "elementType"
FACE: Final = "face"
FAMILY_NAME: Final = "familyName"
MATERIAL_BIND: Final = "materialBind"
"""Family of the subsets that materials are bound to."""
SUBSET_FAMILY_TYPE: Final = "subsetFamily:materialBind:familyType"
SUBSET_INDICES: Final = "indices"

MATERIAL_BINDING: Final = "material:binding"
PHYSICS_BINDING: Final = "material:binding:physics"
PHYSICS_PURPOSE: Final = "physics"
"""Purpose of a material binding for physics."""

PREVIEW_SURFACE: Final = "UsdPreviewSurface"
SHADER_ID: Final = "info:id"
SHADER_SOURCE: Final = "info:implementationSource"
SOURCE_ASSET: Final = "sourceAsset"
MDL_ASSETS: Final = ("info:mdl:sourceAsset", "info:sourceAsset")
"""Attributes that name the source file of a shader: for MDL, or for any source type."""
MDL_SUB_IDENTIFIERS: Final = tuple(f"{name}:subIdentifier" for name in MDL_ASSETS)
"""Attributes that name the material within that source file."""
SURFACE_OUTPUT: Final = "outputs:surface"

DIFFUSE_COLOR: Final = "diffuseColor"
"""Inputs of UsdPreviewSurface: this one and the following nine."""
EMISSIVE_COLOR: Final = "emissiveColor"
METALLIC: Final = "metallic"
OPACITY: Final = "opacity"
ROUGHNESS: Final = "roughness"
CLEARCOAT: Final = "clearcoat"
CLEARCOAT_ROUGHNESS: Final = "clearcoatRoughness"
NORMAL: Final = "normal"
OCCLUSION: Final = "occlusion"
OPACITY_THRESHOLD: Final = "opacityThreshold"

UV_TEXTURE: Final = "UsdUVTexture"
TRANSFORM_2D: Final = "UsdTransform2d"
PRIMVAR_READER_2: Final = "UsdPrimvarReader_float2"
PRIMVAR_READER_3: Final = "UsdPrimvarReader_float3"
FILE: Final = "file"
"""Inputs of texture readers, primvar readers and transforms: this one and those up to `TRANSFORM_TRANSLATION`."""
WRAP_S: Final = "wrapS"
WRAP_T: Final = "wrapT"
SOURCE_COLOR_SPACE: Final = "sourceColorSpace"
TEXTURE_SCALE: Final = "scale"
TEXTURE_BIAS: Final = "bias"
COORDINATES_INPUT: Final = "st"
VARNAME: Final = "varname"
TRANSFORM_IN: Final = "in"
TRANSFORM_ROTATION: Final = "rotation"
TRANSFORM_TRANSLATION: Final = "translation"
RESULT: Final = "result"
"""Output of primvar readers and transforms."""


def output_attribute(name: str) -> str:
    """Name of the attribute of a shader output."""
    return f"outputs:{name}"


def input_attribute(name: str) -> str:
    """Name of the attribute of a shader or light input."""
    return f"inputs:{name}"


# -- attributes of URDF importers on joints, in SI units --------------------------------------------------------------

URDF_NAMESPACE: Final = "urdf:"
URDF_DAMPING: Final = "urdf:dynamics:damping"
URDF_EFFORT: Final = "urdf:limit:effort"
URDF_FRICTION: Final = "urdf:dynamics:friction"

# -- cameras and lights -----------------------------------------------------------------------------------------------

CLIPPING_RANGE: Final = "clippingRange"
FOCAL_LENGTH: Final = "focalLength"
HORIZONTAL_APERTURE: Final = "horizontalAperture"
VERTICAL_APERTURE: Final = "verticalAperture"

LIGHT_COLOR: Final = "inputs:color"
LIGHT_INPUTS: Final = ("intensity", "exposure", "radius", "angle")
"""Inputs of a light without a field in the description."""
SHADOW_ENABLE: Final = "inputs:shadow:enable"

# -- keys of USD data preserved in a description ----------------------------------------------------------------------

PRESERVED_PREFIX: Final = "usd:"
"""Prefix of the key of a preserved attribute; the value is its type and value."""
PRESERVED_ARTICULATION: Final = "usd:articulation"
PRESERVED_RESET_XFORM_STACK: Final = "usd:resetXformStack"
PRESERVED_SIMULATION_OWNER: Final = "usd:simulationOwner"
PRESERVED_SCHEMAS: Final = "usd:schemas"
MOTION: Final = "kinema:motion"
"""Attribute of a kinematic link: its animated transform, rows of time, position and quaternion from the start on."""
PRESERVED_SURFACE: Final = "usd:surface"
"""Surface shader of a material that is not a UsdPreviewSurface: its identifier or MDL file."""
PRESERVED_TYPE: Final = "usd:type"
