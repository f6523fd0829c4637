"""The layer rule: imports point down only, go through a package's `__init__`, and never run in a circle."""

from __future__ import annotations

import ast
import graphlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "kinema"
MAX_FUNCTION_LINES = 100

_DATA = {"core", "geometry", "ir", "model"}
_BELOW_SCENE = _DATA | {"tokens", "description", "read", "write", "check", "builder", "codegen", "runtime", "dynamics"}
_BELOW_SCENE |= {"render", "kinematics"}

ALLOWED = {
    "core": set[str](),
    "tokens": set[str](),
    "geometry": {"core"},
    "ir": {"core"},
    "model": {"core"},
    "description": {"core", "geometry"},
    "read": {"core", "tokens", "geometry", "description"},
    "write": {"core", "tokens", "geometry", "description"},
    "check": {"core", "tokens", "geometry", "description"},
    "codegen": {"core", "ir"},
    "runtime": {"core", "ir", "codegen"},
    "builder": {"core", "tokens", "geometry", "ir", "model", "description"},
    "dynamics": _DATA | {"codegen", "runtime"},
    "render": _DATA | {"runtime"},
    "kinematics": _DATA | {"description", "read", "builder", "runtime", "dynamics"},
    "scene": _BELOW_SCENE,
    "apps": _BELOW_SCENE | {"scene", ""},
}
"""What each package may import of Kinema; "" is the top-level `kinema` itself."""

OPEN = {("kinematics", "dynamics")}
"""Packages of which the first may import modules of the second past its `__init__`: it traces programs of its own."""

UNBOUND = {"kinema", "kinema.__main__"}
"""The modules on top of the layers, which may import anything."""


SEVERAL_BASES = {
    ("kinema.description.material", "VisualMaterial"),
    ("kinema.codegen.cuda.intrinsics.ldl_solve", "LdlSolve"),
}
"""Records with two base classes, of which one only has data fields."""
DEFAULT_MAX_DEPTH = 3
MAX_DEPTH = {"scene": 2, "codegen": 6}
"""Greatest length of a chain of inheritance; the classes that users hold can be read from top to bottom in one file."""


_IMPORTING = "import_module", "__import__"
"""Functions that import."""


@dataclass(frozen=True)
class Import:
    """One module that another one imports."""

    line: int
    target: str
    typing_only: bool


@dataclass
class Module:
    """A source file, parsed."""

    name: str
    path: Path
    text: str

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.text, str(self.path))

    @property
    def package(self) -> str:
        """The package that relative imports start from."""
        return self.name if self.path.name == "__init__.py" else self.name.rpartition(".")[0]

    @property
    def layer(self) -> str:
        return _layer(self.name)

    @cached_property
    def import_nodes(self) -> list[tuple[ast.AST, bool]]:
        """Statements and calls that import, and whether each stands under `if TYPE_CHECKING`."""
        found: list[tuple[ast.AST, bool]] = [
            (n, t) for n, t in self.statements if isinstance(n, ast.Import | ast.ImportFrom)
        ]
        if any(function in self.text for function in _IMPORTING):
            found += [(n, False) for n in ast.walk(self.tree) if isinstance(n, ast.Call)]
        return found

    @cached_property
    def statements(self) -> list[tuple[ast.AST, bool]]:
        """All statements, and whether each stands under `if TYPE_CHECKING`."""
        return list(_walk(self.tree))


def parse(source: Path) -> dict[str, Module]:
    """All modules under a package folder, by their dotted names."""
    modules = {}
    for path in sorted(source.rglob("*.py")):
        parts = path.relative_to(source.parent).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        modules[name] = Module(name, path, path.read_text(encoding="utf-8"))
    return modules


def imports(module: Module, modules: dict[str, Module]) -> Iterator[Import]:
    """What a module imports of its own project, anywhere in the file."""
    project = module.name.partition(".")[0]
    for node, typing_only in module.import_nodes:
        for target in _targets(node, module, modules):
            if target.partition(".")[0] == project:
                yield Import(getattr(node, "lineno", 0), target, typing_only)


