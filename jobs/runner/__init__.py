"""Runner of jobs from the command line: options, plan, work, summary, and the connection to a server."""
