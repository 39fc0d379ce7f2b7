"""The consumer's decisions: what it knows, what it asks of the server, and what a caller may do.

    shapes                records and other values that a caller gets
    settings              the settings of a consumer
    subscription          what to read, and the arguments of callers
    partition_state       one partition
    consumer_state        the state of a consumer and its partitions
    record_run            consecutive records of one partition
    buffer                records that arrived and were not handed out
    instance_api          requests to an instance, and its answers
    effects               the steps that the generators below yield
    membership            joining, subscribing, heartbeats, leaving
    committing            commits, one after the other
    fetching              seeks and records
    rebalance_callbacks   callbacks of the caller before a poll returns
    api_calls             a caller's calls: poll, commit, close
    requests              requests about the log and the group that need no member
    arrow                 batches
    threads               threads that drive the generators
    tasks                 tasks that drive the generators, in an event loop

All but the last two are pure: generators that yield a step and are sent its outcome.
"""
