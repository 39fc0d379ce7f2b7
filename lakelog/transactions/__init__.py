"""A producer's transactions: records of any topics and the offsets of a group, all of it stored or nothing.

    requests    requests to the server
    lifecycle   one transaction: its records, their numbers and results
    threads     drives a lifecycle in the callers' threads, for the Producer
    tasks       drives it in the callers' tasks, for the AsyncProducer

All but the last two are pure. Nothing is sent in the background: a record waits until its batch is full or the
transaction ends, and the caller that finds a batch full sends it.
"""
