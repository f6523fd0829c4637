"""Expands one xacro file, in a process of its own that opens no files. See `xacro_expand` for why and how.

This file is run as a script: it uses the standard library and xacro, and nothing of Kinema. It speaks in lines of JSON:
the request comes on the standard input, questions and the result go to the standard output.
"""

from __future__ import annotations

import contextlib
import errno
import importlib.util
import io
import json
import os
import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

_MARK = "kinema-line"
"""The attribute that says where an element stands, as in `xacro_lines`."""
_EXPRESSIONS = Path(__file__).with_name("xacro_expression.py")
_MAX_INCLUDE_DEPTH = 50
_REFUSED_EVENTS = ("open", "import", "exec", "os.", "subprocess.", "socket.", "ctypes.", "shutil.", "mmap.", "code.")
_REFUSED_FUNCTIONS = ("vars", "type")
"""What xacro offers in expressions that would lead out of them."""


# -- the library, made harmless -----------------------------------------------------------------------------------


class _Parent:
    """The process that started this one: it alone finds and reads files."""

    def __init__(self, received: Any, sent: Any) -> None:
        self.received, self.sent = received, sent

    def say(self, message: dict[str, Any]) -> None:
        self.sent.write(json.dumps(message, ensure_ascii=False) + "\n")
        self.sent.flush()

    def hear(self) -> dict[str, Any]:
        return json.loads(self.received.readline())

    def ask(self, what: str, name: object, asker: object, **more: Any) -> dict[str, Any]:
        self.say({"ask": what, "name": str(name), "from": str(asker), **more})
        return self.hear()


def _load_evaluate() -> Callable[..., Any]:
    """The function `evaluate` of the file beside this one, without importing the package they belong to."""
    spec = importlib.util.spec_from_file_location("xacro_expression", _EXPRESSIONS)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.evaluate


def _confine(xacro: Any, parent: _Parent, warnings: list[str]) -> None:
    """Take from xacro all it could do beside expanding macros."""
    from xacro import substitution_args

    evaluate = _load_evaluate()

    # where the library has changed so that these are not what it calls, it must not run
    for module, names in (
        (xacro, "safe_eval glob warning error message print_location create_global_symbols _global_symbols filestack"),
        (substitution_args, "_eval _eval_find _eval_dict convert_value _eval_arg"),
    ):
        for name in names.split():
            if not hasattr(module, name):
                raise RuntimeError(f"this version of the package 'xacro' is not supported (it has no {name})")

    def find(package: str) -> str:
        answer = parent.ask("package", package, xacro.filestack[-1])
        if "path" not in answer:
            raise substitution_args.SubstitutionException(answer["error"])
        return answer["path"]

    def open_text(name: str, *_: object) -> io.StringIO:
        depth = len(xacro.filestack)
        if depth > _MAX_INCLUDE_DEPTH:
            raise xacro.XacroException(
                f"includes are nested more than {_MAX_INCLUDE_DEPTH} deep: do they form a circle?"
            )
        # while a file is included it is itself the last on the stack, and the one before asks for it; not so for YAML
        is_include = depth > 1 and xacro.filestack[-1] == name
        answer = parent.ask("file", name, xacro.filestack[-2 if is_include else -1], xml=is_include)
        if "text" not in answer:
            raise FileNotFoundError(errno.ENOENT, answer["error"].removeprefix(f"{name}: "), str(name))
        return io.StringIO(answer["text"])

    def glob(pattern: str) -> list[str]:
        answer = parent.ask("glob", pattern, xacro.filestack[-1])
        if "paths" not in answer:
            raise xacro.XacroException(answer["error"])
        return answer["paths"]

    def message(*words: object, **_: object) -> None:
        """Xacro's messages to the user are not about the robot."""

    def warning(*words: object, **_: object) -> None:
        if len(warnings) < 100:
            warnings.append(" ".join(map(str, words))[:1000])

    def error(*words: object, **_: object) -> None:
        warning(*words)

    def print_location(*_: object) -> None:
        """Where an error occurred is said with the error."""

    def evaluate_substitution(text: str, context: dict[str, Any]) -> str:
        """`$(eval ...)`."""

        def argument(name: str) -> Any:
            return substitution_args.convert_value(substitution_args._eval_arg(name, args=context["arg"]), "auto")

        functions = {k: v for k, v in substitution_args._eval_dict.items() if not k.startswith("__")}
        python = dict(dict.items(xacro._global_symbols["python"]))
        arguments = {k: substitution_args.convert_value(str(v), "auto") for k, v in context.get("arg", {}).items()}
        return str(evaluate(text, {**arguments, **python, **functions, "arg": argument}))

    xacro.open = open_text  # found before the built-in function
    xacro.glob = types.SimpleNamespace(glob=glob)
    xacro.safe_eval = lambda expression, symbols, local=None: evaluate(expression, symbols)
    xacro.message, xacro.warning, xacro.error, xacro.print_location = message, warning, error, print_location
    substitution_args._eval_find = find  # ty: ignore[invalid-assignment]
    substitution_args._eval_dict["find"] = find
    substitution_args._eval = evaluate_substitution  # ty: ignore[invalid-assignment]
    xacro._global_symbols = xacro.create_global_symbols()
    for name in _REFUSED_FUNCTIONS:
        dict.pop(xacro._global_symbols["python"], name, None)


