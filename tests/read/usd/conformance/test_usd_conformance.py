"""Every property of the UsdPhysics schema: authored, left at its fallback, and in other units."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kinema.description import Robot
from kit.diagnostics import ClaimedDiagnostics
from kit.usd_conformance.bodies import body
from kit.usd_conformance.case import Case, agrees, read_sample, read_text
from kit.usd_conformance.cases import CASES
from kit.usd_conformance.joints import joint
from kit.usd_conformance.schema import schema_properties
from kit.usd_conformance.shapes import BALLS
from kit.usd_conformance.table import TABLE_FILE, table
from kit.usd_stages import prim

READ: dict[tuple[tuple[str, str], str], tuple[Any]] = {}
"""Values of the samples that tests have read in this process, for the table."""
SAMPLES = [(case, name) for case in CASES for name in case.samples()]


@pytest.mark.parametrize(("case", "name"), SAMPLES, ids=[f"{c.schema}.{c.name}-{n}" for c, n in SAMPLES])
def test_property(case: Case, name: str, tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """The description holds the value in SI."""
    sample = case.samples()[name]
    value = read_sample(case, sample, tmp_path, diagnostics)
    READ[case.key, name] = (value,)
    for code in sample.claims:
        diagnostics.claim(code)
    assert agrees(value, sample.expected), f"{value} instead of {sample.expected}"


def test_every_property_of_the_schema_has_a_case() -> None:
    """The cases cover what the installed OpenUSD calls UsdPhysics, no more and no less, once each."""
    assert sorted(case.key for case in CASES) == sorted(schema_properties())
    assert len(CASES) == 54


def test_the_table_in_the_documents_is_up_to_date() -> None:
    """docs/usd-conformance.md is what `tools/usd_conformance.py` makes of the cases."""
    if not TABLE_FILE.exists():
        pytest.skip("the documents are not beside the tests")
    assert TABLE_FILE.read_text() == table(READ), "run python tools/usd_conformance.py"


KINDS = {
    "PhysicsJoint": ("six_axis", 6),
    "PhysicsFixedJoint": ("fixed", 0),
    "PhysicsRevoluteJoint": ("continuous", 1),
    "PhysicsPrismaticJoint": ("prismatic", 1),
    "PhysicsSphericalJoint": ("spherical", 3),
    "PhysicsDistanceJoint": ("distance", 0),
}
"""Joint class -> the description's kind and its degrees of freedom, without any limit."""


@pytest.mark.parametrize("schema", KINDS)
def test_kind_of_joint(schema: str, tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """Each joint class becomes the joint of that kind."""
    described = read_text(joint(schema), tmp_path, diagnostics)
    found = described.joint()
    assert (found.kind.value, found.n_dofs) == KINDS[schema]


@pytest.mark.parametrize(("marked", "root"), [("anchor", "anchor"), ("body", "body")])
def test_articulation_root(marked: str, root: str, tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """The articulation root schema on a body makes it the robot's root."""
    head = f'def Xform "{marked}" (\n    prepend apiSchemas = ['
    text = joint("PhysicsRevoluteJoint").replace(head, f'{head}"PhysicsArticulationRootAPI", ')
    described = read_text(text, tmp_path, diagnostics).described
    assert isinstance(described, Robot)
    assert described.root == root
    assert described.tree().roots == (root,)


# -- what is beside the properties ------------------------------------------------------------------------------------

PURPOSES = {
    # what the geometry says of itself -> whether a collider is seen, and whether a plain shape is there at all
    "": (True, True),
    'uniform token purpose = "render"': (True, True),
    'uniform token purpose = "guide"': (False, False),
    'uniform token purpose = "proxy"': (False, False),
    'token visibility = "invisible"': (False, False),
}


@pytest.mark.parametrize("line", PURPOSES)
def test_what_is_seen(line: str, tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """Guides, proxies and invisible shapes are not looked at; colliders collide whatever they are for."""
    seen, there = PURPOSES[line]
    inside = prim('Xform "group"', line, prim('Cube "collider"', apis=["PhysicsCollisionAPI"]), prim('Cube "plain"'))
    link = read_text(body(inside), tmp_path, diagnostics).link()
    assert {s.name: (s.visual, s.collision) for s in link.shapes} == {
        "collider": (seen, True),
        **({"plain": (True, False)} if there else {}),
    }


def test_what_hangs_on_a_static_collider(tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """A door does not collide with the wall its hinge names; it does with the floor, and with another wall."""
    static = [prim(f'Cube "{name}"', apis=["PhysicsCollisionAPI"]) for name in ("wall", "floor", "other")]
    door = prim('Cube "door"', apis=["PhysicsRigidBodyAPI", "PhysicsCollisionAPI"])
    hinge = prim('PhysicsRevoluteJoint "hinge"', "rel physics:body0 = </wall>", "rel physics:body1 = </door>")
    described = read_text("\n".join([*static, door, hinge]), tmp_path, diagnostics)
    assert described.touching() == {"door-floor", "door-other"}


COLLECTIONS = {
    "a body and what is below it": ("rel collection:colliders:includes = </a>", {"a"}),
    "everything but one": (
        "uniform bool collection:colliders:includeRoot = true\nrel collection:colliders:excludes = </a>",
        {"b", "c", "d"},
    ),
    "exactly what is named": (
        'uniform token collection:colliders:expansionRule = "explicitOnly"\n'
        "rel collection:colliders:includes = [</a>, </b/b_shape>]",
        {"b"},
    ),
    "another collection": ("rel collection:colliders:includes = </nested.collection:colliders>", {"c"}),
}


@pytest.mark.parametrize("case", COLLECTIONS)
def test_members_of_a_group(case: str, tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """A collection names colliders, bodies, anything above them, or other collections."""
    lines, members = COLLECTIONS[case]
    nested = prim('PhysicsCollisionGroup "nested"', "rel collection:colliders:includes = </c>")
    groups = [nested, prim('PhysicsCollisionGroup "group"', lines)]
    described = read_text("\n".join([BALLS, *groups]), tmp_path, diagnostics).described
    found = next(g for g in described.collision.groups if g.name == "/group")
    assert {name.removesuffix("_shape") for name in found.members} == members
