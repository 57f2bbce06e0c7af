"""Fixtures of the feature table: every test runs on every runtime, and what it finds is noted for its row."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from features.rows import RUNTIMES, row_of
from features.table import Outcome, save
from printed import Printed
from real_worker import RealWorker, engines_lost
from tiremote.client import Session, connect

HERE = Path(__file__).parent

#: Where what the tests found is written for `make features`.
OUTCOMES = os.environ.get("TIREMOTE_FEATURES")

_found: list[Outcome] = []


def runtimes() -> tuple[str, ...]:
    """Those that are installed, of TIREMOTE_TEST_RUNTIMES where that is set. Where CI is set all have to be there."""
    asked = os.environ.get("TIREMOTE_TEST_RUNTIMES")
    wanted = tuple(asked.split(",")) if asked else RUNTIMES
    unknown = [name for name in wanted if name not in RUNTIMES]
    missing = [name for name in wanted if importlib.util.find_spec(name) is None]
    if unknown or (missing and (asked or os.environ.get("CI"))):
        raise pytest.UsageError(f"the feature table cannot run on {', '.join(unknown or missing)}: not installed here")
    return tuple(name for name in RUNTIMES if name in wanted and name not in missing)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "runtime" in metafunc.fixturenames:
        metafunc.parametrize("runtime", runtimes(), scope="session")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """On a runtime that lacks a row the tests of the refusal stay, on the others those of the row."""
    elsewhere = [item for item in items if HERE in item.path.parents and not _belongs(item)]
    if elsewhere:
        config.hook.pytest_deselected(items=elsewhere)
        items[:] = [item for item in items if item not in elsewhere]
    if config.option.collectonly:
        _found.extend(_outcome(item, "collected") for item in items if HERE in item.path.parents)


def _belongs(item: pytest.Item) -> bool:
    one = _outcome(item, "")
    return (one.kind == "lacking") == (one.runtime in row_of(one.group, one.row).lacking)


def _outcome(item: pytest.Item, outcome: str) -> Outcome:
    mark = item.get_closest_marker("feature")
    if mark is None:
        raise pytest.UsageError(f"{item.nodeid} does not say which row of the feature table it is of")
    group, row, kind = mark.args
    assert isinstance(item, pytest.Function)
    runtime = item.callspec.params["runtime"]
    return Outcome(group=group, row=row, kind=kind, runtime=runtime, test=item.nodeid, outcome=outcome)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    report = yield
    if report.when == "call" or report.outcome != "passed":
        _found.append(_outcome(item, report.outcome))
    return report


def pytest_sessionfinish() -> None:
    if OUTCOMES:
        save(_found, Path(OUTCOMES))


@pytest.fixture(scope="session")
def runtime_worker(runtime: str, arch: str) -> Iterator[RealWorker]:
    """A worker of one runtime, which all tests on that runtime share and must not end."""
    with RealWorker("--runtime", runtime, arch=arch) as worker:
        yield worker


@pytest.fixture(scope="module")
def printed() -> Printed:
    """What the remote code of `gpu` prints."""
    return Printed()


@pytest.fixture(scope="module")
def one_session(runtime_worker: RealWorker, arch: str, printed: Printed) -> Iterator[Session]:
    """A session that the tests of one file share on one runtime."""
    with connect(runtime_worker.address, arch=arch, on_output=printed) as gpu:
        yield gpu


@pytest.fixture
def gpu(one_session: Session, printed: Printed) -> Iterator[Session]:
    """That session, emptied after each test; an engine that a test has cost fails it."""
    printed.clear()
    lost = engines_lost(one_session)
    yield one_session
    one_session.cleanup_all()
    assert engines_lost(one_session) == lost, "the engine was replaced"


@pytest.fixture(scope="module")
def another_session(runtime_worker: RealWorker, arch: str) -> Iterator[Session]:
    """Another session on the same worker, whose handles mean nothing in the first."""
    with connect(runtime_worker.address, arch=arch, on_output=None) as gpu:
        yield gpu
