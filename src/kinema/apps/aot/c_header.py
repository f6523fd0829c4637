"""C header of a compiled library, valid as C99 and C++: constants, structs, names and functions with comments."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from math import inf

from .interface import Function, Interface, JointRange, Parameter, Struct

LINE_LENGTH = 110


def c_header(interface: Interface) -> str:
    """Text of the header file."""
    guard = f"{interface.prefix}_H"
    parts = [
        _comment([f"{interface.name}: compiled by Kinema.", *interface.notes]),
        f'#ifndef {guard}\n#define {guard}\n\n#include <stdint.h>\n\n#ifdef __cplusplus\nextern "C" {{\n#endif',
        f"typedef {interface.scalar} {interface.name}_scalar;",
        _constants(interface),
        *([_joint_table(interface.joints)] if interface.joints else []),
        *(_enumeration(interface, table.name, table.identifiers) for table in interface.name_tables if table.names),
        _exported_constants(interface),
        *(_struct(interface, struct) for struct in interface.structs),
        *_initial_values(interface),
        *(_function(interface, function) for function in interface.functions),
        "#ifdef __cplusplus\n}\n#endif\n\n#endif",
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _comment(paragraphs: Sequence[str], indent: str = "") -> str:
    """Block comment of wrapped paragraphs."""
    lines: list[str] = []
    for paragraph in paragraphs:
        text = plain_text(paragraph)
        lines += textwrap.wrap(text, LINE_LENGTH - len(indent) - 3, break_on_hyphens=False) or [""]
    if len(lines) == 1:
        return f"{indent}/* {lines[0]} */"
    return "\n".join([f"{indent}/* {lines[0]}", *(f"{indent}   {line}" for line in lines[1:])]) + " */"


def plain_text(text: str) -> str:
    """Text without line ends and without the end of a C comment; names in files can contain both."""
    return " ".join(text.replace("*/", "* /").replace("/*", "/ *").replace("\\", "/").split())


def _constants(interface: Interface) -> str:
    lines = []
    for name, (value, comment) in interface.constants.items():
        literal = f"{value}" if isinstance(value, int) else f"{value!r}"
        lines.append(f"#define {interface.prefix}_{name} {literal} /* {plain_text(comment)} */")
    return "\n".join(lines)


def _joint_table(joints: Sequence[JointRange]) -> str:
    """Comment that lists the ranges of coordinates and degrees of freedom of all joints."""
    lines = ["/* Joints: coordinates q, degrees of freedom v, limits [m, rad]."]
    for joint in joints:
        ranges = f"q {_range(joint.q_start, joint.q_end)}, v {_range(joint.v_start, joint.v_end)}"
        limits = ", ".join(
            f"{lower:.6g} to {upper:.6g}" for lower, upper in joint.limits if lower > -inf or upper < inf
        )
        lines.append(
            f"   {ranges}: {plain_text(joint.name)} ({plain_text(joint.kind)}), moves {plain_text(joint.link)}"
            + (f", limits {limits}" if limits else "")
        )
    return "\n".join(lines) + " */"


def _range(start: int, end: int) -> str:
    return str(start) if end == start + 1 else f"{start} to {end - 1}" if end > start else "none"


def _enumeration(interface: Interface, kind: str, identifiers: Sequence[str]) -> str:
    """Enumeration of the indices of named objects."""
    prefix = f"{interface.prefix}_{kind.upper()}"
    members = ",\n".join(f"    {prefix}_{identifier} = {i}" for i, identifier in enumerate(identifiers))
    return f"enum {interface.name}_{kind} {{\n{members}\n}};"


def _exported_constants(interface: Interface) -> str:
    """Declarations of the exported arrays of names and numbers."""
    lines = [
        f"extern const char {interface.name}_{table.name}_names[{len(table.names)}][{table.width}];"
        for table in interface.name_tables
        if table.names
    ]
    for member, _ in interface.tables:
        if member.size:
            lines.append(_comment([member.comment]))
            lines.append(
                f"extern const {interface.name}_scalar {interface.name}_{member.name}{dimensions(member.shape)};"
            )
    return "\n".join(lines)


def dimensions(shape: Sequence[int]) -> str:
    """Dimensions of an array declaration; one element for a scalar."""
    return "".join(f"[{n}]" for n in shape) or "[1]"


def _struct(interface: Interface, struct: Struct) -> str:
    n_bytes = struct.size * interface.scalar_bytes
    lines = [_comment([f"{struct.comment} {n_bytes} bytes."]), f"typedef struct {interface.name}_{struct.name} {{"]
    for member in struct.fields:
        lines.append(_comment([member.comment], "    "))
        lines.append(f"    {interface.name}_scalar {member.name}{dimensions(member.shape)};")
    if not struct.fields:
        lines.append(f"    {interface.name}_scalar unused[1];")
    return "\n".join([*lines, f"}} {interface.name}_{struct.name};"])


def _initial_values(interface: Interface) -> list[str]:
    """Declarations of the initial state and control."""
    name = interface.name
    return [
        _comment([f"Initial {struct.name}: copy it to a variable."])
        + f"\nextern const {name}_{struct.name} {name}_initial_{struct.name};"
        for struct in interface.structs
        if struct.name in ("state", "control")
    ]


def _function(interface: Interface, function: Function) -> str:
    parameters = ", ".join(c_parameter(interface, parameter) for parameter in function.parameters)
    comments = [function.comment]
    if sum(parameter.kind != "int" for parameter in function.parameters) > 1:
        comments.append("Arguments must not overlap in memory.")
    if function.name in interface.stack_bytes:
        comments.append(f"Stack: at most {interface.stack_bytes[function.name]} bytes.")
    return f"{_comment([' '.join(comments)])}\nvoid {interface.name}_{function.name}({parameters});"


def c_parameter(interface: Interface, parameter: Parameter) -> str:
    """Declaration of a parameter."""
    if parameter.kind == "int":
        return f"int32_t {parameter.name}"
    if parameter.kind == "array":
        scalar = f"{interface.name}_scalar" if parameter.is_output else f"const {interface.name}_scalar"
        return f"{scalar} {parameter.name}{dimensions(parameter.shape)}"
    const = "" if parameter.is_output else "const "
    return f"{const}{interface.name}_{parameter.kind} *{parameter.name}"
