"""Robots and episodes in an S3 store, by Ray nodes of this machine: `make cluster`.

It needs `pip install 'moto[server]' s3fs`.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import kinema as km
from kinema.apps.cluster import Store, stores
from kit.assets import EXAMPLES
from kit.command_line import run
from kit.played import Push, swinging
from kit.ray_nodes import contents, nodes

NEEDED = ("ray", "pyarrow", "moto", "flask", "flask_cors")
MISSING = [name for name in NEEDED if importlib.util.find_spec(name) is None]
pytestmark = [
    pytest.mark.cluster,
    pytest.mark.filterwarnings("ignore"),  # of Ray's own
    pytest.mark.skipif(
        bool(MISSING), reason=f"needs {', '.join(MISSING)}: pip install 'kinema[cluster]' 'moto[server]'"
    ),
]
SIGNED = {"Authorization": "AWS4-HMAC-SHA256 Credential=nobody/20260101/us-east-1/s3/aws4_request"}


@pytest.fixture(params=["arrow", "fsspec"])
def bucket(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """An S3 store on this machine, reached by the library `fsspec` has for it, or by Apache Arrow without that."""
    if request.param == "fsspec" and importlib.util.find_spec("s3fs") is None:
        pytest.skip("needs s3fs")
    if request.param == "arrow":  # in every process that is started: as where s3fs is not installed
        (tmp_path / "s3fs.py").write_text("raise ImportError('not here')")
        monkeypatch.setitem(sys.modules, "s3fs", None)
        monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=":")
    server: Any = importlib.import_module("moto.server").ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    for name, value in {
        "AWS_ENDPOINT_URL": f"http://{host}:{port}",
        "AWS_ACCESS_KEY_ID": "nobody",
        "AWS_SECRET_ACCESS_KEY": "nothing",
        "AWS_DEFAULT_REGION": "us-east-1",
        "KINEMA_CACHE": str(tmp_path / "cache"),
    }.items():
        monkeypatch.setenv(name, value)
    asked = urllib.request.Request(f"http://{host}:{port}/robots", method="PUT", headers=SIGNED)
    urllib.request.urlopen(asked).close()
    yield "s3://robots"
    server.stop()


def test_from_a_store_to_a_store(bucket: str, tmp_path: Path) -> None:
    """Robots as from a folder to a folder, file by file, and not twice; episodes with the same content."""
    store = Store(f"{bucket}/in")
    assert ("Arrow" in type(store._fs).__name__) == ((tmp_path / "s3fs.py").exists())
    store.upload_folder(EXAMPLES / "arm", last=EXAMPLES / "arm" / "arm.urdf")
    assert run("convert", EXAMPLES / "arm", tmp_path / "local", "--to", "usda")[0] == 0
    words = ("convert", f"{bucket}/in", f"{bucket}/out", "--to", "usda", "--cluster")
    with nodes(2):
        code, printed, _ = run(*words)
        assert (code, f"are in {bucket}/out" in printed) == (0, True)
        again = run(*words)[2]
        there = km.cluster.rollouts(swinging(), Push(), 20, out=f"{bucket}/data", group_size=8, on="auto")
    assert "files are done already" in again
    assert contents(stores.mirror_to_cache(f"{bucket}/out")) == contents(tmp_path / "local")
    here = km.cluster.rollouts(swinging(), Push(), 20, out=tmp_path / "data", group_size=8)
    assert there.content_digest == here.content_digest
    assert km.cluster.open_dataset(f"{bucket}/data").to_arrow().equals(here.to_arrow())
