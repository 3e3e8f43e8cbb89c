"""Colours and styles of plots."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import matplotlib.pyplot as plt
from matplotlib import patheffects
from matplotlib.colors import LinearSegmentedColormap

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# "Muted" of P. Tol, Colour Schemes, SRON/EPS/TN/09-002 (2021): nine colours that colour-blind people tell apart, reordered.
PALETTE = ("#332288", "#CC6677", "#117733", "#88CCEE", "#882255", "#44AA99", "#999933", "#AA4499", "#DDCC77")
BACKGROUND = "#BBBBBB"
INK = "#333333"
FAINT = "#999999"

# Density colour maps, from low to high; grey and light under coloured rows.
SHADES = LinearSegmentedColormap.from_list("vmfkit", ["#FAFAF7", "#DCE6EC", "#A9C4D6", "#6A9BBD", "#2F6C99", "#123F66"])
GREYS = LinearSegmentedColormap.from_list("vmfkit greys", ["#FAFAF7", "#E4E5E5", "#C3C6C9", "#9CA1A6", "#757B82"])


def axes_of(ax: Axes | None, size: tuple[float, float]) -> Axes:
    return plt.subplots(figsize=size, layout="constrained")[1] if ax is None else ax


def plain(ax: Axes) -> None:
    """Removes superfluous lines of an Axes."""
    ax.spines[["top", "right"]].set_visible(False)
    ax.spines[["left", "bottom"]].set_color(FAINT)
    ax.tick_params(color=FAINT, labelcolor=INK)


def halo(width: float = 2.5) -> list[Any]:
    return [patheffects.withStroke(linewidth=width, foreground="white")]


def in_degrees(angle: float) -> str:
    return f"{angle:.1f}°" if angle >= 10 else f"{angle:.2g}°"
