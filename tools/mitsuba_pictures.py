"""Pictures that Mitsuba 3 makes of a stage, in a Python of its own.

Those that were made are kept and not made again, by what makes them: the scene with its meshes and images, the number
of pixels and of samples, the random numbers, and the version of Mitsuba.
"""

from __future__ import annotations

import hashlib
import json
import math
import subprocess
import tempfile
from pathlib import Path

import numpy as np

from kinema.core import Diagnostics
from kinema.render import Camera, RenderScene, Surface, write_png
from kinema.render.surfaces import load_texture_images

_SCRIPT = """
import json, sys, numpy as np, mitsuba as mi
mi.set_variant("llvm_ad_rgb" if "llvm_ad_rgb" in mi.variants() else "scalar_rgb")
T = mi.ScalarTransform4f
job = json.load(open(sys.argv[1])); s = job["scene"]
def bsdf(t):
    rgb = {"type": "rgb", "value": t["color"]}
    if t.get("image"): rgb = {"type": "bitmap", "filename": t["image"]}
    if t["glass"]: return {"type": "dielectric", "int_ior": t["glass"], "ext_ior": 1.0}
    if t["metallic"]: return {"type": "principled", "base_color": rgb, "metallic": 1.0, "roughness": t["roughness"]}
    return {"type": "twosided", "b": {"type": "diffuse", "reflectance": rgb}}
scene = {"type": "scene", "integrator": {"type": "path", "max_depth": s["depth"], "rr_depth": 50},
  "sensor": {"type": "perspective", "fov": s["fov"], "fov_axis": "y",
    "to_world": T().look_at(origin=s["eye"], target=s["target"], up=s["up"]),
    "film": {"type": "hdrfilm", "width": job["edge"], "height": job["edge"], "pixel_format": "rgb",
      "rfilter": {"type": "box"}},
    "sampler": {"type": "independent", "sample_count": min(job["samples"], 256)}}}
if any(s["sky"]): scene["sky"] = {"type": "constant", "radiance": {"type": "rgb", "value": s["sky"]}}
for i, t in enumerate(s["things"]):
    m = T(np.array(t["matrix"]))
    if t["kind"] == "PLANE": shape = {"type": "rectangle", "to_world": m @ T().scale([t["size"][0], t["size"][1], 1])}
    elif t["kind"] == "SPHERE": shape = {"type": "sphere", "to_world": m @ T().scale(t["size"][0])}
    else:
        a = np.load(t["file"])
        mesh = mi.Mesh("m", len(a["v"]), len(a["f"]), has_vertex_normals=True, has_vertex_texcoords=True,
                       props=(lambda p: (p.__setitem__("b", mi.load_dict(bsdf(t))), p)[1])(mi.Properties()))
        p = mi.traverse(mesh)
        p["vertex_positions"] = a["v"].astype(np.float32).ravel(); p["faces"] = a["f"].astype(np.uint32).ravel()
        p["vertex_normals"] = a["n"].astype(np.float32).ravel()
        uv = a["t"].astype(np.float32).copy(); uv[:, 1] = 1 - uv[:, 1]; p["vertex_texcoords"] = uv.ravel(); p.update()
        scene[f"s{i}"] = mesh; continue
    shape["b"] = bsdf(t)
    if any(t["emission"]): shape["e"] = {"type": "area", "radiance": {"type": "rgb", "value": t["emission"]}}
    scene[f"s{i}"] = shape
scene = mi.load_dict(scene)
n = max(1, job["samples"] // 256)
for number, file in job["wanted"]:
    np.save(file, sum(np.array(mi.render(scene, seed=n * number + k)) for k in range(n)) / n)
"""


