"""One Spark session for all Spark tests: the first Delta write of a JVM costs more than most tests."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from jobs.session import build_session

HERE = Path(__file__).parent
CACHE = HERE.parents[1] / ".cache"
SECONDS_WITH_A_COLD_JVM = 300


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(SECONDS_WITH_A_COLD_JVM))


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A local Spark session with Delta, on two cores."""
    session = build_session(
        "lakelog tests",
        master="local[2]",
        cache_dir=Path(os.environ.get("LAKELOG_CACHE") or CACHE),
        extra={"spark.sql.warehouse.dir": str(tmp_path_factory.mktemp("warehouse"))},
    )
    yield session
    session.stop()
