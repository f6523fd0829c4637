"""What pulls on links: weight that some are spared, and the user."""

from __future__ import annotations

from kinema.model import Model

from ..rigid.kinematics import Pose
from ..rigid.rnea import NO_WRENCH, Wrench, world_wrench
from ..settings import Settings
from ..sweeps.maths import ZERO, Vector, add, rotate, scale
from ..sweeps.quantities import Quantity
from ..sweeps.sweeps import Sweeps
from ..sweeps.tree import Link


def anything_pulls(model: Model, settings: Settings) -> bool:
    """Whether there are wrenches on frames at all."""
    lifted = spares_weight(model) and not actuators_bear_weight(model)
    pushed = settings.external_forces or bool(model.fluid.kinds)
    return lifted or pushed or bool((model.actuators.frame_idx >= 0).any())


def spares_weight(model: Model) -> bool:
    """Whether gravity pulls some links less, or more, than others."""
    return bool((model.links.gravity_scale != 1.0).any())


def actuators_bear_weight(model: Model) -> bool:
    """Whether actuators hold up some of that: then it acts on joints, where it can be bounded, not on frames."""
    return spares_weight(model) and bool(model.dofs.actuator_gravcomp.any())


def no_wrenches(s: Sweeps, name: str) -> Quantity[Wrench]:
    """Wrenches on frames that are yet to be added up; those on the world do nothing."""
    wrenches: Quantity[Wrench] = s.quantity(name)
    s.each_frame(f"no {name}", lambda node: wrenches.put(node.here, NO_WRENCH))
    return wrenches


def center_in_frame(link: Link) -> Vector:
    """A link's centre of mass in its moving frame."""
    return add(link.position, rotate(link.rotation, link.center))


def spare_weight(s: Sweeps, frames: Quantity[Pose], wrenches: Quantity[Wrench]) -> None:
    """What holds up the links that gravity pulls less, or more, than others."""
    if not spares_weight(s.model):
        return

    def body(link: Link) -> None:
        if link.lifted and link.moves:
            lift = scale((link.gravity_scale - 1.0) * link.mass, s.gravity)
            wrenches.add(link.frame, world_wrench(frames[link.frame], center_in_frame(link), ZERO, lift))

    s.each_link("weight that links are spared", body)


def applied(s: Sweeps, frames: Quantity[Pose], wrenches: Quantity[Wrench]) -> None:
    """The user's forces on links: on their centres of mass, along the world's axes."""
    if not s.settings.external_forces:
        return

    def body(link: Link) -> None:
        if link.moves:
            torque, force = s.of("cfrc_applied_ang", link), s.of("cfrc_applied_vel", link)
            wrenches.add(link.frame, world_wrench(frames[link.frame], center_in_frame(link), torque, force))

    s.each_link("the user's forces on links", body)
