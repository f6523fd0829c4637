"""Forward kinematics and inertias of a robot file as Drake sees them.

Run by the Python of the Drake virtual environment (see setup.sh); it imports
nothing of ours, so that it stays an independent judge. It reads one request
from stdin and prints one JSON object:

    {"file": path,
     "package_paths": [dirs],          package://P/x and model://P/x -> DIR/P/x
     "configurations": [{joint: [values]}],
     "geometry": false}                true also loads shapes and meshes

Result:

    bodies          [{name, mass, com, inertia}], inertia about the centre of
                    mass, in the axes of the body
    joints          [{name, type, parent, child, num_positions, lower, upper}]
    velocities      the joint of each row of the mass matrix
    num_constraints how many mimics it understood
    total_mass      of all bodies
    configurations  [{"poses": {body: 4x4 in the world}, "mass_matrix": [[]]}]
    warnings        what Drake logged on the way

or {"error": text, "warnings": [...]} where Drake refuses the file (only its
first error: it stops there). A mistake in the request itself, such as a joint
that is not there, ends the program with a message on stderr. Names are
scoped by model instance ("robot::arm::hand"). A body that nothing holds gets a
floating joint, which keeps its default pose unless it is named; likewise every
joint that a configuration does not name stays at its default position.

What Drake does differently, so that a test does not blame the reader:
- It has no revolute2 or gearbox joints and no kinematic loops: errors.
- An inertia that no body can have, or a mass of zero with an inertia that is
  not zero, is replaced by a ball of water (of 1 kg for mass zero) with a
  warning that begins "While ...". Masses and mass matrix are then its own.
- A URDF mimic is no part of the kinematics: it becomes a constraint of the
  solver, so a configuration must name the follower as well. The mimic of SDF
  1.11 is dropped without a word (num_constraints stays 0).
- A URDF link called "world" is the world itself and not among the bodies. The
  root of any other URDF floats. A floating URDF joint only leaves its child free.
- A joint is scoped by the model of its child: a joint of "outer" to the nested
  "arm::a" is "outer::arm::j", where libsdformat has "outer::j".
- The whole of an include's URI must name a file or end with a slash: it finds
  model://arm/ and model://arm/model.sdf but not the usual model://arm.
- Ball: three positions are roll, pitch, yaw, so R = Rz(q2) Ry(q1) Rx(q0).
- Floating: seven positions (quaternion w x y z, then x y z) and six velocities
  (angular, then linear), all in the axes of the world.
"""

# pyright: reportMissingImports=false
# the packages of another virtual environment

import json
import logging
import sys
from pathlib import Path

import numpy as np
from pydrake.multibody.parsing import PackageMap, Parser
from pydrake.multibody.plant import AddMultibodyPlantSceneGraph, MultibodyPlant
from pydrake.multibody.tree import BodyIndex
from pydrake.systems.framework import DiagramBuilder


class BadRequest(Exception):
    """The caller's mistake, as opposed to a file that Drake refuses."""


class Recorder(logging.Handler):
    """Keeps the warnings that Drake writes to its logger."""

    def __init__(self):
        super().__init__(logging.WARNING)
        self.messages = []

    def emit(self, record):
        self.messages.append(record.getMessage())


def add_packages(packages: PackageMap, folders: list[str]) -> None:
    """Make every folder below a package path a package of that name.

    Drake's own search wants a package.xml or model.config, and most published
    files come without theirs. Those it does find keep their declared name.
    """
    for folder in map(Path, folders):
        if not folder.is_dir():
            raise BadRequest(f"no folder {folder}")
        packages.PopulateFromFolder(str(folder))
        for path in [folder, *sorted(p for p in folder.iterdir() if p.is_dir())]:
            if not packages.Contains(path.name):
                packages.Add(path.name, str(path))


