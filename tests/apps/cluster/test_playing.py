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
from kinema.apps.cluster import EpisodeRunner, InProcessExecutor, LocalProcessExecutor, Store, rollout_collection
from kinema.apps.cluster.dataset import columns_digest, episode_columns
from kinema.apps.cluster.rollout_collection import EpisodeGroup, OutputSettings, make_rollout_worker
from kinema.core import KinemaError, ReadError, record_entries
from kinema.description import Mesh
from kit.assets import EXAMPLES
from kit.failing_stores import fail_at
from kit.played import Push, pendulum, swinging

needs_arrow = pytest.mark.skipif(importlib.util.find_spec("pyarrow") is None, reason="needs pyarrow: kinema[cluster]")


@pytest.fixture(scope="module")
def stage() -> EpisodeRunner:
    return EpisodeRunner(swinging(), 8)


def test_an_episode_is_the_same_whoever_plays_it(stage: EpisodeRunner) -> None:
    """In another order, in another group, in a stage of another size, beside fewer others."""
    whole = stage.run_episodes(np.arange(8), Push())
    stage.run_episodes(np.arange(100, 108), Push())
    for other, episodes in ((stage, [5, 2, 3]), (EpisodeRunner(swinging(), 3), [2, 5])):
        played = other.run_episodes(np.array(episodes), Push())
        for episode in episodes:
            one, same = whole.episode == episode, played.episode == episode
            for name in ("step", "obs", "action", "reward", "done", "broken"):
                np.testing.assert_array_equal(getattr(whole, name)[one], getattr(played, name)[same])


def test_rows_are_steps_that_were_taken(stage: EpisodeRunner) -> None:
    """Each episode from step 0 until it ends, by being too fast or after its time; none lasts longer."""
    played = stage.run_episodes(np.arange(8), Push())
    lengths = np.bincount(played.episode)
    assert len(set(lengths)) > 1
    assert lengths.max() <= 20
    starts = np.flatnonzero(played.step == 0)
    assert played.episode[starts].tolist() == list(range(8))
    ends = np.append(starts[1:], len(played.step)) - 1
    for end, length in zip(ends, lengths, strict=True):
        assert played.done[end] == (length < 20) or length == 20
    assert not np.delete(played.done, ends).any()
    kept = episode_columns(played, "episodes")
    np.testing.assert_array_equal(kept["length"], lengths)
    expected = [played.reward[played.episode == k].sum() for k in range(8)]
    np.testing.assert_allclose(kept["return"], expected, rtol=1e-5)


def test_episodes_begin_apart(stage: EpisodeRunner) -> None:
    first = stage.run_episodes(np.arange(8), None)
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

    monkeypatch.setitem(rollout_collection.FILE_ENCODERS, "parquet", packed)
    monkeypatch.setattr(rollout_collection, "import_pyarrow", lambda: None)


@pytest.mark.usefixtures("plain_files")
def test_a_data_set_goes_on_where_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Parts that are there are not played again; whatever was lost is; the content is the same."""
    played: list[int] = []
    call = rollout_collection.RolloutWorker.__call__
    monkeypatch.setattr(
        rollout_collection.RolloutWorker, "__call__", lambda self, g: (played.append(g.number), call(self, g))[1]
    )
    first = km.cluster.rollouts(swinging(), Push(), 20, out=tmp_path, group_size=8)
    assert played == [0, 1, 2]
    assert (first.episodes, len(first.parts)) == (20, 3)
    (tmp_path / "part-000001.parquet").unlink()
    (tmp_path / "records" / "part-000002.json").write_text("{half")
    again = km.cluster.rollouts(swinging(), Push(), 20, out=tmp_path, group_size=8)
    assert played == [0, 1, 2, 1, 2]
    assert again.content_digest == first.content_digest
    assert km.cluster.open_dataset(tmp_path).content_digest == first.content_digest
    manifest = json.loads((tmp_path / "manifest.json").read_text())
    assert [p["first"] for p in manifest["parts"]] == [0, 8, 16]
    for words, changes in (
        ("episodes 20, not 21", {"episodes": 21}),
        ("another recipe or policy", {"policy": None}),
        ("another recipe or policy", {"env_spec": swinging().with_parameters({"link[bob].mass": 2.0})}),
    ):
        arguments = {"env_spec": swinging(), "policy": Push(), "episodes": 20, **changes}
        with pytest.raises(KinemaError, match=words):
            km.cluster.rollouts(**arguments, out=tmp_path, group_size=8)


@pytest.mark.usefixtures("plain_files")
@pytest.mark.skipif(importlib.util.find_spec("fsspec") is None, reason="needs fsspec: kinema[cluster]")
def test_a_data_set_in_an_object_store(stage: EpisodeRunner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A store that fails half-way keeps what is whole; what is missing is played the next time, and nothing else."""
    monkeypatch.setattr(rollout_collection, "EpisodeRunner", lambda *_: stage)
    played: list[int] = []
    call = rollout_collection.RolloutWorker.__call__
    monkeypatch.setattr(
        rollout_collection.RolloutWorker, "__call__", lambda self, g: (played.append(g.number), call(self, g))[1]
    )
    with monkeypatch.context() as patched:
        fail_at(patched, "part-000001.parquet")
        with pytest.raises(KinemaError, match=r"part-000001: memory://set/part-000001\.parquet: No space left"):
            km.cluster.rollouts(swinging(), Push(), 20, out="memory://set", group_size=8)
    with pytest.raises(ReadError, match="no data set of rollouts, or it is not finished"):
        km.cluster.open_dataset("memory://set")
    there = km.cluster.rollouts(swinging(), Push(), 20, out="memory://set", group_size=8)
    assert played == [0, 1, 1, 2]
    assert Store("memory://set").list_files() == [
        "head.json",
        "manifest.json",
        *(f"part-00000{i}.parquet" for i in range(3)),
    ]
    assert km.cluster.open_dataset("memory://set").content_digest == there.content_digest
    here = km.cluster.rollouts(swinging(), Push(), 20, out=tmp_path, group_size=8)
    assert here.content_digest == there.content_digest


