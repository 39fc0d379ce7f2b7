"""The program `lakelog`, as its script and as `python -m lakelog`: quiet about Ctrl-C from its first step on.

The imports take a while, in which no code could report an interrupt in a sentence: until then the system ends the
process, as any other.
"""

import signal
import sys

__all__ = ["main"]


def main() -> int:
    heeded = signal.getsignal(signal.SIGINT)
    if heeded is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from lakelog.cli import main as cli  # noqa: PLC0415 - this is what takes a while

    try:
        signal.signal(signal.SIGINT, heeded)
        return cli.main()
    except KeyboardInterrupt:
        return cli.INTERRUPTED


if __name__ == "__main__":
    sys.exit(main())
