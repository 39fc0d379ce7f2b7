"""How clients talk to a server: one request, one answer. Knows no route and no client.

    exchange   what is asked and answered, and the one-method seam behind which the network is
    answers    what an error answer means
    backoff    when to ask again
    chance     random numbers for it
    asking     asking until there is an answer, written once for threads and for tasks
    http       the network

All but the last, `chance` and the two loops of `asking` are pure.
"""
