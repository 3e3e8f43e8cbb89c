"""What a calibration found, for people."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from . import _vmfkit


@dataclass(frozen=True, eq=False)
class Reliability:
    """Rows grouped by the probability of their component into 15 bins of equal width; the arrays have one value per bin.

    Attributes
    ----------
    fraction : array
        The rows of the bin, as a fraction of all rows of the sample.
    probability : array
        Their mean probability.
    confirmed : array
        The fraction of them that near neighbours, or known labels, confirmed.
    """

    fraction: np.ndarray
    probability: np.ndarray
    confirmed: np.ndarray

    @property
    def error(self) -> float:
        """The expected calibration error: the mean difference between probability and confirmed fraction; nan without rows."""
        if not self.fraction.any():
            return float("nan")
        return float(np.sum(self.fraction * np.abs(self.probability - self.confirmed)))


@dataclass(frozen=True, eq=False)
class Calibration:
    """How far the probabilities of a mixture can be trusted. `print` says it in words.

    Attributes
    ----------
    basis : {"model", "neighbours", "labels", "one component", "few rows"}
        What the temperature rests on. "model": the rows fit the model, so the exact posterior is calibrated. "one component" and "few rows": the
        mixture could not be calibrated, and the temperature is 1.
    temperature : float
        Logits are divided by this number, which is at least 1.
    dispersion : float
        How many times more the rows vary along their mean directions than the model allows.
    spreads : array of shape (n_components,)
        The same for each component; 1 where it cannot be measured.
    sample_rows : int
        Number of rows in the sample.
    copies : int
        Pairs of a row and a copy of it, which were not counted as neighbours.
    raw, calibrated : Reliability
        Reliability of the exact posterior and of calibrated probabilities on the sample, with the expected calibration error as `error`.
    outlier_rows : int or None
        Number of rows in the table for conformal p-values, the smallest of which is 1 / (outlier_rows + 1).
    held_out : bool
        Whether these rows were not used for the fit, so that p-values hold exactly.
    text : str
        The temperature in words.
    """

    basis: str
    temperature: float
    dispersion: float
    spreads: np.ndarray
    sample_rows: int
    copies: int
    raw: Reliability
    calibrated: Reliability
    outlier_rows: int | None
    held_out: bool
    text: str

    def __str__(self) -> str:
        if self.outlier_rows is None:
            return self.text
        rows = "held-out rows" if self.held_out else "rows of the fit"
        return f"{self.text}; conformal p-values from {self.outlier_rows} {rows}"


def calibration_of(mixture: _vmfkit.Mixture) -> Calibration | None:
    """The calibration of a mixture, or None."""
    description: dict[str, Any] = mixture.description
    known = description["calibration"]
    if known is None:
        return None
    components = mixture.components - mixture.has_background
    return Calibration(
        **{
            **known,
            "spreads": np.array(known["spreads"][:components]),
            "raw": Reliability(*map(np.array, known["raw"])),
            "calibrated": Reliability(*map(np.array, known["calibrated"])),
            "outlier_rows": description["outlier_rows"],
            "held_out": description["held_out"],
        }
    )
