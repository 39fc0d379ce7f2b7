"""`lakelog groups`: what an operator does to consumer groups, each command by the Admin of the Python clients."""
