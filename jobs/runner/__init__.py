"""How a job is run from its command line: options, plan, work, summary, and the server that it speaks to."""
