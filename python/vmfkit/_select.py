"""Selection of the number of components by AIC, BIC, ICL or held-out likelihood."""

from __future__ import annotations

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

_CRITERIA = ("aic", "bic", "icl", "held-out")


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
    # Warnings about empty, duplicate or collapsed components.
    warnings: tuple[str, ...]
    # The criteria by which it is the best candidate of its policy.
    best: tuple[str, ...]

    def model(self) -> VonMisesFisherMixture:
        """The mixture as a fitted estimator."""
        from .sklearn import VonMisesFisherMixture

        return VonMisesFisherMixture.from_mixture(self.mixture)


@dataclass(frozen=True)
class Selection:
    """Result of `vmfkit.select`: all candidates, and the one that the criterion prefers."""

    criterion: str
    candidates: tuple[Candidate, ...]

    @property
    def recommended(self) -> Candidate:
        """The best candidate of the first policy, by the criterion."""
        return next(candidate for candidate in self.candidates if self.criterion in candidate.best)

    def table(self) -> dict[str, list[Any]]:
        """Columns with one entry per candidate, as `pandas.DataFrame` and `vmfkit.plot.selection` take them."""
        names = ["components", "policy", "background", "free_parameters", "ln_likelihood", "aic", "bic", "icl"]
        columns = {name: [getattr(candidate, name) for candidate in self.candidates] for name in names}
        columns["rows"] = [candidate.total_weight for candidate in self.candidates]
        if all(candidate.held_out is not None for candidate in self.candidates):
            columns["held_out"] = [candidate.held_out for candidate in self.candidates]
        return columns

    def __str__(self) -> str:
        header = ("k", "policy", "background", "ln-likelihood", "AIC", "BIC", "ICL", "held-out ln p")
        lines = [header]
        for c in self.candidates:

            def marked(name: str, value: float | None, digits: int = 1, c: Candidate = c) -> str:
                return "- " if value is None else f"{value:.{digits}f}{'*' if name in c.best else ' '}"

            numbers = [marked(name, getattr(c, name)) for name in ("aic", "bic", "icl")]
            k = f"{c.components}{'!' if c.warnings else ''}"
            held_out = marked("held-out", c.held_out, 4)
            lines.append((k, c.policy, "yes" if c.background else "no", f"{c.ln_likelihood:.1f}", *numbers, held_out))
        widths = [max(len(line[column]) for line in lines) for column in range(len(header))]
        text = "\n".join("  ".join(cell.rjust(width) for cell, width in zip(line, widths)).rstrip() for line in lines)
        best = self.recommended.components
        return f"{text}\n{self.criterion} prefers {best} component{'' if best == 1 else 's'}"


def select(
    X: Any,
    n_components: Iterable[int],
    *,
    policy: str | Iterable[str] = "auto",
    background: bool | Iterable[bool] = False,
    criterion: str = "bic",
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
    criterion : {"aic", "bic", "icl", "held-out"}, default="bic"
        Criterion of the recommendation.
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
        All candidates, and the one that the criterion prefers.

    Examples
    --------
    >>> import numpy as np
    >>> import vmfkit
    >>> groups = [vmfkit.vonmises_fisher(mu, 50).rvs(200, random_state=1) for mu in np.eye(3)]
    >>> found = vmfkit.select(np.concatenate(groups), range(1, 6))
    >>> found.recommended.components
    3
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
        print(f"select: {done} of {fits} fits done, K = {components}", file=sys.stderr, flush=True)

    found = directions.fit(
        _vmfkit.select,
        [int(number) for number in numbers],
        as_weights(sample_weight, length),
        progress if verbose else None,
        policies=policies,
        backgrounds=[bool(choice) for choice in backgrounds],
        holdout=float(holdout),
        restarts=n_init,
        search=search,
        tolerance=tol,
        passes=max_iter,
        seed=int(random_state) if isinstance(random_state, Integral) else as_seed(random_state),
        threads=n_threads,
    )
    selection = Selection(criterion, tuple(_candidate(line) for line in found))
    if not any(criterion in candidate.best for candidate in selection.candidates):
        raise ValueError(f"the criterion {criterion!r} needs held-out rows, found: `holdout={holdout}`")
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
