"""Xacro: what it expands, and what a hostile file cannot do."""

from __future__ import annotations

import importlib.util
import math
import sys
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from kinema.core import ReadError
from kinema.description import Mesh, Robot
from kinema.read.resolve import Resolver
from kinema.read.urdf import read_urdf, xacro_expand, xacro_worker
from kinema.read.urdf.xacro_expression import RefusedExpression, evaluate
from kit.diagnostics import ClaimedDiagnostics

from .urdf_files import write

XMLNS = 'xmlns:xacro="http://www.ros.org/wiki/xacro"'

needs_xacro = pytest.mark.skipif(importlib.util.find_spec("xacro") is None, reason="xacro is not installed")


def _xacro(folder: Path, inside: str, name: str = "bot.urdf.xacro") -> Path:
    return write(folder, inside, attributes=f'name="bot" {XMLNS}', name=name)


def _read(folder: Path, inside: str, diagnostics: ClaimedDiagnostics, arguments: dict[str, str] | None = None) -> Robot:
    resolve = Resolver(use_environment=False)
    return read_urdf(_xacro(folder, inside), diagnostics=diagnostics, resolve=resolve, arguments=arguments)


def _refusal(folder: Path, inside: str) -> str:
    """What a file that cannot be expanded is answered."""
    with pytest.raises(ReadError) as caught:
        read_urdf(_xacro(folder, inside), resolve=Resolver(use_environment=False))
    message = str(caught.value)
    assert message.startswith(str(folder))
    assert "\n" not in message
    return message


def _package(folder: Path, name: str = "pack") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "package.xml").write_text(f"<package><name>{name}</name></package>")
    return folder


# -- what it expands --------------------------------------------------------------------------------------------------


