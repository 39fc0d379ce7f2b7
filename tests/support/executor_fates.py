"""What becomes of a Python worker of Spark's executors amid its work: a probe that goes there with the work."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal


@dataclass(frozen=True, slots=True)
class Fate:
    """Of the first worker that comes to a step. `mark` is a file that is there from then on, with its pid.

    It dies of SIGKILL; or stands until it is ended, as pyspark's daemon does by SIGHUP once the JVM is gone; or is
    late: it does not heed that, as one that is quicker than the daemon, and goes on when it is let. In the process that
    made it nothing happens.
    """

    step: str
    kind: Literal["dies", "stands", "late"]
    mark: str
    home: int = field(default_factory=os.getpid)

    def __call__(self, step: str) -> None:
        if step == self.step and os.getpid() != self.home and self._is_first():
            if self.kind == "dies":
                os.kill(os.getpid(), signal.SIGKILL)
            if self.kind == "late":
                signal.signal(signal.SIGHUP, signal.SIG_IGN)
            while not self._go.exists():
                time.sleep(0.01)

    @property
    def pid(self) -> int | None:
        """Whose it was, once that is decided."""
        return int(Path(self.mark).read_text()) if Path(self.mark).exists() else None

    def let_go(self) -> None:
        self._go.touch()

    @property
    def _go(self) -> Path:
        return Path(f"{self.mark}.go")

    def _is_first(self) -> bool:
        own = Path(f"{self.mark}.{os.getpid()}")
        own.write_text(str(os.getpid()))
        try:
            os.link(own, self.mark)
        except FileExistsError:
            return False
        return True


@dataclass(frozen=True, slots=True)
class Fated:
    """A function that travels, with that fate when it knows its answer and has not told it."""

    function: Callable[..., Any]
    fate: Fate

    def __call__(self, *given: Any) -> Any:
        answer = self.function(*given)
        self.fate(self.fate.step)
        return answer