def _limit(seconds: float, memory: int) -> None:
    try:
        import resource
    except ImportError:  # not on this system; the parent's limit on time remains
        return
    limits = {
        "RLIMIT_CPU": int(seconds) + 1,
        "RLIMIT_AS": memory,
        "RLIMIT_FSIZE": 0,
        "RLIMIT_CORE": 0,
    }
    for name, value in limits.items():
        kind = getattr(resource, name, None)
        if kind is not None:
            with contextlib.suppress(ValueError, OSError):  # it is already lower, or the system has none
                resource.setrlimit(kind, (value, value))


def _refuse(event: str, arguments: tuple[Any, ...]) -> None:
    if event.startswith(_REFUSED_EVENTS):
        raise PermissionError(f"a xacro file may not do this: {event}")


def _expand(request: dict[str, Any], parent: _Parent) -> dict[str, Any]:
    """The expanded text, or why there is none."""
    import xml.dom.minidom

    import xacro

    with contextlib.suppress(ImportError):
        import yaml  # noqa: F401 - xacro imports it when it is first needed, which is then too late
    warnings: list[str] = []
    _confine(xacro, parent, warnings)
    os.environ.clear()
    xacro.root_dir = str(Path(request["file"]).parent)
    xacro.init_stacks(request["file"])
    document = xml.dom.minidom.parseString(request["text"])
    sys.addaudithook(_refuse)
    try:
        xacro.process_doc(document, mappings=dict(request["arguments"]))
        text = document.toprettyxml(indent="  ")
    except Exception as error:
        return {"failed": _reason(error, xacro), "at": _element(error), "where": _place(xacro, request["file"])}
    if len(text) > request["length"]:
        return {"failed": f"the expansion has {len(text)} characters; at most {request['length']} are read"}
    return {"done": text, "warnings": warnings}


def _reason(error: Any, xacro: Any) -> str:
    """What went wrong, without the wrappings that xacro puts around it."""
    while isinstance(error, xacro.XacroException) and isinstance(error.exc, Exception):
        suffix, error = error.suffix, error.exc
        if suffix and not isinstance(error, xacro.XacroException | MemoryError | RecursionError):
            return f"{_reason(error, xacro)} {suffix}"
    if isinstance(error, MemoryError):
        return "the expansion needs too much memory"
    if isinstance(error, RecursionError):
        return "macros, includes or expressions go round in circles"
    if isinstance(error, FileNotFoundError):
        return f"{error.filename}: {error.strerror}"
    if type(error).__name__ == "ArgException":
        return f"the argument {str(error)!r} has no value"
    return (str(error) or repr(error))[:2000]


def _element(error: Exception) -> dict[str, Any]:
    """The element that was being expanded: its name, its attributes, and the mark that is nearest to it."""
    node, trace = None, error.__traceback__
    while trace is not None:
        found = trace.tb_frame.f_locals.get("node")
        node = found if hasattr(found, "tagName") else node
        trace = trace.tb_next
    if node is None:
        return {}
    attributes = {str(name): str(value) for name, value in node.attributes.items()}
    near = node
    while near is not None and not (hasattr(near, "getAttribute") and near.getAttribute(_MARK)):
        near = near.previousSibling or near.parentNode
    return {"tag": node.tagName, "attributes": attributes, "mark": near.getAttribute(_MARK) if near is not None else ""}


def _place(xacro: Any, main_file: str) -> str:
    """Where an error happened, as far as xacro knows."""
    place = ""
    if xacro.macrostack:
        place += f" (in macro {xacro.macrostack[-1].body.getAttribute('name')!r})"
    if xacro.filestack and xacro.filestack[-1] != main_file:
        place += f" (in {xacro.filestack[-1]})"
    return place


def main() -> None:
    """Expand the file of the request on the standard input."""
    parent = _Parent(sys.stdin, sys.stdout)
    sys.stdout = sys.stderr = io.StringIO()  # nothing but our own messages goes to the parent
    request = parent.hear()
    sys.path.extend(request["paths"])
    sys.setrecursionlimit(5_000)
    _limit(request["seconds"], request["memory"])
    try:
        answer = _expand(request, parent)
    except Exception as error:
        answer = {"failed": str(error) or repr(error)}
    parent.say(answer)


if __name__ == "__main__":
    main()
