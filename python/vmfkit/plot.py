"""Pictures of densities, mixtures and fits, by matplotlib.

- `density`, `sphere`, `circle`: a density and rows in 3 or 2 dimensions
- `map`: a mixture in any dimension, its components laid out by the angles between them
- `components`: weight and concentration of each component
- `trace`, `selection`: how a fit went, and how many components to take

All of them draw on `ax`, or on a new figure, and return the Axes. A model is a fitted estimator, a `vmfkit.Mixture` or a
`vonmises_fisher(mu, kappa)`; rows are whatever a fit takes, files too. A component has the same colour in every picture.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from . import _vmfkit, special
from ._rows import Rows, as_rows

try:
    import matplotlib.pyplot as plt
    from matplotlib import patheffects
    from matplotlib.collections import EllipseCollection
    from matplotlib.colors import LinearSegmentedColormap, to_rgba
    from matplotlib.patches import Circle
    from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator
except ImportError as error:
    raise ImportError("vmfkit.plot needs matplotlib: `pip install vmfkit[plot]`") from error

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["circle", "components", "density", "map", "selection", "sphere", "trace"]

# "Muted" of P. Tol, Colour Schemes, SRON/EPS/TN/09-002 (2021): nine colours that colour-blind people tell apart, in an order of ours.
_PALETTE = ("#332288", "#CC6677", "#117733", "#88CCEE", "#882255", "#44AA99", "#999933", "#AA4499", "#DDCC77")
_BACKGROUND = "#BBBBBB"
_INK = "#333333"
_FAINT = "#999999"

# Of densities, from low to high: grey, and not too dark, under rows that have colours.
_SHADES = LinearSegmentedColormap.from_list("vmfkit", ["#FAFAF7", "#DCE6EC", "#A9C4D6", "#6A9BBD", "#2F6C99", "#123F66"])
_GREYS = LinearSegmentedColormap.from_list("vmfkit greys", ["#FAFAF7", "#E4E5E5", "#C3C6C9", "#9CA1A6", "#757B82"])

# Pixels of a sphere from side to side.
_PIXELS = 480

# Rows that a map shows at most, taken at equal steps.
_MOST_ROWS = 20_000

_CRITERIA = {"bic": "BIC", "icl": "ICL", "aic": "AIC", "held_out": "held out"}


# ------------------------------------------------------------------ arguments


def _mixture_of(model: Any) -> _vmfkit.Mixture:
    """The mixture of whatever has one."""
    if isinstance(model, _vmfkit.Mixture):
        return model
    if hasattr(model, "mixture_"):
        return model.mixture_
    if hasattr(model, "mu") and hasattr(model, "kappa"):
        if np.ndim(model.kappa):
            raise ValueError(f"one density is drawn at a time, found concentrations of shape: `{np.shape(model.kappa)}`")
        mu = np.asarray(model.mu, np.float64)[np.newaxis]
        return _vmfkit.Mixture(np.ones(1), mu, np.array([float(model.kappa)]))
    raise ValueError(f"a model must be a fitted estimator, a Mixture or a vonmises_fisher(mu, kappa), found: `{model!r}`")


def _of_dim(mixture: _vmfkit.Mixture, dim: int, name: str) -> None:
    if mixture.dim != dim:
        raise ValueError(f"{name} needs dimension {dim} (map draws a mixture of any), found: `{mixture.dim}`")


def _checked_rows(rows: Any, dim: int) -> Rows:
    found = as_rows(rows, normalize=True)
    if found.dim is not None and found.dim != dim:
        raise ValueError(f"rows must have dimension {dim}, found: `{found.dim}`")
    return found


def _cosines(directions: np.ndarray, rows: Rows) -> np.ndarray:
    """The cosine of each row with each direction. Rows of every kind are read, which is why a mixture is asked."""
    count, dim = directions.shape
    probe = _vmfkit.Mixture(np.full(count, 1 / count), np.ascontiguousarray(directions), np.ones(count))
    peak = special._of_dim("log_peak", dim, 1.0, None)
    return np.clip(1 - (peak - probe.component_ln_densities(rows.argument, normalize=True)), -1, 1)


def _law(mixture: _vmfkit.Mixture, component: int, name: str, values: Any) -> np.ndarray:
    law = _vmfkit.ProjectionLaw(mixture.dim, float(mixture.concentrations[component]))
    return law.evaluate(name, np.ascontiguousarray(values, np.float64))


def _half_angles(mixture: _vmfkit.Mixture) -> np.ndarray:
    """The angle that holds half the mass of each component, in radians; a background is left out."""
    medians = [_law(mixture, component, "quantile", [0.5])[0] for component in range(_count(mixture))]
    return np.arccos(np.clip(medians, -1, 1))


def _count(mixture: _vmfkit.Mixture) -> int:
    """Components, a background not counted."""
    return mixture.components - mixture.has_background


def _names(labels: Sequence[Any] | None, count: int) -> list[str]:
    if labels is None:
        return [str(component) for component in range(count)]
    if len(labels) != count:
        raise ValueError(f"labels must be one for each of {count} components, found: `{len(labels)}`")
    return [str(label) for label in labels]


def _axes(ax: Axes | None, size: tuple[float, float]) -> Axes:
    return plt.subplots(figsize=size, layout="constrained")[1] if ax is None else ax


def _plain(ax: Axes) -> None:
    """An Axes with no more lines than needed."""
    ax.spines[["top", "right"]].set_visible(False)
    ax.spines[["left", "bottom"]].set_color(_FAINT)
    ax.tick_params(color=_FAINT, labelcolor=_INK)


def _halo(width: float = 2.5) -> list[Any]:
    return [patheffects.withStroke(linewidth=width, foreground="white")]


# -------------------------------------------------------------------- colours


def _colours(mixture: _vmfkit.Mixture, places: np.ndarray | None = None) -> np.ndarray:
    """A colour for each component, the grey of a background last. Where there are too many components a colour is used again, far away."""
    count = _count(mixture)
    chosen = np.arange(count)
    if count > len(_PALETTE):
        distances = _distances(_layout(mixture) if places is None else places)
        np.fill_diagonal(distances, np.inf)
        chosen %= len(_PALETTE)
        # Each in turn takes the colour whose nearest bearer is farthest away, until none would change.
        for _ in range(20):
            before = chosen.copy()
            for component in range(count):
                nearest = np.full(len(_PALETTE), np.inf)
                np.minimum.at(nearest, chosen, distances[component])
                chosen[component] = int(np.argmax(nearest))
            if np.array_equal(before, chosen):
                break
    return np.array([to_rgba(_PALETTE[colour]) for colour in chosen] + [to_rgba(_BACKGROUND)])


def _row_colours(mixture: _vmfkit.Mixture, rows: Rows) -> Any:
    if mixture.components == 1:
        return _PALETTE[1]
    return _colours(mixture)[mixture.assign(rows.argument, normalize=True)]


# ------------------------------------------------- densities in 2 and 3 dimensions


def density(model: Any, rows: Any = None, ax: Axes | None = None, **options: Any) -> Axes:
    """A density, and rows if there are any: on the circle in 2 dimensions, on the sphere in 3."""
    dim = _mixture_of(model).dim
    if dim not in (2, 3):
        raise ValueError(f"a density can be drawn in 2 or 3 dimensions (map draws a mixture of any), found: `{dim}`")
    return (circle if dim == 2 else sphere)(model, rows, ax, **options)


def circle(model: Any, rows: Any = None, ax: Axes | None = None, *, size: float = 9) -> Axes:
    """A density on the circle, d = 2: its height over the circle outside, rows piled up inside, an arrow for each component.

    The arrow of a component points in its mean direction and is as long as its mean length A_2(kappa). `size` is that of a row's point.
    """
    mixture = _mixture_of(model)
    _of_dim(mixture, 2, "circle")
    ax = _axes(ax, (5.2, 5.2))
    count, colours = _count(mixture), _colours(mixture)
    angles = np.linspace(0, 2 * np.pi, 1441)
    ring = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    heights = np.exp(mixture.ln_densities(ring))
    # The highest point is a radius above the circle.
    scale = 1 / heights.max()
    outer = ring * (1 + scale * heights)[:, np.newaxis]
    ax.fill(*np.concatenate([outer, ring[::-1]]).T, color=_SHADES(0.35), linewidth=0, zorder=1)
    ax.plot(*outer.T, color=_SHADES(0.85), linewidth=1.4, zorder=2, label="density")
    ax.plot(*ring.T, color=_INK, linewidth=0.8, zorder=3)
    lengths = special.iv_ratio(2, mixture.concentrations)
    for component in range(count):
        tip = mixture.directions[component] * lengths[component]
        colour = colours[component] if mixture.components > 1 else _INK
        ax.annotate("", tip, (0, 0), arrowprops={"arrowstyle": "-|>", "color": colour, "shrinkA": 0, "shrinkB": 0, "linewidth": 1.6}, zorder=5)
    if rows is not None:
        found = _checked_rows(rows, 2)
        places = _piled(_cosines(np.eye(2), found))
        ax.scatter(places[:, 0], places[:, 1], s=size, color=_row_colours(mixture, found), linewidths=0, alpha=0.9, zorder=4, label="rows")
    for degrees in range(0, 360, 45):
        direction = np.array([np.cos(np.radians(degrees)), np.sin(np.radians(degrees))])
        # Clear of the curve on both sides of the text.
        near = np.abs((angles - np.radians(degrees) + np.pi) % (2 * np.pi) - np.pi) < 0.15
        x, y = direction * (1.14 + scale * heights[near].max())
        ax.text(x, y, f"{degrees}°", ha="center", va="center", fontsize=8, color=_INK, path_effects=_halo())
    ax.plot(0, 0, "o", color=_INK, markersize=2.5, zorder=6)
    ax.set_aspect("equal")
    ax.set_axis_off()
    return ax


def _piled(rows: np.ndarray, bins: int = 180) -> np.ndarray:
    """Rows on the circle moved inwards, one below the other where they are many."""
    bin_of = np.floor((np.arctan2(rows[:, 1], rows[:, 0]) + np.pi) / (2 * np.pi) * bins).astype(int) % bins
    order = np.argsort(bin_of, kind="stable")
    sizes = np.bincount(bin_of, minlength=bins)
    ranks = np.empty(len(rows), int)
    ranks[order] = np.arange(len(rows)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    step = min(0.022, 0.5 / max(sizes.max(initial=1), 1))
    return rows * (0.97 - step * ranks)[:, np.newaxis]


def sphere(
    model: Any,
    rows: Any = None,
    ax: Axes | None = None,
    *,
    view: Any = None,
    back: bool | None = None,
    size: float = 9,
    colorbar: bool = True,
) -> Axes:
    """A density on the sphere, d = 3, seen from far away: the darker, the denser; rows are points.

    `view` is the direction one looks from, by default that which sees most. `back` draws the other side as well, to the right, as seen
    from behind; by default it does where a fiftieth of the mass is there. `size` is that of a row's point.
    """
    mixture = _mixture_of(model)
    _of_dim(mixture, 3, "sphere")
    frame = _frame(mixture if view is None else None, view)
    side = np.linspace(-1, 1, _PIXELS)
    right, up = np.meshgrid(side, side)
    depth = np.sqrt(np.clip(1 - right**2 - up**2, 0, None))
    inside = right**2 + up**2 <= 1
    shades = []
    for sign in (1, -1):
        points = np.stack([sign * right, up, sign * depth], axis=-1)[inside] @ frame
        shades.append(np.exp(mixture.ln_densities(np.ascontiguousarray(points), normalize=True)))
    if back is None:
        # Pixels near the rim stand for more area.
        area = (side[1] - side[0]) ** 2 / np.maximum(depth[inside], 0.05)
        behind = float(np.sum(shades[1] * area)) / float(np.sum((shades[0] + shades[1]) * area))
        back = behind > 0.02
    top = max(shade.max() for shade in shades[: 2 if back else 1])
    ax = _axes(ax, (9.2, 4.4) if back else (5.2, 4.4))
    found = None if rows is None else _checked_rows(rows, 3)
    places = None if found is None else _cosines(np.eye(3), found) @ frame.T
    colours = None if found is None else _row_colours(mixture, found)
    for number, sign in enumerate((1, -1) if back else (1,)):
        centre = 2.25 * number
        image = np.full(inside.shape, np.nan)
        image[inside] = shades[number]
        drawn = ax.imshow(
            image,
            origin="lower",
            extent=(centre - 1, centre + 1, -1, 1),
            cmap=_SHADES if rows is None or mixture.components == 1 else _GREYS,
            vmin=0,
            vmax=top,
            interpolation="bilinear",
            zorder=1,
        )
        # What bilinear pixels leave of the rim lies under the line.
        rim = Circle((centre, 0), 0.998, fill=False, edgecolor=_INK, linewidth=1.1, zorder=3)
        ax.add_patch(rim)
        drawn.set_clip_path(Circle((centre, 0), 0.998, transform=ax.transData))
        _graticule(ax, frame, sign, centre)
        if places is not None:
            here = sign * places[:, 2] >= 0
            shown = colours[here] if isinstance(colours, np.ndarray) else colours
            ax.scatter(
                centre + sign * places[here, 0],
                places[here, 1],
                s=size,
                color=shown,
                edgecolors="white",
                linewidths=0.4,
                zorder=5,
            )
        if back:
            ax.text(centre, -1.1, "front" if sign > 0 else "back", ha="center", va="top", fontsize=9, color=_INK)
    if colorbar:
        bar = ax.figure.colorbar(drawn, ax=ax, shrink=0.7, pad=0.02)
        bar.set_label("density")
        bar.outline.set_visible(False)
    ax.set_xlim(-1.08, (3.33 if back else 1.08))
    ax.set_ylim(-1.25 if back else -1.08, 1.08)
    ax.set_aspect("equal")
    ax.set_axis_off()
    return ax


def _frame(mixture: _vmfkit.Mixture | None, view: Any) -> np.ndarray:
    """Directions right, up and towards the eye, as rows; up is as near to z as can be."""
    if mixture is not None:
        lengths = mixture.weights * special.iv_ratio(3, mixture.concentrations)
        towards = lengths @ mixture.directions
        # Of components that cancel, the one with most of the mass.
        if np.linalg.norm(towards) <= 0.1 * lengths.sum():
            towards = mixture.directions[int(np.argmax(lengths))]
        # Seen from a little above, the poles show which way is up.
        towards = towards / np.linalg.norm(towards) + np.array([0, 0, 0.25])
    else:
        towards = np.asarray(view, np.float64)
    if towards.shape != (3,) or not np.linalg.norm(towards) > 0:
        raise ValueError(f"view must be a direction in 3 dimensions, found: `{view}`")
    towards = towards / np.linalg.norm(towards)
    pole = np.array([0.0, 0.0, 1.0]) if abs(towards[2]) < 0.999 else np.array([0.0, 1.0, 0.0])
    right = np.cross(pole, towards)
    right /= np.linalg.norm(right)
    return np.stack([right, np.cross(towards, right), towards])


def _graticule(ax: Axes, frame: np.ndarray, sign: int, centre: float) -> None:
    """Lines every 30 degrees about the z axis, and the ends of the axes."""
    turn = np.linspace(0, 2 * np.pi, 361)
    lines = [
        np.stack([np.cos(turn) * np.cos(a), np.sin(turn) * np.cos(a), np.full_like(turn, np.sin(a))])
        for a in np.radians([-60, -30, 0, 30, 60])
    ]
    lines += [np.stack([np.cos(turn) * np.cos(a), np.cos(turn) * np.sin(a), np.sin(turn)]) for a in np.radians(range(0, 180, 30))]
    for line in lines:
        right, up, depth = frame @ line
        hidden = sign * depth < 0
        ax.plot(centre + sign * np.where(hidden, np.nan, right), up, color=_INK, linewidth=0.5, alpha=0.22, zorder=2)
    for axis, name in enumerate("xyz"):
        for end in (1, -1):
            right, up, depth = end * frame[:, axis]
            if sign * depth > 0.05:
                text = name if end > 0 else f"−{name}"
                ax.plot(centre + sign * right, up, "+", color=_INK, markersize=5, markeredgewidth=0.9, zorder=4)
                ax.annotate(
                    text, (centre + sign * right, up), (4, 3), textcoords="offset points", fontsize=8, color=_INK, path_effects=_halo(), zorder=6
                )


# -------------------------------------------------------------- fits and choices


def trace(model: Any, ax: Axes | None = None, *, label: str | None = None) -> Axes:
    """The objective before each pass of a fit. The last point is hollow if the fit was stopped before it converged."""
    description = _mixture_of(model).description
    values, converged = list(description["trace"]), description["status"] == "converged"
    if not values:
        raise ValueError("a model must have been fitted to have a trace, found passes: `0`")
    ax = _axes(ax, (5.6, 3.6))
    passes = np.arange(1, len(values) + 1)
    colour = _PALETTE[len(ax.lines) % len(_PALETTE)]
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
    _plain(ax)
    return ax


def selection(
    models: Any,
    rows: Any = None,
    held_out: Any = None,
    ax: Axes | None = None,
    *,
    criteria: Sequence[str] | None = None,
) -> Axes:
    """Criteria over the number of components, in nats a row: the lower the better. The best of each is marked.

    `models` are fitted models, whose criteria on `rows` and mean ln p on `held_out` are found, or a table: what `vmf select --json`
    prints, or columns "components", "rows" and some of "aic", "bic", "icl", "held_out" (the mean ln p of rows that were held out), as a
    mapping or a DataFrame. AIC, BIC and ICL are divided by twice the number of rows, so that they compare with minus the held-out ln p.
    """
    numbers, curves = _curves(models, rows, held_out)
    if criteria is not None:
        unknown = [name for name in criteria if name not in curves]
        if unknown:
            raise ValueError(f"criteria must be among {sorted(curves)}, found: `{unknown[0]}`")
        curves = {name: curves[name] for name in criteria}
    if not curves:
        raise ValueError("there must be a criterion to draw (rows, held_out, or a table that has one), found: `0`")
    ax = _axes(ax, (5.6, 3.8))
    order = np.argsort(numbers, kind="stable")
    numbers = numbers[order]
    styles = {"bic": (_PALETTE[0], "o"), "icl": (_PALETTE[1], "s"), "aic": (_PALETTE[5], "^"), "held_out": (_PALETTE[6], "D")}
    for name, values in curves.items():
        colour, marker = styles[name]
        values = values[order]
        best = int(np.nanargmin(values))
        text = f"{_CRITERIA[name]}, best at {numbers[best]}"
        ax.plot(numbers, values, color=colour, marker=marker, markersize=4, markerfacecolor="white", linewidth=1.5, label=text)
        ax.plot(numbers[best], values[best], color=colour, marker=marker, markersize=8)
    # Numbers that double are as far apart as those that are counted.
    if numbers[0] > 0 and numbers[-1] >= 8 * numbers[0]:
        ax.set_xscale("log")
        ax.xaxis.set_minor_locator(NullLocator())
    shown = np.unique(numbers)
    if len(shown) <= 12:
        ax.set_xticks(shown, [str(number) for number in shown])
    ax.set_xlabel("components")
    ax.set_ylabel("nats a row, the lower the better")
    ax.ticklabel_format(axis="y", useOffset=False)
    ax.legend(frameon=False)
    _plain(ax)
    return ax


def _curves(models: Any, rows: Any, held_out: Any) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Numbers of components, and each criterion in nats a row."""
    if isinstance(models, Mapping) and "candidates" in models:
        models = _of_command(models["candidates"])
    if isinstance(models, Mapping) or hasattr(models, "columns"):
        return _of_table(models)
    models = list(models)
    if not models:
        raise ValueError("there must be a model to draw, found: `0`")
    mixtures = [_mixture_of(model) for model in models]
    numbers = np.array([_count(mixture) for mixture in mixtures])
    curves: dict[str, list[float]] = {}
    for mixture in mixtures:
        if rows is not None:
            found = mixture.evaluate(_checked_rows(rows, mixture.dim).argument, normalize=True)
            # AIC is -2 ln L + 2 p, which gives the number of rows away.
            count = (2 * mixture.free_parameters - found["aic"]) / (2 * found["mean"])
            for name in ("bic", "icl", "aic"):
                curves.setdefault(name, []).append(found[name] / (2 * count))
        if held_out is not None:
            found = mixture.evaluate(_checked_rows(held_out, mixture.dim).argument, normalize=True)
            curves.setdefault("held_out", []).append(-found["mean"])
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
    """Weight and concentration of each component, heaviest first, with the angle that holds half of its mass.

    `labels` are names of the components. The Axes returned has the weights; the one to its right, which is made of its room, the
    concentrations, on a logarithmic axis where they differ by more than a factor of 3.
    """
    mixture = _mixture_of(model)
    count = _count(mixture)
    names = _names(labels, count)
    ax = _axes(ax, (7.2, 1.1 + 0.24 * count))
    order = np.argsort(-mixture.weights[:count], kind="stable")
    weights, concentrations = mixture.weights[order], mixture.concentrations[order]
    angles = np.degrees(_half_angles(mixture))[order]
    colours = _colours(mixture)[order]
    places = np.arange(count)
    ax.barh(places, weights, color=colours, height=0.72)
    ticks = [names[component] for component in order]
    if mixture.has_background:
        ax.barh([count], mixture.weights[-1:], color=_BACKGROUND, height=0.72)
        ticks.append("background")
    ax.set_yticks(np.arange(len(ticks)), ticks)
    ax.set_ylim(len(ticks) - 0.4, -0.6)
    ax.set_xlabel("weight")
    _plain(ax)
    ax.tick_params(axis="y", length=0)
    ax.spines["left"].set_visible(False)
    box = _right_part(ax)
    box.hlines(places, 0, 1, transform=box.get_yaxis_transform(), color="#E6E6E6", linewidth=0.7, zorder=0)
    box.scatter(concentrations, places, c=colours, s=30, zorder=2)
    if concentrations.min() > 0 and concentrations.max() > 3 * concentrations.min():
        box.set_xscale("log")
        steps = (1, 2, 5) if concentrations.max() < 100 * concentrations.min() else (1,)
        box.xaxis.set_major_locator(LogLocator(subs=steps))
        box.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        box.xaxis.set_minor_locator(NullLocator())
        box.set_xlim(concentrations.min() / 1.25, concentrations.max() * 1.25)
    else:
        box.set_xlim(0, 1.12 * concentrations.max() or 1)
    for place, angle in enumerate(angles):
        box.text(1.02, place, _degrees(angle), transform=box.get_yaxis_transform(), va="center", fontsize=8, color=_INK)
    box.text(1.02, 1.0, "half the\nmass within", transform=box.transAxes, va="bottom", fontsize=8, color=_INK)
    box.set_xlabel("concentration")
    box.tick_params(axis="y", left=False, labelleft=False)
    _plain(box)
    box.spines["left"].set_visible(False)
    return ax


