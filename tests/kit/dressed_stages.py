"""Made-up stages, one for each thing that USD can say of how a robot looks, written by hand."""

from __future__ import annotations

from pathlib import Path

from .dressed_meshes import BOX, picture, seamed_coordinates


def _usd(folder: Path, inside: str, bound: str = "", scopes: str = "") -> Path:
    points = ", ".join(f"({x}, {y}, {z})" for x, y, z in BOX.vertices.tolist())
    corners = ", ".join(map(str, BOX.faces.reshape(-1).tolist()))
    schemas = ' (prepend apiSchemas = ["MaterialBindingAPI"])' if bound else ""
    (folder / "r.usda").write_text(
        f"""#usda 1.0
(
  defaultPrim = "r"
  metersPerUnit = 1
  upAxis = "Z"
)
def Xform "r" (prepend apiSchemas = ["PhysicsArticulationRootAPI"]) {{
  {scopes}
  def Xform "arm" (prepend apiSchemas = ["PhysicsRigidBodyAPI", "PhysicsMassAPI"]) {{
    float physics:mass = 1
    def Mesh "v"{schemas} {{
      point3f[] points = [{points}]
      int[] faceVertexCounts = [{", ".join(["3"] * BOX.n_faces)}]
      int[] faceVertexIndices = [{corners}]
      {"rel material:binding = <" + bound + ">" if bound else ""}
      {inside}
    }}
  }}
}}
"""
    )
    return folder / "r.usda"


def _st(name: str = "st") -> str:
    values = ", ".join(f"({u}, {v})" for u, v in seamed_coordinates(BOX).expanded().reshape(-1, 2).tolist())
    return f'texCoord2f[] primvars:{name} = [{values}] (interpolation = "faceVarying")\n'


def usd_display_color(folder: Path) -> Path:
    return _usd(
        folder, "color3f[] primvars:displayColor = [(0.25, 0.5, 0.75)]\nfloat[] primvars:displayOpacity = [0.5]"
    )


def usd_face_colors(folder: Path) -> Path:
    colors = ", ".join("(1, 0, 0)" if i % 2 else "(0, 0, 1)" for i in range(BOX.n_faces))
    return _usd(folder, f'color3f[] primvars:displayColor = [{colors}] (interpolation = "uniform")')


def usd_point_colors(folder: Path) -> Path:
    colors = ", ".join(f"({i / 8}, 0.5, {1 - i / 8})" for i in range(8))
    return _usd(folder, f'color3f[] primvars:displayColor = [{colors}] (interpolation = "vertex")')


def usd_preview(folder: Path) -> Path:
    """A network with an image of its own coordinates, a transform, and all of a preview surface's numbers."""
    picture(folder / "paint.png", (200, 40, 30), (10, 60, 220))
    return _usd(folder, _st("map1"), "/r/Looks/m", 'def Scope "Looks" {' + _preview("m", textured=True) + "}")


def usd_subsets(folder: Path) -> Path:
    """Materials of parts, with double-sided faces."""
    parts = "".join(
        f"""def GeomSubset "{name}" (prepend apiSchemas = ["MaterialBindingAPI"]) {{
        uniform token elementType = "face"
        uniform token familyName = "materialBind"
        int[] indices = [{", ".join(map(str, faces))}]
        rel material:binding = </r/Looks/{name}>
      }}\n"""
        for name, faces in (("one", range(6)), ("two", range(6, 12)))
    )
    looks = 'def Scope "Looks" {' + _preview("one") + _preview("two", color=(0.5, 0.25, 0.125)) + "}"
    return _usd(folder, "uniform bool doubleSided = 1\n" + parts, scopes=looks)


