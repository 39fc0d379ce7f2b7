"""The command `produce`: lines of the input as records of a topic."""
