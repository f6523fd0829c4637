"""A world to `<world>`."""

from __future__ import annotations

from kinema.description import Link, Robot, World
from kinema.foundation import unique_name
from kinema.words import sdf

from ..bookkeeping import missed_options
from ..text import Element, number, numbers
from .extras import give_back, names_of
from .losses import report_lists
from .lowered import Lowered
from .model import add_model, model_name
from .sensing import add_frame, add_light
from .writing import Writing, finite, sdf_name

_GRAVITY = (0.0, 0.0, -9.81)
_IN_PHYSICS = (sdf.VERSION, *sdf.PHYSICS_NUMBERS, sdf.PHYSICS_TYPE)


def scenery_of(world: World) -> Robot | None:
    """The static shapes of a world as a robot that never moves; None where there are none."""
    if not world.shapes:
        return None
    link = Link(name="scenery", name_is_generated=True, shapes=world.shapes)
    return Robot(name="scenery", name_is_generated=True, links=[link], static=True, format=world.format)


def add_world(
    writing: Writing, holder: Element, world: World, models: list[tuple[Robot, Lowered]], *, masks: bool
) -> None:
    """The `<world>` with a model for every robot, in the order given."""
    name = sdf_name(world.name) or "default"
    if world.name and name != world.name:
        writing.approximate(world, "its name", f'it is called "{name}"')
    element = holder.child("world", name=name)
    _physics(writing, element, world)
    gravity = _GRAVITY if world.gravity is None else world.gravity.tolist()
    element.child("gravity", numbers(finite(g, "the world", "gravity") for g in gravity))
    taken = {"world", *names_of(world.extras, "actor", "model", "light", "frame")}
    for light in world.lights:
        if light.link is None:
            add_light(writing, element, light, unique_name(sdf_name(light.name) or "light", taken))
        else:
            writing.drop(light, "the light", "it is on a link, but belongs to no robot")
    for robot, lowered in models:
        written = model_name(robot, taken)
        if robot.name and written != robot.name:
            writing.approximate(robot, "its name", f'it is called "{written}"')
        add_model(writing, element, robot, lowered, written, masks=masks)
    for frame in world.frames:
        written = unique_name(sdf_name(frame.name) or "frame", taken)
        if frame.name and written != frame.name:
            writing.approximate(frame, "its name", f'it is called "{written}"')
        add_frame(writing, element, frame, written, None)
    give_back(writing, world, element, said=_IN_PHYSICS)
    _report(writing, world)


def _physics(writing: Writing, element: Element, world: World) -> None:
    """The time step, where the kept text does not say it."""
    options = dict(world.options)
    step = options.pop("timestep", None)
    kept = any(e.tag == "physics" and e.format == sdf.FORMAT for e in world.extras)
    if step is not None and not kept:
        physics = element.child("physics", name="default", type="ode")
        physics.child("max_step_size", number(finite(step, "the world", "time step")))
        physics.child("real_time_factor", "1")
    options = missed_options(options)
    if options:
        writing.drop(world, f"the simulation settings {', '.join(options)}")


def _report(writing: Writing, world: World) -> None:
    for constraint in world.constraints:
        writing.drop(constraint, f"the {constraint.kind.value} constraint", "it belongs to no robot")
    for sensor in world.sensors:
        writing.drop(sensor, "the sensor", "it belongs to no robot")
    for camera in world.cameras:
        writing.drop(camera, "the camera", "it belongs to no robot")
    if world.shapes:
        how = 'they are the static model "scenery"'
        for shape in world.shapes:
            writing.approximate(shape, "that it belongs to the world", how)
    report_lists(writing, world)
