"""Episodes: the same bits whoever plays them; data sets that go on where they were."""

from __future__ import annotations

import importlib.util
import io
import json
import shutil
from pathlib import Path

import numpy as np
import pytest

import kinema as km
from kinema.apps.cluster import InProcess, LocalProcesses, Stage, Store, playing
from kinema.apps.cluster.playing import Group, Keeping, make_player
from kinema.apps.cluster.shards import columns, digest
from kinema.description import Mesh
from kinema.foundation import KinemaError, ReadError, recorded_entries
from kit.assets import EXAMPLES
from kit.failing_stores import fail_at
from kit.played import Push, pendulum, swinging

needs_arrow = pytest.mark.skipif(importlib.util.find_spec("pyarrow") is None, reason="needs pyarrow: kinema[cluster]")


@pytest.fixture(scope="module")
def stage() -> Stage:
    return Stage(swinging(), 8)


def test_an_episode_is_the_same_whoever_plays_it(stage: Stage) -> None:
    """In another order, in another group, in a stage of another size, beside fewer others."""
    whole = stage.play(np.arange(8), Push())
    stage.play(np.arange(100, 108), Push())
    for other, episodes in ((stage, [5, 2, 3]), (Stage(swinging(), 3), [2, 5])):
        played = other.play(np.array(episodes), Push())
        for episode in episodes:
            one, same = whole.episode == episode, played.episode == episode
            for name in ("step", "obs", "action", "reward", "done", "broken"):
                np.testing.assert_array_equal(getattr(whole, name)[one], getattr(played, name)[same])


def test_rows_are_steps_that_were_taken(stage: Stage) -> None:
    """Each episode from step 0 until it ends, by being too fast or after its time; none lasts longer."""
    played = stage.play(np.arange(8), Push())
    lengths = np.bincount(played.episode)
    assert len(set(lengths)) > 1
    assert lengths.max() <= 20
    starts = np.flatnonzero(played.step == 0)
    assert played.episode[starts].tolist() == list(range(8))
    ends = np.append(starts[1:], len(played.step)) - 1
    for end, length in zip(ends, lengths, strict=True):
        assert played.done[end] == (length < 20) or length == 20
    assert not np.delete(played.done, ends).any()
    kept = columns(played, "episodes")
    np.testing.assert_array_equal(kept["length"], lengths)
    expected = [played.reward[played.episode == k].sum() for k in range(8)]
    np.testing.assert_allclose(kept["return"], expected, rtol=1e-5)


def test_episodes_begin_apart(stage: Stage) -> None:
    first = stage.play(np.arange(8), None)
    begins = first.obs[first.step == 0]
    assert len(np.unique(begins, axis=0)) == 8
    assert np.abs(begins[:, 0]).max() <= 1.0
    assert np.abs(begins[:, 1]).max() <= 0.5


@pytest.fixture
def plain_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without Apache Arrow, parts are NumPy's files: what is tested is who writes them, and when."""

    def packed(found: dict[str, np.ndarray]) -> bytes:
        stream = io.BytesIO()
        np.savez(stream, allow_pickle=False, **found)  # type: ignore[arg-type]
        return stream.getvalue()

    monkeypatch.setitem(playing.FORMATS, "parquet", packed)
    monkeypatch.setattr(playing, "arrow", lambda: None)


@pytest.mark.usefixtures("plain_files")
def test_a_data_set_goes_on_where_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Parts that are there are not played again; whatever was lost is; the content is the same."""
    played: list[int] = []
    call = playing.Player.__call__
    monkeypatch.setattr(playing.Player, "__call__", lambda self, g: (played.append(g.number), call(self, g))[1])
    first = km.cluster.rollouts(swinging(), Push(), 20, out=tmp_path, group=8)
    assert played == [0, 1, 2]
    assert (first.episodes, len(first.parts)) == (20, 3)
    (tmp_path / "part-000001.parquet").unlink()
    (tmp_path / "records" / "part-000002.json").write_text("{half")
    again = km.cluster.rollouts(swinging(), Push(), 20, out=tmp_path, group=8)
    assert played == [0, 1, 2, 1, 2]
    assert again.content == first.content
    assert km.cluster.open_dataset(tmp_path).content == first.content
    manifest = json.loads((tmp_path / "manifest.json").read_text())
    assert [p["first"] for p in manifest["parts"]] == [0, 8, 16]
    for words, changes in (
        ("episodes 20, not 21", {"episodes": 21}),
        ("another recipe or policy", {"policy": None}),
        ("another recipe or policy", {"recipe": swinging().changed({"link[bob].mass": 2.0})}),
    ):
        arguments = {"recipe": swinging(), "policy": Push(), "episodes": 20, **changes}
        with pytest.raises(KinemaError, match=words):
            km.cluster.rollouts(**arguments, out=tmp_path, group=8)


@pytest.mark.usefixtures("plain_files")
@pytest.mark.skipif(importlib.util.find_spec("fsspec") is None, reason="needs fsspec: kinema[cluster]")
def test_a_data_set_in_an_object_store(stage: Stage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A store that fails half-way keeps what is whole; what is missing is played the next time, and nothing else."""
    monkeypatch.setattr(playing, "Stage", lambda *_: stage)
    played: list[int] = []
    call = playing.Player.__call__
    monkeypatch.setattr(playing.Player, "__call__", lambda self, g: (played.append(g.number), call(self, g))[1])
    with monkeypatch.context() as patched:
        fail_at(patched, "part-000001.parquet")
        with pytest.raises(KinemaError, match=r"part-000001: memory://set/part-000001\.parquet: No space left"):
            km.cluster.rollouts(swinging(), Push(), 20, out="memory://set", group=8)
    with pytest.raises(ReadError, match="no data set of rollouts, or it is not finished"):
        km.cluster.open_dataset("memory://set")
    there = km.cluster.rollouts(swinging(), Push(), 20, out="memory://set", group=8)
    assert played == [0, 1, 1, 2]
    assert Store("memory://set").names() == [
        "head.json",
        "manifest.json",
        *(f"part-00000{i}.parquet" for i in range(3)),
    ]
    assert km.cluster.open_dataset("memory://set").content == there.content
    here = km.cluster.rollouts(swinging(), Push(), 20, out=tmp_path, group=8)
    assert here.content == there.content


