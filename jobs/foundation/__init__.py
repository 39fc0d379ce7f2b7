"""What every part of jobs may use: results and exit codes, output, progress, threads, addresses. No Spark."""
