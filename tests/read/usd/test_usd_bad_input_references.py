"""What a stage from a stranger brings in: files that may be read, and nothing that lasts beyond the read."""

from __future__ import annotations

import os
import zipfile
from pathlib import Path

import pytest

from kinema.core import Diagnostics
from kinema.description import Robot, World
from kinema.read.resolve import Resolver
from kinema.read.usd import read_usd
from kit.diagnostics import ClaimedDiagnostics

from .bad_stages import (
    BALL,
    HEAD,
    error_of,
    link_names,
    nothing_is_printed,  # noqa: F401 (a fixture for every test here)
    nothing_takes_long,  # noqa: F401
    stage,
)

# -- references -------------------------------------------------------------------------------------------------------


def reference(tmp_path: Path, to: str, diagnostics: Diagnostics, **settings) -> Robot | World:
    """Read a stage with a ball and a reference."""
    return read_usd(referring(tmp_path, to), diagnostics=diagnostics, **settings)


def referring(tmp_path: Path, to: str, name: str = "stage.usda") -> Path:
    return stage(tmp_path, f'def Xform "other" (\n    references = {to}\n)\n{{\n}}\n{BALL}', name)


def outside_stage(tmp_path: Path) -> Path:
    """A stage with a body, in a folder that the reading stage has nothing to do with."""
    folder = tmp_path / "elsewhere"
    folder.mkdir(exist_ok=True)
    return stage(folder, BALL.replace("ball", "secret"), "outside.usda")


@pytest.fixture
def home(tmp_path: Path) -> Path:
    folder = tmp_path / "some" / "where" / "home"
    folder.mkdir(parents=True)
    return folder


@pytest.mark.parametrize("arc", ["references", "payload", "subLayers"])
def test_an_unresolved_reference(tmp_path: Path, arc: str, diagnostics: ClaimedDiagnostics) -> None:
    """It is named, and the rest is read."""
    if arc == "subLayers":
        head = HEAD.replace("upAxis", "subLayers = [@./gone.usda@]\n    upAxis")
        file = stage(tmp_path, BALL, head=head)
    else:
        file = stage(tmp_path, f'def "a" (\n    {arc} = @./gone.usda@</x>\n)\n{{\n}}\n{BALL}')
    assert link_names(read_usd(file, diagnostics=diagnostics)) == ["ball"]
    assert "./gone.usda" in diagnostics.claim("usd.reference-missing").message


