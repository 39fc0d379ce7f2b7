"""The decisions of a group, each as records and a reply. Pure."""
