"""Calibrated probabilities, p-values, representatives and summaries of a mixture."""

from __future__ import annotations

from numbers import Integral
from typing import Any

import numpy as np

from .. import _vmfkit
from .._calibration import Calibration, calibration_of
from .._directions import Directions
from .._rows import as_rows
from ._estimator import SphericalEstimator, checked_weights
from ._summary import component_columns, frame_of, text_of


class CalibratedMixture(SphericalEstimator):
    """What rows say about a mixture that was fitted, and the mixture about rows."""

    n_threads: int | None
    normalize: bool

    def _fitted(self) -> _vmfkit.Mixture:
        raise NotImplementedError

    @property
    def calibration_(self) -> Calibration | None:
        return calibration_of(self._calibrated_mixture())

    @property
    def temperature_(self) -> float:
        calibration = self.calibration_
        return 1.0 if calibration is None else calibration.temperature

    @property
    def dispersion_(self) -> float:
        calibration = self.calibration_
        return np.nan if calibration is None else calibration.dispersion

    def _calibrated_mixture(self) -> _vmfkit.Mixture:
        """The mixture with its calibration, which a stream computes only when it is needed."""
        mixture = self._fitted()
        if "_uncalibrated" in self.__dict__:
            self.mixture_ = mixture = self._online.calibrated(threads=self.n_threads)
            del self._uncalibrated
        return mixture

    def _calibrated(self, directions: Directions) -> np.ndarray:
        return directions.responsibilities(self._calibrated_mixture(), threads=self.n_threads, calibrated=True)

    # ------------------------------------------------------------ calibration

    def calibrate(self, X: Any, *, held_out: bool = False, sample_weight: Any = None) -> VonMisesFisherMixture:
        """Finds calibrated probabilities and the table for conformal p-values with these rows.

        A fit does it with its own rows, so this is for mixtures without a calibration (of `calibration=False`, of arrays, of a distributed fit), or
        to use held-out rows. The mixture and its labels do not change. A random sample of the rows is used.

        Parameters
        ----------
        X : array, sparse matrix, column of lists, or files
            The rows of the fit, or held-out rows.
        held_out : bool, default=False
            Whether the rows were not used for the fit. Then p-values hold exactly: P(p <= a) <= a for rows of the same kind.
        sample_weight : array of shape (n_samples,), optional
            Row weights.

        Returns
        -------
        self : VonMisesFisherMixture
        """
        self._recalibrate(X, sample_weight, held_out=held_out)
        return self

    def calibrate_outliers(self, X: Any, *, sample_weight: Any = None) -> VonMisesFisherMixture:
        """Replaces the table for conformal p-values by one of held-out rows; probabilities do not change.

        For rows of the same kind as X, P(p <= a) <= a for every level a, whatever their distribution. The table of a fit holds nearly so.

        Parameters
        ----------
        X : array, sparse matrix, column of lists, or files
            Rows that were not used for the fit. The smallest p-value is 1 / (number of rows + 1); at most 32,768 rows, or 64 per component, are
            used.
        sample_weight : array of shape (n_samples,), optional
            Row weights.

        Returns
        -------
        self : VonMisesFisherMixture
        """
        self._recalibrate(X, sample_weight, table_only=True)
        return self

    def _recalibrate(self, X: Any, sample_weight: Any, **options: bool) -> None:
        directions = self._directions(X)
        mixture = self._calibrated_mixture()

        def call(rows: Any, components: int, weights: Any, **more: Any) -> _vmfkit.Mixture:
            return _vmfkit.calibrated(mixture, rows, weights, **options, **more)

        found = directions.fit(call, mixture.components, checked_weights(sample_weight, X), threads=self.n_threads)
        self.mixture_ = found
        # Of the rows of the fit, under the former calibration.
        self.__dict__.pop("_probabilities", None)
        self.__dict__.pop("_joint", None)

    def predict_proba(self, X: Any) -> np.ndarray:
        """Computes the calibrated probability of each component for each row.

        Of the rows with a probability of about 0.8, about 80 % of the near neighbours are in the same component. If the rows fit the model, or
        without a calibration, the probabilities are the exact posterior.

        Parameters
        ----------
        X : array, sparse matrix, column of lists, or files

        Returns
        -------
        probabilities : array of shape (n_samples, n_components)
            With a background, its probability is an additional last column. The probabilities of a row of zeros are all 0.

        See Also
        --------
        responsibilities : the exact posterior of the model.
        """
        return self._calibrated(self._directions(X))

    def responsibilities(self, X: Any) -> np.ndarray:
        """Computes the exact posterior of the model: the probabilities of `predict_proba` at temperature 1.

        It holds for rows drawn from the mixture. On embeddings it is nearly always 0 or 1.

        Parameters
        ----------
        X : array, sparse matrix, column of lists, or files

        Returns
        -------
        responsibilities : array of shape (n_samples, n_components)
            As for `predict_proba`.
        """
        return self._directions(X).responsibilities(self.mixture_, threads=self.n_threads)

    def p_values(self, X: Any, kind: str = "conformal") -> np.ndarray:
        """Computes the p-value of each row, to find outliers: of rows like those of the fit, a fraction of about 0.01 has a p-value of at most 0.01.

        Parameters
        ----------
        X : array, sparse matrix, column of lists, or files
        kind : {"conformal", "component", "law"}, default="conformal"
            What a row is compared with. "conformal": rows of the fit by their ln p, valid whatever their distribution. "component": the same among
            the rows of its component, so that broad components have no more outliers than narrow ones. "law": draws from the mixture, only for
            rows that fit the model, which embeddings do not; concentrations must be accurate, so fit with `policy="free"`.

        Returns
        -------
        p_values : array of shape (n_samples,)
            The p-value of a row of zeros is nan.

        See Also
        --------
        calibrate_outliers : the exact guarantee, by held-out rows.
        """
        directions = self._directions(X)
        return directions.p_values(self._calibrated_mixture(), kind=kind, threads=self.n_threads)

    def representatives(self, X: Any, n: int = 5) -> list[np.ndarray]:
        """Finds the most typical rows of each component: those with the highest density under it, among the rows assigned to it.

        Parameters
        ----------
        X : array, sparse matrix, column of lists, or files
        n : int, default=5
            Number of rows for each component.

        Returns
        -------
        representatives : list of n_components arrays
            Indices of rows of X, the most typical first. A component with fewer rows has a shorter array.
        """
        if not (isinstance(n, Integral) and n >= 0):
            raise ValueError(f"n must be a whole number of at least 0, found: `{n}`")
        return [rows for _, _, rows in self._members(X, int(n))[: self._count()]]

    def _count(self) -> int:
        """Number of components without a background."""
        return self.mixture_.components - self.mixture_.has_background

    def _members(self, X: Any, n: int) -> list[tuple[int, float, np.ndarray]]:
        """Number of rows, mean probability and typical rows of each component."""
        directions = self._directions(X)
        mixture = self._calibrated_mixture()

        def call(rows: Any, **options: Any) -> list[tuple[int, float, np.ndarray]]:
            if directions.zeros is None:
                return _vmfkit.typical_rows(mixture, rows, n, threads=self.n_threads, **options)
            # Rows of zeros belong to no component.
            kept = np.flatnonzero(~directions.zeros)
            others = as_rows(directions.matrix()[kept], normalize=self.normalize)
            found = _vmfkit.typical_rows(mixture, others.argument, n, threads=self.n_threads, **options)
            return [(size, probability, kept[typical]) for size, probability, typical in found]

        return directions.ask(call)

    def summary(self, X: Any = None, *, n_typical: int = 3, as_text: bool = False) -> Any:
        """Describes each component, heaviest first.

        Parameters
        ----------
        X : array, sparse matrix, column of lists, or files, optional
            Rows to count and to choose typical rows from. Without X, `size` and `probability` are those of the rows of the fit, if they were in
            memory.
        n_typical : int, default=3
            Number of typical rows for each component.
        as_text : bool, default=False
            Return the table as text, which shows as HTML in a notebook. Without pandas it is always text.

        Returns
        -------
        summary : pandas.DataFrame or str
            Indexed by component, with the columns `size` (number of rows), `weight`, `probability` (mean calibrated probability of its rows),
            `concentration`, `half_angle` (degrees that contain half of its mass), `spread` (observed variance of its rows along its mean
            direction, as a multiple of what the model expects), `nearest` (the component with the nearest mean direction), `angle` (degrees to
            it) and, with X, `typical` (row numbers). The calibration in words is the entry "calibration" of its `attrs`.
        """
        self._calibrated_mixture()
        columns = component_columns(self, self._members(X, n_typical) if X is not None else None)
        calibration = self.calibration_
        words = "" if calibration is None else str(calibration)
        frame = None if as_text else frame_of(columns, words)
        return text_of(repr(self), words, columns, self.mixture_) if frame is None else frame
