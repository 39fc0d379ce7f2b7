"""An operator's verbs: check, repair, backup, restore, export, upgrade. Each looks, plans, and then acts."""

from delta_log.operations.backup.backup import backup
from delta_log.operations.backup.restore import restore
from delta_log.operations.check.check import check
from delta_log.operations.export import export_topic
from delta_log.operations.repair.repair import repair
from delta_log.startup.upgrade import upgrade

__all__ = ["backup", "check", "export_topic", "repair", "restore", "upgrade"]
