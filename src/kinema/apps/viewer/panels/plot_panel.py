"""Live plots of any quantity of the simulation: joints, contact forces, sensors, and all fields."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np

from kinema.core import Array, KinemaError
from kinema.dynamics import NAMESPACES
from kinema.scene import Entity, Scene

from ..displayed_model import DisplayedModel, ElementRef, to_numpy
from ..simulation import SimulationPlayer

# ---------------------------------------------------------------------------------------------------------- quantities

OFF = "off"
_DOF_GETTERS = {
    "positions": "get_dofs_position",
    "velocities": "get_dofs_velocity",
    "control forces": "get_dofs_control_force",
    "constraint forces": "get_dofs_constraint_force",
}
_UNITS = {"positions": "rad, m", "velocities": "rad/s, m/s", "energy": "J"}
_LINK_GETTERS = {"link position": "get_links_pos", "link velocity": "get_links_vel"}
_CONTACT_FORCE, _ENERGY, _SENSOR_PREFIX = "contact force", "energy", "sensor "
_UNITS |= {"link position": "m", "link velocity": "m/s", _CONTACT_FORCE: "N"}
_FIELDS = {f"{namespace}.{info.name}": info for namespace, infos in NAMESPACES.items() for info in infos}
_COMPONENTS = "xyz"
_MAX_VALUES = 64
"""Values of a quantity that are labelled at most."""


def quantity_names(scene: Scene | None) -> list[str]:
    """Names of all quantities that can be plotted: common ones, sensors of a built scene, and all fields."""
    sensors = [] if scene is None else [f"{_SENSOR_PREFIX}{name}" for name in scene.sensors.names]
    return [OFF, *_DOF_GETTERS, *_LINK_GETTERS, _CONTACT_FORCE, _ENERGY, *sensors, *_FIELDS]


def quantity_unit(quantity: str) -> str:
    """Unit of a quantity; empty if it depends on the item."""
    info = _FIELDS.get(quantity)
    return info.unit if info is not None else _UNITS.get(quantity, "N, N m" if quantity in _DOF_GETTERS else "")


def read_quantity(
    scene: Scene, entities: list[Entity], quantity: str, env: int, selected: tuple[Entity, str, str] | None = None
) -> tuple[list[str], Array]:
    """Labels and current values of a quantity in one environment, vectors by components.

    Args:
        scene: built scene.
        entities: entities whose joints and links are read.
        quantity: one of `quantity_names`.
        env: index of the environment.
        selected: entity, `link` or `joint`, and name of the element to which quantities of links or joints are
            restricted; None for all.
    """
    if quantity == _ENERGY:
        kinetic, potential = (float(x[env]) for x in scene.get_energy())
        return ["kinetic", "potential", "both"], np.array([kinetic, potential, kinetic + potential])
    if quantity.startswith(_SENSOR_PREFIX):
        values = np.asarray(scene.sensors[quantity.removeprefix(_SENSOR_PREFIX)].read())[env]
        return _labelled([quantity.removeprefix(_SENSOR_PREFIX)], np.atleast_1d(values)[None])
    if quantity in _FIELDS:
        return _read_field(scene, entities, quantity, env, selected)
    names: list[str] = []
    rows: list[Array] = []
    for entity in entities:
        kind = "joint" if quantity in _DOF_GETTERS else "link"
        items = _selected_items(entity, kind, selected)
        if items:
            names += [(entity.dof_names if kind == "joint" else [x.name for x in entity.links])[i] for i in items]
            rows.append(_read_items(entity, quantity, items, env))
    return _labelled(names, np.concatenate(rows)) if rows else ([], np.zeros(0))


def _read_items(entity: Entity, quantity: str, items: list[int], env: int) -> Array:
    """Values of a quantity of joints or links of an entity, (items, ...)."""
    if quantity == _CONTACT_FORCE:
        return to_numpy(entity.get_links_net_contact_force([env]))[0, items]
    getter = getattr(entity, (_DOF_GETTERS | _LINK_GETTERS)[quantity])
    return to_numpy(getter(items, [env]))[0]


def _selected_items(entity: Entity, kind: str, selected: tuple[Entity, str, str] | None) -> list[int]:
    """Indices within the entity: dofs of the selected joint, the selected link, or all if nothing of this kind is."""
    if selected is not None and selected[1] == kind:
        if selected[0] is not entity:
            return []
        if kind == "joint":
            return [dof for joint in entity.joints if joint.name == selected[2] for dof in joint.dofs_idx]
        return [i for i, link in enumerate(entity.links) if link.name == selected[2]]
    return list(range(entity.n_dofs if kind == "joint" else entity.n_links))


def _read_field(
    scene: Scene, entities: list[Entity], quantity: str, env: int, selected: tuple[Entity, str, str] | None
) -> tuple[list[str], Array]:
    namespace, _, name = quantity.partition(".")
    field = getattr(getattr(scene.built.engine.fields, namespace), name)
    values = np.asarray(np.take(field.numpy(), env, axis=field.env_axis), dtype=np.float64)
    if namespace not in ("links_state", "dofs_state"):
        return _labelled([name], values[None]) if values.ndim == 0 else _numbered(name, values)
    names, rows = [], []
    for entity in entities:
        of_links = namespace == "links_state"
        start = entity.info.link_start if of_links else entity.info.dof_start
        labels = [x.name for x in entity.links] if of_links else entity.dof_names
        for i in _selected_items(entity, "link" if of_links else "joint", selected):
            names.append(labels[i])
            rows.append(values[start + i])
    return _labelled(names, np.array(rows)) if rows else ([], np.zeros(0))


def _labelled(names: list[str], values: Array) -> tuple[list[str], Array]:
    """Labels of all components of items, and their values in one row; values is (items, ...)."""
    rows = np.asarray(values, np.float64).reshape(len(names), -1)
    count = rows.shape[1]
    suffixes = (
        [""] if count == 1 else [f".{c}" for c in _COMPONENTS] if count == 3 else [f"[{i}]" for i in range(count)]
    )
    labels = [f"{name}{suffix}" for name in names for suffix in suffixes]
    return labels[:_MAX_VALUES], rows.ravel()[:_MAX_VALUES]


def _numbered(name: str, values: Array) -> tuple[list[str], Array]:
    return _labelled([f"{name}[{i}]" for i in range(len(values))], values)


# ---------------------------------------------------------------------------------------------------------------- plot

_MAX_LINES = 8
"""Lines at once."""
_MAX_POINTS = 400
"""Points of each."""
_DRAW_INTERVAL = 0.2
"""Time between two drawings of the plot [s]; samples are taken at every frame."""
_LINE_COLORS = ("#2662a0", "#e8590c", "#2b8a3e", "#c2255c", "#5f3dc4", "#0b7285", "#846a00", "#868e96")
_HINT = "of the selected joint or link, else of the first ones; type to search"


class PlotPanel:
    """Live plot of any quantity, of the selected joint or link, or of the first ones."""

    def __init__(
        self,
        gui: Any,
        player: SimulationPlayer,
        models: list[DisplayedModel],
        before_compiling: Callable[[], None],
        notify: Callable[[str], None],
    ) -> None:
        self._gui, self._player, self._models, self._notify = gui, player, models, notify
        self._lock = threading.Lock()
        """Held by whoever draws the plot or takes it away: visitors choose while it plays."""
        self._quantity = OFF
        self._scene: Scene | None = player.scene
        self._choice = gui.add_dropdown("Plot", quantity_names(player.scene), initial_value=OFF, hint=_HINT)
        self._only_norm = gui.add_checkbox("Norm of vectors", initial_value=False)
        save = gui.add_button("Save the plotted values", hint="as CSV")
        self._selected: ElementRef | None = None
        self._plot: Any = None
        self._rows: deque[list[float]] = deque(maxlen=_MAX_POINTS)
        self._labels: list[str] = []
        self._drawn_at = 0.0
        self._folder = gui.add_folder(None)

        def chosen(_: Any) -> None:
            before_compiling()  # the program of a field, when it is read for the first time
            self._clear_plot(self._choice.value, self._selected)

        def saved(event: Any) -> None:
            if event.client is not None:
                event.client.send_file_download("kinema.csv", self.csv().encode(), save_immediately=True)

        self._choice.on_update(chosen)
        self._only_norm.on_update(lambda _: self._clear_plot(self._quantity, self._selected))
        save.on_click(saved)

    def select_element(self, element: ElementRef | None) -> None:
        """Plot the selected joint or link only; all for no element."""
        if element != self._selected:
            self._clear_plot(self._quantity, element)

    def csv(self) -> str:
        """The plotted values as CSV: time [s], and one column per line."""
        with self._lock:
            header = ",".join(["time", *(f'"{label}"' for label in self._labels)])
            return "\n".join([header, *(",".join(f"{x:.9g}" for x in row) for row in self._rows)]) + "\n"

    def _clear_plot(self, quantity: str, selected: ElementRef | None) -> None:
        """Replace the plot by an empty one."""
        with self._lock:
            self._quantity, self._selected = quantity, selected
            self._clear_rows()

    def _clear_rows(self) -> None:
        self._rows.clear()
        self._labels, self._drawn_at = [], 0.0
        if self._plot is not None:
            self._plot.remove()
            self._plot = None

    def sample(self, env: int) -> None:
        """Append one sample, and redraw the plot some times a second."""
        with self._lock:
            scene = self._player.scene
            if scene is not self._scene:
                self._scene = scene
                self._choice.options = tuple(quantity_names(scene))
            if self._quantity == OFF or scene is None:
                return
            try:
                self._sample(scene, self._quantity, env)
            except KinemaError as error:
                self._quantity = OFF
                self._notify(str(error))

    def _sample(self, scene: Scene, quantity: str, env: int) -> None:
        labels, values = read_quantity(
            scene, self._player.control_inputs.entities, quantity, env, self._selected_element()
        )
        if self._only_norm.value and len(labels) >= 3 and labels[0].endswith(".x"):
            labels, values = [label[:-2] for label in labels[::3]], np.linalg.norm(values.reshape(-1, 3), axis=1)
        labels, values = labels[:_MAX_LINES], values[:_MAX_LINES]
        if not labels or not np.isfinite(values).all():
            return
        now = scene.time
        if labels != self._labels or (self._rows and now < self._rows[-1][0]):  # others, or it was reset
            self._clear_rows()
        if self._rows and now == self._rows[-1][0]:
            return
        self._labels = labels
        self._rows.append([now, *map(float, values)])
        if len(self._rows) > 1 and (time.perf_counter() - self._drawn_at > _DRAW_INTERVAL or not self._player.playing):
            self._drawn_at = time.perf_counter()
            self._draw(quantity)

    def _selected_element(self) -> tuple[Entity, str, str] | None:
        """Entity, kind and name of the selected joint or link."""
        element = self._selected
        entity = None if element is None else self._models[element.model_index].entity
        if element is None or entity is None:
            return None
        return entity, "joint" if element.kind == "joint" else "link", element.name

    def _draw(self, quantity: str) -> None:
        data = tuple(np.array(self._rows, dtype=np.float64).T.copy())
        if self._plot is not None:
            self._plot.data = data
            return
        series: list[dict[str, Any]] = [{"label": "time [s]"}]
        series += [{"label": x, "stroke": c, "width": 1.5} for x, c in zip(self._labels, _LINE_COLORS, strict=False)]
        unit = quantity_unit(quantity)
        with self._folder:
            self._plot = self._gui.add_uplot(
                data,
                tuple(series),
                scales={"x": {"time": False}},
                title=f"{quantity} [{unit}]" if unit else quantity,
                aspect=1.2,
            )
