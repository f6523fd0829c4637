"""Stacks: a tower, boxes on boxes, a pyramid, a house of cards, cubes side by side."""

from __future__ import annotations

import tempfile
from itertools import product
from pathlib import Path

import numpy as np

import kinema as km
from kinema.apps.bench.heap import HeapKind, heap_mjcf

from .measured import FLOOR, Measured, boxes, largest, scene_of

STILL = {"double": 1e-6, "single": 1e-2}


def tower(precision: str = "single", n: int = 20) -> list[Measured]:
    """Boxes a millimetre apart to begin with: after two of three seconds they stand."""
    places = [(0.0, 0.0, 0.1 + 0.201 * i) for i in range(n)]
    scene, pile = scene_of(boxes(places), 1, floor=FLOOR, precision=precision)
    scene.step(1000)
    fastest = 0.0
    for _ in range(50):
        scene.step(10)
        fastest = max(fastest, largest(pile.get_qvel()))
    heights = pile.get_qpos().reshape(n, 7)[:, 2]
    lowest = (heights - [z - 0.1 for _, _, z in places]).min()
    return [
        Measured(f"{n} boxes, after 2 s: speed", fastest, STILL[precision], unit="m/s"),
        Measured("above half of its height, each", float(lowest), 0.0, at_least=True, unit="m"),
    ]


STIFF = 'solref="0.005 1" solimp="0.99 0.999 0.001"'
"""Contacts stiff enough for a column of 30 boxes: with MuJoCo's defaults it buckles, in double precision too."""


def tall_tower(precision: str = "single", n: int = 30, seconds: float = 60.0) -> list[Measured]:
    """Boxes half a millimetre apart to begin with, and their lean at the end."""
    places = [(0.0, 0.0, 0.1 + 0.2005 * i) for i in range(n)]
    floor = f'<geom type="plane" size="5 5 1" {STIFF}/>'
    bodies = boxes(places).replace('mass="1.0"', f'mass="1.0" {STIFF}')
    scene, pile = scene_of(bodies, 1, floor=floor, precision=precision)
    scene.step(round(seconds / 0.002))
    positions = pile.get_qpos().reshape(n, 7)[:, :3]
    return [
        Measured(f"{n} boxes, after {seconds:g} s: lean", largest(positions[:, :2]), 1e-3, unit="m"),
        Measured(
            "lowest of them, below its place by", largest(positions[:, 2] - [z for *_, z in places]), 0.02, unit="m"
        ),
    ]


def heap_at_rest(precision: str = "single", n_steps: int = 100_000) -> list[Measured]:
    """Twenty boxes in a bin, after ten seconds: how far the objects creep. With default friction 4 mm, as in MuJoCo."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "heap.xml"
        text = heap_mjcf(20, HeapKind.BOXES)
        file.write_text(text.replace("<option ", '<option impratio="10" '), encoding="utf-8")
        scene = km.Scene(quiet=True, precision=precision)
        heap = scene.add(km.read(file))
        scene.build()
    scene.step(2500)
    before = heap.get_qpos().reshape(-1, 7)[:, :3].copy()
    scene.step(n_steps)
    moved = np.linalg.norm(heap.get_qpos().reshape(-1, 7)[:, :3] - before, axis=1)
    return [Measured(f"20 boxes in {n_steps} steps: creep", largest(moved), 1e-8 * n_steps, unit="m")]


def boxes_on_boxes(precision: str = "single") -> list[Measured]:
    """Twenty environments, anyhow turned and moved a little: at rest after a second, where they should be."""
    rng, n = np.random.default_rng(0), 20
    scene, both = scene_of(boxes([(0, 0, 0.2), (0, 0, 0.6)], ".2 .2 .2"), n, floor=FLOOR, precision=precision)
    q = both.get_qpos()
    q[:, 7:9] = rng.uniform(-0.08, 0.08, (n, 2))
    turn = rng.uniform(0, 2 * np.pi, n)
    q[:, 10], q[:, 13] = np.cos(turn / 2), np.sin(turn / 2)
    both.set_qpos(q)
    scene.step(500)
    return [
        Measured("height of the upper one, off by", largest(both.get_qpos()[:, 9] - 0.6), 2e-3, unit="m"),
        Measured("speed after 1 s", largest(both.get_qvel()), 1e-2, unit="m/s"),
    ]


def pyramid(precision: str = "single") -> list[Measured]:
    """Four, three, two and one box: they stay for two seconds."""
    places = [(0.21 * k - 0.105 * (4 - row), 0.0, 0.1 + 0.2005 * row) for row in range(4) for k in range(4 - row)]
    scene, pile = scene_of(boxes(places), 1, floor=FLOOR, precision=precision)
    scene.step(1000)
    moved = pile.get_qpos().reshape(len(places), 7)[:, :3] - places
    return [
        Measured("10 boxes after 2 s: moved by", largest(moved), 5e-3, unit="m"),
        Measured("their speed", largest(pile.get_qvel()), 1e-2, unit="m/s"),
    ]


LEAN, CARD = np.radians(20.0), (0.002, 0.1, 0.15)
"""How far cards lean, and half of their sizes [m]."""


def card_house(precision: str = "single") -> list[Measured]:
    """Two pairs of cards that lean on each other and a card on top of them: it stands for two seconds."""
    thin, wide, tall = CARD
    high = tall * np.cos(LEAN) + thin * np.sin(LEAN)
    off = tall * np.sin(LEAN) + thin * np.cos(LEAN)
    step = 4 * off + 0.005
    card = f'<freejoint/><geom type="box" size="{thin} {wide} {tall}" mass=".01"/></body>'
    house = [
        f'<body pos="{x + side * off} 0 {high}" euler="0 {-side * np.degrees(LEAN)} 0">{card}'
        for x in (0.0, step)
        for side in (-1, 1)
    ]
    top = f'<body pos="{step / 2} 0 {2 * high + thin}" euler="0 90 0">{card}'
    option = 'cone="elliptic" impratio="100" noslip_iterations="5"'
    scene, cards = scene_of("".join([*house, top]), 1, option, floor=FLOOR, precision=precision)
    start = cards.get_qpos().reshape(-1, 7)[:, :3]
    scene.step(1000)
    moved = cards.get_qpos().reshape(-1, 7)[:, :3] - start
    return [
        Measured("5 cards after 2 s: moved by", largest(moved), 5e-3, unit="m"),
        Measured("their speed", largest(cards.get_qvel().reshape(-1, 6)[:, :3]), 1e-2, unit="m/s"),
    ]


def cubes(precision: str = "single", side: int = 5) -> list[Measured]:
    """Cubes side by side and on each other, 150 steps: none gets far."""
    places = [(0.21 * x, 0.21 * y, 0.1 + 0.2005 * z) for x, y, z in product(range(side), repeat=3)]
    scene, heap = scene_of(boxes(places), 1, floor=FLOOR, precision=precision)
    scene.step(150)
    moved = heap.get_qpos().reshape(len(places), 7)[:, :3] - places
    return [
        Measured(f"{side**3} cubes after 150 steps: moved by", largest(moved), 0.05, unit="m"),
        Measured("mean speed", float(np.abs(heap.get_qvel()).mean()), 0.05, unit="m/s"),
        Measured("contacts", float(scene.get_peak_contacts().max()), 4.0 * side**3, at_least=True),
    ]
