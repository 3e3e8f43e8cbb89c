"""Classification with one von Mises-Fisher density per class."""

from __future__ import annotations

import os
import warnings
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, column_or_1d, validate_data

from .. import _vmfkit
from .._directions import Directions
from .._rows import as_rows, as_weights, is_column, is_path, refuse_texts, warn_of_angles
from ._estimator import AT_LEAST_ONE


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
        Notes on single classes, such as one whose rows are all equal.
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
        "normalize": ["boolean"],
        "n_threads": [AT_LEAST_ONE, None],
    }

    def __init__(
        self,
        *,
        policy: str = "shared",
        concentration: str = "exact",
        priors: Any = None,
        normalize: bool = True,
        n_threads: int | None = None,
    ) -> None:
        self.policy = policy
        self.concentration = concentration
        self.priors = priors
        self.normalize = normalize
        self.n_threads = n_threads

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    # ------------------------------------------------------------------- fit

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> VonMisesFisherClassifier:
        """Fits one density per class in one pass. `X` is an array, a sparse matrix, a column of lists, or files."""
        self._validate_params()
        if is_path(X):
            self.__dict__.pop("feature_names_in_", None)
            weights = as_weights(sample_weight, None)
            y = column_or_1d(y, warn=True)
        else:
            X = as_rows(X).argument if is_column(X) else X
            refuse_texts(X)
            if self.normalize:
                warn_of_angles(X)
            X, y = validate_data(self, X, y, ensure_min_features=2, **_CHECKS)
            weights = None if sample_weight is None else _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
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
                threads=self.n_threads,
                **options,
            )

        mixture, self.notes_ = directions.fit(call, len(classes), weights)
        self._take(mixture, classes)
        if self.notes_:
            others = f" (and {len(self.notes_) - 1} more, see notes_)" if len(self.notes_) > 1 else ""
            warnings.warn(self.notes_[0] + others, UserWarning, stacklevel=2)
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
        """The most probable class of each row; for a row of zeros the class with the largest prior."""
        directions = self._directions(X)
        found = directions.ask(self.mixture_.assign, threads=self.n_threads)
        if directions.zeros is not None:
            found[directions.zeros] = np.argmax(self.priors_)
        return self.classes_[found]

    def predict_proba(self, X: Any) -> np.ndarray:
        """Probability of each class for each row; the priors for a row of zeros."""
        directions = self._directions(X)
        found = directions.responsibilities(self.mixture_, threads=self.n_threads)
        if directions.zeros is not None:
            found[directions.zeros] = self.priors_
        return found

    def predict_log_proba(self, X: Any) -> np.ndarray:
        """Log of the probability of each class for each row, without underflow."""
        directions = self._directions(X)
        joint = directions.ask(self.mixture_.component_ln_densities, threads=self.n_threads)
        if directions.zeros is not None:
            joint[directions.zeros] = 0.0
        with np.errstate(divide="ignore"):
            joint += np.log(self.priors_)
        joint -= joint.max(axis=1, keepdims=True)
        return joint - np.log(np.exp(joint).sum(axis=1, keepdims=True))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes a model file, which the command `vmf` also reads. Classes are stored as strings."""
        check_is_fitted(self)
        with open(path, "wb") as file:
            file.write(self.mixture_.to_bytes())

    @classmethod
    def load(cls, path: str | os.PathLike[str], **parameters: Any) -> VonMisesFisherClassifier:
        """Loads a classifier from a model file of `save` or `vmf fit --known-labels`. Classes are integers if all of them look like
        integers, otherwise strings."""
        with open(path, "rb") as file:
            mixture = _vmfkit.Mixture.from_bytes(file.read())
        description = mixture.description
        if not description["labels"]:
            raise ValueError(f"the model must have a label for each component, found none in: `{os.fspath(path)}`")
        self = cls(**{"policy": description["policy"], "concentration": description["estimator"], **parameters})
        self._take(mixture, _of_texts(description["labels"]))
        self.notes_ = description["notes"]
        return self


# Unlike in the other estimators, scikit-learn checks X and y together.
_CHECKS: dict[str, Any] = {"accept_sparse": "csr", "dtype": [np.float64, np.float32], "order": "C"}


def _of_texts(labels: list[str]) -> np.ndarray:
    try:
        numbers = [int(label) for label in labels]
    except ValueError:
        return np.array(labels)
    return np.array(numbers) if [str(number) for number in numbers] == labels else np.array(labels)