def _degrees(angle: float) -> str:
    return f"{angle:.1f}°" if angle >= 10 else f"{angle:.2g}°"


def _right_part(ax: Axes) -> Axes:
    """A new Axes of the right part of another."""
    spec = ax.get_subplotspec()
    if spec is None:
        box = ax.get_position()
        ax.set_position((box.x0, box.y0, 0.55 * box.width, box.height))
        return ax.figure.add_axes((box.x0 + 0.6 * box.width, box.y0, 0.4 * box.width, box.height), sharey=ax)
    parts = spec.subgridspec(1, 2, width_ratios=(3, 2), wspace=0.06)
    ax.set_subplotspec(parts[0])
    return ax.figure.add_subplot(parts[1], sharey=ax)


# -------------------------------------------------------------- a map of a mixture


def _distances(places: np.ndarray) -> np.ndarray:
    """Of each place in the plane from each other."""
    return np.hypot(*(np.subtract.outer(along, along) for along in places.T))


def _layout(mixture: _vmfkit.Mixture, passes: int = 200) -> np.ndarray:
    """A place in the plane for each component, so that distances are as near to angles as can be.

    Classical scaling of the angles for a start, then majorisation of the stress (de Leeuw, 1977), with weights angle^-2 so that small
    angles count. In many dimensions all angles are near a right one; what they have in common tells nothing and would be drawn as a
    disc of even distances, so two thirds of the least angle are taken off all of them.
    """
    count = _count(mixture)
    if count == 1:
        return np.zeros((1, 2))
    directions = mixture.directions[:count]
    angles = np.arccos(np.clip(directions @ directions.T, -1, 1))
    apart = ~np.eye(count, dtype=bool)
    wanted = np.where(apart, angles - (2 / 3) * angles[apart].min() + 1e-6, 0)
    centring = np.eye(count) - 1 / count
    values, vectors = np.linalg.eigh(-0.5 * centring @ wanted**2 @ centring)
    places = vectors[:, :-3:-1] * np.sqrt(np.clip(values[:-3:-1], 0, None))
    # Signs of eigenvectors are anyone's; those of the greatest entries are made positive.
    places *= np.sign(places[np.abs(places).argmax(axis=0), np.arange(places.shape[1])] + 1e-300)
    if count > 2:
        weights = np.where(apart, np.divide(1, wanted**2, where=apart, out=np.zeros_like(wanted)), 0)
        inverse = np.linalg.pinv(np.diag(weights.sum(axis=1)) - weights)
        for _ in range(passes):
            distances = _distances(places)
            pulls = np.divide(weights * wanted, distances, where=distances > 1e-12, out=np.zeros_like(distances))
            moved = inverse @ (pulls.sum(axis=1)[:, np.newaxis] * places - pulls @ places)
            change = np.abs(moved - places).max()
            places = moved
            if change < 1e-4:
                break
    places -= places.mean(axis=0)
    # Widest from left to right.
    return places @ np.linalg.svd(places, full_matrices=False)[2].T


