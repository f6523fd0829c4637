"""The words of file formats are typed in `kinema.tokens` and nowhere else: reading, writing, checking or compiling."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

import pytest

from kinema import tokens
from kinema.tokens import kinema_usd, mjc, mjcf, newton, physx, sdf, urdf, usd, usd_physics, write_options

SOURCE = Path(__file__).parents[1] / "src" / "kinema"

NAMESPACED = re.compile(
    r"(physics|drive|limit|state|newton|mjc|physx\w*|kinema|mjcf|sdf|urdf|usd|xformOp|primvars|inputs|outputs):[\w:]*"
)
"""A name in one of the namespaces that the list is about, be it in the list or not; a sentence holds blanks."""


class Format(NamedTuple):
    """The words of a format, and where a text is one of them even if it could be something else."""

    modules: tuple[ModuleType, ...] = ()
    named_first: frozenset[str] = frozenset()
    """Functions whose first argument is a word."""
    named_second: frozenset[str] = frozenset()
    """Functions whose second argument is a word."""
    has_tags: bool = False
    """Whether elements are known by the list's words."""


USD = Format(
    (usd, usd_physics, newton, mjc, physx, kinema_usd),
    frozenset({"set", "number", "relate", "declare", "apply"}),
    frozenset({"value", "authored", "targets", "positive", "_positive", "_not_negative"}),
)
MJCF = Format(
    (mjcf,),
    frozenset({"Element", "child", "section", "find_all", "find", "name", "node", "refer", "new", "add", "of"}),
    frozenset({"take", "take_from"}),
    has_tags=True,
)
SDF = Format((sdf,), named_second=frozenset({"setting"}))
URDF = Format((urdf,))
KEPT = Format((mjcf, sdf, urdf), named_first=frozenset({"get"}))
"""Of those who look up what a description keeps of its format."""
FOLDERS = {
    **{f"{way}/usd": USD for way in ("read", "write")},
    **{f"{way}/mjcf": MJCF for way in ("read", "write")},
    **{f"{way}/sdf": SDF for way in ("read", "write")},
    **{f"{way}/urdf": URDF for way in ("read", "write")},
    "check": Format(),
    "builder": KEPT,
    "scene": KEPT,
}
"""Where which words may not be typed; those with a namespace may be typed in none of these."""


def words_of(module: ModuleType) -> set[str]:
    """All words of a module of the list."""
    found: set[str] = set()
    for name, value in vars(module).items():
        if not name.isupper():
            continue
        match value:
            case str():
                found.add(value)
            case kinema_usd.CustomAttribute():
                found.add(value.name)
            case tuple():
                found.update(v.name if isinstance(v, kinema_usd.CustomAttribute) else v for v in value)
            case dict():
                found.update(value)
    return found


def is_unmistakable(word: str) -> bool:
    """Whether a word can be nothing else: one in lower case may be a field of the description, too."""
    return len(word) > 1 and (":" in word or not word.islower())


def typed_words(tree: ast.Module, format: Format) -> Iterator[tuple[int, str]]:
    """Lines and words of the list that are typed in a file."""
    known = {word for module in format.modules for word in words_of(module)}
    unmistakable = {word for word in known if is_unmistakable(word)}
    nodes = list(ast.walk(tree))
    meant = {id(node) for node in _meant(nodes, format)}
    for node in _literals(nodes):
        text = str(node.value)
        if text in unmistakable or (id(node) in meant and text in known) or NAMESPACED.fullmatch(text):
            yield node.lineno, text
    for node in nodes:
        if isinstance(node, ast.JoinedStr) and any(map(_is_key, node.values, node.values[1:])):
            yield node.lineno, ast.unparse(node)


def _is_key(before: ast.expr, after: ast.expr) -> bool:
    """Whether two parts of an f-string are a namespace and what follows it: `f"{FORMAT}:name"`."""
    if not isinstance(before, ast.FormattedValue) or not isinstance(after, ast.Constant):
        return False
    return ast.unparse(before.value).endswith("FORMAT") and str(after.value).startswith(":")


def _literals(nodes: Sequence[ast.AST]) -> Iterator[ast.Constant]:
    """All texts of a file but for docstrings, the parts of f-strings included."""
    said = {id(n.value) for n in nodes if isinstance(n, ast.Expr)}
    for node in nodes:
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in said:
            yield node


def _meant(nodes: Sequence[ast.AST], format: Format) -> Iterator[ast.AST]:
    """Texts that name an element, an attribute or a setting."""
    for node in nodes:
        match node:
            case ast.Call(func=ast.Attribute(attr=name) | ast.Name(id=name)):
                # a function that knows its table has one argument less than the method
                knows_table = name == "take" and isinstance(node.func, ast.Name)
                if name in format.named_first or knows_table:
                    yield from node.args[:1]
                elif name in format.named_second:
                    yield from node.args[1:2]
            case ast.Compare(left=ast.Attribute(attr="format")):
                yield from node.comparators
            case ast.Compare(left=ast.Attribute(attr="tag")) if format.has_tags:
                yield from (n for side in node.comparators for n in ast.walk(side))
            case ast.Match(subject=ast.Attribute(attr="tag")) if format.has_tags:
                yield from (c.pattern.value for c in node.cases if isinstance(c.pattern, ast.MatchValue))