@needs_arrow
def test_processes_play_the_same(tmp_path: Path) -> None:
    """As this process does; the table has a row for each step."""
    here = km.cluster.rollouts(swinging(), Push(), 20, out=tmp_path / "a", group_size=8, on=InProcessExecutor())
    there = km.cluster.rollouts(swinging(), Push(), 20, out=tmp_path / "b", group_size=8, on=LocalProcessExecutor(2))
    assert here.content_digest == there.content_digest
    third = km.cluster.rollouts(swinging(), Push(), 20, out=tmp_path / "c", group_size=8, format="arrow")
    assert third.content_digest == here.content_digest
    assert third.to_arrow().equals(here.to_arrow())
    table = there.to_arrow()
    assert table.num_rows == there.rows
    assert sorted(set(table.column("episode").to_pylist())) == list(range(20))


def test_a_worker_starts_with_what_others_compiled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On another machine, that is with an empty cache, nothing is compiled."""
    stage = EpisodeRunner(swinging(steps=3), 4)
    with record_entries() as entries:
        found = columns_digest(episode_columns(stage.run_episodes(np.arange(4), Push()), "steps"))
    monkeypatch.setenv("KINEMA_CACHE", str(tmp_path / "empty"))
    for module in ("llvm_compiler", "compilation"):
        monkeypatch.setattr(f"kinema.runtime.{module}.FOREGROUND", None)  # nobody compiles
    monkeypatch.setitem(rollout_collection.FILE_ENCODERS, "parquet", lambda _: b"")
    player = make_rollout_worker(swinging(steps=3), 4, OutputSettings(Push(), "steps", 1, ""), entries)
    assert player(EpisodeGroup(0, 0, 4))[0]["digest"] == found


def test_whoever_does_not_see_the_folder_hands_over_what_it_has(stage: EpisodeRunner, tmp_path: Path) -> None:
    """A folder of that name may be another one: it is known by a sign in it."""
    (tmp_path / "sign").touch()
    for sign, sees in (("sign", True), ("another", False)):
        keeping = OutputSettings(Push(), "steps", 1, str(tmp_path), sign, "made-up")
        with pytest.MonkeyPatch.context() as patched:
            patched.setitem(rollout_collection.FILE_ENCODERS, "made-up", lambda _: b"content")
            record, content = rollout_collection.RolloutWorker(stage, keeping)(EpisodeGroup(0, 0, 2))
        file = tmp_path / record["file"]
        assert (content, file.exists()) == ((b"", True) if sees else (b"content", False))
        file.unlink(missing_ok=True)


def test_mesh_files_travel_by_content(tmp_path: Path) -> None:
    """A recipe that was made where its files are is used where they are not."""
    arm = tmp_path / "arm"
    shutil.copytree(EXAMPLES / "arm", arm)
    recipe = km.cluster.make_env_spec(km.cluster.scene_entity(arm / "arm.urdf", fixed=True))
    assert recipe.mesh_files
    shutil.rmtree(arm)
    (robot,) = recipe.load_descriptions()
    meshes = [s.geometry for link in robot.links for s in link.shapes if isinstance(s.geometry, Mesh)]
    assert meshes
    by_content = set(recipe.mesh_files.values())
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
        km.cluster.make_env_spec(pendulum(), **arguments)  # type: ignore[arg-type]


def test_functions_go_by_name(stage: EpisodeRunner) -> None:
    """A policy that others have too; one that gives nonsense is told so."""
    named = stage.run_episodes(np.arange(2), "kit.played:Push")
    np.testing.assert_array_equal(named.obs, stage.run_episodes(np.arange(2), Push()).obs)
    with pytest.raises(KinemaError, match="expected an array of shape"):
        stage.run_episodes(np.arange(2), lambda obs: obs[0])
    with pytest.raises(KinemaError, match=r"policy kit\.played:Pull"):
        stage.run_episodes(np.arange(2), "kit.played:Pull")