@needs_arrow
def test_processes_play_the_same(tmp_path: Path) -> None:
    """As this process does; the table has a row for each step."""
    here = km.cluster.rollouts(swinging(), Push(), 20, out=tmp_path / "a", group=8, on=InProcess())
    there = km.cluster.rollouts(swinging(), Push(), 20, out=tmp_path / "b", group=8, on=LocalProcesses(2))
    assert here.content == there.content
    third = km.cluster.rollouts(swinging(), Push(), 20, out=tmp_path / "c", group=8, format="arrow")
    assert third.content == here.content
    assert third.table().equals(here.table())
    table = there.table()
    assert table.num_rows == there.rows
    assert sorted(set(table.column("episode").to_pylist())) == list(range(20))


def test_a_worker_starts_with_what_others_compiled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On another machine, that is with an empty cache, nothing is compiled."""
    stage = Stage(swinging(steps=3), 4)
    with recorded_entries() as entries:
        found = digest(columns(stage.play(np.arange(4), Push()), "steps"))
    monkeypatch.setenv("KINEMA_CACHE", str(tmp_path / "empty"))
    for module in ("compilers", "generation"):
        monkeypatch.setattr(f"kinema.backend.{module}.FOREGROUND", None)  # nobody compiles
    monkeypatch.setitem(playing.FORMATS, "parquet", lambda _: b"")
    player = make_player(swinging(steps=3), 4, Keeping(Push(), "steps", 1, ""), entries)
    assert player(Group(0, 0, 4))[0]["digest"] == found


def test_whoever_does_not_see_the_folder_hands_over_what_it_has(stage: Stage, tmp_path: Path) -> None:
    """A folder of that name may be another one: it is known by a sign in it."""
    (tmp_path / "sign").touch()
    for sign, sees in (("sign", True), ("another", False)):
        keeping = Keeping(Push(), "steps", 1, str(tmp_path), sign, "made-up")
        with pytest.MonkeyPatch.context() as patched:
            patched.setitem(playing.FORMATS, "made-up", lambda _: b"content")
            record, content = playing.Player(stage, keeping)(Group(0, 0, 2))
        file = tmp_path / record["file"]
        assert (content, file.exists()) == ((b"", True) if sees else (b"content", False))
        file.unlink(missing_ok=True)


def test_mesh_files_travel_by_content(tmp_path: Path) -> None:
    """A recipe that was made where its files are is used where they are not."""
    arm = tmp_path / "arm"
    shutil.copytree(EXAMPLES / "arm", arm)
    recipe = km.cluster.recipe(km.cluster.thing(arm / "arm.urdf", fixed=True))
    assert recipe.files
    shutil.rmtree(arm)
    (robot,) = recipe.descriptions()
    meshes = [s.geometry for link in robot.links for s in link.shapes if isinstance(s.geometry, Mesh)]
    assert meshes
    by_content = set(recipe.files.values())
    assert all(Path(mesh.path).read_bytes() in by_content for mesh in meshes)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"control": "thought"}, "none of actuators"),
        ({"randomize": {"colour": km.uniform(0, 1)}}, "randomize 'colour'"),
        ({"steps": 0}, "at least one step"),
        ({"speed": 3}, "there is no 'speed'"),
    ],
)
def test_a_recipe_refuses_what_there_is_not(arguments: dict[str, object], words: str) -> None:
    with pytest.raises(KinemaError, match=words):
        km.cluster.recipe(pendulum(), **arguments)  # type: ignore[arg-type]


def test_functions_go_by_name(stage: Stage) -> None:
    """A policy that others have too; one that gives nonsense is told so."""
    named = stage.play(np.arange(2), "kit.played:Push")
    np.testing.assert_array_equal(named.obs, stage.play(np.arange(2), Push()).obs)
    with pytest.raises(KinemaError, match="expected an array of shape"):
        stage.play(np.arange(2), lambda obs: obs[0])
    with pytest.raises(KinemaError, match=r"policy kit\.played:Pull"):
        stage.play(np.arange(2), "kit.played:Pull")
