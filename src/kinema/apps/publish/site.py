"""Static site of a robot or a scene: a page, a WebAssembly module of the simulation, and the visual shapes as glTF."""

from __future__ import annotations

import base64
import json
import math
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from traceback import extract_tb
from typing import Any

import numpy as np

from kinema.core import Diagnostics, KinemaError, to_identifier
from kinema.dynamics import ControlMode
from kinema.model import Model
from kinema.read import read
from kinema.runtime import library_target
from kinema.scene import Entity, Plane, Scene

from ..aot.javascript_loader import LIBRARY_SCRIPT, interface_description
from ..aot.library import compile_code, link_wasm
from ..aot.programs import LibraryRequest
from ..learn import TASKS, Policy, Task, make_env
from ..viewer.displayed_model import DisplayedModel
from ..viewer.simulation import ControlInputs
from .page_policy import page_policy
from .visuals import page_visuals

PAGE = Path(__file__).with_name("page")
LIBRARY_NAME = "simulation"
"""Prefix of the functions of the module."""
MAX_KEYFRAMES = 12
SCENE_FUNCTION = "make_scene"
"""Function of a scene file that gets the description of the robot and returns the scene."""


@dataclass(frozen=True, slots=True, eq=False)
class PublishedSite:
    """Files of a published page, and messages."""

    files: dict[str, Path]
    """Kind of a file (`page`, `script`, `three.js`, `license`, `module`, `visuals`, `embedded`) -> path."""
    diagnostics: Diagnostics = field(default_factory=Diagnostics)
    """Messages of the readers and the scene, and on what the page leaves out."""

    @property
    def page(self) -> Path:
        """Path of the page, to be opened in a browser."""
        return self.files["page"]


def publish(
    source: Any,
    out: str | os.PathLike[str],
    *,
    title: str | None = None,
    policy: Policy | str | os.PathLike[str] | None = None,
    task: Task | str | None = None,
    fixed: bool | None = None,
    errors: str = "raise",
) -> PublishedSite:
    """Write a static site that simulates a robot or a scene in the browser, from a folder or any web server.

    Args:
        source: a `Scene` with one environment on a CPU, in the state and with the control modes that the page starts
            with; or a robot, a world or a path, of which a scene is made, with a floor for free robots if the file has
            none; None with a task, whose scene is taken.
        out: folder for the files; created if it does not exist.
        title: title of the page; None for the name of the robot.
        policy: policy that controls the scene, or its `.npz` file; needs `task`.
        task: task that the policy was trained for, or its name: defines scene, observations and actions.
        fixed: whether the base of a robot is fixed; None for what its file says.
        errors: of a robot, `raise` for errors of its description, or `keep` to simulate the rest, as `Scene.add`.

    Returns:
        The files and messages.
    """
    if (policy is None) != (task is None):
        raise KinemaError("publish: a policy needs the task that it was trained for, and a task a policy")
    if (source is None) == (task is None):
        raise KinemaError("publish: either a robot or scene, or a task with its own scene")
    env = None
    if task is not None:
        env = make_env(_task(task), 1, "cpu", arrays="numpy")
        scene = env.scene
        scene.reset(keyframe=env.task.keyframe)
    else:
        scene = _scene_of(source, fixed, errors)
    if not scene.built.engine.settings.external_forces:
        scene.allow_external_forces()
    settings = _page_settings(scene, title)
    if env is not None:
        loaded = policy if isinstance(policy, Policy) else Policy.load(policy or "")
        settings["policy"] = page_policy(loaded, env)
        scene.reset(keyframe=env.task.keyframe)
    code = compile_code(LibraryRequest(scene, LIBRARY_NAME, ["step"], library_target("wasm32"), []))
    settings["library"] = interface_description(code.interface)
    visuals = page_visuals(scene)
    settings["planes"] = visuals.planes
    return _write_site(Path(out), settings, link_wasm(code), visuals.encode(), code.diagnostics)


# ---------------------------------------------------------------------------------------------------------------- scene


