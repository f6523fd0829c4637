"""An arm made with build123d, as a robot: `python examples/cad/two_link_arm.py arm.urdf` (or .sdf, .xml, .usda).

Needs `pip install 'kinema[cad]'`.
"""

import sys

from build123d import Axis, Box, Color, Compound, Cylinder, Location, Pos, RevoluteJoint, RigidJoint

import kinema
from kinema.read.cad import from_build123d


def two_link_arm() -> Compound:
    """A base and two links, in millimetres, with the shoulder at 30 and the elbow at -20 degrees."""
    base = Cylinder(60, 40)
    upper = Pos(0, 0, 100) * Box(40, 30, 200)
    fore = Pos(75, 0, 0) * Box(150, 25, 25)
    base.label, upper.label, fore.label = "base", "upper_arm", "forearm"
    base.color, upper.color, fore.color = Color("gray"), Color("orange"), Color("steelblue")
    shoulder = RevoluteJoint("shoulder", base, axis=Axis((0, 0, 20), (0, 0, 1)), angular_range=(-170, 170))
    elbow = RevoluteJoint("elbow", upper, axis=Axis((0, 15, 190), (0, 1, 0)), angular_range=(-90, 90))
    shoulder.connect_to(RigidJoint("mount", upper, Location((0, 0, 0))), angle=30)
    elbow.connect_to(RigidJoint("mount", fore, Location((0, -12.5, 0), (-90, 0, 0))), angle=-20)
    return Compound(label="two_link_arm", children=[base, upper, fore])


if __name__ == "__main__":
    robot = from_build123d(two_link_arm(), density=2700, ground="base")
    for diagnostic in robot.diagnostics:
        print(diagnostic)
    report = kinema.write(robot, sys.argv[1] if len(sys.argv) > 1 else "arm.urdf")
    for loss in report:
        print(loss)
