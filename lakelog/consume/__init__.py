"""The consumer's decisions: what it knows, what it asks of the server, and what a caller may do.

    shapes                records and what else a caller is given
    settings              what a consumer can be told
    subscription          what is to be read, and what callers name
    partition_state       one partition
    consumer_state        what a consumer knows of itself and its partitions
    record_run            records of one partition that follow one another
    buffer                those that arrived and were not handed out
    instance_api          requests, and what answers say
    effects               what the generators below yield
    membership            being a member: joining, subscribing, saying that it lives, leaving
    committing            commits, one after the other
    fetching              seeks and records
    rebalance_callbacks   what a caller is told first
    api_calls             what a caller asks for: poll, commit, close
    requests              what is asked of the log and of the group, without being a member
    arrow                 batches
    threads               the generators in threads
    tasks                 the generators in tasks of a loop

All but the last two are pure: generators that yield what to do and are sent what became of it.
"""
