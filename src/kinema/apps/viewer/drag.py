"""Mouse dragging: a critically damped spring between a grabbed point and the pointer, as in MuJoCo's viewer."""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from kinema.core import Array, KinemaError, Pose

from .displayed_model import DisplayedModel, ElementRef, to_numpy
from .scene_view import EnvironmentGrid, SceneView
from .simulation import SimulationPlayer

_STIFFNESS_PER_MASS = 120.0
"""Spring stiffness per mass [1/s2]."""
_MIN_MASS_FRACTION, _MAX_MASS_RATIO = 0.1, 10.0
"""Part of the mass of the entity on which the stiffness is based at least, so that a robot is lifted by a foot, and
ratio of this mass to the effective one at most, for which a force that is held for 20 ms is stable."""


@dataclass(slots=True, eq=False)
class DragSpring:
    """Critically damped spring between a point of a link and the mouse pointer."""

    exhibit: DisplayedModel
    link: str
    env: int
    local_attachment: Array
    """Attachment point in the link frame [m]."""
    target: Array
    """World position of the pointer [m]."""
    stiffness: float
    """[N/m]"""
    damping: float
    """[N s/m]"""

    @classmethod
    def attach(cls, model: DisplayedModel, link: str, env: int, point: Array) -> DragSpring:
        """Attach a spring to a link at a world point.

        The mass is the effective one of the point, 3 / tr(J M^-1 J^T), in MuJoCo's viewer too.
        """
        assert model.entity is not None
        spring = cls(model, link, env, np.zeros(3), np.array(point), 0.0, 0.0)
        spring.local_attachment = spring._link_pose().inverse().apply(point)
        mass = spring._effective_mass()
        wanted = max(mass, _MIN_MASS_FRACTION * sum(x.mass for x in model.entity.links))
        spring.stiffness = _STIFFNESS_PER_MASS * min(wanted, _MAX_MASS_RATIO * mass)
        spring.damping = 2.0 * math.sqrt(spring.stiffness * mass)
        return spring

    def _effective_mass(self) -> float:
        """Effective mass of the attachment point [kg]: 3 / tr(J M^-1 J^T)."""
        entity = self.exhibit.entity
        assert entity is not None
        inverse_mass = 0.0
        if entity.n_dofs:
            jacobian = np.asarray(entity.get_jacobian(self.link, self.local_attachment, [self.env]), np.float64)[0, :3]
            mass_matrix = to_numpy(entity.get_mass_mat([self.env])).astype(np.float64)[0]
            inverse_mass = float(np.trace(jacobian @ np.linalg.solve(mass_matrix, jacobian.T)))
        if not inverse_mass > 0.0:
            raise KinemaError(f'link "{self.link}" of "{entity.name}" is not moved by forces')
        return 3.0 / inverse_mass

    def _link_pose(self) -> Pose:
        return self.exhibit.simulated_link_pose(self.link, self.env)

    @property
    def attachment_point(self) -> Array:
        """Current world position of the attachment point [m]."""
        return self._link_pose().apply(self.local_attachment)

    def apply(self) -> None:
        """Apply the spring-damper force at the attachment point for the next steps."""
        entity = self.exhibit.entity
        assert entity is not None
        link, pose = entity.get_link(self.link), self._link_pose()
        inertial = self.exhibit.links[self.link].inertial
        centre = pose.apply(np.zeros(3) if inertial is None else inertial.center)
        point = pose.apply(self.local_attachment)
        velocity, spin = to_numpy(link.get_vel([self.env]))[0], to_numpy(link.get_ang([self.env]))[0]
        speed = velocity + np.cross(spin, point - pose.position)
        force: Array = np.asarray(self.stiffness * (self.target - point) - self.damping * speed, dtype=np.float64)
        self._apply_wrench(force, np.cross(point - centre, force))

    def release(self) -> None:
        """Remove the force."""
        self._apply_wrench(np.zeros(3), np.zeros(3))

    def _apply_wrench(self, force: Array, torque: Array) -> None:
        entity = self.exhibit.entity
        assert entity is not None
        entity.apply_links_external_force(force[None, None], [self.link], [self.env])
        entity.apply_links_external_torque(torque[None, None], [self.link], [self.env])


class DragHost(Protocol):
    """Interface of the viewer that dragging uses."""

    models: list[DisplayedModel]
    player: SimulationPlayer
    scene_view: SceneView
    env: int
    env_grid: EnvironmentGrid | None

    def notify(self, text: str) -> None:
        """Show a notification to all clients."""

    def show_compiling(self) -> None:
        """Show the compiling state immediately, before an operation that blocks."""


class DragInteraction:
    """Mouse dragging of links by a spring, of one environment or of many that are shown side by side."""

    def __init__(self, host: DragHost) -> None:
        self._host = host
        self._line: Any = None
        self.is_deferred = False
        """Whether a program steps the scene, so that events are handled when the program lets the viewer update."""
        self._pending: deque[tuple[Any, ...]] = deque()

    def enable(self, handle: Any, element: ElementRef) -> None:
        """Make a node draggable; the instances of a batched node are environments."""

        async def dragged(event: Any) -> None:  # in order, because it is awaited
            start, end = np.array(event.start_position), np.array(event.end_position)
            arguments = element, event.phase, start, end, event.instance_index
            if self.is_deferred:
                self._pending.append(arguments)
            else:
                self.handle_drag(*arguments)

        handle.on_drag("left", modifier="cmd/ctrl")(dragged)

    def handle_pending(self) -> None:
        """Handle deferred events, and apply the spring for the next steps of the program."""
        while self._pending:
            self.handle_drag(*self._pending.popleft())
        if (spring := self._host.player.drag_spring) is not None:
            spring.apply()

    def handle_drag(
        self, element: ElementRef, phase: str, start_point: Array, pointer: Array, instance: int | None = None
    ) -> None:
        """Attach, move or release the spring.

        Args:
            element: shape whose link is dragged.
            phase: `start`, `update` or `end`.
            start_point: grabbed point where it is drawn [m].
            pointer: pointer in the plane of the grabbed point [m].
            instance: number of the environment, if many are shown; None for the one that is shown.
        """
        host = self._host
        model, player = host.models[element.model_index], host.player
        env = host.env if instance is None else instance
        offset = self._offset(env)
        if phase == "end" or model.entity is None or element.name not in model.links:
            player.set_drag_spring(None)
        elif phase == "start" or player.drag_spring is None:
            try:
                with player.lock:
                    spring = DragSpring.attach(model, element.name, env, start_point - offset)
                    player.allow_external_forces(host.show_compiling)
            except KinemaError as error:
                host.notify(str(error))
                return
            spring.target = pointer - offset
            player.set_drag_spring(spring)
        else:
            player.drag_spring.target = pointer - offset

    def _offset(self, env: int) -> Array:
        grid = self._host.env_grid
        return np.zeros(3) if grid is None or env >= grid.n_envs else grid.env_offsets[env]

    def draw_spring(self) -> None:
        """Draw the spring as a line while dragging."""
        spring = self._host.player.drag_spring
        if spring is None:
            if self._line is not None:
                self._line.remove()
                self._line = None
            return
        ends = np.stack([spring.attachment_point, spring.target])[None] + self._offset(spring.env)
        if self._line is not None:
            self._line.points = ends
        else:
            paint = np.array([255, 60, 60], dtype=np.uint8)
            self._line = self._host.scene_view.scene.add_line_segments(
                "/pull", ends, paint, thickness=3.0, thickness_units="screen"
            )
