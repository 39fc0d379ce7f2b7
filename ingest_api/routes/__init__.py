"""The routes, in a folder for each subject."""
