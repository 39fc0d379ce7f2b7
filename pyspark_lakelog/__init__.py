"""lakelog in a Spark session: the data source, the names of topics in SQL, and functions for jobs.

Spark searches packages named `pyspark_…` for a data source `DefaultSource`: so `lakelog` is a format of every session
whose Python has lakelog. If Spark searches another Python, `register` registers the format in a session, and `session`
starts a session with it. `register_topics` creates SQL names for topics; `dead_letter` is for functions of the job
`consume`. Spark imports this package at the first use of any Python data source: if the dependencies of jobs are not
installed, it is empty, so that other sources still work.
"""
# The imports are re-exports, present only if the dependencies are.
# pyright: reportUnusedImport=false

try:
    from jobs.consume.dead_letter_column import dead_letter
    from jobs.source.registered_session import session
    from jobs.source.source import LakelogSource as DefaultSource
    from jobs.source.source import register
    from jobs.sql import register_topics
except ModuleNotFoundError as error:
    __all__: list[str] = []
    _missing = error

    def __getattr__(name: str) -> object:
        # Spark looks for DefaultSource with hasattr.
        if name in {"dead_letter", "register", "register_topics", "session"}:
            raise _missing
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
else:
    __all__ = ["DefaultSource", "dead_letter", "register", "register_topics", "session"]