def _preview(name: str, *, textured: bool = False, color: tuple[float, ...] = (0.25, 0.5, 0.75)) -> str:
    path = f"/r/Looks/{name}"
    diffuse = f"color3f inputs:diffuseColor.connect = <{path}/t.outputs:rgb>" if textured else ""
    network = f"""
      def Shader "t" {{ uniform token info:id = "UsdUVTexture"
        asset inputs:file = @./paint.png@
        token inputs:wrapS = "clamp"
        token inputs:wrapT = "mirror"
        float2 inputs:st.connect = <{path}/x.outputs:result>
        float3 outputs:rgb
      }}
      def Shader "x" {{ uniform token info:id = "UsdTransform2d"
        float2 inputs:in.connect = <{path}/p.outputs:result>
        float2 inputs:scale = (2, 0.5)
        float2 inputs:translation = (0.25, 0.125)
        float2 outputs:result
      }}
      def Shader "p" {{ uniform token info:id = "UsdPrimvarReader_float2"
        string inputs:varname = "map1"
        float2 outputs:result
      }}"""
    return f"""def Material "{name}" {{ token outputs:surface.connect = <{path}/s.outputs:surface>
      def Shader "s" {{ uniform token info:id = "UsdPreviewSurface"
        {diffuse or f"color3f inputs:diffuseColor = {color}"}
        color3f inputs:emissiveColor = (0, 0.5, 0.25)
        float inputs:metallic = 0.75
        float inputs:roughness = 0.25
        float inputs:clearcoat = 0.5
        float inputs:clearcoatRoughness = 0.125
        float inputs:opacity = 0.5
        token outputs:surface
      }}{network if textured else ""}
    }}
    """


def usd_mdl(folder: Path) -> Path:
    """A material of Omniverse's, whose image takes the place of its colour."""
    picture(folder / "paint.png", (200, 40, 30), (10, 60, 220))
    picture(folder / "rough.png", (128, 128, 128))
    inputs = """
        asset inputs:diffuse_texture = @./paint.png@
        color3f inputs:diffuse_color_constant = (0.25, 0.5, 0.75)
        float inputs:reflection_roughness_constant = 0.25
        asset inputs:reflectionroughness_texture = @./rough.png@
        float inputs:metallic_constant = 0.75
        float inputs:specular_level = 0.5
        bool inputs:enable_opacity = 1
        float inputs:opacity_constant = 0.5
        bool inputs:enable_emission = 1
        color3f inputs:emissive_color = (0, 0.5, 0.25)"""
    shader = f"""def Shader "s" {{
        uniform token info:implementationSource = "sourceAsset"
        uniform asset info:mdl:sourceAsset = @OmniPBR.mdl@
        uniform token info:mdl:sourceAsset:subIdentifier = "OmniPBR"{inputs}
        token outputs:out
      }}"""
    return _usd(folder, _st(), "/r/Looks/m", _material("mdl", "out", shader))


def usd_materialx(folder: Path) -> Path:
    """MaterialX's standard surface, with an image and a normal map."""
    picture(folder / "paint.png", (200, 40, 30), (10, 60, 220))
    picture(folder / "n.png", (128, 128, 255))
    path = "/r/Looks/m"
    shader = f"""def Shader "s" {{
        uniform token info:id = "ND_standard_surface_surfaceshader"
        float inputs:base = 0.5
        color3f inputs:base_color.connect = <{path}/i.outputs:out>
        float3 inputs:normal.connect = <{path}/n.outputs:out>
        float inputs:specular_roughness = 0.25
        float inputs:metalness = 0.75
        float inputs:specular = 0.5
        float inputs:coat = 0.5
        float inputs:coat_roughness = 0.125
        float inputs:emission = 0.5
        color3f inputs:emission_color = (0, 1, 0.5)
        color3f inputs:opacity = (0.5, 0.5, 0.5)
        token outputs:out
      }}
      def Shader "i" {{
        uniform token info:id = "ND_image_color3"
        asset inputs:file = @./paint.png@
        color3f outputs:out
      }}
      def Shader "n" {{
        uniform token info:id = "ND_normalmap"
        float3 inputs:in.connect = <{path}/j.outputs:out>
        float3 outputs:out
      }}
      def Shader "j" {{
        uniform token info:id = "ND_image_vector3"
        asset inputs:file = @./n.png@
        float3 outputs:out
      }}"""
    return _usd(folder, _st(), path, _material("mtlx", "out", shader))


def _material(context: str, output: str, shaders: str) -> str:
    return f"""def Scope "Looks" {{
      def Material "m" {{
      token outputs:{context}:surface.connect = </r/Looks/m/s.outputs:{output}>
      {shaders}
      }}
    }}"""
