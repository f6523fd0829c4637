"""Just enough of `adsk.core` and `adsk.fusion` for the add-in's button, dialog and progress bar."""

from __future__ import annotations

import types
from typing import Any

import pytest


class Event:
    def __init__(self) -> None:
        self.handlers: list[Any] = []

    def add(self, handler: Any) -> None:
        self.handlers.append(handler)

    def fire(self, args: Any) -> None:
        for handler in list(self.handlers):
            handler.notify(args)


class Definitions:
    """Command definitions, or the controls of a panel: found by id, and they can be deleted."""

    def __init__(self) -> None:
        self.known: dict[str, Any] = {}

    def itemById(self, id: str) -> Any:
        return self.known.get(id)

    def addButtonDefinition(self, id: str, name: str, tooltip: str, folder: str) -> Any:
        assert id not in self.known, "a command definition's id is unique"
        made = types.SimpleNamespace(id=id, name=name, folder=folder, commandCreated=Event())
        made.deleteMe = lambda: self.known.pop(id)
        self.known[id] = made
        return made

    def addCommand(self, definition: Any) -> None:
        id = definition.id
        self.known[id] = types.SimpleNamespace(id=id, deleteMe=lambda: self.known.pop(id))


class Input:
    def __init__(self, value: Any = None) -> None:
        self.value = value
        self.items: list[Any] = []
        self.listItems = self

    def add(self, name: str, selected: bool, icon: str) -> None:
        self.items.append(types.SimpleNamespace(name=name, selected=selected))

    @property
    def selectedItem(self) -> Any:
        return next(i for i in self.items if i.selected)


class Inputs:
    def __init__(self) -> None:
        self.known: dict[str, Input] = {}

    def addDropDownCommandInput(self, id: str, name: str, style: int) -> Input:
        self.known[id] = Input()
        return self.known[id]

    def addBoolValueInput(self, id: str, name: str, is_check_box: bool, folder: str, value: bool) -> Input:
        self.known[id] = Input(value)
        return self.known[id]

    def itemById(self, id: str) -> Input:
        return self.known[id]


class ProgressDialog:
    def __init__(self, cancel_after: int) -> None:
        self.cancel_after = cancel_after
        self.isCancelButtonShown = False
        self.showing = False
        self.steps = 0
        self.titles: list[str] = []

    def show(self, title: str, message: str, low: int, high: int, delay: int) -> None:
        assert high > low
        self.showing = True
        self.titles.append(message)

    def hide(self) -> None:
        self.showing = False

    @property
    def progressValue(self) -> int:
        return 0

    @progressValue.setter
    def progressValue(self, value: int) -> None:
        self.steps += 1

    @property
    def wasCancelled(self) -> bool:
        return self.steps > self.cancel_after


class FakeFusion:
    """The application; `folder` is what the user picks, and `messages` what they are told."""

    def __init__(self, design: Any, folder: str, cancel_after: int = 10**6) -> None:
        self.activeProduct = design
        self.version = "2.0.1"
        self.folder = folder
        self.messages: list[str] = []
        self.progress = ProgressDialog(cancel_after)
        self.panel = types.SimpleNamespace(controls=Definitions())
        self.userInterface = self
        self.commandDefinitions = Definitions()
        self.allToolbarPanels = types.SimpleNamespace(itemById={"SolidScriptsAddinsPanel": self.panel}.get)
        self.preferences = types.SimpleNamespace(generalPreferences=types.SimpleNamespace(defaultModelingOrientation=0))

    def messageBox(self, text: str, title: str = "") -> None:
        self.messages.append(text)

    def createProgressDialog(self) -> ProgressDialog:
        return self.progress

    def createFolderDialog(self) -> Any:
        return types.SimpleNamespace(showDialog=lambda: 0 if self.folder else 1, folder=self.folder, title="")

    def press(self, id: str) -> Inputs:
        """Press the command's button, then OK in its dialog."""
        command = types.SimpleNamespace(commandInputs=Inputs(), execute=Event())
        self.commandDefinitions.itemById(id).commandCreated.fire(types.SimpleNamespace(command=command))
        command.execute.fire(types.SimpleNamespace(command=command))
        return command.commandInputs

    def install(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Make `import adsk.core` give this application."""
        adsk, core, fusion = (types.ModuleType(n) for n in ("adsk", "adsk.core", "adsk.fusion"))
        core.Application = types.SimpleNamespace(get=lambda: self)  # type: ignore[attr-defined]
        core.CommandCreatedEventHandler = core.CommandEventHandler = object  # type: ignore[attr-defined]
        core.DropDownStyles = types.SimpleNamespace(TextListDropDownStyle=1)  # type: ignore[attr-defined]
        core.DialogResults = types.SimpleNamespace(DialogOK=0)  # type: ignore[attr-defined]
        core.DefaultModelingOrientations = types.SimpleNamespace(YUpModelingOrientation=0)  # type: ignore[attr-defined]
        fusion.Design = types.SimpleNamespace(cast=lambda product: product)  # type: ignore[attr-defined]
        adsk.core, adsk.fusion, adsk.doEvents = core, fusion, lambda: None  # type: ignore[attr-defined]
        for module in (adsk, core, fusion):
            monkeypatch.setitem(__import__("sys").modules, module.__name__, module)
