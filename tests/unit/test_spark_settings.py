"""Which settings a Spark session gets is decided without starting one."""

from pathlib import Path

from jobs.spark.session import plan_settings


def test_jars_are_kept_below_the_cache_folder():
    assert plan_settings(cache_dir=Path("/cache"), cores=2)["spark.jars.ivy"] == "/cache/ivy"


def test_shuffles_have_as_many_partitions_as_there_are_cores():
    assert plan_settings(cache_dir=Path("/cache"), cores=3)["spark.sql.shuffle.partitions"] == "3"


def test_extra_settings_have_the_last_word():
    settings = plan_settings(cache_dir=Path("/cache"), cores=2, extra={"spark.driver.memory": "8g", "spark.x": "y"})
    assert settings["spark.driver.memory"] == "8g"
    assert settings["spark.x"] == "y"
