"""Classification with one von Mises-Fisher density per class."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, column_or_1d, validate_data

from .. import _vmfkit
from .._calibration import Calibration, calibration_of
from .._directions import Directions
from .._rows import as_rows, is_column, is_path
from .._warn import warn_of_notes
from ._estimator import AT_LEAST_ONE, checked_weights, plain_rows


class VonMisesFisherClassifier(ClassifierMixin, BaseEstimator):
    """Discriminant analysis on the unit sphere: one von Mises-Fisher density per class, fitted in closed form.

    With a shared concentration, the boundary between two classes is a hyperplane, as in linear discriminant analysis. With free concentrations
    it is a small circle of the sphere, as in quadratic discriminant analysis.

    Parameters
    ----------
    policy : str, default="shared"
        How concentrations are tied across classes: "shared", "free", or "fixed:KAPPA". Free concentrations need many rows per class;
        that of a class with one row is 1e10, the upper bound.
    concentration : {"exact", "banerjee", "tanabe", "sra", "song"}, default="exact"
        Estimator of a concentration from a mean length.
    priors : array of shape (n_classes,), "equal" or None, default=None
        Prior probability of each class, in the order of `classes_`; None means the weighted class frequencies.
    calibration : bool, default=True
        Whether probabilities are calibrated with the labels of a sample of at most 8,192 rows, each predicted without itself. The most probable
        class stays the same.
    normalize : bool, default=True
        Divide rows by their length. If False, rows not of unit length are an error.
    n_threads : int or None, default=None
        Number of threads; None means `vmfkit.threads()`.

    Attributes
    ----------
    classes_ : array of shape (n_classes,)
        The sorted labels.
    priors_, mean_directions_, concentrations_ : arrays
        Parameters of the classes, in the order of `classes_`.
    notes_ : list of str
        Notes on classes, such as one whose rows are all equal.
    calibration_ : vmfkit.Calibration or None
        How far probabilities can be trusted; None without a calibration.
    temperature_ : float
        The temperature of calibrated probabilities; 1 if they are the exact posterior.
    mixture_ : vmfkit.Mixture
        The fitted mixture.

    Examples
    --------
    >>> import numpy as np
    >>> from vmfkit import VonMisesFisherClassifier
    >>> rows = np.array([[1.0, 0.0], [0.8, 0.6], [0.0, 1.0], [-0.6, 0.8]])
    >>> model = VonMisesFisherClassifier().fit(rows, ["east", "east", "north", "north"])
    >>> model.predict([[0.9, 0.1]])
    array(['east'], dtype='<U5')
    """

    _parameter_constraints: dict[str, Any] = {
        "policy": [str],
        "concentration": [str],
        "priors": ["array-like", str, None],
        "calibration": ["boolean"],
        "normalize": ["boolean"],
        "n_threads": [AT_LEAST_ONE, None],
    }

    def __init__(
        self,
        *,
        policy: str = "shared",
        concentration: str = "exact",
        priors: Any = None,
        calibration: bool = True,
        normalize: bool = True,
        n_threads: int | None = None,
    ) -> None:
        self.policy = policy
        self.concentration = concentration
        self.priors = priors
        self.calibration = calibration
        self.normalize = normalize
        self.n_threads = n_threads

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    # ------------------------------------------------------------------- fit

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> VonMisesFisherClassifier:
        """Fits one density per class in one pass.

        Parameters
        ----------
        X : array, sparse matrix, column of lists, or files
            The rows.
        y : array of shape (n_samples,)
            The class of each row.
        sample_weight : array of shape (n_samples,), optional
            Row weights.

        Returns
        -------
        self : VonMisesFisherClassifier
        """
        self._validate_params()
        if is_path(X):
            self.__dict__.pop("feature_names_in_", None)
            y = column_or_1d(y, warn=True)
        else:
            X, y = validate_data(self, plain_rows(X, self.normalize), y, ensure_min_features=2, **_CHECKS)
        weights = checked_weights(sample_weight, X)
        check_classification_targets(y)
        classes, numbers = np.unique(y, return_inverse=True)
        priors = self._given_priors(len(classes))
        directions = Directions(as_rows(X, normalize=self.normalize), self.normalize)

        def call(rows: Any, components: int, weights: Any, **options: Any) -> tuple[_vmfkit.Mixture, list[str]]:
            return _vmfkit.fit_labels(
                rows,
                numbers.astype(np.uint32),
                [str(name) for name in classes],
                weights,
                priors,
                policy=self.policy,
                estimator=self.concentration,
                calibrate=self.calibration,
                threads=self.n_threads,
                **options,
            )

        mixture, self.notes_ = directions.fit(call, len(classes), weights)
        self._take(mixture, classes)
        warn_of_notes(self.notes_)
        return self

    def _given_priors(self, count: int) -> np.ndarray | None:
        if self.priors is None:
            return None
        if isinstance(self.priors, str):
            if self.priors != "equal":
                raise ValueError(f"priors must be an array, 'equal' or None, found: `{self.priors}`")
            return np.full(count, 1 / count)
        priors = np.asarray(self.priors, np.float64)
        if priors.shape != (count,):
            raise ValueError(f"priors must have one value for each of {count} classes, found shape: `{priors.shape}`")
        if not np.isclose(priors.sum(), 1.0):
            raise ValueError(f"the priors must sum to 1, found: `{priors.sum()}`")
        return priors / priors.sum()

    def _take(self, mixture: _vmfkit.Mixture, classes: np.ndarray) -> None:
        self.mixture_ = mixture
        self.classes_ = classes
        self.n_features_in_ = mixture.dim
        self.priors_ = mixture.weights
        self.mean_directions_ = mixture.directions
        self.concentrations_ = mixture.concentrations

    # -------------------------------------------------------------- interface

    def _directions(self, X: Any) -> Directions:
        check_is_fitted(self)
        if not is_path(X):
            X = as_rows(X).argument if is_column(X) else X
            X = validate_data(self, X, reset=False, **_CHECKS)
        return Directions(as_rows(X, normalize=self.normalize), self.normalize)

    def predict(self, X: Any) -> np.ndarray:
        """Computes the most probable class of each row; for a row of zeros, the class with the largest prior."""
        directions = self._directions(X)
        found = directions.ask(self.mixture_.assign, threads=self.n_threads)
        if directions.zeros is not None:
            found[directions.zeros] = np.argmax(self.priors_)
        return self.classes_[found]

    @property
    def calibration_(self) -> Calibration | None:
        if not hasattr(self, "mixture_"):
            raise AttributeError(f"this {type(self).__name__} is not fitted yet")
        return calibration_of(self.mixture_)

    @property
    def temperature_(self) -> float:
        calibration = self.calibration_
        return 1.0 if calibration is None else calibration.temperature

    def predict_proba(self, X: Any) -> np.ndarray:
        """Computes the calibrated probability of each class for each row; for a row of zeros, the priors."""
        return self._probabilities(X, calibrated=True)

    def responsibilities(self, X: Any) -> np.ndarray:
        """Computes the exact posterior of the model: the probabilities of `predict_proba` at temperature 1."""
        return self._probabilities(X, calibrated=False)

    def _probabilities(self, X: Any, calibrated: bool) -> np.ndarray:
        directions = self._directions(X)
        found = directions.responsibilities(self.mixture_, threads=self.n_threads, calibrated=calibrated)
        if directions.zeros is not None:
            found[directions.zeros] = self.priors_
        return found

    def predict_log_proba(self, X: Any) -> np.ndarray:
        """Computes the log of `predict_proba`, without underflow."""
        directions = self._directions(X)
        joint = directions.joint(self.mixture_, threads=self.n_threads) / self.temperature_
        if directions.zeros is not None:
            with np.errstate(divide="ignore"):
                joint[directions.zeros] = np.log(self.priors_)
        joint -= joint.max(axis=1, keepdims=True)
        return joint - np.log(np.exp(joint).sum(axis=1, keepdims=True))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes a model file, which `vmf` can also read. Classes are stored as strings."""
        check_is_fitted(self)
        _vmfkit.write_file(path, self.mixture_.to_bytes())

    @classmethod
    def load(cls, path: str | os.PathLike[str], **parameters: Any) -> VonMisesFisherClassifier:
        """Loads a classifier from a model file that `save` or `vmf fit --known-labels` has written.

        Classes are integers if all of them look like integers, otherwise strings. `parameters` take precedence over those of the file.
        """
        with open(path, "rb") as file:
            mixture = _vmfkit.Mixture.from_bytes(file.read())
        description = mixture.description
        if not description["labels"]:
            raise ValueError(f"the model must have a label for each component, found none in: `{os.fspath(path)}`")
        self = cls(**{"policy": description["policy"], "concentration": description["estimator"], **parameters})
        self._take(mixture, _of_texts(description["labels"]))
        self.notes_ = description["notes"]
        return self


# scikit-learn also checks for NaN and infinity here, unlike in the other estimators.
_CHECKS: dict[str, Any] = {"accept_sparse": "csr", "dtype": [np.float64, np.float32], "order": "C"}


def _of_texts(labels: list[str]) -> np.ndarray:
    try:
        numbers = [int(label) for label in labels]
    except ValueError:
        return np.array(labels)
    return np.array(numbers) if [str(number) for number in numbers] == labels else np.array(labels)
