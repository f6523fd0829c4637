"""Fixtures for all tests, and how a run of them is set up and summarised."""

from __future__ import annotations

import gc
import os
import re
import shutil
import sys
import tempfile
import zlib
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.internal.conjecture import providers

from kit.diagnostics import ClaimedDiagnostics

settings.register_profile(
    "kinema", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
settings.load_profile("kinema")
# No numbers and texts are drawn from the sources: collecting them takes each worker seconds, and what a property draws
# would change with any file.
providers._get_local_constants = providers.Constants

_SHARE, _LEAST = 24, 2
"""Of the robots of a wide test one in so many is looked at, and at least so many."""
_EXAMPLES = 0.12
"""The share of the examples of a property that every run draws."""
_FEWEST_EXAMPLES = 4
"""The smallest number of examples drawn, unless a property asks for fewer."""
_SLOW = 10.0
"""Time from which on a test has to say why it takes so long [s]."""
_ENVIRONMENT = {
    "KINEMA_TIER": "baseline",  # optimised code takes ten times as long to compile, and computes the same
    "KINEMA_VECTOR_BITS": "128",  # as on AArch64; code for wider vectors takes longer to compile, and computes the same
    "KINEMA_THREADS": "2",  # there are several workers
    "OPENBLAS_NUM_THREADS": "1",
}
"""What processes of tests are started with, unless it is set already."""
_THRESHOLDS = 4_000_000, 5, 5
"""After how many new objects garbage is looked for, and after how many times among older ones."""
_DROPPED_ENGINES = 96
"""After how many scenes it is: those of tests are small, and have more around them than those of users."""
_CACHE = pytest.StashKey[Path]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Say what there is."""
    parser.addoption(
        "--all", action="store_true", help="run every robot of wide tests, every example and what is marked exhaustive"
    )
    parser.addoption("--cache-folder", help="compile into this folder and leave it there (otherwise an empty one)")


def pytest_configure(config: pytest.Config) -> None:
    """One cache for all workers, empty at first, so that nothing depends on earlier runs or is compiled twice."""
    for name, value in _ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    if hasattr(config, "workerinput"):
        return
    chosen = config.getoption("--cache-folder")
    if not chosen:
        chosen = config.stash[_CACHE] = Path(tempfile.mkdtemp(prefix="kinema-test-cache-"))
    os.environ["KINEMA_CACHE"] = str(Path(chosen).resolve())


@pytest.hookimpl(hookwrapper=True)
def pytest_collection() -> Iterator[None]:
    """Look for garbage only afterwards, and less often: what was collected stays, as do many objects of tests."""
    gc.disable()
    yield
    gc.freeze()
    gc.set_threshold(*_THRESHOLDS)
    gc.enable()
    if engine := sys.modules.get("kinema.dynamics.engine.engine"):
        engine.ENGINES.max_dropped = _DROPPED_ENGINES


def pytest_unconfigure(config: pytest.Config) -> None:
    """Remove the cache of this run."""
    if _CACHE in config.stash:
        shutil.rmtree(config.stash[_CACHE], ignore_errors=True)


# ----------------------------------------------------------------------------------------------------------- selection


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out most robots of wide tests (others for each test, and always the same ones) and exhaustive ones."""
    for item in items:
        for mark in item.iter_markers("slow"):
            if not (mark.args and isinstance(mark.args[0], str) and mark.args[0].strip()):
                raise pytest.UsageError(f'{item.nodeid}: @pytest.mark.slow("reason") says why it takes long')
    if config.getoption("--all") or any("::" in str(argument) for argument in config.args):
        return
    _draw_fewer_examples(items)
    wide = {item: _subject(item) for item in items if item.get_closest_marker("wide")}
    chosen = _share_of({*wide.values()})
    left_out = {item for item, subject in wide.items() if subject not in chosen}
    left_out |= {item for item in items if item.get_closest_marker("exhaustive")}
    config.hook.pytest_deselected(items=[item for item in items if item in left_out])
    items[:] = [item for item in items if item not in left_out]


def _draw_fewer_examples(items: list[pytest.Item]) -> None:
    """Of what Hypothesis draws; which are drawn is always the same."""
    name = "_hypothesis_internal_use_settings"  # there is no other way to change what a test has asked for
    for function in {item.obj for item in items if hasattr(getattr(item, "obj", None), name)}:  # type: ignore[attr-defined]
        own = getattr(function, name)
        n_fewest = min(_FEWEST_EXAMPLES, own.max_examples)
        setattr(function, name, settings(own, max_examples=max(int(_EXAMPLES * own.max_examples), n_fewest)))


def _subject(item: pytest.Item) -> str:
    """What is chosen of a wide test: a case, or all cases with one value of the parameter that the mark names."""
    mark = item.get_closest_marker("wide")
    if mark is None or not mark.args:
        return item.nodeid
    value = item.callspec.params[mark.args[0]]  # type: ignore[attr-defined]
    name = "/".join(value.parts[-2:]) if isinstance(value, Path) else str(value)
    return f"{item.nodeid.partition('[')[0]}[{name}]"


def _share_of(subjects: set[str]) -> set[str]:
    """Of each test a share of its subjects: those with the smallest checksums."""
    by_test: defaultdict[str, list[str]] = defaultdict(list)
    for subject in subjects:
        by_test[subject.partition("[")[0]].append(subject)
    return {
        subject
        for own in by_test.values()
        for subject in sorted(own, key=lambda x: (zlib.crc32(x.encode()), x))[: max(_LEAST, -(-len(own) // _SHARE))]
    }


# ------------------------------------------------------------------------------------------------------------- summary


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    """Reports carry the mark, as the process that summarises them has no items."""
    outcome = yield
    report = outcome.get_result()  # type: ignore[attr-defined]
    if item.get_closest_marker("slow"):
        report.user_properties.append(("slow", "slow"))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """What was skipped in one line, by reason; and what takes long without saying why."""
    skipped = Counter(_reason(report.longrepr) for report in terminalreporter.stats.get("skipped", []))
    if skipped:
        reasons = ", ".join(f"{reason} ({count})" for reason, count in skipped.most_common())
        terminalreporter.write_line(f"Skipped {skipped.total()}: {reasons}")
    times: Counter[str] = Counter()
    for report in terminalreporter.stats.get("passed", []):
        if ("slow", "slow") not in report.user_properties:
            times[report.nodeid] += report.duration
    unmarked = [f"{test} took {time:.0f} s" for test, time in times.most_common() if time > _SLOW]
    if unmarked:
        terminalreporter.write_line(f'Over {_SLOW:g} s without @pytest.mark.slow("reason"), if the machine was idle:')
        for line in unmarked:
            terminalreporter.write_line(f"  {line}")


def _reason(skip_report: object) -> str:
    """Why a test was skipped, without what differs from test to test."""
    text = skip_report[2] if isinstance(skip_report, tuple) else str(skip_report)
    return re.split(r"[;:(]", text.removeprefix("Skipped: "))[0].strip()


# ------------------------------------------------------------------------------------------------------------ fixtures


@pytest.fixture
def diagnostics() -> Iterator[ClaimedDiagnostics]:
    """A collector; the test fails if a warning or error is reported that it did not claim."""
    collector = ClaimedDiagnostics()
    yield collector
    left = collector.unclaimed()
    assert not left, "diagnostics that the test did not claim:\n" + "\n".join(str(d) for d in left)


@pytest.fixture
def no_program_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every program is traced: for tests that change constants of the code generator, which the cache cannot know."""
    monkeypatch.setattr("kinema.runtime.executables.program_key", lambda *_: None)
