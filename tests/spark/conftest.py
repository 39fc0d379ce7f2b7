"""One Spark session for all Spark tests: the first Delta write of a JVM costs more than most tests.

None of their JVMs lives long enough for its second compiler to pay. Without it they do two thirds of the work at first,
and nine tenths of it later. Nor are there rows enough, in the session that all share, for queries to be compiled, and
planned again while they run: without that it takes two thirds of the time. Programs that tests start have Spark as
everybody has it, but for jobs that are there to be killed.
"""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from jobs.spark.session import build_session
from tests.architecture.project_files import ROOT
from tests.support.serving import serving
from tests.support.source_stage import Stage
from tests.support.standing_jobs import INTERPRETED

HERE = Path(__file__).parent
SECONDS_WITH_A_COLD_JVM = 300
#: Room that is filled in a second, and a place for twenty thousand classes, as each is cleaned whenever it is full; and
#: nobody need verify Spark's own.
ROOM = "-Xms768m -Xmn512m -XX:MetaspaceSize=256m"
TRUST = "-XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote"
SHORT_LIVED = f"spark.driver.extraJavaOptions -XX:TieredStopAtLevel=1 -XX:+UseSerialGC {ROOM} {TRUST}\n"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(SECONDS_WITH_A_COLD_JVM))


@pytest.fixture(scope="session", autouse=True)
def jvms_start_quickly(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """With the jars that this project has. Those of the programs that tests start too."""
    folder = tmp_path_factory.mktemp("spark-conf")
    (folder / "spark-defaults.conf").write_text(SHORT_LIVED)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SPARK_CONF_DIR", str(folder))
        if not os.environ.get("LAKELOG_CACHE"):
            patch.setenv("LAKELOG_CACHE", str(ROOT / ".cache"))
        yield


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A local Spark session with Delta, on two cores."""
    session = build_session(
        "lakelog tests",
        master="local[2]",
        extra=INTERPRETED | {"spark.sql.warehouse.dir": str(tmp_path_factory.mktemp("warehouse"))},
    )
    yield session
    session.stop()


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """A server of the module's own, as it comes; a module that wants another has a fixture of that name."""
    root = tmp_path_factory.mktemp("stage") / "root"
    with serving(root) as server:
        stage = Stage(server, root)
        yield stage
        stage.close()
