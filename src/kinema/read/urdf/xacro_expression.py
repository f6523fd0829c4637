"""Python expressions in xacro files, evaluated without Python's `eval`.

The syntax tree is walked node by node, and what is not listed here is refused: there is no way from a value to its
class, from a function to its module, or to any function that the symbols do not hold. `xacro_worker` runs this file
by itself, so it imports only the standard library.
"""

from __future__ import annotations

import ast
import operator
import string
from collections.abc import Callable, Iterator, Mapping
from typing import Any

_TEXT_METHODS = (
    "capitalize center count endswith find index isalnum isalpha isdigit islower isspace isupper join ljust lower "
    "lstrip partition removeprefix removesuffix replace rfind rjust rpartition rsplit rstrip split splitlines "
    "startswith strip swapcase title upper zfill"
)
_METHODS: dict[type, tuple[str, ...]] = {
    str: tuple(_TEXT_METHODS.split()),
    list: ("append", "copy", "count", "extend", "index", "insert", "pop", "remove", "reverse", "sort"),
    tuple: ("count", "index"),
    dict: ("copy", "get", "items", "keys", "pop", "setdefault", "update", "values"),
    set: ("add", "copy", "difference", "discard", "intersection", "issubset", "issuperset", "remove", "union"),
    frozenset: ("copy", "difference", "intersection", "issubset", "issuperset", "union"),
    int: ("bit_length", "real", "imag"),
    float: ("is_integer", "real", "imag"),
    complex: ("real", "imag", "conjugate"),
}
"""All the attributes that values have."""


class RefusedExpression(Exception):
    """An expression uses something that expressions may not use."""


def _power(base: Any, exponent: Any) -> Any:
    """A power, unless it is an integer with a million digits: those take Python minutes."""
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
    ast.Pow: _power,
    ast.BitAnd: operator.and_,
    ast.BitOr: operator.or_,
    ast.BitXor: operator.xor,
    ast.LShift: lambda a, b: _power(2, b) * a,
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


class _PlainFormatter(string.Formatter):
    """`str.format` without access to attributes: `{0.__class__}` would lead anywhere."""

    def get_field(self, field_name: str, args: Any, kwargs: Any) -> Any:
        if "." in field_name:
            raise RefusedExpression("'.' in the fields of str.format is not available")
        return super().get_field(field_name, args, kwargs)


def evaluate(expression: str, symbols: Mapping[str, Any]) -> Any:
    """The value of a Python expression over the symbols, without Python's own `eval`."""
    return _Evaluation(symbols).value(ast.parse(expression.strip(), mode="eval").body)


