"""The producer's way from `send` to the log: decided by pure code, done by threads or by tasks.

    settings     what a producer can be told
    rows         one record as the wire has it, and how a caller's record becomes one
    batch        records that were sent together, and what became of each
    lane         the batches of one topic: their order, their numbers, their repeats
    outbox       all topics: what to send next, and how much may wait
    verdict      what an answer means for the records of a request
    wire         the request of an attempt
    partitions   how many partitions topics have, for those who choose one themselves
    futures      what `send` of a Producer returns
    threads      threads that do what the outbox says, for the Producer
    tasks        tasks that do the same, for the AsyncProducer

All but the last two are pure.
"""