def pictures(
    python: str, stage: RenderScene, camera: Camera, bounces: int, edge: int, samples: int, count: int, kept: Path
) -> np.ndarray:
    """So many pictures of a stage, each with other random numbers.

    Args:
        python: that has Mitsuba.
        stage: what is seen.
        camera: from where.
        bounces: how often light may be scattered.
        edge: pixels in a row and in a column.
        samples: of each pixel.
        count: pictures.
        kept: the folder of those that were made before.
    """
    kept.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        scene = exported(stage, camera, bounces, Path(folder))
        key = _key(scene, _version(python), _SCRIPT, edge, samples)
        files = [kept / f"{key}-{number}.npy" for number in range(count)]
        wanted = [(number, str(file)) for number, file in enumerate(files) if not file.exists()]
        if wanted:
            job, script = Path(folder) / "job.json", Path(folder) / "theirs.py"
            job.write_text(json.dumps({"scene": scene, "edge": edge, "samples": samples, "wanted": wanted}))
            script.write_text(_SCRIPT)
            subprocess.run([python, str(script), str(job)], check=True)
    return np.array([np.load(file) for file in files])


def _version(python: str) -> str:
    said = subprocess.run(
        [python, "-c", "import mitsuba; print(mitsuba.__version__)"], check=True, capture_output=True, text=True
    )
    return said.stdout.strip()


def _key(scene: dict, *settings: object) -> str:
    """Of everything that a picture depends on; of files what is in them, wherever they are."""
    things = [
        {k: hashlib.sha256(Path(v).read_bytes()).hexdigest() if k in ("file", "image") else v for k, v in thing.items()}
        for thing in scene["things"]
    ]
    return hashlib.sha256(json.dumps([{**scene, "things": things}, *settings]).encode()).hexdigest()[:16]


def exported(stage: RenderScene, camera: Camera, bounces: int, folder: Path) -> dict:
    """The scene as Mitsuba takes it: rectangles, spheres, meshes in files."""
    things = []
    for number, instance in enumerate(stage.instances):
        geometry = instance.geometry
        matrix = instance.pose.matrix
        parts = [(None, instance.surface)]
        if geometry.triangles is not None and instance.surface is None:
            mesh = geometry.triangles
            numbers = mesh.surface_of_face if mesh.surface_of_face is not None else np.full(len(mesh.faces), -1)
            parts = [(numbers == k, mesh.surfaces[k] if k >= 0 else Surface(specular=0.0)) for k in np.unique(numbers)]
        for faces, surface in parts:
            thing = {
                "kind": geometry.kind.name,
                "size": geometry.size,
                "matrix": matrix.tolist(),
                **_look(surface or Surface(), folder),
            }
            if geometry.triangles is not None:
                thing["file"] = str(folder / f"{number}_{len(things)}.npz")
                mesh = geometry.triangles
                chosen = mesh.faces if faces is None else mesh.faces[faces]
                np.savez(
                    thing["file"],
                    v=instance.pose.apply(mesh.vertices),
                    f=chosen,
                    t=mesh.uvs,
                    n=mesh.normals @ instance.pose.rotation.T,
                )
            things.append(thing)
    pose = camera.pose
    return {
        "things": things,
        "sky": stage.sky.zenith,
        "eye": pose.position.tolist(),
        "target": (pose.position - pose.rotation[:, 2]).tolist(),
        "up": pose.rotation[:, 1].tolist(),
        "fov": math.degrees(camera.fov),
        "depth": bounces + 1,
    }


def _look(surface: Surface, folder: Path) -> dict:
    light = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in surface.color[:3]]
    result = {
        "color": light,
        "metallic": surface.metallic,
        "roughness": surface.roughness,
        "glass": surface.ior,
        "emission": surface.emission,
    }
    if "color" in surface.maps:
        file = surface.maps["color"].file
        target = folder / f"{abs(hash((file, surface.color)))}.png"
        pixels = load_texture_images([file], Diagnostics())[file][..., :3] / 255.0
        bright = np.where(pixels <= 0.04045, pixels / 12.92, ((pixels + 0.055) / 1.055) ** 2.4) * light
        dark = np.where(bright <= 0.0031308, 12.92 * bright, 1.055 * bright ** (1 / 2.4) - 0.055)
        write_png(target, np.round(255.0 * dark).astype(np.uint8))
        result["image"] = str(target)
    return result
