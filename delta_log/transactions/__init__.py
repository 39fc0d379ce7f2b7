"""Transactions: records of any topics, and what is decided with them, that become visible together or never.

`transaction_id`, `transaction_log` and `buffered_records` are pure: the ids, the memory of committed transactions, and
the records and limits of an open one. `registry` holds all open transactions and how they end; `begin`, `add_records`
(with `spill`) and `commit` are the steps of a transaction; `coordinator` is the API.
"""
