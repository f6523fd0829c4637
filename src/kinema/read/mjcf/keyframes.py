"""Keyframes: the long vectors of MuJoCo's, split by joint, actuator and mocap body."""

from __future__ import annotations

from kinema.description import Keyframe
from kinema.foundation import Array, Origin, vector
from kinema.words import mjcf

from .actuators import first_control, n_controls
from .engine import mujoco
from .reading import Reading, floats, n_actuators, pose_of

_COORDINATES = {"mjJNT_FREE": (7, 6), "mjJNT_BALL": (4, 3), "mjJNT_SLIDE": (1, 1), "mjJNT_HINGE": (1, 1)}


def keyframes(reading: Reading) -> list[Keyframe]:
    """Every keyframe of the file; the unnamed ones that `<size nkey>` adds are not among them."""
    return [_keyframe(reading, k) for k in range(min(reading.model.nkey, len(reading.compiled.spec.keys)))]


def _keyframe(reading: Reading, number: int) -> Keyframe:
    mj, model = mujoco(), reading.model
    name = reading.names[mjcf.KEY][number]
    keyframe = Keyframe(
        name=name.text,
        name_is_generated=name.generated,
        origin=_origin(reading, number),
        time=float(model.key_time[number]),
    )
    for joint in range(model.njnt):
        n_positions, n_velocities = _COORDINATES[mj.mjtJoint(int(model.jnt_type[joint])).name]
        q, v = int(model.jnt_qposadr[joint]), int(model.jnt_dofadr[joint])
        joint_name = reading.name(mjcf.JOINT, joint)
        keyframe.positions[joint_name] = vector(model.key_qpos[number][q : q + n_positions])
        velocities: Array = vector(model.key_qvel[number][v : v + n_velocities])
        if velocities.any():
            keyframe.velocities[joint_name] = velocities
    _controls(reading, number, keyframe)
    for body in range(model.nbody):
        mocap = int(model.body_mocapid[body])
        if mocap >= 0:
            position = model.key_mpos[number][3 * mocap : 3 * mocap + 3]
            quaternion = model.key_mquat[number][4 * mocap : 4 * mocap + 4]
            keyframe.kinematic_poses[reading.name(mjcf.BODY, body)] = pose_of(position, quaternion)
    if getattr(model, "nplastic", 0):
        keyframe.attributes[mjcf.key(mjcf.PLASTIC)] = floats(model.key_plastic[number])
    return keyframe


def _controls(reading: Reading, number: int, keyframe: Keyframe) -> None:
    model = reading.model
    for actuator in range(n_actuators(model)):
        name = reading.name(mjcf.ACTUATOR, actuator)
        first, count = first_control(model, actuator), n_controls(model, actuator)
        values = floats(model.key_ctrl[number][first : first + count])
        if count == 1:
            keyframe.controls[name] = values[0]
        elif count > 1:
            keyframe.attributes.setdefault(mjcf.key(mjcf.CONTROLS), {})[name] = values
        address, states = int(model.actuator_actadr[actuator]), int(model.actuator_actnum[actuator])
        if states > 0:
            keyframe.activations[name] = vector(model.key_act[number][address : address + states])


def _origin(reading: Reading, number: int) -> Origin:
    """MuJoCo does not tell the lines of keyframes; they are found by name, or by order where they have none."""
    document = reading.compiled.prepared.document
    removed = reading.compiled.prepared.removed
    sections = (s for part in document.all_documents() for s in part.root.find_all(mjcf.KEYFRAME))
    elements = [e for section in sections for e in section.find_all(mjcf.KEY) if id(e) not in removed]
    name = reading.names[mjcf.KEY][number]
    if not name.generated:
        # an attached model's keyframes have a prefix to their names
        elements = [e for e in elements if e.attributes.get("name") and name.text.endswith(e.attributes["name"])]
        elements.sort(key=lambda e: len(e.attributes["name"]), reverse=True)
        number = 0
    return elements[number].origin if number < len(elements) else reading.main_origin
