"""An operator's verbs: functions that look, plan, print and then do. The command line puts its commands on them."""

from delta_log.operators.backing_up import backup
from delta_log.operators.checking import check
from delta_log.operators.exporting import export_topic
from delta_log.operators.repairing import repair
from delta_log.operators.restoring import restore
from delta_log.upgrading import upgrade

__all__ = ["backup", "check", "export_topic", "repair", "restore", "upgrade"]
