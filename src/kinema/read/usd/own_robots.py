"""Robots as they were: which links belong together, what they are called, where they stand, what holds their base."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kinema.description import Base, Constraint, Joint, JointKind, Robot
from kinema.foundation import Pose
from kinema.words import ours

from . import pxr
from .own_assets import kept_assets
from .own_joints import as_constraint, following, free_joint
from .own_names import kept_attributes
from .own_settings import own
from .polar import rigid
from .stage_index import StageIndex


@dataclass(slots=True, eq=False)
class OwnRobots:
    """What a stage of Kinema's says of its robots beyond what others would see."""

    index: StageIndex
    bases: list[Joint]
    """Joints to the world that only say that a base is fixed; they may be what an articulation's root is marked on."""
    constraints: list[Constraint]
    _marker_of: dict[str, str]

    @classmethod
    def sort_out(cls, index: StageIndex, joints: list[tuple[pxr.Prim, Joint]]) -> tuple[OwnRobots, list[Joint]]:
        """Tell joints from what joints only stand for; and add the free joints that have no prim."""
        result = cls(index, [], [], {})
        if index.values.stamp is None:
            return result, [joint for _, joint in joints]
        kept: list[Joint] = []
        for prim, joint in joints:
            constraint = as_constraint(index, prim, joint)
            if constraint is not None:
                result.constraints.append(constraint)
            elif str(own(index, prim, ours.BASE) or "") == Base.FIXED.value and joint.child is not None:
                result.bases.append(joint)
            else:
                kept.append(joint)
                result.constraints += following(index, prim, joint)
        names = {joint.name for joint in kept}
        free = [
            (own(index, body.prim, ours.FREE_JOINT_ORDER), free_joint(index, body)) for body in index.bodies.values()
        ]
        for place, joint in sorted(((p, j) for p, j in free if j is not None), key=lambda f: f[0] or 0):
            if joint.name not in names:
                kept.insert(len(kept) if place is None else int(place), joint)
        return result, kept

    def together(self, components: list[list[str]], paths: dict[str, str]) -> list[list[str]]:
        """Components that stand in the prim of one robot, as one; `paths` are those of the links."""
        if self.index.values.stamp is None:
            return components
        groups: dict[str, list[str]] = {}
        for number, names in enumerate(components):
            marker = self.marker(paths[names[0]])
            groups.setdefault(marker or f"#{number}", []).extend(names)
        return list(groups.values())

    def marker(self, path: str) -> str:
        """The prim at or above a path that says that it is a robot; empty for none."""
        if path in ("", "/"):
            return ""
        if path not in self._marker_of:
            prim = self.index.stage.GetPrimAtPath(path)
            found = bool(prim) and own(self.index, prim, ours.ROBOT) is not None
            self._marker_of[path] = path if found else self.marker(path.rpartition("/")[0])
        return self._marker_of[path]

    def restore(self, robot: Robot, path: str) -> None:
        """Give a robot the name, base and place that its prim keeps."""
        marker = self.marker(path)
        prim = self.index.stage.GetPrimAtPath(marker) if marker else None
        held = {joint.child for joint in self.bases}
        if any(link.name in held for link in robot.links):
            robot.base = Base.FIXED
        if not prim:
            return
        robot.name = str(own(self.index, prim, ours.ROBOT))
        robot.attributes |= kept_attributes(self.index, prim)
        robot.extras += kept_assets(self.index, prim)
        if str(own(self.index, prim, ours.BASE) or "") == Base.UNSPECIFIED.value:
            robot.base = Base.UNSPECIFIED
        roots = [self.index.bodies.get(str(t)) for t in self.index.targets(prim, ours.ROOT)]
        if roots and roots[0] is not None:
            robot.root = roots[0].name
        place = rigid(self.index.world(prim))
        if not place.is_close(Pose(), 0.0):
            _stand_at(robot, place)


def _stand_at(robot: Robot, place: Pose) -> None:
    """Put the robot's base frame at a place in the world, and leave everything where it is."""
    robot.pose = place
    back = place.inverse()
    for link in robot.links:
        if link.pose is not None:
            link.pose = back @ link.pose
    for joint in robot.joints:
        if joint.kind is JointKind.FREE and joint.parent is None and joint.initial is not None:
            motion = back @ Pose.from_quaternion(joint.initial[:3], joint.initial[3:])
            joint.initial = np.concatenate([motion.position, motion.quaternion])
        elif joint.parent is None:
            joint.parent_pose = back @ joint.parent_pose
        elif joint.child is None:
            joint.child_pose = back @ joint.child_pose
