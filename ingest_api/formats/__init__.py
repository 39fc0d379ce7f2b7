"""The formats of records over HTTP."""
