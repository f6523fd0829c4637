"""Evaluates Python expressions in xacro files by walking their syntax tree, without Python's `eval`.

Only listed syntax is accepted: arithmetic, comparisons, conditions, indexing, comprehensions, xacro's functions and
harmless methods. No attribute access leads from a value to its class or from a function to its module. `xacro_worker`
runs this file on its own, so it imports only the standard library.
"""

from __future__ import annotations

import ast
import operator
import string
from collections.abc import Callable, Iterator, Mapping
from typing import Any

_STRING_METHODS = (
    "capitalize center count endswith find index isalnum isalpha isdigit islower isspace isupper join ljust lower "
    "lstrip partition removeprefix removesuffix replace rfind rjust rpartition rsplit rstrip split splitlines "
    "startswith strip swapcase title upper zfill"
)
_ALLOWED_METHODS: dict[type, tuple[str, ...]] = {
    str: tuple(_STRING_METHODS.split()),
    list: ("append", "copy", "count", "extend", "index", "insert", "pop", "remove", "reverse", "sort"),
    tuple: ("count", "index"),
    dict: ("copy", "get", "items", "keys", "pop", "setdefault", "update", "values"),
    set: ("add", "copy", "difference", "discard", "intersection", "issubset", "issuperset", "remove", "union"),
    frozenset: ("copy", "difference", "intersection", "issubset", "issuperset", "union"),
    int: ("bit_length", "real", "imag"),
    float: ("is_integer", "real", "imag"),
    complex: ("real", "imag", "conjugate"),
}
"""Type -> accessible attributes of its values."""


class RefusedExpression(Exception):
    """An expression uses syntax or names that are not allowed."""


def _bounded_power(base: Any, exponent: Any) -> Any:
    """Power with bounded size of integer results, which would take minutes."""
    if isinstance(base, int) and isinstance(exponent, int) and exponent * base.bit_length() > 100_000:
        raise RefusedExpression("the power of an integer is too large")
    return base**exponent


_BINARY: dict[type, Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: _bounded_power,
    ast.BitAnd: operator.and_,
    ast.BitOr: operator.or_,
    ast.BitXor: operator.xor,
    ast.LShift: lambda a, b: _bounded_power(2, b) * a,
    ast.RShift: operator.rshift,
}
_UNARY: dict[type, Callable[[Any], Any]] = {
    ast.UAdd: operator.pos,
    ast.USub: operator.neg,
    ast.Not: operator.not_,
    ast.Invert: operator.invert,
}
_COMPARE: dict[type, Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Is: operator.is_,
    ast.IsNot: operator.is_not,
    ast.In: lambda a, b: a in b,
    ast.NotIn: lambda a, b: a not in b,
}


class _AttributeFreeFormatter(string.Formatter):
    """`str.format` without attribute access, which would expose classes (`{0.__class__}`)."""

    def get_field(self, field_name: str, args: Any, kwargs: Any) -> Any:
        if "." in field_name:
            raise RefusedExpression("'.' in the fields of str.format is not available")
        return super().get_field(field_name, args, kwargs)


def evaluate(expression: str, symbols: Mapping[str, Any]) -> Any:
    """Value of a Python expression over the given symbols, without Python's `eval`."""
    return _ExpressionEvaluator(symbols).evaluate_node(ast.parse(expression.strip(), mode="eval").body)