def load(request: dict) -> MultibodyPlant:
    step = 0.0  # nothing is simulated
    if request.get("geometry"):
        plant, _ = AddMultibodyPlantSceneGraph(DiagramBuilder(), time_step=step)
    else:
        # Without a scene graph no mesh is opened, so a missing one cannot hide
        # what we want to know about the kinematics.
        plant = MultibodyPlant(time_step=step)
    if not Path(request["file"]).is_file():
        raise BadRequest(f"no file {request['file']}")
    parser = Parser(plant)
    add_packages(parser.package_map(), request.get("package_paths", []))
    parser.AddModels(request["file"])
    plant.Finalize()
    return plant


def body_name(body) -> str:
    """The scoped name; plain "world" for the world, as in SDF itself."""
    return "world" if body.index() == 0 else body.scoped_name().get_full()


def body_report(body) -> dict:
    inertia = body.default_spatial_inertia()
    mass, com = inertia.get_mass(), inertia.get_com()
    # Drake stores the tensor about the body's origin.
    about_origin = inertia.CalcRotationalInertia().CopyToFullMatrix3()
    about_com = about_origin - mass * (com @ com * np.eye(3) - np.outer(com, com))
    return {
        "name": body_name(body),
        "mass": mass,
        "com": com.tolist(),
        "inertia": about_com.tolist(),
    }


def main() -> None:
    recorder = Recorder()
    logger = logging.getLogger("drake")
    logger.addHandler(recorder)
    logger.propagate = False
    try:
        result = answer(json.load(sys.stdin))
    except BadRequest as error:
        sys.exit(str(error))
    except Exception as error:  # whatever Drake throws is its verdict
        result: dict[str, object] = {"error": str(error) or repr(error)}
    result["warnings"] = recorder.messages
    json.dump(result, sys.stdout)


def answer(request: dict) -> dict:
    plant = load(request)
    bodies = [plant.get_body(BodyIndex(i)) for i in range(1, plant.num_bodies())]  # 0: world
    joints = [plant.get_joint(i) for i in plant.GetJointIndices()]

    def joint_name(joint) -> str:
        return f"{plant.GetModelInstanceName(joint.model_instance())}::{joint.name()}"

    def find_joint(name: str):
        """The joint of that scoped name, or of that short name if only one has it."""
        found = [j for j in joints if joint_name(j) == name]
        found = found or [j for j in joints if j.name() == name]
        if len(found) != 1:
            raise BadRequest(f"{len(found)} joints are called {name!r}")
        return found[0]

    velocities = [""] * plant.num_velocities()
    for joint in joints:
        for i in range(joint.num_velocities()):
            velocities[joint.velocity_start() + i] = joint_name(joint)

    configurations = []
    for configuration in request.get("configurations", []):
        context = plant.CreateDefaultContext()
        q = plant.GetPositions(context)
        for name, values in configuration.items():
            joint = find_joint(name)
            if len(values) != joint.num_positions():
                raise BadRequest(f"joint {name!r} has {joint.num_positions()} positions, not {len(values)}")
            start = joint.position_start()
            q[start : start + len(values)] = values
        plant.SetPositions(context, q)
        configurations.append(
            {
                "poses": {
                    body_name(body): plant.EvalBodyPoseInWorld(context, body).GetAsMatrix4().tolist() for body in bodies
                },
                "mass_matrix": plant.CalcMassMatrix(context).tolist(),
            }
        )

    reports = [body_report(body) for body in bodies]
    return {
        "bodies": reports,
        "joints": [
            {
                "name": joint_name(joint),
                "type": joint.type_name(),
                "parent": body_name(joint.parent_body()),
                "child": body_name(joint.child_body()),
                "num_positions": joint.num_positions(),
                "lower": joint.position_lower_limits().tolist(),
                "upper": joint.position_upper_limits().tolist(),
            }
            for joint in joints
        ],
        "velocities": velocities,
        "num_constraints": plant.num_constraints(),
        "total_mass": sum(report["mass"] for report in reports),
        "configurations": configurations,
    }


if __name__ == "__main__":
    main()
