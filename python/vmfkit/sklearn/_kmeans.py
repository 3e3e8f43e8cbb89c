"""Spherical k-means as an estimator."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import ClusterMixin
from sklearn.exceptions import ConvergenceWarning

from .. import _vmfkit, special
from .._directions import Directions, probe_of
from .._rows import as_weights
from .._warn import warn, warn_of_notes
from ._estimator import AT_LEAST_ONE, SphericalEstimator, checked_weights, seed_of, start_of

# The same bound as in the extension module.
_LARGEST_CONCENTRATION = 1e10


class SphericalKMeans(ClusterMixin, SphericalEstimator):
    """Spherical k-means, which assigns each row to the direction with the largest cosine.

    Parameters
    ----------
    n_clusters : int, default=8
    init : {"kmeans", "plusplus", "random-rows", "random"} or array, default="kmeans"
        Start; "kmeans" is k-means on a sample of the rows, improved by split-and-merge moves.
    n_init : int, default=1
        Number of fits from different starts, of which the best is kept. If `init` is an array, one fit is made, with a RuntimeWarning.
    max_iter : int, default=300
    tol : float, default=1e-5
        Stop when a pass lowers the inertia by at most this fraction. With 0 it stops when no label changes, without a ConvergenceWarning at
        `max_iter`.
    random_state : int, RandomState or None, default=None
        Random seed. An integer is the seed itself, as for `vmf --seed`.
    normalize : bool, default=True
        Divide rows by their length. If False, rows not of unit length are an error.
    n_threads, max_memory, verbose
        As for `VonMisesFisherMixture`.

    Attributes
    ----------
    cluster_centers_ : array of shape (n_clusters, n_features)
        Unit directions.
    labels_ : array of shape (n_samples,)
        The nearest direction of each row of the fit; -1 for a row of zeros.
    inertia_ : float
        The weighted sum of 1 - cosine of each row with its direction.
    n_iter_ : int
    converged_ : bool
    notes_ : list of str
        Notes on empty and duplicate clusters.
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
        """Fits the directions.

        Parameters
        ----------
        X : array, sparse matrix, column of lists, or files
            The rows.
        y : ignored
        sample_weight : array of shape (n_samples,), optional
            Row weights.

        Returns
        -------
        self : SphericalKMeans
        """
        found = self._fit(X, sample_weight, self.n_clusters, tolerance=self.tol, passes=self.max_iter, **self._choices())
        if not found.converged and self.tol != 0:
            warn(f"k-means stopped after {self.n_iter_} passes before it converged", ConvergenceWarning)
        self._warn_of_clusters()
        return self

    def _warn_of_clusters(self) -> None:
        """Warns about empty and duplicate clusters."""
        labels = self.__dict__.get("_labels")
        if labels is not None:
            count = len(np.unique(labels[labels >= 0]))
            if count < self.n_clusters:
                message = f"Number of distinct clusters ({count}) found smaller than n_clusters ({self.n_clusters}). "
                warn(message + "Possibly due to duplicate points in X.", ConvergenceWarning)
                return
        # Labels of files are not computed yet. Notes on clusters with few rows do not concern k-means.
        notes = [note for note in self.notes_ if "is empty" in note or "is the same as" in note]
        warn_of_notes([note.replace("component", "cluster") for note in notes], ConvergenceWarning)

    def _choices(self) -> dict[str, Any]:
        start = start_of(self.init)
        # Hard clusters have neither probabilities nor p-values.
        return {"method": "kmeans", "start": start, "restarts": self._restarts(start), "calibrate": False}

    @staticmethod
    def _parameters_of(known: dict[str, Any], components: int, dim: int) -> dict[str, Any]:
        found = SphericalEstimator._parameters_of(known, components, dim)
        # The settings of other methods do not apply.
        if found and known["method"] == "kmeans":
            found |= {"max_iter": int(known["passes"]), "tol": 0.0 if known["tolerance"] == "none" else float(known["tolerance"])}
        return found

    def partial_fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> SphericalKMeans:
        """Updates the directions with a batch of rows; the first call also computes the start.

        As in scikit-learn's MiniBatchKMeans, each row is added to the resultant of its nearest direction, so a direction with many rows moves
        little. After a fit the resultants are those of its rows. A model file without a number of rows counts as 8192 rows, or 64 per cluster
        if that is more. `labels_` and `inertia_` describe the last batch.

        Parameters
        ----------
        X : array, sparse matrix, column of lists, or files
            The batch of rows.
        y : ignored
        sample_weight : array of shape (n_samples,), optional
            Row weights.

        Returns
        -------
        self : SphericalKMeans
        """
        first = not hasattr(self, "mixture_")
        directions = self._validated(X, reset=first)
        weights = checked_weights(sample_weight, X)
        if first:
            self._check_count(directions, self.n_clusters)
            choices = self._choices() | {"tolerance": 0.0, "passes": 1, "threads": self.n_threads, "memory": self._memory_limit()}
            seed = seed_of(self.random_state)
            start = directions.fit(_vmfkit.fit, self.n_clusters, weights, seed=seed, **choices).mixture
            resultants, weight, passes = np.zeros_like(start.directions), 0.0, 0
        else:
            start = self.mixture_
            resultants, weight, passes = *self._resultants(), self.n_iter_
        masses, added, _ = directions.nearest_statistics(start, weights, threads=self.n_threads)
        # The start has already warned about rows of zeros.
        if not first:
            directions.without_zeros(weights)
        resultants += added
        lengths = np.linalg.norm(resultants, axis=1)
        # A direction without rows is kept.
        some = lengths > 0
        turned = np.where(some[:, np.newaxis], resultants / np.where(some, lengths, 1)[:, np.newaxis], start.directions)
        weight += float(masses.sum())
        mean_length = min(lengths.sum() / weight, 1.0) if weight else 0.0
        concentration = min(float(special.inverse_iv_ratio(start.dim, mean_length)), _LARGEST_CONCENTRATION)
        count = start.components
        self._take(_vmfkit.Mixture(np.full(count, 1 / count), turned, np.full(count, concentration)))
        self.n_iter_, self.converged_, self.notes_ = passes + 1, False, []
        self._lengths, self._weight = lengths, weight
        self._describe(directions, weights)
        return self

    def _resultants(self) -> tuple[np.ndarray, float]:
        """Resultant of each direction, and the total weight."""
        if "_lengths" not in self.__dict__ and "_rows_of_fit" in self.__dict__:
            self._look()
        if "_lengths" not in self.__dict__:
            # From the shared concentration, assuming clusters of equal weight.
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
        masses, distances = self._nearest(directions, weights)
        self._inertia = self._total(directions, weights, distances)
        # `partial_fit` has set them from all rows; these are the last batch only.
        if "_lengths" not in self.__dict__:
            self._lengths, self._weight = masses - distances, float(masses.sum())

    def _assigned(self, directions: Directions) -> np.ndarray:
        return self._labels_of(directions.ask(self._probe.assign, threads=self.n_threads), directions.zeros)

    def _nearest(self, directions: Directions, weights: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
        """The weight of the rows nearest to each direction, and the sum of 1 - cosine over them, without rows of zeros."""
        masses, resultants, shortfalls = directions.nearest_statistics(self._probe, weights, threads=self.n_threads)
        lengths = np.linalg.norm(resultants, axis=1)
        # Shortfalls are relative to the mean direction of the rows.
        aside = resultants / np.where(lengths > 0, lengths, 1)[:, np.newaxis] - self.mixture_.directions
        return masses, shortfalls + lengths * np.einsum("ij,ij->i", aside, aside) / 2

    @staticmethod
    def _total(directions: Directions, weights: np.ndarray | None, distances: np.ndarray) -> float:
        """Sum of 1 - cosine over all rows; a row of zeros counts as 1."""
        zeros = directions.zeros
        return float(distances.sum()) + (0.0 if zeros is None else float(zeros.sum() if weights is None else weights[zeros].sum()))

    def transform(self, X: Any) -> np.ndarray:
        """Computes 1 - cosine of each row with each direction."""
        return 1 - self._directions(X).cosines(self._probe, threads=self.n_threads)

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Computes minus the sum of 1 - cosine over the rows, as scikit-learn's KMeans does."""
        directions = self._directions(X)
        weights = as_weights(sample_weight, directions.rows.length)
        return -self._total(directions, weights, self._nearest(directions, weights)[1])