def layer_faults(modules: dict[str, Module]) -> list[str]:
    """Every import that points up or sideways, or past a package's `__init__`."""
    faults = []
    for module in modules.values():
        if module.name in UNBOUND:
            continue
        if module.layer not in ALLOWED:
            faults.append(f"{module.path}: {module.layer!r} is no known layer")
            continue
        for found in imports(module, modules):
            layer = _layer(found.target)
            if layer == module.layer:
                continue
            place = f"{module.path}:{found.line}"
            if layer not in ALLOWED[module.layer]:
                faults.append(f"{place}: {module.layer} may not import {found.target}")
            elif (module.layer, layer) in OPEN:
                continue
            elif found.target.count(".") > 1 and not _offers(modules, layer, found.target):
                faults.append(f"{place}: {found.target} is private to {layer}; import from kinema.{layer}")
    return faults


def circle(modules: dict[str, Module]) -> str:
    """The modules of an import circle, or nothing; imports for types count like all others."""
    graph = {
        module.name: {found.target for found in imports(module, modules) if found.target in modules}
        for module in modules.values()
    }
    try:
        graphlib.TopologicalSorter(graph).prepare()
    except graphlib.CycleError as error:
        return " imports ".join(reversed(error.args[1]))
    return ""


def too_long(modules: dict[str, Module]) -> list[str]:
    """Every function that is longer than it should be."""
    long = []
    for module in modules.values():
        if module.name.startswith("kinema.render.kernels."):  # Warp functions are inlined into one kernel by nesting
            continue
        for node, _ in module.statements:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                lines = (node.end_lineno or node.lineno) - node.lineno + 1
                if lines > MAX_FUNCTION_LINES:
                    long.append(f"{module.path}:{node.lineno} {node.name}: {lines} lines")
    return long


def inheritance_faults(modules: dict[str, Module]) -> list[str]:
    """Every class with several concrete base classes, or with a longer chain of them than its layer may have."""
    classes = {node.name: node for m in modules.values() for node, _ in m.statements if isinstance(node, ast.ClassDef)}
    faults = []
    for module in modules.values():
        for node, _ in module.statements:
            if isinstance(node, ast.ClassDef):
                place, bases = f"{module.path}:{node.lineno} {node.name}", _concrete_bases(node)
                if len(bases) > 1 and (module.name, node.name) not in SEVERAL_BASES:
                    faults.append(f"{place}: more than one base class: {', '.join(bases)}")
                limit = MAX_DEPTH.get(module.layer, DEFAULT_MAX_DEPTH)
                if _depth(node, classes) > limit:
                    faults.append(f"{place}: more than {limit} classes in a chain of inheritance")
    return faults


def _concrete_bases(node: ast.ClassDef) -> list[str]:
    """Names of the base classes of a class, but those without code: protocols, abstract classes, generic types."""
    if any(ast.unparse(base).rpartition(".")[2] == "Protocol" for base in node.bases):
        return []
    names = [ast.unparse(base).partition("[")[0].rpartition(".")[2] for base in node.bases]
    return [name for name in names if name not in ("ABC", "Generic", "NamedTuple")]


def _depth(node: ast.ClassDef, classes: dict[str, ast.ClassDef]) -> int:
    """Number of classes of the project in the chain of inheritance that ends with a class."""
    bases = [classes[name] for name in _concrete_bases(node) if name in classes and classes[name] is not node]
    return 1 + max((_depth(base, classes) for base in bases), default=0)


def _layer(name: str) -> str:
    return [*name.split("."), ""][1]


_STATEMENTS = ast.stmt | ast.excepthandler | ast.match_case
"""Nodes that are statements or hold some."""


