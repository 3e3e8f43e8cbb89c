"""Selection of the number of components by what independent fits share, by neighbours or by likelihoods."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from numbers import Integral
from typing import TYPE_CHECKING, Any

import numpy as np

from . import _vmfkit
from ._directions import Directions
from ._rows import as_rows, as_seed, as_weights
from ._warn import warn

if TYPE_CHECKING:
    from .sklearn import VonMisesFisherMixture

_CRITERIA = ("auto", "shared-information", "stability", "neighbours", "aic", "bic", "icl", "held-out")

_MEASURED = (
    "stability",
    "stability_standard_error",
    "shared_clusters",
    "shared_information",
    "shared_information_standard_error",
    "neighbours",
    "neighbours_standard_error",
)


@dataclass(frozen=True)
class Candidate:
    """One mixture of a selection, fitted to the rows that were not held out."""

    components: int
    policy: str
    background: bool
    mixture: _vmfkit.Mixture
    converged: bool
    free_parameters: int
    total_weight: float
    ln_likelihood: float
    mean_ln_density: float
    aic: float
    bic: float
    icl: float
    # Mean ln p of the held-out rows and its standard error; None if no rows were held out.
    held_out: float | None
    held_out_standard_error: float | None
    # Agreement of fits of two halves of the rows: adjusted Rand index, and mutual information less chance in nats. None if not measured.
    stability: float | None
    stability_standard_error: float | None
    shared_information: float | None
    shared_information_standard_error: float | None
    # Adjusted mutual information of the components of rows and of their neighbours; None if not measured.
    neighbours: float | None
    neighbours_standard_error: float | None
    # How many times as much the rows vary along their mean directions as the model allows.
    dispersion: float | None
    # Warnings about empty, duplicate or collapsed components.
    warnings: tuple[str, ...]
    # The criteria by which it is the best candidate of its policy.
    best: tuple[str, ...]

    @property
    def shared_clusters(self) -> float | None:
        """Number of equally large clusters with as much information as independent fits share; None if not measured."""
        return None if self.shared_information is None else math.exp(self.shared_information)

    def model(self) -> VonMisesFisherMixture:
        """The mixture as a fitted estimator."""
        from .sklearn import VonMisesFisherMixture

        return VonMisesFisherMixture.from_mixture(self.mixture)


@dataclass(frozen=True)
class Recommendation:
    """The recommended number of components, and how sure that is."""

    components: int
    # The criterion that decided; not "auto".
    criterion: str
    # "high", "medium", "low", or "none" if no single number of components stands out.
    confidence: str
    reasons: tuple[str, ...]
    # The candidate; without confidence, the best of those offered.
    candidate: Candidate
    text: str

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class Selection:
    """Result of `vmfkit.select`: all candidates, and the recommended one of the first policy."""

    criterion: str
    candidates: tuple[Candidate, ...]
    recommendation: Recommendation

    @property
    def recommended(self) -> Candidate:
        """The recommended candidate."""
        return self.recommendation.candidate

    def table(self) -> dict[str, list[Any]]:
        """Columns with one entry per candidate, as `pandas.DataFrame` and `vmfkit.plot.selection` take them."""
        names = ["components", "policy", "background", "free_parameters", "ln_likelihood", "aic", "bic", "icl"]
        columns = {name: [getattr(candidate, name) for candidate in self.candidates] for name in names}
        columns["rows"] = [candidate.total_weight for candidate in self.candidates]
        if all(candidate.held_out is not None for candidate in self.candidates):
            columns["held_out"] = [candidate.held_out for candidate in self.candidates]
        if self._is_measured():
            columns |= {name: [getattr(candidate, name) for candidate in self.candidates] for name in _MEASURED}
        return columns

    def _is_measured(self) -> bool:
        return any(candidate.stability is not None or candidate.neighbours is not None for candidate in self.candidates)

    def __str__(self) -> str:
        header = ["k", "policy", "background", "ln-likelihood", "AIC", "BIC", "ICL", "held-out ln p"]
        measured = self._is_measured()
        if measured:
            header += ["stability", "+-", "neighbours", "+-", "shared clusters"]
        lines = [header]
        for c in self.candidates:

            def marked(name: str, value: float | None, digits: int = 1, c: Candidate = c) -> str:
                return "- " if value is None else f"{value:.{digits}f}{'*' if name in c.best else ' '}"

            numbers = [marked(name, getattr(c, name)) for name in ("aic", "bic", "icl")]
            k = f"{c.components}{'!' if c.warnings else ''}"
            held_out = marked("held-out", c.held_out, 4)
            line = [k, c.policy, "yes" if c.background else "no", f"{c.ln_likelihood:.1f}", *numbers, held_out]
            if measured:
                for name in ("stability", "neighbours"):
                    error = getattr(c, f"{name}_standard_error")
                    line += [marked(name, getattr(c, name), 4), "-" if error is None else f"{error:.4f}"]
                line.append(marked("shared-information", c.shared_clusters))
            lines.append(line)
        widths = [max(len(line[column]) for line in lines) for column in range(len(header))]
        text = "\n".join("  ".join(cell.rjust(width) for cell, width in zip(line, widths)).rstrip() for line in lines)
        return f"{text}\n{self.recommendation}"


def select(
    X: Any,
    n_components: Iterable[int],
    *,
    policy: str | Iterable[str] = "auto",
    background: bool | Iterable[bool] = False,
    criterion: str = "auto",
    repeats: int | None = None,
    holdout: float | None = None,
    n_init: int | None = None,
    search: bool = True,
    tol: float | None = None,
    max_iter: int | None = None,
    random_state: Any = 0,
    sample_weight: Any = None,
    normalize: bool = True,
    n_threads: int | None = None,
    verbose: int = 0,
) -> Selection:
    """Fits a mixture for each number of components and recommends one of them, as `vmf select` does.

    Parameters
    ----------
    X : array, sparse matrix, column of lists, or files
        The rows, which are all loaded into memory.
    n_components : iterable of int
        Numbers of components, such as `range(1, 11)`.
    policy : str or iterable of str, default="auto"
        How concentrations are tied across components. The recommendation is for the first policy, because likelihoods are not comparable
        across policies.
    background : bool or iterable of bool, default=False
        Whether to add a uniform background component; `(False, True)` fits both.
    criterion : {"auto", "shared-information", "stability", "neighbours", "aic", "bic", "icl", "held-out"}, default="auto"
        Criterion of the recommendation. "auto" is "bic" if the rows fit the model (a dispersion of at most 1.5), else
        "shared-information": what fits of two halves of the rows agree on, less chance.
    repeats : int or None, default=None
        Number of times that two halves are fitted per candidate, for "shared-information" and "stability"; None means 5.
    holdout : float or None, default=None
        Fraction of the rows to hold out; None means 0.2 for the criterion "held-out" and 0 otherwise.
    n_init : int or None, default=None
        Number of starts per fit; None means 10 if a pass takes about a millisecond, and 1 otherwise.
    search, tol, max_iter, normalize, n_threads
        As for `VonMisesFisherMixture`.
    random_state : int, RandomState, Generator or None, default=0
        Random seed. An integer is the seed itself, as for `vmf select --seed`.
    sample_weight : array or None, default=None
        Row weights.
    verbose : int, default=0
        If nonzero, print a line to standard error for each fit.

    Returns
    -------
    selection : Selection
        All candidates, and the recommended one with its confidence.

    Examples
    --------
    >>> import numpy as np
    >>> import vmfkit
    >>> groups = [vmfkit.vonmises_fisher(mu, 50).rvs(200, random_state=1) for mu in np.eye(3)]
    >>> found = vmfkit.select(np.concatenate(groups), range(1, 6))
    >>> found.recommendation.components, found.recommendation.criterion, found.recommendation.confidence
    (3, 'bic', 'high')
    """
    if criterion not in _CRITERIA:
        raise ValueError(f"the criterion must be one of {', '.join(_CRITERIA)}, found: `{criterion}`")
    numbers = [n_components] if isinstance(n_components, Integral) else list(n_components)
    if not numbers or not all(isinstance(number, Integral) and number >= 1 for number in numbers):
        raise ValueError(f"n_components must be integers of at least 1, found: `{numbers}`")
    if holdout is None:
        holdout = 0.2 if criterion == "held-out" else 0.0
    policies = [policy] if isinstance(policy, str) else list(dict.fromkeys(policy))
    backgrounds = [background] if isinstance(background, (bool, np.bool_)) else list(dict.fromkeys(background))
    directions = Directions(as_rows(X, normalize=normalize), normalize)
    length = directions.rows.length
    if length is not None and length < max(numbers):
        raise ValueError(f"Expected n_samples >= {max(numbers)} components, but got n_samples = {length}")
    fits = len(set(numbers)) * len(policies) * len(backgrounds)

    def progress(done: int, components: int) -> None:
        text = f"{done} of {fits} fits done" if done <= fits else f"{done - fits} compared with fits of halves"
        print(f"select: {text}, K = {components}", file=sys.stderr, flush=True)

    lines, told = directions.fit(
        _vmfkit.select,
        [int(number) for number in numbers],
        as_weights(sample_weight, length),
        progress if verbose else None,
        policies=policies,
        backgrounds=[bool(choice) for choice in backgrounds],
        criterion=criterion,
        repeats=repeats,
        holdout=float(holdout),
        restarts=n_init,
        search=search,
        tolerance=tol,
        passes=max_iter,
        seed=int(random_state) if isinstance(random_state, Integral) else as_seed(random_state),
        threads=n_threads,
    )
    candidates = tuple(_candidate(line) for line in lines)
    if told is None and criterion == "held-out":
        raise ValueError(f"the criterion {criterion!r} needs held-out rows, found: `holdout={holdout}`")
    if told is None:
        raise ValueError(f"the criterion {criterion!r} cannot be measured for any of these numbers of components: `{sorted(numbers)}`")
    candidate = candidates[told.pop("position")]
    told["reasons"] = tuple(told["reasons"])
    selection = Selection(criterion, candidates, Recommendation(components=candidate.components, candidate=candidate, **told))
    if selection.recommended.warnings:
        warn(f"the recommended mixture has a warning: {selection.recommended.warnings[0]}")
    return selection


def _candidate(line: dict[str, Any]) -> Candidate:
    fit = line.pop("fit")
    return Candidate(
        mixture=fit.mixture,
        converged=fit.converged,
        warnings=tuple(line.pop("warnings")),
        best=tuple(line.pop("best")),
        **line,
    )
