"""The exchange with a server: one request, one answer. Knows no route and no client.

    exchange        requests and outcomes, and the one-method interface to the network
    server_errors   the errors that answers of the server mean
    backoff         pauses between retries
    jitter          random numbers for it
    retry           retries until there is an answer, written once for threads and for tasks
    http            the network

All but the last, `jitter` and the two loops of `retry` are pure.
"""
