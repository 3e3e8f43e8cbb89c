"""Spherical k-means as an estimator."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from scipy.sparse import csr_matrix, issparse
from sklearn.base import ClusterMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_random_state

from .. import _vmfkit, special
from .._directions import Directions, probe_of
from .._rows import as_weights, is_path
from ._estimator import AT_LEAST_ONE, SphericalEstimator, start_of

# As the extension module has it.
_LARGEST_CONCENTRATION = 1e10


class SphericalKMeans(ClusterMixin, SphericalEstimator):
    """k-means by cosines: every row goes to the direction nearest to it.

    Parameters
    ----------
    n_clusters : int, default=8
    init : {"kmeans", "plusplus", "random-rows", "random"} or array, default="kmeans"
        Where to begin; "kmeans" is the best of five runs on a sample of the rows.
    n_init : int, default=1
        Fits that differ in their start, of which the best is kept.
    max_iter : int, default=300
    tol : float, default=1e-5
        Stop when a pass changes the mean cosine by at most this share of it. With 0 all passes are made, and that they end is no
        ConvergenceWarning.
    random_state : int, RandomState or None, default=None
    normalize : bool, default=True
        Divide rows by their length where that is not 1. If False, such rows are an error.
    n_threads, max_memory, verbose
        As in VonMisesFisherMixture.

    Attributes
    ----------
    cluster_centers_ : array of shape (n_clusters, n_features)
        Unit directions.
    labels_ : array of shape (n_samples,)
    inertia_ : float
        The sum of 1 - cosine over the rows, each with its own direction, by the weights of the rows.
    n_iter_ : int
    converged_ : bool
    """

    _parameter_constraints: dict[str, Any] = {**SphericalEstimator._parameter_constraints, "n_clusters": [AT_LEAST_ONE]}

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        init: Any = "kmeans",
        n_init: int = 1,
        max_iter: int = 300,
        tol: float = 1e-5,
        random_state: Any = None,
        normalize: bool = True,
        n_threads: int | None = None,
        max_memory: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.n_clusters = n_clusters
        self.init = init
        self.n_init = n_init
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state
        self.normalize = normalize
        self.n_threads = n_threads
        self.max_memory = max_memory
        self.verbose = verbose

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> SphericalKMeans:
        """Finds the directions of rows: an array, a sparse matrix, a column of lists, or files."""
        found = self._fit(X, sample_weight, self.n_clusters, tolerance=self.tol, passes=self.max_iter, **self._choices())
        if not found.converged and self.tol != 0:
            warnings.warn(f"it stopped after {self.n_iter_} passes before it converged", ConvergenceWarning, stacklevel=2)
        return self

    def _choices(self) -> dict[str, Any]:
        return {"method": "kmeans", "start": start_of(self.init), "restarts": self.n_init}

    def partial_fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> SphericalKMeans:
        """Goes on with rows in memory that were not there before; the first call also makes the start.

        Every row is added to the resultant of the direction nearest to it, as in scikit-learn's MiniBatchKMeans: the more rows a
        direction has, the less a new one turns it. After a fit the resultants are those of its rows; directions of a file that does not know
        its rows count as 8192 of them, or 64 a cluster if that is more. `labels_` and `inertia_` are of the last rows.
        """
        if is_path(X):
            raise TypeError(f"partial_fit takes rows in memory, found: `{X!r}`\nhint: fit reads files of any size")
        first = not hasattr(self, "mixture_")
        directions = self._validated(X, reset=first)
        weights = self._checked_weights(sample_weight, X)
        if first:
            self._check_count(directions, self.n_clusters)
            seed = int(check_random_state(self.random_state).randint(2**31))
            start = directions.fit(
                _vmfkit.fit, self.n_clusters, weights, tolerance=0.0, passes=1, seed=seed, threads=self.n_threads, **self._choices()
            ).mixture
            resultants, weight, passes = np.zeros_like(start.directions), 0.0, 0
        else:
            start = self.mixture_
            resultants, weight, passes = *self._resultants(), self.n_iter_
        probe = probe_of(start.directions)
        labels = directions.ask(probe.assign, threads=self.n_threads)
        # The start has warned of rows of zeros already.
        counted = (directions.weights_of_others if first else directions.without_zeros)(weights)
        added = np.bincount(labels, counted, start.components)
        resultants += _sums(directions, labels, counted, start.components)
        lengths = np.linalg.norm(resultants, axis=1)
        # A direction without rows stays.
        some = lengths > 0
        turned = np.where(some[:, np.newaxis], resultants / np.where(some, lengths, 1)[:, np.newaxis], start.directions)
        weight += float(added.sum())
        mean_length = min(lengths.sum() / weight, 1.0) if weight else 0.0
        concentration = min(float(special.inverse_iv_ratio(start.dim, mean_length)), _LARGEST_CONCENTRATION)
        count = start.components
        self._take(_vmfkit.Mixture(np.full(count, 1 / count), turned, np.full(count, concentration)))
        self.n_iter_, self.converged_, self.notes_ = passes + 1, False, []
        self._describe(directions, weights)
        self._lengths, self._weight = lengths, weight
        return self

    def _resultants(self) -> tuple[np.ndarray, float]:
        """The sum of the rows of each direction, and the weight of all."""
        if "_rows_of_fit" in self.__dict__:
            self._look()
        if "_lengths" not in self.__dict__:
            # The shared concentration tells their mean length, and the clusters are taken for equally large.
            mixture = self.mixture_
            weight = float(mixture.description["weight"]) or _vmfkit.start_rows(mixture.components)
            self._lengths = weight * mixture.weights * special.iv_ratio(mixture.dim, mixture.concentrations)
            self._weight = weight
        return self._lengths[:, np.newaxis] * self.mixture_.directions, self._weight

    def __getstate__(self) -> dict[str, Any]:
        state = super().__getstate__()
        state.pop("_probe", None)
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        if "mixture_" in state:
            self._probe = probe_of(self.mixture_.directions)

    @property
    def cluster_centers_(self) -> np.ndarray:
        if not hasattr(self, "mixture_"):
            raise AttributeError(f"this {type(self).__name__} is not fitted yet")
        return self.mixture_.directions

    @property
    def inertia_(self) -> float:
        return self._known("_inertia", "inertia_")

    def _take(self, mixture: _vmfkit.Mixture) -> None:
        super()._take(mixture)
        for name in ("_inertia", "_lengths", "_weight"):
            self.__dict__.pop(name, None)
        self._probe = probe_of(mixture.directions)

    def _look_at(self, directions: Directions, weights: np.ndarray | None) -> None:
        super()._look_at(directions, weights)
        distances = self._nearest(directions)
        self._inertia = self._total(distances, weights)
        counted = directions.weights_of_others(weights)
        self._lengths = np.bincount(self._labels, (1 - distances) if counted is None else counted * (1 - distances), self.mixture_.components)
        self._weight = float(len(distances) if counted is None else counted.sum())

    def _assigned(self, directions: Directions) -> np.ndarray:
        return self._labels_of(directions.ask(self._probe.assign, threads=self.n_threads), directions.zeros)

    def _nearest(self, directions: Directions) -> np.ndarray:
        """1 - cosine of each row with its own direction."""
        found = directions.ask(self._probe.nearest_distances, threads=self.n_threads)
        if directions.zeros is not None:
            found[directions.zeros] = 1.0
        return found

    @staticmethod
    def _total(distances: np.ndarray, weights: np.ndarray | None) -> float:
        return float(distances.sum() if weights is None else distances @ weights)

    def transform(self, X: Any) -> np.ndarray:
        """1 - cosine of each row with each direction."""
        return 1 - self._directions(X).cosines(self._probe, threads=self.n_threads)

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Minus the sum of 1 - cosine over the rows, as that of scikit-learn's KMeans."""
        nearest = self._nearest(self._directions(X))
        return -self._total(nearest, as_weights(sample_weight, len(nearest)))


def _sums(directions: Directions, labels: np.ndarray, weights: np.ndarray | None, count: int) -> np.ndarray:
    """The sum of the unit rows of each label."""
    rows = directions.rows.argument
    if isinstance(rows, tuple):
        starts, columns, values, dim = rows
        rows = csr_matrix((values, columns.view(np.int32), starts.astype(np.int64)), shape=(len(labels), dim))
        squares = np.asarray(rows.multiply(rows).sum(axis=1), np.float64).ravel()
    else:
        squares = np.einsum("ij,ij->i", rows, rows, dtype=np.float64)
    shares = (1.0 if weights is None else weights) / np.sqrt(squares)
    found = csr_matrix((shares, (labels.astype(np.int64), np.arange(len(labels)))), shape=(count, len(labels))) @ rows
    return np.asarray(found.todense() if issparse(found) else found, np.float64)
