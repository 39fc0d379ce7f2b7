"""The exchange with a server: one request, one answer. Knows no route and no client.

    exchange        what is asked and answered, and the one-method seam behind which the network is
    server_errors   what an error answer means
    backoff         when to ask again
    jitter          random numbers for it
    retry           asking until there is an answer, written once for threads and for tasks
    http            the network

All but the last, `jitter` and the two loops of `retry` are pure.
"""
