"""Poses and inertias in URDF's way of writing them."""

from __future__ import annotations

import numpy as np

from kinema.description import Inertial
from kinema.foundation import Pose

from .elements import InertialElement, PlacementElement


def pose_of(element: PlacementElement) -> Pose:
    """The pose an `<origin>` gives."""
    if element.quat_xyzw is None:
        return Pose.from_rpy(element.xyz, element.rpy)
    x, y, z, w = element.quat_xyzw
    return Pose.from_quaternion(element.xyz, (w, x, y, z))


def inertial_of(element: InertialElement) -> Inertial:
    """Mass, centre and the tensor turned into the link's axes."""
    pose = pose_of(element.placement)
    xy, xz, yz = element.products
    tensor = np.diag(element.moments) + np.array([[0.0, xy, xz], [xy, 0.0, yz], [xz, yz, 0.0]])
    turned = pose.rotation @ tensor @ pose.rotation.T
    return Inertial(element.mass, pose.position, 0.5 * (turned + turned.T))
