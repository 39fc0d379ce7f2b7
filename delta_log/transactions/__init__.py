"""Transactions: records of any topics, and what is decided with them, that become visible together or never.

`transaction_id`, `transaction_log` and `buffered_records` decide: what a transaction is called, what is known of those
that were committed, what an open one may take. `registry` holds all that are open and how they end; `begin`,
`add_records` (with `spill`) and `commit` are the steps of one's life; `coordinator` is what others call.
"""
