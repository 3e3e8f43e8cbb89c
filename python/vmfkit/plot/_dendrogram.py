"""Plot of a merge tree."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.collections import LineCollection

from .._tree import MergeTree
from ._model import names_of
from ._style import FAINT, INK, PALETTE, axes_of, plain

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# With more components, their names would overlap.
_MOST_NAMES = 100


def dendrogram(
    model: Any,
    ax: Axes | None = None,
    *,
    clusters: int | None = None,
    labels: Sequence[Any] | None = None,
) -> Axes:
    """Plots the components merged step by step. Merges on the right lose the most log-likelihood.

    Parameters
    ----------
    model : fitted estimator, Mixture or MergeTree
    ax : Axes, optional
    clusters : int, optional
        Number of clusters to colour; a line shows where the tree is cut.
    labels : sequence, optional
        Names of the components, which are shown for up to 100 of them.

    Returns
    -------
    ax : Axes
    """
    tree = model if isinstance(model, MergeTree) else MergeTree(model)
    count = tree.n_components
    names = names_of(labels, count)
    cut = None if clusters is None else tree.cut(clusters)
    ax = axes_of(ax, (7.2, min(1.2 + 0.22 * count, 12)))
    table = tree.table()
    heights = np.concatenate([np.zeros(count), table["height"]])
    positions = np.empty(2 * count - 1)
    positions[tree.leaf_order] = np.arange(count)
    # A cluster has the colour of its components; branches between clusters are grey.
    colours = [FAINT if cut is None else PALETTE[cut[component] % len(PALETTE)] for component in range(count)]
    segments = []
    for number, (first, second) in enumerate(zip(table["first"], table["second"])):
        node = count + number
        positions[node] = (positions[first] + positions[second]) / 2
        within = cut is not None and number < count - int(cut.max() + 1)
        colours.append(colours[first] if within else FAINT)
        corners = [(heights[first], positions[first]), (heights[node], positions[first])]
        corners += [(heights[node], positions[second]), (heights[second], positions[second])]
        segments.append((corners, colours[node]))
    lines = LineCollection([corners for corners, _ in segments], colors=[colour for _, colour in segments], linewidths=1.3)
    lines.set_capstyle("round")
    ax.add_collection(lines)
    highest = heights[-1] or 1.0
    # Costs grow with the square of the angle between clusters.
    ax.set_xscale("function", functions=(lambda x: np.sqrt(np.maximum(x, 0)), np.square))
    ax.set_xlim(0, 1.03 * highest)
    ax.set_ylim(count - 0.4, -0.6)
    if cut is not None and 1 < clusters < count:
        between = (np.sqrt(heights[-clusters]) + np.sqrt(heights[1 - clusters])) / 2
        ax.axvline(between**2, color=INK, linewidth=0.9, linestyle=(0, (4, 3)))
    if count <= _MOST_NAMES:
        ax.set_yticks(np.arange(count), [names[component] for component in tree.leaf_order])
    else:
        ax.set_yticks([])
        ax.set_ylabel(f"{count} components")
    ax.set_xlabel("log-likelihood lost by a merge (nats)")
    plain(ax)
    ax.tick_params(axis="y", length=0)
    ax.spines["left"].set_visible(False)
    return ax
