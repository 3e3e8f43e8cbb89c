"""Spherical k-means as an estimator."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from sklearn.base import ClusterMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from .. import _vmfkit, special
from .._rows import as_weights
from ._estimator import Directions, SphericalEstimator, start_of


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
        Stop when a pass changes the mean objective by at most this share of it.
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
        The sum of 1 - cosine over the rows, each with its own direction.
    n_iter_ : int
    converged_ : bool
    """

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
        found = self._fit(
            X,
            sample_weight,
            self.n_clusters,
            method="kmeans",
            start=start_of(self.init),
            restarts=self.n_init,
            tolerance=self.tol,
            passes=self.max_iter,
        )
        if not found.converged and self.tol:
            warnings.warn(f"it stopped after {self.n_iter_} passes before it converged", ConvergenceWarning, stacklevel=2)
        return self

    @property
    def cluster_centers_(self) -> np.ndarray:
        if not hasattr(self, "mixture_"):
            raise AttributeError(f"this {type(self).__name__} is not fitted yet")
        return self.mixture_.directions

    @property
    def inertia_(self) -> float:
        if "_inertia" not in self.__dict__:
            if "_rows_of_fit" not in self.__dict__:
                raise AttributeError(f"{type(self).__name__} has inertia_ only after fit")
            directions = self._rows_of_fit
            distances = directions.ask(self.mixture_.nearest_distances, threads=self.n_threads)
            if directions.zeros is not None:
                distances[directions.zeros] = 1.0
            self._inertia = float(distances.sum())
        return self._inertia

    @property
    def labels_(self) -> np.ndarray:
        if "_rows_of_fit" in self.__dict__:
            # The rows are let go afterwards.
            _ = self.inertia_
        return super().labels_

    def _take(self, mixture: _vmfkit.Mixture) -> None:
        super()._take(mixture)
        self.__dict__.pop("_inertia", None)

    def _distances(self, directions: Directions) -> np.ndarray:
        """1 - cosine of each row with each direction."""
        mixture = self.mixture_
        found = directions.ask(mixture.component_ln_densities, threads=self.n_threads)
        concentrations = mixture.concentrations
        peaks = special._of_dim("log_peak", mixture.dim, concentrations, None)
        distances = np.maximum((peaks - found) / concentrations, 0.0)
        if directions.zeros is not None:
            distances[directions.zeros] = 1.0
        return distances

    def transform(self, X: Any) -> np.ndarray:
        """1 - cosine of each row with each direction."""
        check_is_fitted(self)
        return self._distances(self._validated(X, reset=False))

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Minus the sum of 1 - cosine over the rows, as that of scikit-learn's KMeans."""
        nearest, zeros = self._ask("nearest_distances", X)
        if zeros is not None:
            nearest[zeros] = 1.0
        weights = as_weights(sample_weight, None)
        return -float(nearest.sum() if weights is None else np.dot(nearest, weights))
