"""Densities and rows in 2 and 3 dimensions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.patches import Circle

from .. import _vmfkit, special
from ._layout import colours_of, row_colours
from ._model import check_dim, checked_rows, cosines_of, count_of, mixture_of
from ._style import GREYS, INK, SHADES, axes_of, halo

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Diameter of a sphere in pixels.
_PIXELS = 480


def density(model: Any, rows: Any = None, ax: Axes | None = None, **options: Any) -> Axes:
    """Draws a density and, if given, rows: on the circle in 2 dimensions, on the sphere in 3.

    Parameters are those of `circle` and `sphere`.
    """
    dim = mixture_of(model).dim
    if dim not in (2, 3):
        raise ValueError(f"a density can be drawn in 2 or 3 dimensions (map draws a mixture of any dimension), found: `{dim}`")
    return (circle if dim == 2 else sphere)(model, rows, ax, **options)


def circle(model: Any, rows: Any = None, ax: Axes | None = None, *, size: float = 9) -> Axes:
    """Draws a density on the circle (d = 2), with rows stacked inside and an arrow for each component.

    The curve outside the circle is the density. The arrow of a component is its mean vector, of length A_2(kappa).

    Parameters
    ----------
    model : fitted estimator, Mixture or frozen density
    rows : rows, optional
    ax : Axes, optional
    size : float, default=9
        Size of the points.

    Returns
    -------
    ax : Axes
    """
    mixture = mixture_of(model)
    check_dim(mixture, 2, "circle")
    ax = axes_of(ax, (5.2, 5.2))
    count, colours = count_of(mixture), colours_of(mixture)
    angles = np.linspace(0, 2 * np.pi, 1441)
    ring = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    heights = np.exp(mixture.ln_densities(ring))
    # The maximum is one radius above the circle.
    scale = 1 / heights.max()
    outer = ring * (1 + scale * heights)[:, np.newaxis]
    ax.fill(*np.concatenate([outer, ring[::-1]]).T, color=SHADES(0.35), linewidth=0, zorder=1)
    ax.plot(*outer.T, color=SHADES(0.85), linewidth=1.4, zorder=2, label="density")
    ax.plot(*ring.T, color=INK, linewidth=0.8, zorder=3)
    lengths = special.iv_ratio(2, mixture.concentrations)
    for component in range(count):
        tip = mixture.directions[component] * lengths[component]
        colour = colours[component] if mixture.components > 1 else INK
        ax.annotate("", tip, (0, 0), arrowprops={"arrowstyle": "-|>", "color": colour, "shrinkA": 0, "shrinkB": 0, "linewidth": 1.6}, zorder=5)
    if rows is not None:
        positions, colours_of_rows = _unit_vectors(mixture, rows)
        positions = _piled(positions)
        ax.scatter(positions[:, 0], positions[:, 1], s=size, color=colours_of_rows, linewidths=0, alpha=0.9, zorder=4, label="rows")
    for degrees in range(0, 360, 45):
        direction = np.array([np.cos(np.radians(degrees)), np.sin(np.radians(degrees))])
        # Outside the curve on both sides of the text.
        near = np.abs((angles - np.radians(degrees) + np.pi) % (2 * np.pi) - np.pi) < 0.15
        x, y = direction * (1.14 + scale * heights[near].max())
        ax.text(x, y, f"{degrees}°", ha="center", va="center", fontsize=8, color=INK, path_effects=halo())
    ax.plot(0, 0, "o", color=INK, markersize=2.5, zorder=6)
    ax.set_aspect("equal")
    ax.set_axis_off()
    return ax


def _unit_vectors(mixture: _vmfkit.Mixture, rows: Any) -> tuple[np.ndarray, Any]:
    """Rows as unit vectors, and their colours, without rows of zeros."""
    found = checked_rows(rows, mixture.dim)
    positions, colours = cosines_of(np.eye(mixture.dim), found), row_colours(mixture, found)
    if found.zeros is None:
        return positions, colours
    return positions[~found.zeros], colours[~found.zeros] if isinstance(colours, np.ndarray) else colours


def _piled(rows: np.ndarray, bins: int = 180) -> np.ndarray:
    """Stacks rows of the same angle inwards."""
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
    """Draws a density on the sphere, d = 3, in orthographic projection: darker is denser; rows are points.

    `view` is the direction of the viewer, by default toward most of the mass. `back` also draws the other side, to the right, as seen from
    behind; by default if it has at least 2 % of the mass. `size` is the size of the points.
    """
    mixture = mixture_of(model)
    check_dim(mixture, 3, "sphere")
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
        # Pixels near the rim cover more area.
        area = (side[1] - side[0]) ** 2 / np.maximum(depth[inside], 0.05)
        behind = float(np.sum(shades[1] * area)) / float(np.sum((shades[0] + shades[1]) * area))
        back = behind > 0.02
    top = max(shade.max() for shade in shades[: 2 if back else 1])
    ax = axes_of(ax, (9.2, 4.4) if back else (5.2, 4.4))
    positions = None
    if rows is not None:
        positions, colours = _unit_vectors(mixture, rows)
        positions = positions @ frame.T
    for number, sign in enumerate((1, -1) if back else (1,)):
        centre = 2.25 * number
        image = np.full(inside.shape, np.nan)
        image[inside] = shades[number]
        drawn = ax.imshow(
            image,
            origin="lower",
            extent=(centre - 1, centre + 1, -1, 1),
            cmap=SHADES if rows is None or mixture.components == 1 else GREYS,
            vmin=0,
            vmax=top,
            interpolation="bilinear",
            zorder=1,
        )
        # The line hides the interpolated edge.
        rim = Circle((centre, 0), 0.998, fill=False, edgecolor=INK, linewidth=1.1, zorder=3)
        ax.add_patch(rim)
        drawn.set_clip_path(Circle((centre, 0), 0.998, transform=ax.transData))
        _graticule(ax, frame, sign, centre)
        if positions is not None:
            here = sign * positions[:, 2] >= 0
            shown = colours[here] if isinstance(colours, np.ndarray) else colours
            ax.scatter(
                centre + sign * positions[here, 0],
                positions[here, 1],
                s=size,
                color=shown,
                edgecolors="white",
                linewidths=0.4,
                zorder=5,
            )
        if back:
            ax.text(centre, -1.1, "front" if sign > 0 else "back", ha="center", va="top", fontsize=9, color=INK)
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
    """Unit vectors to the right, up and toward the viewer, as rows; up is as close to z as possible."""
    if mixture is not None:
        lengths = mixture.weights * special.iv_ratio(3, mixture.concentrations)
        towards = lengths @ mixture.directions
        # If the components cancel, the heaviest one.
        if np.linalg.norm(towards) <= 0.1 * lengths.sum():
            towards = mixture.directions[int(np.argmax(lengths))]
        # Slightly from above, so that a pole is visible.
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
    """Draws meridians and parallels every 30 degrees, and the ends of the axes."""
    turn = np.linspace(0, 2 * np.pi, 361)
    lines = [
        np.stack([np.cos(turn) * np.cos(a), np.sin(turn) * np.cos(a), np.full_like(turn, np.sin(a))])
        for a in np.radians([-60, -30, 0, 30, 60])
    ]
    lines += [np.stack([np.cos(turn) * np.cos(a), np.cos(turn) * np.sin(a), np.sin(turn)]) for a in np.radians(range(0, 180, 30))]
    for line in lines:
        right, up, depth = frame @ line
        hidden = sign * depth < 0
        ax.plot(centre + sign * np.where(hidden, np.nan, right), up, color=INK, linewidth=0.5, alpha=0.22, zorder=2)
    for axis, name in enumerate("xyz"):
        for end in (1, -1):
            right, up, depth = end * frame[:, axis]
            if sign * depth > 0.05:
                text = name if end > 0 else f"−{name}"
                ax.plot(centre + sign * right, up, "+", color=INK, markersize=5, markeredgewidth=0.9, zorder=4)
                ax.annotate(
                    text, (centre + sign * right, up), (4, 3), textcoords="offset points", fontsize=8, color=INK, path_effects=halo(), zorder=6
                )
