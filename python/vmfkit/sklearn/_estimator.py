"""Base class of the mixture and of spherical k-means."""

from __future__ import annotations

import os
from numbers import Integral, Real
from typing import Any, TypeVar

import numpy as np
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils._param_validation import Interval
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, check_random_state, validate_data

from .. import _vmfkit
from .._directions import Directions
from .._rows import as_rows, as_weights, is_column, is_path, refuse_texts, warn_of_angles
from .._tree import MergeTree, default_sizes
from .._warn import warn
from ._progress import Progress

_Estimator = TypeVar("_Estimator", bound="SphericalEstimator")

AT_LEAST_ONE = Interval(Integral, 1, None, closed="left")


def start_of(init: Any) -> Any:
    """Converts `init` (a name, directions, labels or a mixture) for the extension module."""
    if isinstance(init, (str, _vmfkit.Mixture)):
        return init
    init = np.asarray(init)
    if init.ndim == 1:
        if init.dtype.kind not in "iu" or (init.size and init.min() < 0):
            raise ValueError(f"labels in init must be integers of at least 0, found: `{init.dtype}`")
        return np.ascontiguousarray(init, np.uint32)
    return np.ascontiguousarray(init, np.float64)


def seed_of(random_state: Any) -> int:
    """An integer is the seed itself, as for the command; otherwise a seed is drawn."""
    if isinstance(random_state, Integral):
        return int(random_state)
    return int(check_random_state(random_state).randint(2**31))


def plain_rows(X: Any, normalize: bool) -> Any:
    """Prepares rows for scikit-learn's validation: converts columns of lists, refuses strings, and warns about columns of angles."""
    X = as_rows(X).argument if is_column(X) else X
    refuse_texts(X)
    if normalize:
        warn_of_angles(X)
    return X


def checked_weights(sample_weight: Any, X: Any) -> np.ndarray | None:
    """Row weights as an array, or None."""
    if sample_weight is None or is_path(X):
        return as_weights(sample_weight, None)
    return _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)


