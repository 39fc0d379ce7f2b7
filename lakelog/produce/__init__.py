"""The producer's way from `send` to the log: decided by pure code, done by threads or by tasks.

    settings     the settings of a producer
    rows         one record in wire form, built from a caller's record
    batch        records that are sent together, and the result of each
    lane         the batches of one topic: their order, sequence numbers and retries
    outbox       all topics: what to send next, and the memory limit
    verdict      the meaning of an answer for the records of a request
    wire         the request of an attempt
    partitions   the partition counts of topics, for producers with a partitioner of their own
    futures      the futures that `send` of a Producer returns
    threads      threads that drive the outbox, for the Producer
    tasks        tasks that drive it, for the AsyncProducer

All but the last two are pure.
"""
