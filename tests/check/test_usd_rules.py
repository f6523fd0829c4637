"""The rules about USD stages, on stages: nesting, articulations, kinematic links, shear, instances."""

from __future__ import annotations

from pathlib import Path

import pytest

from kinema.check import check
from kinema.core import Severity, collect
from kinema.read import read

HEAD = """#usda 1.0
(
    defaultPrim = "world"
    upAxis = "Z"
    metersPerUnit = 1
    kilogramsPerUnit = 1
)
"""
HINGE = """
            def PhysicsRevoluteJoint "hinge"
            {
                uniform token physics:axis = "Z"
                rel physics:body0 = </world/base>
                rel physics:body1 = </world/base/arm>
            }
"""


def body(name: str, inside: str = "", *, schemas: str = "", attributes: str = "") -> str:
    """A body with a box of one metre, far enough from others."""
    return f"""
    def Xform "{name}" (prepend apiSchemas = ["PhysicsRigidBodyAPI"{schemas}])
    {{
        {attributes}
        def Cube "{name}_box" (prepend apiSchemas = ["PhysicsCollisionAPI"])
        {{
        }}
        {inside}
    }}
"""


def codes(folder: Path, text: str) -> dict[str, Severity]:
    """What the reader and the rules say of a stage."""
    file = folder / "stage.usda"
    file.write_text(HEAD + 'def Xform "world"\n{\n' + text + "\n}\n")
    described = read(file, policy=collect)
    return {d.code: d.severity for d in [*described.diagnostics, *check(described)]}


def test_nesting_outside_an_articulation_is_an_error(tmp_path: Path) -> None:
    """A body in a body, with nothing that makes them one mechanism."""
    assert codes(tmp_path, body("base", body("arm")))["articulation.nesting"] is Severity.ERROR


def test_nesting_with_a_joint_but_no_articulation_is_an_error(tmp_path: Path) -> None:
    """A joint alone does not say that the two are simulated as one."""
    assert "articulation.nesting" in codes(tmp_path, body("base", body("arm") + HINGE))


@pytest.mark.parametrize("where", ["body", "ancestor"])
def test_nesting_within_an_articulation_is_fine(tmp_path: Path, where: str) -> None:
    """The root may be the body itself or a prim above it."""
    root = ', "PhysicsArticulationRootAPI"' if where == "body" else ""
    text = body("base", body("arm") + HINGE, schemas=root)
    if where == "ancestor":
        file = tmp_path / "stage.usda"
        api = '(prepend apiSchemas = ["PhysicsArticulationRootAPI"])'
        file.write_text(HEAD + f'def Xform "world" {api}\n{{\n' + text + "\n}\n")
        described = read(file, policy=collect)
        assert "articulation.nesting" not in {d.code for d in check(described)}
    else:
        assert "articulation.nesting" not in codes(tmp_path, text)


def test_nesting_with_a_reset_transform_is_fine(tmp_path: Path) -> None:
    """`!resetXformStack!` puts the inner body into the world: it is not moved twice."""
    reset = 'uniform token[] xformOpOrder = ["!resetXformStack!"]'
    assert "articulation.nesting" not in codes(tmp_path, body("base", body("arm", attributes=reset)))


def test_nesting_below_a_reset_transform_is_fine(tmp_path: Path) -> None:
    """The reset may be on a prim between the two bodies as well as on the inner one."""
    reset = 'uniform token[] xformOpOrder = ["!resetXformStack!"]'
    between = f'def Xform "between"\n{{\n{reset}\n{body("arm")}\n}}'
    assert "articulation.nesting" not in codes(tmp_path, body("base", between))
    assert "articulation.nesting" in codes(tmp_path, body("base", between.replace(reset, "")))


@pytest.mark.parametrize(("base", "arm", "wrong"), [(0, 1, True), (1, 1, False), (1, 0, False), (0, 0, False)])
def test_kinematic_links_run_from_the_root_down(tmp_path: Path, base: int, arm: int, wrong: bool) -> None:
    """A kinematic link below a simulated one is an error."""
    inner = body("arm", attributes=f"bool physics:kinematicEnabled = {arm}")
    text = body(
        "base",
        inner + HINGE,
        schemas=', "PhysicsArticulationRootAPI"',
        attributes=f"bool physics:kinematicEnabled = {base}",
    )
    assert ("articulation.kinematic" in codes(tmp_path, text)) == wrong


def test_an_articulation_inside_another_is_an_error(tmp_path: Path) -> None:
    """Both ends of the chain are marked."""
    root = ', "PhysicsArticulationRootAPI"'
    found = codes(tmp_path, body("base", body("arm", schemas=root) + HINGE, schemas=root))
    assert found["usd.nested-articulation"] is Severity.ERROR


def test_an_articulation_on_a_disabled_body_is_an_error(tmp_path: Path) -> None:
    """What is disabled never moves, and nothing hangs on it."""
    off = body("base", schemas=', "PhysicsArticulationRootAPI"', attributes="bool physics:rigidBodyEnabled = 0")
    assert codes(tmp_path, off)["usd.articulation-on-disabled-body"] is Severity.ERROR


def test_a_sheared_mesh_is_noted(tmp_path: Path) -> None:
    """Its exact shape is read; others get it wrong."""
    mesh = """
        def Xform "stretch"
        {
            double3 xformOp:scale = (1, 3, 1)
            uniform token[] xformOpOrder = ["xformOp:scale"]
            def Mesh "wedge" (prepend apiSchemas = ["PhysicsCollisionAPI"])
            {
                point3f[] points = [(0, 0, 0), (1, 0, 0), (0, 1, 0), (0, 0, 1)]
                int[] faceVertexCounts = [3, 3, 3, 3]
                int[] faceVertexIndices = [0, 2, 1, 0, 1, 3, 0, 3, 2, 1, 2, 3]
                double xformOp:rotateZ = 45
                uniform token[] xformOpOrder = ["xformOp:rotateZ"]
            }
        }
"""
    assert codes(tmp_path, body("base", mesh))["usd.sheared-collider"] is Severity.NOTE
    straight = mesh.replace("xformOp:rotateZ = 45", "xformOp:rotateZ = 90")
    assert "usd.sheared-collider" not in codes(tmp_path, body("base", straight))
