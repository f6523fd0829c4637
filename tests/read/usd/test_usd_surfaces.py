"""Materials that are no preview surfaces: what MDL and MaterialX say is read where it means the same."""

from __future__ import annotations

from pathlib import Path

import pytest

import kinema
from kinema.core import collect
from kinema.description import Robot, VisualMaterial
from kinema.geometry import MapRole
from kit.dressed_stages import usd_materialx, usd_mdl


def material(file: Path) -> VisualMaterial:
    robot = kinema.read(file, policy=collect)
    assert isinstance(robot, Robot)
    (shape,) = robot.links[0].shapes
    assert shape.material is not None
    return shape.material


def test_omniverse(tmp_path: Path) -> None:
    """Its image hides the constant colour; switches decide on opacity and light."""
    file = usd_mdl(tmp_path)
    look = material(file)
    assert look.color == (1.0, 1.0, 1.0, 0.5)
    assert look.texture == str(tmp_path / "paint.png")
    assert (look.roughness, look.metallic, look.specular, look.emission) == (0.25, 0.75, 0.5, (0.0, 0.5, 0.25))
    assert look.maps[MapRole.ROUGHNESS].file == str(tmp_path / "rough.png")
    assert look.attributes["usd:surface"] == "OmniPBR.mdl OmniPBR"
    text = file.read_text().replace("asset inputs:diffuse_texture = @./paint.png@", "")
    file.write_text(text.replace("enable_opacity = 1", "enable_opacity = 0").replace("emission = 1", "emission = 0"))
    look = material(file)
    assert look.color == (0.25, 0.5, 0.75, 1.0)
    assert look.emission is None


def test_materialx(tmp_path: Path) -> None:
    look = material(usd_materialx(tmp_path))
    assert look.texture == str(tmp_path / "paint.png")
    assert look.maps[MapRole.NORMAL].file == str(tmp_path / "n.png")
    assert (look.roughness, look.metallic, look.specular) == (0.25, 0.75, 0.5)
    assert (look.clearcoat, look.clearcoat_roughness, look.emission) == (0.5, 0.125, (0.0, 0.5, 0.25))
    assert look.color == (1.0, 1.0, 1.0, 0.5)
    assert look.attributes["usd:surface"] == "ND_standard_surface_surfaceshader"


@pytest.mark.parametrize("kind", ["ND_unheard_of_surfaceshader", "OmniSurface"])
def test_others_keep_their_name(kind: str, tmp_path: Path) -> None:
    """What makes them is all that can be told, and the loss report of a writer names it."""
    file = usd_materialx(tmp_path)
    file.write_text(file.read_text().replace("ND_standard_surface_surfaceshader", kind))
    look = material(file)
    assert not look.has_properties
    assert look.attributes["usd:surface"] == kind
    report = kinema.write(kinema.read(file, policy=collect), tmp_path / "out.usda")
    assert any("usd:surface" in str(loss) for loss in report)
    report = kinema.write(kinema.read(file, policy=collect), tmp_path / "out.urdf")
    assert any("the material" in str(loss) for loss in report)


def test_images_that_may_not_be_read(tmp_path: Path) -> None:
    """They are left out with a warning, as those of preview surfaces."""
    file = usd_mdl(tmp_path)
    file.write_text(file.read_text().replace("./paint.png", "/etc/hostname"))
    robot = kinema.read(file, policy=collect)
    assert "usd.missing-texture" in [d.code for d in robot.diagnostics]
    assert material(file).texture == ""
