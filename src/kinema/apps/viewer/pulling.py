"""Dragging a link: a spring between the point that was grabbed and the pointer."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from kinema.foundation import Array, Pose

from .exhibit import Exhibit

_STIFFNESS = 120.0
"""Of the spring, for each kilogram that it pulls on [1/s2]."""


@dataclass(slots=True, eq=False)
class Pull:
    """Who pulls on what."""

    exhibit: Exhibit
    link: str
    env: int
    grabbed: Array
    """In the link's frame [m]."""
    target: Array
    """Where the pointer is, in the world [m]."""
    mass: float
    """How much the spring is made for [kg]."""

    @classmethod
    def at(cls, exhibit: Exhibit, link: str, env: int, point: Array) -> Pull:
        """Grab a link at a point in the world."""
        assert exhibit.entity is not None
        own = exhibit.entity.get_link(link).mass
        total = sum(x.mass for x in exhibit.entity.links)
        pull = cls(exhibit, link, env, np.zeros(3), np.array(point), max(own, 0.1 * total))
        pull.grabbed = pull._pose().inverse().apply(point)
        return pull

    def _pose(self) -> Pose:
        assert self.exhibit.entity is not None
        link = self.exhibit.entity.get_link(self.link)
        return Pose.from_quaternion(link.get_pos([self.env])[0], link.get_quat([self.env])[0])

    @property
    def point(self) -> Array:
        """Where the grabbed point is now, in the world [m]."""
        return self._pose().apply(self.grabbed)

    def apply(self) -> None:
        """Push the link for the next steps: a damped spring at the grabbed point."""
        entity = self.exhibit.entity
        assert entity is not None
        link, pose = entity.get_link(self.link), self._pose()
        inertial = self.exhibit.links[self.link].inertial
        centre = pose.apply(np.zeros(3) if inertial is None else inertial.center)
        point = pose.apply(self.grabbed)
        speed = link.get_vel([self.env])[0] + np.cross(link.get_ang([self.env])[0], point - pose.position)
        stiffness = _STIFFNESS * self.mass
        damping = 2.0 * math.sqrt(stiffness * max(link.mass, 1e-3))
        force: Array = np.asarray(stiffness * (self.target - point) - damping * speed, dtype=np.float64)
        self._push(force, np.cross(point - centre, force))

    def release(self) -> None:
        """Push no more."""
        self._push(np.zeros(3), np.zeros(3))

    def _push(self, force: Array, torque: Array) -> None:
        entity = self.exhibit.entity
        assert entity is not None
        entity.apply_links_external_force(force[None, None], [self.link], [self.env])
        entity.apply_links_external_torque(torque[None, None], [self.link], [self.env])