@needs_xacro
def test_macros_properties_and_conditions(tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """The expansion is read like any other file; places are those before it."""
    inside = """
      <xacro:property name="mass" value="2.0"/>
      <xacro:macro name="body" params="name m:=1 *pose">
        <link name="${name}_link"><inertial><xacro:insert_block name="pose"/><mass value="${m * mass}"/>
          <inertia ixx="${m/12}" ixy="0" ixz="0" iyy="1" iyz="0" izz="1"/></inertial></link>
      </xacro:macro>
      <xacro:body name="left" m="3"><origin xyz="0 ${sin(pi/2)} 0"/></xacro:body>
      <xacro:if value="${mass > 5}"><link name="heavy"/></xacro:if>
      <xacro:unless value="${mass > 5}"><link name="light"/></xacro:unless>"""
    robot = _read(tmp_path, inside, diagnostics)
    assert [link.name for link in robot.links] == ["left_link", "light"]
    inertial = robot.links[0].inertial
    assert inertial is not None
    assert (inertial.mass, inertial.center[1]) == (6.0, 1.0)
    lines = (tmp_path / "bot.urdf.xacro").read_text().splitlines()
    for link, written in zip(robot.links, ("${name}_link", "light"), strict=True):
        assert link.origin.file.endswith("bot.urdf.xacro")
        assert f'<link name="{written}"' in lines[(link.origin.line or 0) - 1]
    assert robot.source.endswith("bot.urdf.xacro")
    diagnostics.claim("urdf.xacro-expanded")


@needs_xacro
def test_places_of_what_is_included(tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """A problem is where its author can mend it: in the file that has the macro, not in the expansion."""
    (tmp_path / "parts.xacro").write_text(
        '<robot xmlns:xacro="http://ros.org/wiki/xacro">\n\n<xacro:macro name="wheel" params="name">\n'
        '<link name="${name}">\n<inertial><mass value="heavy"/></inertial>\n</link>\n</xacro:macro></robot>'
    )
    inside = '<xacro:include filename="parts.xacro"/><xacro:wheel name="left"/><link name="odd" extra="1"/>'
    robot = _read(tmp_path, inside, diagnostics)
    assert (robot.links[0].origin.file, robot.links[0].origin.line) == (str(tmp_path / "parts.xacro"), 4)
    bad = [d for d in diagnostics if d.code == "urdf.not-a-number"]
    assert {(d.origin.file, d.origin.line) for d in bad} == {(str(tmp_path / "parts.xacro"), 5)}
    assert not any("kinema-line" in extra.text for link in robot.links for extra in link.extras)
    for code in {d.code for d in diagnostics}:
        diagnostics.claim_all(code)


@needs_xacro
def test_arguments(tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """Their defaults, and the values that are given."""
    inside = '<xacro:arg name="side" default="left"/><link name="$(arg side)_arm"/>'
    assert _read(tmp_path, inside, diagnostics).links[0].name == "left_arm"
    assert _read(tmp_path, inside, diagnostics, {"side": "right"}).links[0].name == "right_arm"
    assert "'gone'" in _refusal(tmp_path, '<link name="$(arg gone)"/>')


@needs_xacro
def test_packages_includes_yaml_and_meshes(tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """`$(find ...)` goes through the resolver, and meshes may lie in what it found."""
    home, parts = _package(tmp_path / "home", "home"), _package(tmp_path / "parts", "parts")
    _xacro(parts / "urdf", '<xacro:macro name="arm" params="n"><link name="${n}"/></xacro:macro>', "arm.xacro")
    (parts / "mesh.stl").write_bytes(b"")
    (home / "urdf").mkdir()
    (home / "urdf" / "sizes.yaml").write_text("names: [one, two]\narm: {angle: !degrees 180}\n")
    inside = """<xacro:include filename="$(find parts)/urdf/*.xacro"/>
      <xacro:property name="sizes" value="${xacro.load_yaml('sizes.yaml')}"/>
      <xacro:arm n="${sizes['names'][1]}_${sizes.arm.angle}"/>
      <link name="b"><visual><geometry><mesh filename="file://$(find parts)/mesh.stl"/></geometry></visual></link>"""
    robot = _read(home / "urdf", inside, diagnostics)
    assert robot.links[0].name == f"two_{math.pi}"
    geometry = robot.links[1].shapes[0].geometry
    assert isinstance(geometry, Mesh)
    assert geometry.path == str((parts / "mesh.stl").resolve())


@needs_xacro
def test_xacro_in_a_file_with_another_suffix(tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """Elements decide; the declaration alone is what an expansion leaves behind."""
    file = _xacro(tmp_path, '<xacro:property name="n" value="a"/><link name="${n}"/>', "bot.urdf")
    assert read_urdf(file, diagnostics=diagnostics).links[0].name == "a"
    file = _xacro(tmp_path, '<link name="${n}"/>', "bot.urdf")
    assert read_urdf(file, diagnostics=diagnostics).links[0].name == "${n}"


def test_a_xacro_file_without_xacro_needs_no_package(
    tmp_path: Path, diagnostics: ClaimedDiagnostics, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is plain URDF; with xacro in it, the message says what to install."""
    monkeypatch.setitem(sys.modules, "xacro", None)
    file = write(tmp_path, '<link name="a"/>', name="plain.xacro")
    assert read_urdf(file, diagnostics=diagnostics).links[0].origin.line == 2
    assert "pip install 'kinema[xacro]'" in _refusal(tmp_path, '<link name="${1}"/>')


@needs_xacro
def test_warnings_of_xacro_are_diagnostics(tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """Its own, and those that files give."""
    inside = '<xacro:property name="pi" value="3"/><link name="a${xacro.warning(\'careful\')}"/>'
    _read(tmp_path, inside, diagnostics)
    assert [d.message for d in diagnostics.claim_all("urdf.xacro-warning")] == [
        "xacro: redefining global symbol: pi",
        "xacro: careful",
    ]


@needs_xacro
def test_an_optional_include_may_be_missing(tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """Any other may not."""
    robot = _read(tmp_path, '<xacro:include filename="no.xacro" optional="true"/><link name="a"/>', diagnostics)
    assert len(robot.links) == 1
    assert "no.xacro: there is no such file" in _refusal(tmp_path, '<xacro:include filename="no.xacro"/>')


# -- what a hostile file cannot do ------------------------------------------------------------------------------------


@needs_xacro
@pytest.mark.parametrize(
    "expression",
    [
        "().__class__",
        "(lambda: ().__class__.__base__.__subclasses__())()",
        "[x.__class__ for x in [1]]",
        "xacro.load_yaml.__globals__",
        "open('/etc/passwd')",
        "python.open('/etc/passwd')",
        "__import__('os').system('true')",
        "python.type(1)",
        "python.vars()",
        "'%s' % python.type",
        "exec('1')",
        "math.__loader__",
        "9**9**9",
        "1 << 10**10",
        "'a' * 10**10",
        "list(range(10**9))",
        "xacro.load_yaml('/etc/passwd')",
        "xacro.load_yaml('/proc/self/environ')",
    ],
)
def test_expressions_reach_nothing(tmp_path: Path, expression: str) -> None:
    """No attributes, functions, files or endless numbers beyond what a robot needs."""
    _refusal(tmp_path, f'<link name="${{{expression}}}"/>')


@needs_xacro
@pytest.mark.parametrize(
    "expression", ["open('/etc/passwd').read()", "().__class__", "[c for c in globals()]", "exec('1')", "env('PATH')"]
)
def test_eval_substitutions_reach_nothing(tmp_path: Path, expression: str) -> None:
    """`$(eval ...)` has all of Python's functions in xacro itself, but not here."""
    inside = f"<xacro:property name='e' value=\"{expression}\"/><link name='$(eval ${{e}})'/>"
    _refusal(tmp_path, inside)


@needs_xacro
def test_eval_substitutions_still_calculate(tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """Arithmetic, arguments and mathematics."""
    inside = '<xacro:arg name="n" default="4"/><link name="$(eval n * 2 + [1, 0][0 if true else 1] + pi // 3)"/>'
    assert _read(tmp_path, inside, diagnostics).links[0].name == "10.0"


@needs_xacro
def test_the_environment_is_hidden(
    tmp_path: Path, diagnostics: ClaimedDiagnostics, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is in it is nobody's business."""
    monkeypatch.setenv("SECRET", "42")
    assert "SECRET" in _refusal(tmp_path, '<link name="$(env SECRET)"/>')
    assert _read(tmp_path, '<link name="$(optenv SECRET none)"/>', diagnostics).links[0].name == "none"


@needs_xacro
@pytest.mark.parametrize("inside_home", [True, False])
def test_includes_stay_inside(tmp_path: Path, inside_home: bool) -> None:
    """A file beside the package, an absolute path, and a link that leads out."""
    _xacro(tmp_path / "other", '<link name="secret"/>', "secret.xacro")
    (tmp_path / "other" / "secret.yaml").write_text("a: 1")
    home = _package(tmp_path / "home") / "urdf" if inside_home else tmp_path / "plain" / "urdf"
    home.mkdir(parents=True, exist_ok=True)
    (home / "link.xacro").symlink_to(tmp_path / "other" / "secret.xacro")
    for name in ("../../other/secret.xacro", str(tmp_path / "other" / "secret.xacro"), "link.xacro", "../../other/*"):
        assert "outside the folders" in _refusal(home, f'<xacro:include filename="{name}"/>')
    assert "outside the folders" in _refusal(home, "<link name=\"${xacro.load_yaml('../../other/secret.yaml')}\"/>")
    assert "was not found" in _refusal(home, '<xacro:include filename="$(find other)/secret.xacro"/>')
    assert "not a package name" in _refusal(home, '<xacro:include filename="$(find ..)/secret.xacro"/>')


@needs_xacro
def test_circles_end(tmp_path: Path) -> None:
    """A file that includes itself, and a macro that calls itself."""
    assert "circle" in _refusal(tmp_path, '<xacro:include filename="bot.urdf.xacro"/>')
    macro = '<xacro:macro name="m" params=""><xacro:m/></xacro:macro><xacro:m/>'
    assert "circles" in _refusal(tmp_path, macro)


@needs_xacro
def test_endless_expansions_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Forty macros that each call the next one twice."""
    monkeypatch.setattr(xacro_expand, "SECONDS", 1.0)
    macros = "".join(
        f'<xacro:macro name="m{i}" params=""><xacro:m{i + 1}/><xacro:m{i + 1}/></xacro:macro>' for i in range(40)
    )
    message = _refusal(tmp_path, f'{macros}<xacro:macro name="m40" params=""><link name="a"/></xacro:macro><xacro:m0/>')
    assert "longer than 1 s" in message


@needs_xacro
def test_included_files_are_checked_like_all_xml(tmp_path: Path) -> None:
    """No entities; and the message names the file and line that is wrong."""
    (tmp_path / "a.xacro").write_text('<!DOCTYPE r [<!ENTITY a "a">]><robot/>')
    assert "a.xacro:1: document type" in _refusal(tmp_path, '<xacro:include filename="a.xacro"/>')
    (tmp_path / "a.xacro").write_text("<robot>\n<link></robot>")
    assert "a.xacro:2: not well-formed" in _refusal(tmp_path, '<xacro:include filename="a.xacro"/>')


@needs_xacro
@pytest.mark.parametrize(
    ("inside", "message"),
    [
        ('<link name="${1 +}"/>', "invalid syntax"),
        ('<link name="${missing}"/>', "'missing' is not defined"),
        ("<xacro:nothing/>", "unknown macro name"),
        ('<link name="$(find nowhere)"/>', "give its folder as a search path"),
        ('<link name="$(rosversion x)"/>', "Unknown substitution"),
        ('<xacro:if value="maybe"/>', "not a boolean"),
    ],
)
def test_mistakes_are_explained(tmp_path: Path, inside: str, message: str) -> None:
    """In one line, with what xacro says of them."""
    assert message in _refusal(tmp_path, inside)


def test_the_worker_opens_no_files_and_runs_no_programs() -> None:
    """The hook that it arms before it expands anything."""
    for event in ("open", "os.system", "subprocess.Popen", "socket.connect", "import", "exec", "ctypes.dlopen"):
        with pytest.raises(PermissionError):
            xacro_worker._refuse_audit_event(event, ())
    xacro_worker._refuse_audit_event("compile", ())


@needs_xacro
def test_an_unknown_version_of_xacro_is_not_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One without the functions that are replaced would not be contained."""
    fake = tmp_path / "library" / "xacro"
    fake.mkdir(parents=True)
    (fake / "__init__.py").write_text("def process_doc(*_, **__): raise SystemError('it ran')\n")
    (fake / "substitution_args.py").write_text("")
    monkeypatch.setattr(xacro_expand, "_library_paths", lambda _: [str(fake.parent)])
    assert "this version of the package 'xacro' is not supported" in _refusal(tmp_path, '<link name="${1}"/>')


# -- expressions ------------------------------------------------------------------------------------------------------

_SYMBOLS = {"x": 3, "names": ["a", "b"], "table": {"k": 2.5}, "len": len, "str": str, "map": map, "sorted": sorted}


@pytest.mark.parametrize(
    "expression",
    [
        "x + 2 * 3 - 4 / 5 // 1 % 7",
        "-x ** 2 if not x > 3 else +x",
        "1 < x <= 3 != 4 and x or 5",
        "0 or [] or names[-1]",
        "names[0:2][::-1] + [*names]",
        "{'a': 1, **{'b': x}}['b']",
        "table['k'] * len(names)",
        "[i * j for i in [1, 2, 3] if i != 2 for j in [x, 1]]",
        "{k: v for k, v in table.items()}",
        "{n for n in names}",
        "sorted(names, key=lambda n: -len(n + 'x'))",
        "', '.join(map(str, [1, 2])).upper().split(',')",
        "'%.2f and %s' % (1.0, 'b')",
        "'{:.1f} {n}'.format(2.0, n='c')",
        "f'{x:>4}{names[0]!r}'",
        "'a' in names and 'z' not in names and x is not None",
        "(x & 1) | (x ^ 6) + (~x >> 1 << 2)",
        "(1, 2)[1] if True else None",
    ],
)
def test_expressions_mean_what_python_means(expression: str) -> None:
    """The same value as Python's own evaluation."""
    assert evaluate(expression, _SYMBOLS) == eval(expression, {"__builtins__": {}, **_SYMBOLS})


_operators = st.sampled_from(["+", "-", "*", "<", "==", ">=", " and ", " or "])
_arithmetic = st.recursive(
    st.integers(-9, 9).map(str) | st.floats(-9, 9).map(repr),
    lambda inner: st.tuples(inner, _operators, inner).map(lambda t: f"({''.join(t)})"),
    max_leaves=12,
)


@given(expression=_arithmetic)
def test_arithmetic_means_what_python_means(expression: str) -> None:
    """On random expressions of numbers."""
    assert evaluate(expression, {}) == eval(expression, {"__builtins__": {}})


@pytest.mark.parametrize(
    "expression",
    [
        "x.__class__",
        "x.real.__class__",
        "__builtins__",
        "(yield 1)",
        "(y := 1)",
        "'{0.real}'.format(x)",
        "len.__self__",
        "[c for __c in names]",
        "str.mro()",
        "(lambda *a: a)(1)",
        "2 ** 1000000",
    ],
)
def test_refused_expressions(expression: str) -> None:
    """Whatever is not known is refused, not passed on."""
    with pytest.raises((RefusedExpression, SyntaxError)):
        evaluate(expression, _SYMBOLS)


@needs_xacro
def test_errors_say_where_they_stand(tmp_path: Path) -> None:
    """In the file and on the line before the expansion: plain elements, xacro's own, calls, and what macros hold."""
    macro = '<xacro:macro name="part" params="n">\n<link name="l${n}">\n<visual name="${gone}"/></link></xacro:macro>'
    _xacro(tmp_path, macro, "m.xacro")
    include = '<xacro:include filename="m.xacro"/>\n'
    for inside, place in (  # the root is on the first line
        ('<link name="a"/>\n<link name="${gone}"/>', "bot.urdf.xacro:3"),
        ('<link name="a"/>\n<xacro:if value="${gone}"><link name="b"/></xacro:if>', "bot.urdf.xacro:3"),
        (f'{include}<link name="a"/>\n<xacro:part n="${{1/0}}"/>', "bot.urdf.xacro:4"),
        (f'{include}<link name="a"/>\n<xacro:part n="1"/>', "m.xacro:4"),
    ):
        assert f"{place}: xacro: " in _refusal(tmp_path, inside)
