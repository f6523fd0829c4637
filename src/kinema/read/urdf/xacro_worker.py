"""Subprocess that expands one xacro file without access to the file system. See `xacro_expand`.

Runs as a script with the standard library and xacro only, without Kinema. Protocol: lines of JSON; the request arrives
on standard input, file requests and the result go to standard output.
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

_LINE_ATTRIBUTE = "kinema-line"
"""Attribute with file index and line of an element, as in `xacro_expand`."""
_EXPRESSION_MODULE = Path(__file__).with_name("xacro_expression.py")
_MAX_INCLUDE_DEPTH = 50
_REFUSED_EVENTS = ("open", "import", "exec", "os.", "subprocess.", "socket.", "ctypes.", "shutil.", "mmap.", "code.")
_REFUSED_FUNCTIONS = ("vars", "type")
"""Functions of xacro's expressions that would allow access to Python internals."""


# -- restriction of the xacro library ----------------------------------------------------------------------------------


class _ParentProcess:
    """Connection to the parent process, which resolves and reads files."""

    def __init__(self, received: Any, sent: Any) -> None:
        self.received, self.sent = received, sent

    def send(self, message: dict[str, Any]) -> None:
        self.sent.write(json.dumps(message, ensure_ascii=False) + "\n")
        self.sent.flush()

    def receive(self) -> dict[str, Any]:
        return json.loads(self.received.readline())

    def request(self, kind: str, name: object, asker: object, **more: Any) -> dict[str, Any]:
        self.send({"ask": kind, "name": str(name), "from": str(asker), **more})
        return self.receive()


