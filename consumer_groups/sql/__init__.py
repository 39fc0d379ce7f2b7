"""Committed offsets and lag in SQL."""

from consumer_groups.sql.views import COMMITTED_OFFSETS, group_lag

__all__ = ["COMMITTED_OFFSETS", "group_lag"]
