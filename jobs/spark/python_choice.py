"""Which Python Spark asks for formats and runs functions with.

The JVM asks PYSPARK_DRIVER_PYTHON, else PYSPARK_PYTHON, else the first `python3` of the path, as its environment was
when it began: where a virtual environment is not activated that is not the Python of this process, and knows no
`lakelog`. Where all of Spark is on this machine that can be mended; on a cluster workers have a Python of their own.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["VARIABLES", "asked_python", "use_this_python"]

#: The first that is set counts.
VARIABLES: Final = ("PYSPARK_DRIVER_PYTHON", "PYSPARK_PYTHON")


def asked_python(environment: Mapping[str, str]) -> str:
    """The program that Spark will ask, as a shell would name it."""
    return next((environment[name] for name in VARIABLES if name in environment), "python3")


def use_this_python(spark: SparkSession) -> None:
    """Have what is defined from now on run in this Python, where none was chosen and workers are on this machine.

    A session of Spark Connect has its Python elsewhere.
    """
    from pyspark.errors import PySparkAttributeError  # noqa: PLC0415 - the decision above needs no Spark

    try:
        context = spark.sparkContext
    except PySparkAttributeError:
        return
    if "PYSPARK_PYTHON" not in os.environ and (context.master or "").startswith("local"):
        context.pythonExec = sys.executable
