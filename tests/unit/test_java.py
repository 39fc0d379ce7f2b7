"""What is wrong with the Java that is there."""

from __future__ import annotations

import pytest

from jobs.spark.java import trouble_of_java


@pytest.mark.parametrize(
    ("said", "home", "trouble"),
    [
        ('openjdk version "17.0.1" 2021-10-19', None, None),
        ('java version "21" 2023', "/java", None),
        ('java version "1.8.0_402"', None, "Java 8 is too old"),
        ('openjdk version "11.0.2" 2019-01-15', "/java", "Java 11 is too old"),
        ("", None, "there is no Java"),
        (None, None, "there is no Java"),
        (None, "/java", "JAVA_HOME is /java, where no Java is that works"),
    ],
)
def test_what_will_not_do_is_said(said: str | None, home: str | None, trouble: str | None):
    assert trouble_of_java(said, home) == trouble
