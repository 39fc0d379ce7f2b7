"""Spark finds the format by itself: by the name of a package that is in the wheel."""

import tomllib
from pkgutil import iter_modules

from pyspark.sql.datasource import DataSource

import pyspark_lakelog
from jobs.source.source import LakelogSource
from tests.architecture.project_files import ROOT


def test_the_package_that_spark_looks_for_has_the_source():
    """As pyspark.sql.worker.lookup_data_sources does it."""
    assert any(found.name == "pyspark_lakelog" for found in iter_modules([str(ROOT)]))
    assert issubclass(pyspark_lakelog.DefaultSource, DataSource)
    assert pyspark_lakelog.DefaultSource is LakelogSource
    assert LakelogSource.name() == "lakelog"


def test_the_package_is_in_the_wheel():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert "pyspark_lakelog" in project["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]
