"""Gizmos that links follow by inverse kinematics: poses while paused, position targets while playing.

Kinematic bodies follow their gizmos directly.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from kinema.core import Array, KinemaError, Pose, axis_angle_to_matrix

from .displayed_model import WORLD, DisplayedModel, to_numpy
from .mechanism import to_slider_values
from .scene_view import SceneView
from .simulation import SLIDERS, SimulationPlayer

_MOVE_DURATION = 0.05
"""Time in which a kinematic body reaches its gizmo [s], about that between two events of a drag."""
_MIN_POSE_DOFS = 6
"""Degrees of freedom of a chain from which on its target is a pose, not a position."""


@dataclass(slots=True, eq=False)
class IKTarget:
    """Target pose of a frame on a link, drawn as a gizmo."""

    model: DisplayedModel
    link: str
    local_pose: Pose
    """Pose of the frame in the link frame."""
    dofs: list[int]
    """Degrees of freedom of the entity that move the link, except those of a free base."""
    gizmo: Any
    is_dragged: bool = False

    @property
    def is_kinematic(self) -> bool:
        """Whether the link is a kinematic body, which is moved instead of joints."""
        return self.model.links[self.link].kinematic

    @property
    def pose(self) -> Pose:
        """Target pose in the world."""
        return Pose.from_quaternion(self.gizmo.position, self.gizmo.wxyz)

    def frame_pose(self, env: int) -> Pose:
        """Current pose of the frame in the world."""
        return self.model.simulated_link_pose(self.link, env) @ self.local_pose


class IKHost(Protocol):
    """Interface of the viewer that inverse kinematics uses."""

    models: list[DisplayedModel]
    player: SimulationPlayer
    scene_view: SceneView
    env: int

    def notify(self, text: str) -> None:
        """Show a notification to all clients."""

    def refresh(self) -> None:
        """Update the scene to the current state."""


class IKTargets:
    """All targets of inverse kinematics; those of one entity are solved together."""

    def __init__(self, host: IKHost) -> None:
        self._host = host
        self.targets: list[IKTarget] = []
        self.keep_orientation = True
        """Whether links of chains with six or more degrees of freedom take the orientation of their gizmos too."""

    def choices(self) -> dict[str, tuple[DisplayedModel, str, Pose]]:
        """Frames that can have a target, by label: model, link, and pose in the link.

        First links at the ends of chains, those that are fixed to their parents (tools) before others.
        """
        ends: dict[str, tuple[DisplayedModel, str, Pose]] = {}
        tools: dict[str, tuple[DisplayedModel, str, Pose]] = {}
        inner: dict[str, tuple[DisplayedModel, str, Pose]] = {}
        for model in self._host.models:
            prefix = f"{model.title}: " if len(self._host.models) > 1 else ""
            tools |= {f"{prefix}{name}": (model, name, Pose()) for name, link in model.links.items() if link.kinematic}
            for i, mechanism in enumerate(model.mechanisms):
                parents = {edge.parent for edge in mechanism.tree.edges}
                for edge in mechanism.tree.edges:
                    link = model.unique_link(i, edge.child)
                    if link is not None and self._chain_joints(model, link):
                        is_fixed = not any(joint.n_dofs for joint in edge.joints)
                        chosen = inner if edge.child in parents else tools if is_fixed else ends
                        chosen[f"{prefix}{link}"] = (model, link, Pose())
                for frame in mechanism.robot.frames:
                    link = model.unique_link(i, frame.link)
                    if link is not None and frame.pose.is_finite and self._chain_joints(model, link):
                        inner.setdefault(f"{prefix}{frame.name}", (model, link, frame.pose))
        return tools | ends | inner

    @staticmethod
    def _chain_joints(model: DisplayedModel, link: str) -> list[str]:
        """Joints between a link and the base that can move, without free joints."""
        for i, mechanism in enumerate(model.mechanisms):
            own = next((x.name for x in mechanism.robot.links if model.unique_link(i, x.name) == link), None)
            if own is not None:
                return [
                    model.unique_joint(i, name)
                    for name in mechanism.joints_to_base(own)
                    if (joint := mechanism.joints_by_name[name]).n_dofs and joint.kind != "free"
                ]
        return []

    def add(self, label: str) -> IKTarget | None:
        """Add a target at the current pose of a frame, one of `choices`; builds the scene if necessary."""
        model, link, local_pose = self.choices()[label]
        player = self._host.player
        with player.lock:
            if link == WORLD or not player.ensure_built() or model.entity is None:
                return None
            dofs = [int(d) for name in self._chain_joints(model, link) for d in model.entity.get_joint(name).dofs_idx]
            target = IKTarget(model, link, local_pose, sorted(dofs), None)
            start = target.frame_pose(self._host.env)
        target.gizmo = self._host.scene_view.scene.add_transform_controls(
            f"/ik/{len(self.targets)}",
            scale=0.22 * self._host.scene_view.size,
            depth_test=False,
            disable_rotations=not self.has_orientation(target),
            position=start.position,
            wxyz=start.quaternion,
        )
        self.targets.append(target)

        def moved(event: Any) -> None:  # in any order: the target is where the gizmo is now
            target.is_dragged = event.phase != "end"
            self.solve(target.model)

        target.gizmo.on_update(moved)
        return target

    def has_orientation(self, target: IKTarget) -> bool:
        """Whether the link takes the orientation of the gizmo."""
        return self.keep_orientation and (target.is_kinematic or len(target.dofs) >= _MIN_POSE_DOFS)

    def remove_all(self) -> None:
        """Remove all targets."""
        for target in self.targets:
            target.gizmo.remove()
        self.targets.clear()

    def solve(self, model: DisplayedModel) -> None:
        """Move a model to its targets: its joints while paused, its position targets while playing."""
        player, env = self._host.player, self._host.env
        targets = [target for target in self.targets if target.model is model and not target.is_kinematic]
        with player.lock:
            if model.entity is None:
                return
            for target in self.targets:
                if target.model is model and target.is_kinematic:
                    self._move_kinematic_body(target, env)
            if not targets:
                self._host.refresh()
                return
            current = to_numpy(model.entity.get_qpos([env]))
            try:
                found = model.entity.inverse_kinematics_multilink(
                    [target.link for target in targets],
                    [target.pose.position for target in targets],
                    [self._link_quaternion(target) for target in targets],
                    init_qpos=current,
                    points=[target.local_pose.position for target in targets],
                    dofs_idx=sorted({dof for target in targets for dof in target.dofs}),
                    max_samples=1,
                )
            except KinemaError as error:
                self._host.notify(str(error))
                return
            names = {name for target in targets for name in self._chain_joints(model, target.link)}
            if player.playing:
                self._send_position_targets(model, names, to_numpy(found)[0])
                return
            self._set_joints(model, names, to_numpy(found)[0], env)
        self._host.refresh()

    def _move_kinematic_body(self, target: IKTarget, env: int) -> None:
        """Move a kinematic body to its gizmo: at a velocity that contacts see while playing, at once while paused."""
        entity = target.model.entity
        assert entity is not None
        position, quaternion = target.pose.position, target.pose.quaternion if self.keep_orientation else None
        try:
            if self._host.player.playing or target.link != entity.base_link.name:
                entity.set_target_pose(position, quaternion, _MOVE_DURATION, link=target.link, envs_idx=[env])
            else:
                entity.set_pos(position, [env])
                if quaternion is not None:
                    entity.set_quat(quaternion, [env])
        except KinemaError as error:
            self._host.notify(str(error))

    def _link_quaternion(self, target: IKTarget) -> Array | None:
        return (target.pose @ target.local_pose.inverse()).quaternion if self.has_orientation(target) else None

    def _send_position_targets(self, model: DisplayedModel, names: set[str], qpos: Array) -> None:
        assert model.entity is not None
        joints = [model.entity.get_joint(name) for name in names]
        scalar = [joint for joint in joints if len(joint.dofs_idx) == len(joint.qs_idx) == 1]
        positions = {int(j.dofs_idx[0]): float(qpos[j.qs_idx[0]]) for j in scalar}
        self._host.player.control_inputs.source = SLIDERS
        self._host.player.control_inputs.set_positions(model.entity, positions)

    def _set_joints(self, model: DisplayedModel, names: set[str], qpos: Array, env: int) -> None:
        """Set joints to coordinates; mimic joints follow and loops are closed."""
        assert model.entity is not None
        indices = {name: list(model.entity.get_joint(name).qs_idx) for name in names}
        values = {name: to_slider_values(model.joints[name], np.asarray(qpos[q], float)) for name, q in indices.items()}
        model.read_joints_from_simulation(env)
        model.set_slider_values(values)
        model.write_joints_to_simulation(env)
        self._host.player.control_inputs.hold(model.entity, env)

    def follow_links(self) -> None:
        """Put gizmos that are not dragged back to their frames while paused."""
        if self._host.player.playing:
            return
        for target in self.targets:
            pose = None if target.is_dragged or target.model.entity is None else target.frame_pose(self._host.env)
            if pose is not None and not pose.is_close(target.pose, 1e-5):
                target.gizmo.position, target.gizmo.wxyz = pose.position, pose.quaternion

    def jog(self, command: Array, duration: float) -> None:
        """Move the last target by a velocity command in world axes for some time [s].

        Args:
            command: velocity along x, y, z [m/s] and about z [rad/s], (4,).
            duration: time [s].
        """
        if not self.targets or not command.any():
            return
        target = self.targets[-1]
        turn = axis_angle_to_matrix(np.array([0.0, 0.0, 1.0]), float(command[3] * duration))
        start = target.pose
        moved = Pose(rotation=turn @ start.rotation, position=start.position + command[:3] * duration)
        target.gizmo.position, target.gizmo.wxyz = moved.position, moved.quaternion
        self.solve(target.model)
