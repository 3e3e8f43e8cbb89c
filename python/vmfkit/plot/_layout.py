"""Positions of components in the plane, and their colours."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.colors import to_rgba

from .. import _vmfkit
from .._directions import Directions
from ._model import count_of
from ._style import BACKGROUND, PALETTE


def distances_between(positions: np.ndarray) -> np.ndarray:
    """Distances between all pairs of positions."""
    return np.hypot(*(np.subtract.outer(along, along) for along in positions.T))


def layout(mixture: _vmfkit.Mixture, passes: int = 200) -> np.ndarray:
    """A position in the plane for each component, such that distances approximate angles.

    Classical scaling of the angles, then stress majorisation (de Leeuw, 1977) with weights angle^-2, so that small angles count. In many
    dimensions all angles are near 90 degrees and would give a disc of even distances, so two thirds of the smallest angle are subtracted.
    """
    count = count_of(mixture)
    if count == 1:
        return np.zeros((1, 2))
    directions = mixture.directions[:count]
    angles = np.arccos(np.clip(directions @ directions.T, -1, 1))
    apart = ~np.eye(count, dtype=bool)
    wanted = np.where(apart, angles - (2 / 3) * angles[apart].min() + 1e-6, 0)
    centring = np.eye(count) - 1 / count
    values, vectors = np.linalg.eigh(-0.5 * centring @ wanted**2 @ centring)
    positions = vectors[:, :-3:-1] * np.sqrt(np.clip(values[:-3:-1], 0, None))
    # The sign of an eigenvector is arbitrary; its largest entry is made positive.
    positions *= np.sign(positions[np.abs(positions).argmax(axis=0), np.arange(positions.shape[1])] + 1e-300)
    if count > 2:
        weights = np.where(apart, np.divide(1, wanted**2, where=apart, out=np.zeros_like(wanted)), 0)
        inverse = np.linalg.pinv(np.diag(weights.sum(axis=1)) - weights)
        for _ in range(passes):
            distances = distances_between(positions)
            pulls = np.divide(weights * wanted, distances, where=distances > 1e-12, out=np.zeros_like(distances))
            moved = inverse @ (pulls.sum(axis=1)[:, np.newaxis] * positions - pulls @ positions)
            change = np.abs(moved - positions).max()
            positions = moved
            if change < 1e-4:
                break
    positions -= positions.mean(axis=0)
    # The largest extent is horizontal.
    return positions @ np.linalg.svd(positions, full_matrices=False)[2].T


def colours_of(mixture: _vmfkit.Mixture, positions: np.ndarray | None = None) -> np.ndarray:
    """A colour for each component, grey for a background last. With many components, colours repeat far from each other."""
    count = count_of(mixture)
    chosen = np.arange(count)
    if count > len(PALETTE):
        distances = distances_between(layout(mixture) if positions is None else positions)
        np.fill_diagonal(distances, np.inf)
        chosen %= len(PALETTE)
        # Each component in turn takes the colour whose nearest other use is farthest away, until nothing changes.
        for _ in range(20):
            before = chosen.copy()
            for component in range(count):
                nearest = np.full(len(PALETTE), np.inf)
                np.minimum.at(nearest, chosen, distances[component])
                chosen[component] = int(np.argmax(nearest))
            if np.array_equal(before, chosen):
                break
    return np.array([to_rgba(PALETTE[colour]) for colour in chosen] + [to_rgba(BACKGROUND)])


def row_colours(mixture: _vmfkit.Mixture, rows: Directions) -> Any:
    if mixture.components == 1:
        return PALETTE[1]
    return colours_of(mixture)[rows.ask(mixture.assign)]
