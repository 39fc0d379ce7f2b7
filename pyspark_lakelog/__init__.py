"""Where Spark looks for data sources by itself: in packages whose name begins so, under this name.

So `lakelog` is a format of every session whose Python has lakelog, and nobody need call `jobs.source.register`. It is
imported by Spark at the first use of any Python data source: where lakelog was installed without what jobs need, it
has no source, and must not break the others.
"""

try:
    from jobs.source import LakelogSource as DefaultSource
except ModuleNotFoundError:
    __all__: list[str] = []
else:
    __all__ = ["DefaultSource"]
