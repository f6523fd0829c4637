"""Damaged stages, in processes that may die; `make fuzz` does thousands more, on real robots."""

from __future__ import annotations

from pathlib import Path

import pytest

from kit.choosing import representatives
from kit.fuzz import Case, run

STAGE = """#usda 1.0
(
    defaultPrim = "World"
    metersPerUnit = 0.01
    upAxis = "Y"
)
def Xform "World" (
    prepend apiSchemas = ["PhysicsArticulationRootAPI"]
)
{
    def PhysicsScene "Scene"
    {
        vector3f physics:gravityDirection = (0, -1, 0)
        float physics:gravityMagnitude = 981
    }
    def Material "Steel" (
        prepend apiSchemas = ["PhysicsMaterialAPI"]
    )
    {
        float physics:density = 0.0078
        float physics:dynamicFriction = 0.5
    }
    def Xform "base" (
        prepend apiSchemas = ["PhysicsRigidBodyAPI", "PhysicsMassAPI", "MaterialBindingAPI"]
    )
    {
        rel material:binding:physics = </World/Steel>
        float physics:mass = 2
        float3 physics:diagonalInertia = (1, 2, 2.5)
        double3 xformOp:translate = (0, 10, 0)
        double3 xformOp:scale = (1, 2, 3)
        uniform token[] xformOpOrder = ["xformOp:translate", "xformOp:scale"]
        def Mesh "body" (
            prepend apiSchemas = ["PhysicsCollisionAPI", "PhysicsMeshCollisionAPI"]
        )
        {
            uniform token physics:approximation = "convexHull"
            int[] faceVertexCounts = [3, 3, 3, 3]
            int[] faceVertexIndices = [0, 2, 1, 0, 1, 3, 1, 2, 3, 0, 3, 2]
            point3f[] points = [(0, 0, 0), (1, 0, 0), (0, 1, 0), (0, 0, 1)]
        }
        def Xform "arm" (
            prepend apiSchemas = ["PhysicsRigidBodyAPI"]
        )
        {
            quatf xformOp:orient = (0.7071, 0.7071, 0, 0)
            uniform token[] xformOpOrder = ["xformOp:orient"]
            def Capsule "upper" (
                prepend apiSchemas = ["PhysicsCollisionAPI"]
            )
            {
                double radius = 2
                double height = 8
            }
        }
    }
    def PhysicsRevoluteJoint "hinge" (
        prepend apiSchemas = ["PhysicsDriveAPI:angular", "PhysicsLimitAPI:rotX"]
    )
    {
        rel physics:body0 = </World/base>
        rel physics:body1 = </World/base/arm>
        point3f physics:localPos0 = (0, 1, 0)
        quatf physics:localRot1 = (1, 0, 0, 0)
        uniform token physics:axis = "Z"
        float physics:lowerLimit = -45
        float physics:upperLimit = 45
        float drive:angular:physics:stiffness = 10
    }
    def PhysicsFixedJoint "ground"
    {
        rel physics:body1 = </World/base>
    }
    def PointInstancer "balls"
    {
        rel prototypes = </World/balls/ball>
        int[] protoIndices = [0, 0]
        point3f[] positions = [(0, 0, 50), (0, 0, 90)]
        def Sphere "ball" (
            prepend apiSchemas = ["PhysicsRigidBodyAPI", "PhysicsCollisionAPI"]
        )
        {
            double radius = 3
        }
    }
    def PhysicsCollisionGroup "group" (
        prepend apiSchemas = ["CollectionAPI:colliders"]
    )
    {
        rel collection:colliders:includes = </World/base>
        rel physics:filteredGroups = </World/group>
    }
}
"""


@pytest.mark.parametrize("n_cases", representatives([30, 120], 1))
def test_damaged_stages_give_clear_errors_only(tmp_path: Path, n_cases: int) -> None:
    """Text and binary, with bytes, numbers, names, paths and lines put wrong."""
    from pxr import Sdf

    text, binary = tmp_path / "robot.usda", tmp_path / "robot.usdc"
    text.write_text(STAGE, encoding="utf-8")
    layer = Sdf.Layer.OpenAsAnonymous(str(text))
    layer.Export(str(binary))
    files = [text, text, text, binary]
    failures, _ = run([Case(files[i % len(files)], 30_000 + i) for i in range(n_cases)], n_workers=1)
    assert not failures, "\n".join(f"{c.file.name} seed {c.seed}: {reason}" for c, reason in failures)
