"""The command `groups`: an operator's commands for consumer groups, each by the Admin of the Python clients."""
