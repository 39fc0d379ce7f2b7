"""`lakelog topics`: what an operator does to topics, each command by the Admin of the Python clients, but for one."""