def test_a_reference_to_a_prim_that_is_not_there(tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """OpenUSD's own words are given, with the file and not an address in memory."""
    stage(tmp_path, "", "other.usda")
    reference(tmp_path, "@./other.usda@</nowhere>", diagnostics)
    message = diagnostics.claim("usd.composition").message
    assert "other.usda" in message
    assert "anon:" not in message
    diagnostics.claim_all("usd.openusd")


def test_a_broken_layer_behind_a_reference(tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """The rest is read."""
    (tmp_path / "other.usda").write_text("#usda 1.0\ndef {", encoding="utf-8")
    assert link_names(reference(tmp_path, "@./other.usda@", diagnostics)) == ["ball"]
    diagnostics.claim("usd.reference-unreadable")


@pytest.mark.parametrize(
    "to",
    [
        "{outside}",
        "../../../elsewhere/outside.usda",
        "{outside}:SDF_FORMAT_ARGS:x=1",
        '`"{outside}"`',
        "file://{outside}",
        "./link.usda",
    ],
)
def test_a_reference_outside_the_allowed_folders(home: Path, to: str, diagnostics: ClaimedDiagnostics) -> None:
    """Refused in every spelling: absolute, climbing, with arguments, as an expression, as a URI, through a link."""
    outside = outside_stage(home.parents[2])
    (home / "link.usda").symlink_to(outside)
    found = reference(home, f"@{to.format(outside=outside)}@", diagnostics)
    assert link_names(found) == ["ball"]
    diagnostics.claim("usd.reference-refused")


def test_a_refused_reference_two_layers_down(home: Path, diagnostics: ClaimedDiagnostics) -> None:
    """What a layer brings in is looked at like what the stage brings in."""
    outside = outside_stage(home.parents[2])
    stage(home, f'def Xform "deep" (\n    references = @{outside}@\n)\n{{\n}}', "middle.usda")
    assert link_names(reference(home, "@./middle.usda@", diagnostics)) == ["ball"]
    assert "middle.usda" in diagnostics.claim("usd.reference-refused").origin.file


def test_a_search_path_lets_a_reference_through(home: Path, diagnostics: ClaimedDiagnostics) -> None:
    """What is refused is read once its folder is given."""
    outside = outside_stage(home.parents[2])
    found = reference(home, f"@{outside}@", diagnostics, resolve=Resolver(search_paths=[outside.parent]))
    assert sorted(link_names(found)) == ["ball", "secret"]


def test_nothing_is_looked_up_in_the_working_folder(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A missing layer is missing, even if the folder that the process happens to be in has one of its name."""
    outside = outside_stage(home.parents[2])
    monkeypatch.chdir(outside.parent)
    diagnostics = ClaimedDiagnostics()
    for to in ("@./outside.usda@", "@outside.usda@"):
        assert link_names(reference(home, to, diagnostics)) == ["ball"]
    assert len(diagnostics.claim_all("usd.reference-missing")) == 2


@pytest.mark.parametrize("to", ["https://example.com/robot.usda", "omniverse://host/x.usd", "anon:0x0:x.usda"])
def test_a_reference_to_another_machine(tmp_path: Path, to: str, diagnostics: ClaimedDiagnostics) -> None:
    """Nothing is fetched."""
    assert link_names(reference(tmp_path, f"@{to}@", diagnostics)) == ["ball"]
    diagnostics.claim("usd.reference-refused")


def test_a_file_that_is_no_layer_is_not_opened(tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """Only USD files are layers, whatever plugins OpenUSD has."""
    (tmp_path / "shader.mtlx").write_text('<materialx version="1.38"/>', encoding="utf-8")
    assert link_names(reference(tmp_path, "@./shader.mtlx@", diagnostics)) == ["ball"]
    diagnostics.claim("usd.reference-refused")


@pytest.mark.parametrize("suffix", [".usda", ".usdc"])
def test_value_clips_are_not_opened(home: Path, suffix: str, diagnostics: ClaimedDiagnostics) -> None:
    """Values that lie in other files are not fetched when they are asked for."""
    from pxr import Sdf

    clip = home.parents[2] / "clip.usda"
    clip.write_text('#usda 1.0\ndef Sphere "ball"\n{\n    double radius.timeSamples = {\n        0: 7,\n    }\n}\n')
    clips = f"""clips = {{
        dictionary default = {{
            asset[] assetPaths = [@{clip}@]
            asset manifestAssetPath = @{clip}@
            string primPath = "/ball"
            double2[] active = [(0, 0)]
            double2[] times = [(0, 0)]
        }}
    }}
    prepend apiSchemas"""
    text = stage(home, BALL.replace("prepend apiSchemas", clips).replace("double radius = 0.1", "double radius"))
    file = text.with_suffix(suffix)
    Sdf.Layer.OpenAsAnonymous(str(text)).Export(str(file))
    shape = read_usd(file, diagnostics=diagnostics).links[0].shapes[0]
    assert shape.geometry.radius == 1.0  # type: ignore[union-attr] # the schema's fallback
    diagnostics.claim("usd.value-clips")


CYCLES = {
    "itself": {"stage.usda": "@./stage.usda@</World>"},
    "each other": {"stage.usda": "@./b.usda@</World/other>", "b.usda": "@./stage.usda@</World/other>"},
    "its parent": {"stage.usda": "</World>"},
    "three": {"stage.usda": "@./b.usda@", "b.usda": "@./c.usda@", "c.usda": "@./stage.usda@"},
}


@pytest.mark.parametrize("files", CYCLES.values(), ids=CYCLES.keys())
def test_cyclic_references(tmp_path: Path, files: dict[str, str]) -> None:
    """A circle of references is reported once it closes; what is outside the circle is read."""
    diagnostics = ClaimedDiagnostics()
    for name, to in files.items():
        referring(tmp_path, to, name)
    names = link_names(read_usd(tmp_path / "stage.usda", diagnostics=diagnostics))
    assert names
    assert all(name.endswith("ball") for name in names)
    assert "cycle" in diagnostics.claim_all("usd.composition")[0].message.lower()


def test_sublayer_cycles(tmp_path: Path) -> None:
    """Sublayers that bring each other in."""
    for name, other in (("a.usda", "b.usda"), ("b.usda", "a.usda")):
        stage(tmp_path, BALL, name, HEAD.replace("upAxis", f"subLayers = [@./{other}@]\n    upAxis"))
    diagnostics = ClaimedDiagnostics()
    assert link_names(read_usd(tmp_path / "a.usda", diagnostics=diagnostics)) == ["ball"]
    diagnostics.claim_all("usd.composition")


@pytest.mark.parametrize("instanceable", [False, True])
def test_references_that_unfold_without_end(tmp_path: Path, instanceable: bool) -> None:
    """Ten references in each of ten levels would be ten thousand million prims: refused before they are made."""
    flag = "instanceable = true\n" if instanceable else ""
    text = "".join(
        f'def "L{level}"\n{{\n'
        + "".join(
            f'    def "c{i}" (\n        {flag}references = </World/L{level + 1}>\n    )\n    {{\n    }}\n'
            for i in range(10)
        )
        + "}\n"
        for level in range(10)
    )
    assert "unfold" in error_of(stage(tmp_path, text + 'def "L10"\n{\n}'))


def test_variant_sets_without_their_variant(tmp_path: Path) -> None:
    """A selection that is not there, and one that is asked for but is not there."""
    text = """
    def Xform "robot" (
        variants = { string size = "huge" }
        prepend variantSets = "size"
    )
    {
        variantSet "size" = {
            "small" {
            }
        }
    }
    """
    file = stage(tmp_path, text + BALL)
    assert link_names(read_usd(file)) == ["ball"]
    assert "small" in error_of(file, variants={"/World/robot": {"size": "huge"}})
    assert "/World/nobody" in error_of(file, variants={"/World/nobody": {"size": "small"}})


# -- archives ---------------------------------------------------------------------------------------------------------


def archive(file: Path, members: dict[str, bytes], compression: int = zipfile.ZIP_STORED) -> Path:
    """A zip whose files begin at multiples of 64 bytes, as a usdz has to have them."""
    with zipfile.ZipFile(file, "w", compression) as out:
        for name, data in members.items():
            info = zipfile.ZipInfo(name)
            info.compress_type = compression
            header = out.fp.tell() + 30 + len(name.encode())  # type: ignore[union-attr]
            info.extra = b"\x86\x19" + (padding := (-header - 4) % 64).to_bytes(2, "little") + b"\0" * padding
            out.writestr(info, data)
    return file


ARCHIVED = f'{HEAD}def Xform "World"\n{{\n{BALL}\n}}\n'.encode()


def test_a_sound_archive_is_read(tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """The first file is the stage; it may refer to others in the archive."""
    main = ARCHIVED.replace(
        b"def Sphere", b'def Xform "more" (\n    references = @./sub/part.usda@\n)\n{\n}\ndef Sphere'
    )
    part = ARCHIVED.replace(b'"ball"', b'"part"')
    file = archive(tmp_path / "a.usdz", {"main.usda": main, "sub/part.usda": part})
    assert sorted(link_names(read_usd(file, diagnostics=diagnostics))) == ["ball", "part"]
    found = reference(tmp_path, "@./a.usdz[sub/part.usda]@", diagnostics)
    assert sorted(link_names(found)) == ["ball", "part"]


@pytest.mark.parametrize(
    "name", ["../evil.usda", "/etc/evil.usda", "a/../../evil.usda", "..\\evil.usda", "C:/evil.usda"]
)
def test_an_archive_with_paths_that_lead_out(tmp_path: Path, name: str) -> None:
    """It is refused as a whole, as a stage and behind a reference."""
    file = archive(tmp_path / "a.usdz", {"main.usda": ARCHIVED, name: ARCHIVED})
    assert "leads out" in error_of(file)
    diagnostics = ClaimedDiagnostics()
    assert link_names(reference(tmp_path, "@./a.usdz@", diagnostics)) == ["ball"]
    diagnostics.claim("usd.reference-unreadable")


def test_a_zip_bomb(tmp_path: Path) -> None:
    """Compressed files are not unpacked."""
    file = archive(tmp_path / "a.usdz", {"main.usda": b"#usda 1.0\n" + b" " * 50_000_000}, zipfile.ZIP_DEFLATED)
    assert file.stat().st_size < 100_000
    assert "compressed" in error_of(file)


@pytest.mark.parametrize(
    "to", ["{outside}", "../outside.usda", "../../elsewhere/outside.usda", "/etc/passwd", "gone.usda"]
)
def test_a_layer_in_an_archive_stays_in_it(home: Path, to: str, diagnostics: ClaimedDiagnostics) -> None:
    """What an archived layer refers to is in the archive or is not read."""
    outside = outside_stage(home.parents[2])
    (home / "outside.usda").write_bytes(outside.read_bytes())
    extra = f'def Xform "more" (\n    references = @{to.format(outside=outside)}@\n)\n{{\n}}\ndef Sphere'
    file = archive(home / "a.usdz", {"main.usda": ARCHIVED.replace(b"def Sphere", extra.encode())})
    assert link_names(read_usd(file, diagnostics=diagnostics)) == ["ball"]
    diagnostics.claim("usd.reference-missing" if to == "gone.usda" else "usd.reference-refused")


@pytest.mark.parametrize("members", [{}, {"readme.txt": b"x"}, {"image.png": b"x", "main.usda": ARCHIVED}])
def test_an_archive_without_a_stage(tmp_path: Path, members: dict[str, bytes]) -> None:
    """The first file has to be a layer."""
    error_of(archive(tmp_path / "a.usdz", members))


def test_a_damaged_archive(tmp_path: Path) -> None:
    """Bytes that do not fit the archive's own checksum are not read."""
    file = archive(tmp_path / "a.usdz", {"main.usda": ARCHIVED})
    data = bytearray(file.read_bytes())
    data[data.index(b"radius")] = 0
    file.write_bytes(data)
    error_of(file)


# -- reading twice ----------------------------------------------------------------------------------------------------


def test_a_changed_file_is_read_anew(tmp_path: Path) -> None:
    """What is on the disk counts, in the stage and behind references, even when nothing but the content changed."""
    for name in ("first", "other"):
        stage(tmp_path, BALL.replace("ball", name), "part.usda")
        file = referring(tmp_path, "@./part.usda@")
        os.utime(tmp_path / "part.usda", (1, 1))
        os.utime(file, (1, 1))
        assert sorted(link_names(read_usd(file))) == sorted(["ball", name])


def test_a_refused_reference_does_not_alter_the_next_read(home: Path) -> None:
    """The same stage, read first without, then with its search path, then without again."""
    outside = outside_stage(home.parents[2])
    stage(home, f'def Xform "deep" (\n    references = @{outside}@\n)\n{{\n}}', "middle.usda")
    file = referring(home, "@./middle.usda@")
    allowed = Resolver(search_paths=[outside.parent])
    for resolve, wanted in ((None, ["ball"]), (allowed, ["ball", "secret"]), (None, ["ball"])):
        assert sorted(link_names(read_usd(file, resolve=resolve))) == wanted


def test_a_variant_chosen_once_is_not_chosen_again(tmp_path: Path) -> None:
    """Choices are made in memory, for one read."""
    text = """
    def Xform "robot" (
        variants = { string size = "small" }
        prepend variantSets = "size"
    )
    {
        variantSet "size" = {
            "small" {
            }
            "large" {
                %s
            }
        }
    }
    """
    file = stage(tmp_path, text % BALL)
    assert link_names(read_usd(file)) == []
    assert link_names(read_usd(file, variants={"/World/robot": {"size": "large"}})) == ["ball"]
    assert link_names(read_usd(file)) == []


def test_a_stage_that_the_user_has_open_is_left_alone(tmp_path: Path) -> None:
    """Reading neither sees nor throws away what the user changed in memory."""
    from pxr import Usd

    file = referring(tmp_path, "@./gone.usda@")
    mine = Usd.Stage.CreateInMemory()
    layer = mine.GetRootLayer()
    opened = type(layer).FindOrOpen(str(file))
    opened.GetPrimAtPath("/World").customData = {"mine": 1}
    text = opened.ExportToString()
    assert link_names(read_usd(file)) == ["ball"]
    assert opened.ExportToString() == text
    assert opened.dirty
