"""lakelog: a streaming log on the lakehouse.

This package is the face of the project: clients that speak HTTP, and the command line. The clients know the
wire format and nothing of the rooms behind it, so that a client's install stays light.
"""

__all__ = ["__version__"]

__version__ = "0.1.0"