def load_scene_file(file: Path, robot: Any) -> Scene:
    """Scene that the function `make_scene` of a Python file returns for a robot; KinemaError if there is none."""
    specification = spec_from_file_location(f"_kinema_scene_{to_identifier(file.stem)}", file)
    if not file.is_file() or specification is None or specification.loader is None:
        raise KinemaError(f"{file}: this is no Python file of a scene")
    module = module_from_spec(specification)
    try:
        specification.loader.exec_module(module)
    except Exception as error:
        raise KinemaError(f"{file}: cannot be imported: {type(error).__name__}: {error}") from error
    function = getattr(module, SCENE_FUNCTION, None)
    if function is None:
        raise KinemaError(f"{file}: has no function {SCENE_FUNCTION}(robot), which returns a kinema.Scene")
    try:
        scene = function(robot)
    except KinemaError:
        raise
    except Exception as error:
        line = next(
            (x.lineno for x in reversed(extract_tb(error.__traceback__)) if x.filename == module.__file__), None
        )
        place = f"{file}:{line}" if line else f"{file}"
        raise KinemaError(f"{place}: {SCENE_FUNCTION} raised {type(error).__name__}: {error}") from error
    if not isinstance(scene, Scene):
        raise KinemaError(f"{file}: {SCENE_FUNCTION} returned {type(scene).__name__}, not a kinema.Scene")
    return scene


def _task(task: Task | str) -> Task:
    """Task, or an example task by name, with programs in double precision."""
    if isinstance(task, Task):
        return task
    if task not in TASKS:
        raise KinemaError(f"task: {task!r} is none of {', '.join(TASKS)}")
    return TASKS[task]()


def _scene_of(source: Any, fixed: bool | None, errors: str = "raise") -> Scene:
    """Built scene of a source in double precision; joints without actuators hold their positions."""
    if isinstance(source, Scene):
        scene = source
        if not scene.is_built:
            scene.build(external_forces=True)
            _hold_positions(scene)
    else:
        description = read(source) if isinstance(source, str | os.PathLike) else source
        dt = description.options.get("timestep") or 0.002
        scene = Scene(dt=float(dt), precision="double", quiet=True)
        entity = scene.add(description, fixed=fixed, errors=errors)
        if any(joint.kind == "free" for joint in entity.joints) and not _has_ground(description):
            scene.add(Plane(), name="floor")
        scene.build(external_forces=True)
        if entity.keyframe_names:
            scene.reset(keyframe=entity.keyframe_names[0])
        _hold_positions(scene)
    if scene.built.n_envs != 1 or not scene.built.engine.device.is_cpu:
        raise KinemaError("publish: a page simulates one environment: build the scene on a CPU with n_envs=1")
    if not scene.built.model.n_dofs:
        raise KinemaError("publish: nothing in the scene can move")
    if scene.built.engine.settings.presence:
        raise KinemaError("publish: entities of the scene can be spawned and removed: build it without room")
    return scene


def _hold_positions(scene: Scene) -> None:
    """Let the joints of robots without actuators hold their positions."""
    for entity in scene.entities:
        if driven := driven_dofs(entity):
            entity.control_dofs_position(entity.get_dofs_position(driven), driven)


def driven_dofs(entity: Entity) -> list[int]:
    """Degrees of freedom of a robot without actuators that hold their positions: not those that follow others."""
    if entity.n_actuators or not entity.n_dofs:
        return []
    displayed = DisplayedModel(0, "", entity.description)
    following = {
        displayed.unique_joint(i, name)
        for i, mechanism in enumerate(displayed.mechanisms)
        for name in mechanism.dependent_joints()
    }
    return [
        dof
        for joint in entity.joints
        if joint.kind not in ("free", "spherical") and joint.name not in following
        for dof in joint.dofs_idx
    ]


def _has_ground(description: Any) -> bool:
    """Whether a description has static shapes that something can lie on."""
    robots = getattr(description, "robots", [])
    return any(shape.collision for shape in getattr(description, "shapes", [])) or any(r.static for r in robots)


# ------------------------------------------------------------------------------------------------------------- settings


def _page_settings(scene: Scene, title: str | None) -> dict[str, Any]:
    """Title, links, dofs, controls and keyframes of a page, as JSON values; the interface of its module is separate."""
    model = scene.built.model
    entities = [entity for entity in scene.entities if entity.n_dofs]
    modes = scene.built.controls.modes
    controls = [
        _control(control)
        for control in ControlInputs(entities).inputs
        if control.is_actuator or modes[control.entity.info.dof_start + control.index] == ControlMode.POSITION
    ]
    return {
        "title": title or entities[0].name,
        "links": {
            "masses": model.links.inertial_mass.tolist(),
            "centers": model.links.inertial_pos.tolist(),
            "names": list(model.links.names),
            "moving": _moving_links(scene.built.model),
            "followers": _followers(scene, controls),
        },
        "dofNames": list(model.dofs.names),
        "controls": controls,
        "keyframes": _keyframes(scene),
        "policy": None,
    }


