"""The relations of committed offsets and lag, for SQL."""

from consumer_groups.sql.views import COMMITTED_OFFSETS, group_lag

__all__ = ["COMMITTED_OFFSETS", "group_lag"]
