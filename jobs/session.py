"""The Spark session of the jobs by its public name."""

from jobs.spark.session import build_session, plan_settings

__all__ = ["build_session", "plan_settings"]