def map(
    model: Any,
    rows: Any = None,
    labels: Sequence[Any] | None = None,
    ax: Axes | None = None,
    *,
    size: float = 5,
    most_rows: int = _MOST_ROWS,
) -> Axes:
    """A mixture of any dimension in the plane, coloured by component.

    Components lie as the angles between their mean directions want it: the nearer, the more alike. The ring of a component holds half of its
    mass, and its radius is the angle that does so in space (on a scale of its own, for in many dimensions that angle is wide and rings
    would cover the map). Without rows, the area of the disc in its middle is its weight.

    Rows lie about their component as normal draws would, half of them within the ring: those nearest to the mean direction are innermost, and
    each is on the side of the components it leans to. A row that belongs to several components lies between them, as its responsibilities
    say. `labels` are names of the components; at most `most_rows` rows are shown, at equal steps.
    """
    mixture = _mixture_of(model)
    count = _count(mixture)
    names = _names(labels, count)
    ax = _axes(ax, (7.6, 6.4))
    places = _layout(mixture)
    colours = _colours(mixture, places)
    radii = _radii(mixture, places)
    edges = colours[:count]
    if rows is not None:
        found = _thinned(_checked_rows(rows, mixture.dim), most_rows)
        where, component = _places_of_rows(mixture, found, places, radii, most_rows)
        ax.scatter(where[:, 0], where[:, 1], s=size, c=colours[component], linewidths=0, alpha=0.55, zorder=2, rasterized=True)
    units: dict[str, Any] = {"units": "xy", "offsets": places, "offset_transform": ax.transData}
    flat = np.zeros(count)
    ax.add_collection(
        EllipseCollection(2 * radii, 2 * radii, flat, facecolors="none", edgecolors=edges, linewidths=1.3, zorder=3, **units)
    )
    if rows is None:
        discs = 1.2 * radii.max() * np.sqrt(mixture.weights[:count] / mixture.weights[:count].max())
        ax.add_collection(EllipseCollection(discs, discs, flat, facecolors=edges, linewidths=0, alpha=0.75, zorder=3.5, **units))
    # Numbers of more than a hundred would cover the map; names were asked for.
    written = names if labels is not None or count <= 100 else []
    font = min(8.0, max(4.5, 8 * np.sqrt(40 / count)))
    for name, (x, y) in zip(written, places):
        ax.text(x, y, name, ha="center", va="center", fontsize=font, color="black", path_effects=_halo(), zorder=6)
    reach = places if rows is None else np.concatenate([places, where])
    margin = 1.15 * radii.max()
    ax.set_xlim(min(reach[:, 0].min(), (places[:, 0]).min() - margin), max(reach[:, 0].max(), places[:, 0].max() + margin))
    ax.set_ylim(min(reach[:, 1].min(), (places[:, 1]).min() - margin), max(reach[:, 1].max(), places[:, 1].max() + margin))
    angles = np.degrees(_half_angles(mixture))
    span = " to ".join(dict.fromkeys(_degrees(angle) for angle in (angles.min(), angles.max())))
    note = f"ring: half the mass of a component, within {span} of its mean direction" + ("; disc: weight" if rows is None else "")
    ax.text(0.5, -0.01, note, transform=ax.transAxes, ha="center", va="top", fontsize=8, color="#777777")
    ax.set_aspect("equal")
    ax.set_axis_off()
    return ax


