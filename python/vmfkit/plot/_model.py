"""Models and rows for plots."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import _vmfkit
from .._directions import Directions, probe_of
from .._rows import as_rows


def mixture_of(model: Any) -> _vmfkit.Mixture:
    """The mixture of a model."""
    if isinstance(model, _vmfkit.Mixture):
        return model
    if hasattr(model, "mixture_"):
        return model.mixture_
    if hasattr(model, "mu") and hasattr(model, "kappa"):
        if np.ndim(model.kappa):
            raise ValueError(f"only one density can be drawn, found concentrations of shape: `{np.shape(model.kappa)}`")
        mu = np.asarray(model.mu, np.float64)[np.newaxis]
        return _vmfkit.Mixture(np.ones(1), mu, np.array([float(model.kappa)]))
    raise ValueError(f"a model must be a fitted estimator, a Mixture or a vonmises_fisher(mu, kappa), found: `{model!r}`")


def check_dim(mixture: _vmfkit.Mixture, dim: int, name: str) -> None:
    if mixture.dim != dim:
        raise ValueError(f"{name} needs dimension {dim} (map draws a mixture of any dimension), found: `{mixture.dim}`")


def checked_rows(rows: Any, dim: int) -> Directions:
    found = as_rows(rows, normalize=True)
    if found.dim is not None and found.dim != dim:
        raise ValueError(f"rows must have dimension {dim}, found: `{found.dim}`")
    return Directions(found, normalize=True)


def cosines_of(directions: np.ndarray, rows: Directions) -> np.ndarray:
    """Cosine of each row with each direction."""
    return rows.cosines(probe_of(directions))


def half_angles(mixture: _vmfkit.Mixture) -> np.ndarray:
    """Angle that contains half of each component's mass, in radians, without a background."""
    half = np.array([0.5])
    concentrations = mixture.concentrations[: count_of(mixture)]
    medians = [_vmfkit.ProjectionLaw(mixture.dim, float(kappa)).evaluate("quantile", half)[0] for kappa in concentrations]
    return np.arccos(np.clip(medians, -1, 1))


def count_of(mixture: _vmfkit.Mixture) -> int:
    """Number of components, without a background."""
    return mixture.components - mixture.has_background


def names_of(labels: Sequence[Any] | None, count: int) -> list[str]:
    if labels is None:
        return [str(component) for component in range(count)]
    if len(labels) != count:
        raise ValueError(f"expected one label for each of {count} components, found: `{len(labels)}`")
    return [str(label) for label in labels]
