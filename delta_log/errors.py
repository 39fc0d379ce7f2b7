"""The errors of the log, by the name that programs import."""

from delta_log.model.errors import *  # noqa: F403 - all of them, and any new one