def _moving_links(model: Model) -> list[bool]:
    """Whether a joint moves each link; parents precede their children."""
    joints, result = model.joints, list[bool]()
    jointed = set(joints.link_idx[joints.dof_end > joints.dof_start].tolist())
    for link, parent in enumerate(model.links.parent_idx.tolist()):
        result.append(link in jointed or (parent >= 0 and result[parent]))
    return result


def _followers(scene: Scene, controls: Sequence[Mapping[str, Any]]) -> list[list[list[int]]]:
    """For each link, the position-controlled joints between it and the base: degree of freedom and coordinate."""
    joints, parents = scene.built.model.joints, scene.built.model.links.parent_idx.tolist()
    controlled = {control["index"] for control in controls if control["array"] == "command"}
    own: dict[int, list[list[int]]] = {}
    for link, q, q_end, dof, dof_end in zip(
        joints.link_idx.tolist(),
        joints.q_start.tolist(),
        joints.q_end.tolist(),
        joints.dof_start.tolist(),
        joints.dof_end.tolist(),
        strict=True,
    ):
        if q_end - q == dof_end - dof == 1 and dof in controlled:
            own.setdefault(link, []).append([dof, q])
    result = []
    for start in range(len(parents)):
        link, chain = start, list[list[int]]()
        while link >= 0:
            chain += own.get(link, [])
            link = parents[link]
        result.append(chain)
    return result


def _control(control: Any) -> dict[str, Any]:
    """Slider of a control input: index in the array `ctrl` or `command` of the module."""
    info = control.entity.info
    start = info.actuator_start if control.is_actuator else info.dof_start
    lower, upper = (float(x) if math.isfinite(x) else 0.0 for x in (control.lower, control.upper))
    return {
        "label": control.label,
        "array": "ctrl" if control.is_actuator else "command",
        "index": start + control.index,
        "lower": lower,
        "upper": upper,
    }


def _keyframes(scene: Scene) -> dict[str, dict[str, list[float]]]:
    """State and inputs of each keyframe, by array; the scene is left in its present state."""
    names = list(dict.fromkeys(name for entity in scene.entities for name in entity.keyframe_names))[:MAX_KEYFRAMES]
    if not names:
        return {}
    engine, present, result = scene.built.engine, scene.get_state(), {}
    for name in names:
        scene.reset(keyframe=name)
        result[name] = {
            array: np.asarray(engine.read_array(array)[:, 0], float).tolist()
            for array in ("qpos", "vel", "act", "ctrl")
            if engine.has_array(array) and len(engine.read_array(array))
        }
    scene.set_state(present)
    return result


# ---------------------------------------------------------------------------------------------------------------- files


def _write_site(
    folder: Path, settings: dict[str, Any], module: bytes, visuals: bytes, diagnostics: Diagnostics
) -> PublishedSite:
    """Write all files of the site."""
    embedded = {
        name: base64.b64encode(content).decode() for name, content in (("robot.wasm", module), ("robot.glb", visuals))
    }
    script = LIBRARY_SCRIPT.read_text(encoding="utf-8") + (PAGE / "page.js").read_text(encoding="utf-8")
    contents: dict[str, tuple[str, bytes]] = {
        "page": ("index.html", _page(settings).encode()),
        "script": ("page.js", script.encode()),
        "three.js": ("three.min.js", (PAGE / "three.min.js").read_bytes()),
        "license": ("three.LICENSE", (PAGE / "three.LICENSE").read_bytes()),
        "module": ("robot.wasm", module),
        "visuals": ("robot.glb", visuals),
        "embedded": ("embedded.js", f"window.kinemaFiles = {json.dumps(embedded)};\n".encode()),
    }
    files = {kind: folder / name for kind, (name, _) in contents.items()}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for kind, (_, content) in contents.items():
            files[kind].write_bytes(content)
    except OSError as error:
        raise KinemaError(f"{folder}: cannot be written: {error.strerror or error}") from None
    return PublishedSite(files, diagnostics)


def _page(settings: dict[str, Any]) -> str:
    """Text of the page with its settings."""
    text = (PAGE / "index.html").read_text(encoding="utf-8")
    values = {"TITLE": escape(settings["title"]), "SETTINGS": json.dumps(settings).replace("</", "<\\/")}
    return re.sub(r"@(TITLE|SETTINGS)@", lambda match: values[match.group(1)], text)
