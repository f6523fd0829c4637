"""What one image says of several things, for formats that want an image for each, and the other way round."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
from PIL import Image

from kinema.core import collect
from kinema.description import Link, Mesh, Robot, Shape, VisualMaterial
from kinema.geometry import Appearance, CornerAttribute, MapRole, Texture, encode_png, read_image
from kinema.read import read
from kinema.write import write
from kit.seen import differences, seen, unexplained

FACES = np.array([[0, 1, 2]])
PIXELS = np.random.default_rng(5).integers(0, 256, (3, 5, 3), dtype=np.uint8)
PACKED = {MapRole.OCCLUSION: "r", MapRole.ROUGHNESS: "g", MapRole.METALLIC: "b"}


def robot(folder: Path, *, apart: bool = False) -> Robot:
    """One triangle whose occlusion, roughness and metalness are the channels of one image, or an image each."""
    (folder / "orm.png").write_bytes(encode_png(PIXELS))
    maps: dict[str, Texture] = {r: Texture(file=str(folder / "orm.png"), channel=c) for r, c in PACKED.items()}
    for number, role in enumerate(PACKED if apart else ()):
        file = folder / f"{role}.png"
        file.write_bytes(encode_png(PIXELS[:, :, number, None]))
        maps[role] = Texture(file=str(file))
    material = VisualMaterial(name="m", color=(1.0, 1.0, 1.0, 1.0), metallic=1.0, roughness=1.0, maps=maps)
    points = np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0.0]])
    looks = Appearance(texture_coordinates=(CornerAttribute(points[:, :2].copy(), FACES),))
    mesh = Mesh(vertices=points, faces=FACES, appearance=looks)
    return Robot(name="r", links=[Link(name="a", shapes=[Shape(geometry=mesh, collision=False, material=material)])])


def test_sdf_gets_an_image_for_each_channel(tmp_path: Path) -> None:
    """Each is the channel of the packed one, pixel for pixel, as another library reads it."""
    report = write(robot(tmp_path), tmp_path / "r.sdf")
    text = (tmp_path / "r.sdf").read_text(encoding="utf-8")
    for number, tag in enumerate(("ambient_occlusion_map", "roughness_map", "metalness_map")):
        file = text.partition(f"<{tag}>")[2].partition("<")[0]
        found = np.asarray(Image.open(tmp_path / file).convert("L"))
        np.testing.assert_array_equal(found, PIXELS[:, :, number])
    assert not [loss for loss in report if "map" in loss.what and "roughness" in str(loss)]
    back = read(tmp_path / "r.sdf", policy=collect)
    assert unexplained(differences(seen(robot(tmp_path)), seen(back)), report) == set()


def test_glb_gets_one_image_of_several(tmp_path: Path) -> None:
    """Roughness and metalness of their own become the green and the blue of one, pixel for pixel."""
    report = write(robot(tmp_path, apart=True), tmp_path / "r.urdf", mesh_format="glb")
    assert not [loss for loss in report if "one image" in str(loss)]
    (file,) = (tmp_path / "meshes").glob("*.glb")
    images = [np.asarray(Image.open(io.BytesIO(read_image(f"{file}[{i}]")[0]))) for i in range(2)]
    packed = next(image for image in images if image.ndim == 3)
    np.testing.assert_array_equal(packed[:, :, 1:], PIXELS[:, :, 1:])
    back = read(tmp_path / "r.urdf", policy=collect)
    assert unexplained(differences(seen(robot(tmp_path)), seen(back)), report) == set()
