"""The errors of the clients, by the name that programs import."""

from lakelog.foundation.errors import *  # noqa: F403 - all of them, and any new one
