"""The errors of the log, under their public import path."""

from delta_log.model.errors import *  # noqa: F403 - all of them, and any new one