@pytest.mark.parametrize("folder", FOLDERS)
def test_words_are_typed_in_the_list_only(folder: str) -> None:
    """A reader and a writer that type a word each may come to mean different things by it."""
    paths = sorted((SOURCE / folder).rglob("*.py"))
    assert paths
    faults = [
        f"{path.relative_to(SOURCE)}:{line}: {word!r} has a name in kinema.tokens"
        for path in paths
        for line, word in typed_words(ast.parse(path.read_text(encoding="utf-8")), FOLDERS[folder])
    ]
    assert faults == []


def test_all_parts_of_the_list_are_looked_for() -> None:
    """A module that is added to the list is looked for in the readers and writers, too."""
    listed = {module for format in FOLDERS.values() for module in format.modules}
    modules = {value for value in vars(tokens).values() if isinstance(value, ModuleType)}
    assert listed == modules - {write_options}
    assert all(words_of(module) for module in listed)


def test_every_word_is_used() -> None:
    """A word that nobody reads or writes does not belong in the list; one may be part of another."""
    used: set[str] = set()
    modules = {module.__name__.rpartition(".")[2] for format in (USD, MJCF, SDF, URDF) for module in format.modules}
    for path in SOURCE.rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        if path.parent.name != "tokens" and not any(f"{name}." in text for name in modules):
            continue
        nodes = list(ast.walk(ast.parse(text)))
        used |= {
            f"{n.value.id}.{n.attr}" for n in nodes if isinstance(n, ast.Attribute) and isinstance(n.value, ast.Name)
        }
        if path.parent.name == "tokens":
            used |= {f"{path.stem}.{n.id}" for n in nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)}
    for format in (USD, MJCF, SDF, URDF):
        for module in format.modules:
            short = module.__name__.rpartition(".")[2]
            assert {f"{short}.{name}" for name in vars(module) if name.isupper()} <= used


@pytest.mark.parametrize(
    ("format", "text"),
    [
        (USD, 'index.value(prim, "physics:mass")'),
        (USD, 'index.value(prim, "physics:notInTheList")'),
        (USD, 'schema = "PhysicsMassAPI"'),
        (USD, 'prim.set(f"physics:body{side}", "token", path)'),
        (USD, 'prim.set("radius", "double", 1.0)'),
        (USD, 'index.value(prim, "points")'),
        (USD, 'name = "kinema:pitch"'),
        (URDF, 'node.attributes["mjcf:class"]'),
        (MJCF, 'node.attributes[f"mjcf:{name}"]'),
        (MJCF, 'node.attributes[f"{FORMAT}:name"]'),
        (MJCF, 'node.attributes[f"{mjcf.FORMAT}:name"]'),
        (MJCF, 'Element("geom")'),
        (MJCF, 'writing.section(mjcf.ASSET).child("mesh", name=name)'),
        (MJCF, 'extra.tag in ("plugin", "other")'),
        (MJCF, 'match element.tag:\n    case "hfield":\n        pass'),
        (MJCF, 'writing.take(joint, "springyield", 0.0)'),
        (MJCF, 'take("springyield", 0.0)'),
        (SDF, 'setting(link, "velocity_decay")'),
        (KEPT, 'joint.attributes.get("mjcf:springyield", 0.0)'),
        (KEPT, 'actuator.settings.get("group", 0)'),
        (KEPT, 'part.description.format == "mjcf"'),
    ],
)
def test_a_typed_word_is_found(format: Format, text: str) -> None:
    """The check can fail: each of these types a word again."""
    assert list(typed_words(ast.parse(text), format))


@pytest.mark.parametrize(
    ("format", "text"),
    [
        (USD, '"""physics:mass"""'),
        (USD, 'def f():\n    """PhysicsMassAPI"""'),
        (MJCF, 'class A:\n    x: int\n    """mjcf:class"""'),
        (USD, 'hint = "apply PhysicsMassAPI with a mass"'),
        (USD, 'how = f"it is in kinema:pitch, which {others} do not know"'),
        (USD, 'fields = ("damping", "radius")'),
        (USD, 'getattr(axis, "stiffness")'),
        (USD, "index.value(prim, physics.MASS)"),
        (MJCF, 'target_kind = "joint"'),
        (MJCF, 'code = "mjcf.plugin"'),
        (MJCF, 'code = f"{mjcf.FORMAT}.plugin"'),
        (SDF, 'Element("model")'),
        (KEPT, 'options.get("timestep")'),
        (KEPT, "description.format != mjcf.FORMAT"),
        (KEPT, 'fields = ("damping", "armature")'),
    ],
)
def test_other_texts_are_left_alone(format: Format, text: str) -> None:
    """Sentences, docstrings and the description's own words are no faults."""
    assert list(typed_words(ast.parse(text), format)) == []
