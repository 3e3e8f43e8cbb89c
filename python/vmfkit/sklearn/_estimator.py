"""What both estimators have in common."""

from __future__ import annotations

import os
import sys
import warnings
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, check_random_state, validate_data

from .. import _vmfkit
from .._rows import Rows, as_rows, as_weights, is_path


def _free_memory() -> int:
    """Bytes that the machine could still give, as far as it tells."""
    try:
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        return 1 << 30


class Directions:
    """Rows of an argument as the extension module takes them. Rows of zeros have no direction: once they are found, they stand aside."""

    def __init__(self, rows: Any, normalize: bool) -> None:
        self.rows: Rows = as_rows(rows, normalize=normalize)
        self.normalize = normalize
        self.zeros: np.ndarray | None = None

    def ask(self, call: Any, *arguments: Any, **options: Any) -> Any:
        """What `call` says of the rows."""
        try:
            return call(self.rows.argument, *arguments, normalize=self.normalize, **options)
        except _vmfkit.ZeroRowError:
            if not self.normalize or self.rows.is_files or self.zeros is not None:
                raise
            self._set_zeros_aside()
            return call(self.rows.argument, *arguments, normalize=self.normalize, **options)

    def _set_zeros_aside(self) -> None:
        """Puts any direction in their place; their weight is 0 in a fit, and what is said of them is not used."""
        argument = self.rows.argument
        if isinstance(argument, tuple):
            from scipy.sparse import csr_matrix

            starts, columns, values, dim = argument
            starts, columns = starts.astype(np.int64), columns.view(np.int32)
            self.zeros = np.array([not values[start:end].any() for start, end in zip(starts, starts[1:])], bool)
            matrix = csr_matrix((values, columns, starts), shape=(len(self.zeros), dim))
            rows = np.flatnonzero(self.zeros)
            first = csr_matrix((np.ones(len(rows), values.dtype), (rows, np.zeros_like(rows))), shape=matrix.shape)
            self.rows = as_rows(matrix + first)
        else:
            self.zeros = ~argument.any(axis=1)
            argument = argument.copy()
            argument[self.zeros, 0] = 1
            self.rows = self.rows._replace(argument=argument)

    def fit(self, call: Any, components: int, weights: np.ndarray | None, *arguments: Any, **options: Any) -> Any:
        """The same for a fit, in which rows of zeros count nothing."""
        try:
            return call(self.rows.argument, components, weights, *arguments, normalize=self.normalize, **options)
        except _vmfkit.ZeroRowError:
            if not self.normalize or self.rows.is_files:
                raise
            self._set_zeros_aside()
        weights = self.without_zeros(weights)
        return call(self.rows.argument, components, weights, *arguments, normalize=self.normalize, **options)

    def without_zeros(self, weights: np.ndarray | None) -> np.ndarray | None:
        if self.zeros is None:
            return weights
        message = f"rows of zeros have no direction and are left out of the fit, found: `{self.zeros.sum()}`"
        warnings.warn(message, UserWarning, stacklevel=5)
        weights = np.ones(len(self.zeros)) if weights is None else weights.copy()
        weights[self.zeros] = 0
        return weights


def start_of(init: Any) -> Any:
    """A name, directions, labels or a mixture, as the extension module takes them."""
    if isinstance(init, (str, _vmfkit.Mixture)):
        return init
    init = np.asarray(init)
    if init.ndim == 1:
        if init.dtype.kind not in "iu" or (init.size and init.min() < 0):
            raise ValueError(f"labels to start from must be whole numbers from 0 on, found: `{init.dtype}`")
        return np.ascontiguousarray(init, np.uint32)
    return np.ascontiguousarray(init, np.float64)


