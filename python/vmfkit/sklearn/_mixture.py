"""A mixture of von Mises-Fisher densities as an estimator."""

from __future__ import annotations

from numbers import Real
from typing import Any

import numpy as np
from sklearn.base import DensityMixin
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.utils import ClassifierTags
from sklearn.utils._param_validation import Interval
from sklearn.utils.validation import check_is_fitted

from .. import _vmfkit, special
from .._directions import Directions, softmax
from .._rows import as_weights
from .._warn import warn, warn_of_notes
from ._calibrated import CalibratedMixture
from ._estimator import AT_LEAST_ONE, SphericalEstimator, checked_weights, seed_of, start_of

# Methods with a convergence test.
_CONVERGING = ("em", "hard", "stochastic", "online", "kmeans")

# Upper bound of the size of `probabilities_`, 128 MB.
_MOST_PROBABILITIES = 1 << 24


class VonMisesFisherMixture(DensityMixin, CalibratedMixture):
    """A mixture of von Mises-Fisher densities on the unit sphere.

    Parameters
    ----------
    n_components : int, default=1
        Number of components, without a background.
    method : {"em", "hard", "stochastic", "online", "sgd", "kmeans"}, default="em"
        Fitting method. "kmeans" is spherical k-means: equal weights and one concentration.
    policy : str, default="auto"
        How concentrations are tied across components: "auto", "free", "shared", "fixed:KAPPA" or "ratio:RATIO". "auto" leaves them free if
        the rows fit the model, and bounds their ratio otherwise.
    concentration : {"exact", "banerjee", "tanabe", "sra", "song"}, default="exact"
        Estimator of a concentration from a mean length.
    init : {"kmeans", "plusplus", "random-rows", "random"} or array, default="kmeans"
        Start. An array of shape (n_components, n_features) gives directions, one of shape (n_samples,) labels.
    n_init : int, default=1
        Number of fits from different starts, of which the best is kept. If `init` is an array, one fit is made, with a RuntimeWarning.
    search : bool, default=True
        Whether EM from "kmeans" begins with a split-and-merge search on a sample of the rows.
    warm_start : bool, default=False
        Start from the previous fit, and compare the first pass with the last pass of that fit to test for convergence.
    tol : float or None, default=None
        Stop when a pass improves the mean ln p, relative to the uniform distribution, by at most this fraction. None means the default of the
        method, 1e-5. With 0 all passes are made, without a ConvergenceWarning. "kmeans" uses the mean of 1 - cosine instead of ln p, and with
        0 it stops when no label changes.
    max_iter : int or None, default=None
        Maximum number of passes over the rows; None means the default of the method.
    random_state : int, RandomState or None, default=None
        Random seed. An integer is the seed itself, as for `vmf --seed`.
    background : float or None, default=None
        Initial weight of a uniform background component for outliers; None means no background.
    batch_size : int or None, default=None
        Rows per step of "sgd" and "online".
    learning_rate, decay : float or None, default=None
        For "sgd": the step size of the first pass, and its factor after each pass.
    calibration : bool, default=True
        Whether the fit is calibrated with a sample of its rows: `predict_proba` then returns calibrated probabilities, and `p_values` conformal
        p-values. The mixture and its labels are the same without. `calibrate` does it later.
    half_life : float or None, default=None
        For `partial_fit`: number of rows after which earlier rows have half their weight. None means the default of online EM: the first rows
        lose weight quickly, later rows slowly.
    normalize : bool, default=True
        Divide rows by their length. If False, rows not of unit length are an error.
    n_threads : int or None, default=None
        Number of threads; None means `vmfkit.threads()`.
    max_memory : int or None, default=None
        Memory limit for the rows of files, in bytes; rows that do not fit are read again in every pass. None means half of the free memory.
    verbose : int, default=0
        If nonzero, print a line to standard error for the start and for each pass, with the mean ln p and an upper bound of the time left.

    Attributes
    ----------
    weights_, mean_directions_, concentrations_ : arrays
        Parameters of the components, without a background.
    background_weight_ : float
        Weight of the background; 0 without one.
    labels_ : array of shape (n_samples,)
        The most probable component of each row of the fit; -1 for the background and for rows of zeros.
    probabilities_ : array of shape (n_samples, n_components)
        Calibrated probability of each component for each row of the fit, without a background, so rows may sum to less than 1. BERTopic needs it. It
        exists only for rows in memory and at most 2^24 probabilities, and it is not pickled. `predict_proba` has no such limits.
    converged_ : bool
    n_iter_ : int
        Number of passes over all rows, at most `max_iter`.
    n_search_iter_ : int
        Number of passes of the search over a sample of the rows; 0 without a search.
    lower_bound_, lower_bounds_ : float, list of float
        Mean ln p of the rows before the last pass, and before each pass.
    notes_ : list of str
        Notes on components, for example empty or duplicate ones.
    calibration_ : vmfkit.Calibration or None
        How far probabilities can be trusted: the temperature in words, reliability tables with expected calibration errors before and after, and
        the spread of each component. None without a calibration. After `partial_fit` it is computed at the first access.
    temperature_ : float
        The temperature of calibrated probabilities; 1 if they are the exact posterior.
    dispersion_ : float
        How many times more the rows vary along their mean directions than the model allows; nan without a calibration.
    mixture_ : vmfkit.Mixture
        The fitted mixture.

    See Also
    --------
    SphericalKMeans : hard clusters by cosine, without a density.
    VonMisesFisherClassifier : one component per known label.
    vmfkit.select : chooses the number of components.

    Examples
    --------
    >>> import numpy as np
    >>> from vmfkit import VonMisesFisherMixture, vonmises_fisher
    >>> rows = np.concatenate([vonmises_fisher(mu, 50).rvs(200, random_state=1) for mu in np.eye(3)])
    >>> model = VonMisesFisherMixture(n_components=3, random_state=0).fit(rows)
    >>> np.bincount(model.labels_).tolist()
    [200, 200, 200]
    """

    _parameter_constraints: dict[str, Any] = {
        **SphericalEstimator._parameter_constraints,
        "n_components": [AT_LEAST_ONE],
        "method": [str],
        "policy": [str],
        "concentration": [str],
        "search": ["boolean"],
        "warm_start": ["boolean"],
        "background": [Real, None],
        "calibration": ["boolean"],
        "batch_size": [AT_LEAST_ONE, None],
        "learning_rate": [Interval(Real, 0, None, closed="neither"), None],
        "decay": [Interval(Real, 0, None, closed="neither"), None],
        "half_life": [Interval(Real, 0, None, closed="neither"), None],
    }

    def __init__(
        self,
        n_components: int = 1,
        *,
        method: str = "em",
        policy: str = "auto",
        concentration: str = "exact",
        init: Any = "kmeans",
        n_init: int = 1,
        search: bool = True,
        warm_start: bool = False,
        tol: float | None = None,
        max_iter: int | None = None,
        random_state: Any = None,
        background: float | None = None,
        batch_size: int | None = None,
        learning_rate: float | None = None,
        decay: float | None = None,
        half_life: float | None = None,
        calibration: bool = True,
        normalize: bool = True,
        n_threads: int | None = None,
        max_memory: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.n_components = n_components
        self.method = method
        self.policy = policy
        self.concentration = concentration
        self.init = init
        self.n_init = n_init
        self.search = search
        self.warm_start = warm_start
        self.tol = tol
        self.max_iter = max_iter
        self.random_state = random_state
        self.background = background
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.decay = decay
        self.half_life = half_life
        self.calibration = calibration
        self.normalize = normalize
        self.n_threads = n_threads
        self.max_memory = max_memory
        self.verbose = verbose

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        # scikit-learn's checks of sparse rows read classifier tags of every estimator with predict_proba.
        tags.classifier_tags = ClassifierTags(multi_class=True)
        return tags

    def _take(self, mixture: _vmfkit.Mixture) -> None:
        super()._take(mixture)
        # These belong to one fit; partial_fit does not set them.
        for name in ("lower_bound_", "lower_bounds_", "_probabilities", "_joint", "_uncalibrated"):
            self.__dict__.pop(name, None)

    def _look_at(self, directions: Directions, weights: np.ndarray | None) -> None:
        super()._look_at(directions, weights)
        length = directions.rows.length
        if length is None or length * self.mixture_.components > _MOST_PROBABILITIES:
            return
        if "_uncalibrated" in self.__dict__:
            # The temperature is not known yet.
            self._joint = directions.joint(self.mixture_, threads=self.n_threads)
        else:
            self._probabilities = self._of_components(self._calibrated(directions).T).T

    def _start(self) -> Any:
        if self.warm_start and hasattr(self, "mixture_"):
            return self.mixture_
        return start_of(self.init)

    def _choices(self) -> dict[str, Any]:
        choices = {
            "method": self.method,
            "policy": self.policy,
            "estimator": None if self.method == "sgd" else self.concentration,
            "background": self.background,
        }
        if self.method == "sgd":
            choices |= {"learning_rate": self.learning_rate, "decay": self.decay}
        return choices

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> VonMisesFisherMixture:
        """Fits the mixture.

        Parameters
        ----------
        X : array, sparse matrix, column of lists, or files
            The rows.
        y : ignored
        sample_weight : array of shape (n_samples,), optional
            Row weights, from 0 to 1e100.

        Returns
        -------
        self : VonMisesFisherMixture
        """
        start = self._start()
        # The objective of the previous fit.
        before = getattr(self, "lower_bound_", None) if self.warm_start else None
        self.__dict__.pop("_online", None)
        found = self._fit(
            X,
            sample_weight,
            self.n_components,
            start=start,
            restarts=1 if self.warm_start and isinstance(start, _vmfkit.Mixture) else self._restarts(start),
            search=self.search,
            tolerance=self.tol,
            passes=self.max_iter,
            batch=self.batch_size,
            calibrate=self.calibration,
            **self._choices(),
        )
        warn_of_notes(found.notes)
        self.lower_bounds_ = found.objectives.tolist()
        self.lower_bound_ = self.lower_bounds_[-1] if self.lower_bounds_ else -np.inf
        if before is not None and len(self.lower_bounds_) == 1:
            self.converged_ = self.converged_ or self._has_settled(before, self.lower_bound_)
        if not self.converged_ and self.method in _CONVERGING and self.tol != 0:
            warn(
                f"{self.method} stopped after {self.n_iter_} passes before it converged. "
                "Try other parameters, or increase max_iter or tol.",
                ConvergenceWarning,
            )
        return self

    def _has_settled(self, before: float, now: float) -> bool:
        """Convergence test of a fit of one pass against the previous fit."""
        usual = _vmfkit.default_settings(self.method, 1, 2)["tolerance"]
        tolerance = self.tol if self.tol is not None else 0.0 if usual == "none" else float(usual)
        scale = 1 - before if self.method == "kmeans" else before - special.log_normalizer(self.n_features_in_, 0.0)
        return self.method in _CONVERGING and tolerance > 0 and abs(now - before) <= tolerance * abs(scale)

    def partial_fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> VonMisesFisherMixture:
        """Updates the mixture with a batch of rows by online EM.

        The first rows are held until there are 8 per component and the start can be computed. Until then `predict` raises NotFittedError. After
        `fit` or `load`, the rows of the fit and new rows have the same weight. A mixture without a number of rows counts as 8192 rows, or 64
        per component if that is more.

        If rows of a batch fit no component, the component whose removal costs least moves there, with a warning. With `half_life`, old rows
        lose weight.

        The stream keeps a random sample of its rows, from which the calibration is computed when probabilities, p-values, `calibration_` or a
        model file are asked for. After `fit` or `load`, the calibration of the fit is used until the stream has seen as many rows as that one
        rests on.

        Parameters
        ----------
        X : array, sparse matrix, column of lists, or files
            The batch of rows.
        y : ignored
        sample_weight : array of shape (n_samples,), optional
            Row weights.

        Returns
        -------
        self : VonMisesFisherMixture
        """
        first = "_online" not in self.__dict__ and not hasattr(self, "mixture_")
        directions = self._validated(X, reset=first)
        weights = checked_weights(sample_weight, X)
        online = self.__dict__.get("_online")
        if online is None:
            choices = self._online_choices()
            if first or self.random_state is not None:
                choices["seed"] = seed_of(self.random_state)
            if first:
                online = _vmfkit.OnlineFit(self.n_components, **choices)
            else:
                online = _vmfkit.OnlineFit.after(self.mixture_, self.n_components, **choices)

        def see(rows: Any, components: int, weights: np.ndarray | None, **options: Any) -> None:
            online.see(rows, weights, **options)

        directions.fit(see, self.n_components, weights, threads=self.n_threads)
        self._online = online
        mixture = online.mixture
        if mixture is None:
            self.n_features_in_ = online.held[2] or self.n_features_in_
            return self
        self._take(mixture)
        if self.calibration:
            self._uncalibrated = True
        self._describe(directions, weights)
        self.n_iter_ = online.passes
        self.converged_ = False
        self.notes_ = mixture.description["notes"]
        warn_of_notes([f"the rows drift: {note}" for note in online.drift])
        return self

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "mixture_")

    def _directions(self, X: Any) -> Directions:
        if "_online" in self.__dict__ and not hasattr(self, "mixture_"):
            held, needed, _ = self._online.held
            raise NotFittedError(
                f"this {type(self).__name__} is not fitted yet: partial_fit holds the first rows until there are {needed}, "
                f"found: `{held}`. Pass more rows, or use fit."
            )
        return super()._directions(X)

    def _online_choices(self) -> dict[str, Any]:
        return {
            "method": "online",
            "policy": self.policy,
            "estimator": self.concentration,
            "background": self.background,
            "half_life": self.half_life,
            "calibrate": self.calibration,
            "start": start_of(self.init),
            "threads": self.n_threads,
        }

    def __getstate__(self) -> dict[str, Any]:
        state = super().__getstate__().copy()
        for name in ("_probabilities", "_joint"):
            state.pop(name, None)
        if "_online" in state:
            state["_online"] = state["_online"].to_bytes()
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        if "_online" in state:
            self._online = _vmfkit.OnlineFit.from_bytes(state["_online"], self.n_components, **self._online_choices())

    @staticmethod
    def _parameters_of(known: dict[str, Any], components: int, dim: int) -> dict[str, Any]:
        found = SphericalEstimator._parameters_of(known, components, dim)
        # A stream stores only these. Defaults are left to the constructor.
        usual = _vmfkit.default_settings("em", components, dim)
        policy = known["policy"] if known["method"] != "kmeans" else ""
        if policy not in ("", usual["policy"]):
            found["policy"] = policy
        if known["estimator"]:
            found["concentration"] = known["estimator"]
        if "components" not in known:
            return found
        method = found["method"] = known["method"]
        usual = _vmfkit.default_settings(method, components, dim, policy or None)
        if known["background_start"] != "none":
            found["background"] = float(known["background_start"])
        if "search" not in known and "search" in usual and known["start"] == usual["start"] and "annealing" not in known:
            found["search"] = False
        numbers = {
            "passes": ("max_iter", int),
            "batch": ("batch_size", int),
            "learning_rate": ("learning_rate", float),
            "decay": ("decay", float),
        }
        for setting, (name, kind) in numbers.items():
            if known.get(setting) not in (None, usual.get(setting)):
                found[name] = kind(known[setting])
        if known["tolerance"] != usual["tolerance"]:
            found["tol"] = 0.0 if known["tolerance"] == "none" else float(known["tolerance"])
        return found

    def _recall(self, known: dict[str, Any]) -> None:
        super()._recall(known)
        # A stream has no trace of one fit.
        if "components" in known and known["trace"]:
            self.lower_bounds_ = known["trace"]
            self.lower_bound_ = self.lower_bounds_[-1]

    # ------------------------------------------------------------- parameters

    def _of_components(self, values: np.ndarray) -> np.ndarray:
        return values[:-1] if self.mixture_.has_background else values

    @property
    def weights_(self) -> np.ndarray:
        return self._of_components(self._fitted().weights)

    @property
    def mean_directions_(self) -> np.ndarray:
        return self._of_components(self._fitted().directions)

    @property
    def concentrations_(self) -> np.ndarray:
        return self._of_components(self._fitted().concentrations)

    @property
    def background_weight_(self) -> float:
        return float(self.mixture_.weights[-1]) if self._fitted().has_background else 0.0

    @property
    def probabilities_(self) -> np.ndarray:
        if "_joint" in self.__dict__:
            temperature = self.temperature_
            self._probabilities = self._of_components(softmax(self.__dict__.pop("_joint") / temperature).T).T
        if "_probabilities" not in self.__dict__:
            raise AttributeError(
                f"this {type(self).__name__} has no probabilities_: it was not fitted in this process to rows in memory, or there are more than "
                f"{_MOST_PROBABILITIES} values. predict_proba gives those of any rows."
            )
        return self._probabilities

    def _fitted(self) -> _vmfkit.Mixture:
        if not hasattr(self, "mixture_"):
            raise AttributeError(f"this {type(self).__name__} is not fitted yet")
        return self.mixture_

    # -------------------------------------------------------------- interface

    def transform(self, X: Any) -> np.ndarray:
        """Same as `predict_proba`, for pipelines."""
        return self.predict_proba(X)

    def score_samples(self, X: Any) -> np.ndarray:
        """Computes ln p of each row; a row of zeros has that of the uniform density."""
        return self._directions(X).ln_densities(self.mixture_, threads=self.n_threads)

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Computes the mean ln p of the rows, weighted by `sample_weight` or by the weight column of files."""
        directions = self._directions(X)
        weights = as_weights(sample_weight, directions.rows.length)
        if directions.rows.is_files:
            return directions.ask(self.mixture_.evaluate, weights=weights, threads=self.n_threads)["mean"]
        return float(np.average(directions.ln_densities(self.mixture_, threads=self.n_threads), weights=weights))

    def _evaluate(self, X: Any) -> dict[str, float]:
        return self._directions(X).evaluate(self.mixture_, threads=self.n_threads)

    def aic(self, X: Any) -> float:
        """Akaike information criterion; lower is better."""
        return self._evaluate(X)["aic"]

    def bic(self, X: Any) -> float:
        """Bayesian information criterion; lower is better."""
        return self._evaluate(X)["bic"]

    def icl(self, X: Any) -> float:
        """Integrated completed likelihood; lower is better."""
        return self._evaluate(X)["icl"]

    def sample(self, n_samples: int = 1) -> tuple[np.ndarray, np.ndarray]:
        """Draws rows from the mixture.

        Parameters
        ----------
        n_samples : int, default=1

        Returns
        -------
        X : array of shape (n_samples, n_features)
        y : array of shape (n_samples,)
            The component of each row; -1 for the background.
        """
        check_is_fitted(self)
        if n_samples < 1:
            raise ValueError(f"Invalid value for 'n_samples': {n_samples} . The sampling requires at least one sample.")
        rows, labels = self.mixture_.sample(n_samples, seed_of(self.random_state), threads=self.n_threads)
        return rows, self._labels_of(labels, None)
