"""Python loader of a compiled library: a module of its own that needs only ctypes and NumPy, not Kinema."""

from __future__ import annotations

import re
from pprint import pformat
from typing import Any

from .interface import Function, Interface

TEMPLATE = '''"""Loader of the library @NAME@ compiled by Kinema: functions on NumPy arrays, and simulations.

Functions take arrays and return new ones; `Simulation` has `state` and `control` with the arrays of the C structs as
attributes, `step` and `observe`. State files are those of `kinema.SceneState`.
"""

import ctypes
import pathlib

import numpy as np

FOLDER = pathlib.Path(__file__).resolve().parent
SCALAR, DTYPE = ctypes.@SCALAR_TYPE@, np.@DTYPE_NAME@
LIBRARY = ctypes.CDLL(str(FOLDER / "lib@NAME@.so"))

CONSTANTS = @CONSTANT_VALUES@
NAMES = @NAME_VALUES@
JOINTS = @JOINT_VALUES@
STRUCTS = @STRUCT_VALUES@
FUNCTIONS = @FUNCTION_VALUES@
STATE_FILE = "@STATE_NAME@"


def _exported(symbol, shape):
    """Copy of an exported array of scalars."""
    count = int(np.prod(shape))
    return np.array((SCALAR * count).in_dll(LIBRARY, "@NAME@_" + symbol), DTYPE).reshape(shape)


TABLES = {name: _exported(name, shape) for name, shape in @TABLE_SHAPES@.items() if np.prod(shape)}


def _function(name, parameters):
    """Python function of an exported function of arrays: takes its inputs, returns its outputs."""
    compiled = getattr(LIBRARY, "@NAME@_" + name)
    compiled.restype = None
    compiled.argtypes = [ctypes.c_int32 if parameter[1] == "int" else ctypes.c_void_p for parameter in parameters]
    inputs = [parameter for parameter in parameters if parameter[4]]

    def call(*values):
        if len(values) != len(inputs):
            raise TypeError(f"{name}: expected {', '.join(p[0] for p in inputs)}, not {len(values)} arguments")
        given = iter(values)
        arguments, outputs, kept = [], [], []
        for label, kind, shape, is_output, is_input in parameters:
            if kind == "int":
                arguments.append(int(next(given)))
                continue
            array = np.array(next(given), DTYPE, order="C") if is_input else np.full(shape, np.nan, DTYPE)
            if array.shape != tuple(shape):
                raise ValueError(f"{name}: {label} has the shape {array.shape}, not {tuple(shape)}")
            if is_output:
                outputs.append(array)
            kept.append(array)
            arguments.append(array.ctypes.data)
        compiled(*arguments)
        return outputs[0] if len(outputs) == 1 else tuple(outputs)

    call.__name__ = name
    return call


for _name, _parameters in FUNCTIONS.items():
    globals()[_name] = _function(_name, _parameters)


class Struct:
    """Memory of a C struct; its members are attributes, NumPy arrays that share the memory."""

    def __init__(self, name, initial=None):
        members = STRUCTS[name]
        size = sum(int(np.prod(shape)) for _, shape, _ in members)
        self._data = np.zeros(max(size, 1), DTYPE) if initial is None else _exported(initial, (max(size, 1),))
        self._members = {}
        start = 0
        for member, shape, source in members:
            count = int(np.prod(shape))
            self._members[source or member] = self._data[start : start + count]
            setattr(self, member, self._data[start : start + count].reshape(shape))
            start += count

    @property
    def data(self):
        """All scalars of the struct, in memory order."""
        return self._data

    @property
    def address(self):
        """Address of the struct."""
        return self._data.ctypes.data


class Simulation:
    """A simulation of its own: state, inputs and working memory."""

    def __init__(self):
        self.reset()
        self._workspace = Struct("workspace")
        self._observation = Struct("observation")
        for name, count in (("step", 4), ("observe", 4)):
            compiled = getattr(LIBRARY, "@NAME@_" + name)
            kinds = [ctypes.c_void_p] * count
            if name == "step":
                kinds[2] = ctypes.c_int32
            compiled.argtypes, compiled.restype = kinds, None

    def reset(self):
        """Set state and inputs to their initial values."""
        self.state = Struct("state", "initial_state")
        self.control = Struct("control", "initial_control")
        self.n_steps, self.time = 0, 0.0

    def step(self, n=1):
        """Advance by n steps."""
        n = max(int(n), 0)
        LIBRARY.@NAME@_step(self.state.address, self.control.address, n, self._workspace.address)
        self.n_steps += n
        self.time += n * CONSTANTS["DT"]

    def observe(self):
        """Observation of the present state; its arrays change with the next call."""
        arguments = (self.state, self.control, self._observation, self._workspace)
        LIBRARY.@NAME@_observe(*(struct.address for struct in arguments))
        return self._observation

    def save(self, path):
        """Write a state file that `Scene.set_state(SceneState.load(path))` continues from."""
        arrays = _read_state(FOLDER / STATE_FILE)
        header = [str(x) for x in arrays.pop("about")]
        substep = float.fromhex(header[5])
        header[3] = str(int(header[3]) + round(self.n_steps * CONSTANTS["DT"] / substep))
        header[4] = float(float.fromhex(header[4]) + self.time).hex()
        for struct in (self.state, self.control):
            for name, values in struct._members.items():
                if name in arrays:
                    arrays[name] = values[:, None].copy()
        np.savez(path, about=np.array(header), **arrays)

    def load(self, path):
        """Continue from a state file of `SceneState.save` or `save`, of the same model and control modes."""
        arrays, own = _read_state(path), _read_state(FOLDER / STATE_FILE)
        if str(arrays["about"][1]) != str(own["about"][1]):
            raise ValueError(f"{path}: the state of another model")
        for name, values in arrays.items():
            fixed = name.startswith("shared ") or name.startswith("control ")
            if fixed and name != "shared clock" and not np.array_equal(values, own[name]):
                raise ValueError(f"{path}: {name.partition(' ')[2]} differs from the value that is compiled in")
        for struct in (self.state, self.control):
            for name, target in struct._members.items():
                if name in arrays:
                    target[:] = arrays[name][:, 0]
        substeps = int(arrays["about"][3]) - int(own["about"][3])
        self.n_steps = round(substeps * float.fromhex(str(own["about"][5])) / CONSTANTS["DT"])
        self.time = float.fromhex(str(arrays["about"][4])) - float.fromhex(str(own["about"][4]))


def _read_state(path):
    with np.load(path, allow_pickle=False) as file:
        return {name: file[name] for name in file.files}
'''


