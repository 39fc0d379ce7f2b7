"""Transactions: records for any topics that become visible together, with whatever else is decided with them, or never.

`key`, `decisions` and `held` decide: what a transaction is called, what is known of those that were committed, what an
open one may take. `standing` holds all that are open and how they end; `beginning`, `taking` (with `spill`) and
`committing` are the steps of one's life; `door` is what others call.
"""
