"""Plots of a fit, of the number of components, and of the components."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator

from .._select import Selection
from ._layout import colours_of
from ._model import checked_rows, count_of, half_angles, mixture_of, names_of
from ._style import BACKGROUND, INK, PALETTE, axes_of, in_degrees, plain

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_CRITERIA = {"bic": "BIC", "icl": "ICL", "aic": "AIC", "held_out": "held out"}


def trace(model: Any, ax: Axes | None = None, *, label: str | None = None) -> Axes:
    """Plots the objective before each pass of a fit. The last point is hollow if the fit did not converge.

    Parameters
    ----------
    model : fitted estimator or Mixture
    ax : Axes, optional
    label : str, optional
        Name of the curve in the legend.

    Returns
    -------
    ax : Axes
    """
    description = mixture_of(model).description
    values, converged = list(description["trace"]), description["status"] == "converged"
    if not values:
        raise ValueError("the model has no trace, because it was not fitted, found passes: `0`")
    ax = axes_of(ax, (5.6, 3.6))
    passes = np.arange(1, len(values) + 1)
    colour = PALETTE[len(ax.lines) % len(PALETTE)]
    marker = "o" if len(values) <= 60 else None
    ax.plot(passes, values, color=colour, linewidth=1.5, marker=marker, markersize=3.5, label=label)
    face = colour if converged else "white"
    ax.scatter(passes[-1:], values[-1:], s=42, facecolors=face, edgecolors=colour, linewidths=1.4, zorder=3)
    ax.set_xlabel("pass")
    ax.set_ylabel("mean cosine of a row" if description["method"] == "kmeans" else "mean ln p of a row")
    ax.xaxis.set_major_locator(MaxNLocator(integer=True, steps=[1, 2, 5, 10]))
    ax.ticklabel_format(axis="y", useOffset=False)
    if label is not None:
        ax.legend(frameon=False)
    plain(ax)
    return ax


def selection(
    models: Any,
    rows: Any = None,
    held_out: Any = None,
    ax: Axes | None = None,
    *,
    criteria: Sequence[str] | None = None,
) -> Axes:
    """Plots criteria over the number of components, in nats per row, and marks the best value of each. Lower is better.

    AIC, BIC and ICL are divided by twice the number of rows, which makes them comparable with minus the held-out ln p.

    Parameters
    ----------
    models : list of models, Selection, or table
        Fitted models, the result of `vmfkit.select`, the output of `vmf select --json`, or a mapping or DataFrame. A table has the columns
        "components", "rows" and some of "aic", "bic", "icl" and "held_out" (the mean ln p of held-out rows).
    rows : rows, optional
        For fitted models: rows for AIC, BIC and ICL.
    held_out : rows, optional
        For fitted models: held-out rows, whose mean ln p is plotted.
    ax : Axes, optional
    criteria : sequence of {"aic", "bic", "icl", "held_out"}, optional
        Criteria to plot; by default all that are known.

    Returns
    -------
    ax : Axes
    """
    numbers, curves = _curves(models, rows, held_out)
    if criteria is not None:
        unknown = [name for name in criteria if name not in curves]
        if unknown:
            raise ValueError(f"criteria must be among {sorted(curves)}, found: `{unknown[0]}`")
        curves = {name: curves[name] for name in criteria}
    if not curves:
        raise ValueError("there is no criterion to draw: pass rows, held_out, or a table with one")
    ax = axes_of(ax, (5.6, 3.8))
    order = np.argsort(numbers, kind="stable")
    numbers = numbers[order]
    styles = {"bic": (PALETTE[0], "o"), "icl": (PALETTE[1], "s"), "aic": (PALETTE[5], "^"), "held_out": (PALETTE[6], "D")}
    for name, values in curves.items():
        colour, marker = styles[name]
        values = values[order]
        best = int(np.nanargmin(values))
        text = f"{_CRITERIA[name]}, best at {numbers[best]}"
        ax.plot(numbers, values, color=colour, marker=marker, markersize=4, markerfacecolor="white", linewidth=1.5, label=text)
        ax.plot(numbers[best], values[best], color=colour, marker=marker, markersize=8)
    # A logarithmic axis for a wide range of components.
    if numbers[0] > 0 and numbers[-1] >= 8 * numbers[0]:
        ax.set_xscale("log")
        ax.xaxis.set_minor_locator(NullLocator())
    shown = np.unique(numbers)
    if len(shown) <= 12:
        ax.set_xticks(shown, [str(number) for number in shown])
    ax.set_xlabel("components")
    ax.set_ylabel("nats per row (lower is better)")
    ax.ticklabel_format(axis="y", useOffset=False)
    ax.legend(frameon=False)
    plain(ax)
    return ax


def _curves(models: Any, rows: Any, held_out: Any) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Numbers of components, and each criterion in nats per row."""
    if isinstance(models, Selection):
        models = models.table()
    if isinstance(models, Mapping) and "candidates" in models:
        models = _of_command(models["candidates"])
    if isinstance(models, Mapping) or hasattr(models, "columns"):
        return _of_table(models)
    models = list(models)
    if not models:
        raise ValueError("there is no model to draw, found: `0`")
    mixtures = [mixture_of(model) for model in models]
    numbers = np.array([count_of(mixture) for mixture in mixtures])
    curves: dict[str, list[float]] = {}
    for mixture in mixtures:
        if rows is not None:
            directions = checked_rows(rows, mixture.dim)
            found = directions.evaluate(mixture)
            # For files, the number of rows follows from AIC = -2 ln L + 2 p.
            count = directions.rows.length or (2 * mixture.free_parameters - found["aic"]) / (2 * found["mean"])
            for name in ("bic", "icl", "aic"):
                curves.setdefault(name, []).append(found[name] / (2 * count))
        if held_out is not None:
            curves.setdefault("held_out", []).append(-checked_rows(held_out, mixture.dim).evaluate(mixture)["mean"])
    return numbers, {name: np.array(values) for name, values in curves.items()}