class _ExpressionEvaluator:
    """Evaluates a syntax tree recursively; node types without a method are rejected."""

    def __init__(self, symbols: Mapping[str, Any], local: dict[str, Any] | None = None) -> None:
        self.symbols = symbols
        self.local = local or {}

    def evaluate_node(self, node: ast.AST) -> Any:
        method = getattr(self, f"_{type(node).__name__}", None)
        if method is None:
            raise RefusedExpression(f"{type(node).__name__} is not available in expressions")
        return method(node)

    # -- values and names -----------------------------------------------------------------------------------------

    def _Constant(self, node: ast.Constant) -> Any:
        return node.value

    def _Name(self, node: ast.Name) -> Any:
        if node.id in self.local:
            return self.local[node.id]
        if node.id.startswith("__"):
            raise RefusedExpression(f"the name {node.id!r} is not available")
        try:
            return self.symbols[node.id]
        except KeyError:
            raise NameError(f"name '{node.id}' is not defined") from None

    def _Attribute(self, node: ast.Attribute) -> Any:
        holder, name = self.evaluate_node(node.value), node.attr
        if name.startswith("_"):
            raise RefusedExpression(f"the attribute {name!r} is not available")
        if isinstance(holder, str) and name == "format":
            return lambda *args, **kwargs: _AttributeFreeFormatter().vformat(holder, args, kwargs)
        for kind, methods in _ALLOWED_METHODS.items():
            if isinstance(holder, kind) and name in methods and not _is_xacro_namespace(holder):
                return getattr(holder, name)
        if isinstance(holder, dict) and type(holder) is not dict:  # name spaces of xacro and dicts from YAML
            try:
                return holder[name]
            except KeyError:
                raise NameError(f"name '{name}' is not defined") from None
        raise RefusedExpression(f"the attribute {name!r} of a {type(holder).__name__} is not available")

    def _Subscript(self, node: ast.Subscript) -> Any:
        return self.evaluate_node(node.value)[self.evaluate_node(node.slice)]

    def _Slice(self, node: ast.Slice) -> slice:
        return slice(
            *(None if part is None else self.evaluate_node(part) for part in (node.lower, node.upper, node.step))
        )

    # -- collections ----------------------------------------------------------------------------------------------

    def _items(self, nodes: list[ast.expr]) -> list[Any]:
        result: list[Any] = []
        for node in nodes:
            if isinstance(node, ast.Starred):
                result.extend(self.evaluate_node(node.value))
            else:
                result.append(self.evaluate_node(node))
        return result

    def _List(self, node: ast.List) -> list[Any]:
        return self._items(node.elts)

    def _Tuple(self, node: ast.Tuple) -> tuple[Any, ...]:
        return tuple(self._items(node.elts))

    def _Set(self, node: ast.Set) -> set[Any]:
        return set(self._items(node.elts))

    def _Dict(self, node: ast.Dict) -> dict[Any, Any]:
        result: dict[Any, Any] = {}
        for key, value in zip(node.keys, node.values, strict=True):
            if key is None:
                result.update(self.evaluate_node(value))
            else:
                result[self.evaluate_node(key)] = self.evaluate_node(value)
        return result

    def _ListComp(self, node: ast.ListComp) -> list[Any]:
        return [inner.evaluate_node(node.elt) for inner in self._iterate_comprehension(node.generators)]

    _GeneratorExp = _ListComp

    def _SetComp(self, node: ast.SetComp) -> set[Any]:
        return {inner.evaluate_node(node.elt) for inner in self._iterate_comprehension(node.generators)}

    def _DictComp(self, node: ast.DictComp) -> dict[Any, Any]:
        return {
            inner.evaluate_node(node.key): inner.evaluate_node(node.value)
            for inner in self._iterate_comprehension(node.generators)
        }

    def _iterate_comprehension(self, generators: list[ast.comprehension]) -> Iterator[_ExpressionEvaluator]:
        """One evaluator with bound loop variables per iteration of a comprehension."""
        if not generators:
            yield self
            return
        first, *rest = generators
        for item in self.evaluate_node(first.iter):
            inner = _ExpressionEvaluator(self.symbols, dict(self.local))
            inner._bind(first.target, item)
            if all(inner.evaluate_node(condition) for condition in first.ifs):
                yield from inner._iterate_comprehension(rest)

    def _bind(self, target: ast.expr, value: Any) -> None:
        match target:
            case ast.Name(id=name) if not name.startswith("__"):
                self.local[name] = value
            case ast.Tuple(elts=parts) | ast.List(elts=parts):
                for part, item in zip(parts, value, strict=True):
                    self._bind(part, item)
            case _:
                raise RefusedExpression("this kind of loop variable is not available")

    # -- operations -----------------------------------------------------------------------------------------------

    def _BinOp(self, node: ast.BinOp) -> Any:
        if type(node.op) not in _BINARY:
            raise RefusedExpression(f"{type(node.op).__name__} is not available in expressions")
        return _BINARY[type(node.op)](self.evaluate_node(node.left), self.evaluate_node(node.right))

    def _UnaryOp(self, node: ast.UnaryOp) -> Any:
        return _UNARY[type(node.op)](self.evaluate_node(node.operand))

    def _BoolOp(self, node: ast.BoolOp) -> Any:
        stops_at = isinstance(node.op, ast.Or)
        result = None
        for part in node.values:
            result = self.evaluate_node(part)
            if bool(result) is stops_at:
                break
        return result

    def _Compare(self, node: ast.Compare) -> Any:
        left, result = self.evaluate_node(node.left), True
        for comparison, part in zip(node.ops, node.comparators, strict=True):
            right = self.evaluate_node(part)
            result = _COMPARE[type(comparison)](left, right)
            if not result:
                break
            left = right
        return result

    def _IfExp(self, node: ast.IfExp) -> Any:
        return self.evaluate_node(node.body if self.evaluate_node(node.test) else node.orelse)

    def _Call(self, node: ast.Call) -> Any:
        function, arguments = self.evaluate_node(node.func), self._items(node.args)
        keywords: dict[str, Any] = {}
        for keyword in node.keywords:
            if keyword.arg is None:
                keywords.update(self.evaluate_node(keyword.value))
            else:
                keywords[keyword.arg] = self.evaluate_node(keyword.value)
        return function(*arguments, **keywords)

    def _Lambda(self, node: ast.Lambda) -> Callable[..., Any]:
        names = [a.arg for a in node.args.args]
        if len(names) != sum(map(len, (node.args.posonlyargs, node.args.args, node.args.kwonlyargs))) or any(
            (node.args.vararg, node.args.kwarg, node.args.defaults)
        ):
            raise RefusedExpression("a lambda takes plain arguments only")

        def function(*values: Any) -> Any:
            bound = dict(zip(names, values, strict=True))
            return _ExpressionEvaluator(self.symbols, {**self.local, **bound}).evaluate_node(node.body)

        return function

    # -- f-strings ------------------------------------------------------------------------------------------------

    def _JoinedStr(self, node: ast.JoinedStr) -> str:
        return "".join(str(self.evaluate_node(part)) for part in node.values)

    def _FormattedValue(self, node: ast.FormattedValue) -> str:
        value = self.evaluate_node(node.value)
        convert = {ord("s"): str, ord("r"): repr, ord("a"): ascii}.get(node.conversion)
        spec = "" if node.format_spec is None else self.evaluate_node(node.format_spec)
        return format(value if convert is None else convert(value), spec)


def _is_xacro_namespace(holder: Any) -> bool:
    """Whether a dict is a name space of xacro, in which every name is a property."""
    return type(holder).__name__ in ("NameSpace", "Table")
