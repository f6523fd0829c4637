"""What the robot of a stage is called, and what is said of prims that have no place in a description."""

from __future__ import annotations

from pathlib import Path

import kinema
from kinema.core import collect

STAGE = """#usda 1.0
(
  defaultPrim = "World"
  metersPerUnit = 1
  upAxis = "Z"
)
def Xform "World" {
  def Xform "arm_7" (prepend apiSchemas = ["PhysicsArticulationRootAPI"]) {
    def Xform "base" (prepend apiSchemas = ["PhysicsRigidBodyAPI", "PhysicsMassAPI"]) {
      float physics:mass = 1
      float3 physics:diagonalInertia = (1, 1, 1)
      def BasisCurves "cable" {
        int[] curveVertexCounts = [2]
        point3f[] points = [(0, 0, 0), (1, 0, 0)]
        uniform token type = "linear"
      }
      def Points "cloud" { point3f[] points = [(0, 0, 0)]
      }
      def TetMesh "soft" { point3f[] points = [(0, 0, 0), (1, 0, 0), (0, 1, 0), (0, 0, 1)]
      }
    }
  }
}
"""


def test_the_articulation_root_gives_the_name(tmp_path: Path) -> None:
    """Not the prim that everything is below of."""
    (tmp_path / "s.usda").write_text(STAGE)
    assert kinema.read(tmp_path / "s.usda", policy=collect).name == "arm_7"


def test_curves_points_and_deformables_are_reported(tmp_path: Path) -> None:
    (tmp_path / "s.usda").write_text(STAGE)
    robot = kinema.read(tmp_path / "s.usda", policy=collect)
    diagnostics_of_kind = [d for d in robot.diagnostics if d.code == "usd.unsupported-geometry"]
    assert [d.origin.path.rpartition("/")[2] for d in diagnostics_of_kind] == ["cable", "cloud", "soft"]
