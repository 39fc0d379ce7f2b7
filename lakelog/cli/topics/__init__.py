"""The command `topics`: an operator's commands for topics, by the Admin of the Python clients but for one."""