class SphericalEstimator(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Validates rows, fits, assigns labels, and reads and writes model files."""

    # The extension module validates strings.
    _parameter_constraints: dict[str, Any] = {
        "init": [str, "array-like", _vmfkit.Mixture],
        "n_init": [AT_LEAST_ONE],
        "max_iter": [AT_LEAST_ONE, None],
        "tol": [Interval(Real, 0, None, closed="left"), None],
        # Seeds of model files have up to 64 bits.
        "random_state": ["random_state", Interval(Integral, 0, 2**64 - 1, closed="both")],
        "normalize": ["boolean"],
        "n_threads": [AT_LEAST_ONE, None],
        "max_memory": [Interval(Real, 0, None, closed="left"), None],
        "verbose": ["verbose"],
    }

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = []
        return tags

    def __sklearn_is_fitted__(self) -> bool:
        # An interrupted fit may have set other attributes.
        return hasattr(self, "mixture_")

    # A notebook shows the components below scikit-learn's box.

    def _repr_html_inner(self) -> str:
        return super()._repr_html_inner() + self._found_html()

    def _repr_mimebundle_(self, **options: Any) -> dict[str, str]:
        bundle = super()._repr_mimebundle_(**options)
        if "text/html" in bundle:
            bundle["text/html"] += self._found_html()
        return bundle

    def _found_html(self) -> str:
        return self.mixture_._repr_html_() if hasattr(self, "mixture_") else ""

    # ------------------------------------------------------------------ rows

    def _validated(self, X: Any, reset: bool) -> Directions:
        if reset:
            self._validate_params()
        if is_path(X):
            if reset:
                # Files have no feature names.
                self.__dict__.pop("feature_names_in_", None)
        elif reset or not self._is_plain(X):
            # The extension module checks for NaN and infinity.
            options = {"accept_sparse": "csr", "dtype": [np.float64, np.float32], "order": "C", "ensure_all_finite": False}
            # After a fit, scikit-learn compares the number of features.
            least = 2 if reset else 1
            X = validate_data(self, plain_rows(X, self.normalize), reset=reset, ensure_min_features=least, **options)
        return Directions(as_rows(X, normalize=self.normalize), self.normalize)

    def _is_plain(self, X: Any) -> bool:
        """Whether the array needs no validation by scikit-learn, which would dominate the time for a single row."""
        if type(X) is not np.ndarray or X.ndim != 2 or len(X) == 0 or X.shape[1] != self.n_features_in_:
            return False
        return X.dtype in (np.float32, np.float64) and X.flags.c_contiguous and not hasattr(self, "feature_names_in_")

    def _directions(self, X: Any) -> Directions:
        """Validates rows for a fitted estimator."""
        if not hasattr(self, "mixture_"):
            check_is_fitted(self)
        return self._validated(X, reset=False)

    # ------------------------------------------------------------------- fit

    def _fit(self, X: Any, sample_weight: Any, components: int, **choices: Any) -> _vmfkit.Fit:
        directions = self._validated(X, reset=True)
        weights = checked_weights(sample_weight, X)
        self._check_count(directions, components)
        progress = self._progress(directions, choices) if self.verbose else None
        found = directions.fit(
            _vmfkit.fit,
            components,
            weights,
            progress,
            seed=seed_of(self.random_state),
            threads=self.n_threads,
            memory=self._memory_limit(),
            **choices,
        )
        if progress is not None:
            last = found.objectives[-1] if len(found.objectives) else None
            progress.end(found.status, len(found.objectives), found.search_passes, last)
        self._take(found.mixture)
        self.converged_ = found.converged
        self.n_iter_ = max(len(found.objectives), 1)
        self.n_search_iter_ = found.search_passes
        self.notes_ = found.notes
        self._describe(directions, weights)
        return found

    def _memory_limit(self) -> int:
        """Memory limit for the rows of files, in bytes."""
        return _vmfkit.available_memory() // 2 if self.max_memory is None else int(self.max_memory)

    @staticmethod
    def _check_count(directions: Directions, components: int) -> None:
        length = directions.rows.length
        if length is not None and length < components:
            raise ValueError(f"Expected n_samples >= {components} components, but got n_samples = {length}")

    def _take(self, mixture: _vmfkit.Mixture) -> None:
        self.mixture_ = mixture
        self.n_features_in_ = mixture.dim
        self.__dict__.pop("_labels", None)
        self._forget()

    def _progress(self, directions: Directions, choices: dict[str, Any]) -> Progress:
        method = choices["method"]
        usual = _vmfkit.default_settings(method, 1, 2)
        passes = choices["passes"] or int(usual["passes"])
        searches = method == "em" and choices.get("search", False) and isinstance(choices["start"], str) and choices["start"] == "kmeans"
        objective = "mean cosine" if method == "kmeans" else "mean ln p"
        return Progress(type(self).__name__, choices["restarts"], passes, directions.rows.length, objective, searches)

    def _restarts(self, start: Any) -> int:
        """Number of fits from different starts; 1 if `init` is an array."""
        if not isinstance(start, str) and self.n_init > 1:
            warn(f"init is an array: {type(self).__name__} makes one fit instead of n_init={self.n_init}", RuntimeWarning)
        return self.n_init if isinstance(start, str) else 1

    def _describe(self, directions: Directions, weights: np.ndarray | None) -> None:
        """Computes labels of rows in memory now, because the array may change; those of files on first access."""
        self._rows_of_fit = directions
        self._weights_of_fit = weights
        if not directions.rows.is_files:
            self._look()

    def _look(self) -> None:
        """Computes the attributes of the rows of the fit and releases the rows."""
        self._look_at(self._rows_of_fit, self.__dict__.get("_weights_of_fit"))
        self._forget()

    def _look_at(self, directions: Directions, weights: np.ndarray | None) -> None:
        self._labels = self._assigned(directions)

    def _forget(self) -> None:
        for name in ("_rows_of_fit", "_weights_of_fit"):
            self.__dict__.pop(name, None)

    def _known(self, name: str, attribute: str) -> Any:
        """An attribute of the rows of the fit, computed on first access."""
        if name not in self.__dict__:
            if "_rows_of_fit" not in self.__dict__:
                raise AttributeError(
                    f"this {type(self).__name__} has no {attribute}: it was not fitted, or was copied before {attribute} of files was accessed"
                )
            try:
                self._look()
            except (OSError, ValueError) as error:
                # hasattr expects an AttributeError.
                raise AttributeError(f"{attribute} cannot be computed, because the files of the fit cannot be read: {error}") from error
        return self.__dict__[name]

    @property
    def labels_(self) -> np.ndarray:
        """The component of each row of the fit; for files it is computed on first access."""
        return self._known("_labels", "labels_")

    def _assigned(self, directions: Directions) -> np.ndarray:
        return self._labels_of(directions.ask(self.mixture_.assign, threads=self.n_threads), directions.zeros)

    def _labels_of(self, found: np.ndarray, zeros: np.ndarray | None) -> np.ndarray:
        labels = found.astype(np.int64)
        if self.mixture_.has_background:
            labels[labels == self.mixture_.components - 1] = -1
        if zeros is not None:
            labels[zeros] = -1
        return labels

    def __getstate__(self) -> dict[str, Any]:
        # Rows are not pickled; attributes computed from them are.
        return {name: value for name, value in super().__getstate__().items() if name not in ("_rows_of_fit", "_weights_of_fit")}

    # -------------------------------------------------------------- interface

    def predict(self, X: Any) -> np.ndarray:
        """Computes the most probable component of each row.

        Parameters
        ----------
        X : array, sparse matrix, column of lists, or files

        Returns
        -------
        labels : array of shape (n_samples,)
            -1 for the background and for rows of zeros.
        """
        return self._assigned(self._directions(X))

    def fit_predict(self, X: Any, y: Any = None, sample_weight: Any = None) -> np.ndarray:
        """Fits to the rows and returns their labels."""
        return self.fit(X, y, sample_weight=sample_weight).labels_

    def tree(self) -> MergeTree:
        """Merges the components step by step, from the statistics of the fit alone.

        Returns
        -------
        tree : vmfkit.MergeTree
            Clusters, labels and probabilities for every smaller number of clusters.
        """
        check_is_fitted(self)
        return MergeTree(self)

    @property
    def cluster_layers_(self) -> list[np.ndarray]:
        """Labels of the rows of the fit in nested layers, finest first, as EVoC has them and Toponymy and datamapplot read them.

        The first layer has the components as clusters, and each other one a quarter of the clusters of the layer before, at least 3;
        `tree().layers` takes other sizes.
        """
        labels = self.labels_
        return MergeTree(self)._layers_of(labels, default_sizes(self.mixture_.components - self.mixture_.has_background))

    @property
    def _n_features_out(self) -> int:
        return self.mixture_.components

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the mixture to a model file, which `vmf` can also read."""
        check_is_fitted(self)
        _vmfkit.write_file(path, self._calibrated_mixture().to_bytes())

    def _calibrated_mixture(self) -> _vmfkit.Mixture:
        return self.mixture_

    @classmethod
    def load(cls: type[_Estimator], path: str | os.PathLike[str], **parameters: Any) -> _Estimator:
        """Loads a fitted estimator from a model file that `save` or `vmf` has written.

        A start given as an array or a mixture, `normalize`, `n_threads`, `max_memory`, `verbose` and `warm_start` are not stored.

        Parameters
        ----------
        path : str or path
            The model file.
        **parameters
            Parameters of the estimator, which take precedence over those of the file.

        Returns
        -------
        estimator : fitted estimator
        """
        with open(path, "rb") as file:
            return cls.from_mixture(_vmfkit.Mixture.from_bytes(file.read()), **parameters)

    @classmethod
    def from_mixture(cls: type[_Estimator], mixture: _vmfkit.Mixture, **parameters: Any) -> _Estimator:
        """Creates a fitted estimator from a mixture, with the parameters of its fit if they are known."""
        count = mixture.components - mixture.has_background
        self = cls(count, **{**cls._parameters_of(mixture.description, count, mixture.dim), **parameters})
        self._take(mixture)
        self._recall(mixture.description)
        return self

    @staticmethod
    def _parameters_of(known: dict[str, Any], components: int, dim: int) -> dict[str, Any]:
        """The parameters common to both estimators, from the description of a mixture."""
        if "components" not in known:
            return {}
        found: dict[str, Any] = {"random_state": known["seed"], "n_init": int(known["restarts"])}
        if ":" not in known["start"]:
            found["init"] = known["start"]
        return found

    def _recall(self, known: dict[str, Any]) -> None:
        """Restores the attributes of a fit from a description."""
        self.converged_, self.n_iter_, self.notes_ = known["status"] == "converged", len(known["trace"]), known["notes"]
        self.n_search_iter_ = known["search_passes"]
