"""From YAML text to plain values and the line of each; nothing in the text can make any other object."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from kinema.foundation import require

MAX_BYTES = 256 * 1024
_MAX_DEPTH = 50
_TAG = "tag:yaml.org,2002:"
_SCIENTIFIC = re.compile(r"[-+]?[0-9]+(\.[0-9]*)?[eE][-+]?[0-9]+")
"""Numbers such as 1e-3, which YAML 1.1 takes for text."""


class YamlError(ValueError):
    """The text is not usable; `line` is where, from 1, if that is known."""

    def __init__(self, message: str, line: int | None = None) -> None:
        super().__init__(message)
        self.line = line


@dataclass(slots=True, eq=False)
class YamlText:
    """The value, made of dicts, lists, texts, numbers, truth values and None."""

    value: Any
    lines: dict[str, int] = field(default_factory=dict)
    """Path, such as `joints[2].axis` -> line, from 1."""


def parse_yaml(data: bytes) -> YamlText:
    """The value in a YAML text; a `YamlError` with the line where it is none."""
    yaml = require("yaml", extra="cad", purpose="reading a file of joints")
    if len(data) > MAX_BYTES:
        raise YamlError(f"the file has {len(data)} bytes; at most {MAX_BYTES} are read")
    try:
        node = yaml.compose(data.decode("utf-8-sig"), Loader=yaml.SafeLoader)
    except UnicodeDecodeError as error:
        raise YamlError(f"the file is not UTF-8 text (byte {error.start})") from None
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise YamlError(f"this is not valid YAML: {error.problem or error}", mark and mark.line + 1) from None
    except yaml.YAMLError as error:
        raise YamlError(f"this is not valid YAML: {str(error).splitlines()[0]}") from None
    except RecursionError:
        raise YamlError("the values are nested too deeply") from None
    text = YamlText(None)
    text.value = None if node is None else _Values(yaml.constructor.SafeConstructor(), text.lines).of(node, "", 0)
    return text


@dataclass(slots=True, eq=False)
class _Values:
    """Makes values of the nodes of a text."""

    constructor: Any
    lines: dict[str, int]

    def of(self, node: Any, path: str, depth: int) -> Any:
        self.lines[path] = line = node.start_mark.line + 1
        if len(self.lines) > MAX_BYTES:
            raise YamlError("aliases make the file larger than it may be", line)
        if depth > _MAX_DEPTH:
            raise YamlError("the values are nested too deeply", line)
        if node.id == "sequence":
            return [self.of(item, f"{path}[{i}]", depth + 1) for i, item in enumerate(node.value)]
        if node.id == "mapping":
            return self._mapping(node, path, depth)
        return self._scalar(node)

    def _mapping(self, node: Any, path: str, depth: int) -> dict[str, Any]:
        result: dict[str, Any] = {}
        for key, value in node.value:
            line = key.start_mark.line + 1
            if key.id != "scalar":
                raise YamlError("the name of a field is not a text", line)
            if key.value in result:
                raise YamlError(f"the field {key.value!r:.60} stands there twice", line)
            result[key.value] = self.of(value, f"{path}.{key.value}" if path else key.value, depth + 1)
        return result

    def _scalar(self, node: Any) -> Any:
        kind = node.tag.removeprefix(_TAG)
        if kind == "str" and node.style is None and _SCIENTIFIC.fullmatch(node.value):
            return float(node.value)
        if kind in ("null", "bool", "int", "float"):
            try:
                return getattr(self.constructor, f"construct_yaml_{kind}")(node)
            except (ValueError, KeyError, IndexError):  # digits without end, or a tag that does not fit
                return node.value
        return node.value
