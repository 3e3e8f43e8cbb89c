"""Spherical k-means as an estimator."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import ClusterMixin
from sklearn.exceptions import ConvergenceWarning

from .. import _vmfkit, special
from .._directions import Directions, probe_of
from .._rows import as_weights
from .._warn import warn
from ._estimator import AT_LEAST_ONE, SphericalEstimator, seed_of, start_of

# As the extension module has it.
_LARGEST_CONCENTRATION = 1e10


class SphericalKMeans(ClusterMixin, SphericalEstimator):
    """k-means by cosines: every row goes to the direction nearest to it.

    Parameters
    ----------
    n_clusters : int, default=8
    init : {"kmeans", "plusplus", "random-rows", "random"} or array, default="kmeans"
        Where to begin; "kmeans" is k-means on a sample of the rows, its components moved to where they do most.
    n_init : int, default=1
        Fits that differ in their start, of which the best is kept; one, with a RuntimeWarning, if `init` is an array.
    max_iter : int, default=300
    tol : float, default=1e-5
        Stop when a pass lowers the inertia by at most this fraction of it. With 0 it stops when no label changes, and reaching `max_iter` before
        is no ConvergenceWarning.
    random_state : int, RandomState or None, default=None
        Random seed: a whole number is that of the command, of anything else one is drawn.
    normalize : bool, default=True
        Divide rows by their length where that is not 1. If False, such rows are an error.
    n_threads, max_memory, verbose
        As in VonMisesFisherMixture.

    Attributes
    ----------
    cluster_centers_ : array of shape (n_clusters, n_features)
        Unit directions.
    labels_ : array of shape (n_samples,)
        The direction nearest to each row of the fit; -1 for a row of zeros, which has none.
    inertia_ : float
        The sum of 1 - cosine over the rows, each with its own direction, by the weights of the rows.
    n_iter_ : int
    converged_ : bool
    notes_ : list of str
        What there is to say of single clusters: those without rows, and those that are the same as another.
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
            warn(f"k-means stopped after {self.n_iter_} passes before it converged", ConvergenceWarning)
        self._warn_of_clusters()
        return self

    def _warn_of_clusters(self) -> None:
        """Clusters that have no rows, or are the same as another."""
        labels = self.__dict__.get("_labels")
        if labels is not None:
            count = len(np.unique(labels[labels >= 0]))
            if count < self.n_clusters:
                message = f"Number of distinct clusters ({count}) found smaller than n_clusters ({self.n_clusters}). "
                warn(message + "Possibly due to duplicate points in X.", ConvergenceWarning)
                return
        # Labels of files are not there yet; that a cluster has few rows is no fault of k-means.
        notes = [note for note in self.notes_ if "is empty" in note or "is the same as" in note]
        if notes:
            others = f" (and {len(notes) - 1} more, see notes_)" if len(notes) > 1 else ""
            warn(notes[0].replace("component", "cluster") + others, ConvergenceWarning)

    def _choices(self) -> dict[str, Any]:
        start = start_of(self.init)
        return {"method": "kmeans", "start": start, "restarts": self._restarts(start)}

    @staticmethod
    def _parameters_of(known: dict[str, Any], components: int, dim: int) -> dict[str, Any]:
        found = SphericalEstimator._parameters_of(known, components, dim)
        # The passes of another method say nothing of k-means.
        if found and known["method"] == "kmeans":
            found |= {"max_iter": int(known["passes"]), "tol": 0.0 if known["tolerance"] == "none" else float(known["tolerance"])}
        return found

    def partial_fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> SphericalKMeans:
        """Goes on with rows that were not there before; the first call also makes the start.

        Every row is added to the resultant of the direction nearest to it, as in scikit-learn's MiniBatchKMeans: the more rows a
        direction has, the less a new one turns it. After a fit the resultants are those of its rows; directions of a file that does not know
        its rows count as 8192 of them, or 64 a cluster if that is more. `labels_` and `inertia_` are of the last rows.
        """
        first = not hasattr(self, "mixture_")
        directions = self._validated(X, reset=first)
        weights = self._checked_weights(sample_weight, X)
        if first:
            self._check_count(directions, self.n_clusters)
            choices = self._choices() | {"tolerance": 0.0, "passes": 1, "threads": self.n_threads, "room": self._room()}
            seed = seed_of(self.random_state)
            start = directions.fit(_vmfkit.fit, self.n_clusters, weights, seed=seed, **choices).mixture
            resultants, weight, passes = np.zeros_like(start.directions), 0.0, 0
        else:
            start = self.mixture_
            resultants, weight, passes = *self._resultants(), self.n_iter_
        masses, added, _ = directions.nearest_statistics(start, weights, threads=self.n_threads)
        # The start has warned of rows of zeros already.
        if not first:
            directions.without_zeros(weights)
        resultants += added
        lengths = np.linalg.norm(resultants, axis=1)
        # A direction without rows stays.
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
        """The sum of the rows of each direction, and the weight of all."""
        if "_lengths" not in self.__dict__ and "_rows_of_fit" in self.__dict__:
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
        masses, distances = self._nearest(directions, weights)
        self._inertia = self._total(directions, weights, distances)
        # A stream knows all of its rows, of which these are the last.
        if "_lengths" not in self.__dict__:
            self._lengths, self._weight = masses - distances, float(masses.sum())

    def _assigned(self, directions: Directions) -> np.ndarray:
        return self._labels_of(directions.ask(self._probe.assign, threads=self.n_threads), directions.zeros)

    def _nearest(self, directions: Directions, weights: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
        """The weight of the rows nearest to each direction, and the sum of 1 - cosine over them; rows of zeros count nothing."""
        masses, resultants, shortfalls = directions.nearest_statistics(self._probe, weights, threads=self.n_threads)
        lengths = np.linalg.norm(resultants, axis=1)
        # A shortfall is measured from the rows' own mean direction.
        aside = resultants / np.where(lengths > 0, lengths, 1)[:, np.newaxis] - self.mixture_.directions
        return masses, shortfalls + lengths * np.einsum("ij,ij->i", aside, aside) / 2

    @staticmethod
    def _total(directions: Directions, weights: np.ndarray | None, distances: np.ndarray) -> float:
        """1 - cosine over all rows; that of a row of zeros is 1."""
        zeros = directions.zeros
        return float(distances.sum()) + (0.0 if zeros is None else float(zeros.sum() if weights is None else weights[zeros].sum()))

    def transform(self, X: Any) -> np.ndarray:
        """1 - cosine of each row with each direction."""
        return 1 - self._directions(X).cosines(self._probe, threads=self.n_threads)

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Minus the sum of 1 - cosine over the rows, as that of scikit-learn's KMeans."""
        directions = self._directions(X)
        weights = as_weights(sample_weight, directions.rows.length)
        return -self._total(directions, weights, self._nearest(directions, weights)[1])
