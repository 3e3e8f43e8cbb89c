"""A table of components, as a DataFrame, as text and as HTML."""

from __future__ import annotations

import html
from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import _vmfkit


class Summary(str):
    """A table that prints as text and shows as HTML in a notebook."""

    _html: str

    def __new__(cls, caption: str, head: Sequence[str], lines: Sequence[Sequence[str]]) -> Summary:
        widths = [max(len(cell) for cell in column) for column in zip(head, *lines)]
        text = ["  ".join(cell.rjust(width) for cell, width in zip(line, widths)) for line in (head, *lines)]
        self = super().__new__(cls, "\n".join([caption, *text]))
        cells = ["".join(f"<{tag}>{html.escape(cell)}</{tag}>" for cell in line) for tag, line in [("th", head), *(("td", line) for line in lines)]]
        self._html = f"<table><caption>{html.escape(caption)}</caption>{''.join(f'<tr>{line}</tr>' for line in cells)}</table>"
        return self

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        return self._html


def component_columns(model: Any, members: list[tuple[int, float, np.ndarray]] | None) -> dict[str, np.ndarray | list[Any]]:
    """The columns of a summary, one entry per component, heaviest first. `members` has the size, probability and typical rows of each."""
    mixture, calibration = model.mixture_, model.calibration_
    weights, concentrations, directions = model.weights_, model.concentrations_, model.mean_directions_
    sizes, probabilities = _of_rows_of_fit(model) if members is None else tuple(zip(*(found[:2] for found in members)))
    nearest, angles = _nearest(directions)
    columns: dict[str, Any] = {
        "size": sizes,
        "weight": weights,
        "probability": probabilities,
        "concentration": concentrations,
        "half_angle": [_half_angle(mixture.dim, concentration) for concentration in concentrations],
        "spread": np.full(len(weights), np.nan) if calibration is None else calibration.spreads,
        "nearest": nearest,
        "angle": angles,
    }
    if members is not None:
        columns["typical"] = [typical.tolist() for _, _, typical in members]
    order = np.argsort(-weights, kind="stable")
    found: dict[str, Any] = {"component": order}
    for name, column in columns.items():
        found[name] = [column[k] for k in order] if name == "typical" else np.asarray(column[: len(order)])[order]
    return found


def _of_rows_of_fit(model: Any) -> tuple[np.ndarray, np.ndarray]:
    """Number and mean probability of the rows of the fit in each component; nan if the rows are not in memory."""
    count = len(model.weights_)
    try:
        probabilities = model.probabilities_
    except AttributeError:
        return np.full(count, np.nan), np.full(count, np.nan)
    labels = model.labels_
    rows = np.flatnonzero(labels >= 0)
    sizes = np.bincount(labels[rows], minlength=count)
    sums = np.bincount(labels[rows], probabilities[rows, labels[rows]], minlength=count)
    return sizes, np.divide(sums, sizes, out=np.full(count, np.nan), where=sizes > 0)


def _nearest(directions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The nearest other direction of each, and the angle to it in degrees; -1 and nan if there is no other."""
    count = len(directions)
    if count == 1:
        return np.array([-1]), np.array([np.nan])
    cosines = directions @ directions.T
    np.fill_diagonal(cosines, -np.inf)
    nearest = cosines.argmax(axis=1)
    chords = np.linalg.norm(directions - directions[nearest], axis=1)
    return nearest, np.degrees(2 * np.arcsin(np.minimum(chords / 2, 1)))


def _half_angle(dim: int, concentration: float) -> float:
    median = _vmfkit.ProjectionLaw(dim, concentration).evaluate("quantile", np.array([0.5]))[0]
    return float(np.degrees(np.arccos(np.clip(median, -1, 1))))


def frame_of(columns: dict[str, Any], words: str) -> Any:
    """The columns as a DataFrame; None without pandas."""
    try:
        import pandas as pd
    except ImportError:
        return None
    frame = pd.DataFrame(columns).set_index("component")
    if frame["size"].notna().all():
        frame["size"] = frame["size"].astype(np.int64)
    frame.attrs["calibration"] = words
    return frame


def text_of(caption: str, words: str, columns: dict[str, Any], mixture: _vmfkit.Mixture) -> Summary:
    """The columns as text, with mean directions and a background."""
    head = {
        "component": "component",
        "weight": "weight",
        "concentration": "concentration",
        "half_angle": "half its mass within, degrees",
        "size": "rows",
        "probability": "probability",
        "spread": "spread",
        "nearest": "nearest",
        "angle": "degrees to it",
        "typical": "typical rows",
    }
    shown = [name for name in head if name in columns and not _is_unknown(columns[name])]
    lines = []
    for position, component in enumerate(columns["component"]):
        cells = [_cell(name, columns[name][position]) for name in shown]
        lines.append((*cells, mixture.direction_text(int(component))))
    if mixture.has_background:
        known = {"component": "background", "weight": f"{mixture.weights[-1]:.4f}", "concentration": "0", "half_angle": "90.00"}
        lines.append((*(known.get(name, "") for name in shown), ""))
    caption = f"{caption}: {words}" if words else caption
    return Summary(caption, [*(head[name] for name in shown), "mean direction"], lines)


def _is_unknown(column: Any) -> bool:
    return isinstance(column, np.ndarray) and column.dtype.kind == "f" and bool(np.isnan(column).all())


def _cell(name: str, value: Any) -> str:
    if name == "typical":
        return " ".join(map(str, value))
    if name in ("component", "size", "nearest"):
        return "" if np.isnan(value) or value < 0 else f"{value:.0f}"
    if name == "concentration":
        return f"{value:.4g}"
    return "" if np.isnan(value) else f"{value:.4f}" if name in ("weight", "probability") else f"{value:.2f}"
