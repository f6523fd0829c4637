"""Variants are chosen by the reader's caller, whatever the stage selects."""

from __future__ import annotations

from pathlib import Path

import pytest

from kinema.read.usd import read_usd
from kinema.read.usd.validation import openusd_validation
from kit.diagnostics import ClaimedDiagnostics
from kit.usd_stages import BODY, COLLIDER, prim, write_stage

from .bad_stages import error_of


def with_variants(kind_and_name: str, name: str, variants: dict[str, str], selected: str) -> str:
    inside = "\n".join(f'"{variant}" {{\n{text}\n}}' for variant, text in variants.items())
    head = f'variants = {{\nstring {name} = "{selected}"\n}}\nprepend variantSets = "{name}"'
    return f'def {kind_and_name} (\n{head}\n)\n{{\nvariantSet "{name}" = {{\n{inside}\n}}\n}}'


def hand(name: str, fingers: int) -> str:
    shapes = [prim(f'Sphere "finger{i}"', apis=[COLLIDER]) for i in range(fingers)]
    return prim(f'Xform "{name}"', *shapes, apis=[BODY])


def robot() -> str:
    """A tool that is none or a hand; the hand has two or three fingers."""
    hands = with_variants('Xform "hand"', "fingers", {"two": hand("grip", 2), "three": hand("grip", 3)}, "two")
    return with_variants('Xform "robot"', "tool", {"none": hand("flange", 1), "hand": hands}, "none")


TOOL, FINGERS = {"/robot": {"tool": "hand"}}, {"/robot/hand": {"fingers": "three"}}


@pytest.mark.parametrize(
    ("variants", "shapes"), [({}, 1), (TOOL, 2), ({**TOOL, **FINGERS}, 3), ({**FINGERS, **TOOL}, 3)]
)
def test_a_choice_replaces_the_selection(
    variants: dict[str, dict[str, str]], shapes: int, tmp_path: Path, diagnostics: ClaimedDiagnostics
) -> None:
    """An inner set may come with an outer choice; in which order the two are given does not matter."""
    described = read_usd(write_stage(tmp_path, robot()), diagnostics=diagnostics, variants=variants)
    assert [len(link.shapes) for link in described.links] == [shapes]


def test_a_variant_inside_an_instance(tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """One instance differs from the others then."""
    copies = [
        f'def "{name}" (\n    instanceable = true\n    references = </robot>\n)\n{{\n}}' for name in ("left", "right")
    ]
    described = read_usd(
        write_stage(tmp_path, robot(), *copies),
        diagnostics=diagnostics,
        variants={
            "/left": {"tool": "hand"},
            "/right": {"tool": "hand"},
            "/left/hand": {"fingers": "three"},
        },
    )
    found = {link.origin.path: len(link.shapes) for link in described.links}
    assert found == {"/robot/flange": 1, "/left/hand/grip": 3, "/right/hand/grip": 2}


@pytest.mark.parametrize(
    ("variants", "words"),
    [
        ({"/robot": {"tool": "saw"}}, "no variant 'saw' of 'tool'; there are: hand, none"),
        ({"/robot": {"colour": "red"}}, "no variant set 'colour'; there are: tool"),
        ({"/robot/flange": {"colour": "red"}}, "no variant set 'colour'; it has none"),
        ({"/nobody": {"tool": "hand"}}, "no prim '/nobody'"),
        ({"no path": {"tool": "hand"}}, "no prim 'no path'"),
    ],
)
def test_a_choice_that_there_is_not(variants: dict[str, dict[str, str]], words: str, tmp_path: Path) -> None:
    """The message says what there is."""
    assert words in error_of(write_stage(tmp_path, robot()), variants=variants)


def test_openusd_validates_the_chosen_variant(tmp_path: Path) -> None:
    """OpenUSD's validators see what the reader sees: here a joint to nowhere that only one variant has."""
    bad = prim('PhysicsFixedJoint "j"', "rel physics:body1 = </gone>")
    stage = write_stage(tmp_path, with_variants('Xform "robot"', "mood", {"good": "", "bad": bad}, "good"))
    assert not openusd_validation(stage)
    found = openusd_validation(stage, variants={"/robot": {"mood": "bad"}})
    assert "openusd.JointInvalidPrimRel" in {d.code for d in found}
