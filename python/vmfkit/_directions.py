"""Calls of the extension module with rows. Rows of zeros have no direction and are excluded with a warning."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from . import _vmfkit, special
from ._rows import Rows, as_rows
from ._warn import warn


class Directions:
    """Rows for calls of the extension module. `zeros` marks rows of zeros, once a call has detected some."""

    def __init__(self, rows: Rows, normalize: bool) -> None:
        self.rows = rows
        self.normalize = normalize
        self.zeros: np.ndarray | None = None

    def ask(self, call: Any, *arguments: Any, **options: Any) -> Any:
        """Calls `call` with the rows; rows of zeros get a placeholder direction."""
        try:
            return call(self.rows.argument, *arguments, normalize=self.normalize, **options)
        except _vmfkit.ZeroRowError:
            if not self.normalize or self.rows.is_files or self.zeros is not None:
                raise
            self._set_zeros_aside()
            warn(f"rows of zeros have no direction and belong to no component (label -1), found: `{self.zeros.sum()}`")
            return call(self.rows.argument, *arguments, normalize=self.normalize, **options)

    def _set_zeros_aside(self) -> None:
        """Replaces rows of zeros by the first axis. Their weight in a fit is 0, and their results are overwritten."""
        argument = self.rows.argument
        if isinstance(argument, tuple):
            from scipy.sparse import csr_matrix

            starts, columns, values, dim = argument
            starts, columns = starts.astype(np.int64), columns.view(np.int32)
            # Number of nonzero values before each row start; it does not change over a row of zeros.
            before = np.concatenate([[0], np.cumsum(values != 0)])[starts]
            self.zeros = before[1:] == before[:-1]
            matrix = csr_matrix((values, columns, starts), shape=(len(self.zeros), dim))
            rows = np.flatnonzero(self.zeros)
            first = csr_matrix((np.ones(len(rows), values.dtype), (rows, np.zeros_like(rows))), shape=matrix.shape)
            self.rows = as_rows(matrix + first)
        else:
            self.zeros = ~argument.any(axis=1)
            argument = argument.copy()
            argument[self.zeros, 0] = 1
            self.rows = self.rows._replace(argument=argument)

    def matrix(self) -> Any:
        """The rows in memory as an array or a sparse matrix, rows of zeros replaced by the first axis."""
        argument = self.rows.argument
        if not isinstance(argument, tuple):
            return argument
        from scipy.sparse import csr_matrix

        starts, columns, values, dim = argument
        return csr_matrix((values, columns.view(np.int32), starts.astype(np.int64)), shape=(len(starts) - 1, dim))

    def fit(self, call: Any, components: int, weights: np.ndarray | None, *arguments: Any, **options: Any) -> Any:
        """Calls a fit with the rows; rows of zeros have weight 0."""
        try:
            return call(self.rows.argument, components, weights, *arguments, normalize=self.normalize, **options)
        except _vmfkit.ZeroRowError:
            if not self.normalize or self.rows.is_files:
                raise
            self._set_zeros_aside()
        weights = self.without_zeros(weights)
        return call(self.rows.argument, components, weights, *arguments, normalize=self.normalize, **options)

    def without_zeros(self, weights: np.ndarray | None) -> np.ndarray | None:
        """Weights with 0 for rows of zeros, with a warning if there are any."""
        if self.zeros is None:
            return weights
        warn(f"rows of zeros have no direction and are left out of the fit, found: `{self.zeros.sum()}`")
        return self.weights_of_others(weights)

    def weights_of_others(self, weights: np.ndarray | None) -> np.ndarray | None:
        """Weights with 0 for rows of zeros."""
        if self.zeros is None:
            return weights
        weights = np.ones(len(self.zeros)) if weights is None else weights.copy()
        weights[self.zeros] = 0
        return weights

    # A row of zeros has the density of the uniform distribution and belongs to no component.

    def ln_densities(self, mixture: _vmfkit.Mixture, **options: Any) -> np.ndarray:
        found = self.ask(mixture.ln_densities, **options)
        if self.zeros is not None:
            found[self.zeros] = special.log_normalizer(mixture.dim, 0.0)
        return found

    def responsibilities(self, mixture: _vmfkit.Mixture, **options: Any) -> np.ndarray:
        found = self.ask(mixture.responsibilities, **options)
        if self.zeros is not None:
            found[self.zeros] = 0
        return found

    def joint(self, mixture: _vmfkit.Mixture, **options: Any) -> np.ndarray:
        """ln weight + ln density of each component for each row; -inf for a row of zeros."""
        found = self.ask(mixture.component_ln_densities, **options)
        with np.errstate(divide="ignore"):
            found += np.log(mixture.weights)
        if self.zeros is not None:
            found[self.zeros] = -np.inf
        return found

    def p_values(self, mixture: _vmfkit.Mixture, **options: Any) -> np.ndarray:
        """The p-value of each row; nan for a row of zeros."""
        found = self.ask(mixture.p_values, **options)
        if self.zeros is not None:
            found[self.zeros] = np.nan
        return found

    def nearest_statistics(self, mixture: _vmfkit.Mixture, weights: np.ndarray | None, **options: Any) -> tuple[np.ndarray, ...]:
        """Mass, resultant and shortfall of the rows nearest to each direction; rows of zeros have weight 0."""

        def call(rows: Any, **options: Any) -> tuple[np.ndarray, ...]:
            return mixture.nearest_statistics(rows, weights=self.weights_of_others(weights), **options)

        return self.ask(call, **options)

    def cosines(self, probe: _vmfkit.Mixture, **options: Any) -> np.ndarray:
        """Cosine of each row with each direction of a `probe_of`; 0 for a row of zeros."""
        peak = special._of_dim("log_peak", probe.dim, 1.0, None)
        found = self.ask(probe.component_ln_densities, **options)
        found -= peak - 1
        if self.zeros is not None:
            found[self.zeros] = 0
        return np.clip(found, -1, 1, out=found)

    def evaluate(self, mixture: _vmfkit.Mixture, **options: Any) -> dict[str, float]:
        """Mean ln p, AIC, BIC and ICL."""
        if self.zeros is None:
            found = self.ask(mixture.evaluate, **options)
            if self.zeros is None:
                return found
        # Rows of zeros are left out and then added with the uniform density.
        found = self.ask(mixture.evaluate, weights=self.weights_of_others(None), **options)
        count = len(self.zeros)
        aside = int(self.zeros.sum())
        others = count - aside
        free = found["aic"] / 2 + others * found["mean"]
        mean = (others * found["mean"] + aside * special.log_normalizer(mixture.dim, 0.0)) / count
        bic = -2 * count * mean + free * math.log(count)
        return {"mean": mean, "aic": -2 * count * mean + 2 * free, "bic": bic, "icl": bic + found["icl"] - found["bic"]}


def softmax(logits: np.ndarray) -> np.ndarray:
    """Probabilities of each row; all 0 where all logits are -inf."""
    largest = logits.max(axis=1, keepdims=True)
    found = np.exp(logits - np.where(np.isfinite(largest), largest, 0))
    total = found.sum(axis=1, keepdims=True)
    return np.divide(found, total, out=found, where=total > 0)


def probe_of(directions: np.ndarray) -> _vmfkit.Mixture:
    """A mixture with equal weights and concentrations: the most probable component is the nearest, and ln p gives the cosine."""
    count = len(directions)
    return _vmfkit.Mixture(np.full(count, 1 / count), np.ascontiguousarray(directions), np.ones(count))