def _walk(node: ast.AST, typing_only: bool = False) -> Iterator[tuple[ast.AST, bool]]:
    """All statements below a node, and whether each stands under `if TYPE_CHECKING`."""
    waiting = [(node, typing_only)]
    while waiting:
        parent, for_types = waiting.pop()
        for child in ast.iter_child_nodes(parent):
            if not isinstance(child, _STATEMENTS):
                continue
            yield child, for_types
            if isinstance(child, ast.If) and ast.unparse(child.test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING"):
                waiting += [(ast.Module(child.body, []), True), (ast.Module(child.orelse, []), for_types)]
            else:
                waiting.append((child, for_types))


def _targets(node: ast.AST, module: Module, modules: dict[str, Module]) -> Iterator[str]:
    """The modules that one node imports, if it is an import."""
    match node:
        case ast.Import():
            yield from (alias.name for alias in node.names)
        case ast.ImportFrom():
            base = _base(node, module)
            for alias in node.names:
                name = f"{base}.{alias.name}"
                yield name if name in modules and not _binds(modules, base, alias.name) else base
        case ast.Call(func=ast.Name(id=function) | ast.Attribute(attr=function), args=[ast.Constant(str(name)), *_]):
            if function in _IMPORTING:
                yield name if not name.startswith(".") else module.package + name


def _base(node: ast.ImportFrom, module: Module) -> str:
    """The absolute name behind the `from` of an import."""
    if node.level == 0:
        return node.module or ""
    parts = module.package.split(".")
    parts = parts[: len(parts) - node.level + 1]
    return ".".join(parts + ([node.module] if node.module else []))


def _offers(modules: dict[str, Module], layer: str, target: str) -> bool:
    """Whether a package's `__init__` imports one of its modules as such, for others to use."""
    package = modules[f"{SOURCE.name}.{layer}"]
    return any(
        isinstance(node, ast.ImportFrom)
        and _base(node, package) == package.name
        and any(f"{package.name}.{alias.name}" == target for alias in node.names)
        for node in package.tree.body
    )


def _binds(modules: dict[str, Module], base: str, name: str) -> bool:
    """Whether a package's `__init__` makes something of its own by that name, which then hides a module's.

    What it offers lazily is in a module `exports` (see `kinema.core.export_lazily`).
    """
    package, lazy = modules.get(base), modules.get(f"{base}.exports")
    for node in [*(package.tree.body if package else []), *(lazy.tree.body if lazy else [])]:
        match node:
            case ast.FunctionDef() | ast.ClassDef() if node.name == name:
                return True
            case ast.ImportFrom() if package and _base(node, package) != package.name:
                if any((alias.asname or alias.name) == name for alias in node.names):
                    return True
    return False


@pytest.fixture(scope="module")
def modules() -> dict[str, Module]:
    found = parse(SOURCE)
    assert found, f"no modules under {SOURCE}"
    return found


def test_imports_point_down_and_through_the_package(modules: dict[str, Module]) -> None:
    """A package imports lower layers only, and only what their `__init__` offers."""
    assert layer_faults(modules) == []


def test_functions_stay_short(modules: dict[str, Module]) -> None:
    """A function has at most 100 lines."""
    assert too_long(modules) == []


def test_there_is_no_import_circle(modules: dict[str, Module]) -> None:
    """No module imports itself by way of others, not even from inside a function or for types alone."""
    found = circle(modules)
    assert not found, f"modules import each other: {found}; what they share belongs into a module below them"


def test_classes_have_one_base_class(modules: dict[str, Module]) -> None:
    """A class has at most one concrete base class, and no long chain of them: composition instead of mixins."""
    assert inheritance_faults(modules) == []


def _tree(folder: Path, files: dict[str, str]) -> dict[str, Module]:
    """The modules of a made-up package `kinema`; every folder gets an empty `__init__` unless one is given."""
    for name, text in files.items():
        path = folder / "kinema" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        for parent in [path.parent, *path.parent.parents]:
            if folder not in parent.parents:
                break
            (parent / "__init__.py").touch()
        path.write_text(text)
    return parse(folder / "kinema")


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("dynamics/step.py", "from kinema.description import Robot"),
        ("dynamics/step.py", "import kinema.read"),
        ("dynamics/step.py", "from kinema import read"),
        ("dynamics/step.py", "def f():\n    from kinema.description import Robot"),
        (
            "dynamics/step.py",
            "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from kinema.description import Robot",
        ),
        ("dynamics/step.py", "import importlib\nimportlib.import_module('kinema.description')"),
        ("dynamics/step.py", "from ..description import Robot"),
        ("read/urdf/elements.py", "from ...write import write"),
        ("read/urdf/elements.py", "from kinema.check import check"),
        ("read/urdf/elements.py", "from kinema import Robot"),
        ("core/units.py", "import kinema.geometry"),
        ("check/rules.py", "from kinema.description.joint import Joint"),
        ("check/rules.py", "from kinema.description import joint"),
        ("check/rules.py", "import kinema.description.joint"),
        ("helpers/stuff.py", ""),
    ],
)
def test_a_layer_fault_is_found(tmp_path: Path, file: str, text: str) -> None:
    """The check can fail: each of these imports is against the rule."""
    tree = _tree(tmp_path, {"description/joint.py": "", "read/urdf/elements.py": "", file: text})
    faults = layer_faults(tree)
    assert faults
    assert all(file in fault or "helpers" in fault for fault in faults)


