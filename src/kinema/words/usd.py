"""OpenUSD's own schemas but for physics: geometry, materials, lights, cameras, and what a stage says of itself."""

from __future__ import annotations

from typing import Final

FORMAT: Final = "usd"

# -- prim types -------------------------------------------------------------------------------------------------------

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

MATERIAL_BINDING: Final = "material:binding"
PHYSICS_BINDING: Final = "material:binding:physics"
PHYSICS_PURPOSE: Final = "physics"
"""The purpose of a binding."""

PREVIEW_SURFACE: Final = "UsdPreviewSurface"
SHADER_ID: Final = "info:id"
SURFACE_OUTPUT: Final = "outputs:surface"

DIFFUSE_COLOR: Final = "diffuseColor"
"""An input of a shader; so with the next four."""
EMISSIVE_COLOR: Final = "emissiveColor"
METALLIC: Final = "metallic"
OPACITY: Final = "opacity"
ROUGHNESS: Final = "roughness"


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
KEPT_TYPE: Final = "usd:type"
