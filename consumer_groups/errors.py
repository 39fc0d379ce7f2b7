"""The errors of groups, by the name that programs import."""

from consumer_groups.model.errors import *  # noqa: F403 - all of them, and any new one