def _of_command(candidates: Sequence[Mapping[str, Any]]) -> dict[str, list[Any]]:
    table: dict[str, list[Any]] = {name: [line[name] for line in candidates] for name in ("components", "bic", "icl", "aic")}
    table["rows"] = [line["total_weight"] for line in candidates]
    if all(line["held_out"] for line in candidates):
        table["held_out"] = [line["held_out"]["mean_ln_density"] for line in candidates]
    return table


def _of_table(table: Any) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    names = list(table.columns if hasattr(table, "columns") else table)
    for needed in ("components", "rows"):
        if needed not in names:
            raise ValueError(f"a table must have the column {needed!r}, found: `{names}`")
    counts = np.asarray(table["rows"], np.float64)
    curves = {name: np.asarray(table[name], np.float64) / (2 * counts) for name in ("bic", "icl", "aic") if name in names}
    if "held_out" in names:
        curves["held_out"] = -np.asarray(table["held_out"], np.float64)
    return np.asarray(table["components"], int), curves


def components(model: Any, ax: Axes | None = None, *, labels: Sequence[Any] | None = None) -> Axes:
    """Plots weight and concentration of each component, heaviest first, with the angle that contains half of its mass.

    Parameters
    ----------
    model : fitted estimator or Mixture
    ax : Axes, optional
    labels : sequence, optional
        Names of the components.

    Returns
    -------
    ax : Axes
        The Axes of the weights. The concentrations are on a second Axes to its right, logarithmic if they differ by more than a factor of 3.
    """
    mixture = mixture_of(model)
    count = count_of(mixture)
    names = names_of(labels, count)
    ax = axes_of(ax, (7.2, 1.1 + 0.24 * count))
    order = np.argsort(-mixture.weights[:count], kind="stable")
    weights, concentrations = mixture.weights[order], mixture.concentrations[order]
    angles = np.degrees(half_angles(mixture))[order]
    colours = colours_of(mixture)[order]
    positions = np.arange(count)
    ax.barh(positions, weights, color=colours, height=0.72)
    ticks = [names[component] for component in order]
    if mixture.has_background:
        ax.barh([count], mixture.weights[-1:], color=BACKGROUND, height=0.72)
        ticks.append("background")
    ax.set_yticks(np.arange(len(ticks)), ticks)
    ax.set_ylim(len(ticks) - 0.4, -0.6)
    ax.set_xlabel("weight")
    plain(ax)
    ax.tick_params(axis="y", length=0)
    ax.spines["left"].set_visible(False)
    box = _right_part(ax)
    box.hlines(positions, 0, 1, transform=box.get_yaxis_transform(), color="#E6E6E6", linewidth=0.7, zorder=0)
    box.scatter(concentrations, positions, c=colours, s=30, zorder=2)
    if concentrations.min() > 0 and concentrations.max() > 3 * concentrations.min():
        box.set_xscale("log")
        steps = (1, 2, 5) if concentrations.max() < 100 * concentrations.min() else (1,)
        box.xaxis.set_major_locator(LogLocator(subs=steps))
        box.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        box.xaxis.set_minor_locator(NullLocator())
        box.set_xlim(concentrations.min() / 1.25, concentrations.max() * 1.25)
    else:
        box.set_xlim(0, 1.12 * concentrations.max() or 1)
    for position, angle in enumerate(angles):
        box.text(1.02, position, in_degrees(angle), transform=box.get_yaxis_transform(), va="center", fontsize=8, color=INK)
    box.text(1.02, 1.0, "half the\nmass within", transform=box.transAxes, va="bottom", fontsize=8, color=INK)
    box.set_xlabel("concentration")
    box.tick_params(axis="y", left=False, labelleft=False)
    plain(box)
    box.spines["left"].set_visible(False)
    return ax


def _right_part(ax: Axes) -> Axes:
    """Splits off the right part of an Axes."""
    spec = ax.get_subplotspec()
    if spec is None:
        box = ax.get_position()
        ax.set_position((box.x0, box.y0, 0.55 * box.width, box.height))
        return ax.figure.add_axes((box.x0 + 0.6 * box.width, box.y0, 0.4 * box.width, box.height), sharey=ax)
    parts = spec.subgridspec(1, 2, width_ratios=(3, 2), wspace=0.06)
    ax.set_subplotspec(parts[0])
    return ax.figure.add_subplot(parts[1], sharey=ax)
