"""Choice of the Python in which Spark runs formats and functions.

The JVM uses PYSPARK_DRIVER_PYTHON, else PYSPARK_PYTHON, else the first `python3` of the path, by its environment at its
start: if a virtual environment is not activated, that is not the Python of this process, and lacks `lakelog`. If all of
Spark is on this machine, that can be corrected; on a cluster workers have their own Python.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["VARIABLES", "asked_python", "use_this_python"]

#: Variables, of which the first that is set counts.
VARIABLES: Final = ("PYSPARK_DRIVER_PYTHON", "PYSPARK_PYTHON")


def asked_python(environment: Mapping[str, str]) -> str:
    """Return the program that Spark will run, as a shell would name it."""
    return next((environment[name] for name in VARIABLES if name in environment), "python3")


def use_this_python(spark: SparkSession) -> None:
    """Run functions defined from now on in this Python, if none was chosen and workers are on this machine.

    A session of Spark Connect has its Python elsewhere.
    """
    from pyspark.errors import PySparkAttributeError  # noqa: PLC0415 - the decision above needs no Spark

    try:
        context = spark.sparkContext
    except PySparkAttributeError:
        return
    if "PYSPARK_PYTHON" not in os.environ and (context.master or "").startswith("local"):
        context.pythonExec = sys.executable