def test_lawful_imports_are_left_alone(tmp_path: Path) -> None:
    """The rule's own way of importing is no fault, even where a function is called like its module."""
    tree = _tree(
        tmp_path,
        {
            "__init__.py": "from kinema.apps.cli import main",
            "description/__init__.py": "from .joint import Joint as joint",
            "description/joint.py": "import numpy\nfrom kinema.core import Pose",
            "read/urdf/elements.py": "from ..source import Source\nfrom kinema.description import joint",
            "tokens/__init__.py": "from . import usd as usd",
            "tokens/usd.py": "",
            "write/usd.py": "from kinema.tokens import usd",
            "read/resolve.py": "",
            "apps/cli.py": "import kinema.read\nfrom kinema import scene",
            "scene/__init__.py": "",
        },
    )
    assert layer_faults(tree) == []
    assert circle(tree) == ""


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("from .b import B", "from .a import A"),
        ("from . import b", "from kinema.model import a"),
        ("import kinema.model.b", "def f():\n    from .a import A"),
        ("from kinema.model import A", ""),
        ("from .b import B", "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from .a import A"),
    ],
)
def test_a_circle_is_found(tmp_path: Path, first: str, second: str) -> None:
    """The check can fail: two modules that import each other, or a module that imports its own package."""
    tree = _tree(tmp_path, {"model/__init__.py": "from .a import A", "model/a.py": first, "model/b.py": second})
    assert "kinema.model.a imports kinema.model" in circle(tree)


def test_a_circle_is_named_in_the_order_of_its_imports(tmp_path: Path) -> None:
    files = {"model/a.py": "from .b import B", "model/b.py": "from .c import C", "model/c.py": "from .a import A"}
    names = circle(_tree(tmp_path, files)).split(" imports ")
    assert names[0] == names[-1]
    following = {"a": "b", "b": "c", "c": "a"}
    assert all(b[-1] == following[a[-1]] for a, b in pairwise(names))


def test_a_long_function_is_found(tmp_path: Path) -> None:
    """The check can fail: one line more than the limit is too much, the limit itself is not."""
    body = "\n    pass"
    files = {
        "model/c.py": "def f():" + body * (MAX_FUNCTION_LINES - 1),
        "model/d.py": "def f():" + body * MAX_FUNCTION_LINES,
    }
    found = too_long(_tree(tmp_path, files))
    assert [Path(line.partition(":")[0]).name for line in found] == ["d.py"]


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("class A: ...\nclass B: ...\nclass C(A, B): ...", 1),
        ("class A: ...\nclass B(A): ...\nclass C(B): ...", 1),
        ("class A: ...\nclass B(A, Generic[T]): ...\nclass C(A, ABC): ...\nclass D(A, B, Protocol): ...", 0),
    ],
)
def test_an_inheritance_fault_is_found(tmp_path: Path, text: str, count: int) -> None:
    """The check can fail: two base classes, and a chain of three classes in `scene`, are against the rule."""
    assert len(inheritance_faults(_tree(tmp_path, {"scene/scene.py": text}))) == count
