"""Modules of the scene depend on each other in one direction only, for types as well."""

from __future__ import annotations

import ast
import graphlib
from pathlib import Path

SCENE = Path(__file__).parents[2] / "src" / "kinema" / "scene"


def test_no_module_needs_one_that_needs_it() -> None:
    """Imports for type checkers count: a circle of them is a circle of ideas."""
    graph = {
        path.stem: {
            node.module.partition(".")[0]
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
            if isinstance(node, ast.ImportFrom) and node.level == 1 and node.module
        }
        for path in SCENE.glob("*.py")
        if path.stem != "__init__"
    }
    order = list(graphlib.TopologicalSorter(graph).static_order())
    assert order.index("entity") < order.index("scene")