class SphericalEstimator(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Rows, fitting, labels, files."""

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = []
        return tags

    # ------------------------------------------------------------------ rows

    def _validated(self, X: Any, reset: bool) -> Directions:
        if not (is_path(X) or not reset and self._is_plain(X)):
            # The extension module looks at every number anyway.
            options = {"accept_sparse": "csr", "dtype": [np.float64, np.float32], "order": "C", "ensure_all_finite": False}
            # Afterwards the number of features is compared with that of the fit.
            least = 2 if reset else 1
            X = validate_data(self, self._of_column(X), reset=reset, ensure_min_features=least, **options)
        return Directions(X, self.normalize)

    def _is_plain(self, X: Any) -> bool:
        """An array as the extension module takes it, which looks at every number itself: one row must not wait for more."""
        if type(X) is not np.ndarray or X.ndim != 2 or len(X) == 0 or X.shape[1] != self.n_features_in_:
            return False
        return X.dtype in (np.float32, np.float64) and X.flags.c_contiguous and not hasattr(self, "feature_names_in_")

    @staticmethod
    def _of_column(X: Any) -> Any:
        """A column of lists becomes an array; whatever else is left to scikit-learn."""
        is_column = (hasattr(X, "__arrow_c_stream__") or hasattr(X, "__arrow_c_array__")) and not hasattr(X, "columns")
        return as_rows(X).argument if is_column else X

    def _checked_weights(self, sample_weight: Any, X: Any) -> np.ndarray | None:
        if sample_weight is None or is_path(X):
            return as_weights(sample_weight, None)
        return _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)

    def _ask(self, name: str, X: Any, *arguments: Any) -> tuple[np.ndarray, np.ndarray | None]:
        """What the mixture says of each row, and which rows are zeros."""
        if not hasattr(self, "mixture_"):
            check_is_fitted(self)
        directions = self._validated(X, reset=False)
        found = directions.ask(getattr(self.mixture_, name), *arguments, threads=self.n_threads)
        return found, directions.zeros

    # ------------------------------------------------------------------- fit

    def _fit(self, X: Any, sample_weight: Any, components: int, **choices: Any) -> _vmfkit.Fit:
        directions = self._validated(X, reset=True)
        weights = self._checked_weights(sample_weight, X)
        if directions.rows.length is not None and directions.rows.length < components:
            raise ValueError(
                f"Expected n_samples >= {components} components, but got n_samples = {directions.rows.length}"
            )
        seed = check_random_state(self.random_state).randint(2**31)
        found = directions.fit(
            _vmfkit.fit,
            components,
            weights,
            self._progress() if self.verbose else None,
            seed=int(seed),
            threads=self.n_threads,
            room=_free_memory() // 2 if self.max_memory is None else int(self.max_memory),
            **choices,
        )
        self._take(found.mixture)
        self.converged_ = found.converged
        self.n_iter_ = max(len(found.objectives), 1)
        self.notes_ = found.notes
        self._rows_of_fit = directions
        return found

    def _take(self, mixture: _vmfkit.Mixture) -> None:
        self.mixture_ = mixture
        self.n_features_in_ = mixture.dim
        self.__dict__.pop("_labels", None)

    def _progress(self) -> Any:
        def show(restart: int, number: int, rows: int) -> None:
            print(f"\r{type(self).__name__}: restart {restart}, pass {number}, {rows} rows", end="", file=sys.stderr)

        return show

    @property
    def labels_(self) -> np.ndarray:
        """The component of each row of the fit, found when it is first asked for."""
        if "_labels" not in self.__dict__:
            if "_rows_of_fit" not in self.__dict__:
                raise AttributeError(f"{type(self).__name__} has labels_ only after fit")
            directions = self._rows_of_fit
            found = directions.ask(self.mixture_.assign, threads=self.n_threads)
            self._labels = self._labels_of(found, directions.zeros)
            del self._rows_of_fit
        return self._labels

    def _labels_of(self, found: np.ndarray, zeros: np.ndarray | None) -> np.ndarray:
        labels = found.astype(np.int64)
        if self.mixture_.has_background:
            labels[labels == self.mixture_.components - 1] = -1
        if zeros is not None:
            labels[zeros] = int(np.argmax(self.mixture_.weights))
        return labels

    def __getstate__(self) -> dict[str, Any]:
        if "_rows_of_fit" in self.__dict__:
            # The rows stay here; what is known of them goes along.
            _ = self.labels_
        return super().__getstate__()

    # -------------------------------------------------------------- interface

    def predict(self, X: Any) -> np.ndarray:
        """The most probable component of each row; -1 is the background."""
        return self._labels_of(*self._ask("assign", X))

    def fit_predict(self, X: Any, y: Any = None, sample_weight: Any = None) -> np.ndarray:
        """Fits and gives the component of each row."""
        return self.fit(X, y, sample_weight=sample_weight).labels_

    @property
    def _n_features_out(self) -> int:
        return self.mixture_.components

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the mixture as a model file, which the command `vmf` reads too."""
        check_is_fitted(self)
        with open(path, "wb") as file:
            file.write(self.mixture_.to_bytes())
