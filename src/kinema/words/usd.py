"""OpenUSD's own schemas but for physics: geometry, materials, lights, cameras, and what a stage says of itself."""

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
"""The collection of a collision group's members."""
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

XYZ: Final = "XYZ"
"""The tokens of axes."""
Z: Final = "Z"

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

COLLECTION: Final = "collection:"
COLLIDERS: Final = "collection:colliders:includes"

# -- materials --------------------------------------------------------------------------------------------------------

DISPLAY_COLOR: Final = "primvars:displayColor"
DISPLAY_OPACITY: Final = "primvars:displayOpacity"
PRIMVARS: Final = "primvars:"
PRIMVAR_NORMALS: Final = "primvars:normals"
TEXTURE_COORDINATES: Final = "primvars:st"
"""The usual name of the first set of texture coordinates; others have a number after it."""
INDICES: Final = ":indices"
"""After the name of a primvar: where each corner's value is."""

INTERPOLATION: Final = "interpolation"
"""Metadata of a primvar: what its values belong to; the next five."""
CONSTANT: Final = "constant"
UNIFORM: Final = "uniform"
VERTEX: Final = "vertex"
VARYING: Final = "varying"
FACE_VARYING: Final = "faceVarying"

ELEMENT_TYPE: Final = "elementType"
FACE: Final = "face"
FAMILY_NAME: Final = "familyName"
MATERIAL_BIND: Final = "materialBind"
"""The family of subsets that materials are bound to."""
SUBSET_FAMILY_TYPE: Final = "subsetFamily:materialBind:familyType"
SUBSET_INDICES: Final = "indices"

MATERIAL_BINDING: Final = "material:binding"
PHYSICS_BINDING: Final = "material:binding:physics"
PHYSICS_PURPOSE: Final = "physics"
"""The purpose of a binding."""

PREVIEW_SURFACE: Final = "UsdPreviewSurface"
SHADER_ID: Final = "info:id"
SHADER_SOURCE: Final = "info:implementationSource"
SOURCE_ASSET: Final = "sourceAsset"
MDL_ASSETS: Final = ("info:mdl:sourceAsset", "info:sourceAsset")
"""Where the file that makes a shader is named: for MDL, else for everybody."""
MDL_PARTS: Final = tuple(f"{name}:subIdentifier" for name in MDL_ASSETS)
"""Likewise which of the materials in that file it is."""
SURFACE_OUTPUT: Final = "outputs:surface"

DIFFUSE_COLOR: Final = "diffuseColor"
"""An input of a shader; so with the next four."""
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
"""An input of a texture's shader; so with the next."""
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
"""The output of readers and transforms."""


def output_of(name: str) -> str:
    """The attribute that is an output of a shader."""
    return f"outputs:{name}"


def input_of(name: str) -> str:
    """The attribute that holds an input of a shader, or of a light."""
    return f"inputs:{name}"


# -- what importers of URDF files leave on joints, in SI --------------------------------------------------------------

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
"""Inputs of a light that have no field in the description."""
SHADOW_ENABLE: Final = "inputs:shadow:enable"

# -- keys of what a description keeps of a stage ----------------------------------------------------------------------

KEPT: Final = "usd:"
"""Before the name of an attribute: its type and value, for a writer to give back."""
KEPT_ARTICULATION: Final = "usd:articulation"
KEPT_RESET: Final = "usd:resetXformStack"
KEPT_SCENE: Final = "usd:simulationOwner"
KEPT_SCHEMAS: Final = "usd:schemas"
KEPT_SURFACE: Final = "usd:surface"
"""What a material is made by, where that is no UsdPreviewSurface: the shader's name, or its MDL file."""
KEPT_TYPE: Final = "usd:type"
