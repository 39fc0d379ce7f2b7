"""A producer's transactions: records of any topics and the offsets of a group, all of it stored or nothing.

    requests    what is asked of the server
    lifecycle   one transaction: its records, their numbers, and what becomes of them
    threads     drives a course in the callers' threads, for the Producer
    tasks       does the same in tasks, for the AsyncProducer

All but the last two are pure. Nothing is sent in the background: a record waits until its batch is full, or for the
end, and whoever fills a batch sends it.
"""
