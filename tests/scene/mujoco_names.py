"""MuJoCo's numbers of what entities call by name; the reader has made up names where a file gives none."""

from __future__ import annotations

from typing import Any

from kinema.scene import EntityJoint


def mujoco_joint(model: Any, joint: EntityJoint) -> Any:
    """MuJoCo's joint; one without a name is the only one of its body, or else has the same place."""
    if joint.name in {model.joint(j).name for j in range(model.njnt)}:
        return model.joint(joint.name)
    if joint.link in {model.body(b).name for b in range(model.nbody)}:
        return model.joint(int(model.body(joint.link).jntadr[0]))
    return model.joint(list(model.jnt_dofadr).index(joint.dof_idx))
