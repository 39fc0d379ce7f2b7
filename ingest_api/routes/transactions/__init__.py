"""Transactions of any topics."""