def _radii(mixture: _vmfkit.Mixture, places: np.ndarray) -> np.ndarray:
    """Of the rings on the map: the angles that hold half the mass, made smaller so that neighbours touch rather than overlap."""
    angles = _half_angles(mixture)
    if len(places) == 1:
        return angles
    distances = _distances(places)
    np.fill_diagonal(distances, np.inf)
    room = np.median(distances.min(axis=1)) / 2
    return angles * min(1.0, 0.65 * room / np.median(angles))


def _thinned(rows: Rows, most: int) -> Rows:
    """At most so many rows at equal steps, where that can be done before they are read."""
    if rows.length is None or rows.length <= most:
        return rows
    kept = np.linspace(0, rows.length - 1, most).astype(int)
    if isinstance(rows.argument, np.ndarray):
        return as_rows(rows.argument[kept])
    from scipy.sparse import csr_array

    starts, columns, values, dim = rows.argument
    matrix = csr_array((values, columns.view(np.int32), starts.astype(np.int64)), shape=(rows.length, dim))
    return as_rows(matrix[kept])


def _places_of_rows(
    mixture: _vmfkit.Mixture, rows: Rows, places: np.ndarray, radii: np.ndarray, most: int
) -> tuple[np.ndarray, np.ndarray]:
    """Where rows lie on the map, and their most probable components."""
    count = len(places)
    directions = mixture.directions[:count]
    cosines = _cosines(directions, rows)
    responsibilities = mixture.responsibilities(rows.argument, normalize=True)
    if len(cosines) > most:
        kept = np.linspace(0, len(cosines) - 1, most).astype(int)
        cosines, responsibilities = cosines[kept], responsibilities[kept]
    component = responsibilities.argmax(axis=1)
    # A row of the background has a place too: that of the component it would belong to.
    shares = responsibilities[:, :count] + 1e-12
    shares /= shares.sum(axis=1, keepdims=True)
    # The linear map that takes each mean direction to its place, of all that is known of a row: its cosines.
    gram = directions @ directions.T
    back = np.linalg.pinv(gram, rcond=1e-3, hermitian=True) @ places
    leaning, own = cosines @ back, gram @ back
    where = np.zeros((len(cosines), 2))
    belongs = shares.argmax(axis=1)
    for k in range(count):
        some = shares[:, k] > 1e-3
        # The share of the component's rows that are farther away.
        mine = np.sort(cosines[belongs == k, k])
        beyond = (np.searchsorted(mine, cosines[some, k]) + 0.5) / (len(mine) + 1)
        side = leaning[some] - cosines[some, k : k + 1] * own[k]
        side /= np.maximum(np.linalg.norm(side, axis=1, keepdims=True), 1e-300)
        # Of a normal density in the plane, exp(-ln 2 (r / radius)^2) of the mass is beyond r.
        away = radii[k] * np.sqrt(-np.log2(np.minimum(beyond, 1)))
        where[some] += shares[some, k : k + 1] * (places[k] + away[:, np.newaxis] * side)
    # Shares too small to count are made up for.
    where /= np.where(shares > 1e-3, shares, 0).sum(axis=1, keepdims=True)
    return where, component
