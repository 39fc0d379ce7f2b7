"""lakelog in a Spark session: the data source, the names of topics in SQL, and functions for jobs.

Spark looks for data sources by itself in packages whose name begins so, under the name `DefaultSource`: so `lakelog` is
a format of every session whose Python has lakelog. Where Spark asks a Python that is not this one, `register` makes it
known, and `session` starts a session that knows it. `register_topics` has SQL know topics; `dead_letter` is for
functions of the job `consume`. Spark imports this at the first use of any Python data source: where lakelog was
installed without what jobs need there is nothing here, which must not break the others.
"""
# What is imported is for others, where it is there at all.
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
