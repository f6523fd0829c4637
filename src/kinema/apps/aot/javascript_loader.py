"""JavaScript loader of a library compiled to WebAssembly: an ES module for browsers and Node."""

from __future__ import annotations

import json
from math import prod
from pathlib import Path
from typing import Any

from .interface import Field, Function, Interface

LIBRARY_SCRIPT = Path(__file__).with_name("wasm_library.js")
"""Classes `KinemaLibrary` and `KinemaSimulation`, which work on any module by its description."""

TEMPLATE = """/* Loader of @NAME@.wasm, compiled by Kinema: `const @NAME@ = await load()` has the functions of @NAME@.h
   as methods, `constants`, `names`, `joints`, `tables`, and `createSimulation()`. */

const description = @DESCRIPTION@;

@LIBRARY@
/* Library from the module beside this file, from another address, or from bytes. */
export async function load(source = new URL("@NAME@.wasm", import.meta.url)) {
  if (source instanceof ArrayBuffer || ArrayBuffer.isView(source)) {
    return new KinemaLibrary((await WebAssembly.instantiate(source, {})).instance, description);
  }
  if (source.protocol === "file:" && typeof process !== "undefined") {
    const { readFile } = await import("node:fs/promises");
    return load(await readFile(source));
  }
  return load(await (await fetch(source)).arrayBuffer());
}
"""


def javascript_loader(interface: Interface) -> str:
    """Text of the ES module."""
    return (
        TEMPLATE.replace("@NAME@", interface.name)
        .replace("@DESCRIPTION@", json.dumps(interface_description(interface)))
        .replace("@LIBRARY@", LIBRARY_SCRIPT.read_text(encoding="utf-8"))
    )


def interface_description(interface: Interface) -> dict[str, Any]:
    """Description of the interface as JSON values, for `KinemaLibrary`."""
    return {
        "name": interface.name,
        "precision": interface.precision,
        "constants": {name: value for name, (value, _) in interface.constants.items()},
        "names": {table.name: list(table.names) for table in interface.name_tables},
        "joints": {
            joint.name: {"q": [joint.q_start, joint.q_end], "v": [joint.v_start, joint.v_end]}
            for joint in interface.joints
        },
        "tables": {field.name: field.size for field, _ in interface.tables if field.size},
        "structs": {struct.name: [_member(field) for field in struct.fields] for struct in interface.structs},
        "functions": {
            function.name: _parameters(function) for function in interface.functions if function.takes_arrays_only
        },
    }


def _member(field: Field) -> dict[str, Any]:
    return {"name": field.name, "count": field.size}


def _parameters(function: Function) -> list[dict[str, Any]]:
    return [
        {
            "name": parameter.name,
            "kind": parameter.kind,
            "count": prod(parameter.shape),
            "input": parameter.is_input,
            "output": parameter.is_output,
        }
        for parameter in function.parameters
    ]
