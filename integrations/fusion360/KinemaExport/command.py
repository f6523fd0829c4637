"""The command's button, dialog, progress bar and message boxes; the work itself is in `exporter`."""

from __future__ import annotations

import os
import traceback
from typing import Any, Callable

import adsk.core
import adsk.fusion

from .exporter.errors import Cancelled, ExportError
from .exporter.run import Options, Progress, export

COMMAND_ID = "kinemaExportSnapshot"
NAME = "Kinema: export snapshot"
TOOLTIP = "Write the assembly's parts, masses, joints and meshes for Kinema, and check every joint."
PANELS = ("SolidScriptsAddinsPanel", "ToolsUtilitiesPanel")
"""Where the button goes: the first of these that there is."""
RESOURCES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "resources")

QUALITIES = {"coarse": 8, "normal": 11, "fine": 13, "very fine": 15}
"""What the dialog offers, and the numbers of adsk.fusion.TriangleMeshQualityOptions."""

_handlers: list[Any] = []
"""Fusion does not keep event handlers alive."""


def guarded(work: Callable[[], None]) -> None:
    """Do something, and show whatever goes wrong: an exception would otherwise vanish."""
    ui = None
    try:
        ui = adsk.core.Application.get().userInterface
        work()
    except Exception:
        if ui:
            ui.messageBox(f"{NAME} failed. Nothing was written.\n\n{traceback.format_exc()}", NAME)


def start() -> None:
    """Make the button."""
    ui = adsk.core.Application.get().userInterface
    stop()  # what a crash left behind
    definition = ui.commandDefinitions.addButtonDefinition(COMMAND_ID, NAME, TOOLTIP, RESOURCES)
    handler = CreatedHandler()
    definition.commandCreated.add(handler)
    _handlers.append(handler)
    panel = next((p for p in map(ui.allToolbarPanels.itemById, PANELS) if p), None)
    if panel is None:
        raise RuntimeError("there is no toolbar panel for add-ins")
    panel.controls.addCommand(definition)


def stop() -> None:
    """Take the button away."""
    ui = adsk.core.Application.get().userInterface
    for panel in filter(None, map(ui.allToolbarPanels.itemById, PANELS)):
        control = panel.controls.itemById(COMMAND_ID)
        if control:
            control.deleteMe()
    definition = ui.commandDefinitions.itemById(COMMAND_ID)
    if definition:
        definition.deleteMe()
    _handlers.clear()


class CreatedHandler(adsk.core.CommandCreatedEventHandler):
    """The button was pressed: fill the dialog."""

    def notify(self, args: Any) -> None:
        """Called by Fusion."""
        guarded(lambda: self._fill(args.command))

    def _fill(self, command: Any) -> None:
        command.isExecutedWhenPreEmpted = False
        inputs = command.commandInputs
        style = adsk.core.DropDownStyles.TextListDropDownStyle
        quality = inputs.addDropDownCommandInput("quality", "Meshes", style)
        for name in QUALITIES:
            quality.listItems.add(name, name == "normal", "")
        up = inputs.addDropDownCommandInput("up", "Up is", style)
        preferred = preferred_up()
        for axis in ("z", "y"):
            up.listItems.add(axis, axis == preferred, "")
        inputs.addBoolValueInput("probe", "Check joints by moving them", True, "", True)
        handler = ExecuteHandler()
        command.execute.add(handler)
        _handlers.append(handler)


class ExecuteHandler(adsk.core.CommandEventHandler):
    """OK was pressed: export."""

    def notify(self, args: Any) -> None:
        """Called by Fusion."""
        guarded(lambda: self._export(args.command.commandInputs))

    def _export(self, inputs: Any) -> None:
        app = adsk.core.Application.get()
        design = adsk.fusion.Design.cast(app.activeProduct)
        if not design:
            app.userInterface.messageBox("Open a design first.", NAME)
            return
        folder = ask_folder(app.userInterface)
        if folder:
            options = Options(
                quality=QUALITIES[inputs.itemById("quality").selectedItem.name],
                probe=inputs.itemById("probe").value,
                up=inputs.itemById("up").selectedItem.name,
                program_version=app.version,
            )
            run_export(app, design, folder, options)


def run_export(app: Any, design: Any, folder: str, options: Options) -> None:
    """Export with a progress bar, and say how it went."""
    ui = app.userInterface
    dialog = ui.createProgressDialog()
    dialog.isCancelButtonShown = True
    try:
        result = export(design, folder, options, DialogProgress(dialog))
    except Cancelled:
        ui.messageBox("Cancelled. Nothing was written.", NAME)
        return
    except ExportError as error:
        ui.messageBox(f"{error}\n\nNothing was written.", NAME)
        return
    finally:
        dialog.hide()
    notes = "".join(f"\n- {note}" for note in result.notes[:20])
    more = f"\n... and {len(result.notes) - 20} more, in the snapshot." if len(result.notes) > 20 else ""
    what = f"{result.n_occurrences} parts, {result.n_joints} joints, {result.n_meshes} meshes:\n{result.folder}"
    ui.messageBox(what + (f"\n\nTo look at:{notes}{more}" if notes else ""), NAME)


def ask_folder(ui: Any) -> str:
    """The folder to write into; empty where the user changes their mind."""
    dialog = ui.createFolderDialog()
    dialog.title = "Folder for the snapshot"
    if dialog.showDialog() != adsk.core.DialogResults.DialogOK:
        return ""
    return dialog.folder


def preferred_up() -> str:
    """The up axis of the user's preferences."""
    preferences = adsk.core.Application.get().preferences.generalPreferences
    y_up = adsk.core.DefaultModelingOrientations.YUpModelingOrientation
    return "y" if preferences.defaultModelingOrientation == y_up else "z"


class DialogProgress(Progress):
    """A progress bar with a button to cancel."""

    def __init__(self, dialog: Any) -> None:
        self.dialog = dialog

    def begin(self, title: str, steps: int) -> None:
        """A stage of the work begins."""
        self.dialog.hide()
        self.dialog.show(NAME, f"{title} %v of %m", 0, max(steps, 1), 0)

    def step(self, done: int) -> None:
        """So many steps of the stage are done."""
        self.dialog.progressValue = done
        adsk.doEvents()
        if self.dialog.wasCancelled:
            raise Cancelled
