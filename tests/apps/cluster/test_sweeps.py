"""Sweeps: what is tried, what is best, what fails."""

from __future__ import annotations

import csv
from collections.abc import Generator
from pathlib import Path

import numpy as np
import pytest

import kinema as km
from kinema.apps.cluster.sweeps import sample_parameters
from kinema.core import KinemaError
from kit.played import parabola, pendulum, settled

SPACE = {"controller.x": km.uniform(-10.0, 10.0), "link[bob].mass": [1.0, 2.0]}


def test_a_grid_has_all_combinations() -> None:
    found = list(sample_parameters({"a": [1, 2], "b": [3, 4, 5]}, "grid", None, 0))
    assert len({tuple(p.items()) for p in found}) == 6
    assert found[0] == {"a": 1, "b": 3}


@pytest.mark.parametrize("method", ["random", "sobol"])
def test_samples_fill_the_space(method: str) -> None:
    """They are within, the same again from the same seed; a Sobol sequence is even in every part of it."""
    space = {"a": km.uniform(2.0, 4.0), "b": km.loguniform(0.1, 10.0), "c": km.normal(1.0, 0.5), "d": ["x", "y"]}
    found = list(sample_parameters(space, method, 64, 3))
    assert found == list(sample_parameters(space, method, 64, 3))
    assert found != list(sample_parameters(space, method, 64, 4))
    a, b, c = (np.array([p[name] for p in found]) for name in "abc")
    assert ((a >= 2.0) & (a <= 4.0)).all()
    assert ((b >= 0.1) & (b <= 10.0)).all()
    assert abs(c.mean() - 1.0) < 0.25
    assert {p["d"] for p in found} == {"x", "y"}
    if method == "sobol":
        assert np.histogram(a, 8, (2.0, 4.0))[0].tolist() == [8] * 8
        assert np.histogram(np.log10(b), 8, (-1.0, 1.0))[0].tolist() == [8] * 8


def test_the_best_is_found_and_failures_have_their_row(tmp_path: Path) -> None:
    table = km.cluster.sweep(parabola, {"controller.x": [0.0, 2.5, 99.0, 3.5, 4.5]})
    assert [row.number for row in table.rows] == list(range(5))
    assert table.best.parameters == {"controller.x": 2.5}
    assert table.rows[2].failure == "ValueError: too far"
    assert "parabola" in table.rows[2].log
    table.save(tmp_path / "t.csv")
    with (tmp_path / "t.csv").open() as file:
        assert len(list(csv.reader(file))) == 6
    table.plot(tmp_path / "t.svg")
    assert (tmp_path / "t.svg").read_text().count("<circle") == 4
    assert table.text().splitlines()[1].split()[:2] == ["1", "2.5"]


def test_more_may_be_better() -> None:
    table = km.cluster.sweep(parabola, {"controller.x": [0.0, 2.5, 5.0]}, maximize=True)
    assert table.best.parameters == {"controller.x": 0.0}


def test_those_that_do_badly_are_given_up_early() -> None:
    """Half of them in every round; the best one had the largest budget."""
    stop = km.cluster.successive_halving(1, 2, 4)
    table = km.cluster.sweep(parabola, {"controller.x": list(range(8))}, early_stopping=stop)
    assert sorted(row.budget for row in table.rows) == [1, 1, 1, 1, 2, 2, 4, 4]
    assert table.best.parameters == {"controller.x": 3}
    assert table.best.values["objective"] == 0.25
    with pytest.raises(KinemaError, match="budgets that grow"):
        km.cluster.successive_halving(4, 2)


@pytest.mark.parametrize("on", [None, 2])
def test_a_generator_is_told_what_its_proposals_are_worth(on: int | None) -> None:
    """Golden-section search, as an example: two points at a time."""

    def search() -> Generator[list[dict[str, float]], list[float], None]:
        low, high = -10.0, 10.0
        for _ in range(12):
            a, b = low + (high - low) / 3, high - (high - low) / 3
            left, right = yield [{"controller.x": a}, {"controller.x": b}]
            low, high = (low, b) if left < right else (a, high)

    table = km.cluster.sweep(parabola, search(), on=on)
    assert len(table.rows) == 24
    assert table.best.parameters["controller.x"] == pytest.approx(3.0, abs=0.2)


def test_a_round_that_fails_as_a_whole_ends_the_search() -> None:
    def hopeless() -> Generator[list[dict[str, float]], list[float], None]:
        while True:
            yield [{"controller.x": 99.0}]

    with pytest.raises(KinemaError, match="all trials of a round failed: ValueError: too far"):
        km.cluster.sweep(parabola, hopeless())


def test_parameters_of_robot_and_controller_are_played() -> None:
    """More damping, be it the joint's or the controller's, leaves less motion."""
    recipe = km.cluster.make_env_spec(
        pendulum(damping=0.01), scene={"dt": 0.05, "contacts": False}, start_noise=(1.0, 0.0), steps=20, control="force"
    )
    for name in ("joint[hinge].damping", "controller.gain"):
        space = {name: [0.02, 2.0], **({"controller.gain": [0.0]} if name != "controller.gain" else {})}
        little, much = km.cluster.sweep(settled, space, env_spec=recipe).rows
        assert much.objective < 0.8 * little.objective


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"space": SPACE, "method": "guess"}, "none of grid, random, sobol"),
        ({"space": SPACE}, "a grid needs values"),
        ({"space": SPACE, "method": "random"}, "how many random samples"),
        ({"space": {}}, "nothing to vary"),
        ({"space": {"a": [1]}, "on": True}, "a number of processes"),
    ],
)
def test_what_cannot_be_asked_for(arguments: dict[str, object], words: str) -> None:
    with pytest.raises(KinemaError, match=words):
        km.cluster.sweep(parabola, **arguments)  # type: ignore[arg-type]
