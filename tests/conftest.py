"""What holds for every test: how Hypothesis looks for examples, who runs what, and that nothing is skipped unseen.

Who found a promise broken is noted, as a run that failed by that is not looked at a second time (tools/second-look).

With several processes a file is run by one of them, so that what its tests share is made once. Those of Spark take
longest and come first; each process has a JVM for them.

Each run draws its own examples from a seed that it says; what failed is run again with the seed it failed with. In CI
the seed follows from the content of the commit: another change draws others, and a change that passed passes again.

On a developer's machine a skipped test prints its reason. Under CI=true it fails with it: a check that does
not run there protects nothing.
"""

import inspect
import os
import re
import secrets
import subprocess
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import settings

IN_CI = os.environ.get("CI", "").lower() == "true"

SPARK = Path(__file__).parent / "spark"

#: How many times more examples than usual a property has: `make long` multiplies them.
TIMES = int(os.environ.get("LAKELOG_EXAMPLES", "1"))


def examples(usual: int) -> int:
    """How many examples a property has that needs another number than Hypothesis gives."""
    return usual * TIMES


settings.register_profile("lakelog", deadline=None, derandomize=False, print_blob=True, max_examples=examples(100))
settings.load_profile("lakelog")

#: A request that says nothing of time gives up after this, and not after the five seconds of httpx, for which a busy
#: machine may stand still. All its functions and clients have their default from this one value.
PATIENCE_S = 60.0
vars(inspect.signature(httpx.Client).parameters["timeout"].default).update(vars(httpx.Timeout(PATIENCE_S)))


def pytest_configure(config: pytest.Config) -> None:
    """Choose the seed before Hypothesis reads it. One that failed is taken again for what failed, and no other."""
    if config.option.hypothesis_seed is None:
        seed = _seed_of_the_run(config) or _failed_seed(config) or (_seed_of_the_commit() if IN_CI else None)
        config.option.hypothesis_seed = seed or str(secrets.randbits(32))


def _seed_of_the_run(config: pytest.Config) -> str | None:
    return getattr(config, "workerinput", {}).get("lakelog_seed")


def _failed_seed(config: pytest.Config) -> str | None:
    if not config.pluginmanager.hasplugin("cacheprovider") or not config.getoption("lf"):
        return None
    return config.cache.get("lakelog/seed", None)  # type: ignore[union-attr]


def _seed_of_the_commit() -> str | None:
    """None where there is no commit."""
    command = ["git", "rev-parse", "--verify", "--quiet", "HEAD^{tree}"]
    try:
        ended = subprocess.run(command, cwd=Path(__file__).parent, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return None
    return str(int(ended.stdout[:8], 16)) if ended.returncode == 0 else None


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Called for each process that runs tests, where there are several."""
    node.workerinput["lakelog_seed"] = node.config.option.hypothesis_seed


def pytest_report_header(config: pytest.Config) -> str:
    return f"seed: {config.option.hypothesis_seed}, {TIMES} times the usual examples"


@pytest.fixture(scope="session")
def s3_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A real S3-compatible server, one for all tests; each takes a prefix of its own."""
    from tests.support import s3_server as support

    program = support.find_server()
    if program is None:
        pytest.skip(support.MISSING)
    with support.s3_serving(tmp_path_factory.mktemp("s3"), program) as server:
        yield server


@pytest.fixture(scope="session")
def azure_server() -> Iterator[Any]:
    """Azure's own emulator, for the tests by LAKELOG_AZURE=1."""
    from tests.support import azure_server as support

    with support.azure_serving(support.find_azure()) as server:
        yield server


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: SPARK not in item.path.parents)
    if TIMES > 1:
        for item in items:
            item.add_marker(pytest.mark.timeout(TIMES * float(item.config.getini("timeout"))))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if not hasattr(report, "wasxfail"):
        fail_if_skipped(report)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    report = yield
    fail_if_skipped(report)
    return report


def fail_if_skipped(report: pytest.TestReport | pytest.CollectReport) -> None:
    if IN_CI and report.outcome == "skipped":
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr
        report.outcome = "failed"
        report.longrepr = f"Nothing may be skipped under CI=true. {reason}"


#: How a traceback ends that says so.
FOUND_BROKEN = re.compile(r"^E\s+(?:\w+\.)*Broken\b", re.MULTILINE)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    reports = [each for kind in ("failed", "error") for each in terminalreporter.getreports(kind)]
    seed = config.option.hypothesis_seed
    if reports:
        terminalreporter.write_line(f'The same examples once more: make test ARGS="--hypothesis-seed={seed} ..."')
    if config.pluginmanager.hasplugin("cacheprovider"):
        config.cache.set("lakelog/seed", seed if reports else None)  # type: ignore[union-attr]
        broken = [each.nodeid for each in reports if FOUND_BROKEN.search(str(each.longrepr))]
        config.cache.set("lakelog/broken", broken)  # type: ignore[union-attr]