def python_loader(interface: Interface, state_file: str) -> str:
    """Text of the Python module.

    Args:
        interface: interface of the library.
        state_file: name of the file of the initial state; empty without simulation.
    """
    template = TEMPLATE if interface.has_simulation else TEMPLATE[: TEMPLATE.index("class Struct:")].rstrip() + "\n"
    values: dict[str, Any] = {
        "CONSTANT_VALUES": {name: value for name, (value, _) in interface.constants.items()},
        "NAME_VALUES": {table.name: list(table.names) for table in interface.name_tables},
        "JOINT_VALUES": {
            joint.name: {"q": (joint.q_start, joint.q_end), "v": (joint.v_start, joint.v_end)}
            for joint in interface.joints
        },
        "STRUCT_VALUES": {
            struct.name: [(field.name, field.shape, field.source) for field in struct.fields]
            for struct in interface.structs
        },
        "FUNCTION_VALUES": {
            function.name: _parameters(function) for function in interface.functions if function.takes_arrays_only
        },
        "TABLE_SHAPES": {field.name: field.shape for field, _ in interface.tables},
    }
    replacements = {
        "STATE_NAME": state_file,
        "SCALAR_TYPE": f"c_{interface.scalar}",
        "DTYPE_NAME": "float32" if interface.precision == "single" else "float64",
        "NAME": interface.name,
    }
    replacements |= {name: pformat(value, width=110, sort_dicts=False) for name, value in values.items()}
    return re.sub(r"@(\w+)@", lambda match: replacements[match.group(1)], template)


def _parameters(function: Function) -> list[tuple[str, str, tuple[int, ...], bool, bool]]:
    return [(p.name, p.kind, p.shape, p.is_output, p.is_input) for p in function.parameters]
