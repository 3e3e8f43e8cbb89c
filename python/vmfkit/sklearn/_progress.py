"""Progress lines of a fit."""

from __future__ import annotations

import sys
import time

# Minimum seconds between two lines of one pass.
_PATIENCE = 2.0


class Progress:
    """Prints a line to standard error after the start and each pass, and during long passes."""

    def __init__(self, name: str, restarts: int, passes: int, rows: int | None, objective: str, searches: bool) -> None:
        self.name = name
        self.restarts = restarts
        self.passes = passes
        self.rows = rows
        self.objective = objective
        self.start = "start and search" if searches else "start"
        self.began = self.shown = time.monotonic()
        self.restart_began = self.passes_began = self.began
        self.last = ""
        self.position: tuple[int, float | None] | None = None

    def __call__(self, restart: int, number: int, rows: int, objective: float | None) -> None:
        now = time.monotonic()
        if self.position is None or self.position[0] != restart:
            self.restart_began = now
        if number == 0:
            # The passes begin after the start.
            self.passes_began = now
        # A new objective means that a pass has ended.
        position = (restart, objective)
        if position == self.position and now - self.shown < _PATIENCE:
            return
        self.position, self.shown = position, now
        parts = [f"restart {restart + 1} of {self.restarts}"] if self.restarts > 1 else []
        if number == 0:
            parts += [self.start, f"{now - self.restart_began:.0f} s"] if now - self.restart_began >= 1 else [self.start]
        else:
            parts.append(f"pass {number} of at most {self.passes}")
            if self.rows:
                parts.append(f"{min(rows / self.rows, 1):.0%} of the rows")
            if objective is not None:
                parts.append(f"{self.objective} {objective:.6g}")
            done = number - 1 + (min(rows / self.rows, 1) if self.rows else 0.5)
            if done > 0:
                left = (now - self.passes_began) / done * (self.passes - done)
                parts.append(f"at most {_time(left)} left" + (" in this restart" if self.restarts > 1 else ""))
        self._write(", ".join(parts))

    def end(self, status: str, passes: int, search_passes: int, objective: float | None) -> None:
        told = "" if objective is None else f", {self.objective} {objective:.6g}"
        count = "1 pass" if passes == 1 else f"{passes} passes"
        search = f" (and {search_passes} of the search, over a sample)" if search_passes else ""
        self._write(f"{status} after {count}{search}{told}, {_time(time.monotonic() - self.began)}")

    def _write(self, text: str) -> None:
        if text != self.last:
            self.last = text
            print(f"{self.name}: {text}", file=sys.stderr, flush=True)


def _time(seconds: float) -> str:
    if seconds < 10:
        return f"{seconds:.1f} s"
    return f"{seconds:.0f} s" if seconds < 90 else f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
