"""Foundation of jobs: results and exit codes, output, progress, threads, addresses. No Spark."""