class _Evaluation:
    """Walks the syntax tree of an expression; what it does not know is refused."""

    def __init__(self, symbols: Mapping[str, Any], local: dict[str, Any] | None = None) -> None:
        self.symbols = symbols
        self.local = local or {}

    def value(self, node: ast.AST) -> Any:
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
        holder, name = self.value(node.value), node.attr
        if name.startswith("_"):
            raise RefusedExpression(f"the attribute {name!r} is not available")
        if isinstance(holder, str) and name == "format":
            return lambda *args, **kwargs: _PlainFormatter().vformat(holder, args, kwargs)
        for kind, methods in _METHODS.items():
            if isinstance(holder, kind) and name in methods and not _is_name_space(holder):
                return getattr(holder, name)
        if isinstance(holder, dict) and type(holder) is not dict:  # xacro's name spaces and dictionaries from YAML
            try:
                return holder[name]
            except KeyError:
                raise NameError(f"name '{name}' is not defined") from None
        raise RefusedExpression(f"the attribute {name!r} of a {type(holder).__name__} is not available")

    def _Subscript(self, node: ast.Subscript) -> Any:
        return self.value(node.value)[self.value(node.slice)]

    def _Slice(self, node: ast.Slice) -> slice:
        return slice(*(None if part is None else self.value(part) for part in (node.lower, node.upper, node.step)))

    # -- collections ----------------------------------------------------------------------------------------------

    def _items(self, nodes: list[ast.expr]) -> list[Any]:
        result: list[Any] = []
        for node in nodes:
            if isinstance(node, ast.Starred):
                result.extend(self.value(node.value))
            else:
                result.append(self.value(node))
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
                result.update(self.value(value))
            else:
                result[self.value(key)] = self.value(value)
        return result

    def _ListComp(self, node: ast.ListComp) -> list[Any]:
        return [inner.value(node.elt) for inner in self._loop(node.generators)]

    _GeneratorExp = _ListComp

    def _SetComp(self, node: ast.SetComp) -> set[Any]:
        return {inner.value(node.elt) for inner in self._loop(node.generators)}

    def _DictComp(self, node: ast.DictComp) -> dict[Any, Any]:
        return {inner.value(node.key): inner.value(node.value) for inner in self._loop(node.generators)}

    def _loop(self, generators: list[ast.comprehension]) -> Iterator[_Evaluation]:
        """One evaluation, with its own loop variables, for each round."""
        if not generators:
            yield self
            return
        first, *rest = generators
        for item in self.value(first.iter):
            inner = _Evaluation(self.symbols, dict(self.local))
            inner._bind(first.target, item)
            if all(inner.value(condition) for condition in first.ifs):
                yield from inner._loop(rest)

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
        return _BINARY[type(node.op)](self.value(node.left), self.value(node.right))

    def _UnaryOp(self, node: ast.UnaryOp) -> Any:
        return _UNARY[type(node.op)](self.value(node.operand))

    def _BoolOp(self, node: ast.BoolOp) -> Any:
        stops_at = isinstance(node.op, ast.Or)
        result = None
        for part in node.values:
            result = self.value(part)
            if bool(result) is stops_at:
                break
        return result

    def _Compare(self, node: ast.Compare) -> Any:
        left, result = self.value(node.left), True
        for comparison, part in zip(node.ops, node.comparators, strict=True):
            right = self.value(part)
            result = _COMPARE[type(comparison)](left, right)
            if not result:
                break
            left = right
        return result

    def _IfExp(self, node: ast.IfExp) -> Any:
        return self.value(node.body if self.value(node.test) else node.orelse)

    def _Call(self, node: ast.Call) -> Any:
        function, arguments = self.value(node.func), self._items(node.args)
        keywords: dict[str, Any] = {}
        for keyword in node.keywords:
            if keyword.arg is None:
                keywords.update(self.value(keyword.value))
            else:
                keywords[keyword.arg] = self.value(keyword.value)
        return function(*arguments, **keywords)

    def _Lambda(self, node: ast.Lambda) -> Callable[..., Any]:
        names = [a.arg for a in node.args.args]
        if len(names) != sum(map(len, (node.args.posonlyargs, node.args.args, node.args.kwonlyargs))) or any(
            (node.args.vararg, node.args.kwarg, node.args.defaults)
        ):
            raise RefusedExpression("a lambda takes plain arguments only")

        def function(*values: Any) -> Any:
            bound = dict(zip(names, values, strict=True))
            return _Evaluation(self.symbols, {**self.local, **bound}).value(node.body)

        return function

    # -- f-strings ------------------------------------------------------------------------------------------------

    def _JoinedStr(self, node: ast.JoinedStr) -> str:
        return "".join(str(self.value(part)) for part in node.values)

    def _FormattedValue(self, node: ast.FormattedValue) -> str:
        value = self.value(node.value)
        convert = {ord("s"): str, ord("r"): repr, ord("a"): ascii}.get(node.conversion)
        spec = "" if node.format_spec is None else self.value(node.format_spec)
        return format(value if convert is None else convert(value), spec)


def _is_name_space(holder: Any) -> bool:
    """Whether it is one of xacro's name spaces, where every name is a property and none a method."""
    return type(holder).__name__ in ("NameSpace", "Table")