def _load_evaluate() -> Callable[..., Any]:
    """Load `evaluate` from `xacro_expression.py` without importing Kinema."""
    spec = importlib.util.spec_from_file_location("xacro_expression", _EXPRESSION_MODULE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.evaluate


def _restrict_xacro(xacro: Any, parent: _ParentProcess, warnings: list[str]) -> None:
    """Replace the functions of xacro that access files, packages, `eval` or the console."""
    from xacro import substitution_args

    evaluate = _load_evaluate()

    # an incompatible version of the library must not run
    for module, names in (
        (xacro, "safe_eval glob warning error message print_location create_global_symbols _global_symbols filestack"),
        (substitution_args, "_eval _eval_find _eval_dict convert_value _eval_arg"),
    ):
        for name in names.split():
            if not hasattr(module, name):
                raise RuntimeError(f"this version of the package 'xacro' is not supported (it has no {name})")

    def find(package: str) -> str:
        answer = parent.request("package", package, xacro.filestack[-1])
        if "path" not in answer:
            raise substitution_args.SubstitutionException(answer["error"])
        return answer["path"]

    def open_text(name: str, *_: object) -> io.StringIO:
        depth = len(xacro.filestack)
        if depth > _MAX_INCLUDE_DEPTH:
            raise xacro.XacroException(
                f"includes are nested more than {_MAX_INCLUDE_DEPTH} deep: do they form a circle?"
            )
        # an included file is already on the stack, its includer before it; YAML files are not
        is_include = depth > 1 and xacro.filestack[-1] == name
        answer = parent.request("file", name, xacro.filestack[-2 if is_include else -1], xml=is_include)
        if "text" not in answer:
            raise FileNotFoundError(errno.ENOENT, answer["error"].removeprefix(f"{name}: "), str(name))
        return io.StringIO(answer["text"])

    def glob(pattern: str) -> list[str]:
        answer = parent.request("glob", pattern, xacro.filestack[-1])
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

    xacro.open = open_text  # shadows the built-in function
    xacro.glob = types.SimpleNamespace(glob=glob)
    xacro.safe_eval = lambda expression, symbols, local=None: evaluate(expression, symbols)
    xacro.message, xacro.warning, xacro.error, xacro.print_location = message, warning, error, print_location
    substitution_args._eval_find = find  # ty: ignore[invalid-assignment]
    substitution_args._eval_dict["find"] = find
    substitution_args._eval = evaluate_substitution  # ty: ignore[invalid-assignment]
    xacro._global_symbols = xacro.create_global_symbols()
    for name in _REFUSED_FUNCTIONS:
        dict.pop(xacro._global_symbols["python"], name, None)


def _set_resource_limits(seconds: float, memory: int) -> None:
    """Limit processor time, memory and file size of this process."""
    try:
        import resource
    except ImportError:  # not available; the parent's time limit remains
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
            with contextlib.suppress(ValueError, OSError):  # already lower, or unsupported
                resource.setrlimit(kind, (value, value))


def _refuse_audit_event(event: str, arguments: tuple[Any, ...]) -> None:
    if event.startswith(_REFUSED_EVENTS):
        raise PermissionError(f"a xacro file may not do this: {event}")


def _expand(request: dict[str, Any], parent: _ParentProcess) -> dict[str, Any]:
    """Expanded text, or the error with its location."""
    import xml.dom.minidom

    import xacro

    with contextlib.suppress(ImportError):
        import yaml  # noqa: F401 - later imports are blocked
    warnings: list[str] = []
    _restrict_xacro(xacro, parent, warnings)
    os.environ.clear()
    xacro.root_dir = str(Path(request["file"]).parent)
    xacro.init_stacks(request["file"])
    document = xml.dom.minidom.parseString(request["text"])
    sys.addaudithook(_refuse_audit_event)
    try:
        xacro.process_doc(document, mappings=dict(request["arguments"]))
        text = document.toprettyxml(indent="  ")
    except Exception as error:
        return {
            "failed": _error_message(error, xacro),
            "at": _failed_element(error),
            "where": _error_location(xacro, request["file"]),
        }
    if len(text) > request["length"]:
        return {"failed": f"the expansion has {len(text)} characters; at most {request['length']} are read"}
    return {"done": text, "warnings": warnings}


def _error_message(error: Any, xacro: Any) -> str:
    """Message of an error without the exceptions that xacro wraps around it."""
    while isinstance(error, xacro.XacroException) and isinstance(error.exc, Exception):
        suffix, error = error.suffix, error.exc
        if suffix and not isinstance(error, xacro.XacroException | MemoryError | RecursionError):
            return f"{_error_message(error, xacro)} {suffix}"
    if isinstance(error, MemoryError):
        return "the expansion needs too much memory"
    if isinstance(error, RecursionError):
        return "macros, includes or expressions go round in circles"
    if isinstance(error, FileNotFoundError):
        return f"{error.filename}: {error.strerror}"
    if type(error).__name__ == "ArgException":
        return f"the argument {str(error)!r} has no value"
    return (str(error) or repr(error))[:2000]


def _failed_element(error: Exception) -> dict[str, Any]:
    """Element that was being expanded: tag, attributes and nearest line attribute."""
    node, trace = None, error.__traceback__
    while trace is not None:
        found = trace.tb_frame.f_locals.get("node")
        node = found if hasattr(found, "tagName") else node
        trace = trace.tb_next
    if node is None:
        return {}
    attributes = {str(name): str(value) for name, value in node.attributes.items()}
    near = node
    while near is not None and not (hasattr(near, "getAttribute") and near.getAttribute(_LINE_ATTRIBUTE)):
        near = near.previousSibling or near.parentNode
    return {
        "tag": node.tagName,
        "attributes": attributes,
        "mark": near.getAttribute(_LINE_ATTRIBUTE) if near is not None else "",
    }


def _error_location(xacro: Any, main_file: str) -> str:
    """Macro and file of an error, as far as xacro knows them."""
    place = ""
    if xacro.macrostack:
        place += f" (in macro {xacro.macrostack[-1].body.getAttribute('name')!r})"
    if xacro.filestack and xacro.filestack[-1] != main_file:
        place += f" (in {xacro.filestack[-1]})"
    return place


def main() -> None:
    """Expand the file of the request on standard input."""
    parent = _ParentProcess(sys.stdin, sys.stdout)
    sys.stdout = sys.stderr = io.StringIO()  # only protocol messages go to the parent
    request = parent.receive()
    sys.path.extend(request["paths"])
    sys.setrecursionlimit(5_000)
    _set_resource_limits(request["seconds"], request["memory"])
    try:
        answer = _expand(request, parent)
    except Exception as error:
        answer = {"failed": str(error) or repr(error)}
    parent.send(answer)


if __name__ == "__main__":
    main()
