"""SQL relations of committed offsets and lag."""

from consumer_groups.sql.views import COMMITTED_OFFSETS, group_lag

__all__ = ["COMMITTED_OFFSETS", "group_lag"]
