"""Lines that tell how far a fit has come."""

from __future__ import annotations

import sys
import time

# Seconds between two lines about one pass.
_PATIENCE = 2.0


class Progress:
    """Writes a line to standard error where a start and a pass end, and now and then within one that takes long."""

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
        self.place: tuple[int, float | None] | None = None

    def __call__(self, restart: int, number: int, rows: int, objective: float | None) -> None:
        now = time.monotonic()
        if self.place is None or self.place[0] != restart:
            self.restart_began = now
        if number == 0:
            # Where the first pass begins.
            self.passes_began = now
        # Another objective tells that a pass has ended.
        place = (restart, objective)
        if place == self.place and now - self.shown < _PATIENCE:
            return
        self.place, self.shown = place, now
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
