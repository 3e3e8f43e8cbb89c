"""The extension module. Rows are in the form that `vmfkit._rows` creates: C-contiguous float32 or float64 arrays, (starts, columns, values, dim) for
sparse rows, (names, options) for files."""

import os
from collections.abc import Callable
from types import ModuleType
from typing import Any, TypeAlias, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

_Rows: TypeAlias = Any
_Floats: TypeAlias = NDArray[np.float64]

__all__ = [
    "Fit",
    "MergeTree",
    "Mixture",
    "OnlineFit",
    "ProjectionLaw",
    "ZeroRowError",
    "__version__",
    "available_memory",
    "angle_count",
    "angles_of_unit",
    "angles_to_unit",
    "axis_draws",
    "calibrated",
    "default_settings",
    "deviations",
    "divergences",
    "fit",
    "fit_density",
    "fit_labels",
    "guess_angles",
    "hypothesis",
    "of_concentrations",
    "of_orders",
    "sample_density",
    "select",
    "set_threads",
    "start_rows",
    "threads",
    "typical_rows",
    "write_file",
]

__version__: str

class ZeroRowError(ValueError):
    """A row of zeros, which has no direction."""

def set_threads(threads: int | None = None) -> None:
    """Sets the number of threads from now on; None takes it from the environment."""

def threads() -> int:
    """The number of threads."""

def available_memory() -> int:
    """Free memory in bytes: the least of what the machine, its control groups and the limits of the process leave."""

def write_file(path: str | os.PathLike[str], bytes: bytes) -> None:
    """Writes a file atomically; an existing file is replaced."""

@final
class Mixture:
    """A mixture of von Mises-Fisher densities."""

    def __new__(
        cls, weights: ArrayLike, directions: ArrayLike, concentrations: ArrayLike, background: float | None = None
    ) -> Mixture: ...
    @property
    def dim(self) -> int: ...
    @property
    def components(self) -> int: ...
    @property
    def has_background(self) -> bool: ...
    @property
    def free_parameters(self) -> int: ...
    @property
    def weights(self) -> _Floats: ...
    @property
    def directions(self) -> _Floats: ...
    @property
    def concentrations(self) -> _Floats: ...
    @property
    def description(self) -> dict[str, Any]: ...
    def ln_densities(self, rows: _Rows, normalize: bool = False, threads: int | None = None) -> _Floats: ...
    def component_ln_densities(self, rows: _Rows, normalize: bool = False, threads: int | None = None) -> _Floats: ...
    def responsibilities(
        self, rows: _Rows, normalize: bool = False, threads: int | None = None, calibrated: bool = False
    ) -> _Floats:
        """Exact posterior of each row, or calibrated probabilities."""

    def assign(self, rows: _Rows, normalize: bool = False, threads: int | None = None) -> NDArray[np.uint32]: ...
    def nearest_statistics(
        self, rows: _Rows, normalize: bool = False, weights: ArrayLike | None = None, threads: int | None = None
    ) -> tuple[_Floats, _Floats, _Floats]:
        """Mass, resultant and shortfall of the rows nearest to each direction."""

    def p_values(
        self, rows: _Rows, seed: int = 0, normalize: bool = False, threads: int | None = None, kind: str | None = None
    ) -> _Floats:
        """p-value of each row: conformal, component or law; None is conformal if the mixture is calibrated, otherwise law."""

    def evaluate(
        self, rows: _Rows, normalize: bool = False, weights: ArrayLike | None = None, threads: int | None = None
    ) -> dict[str, float]: ...
    def sample(
        self, count: int, seed: int = 0, first: int = 0, single: bool = False, threads: int | None = None
    ) -> tuple[NDArray[Any], NDArray[np.uint32]]: ...
    def direction_text(self, component: int) -> str:
        """The mean direction of a component as text, elided beyond 8 coordinates."""

    def to_bytes(self) -> bytes: ...
    @staticmethod
    def from_bytes(bytes: bytes) -> Mixture: ...
    def _repr_html_(self) -> str: ...
    def __reduce__(self) -> tuple[Any, tuple[bytes]]: ...

@final
class Fit:
    """Result of a fit."""

    @property
    def mixture(self) -> Mixture: ...
    @property
    def status(self) -> str: ...
    @property
    def converged(self) -> bool: ...
    @property
    def notes(self) -> list[str]: ...
    @property
    def rows(self) -> int: ...
    @property
    def weight(self) -> float: ...
    @property
    def search_passes(self) -> int: ...
    @property
    def objectives(self) -> _Floats: ...
    @property
    def seconds(self) -> _Floats: ...
    @property
    def smallest_weights(self) -> _Floats: ...
    @property
    def largest_concentrations(self) -> _Floats: ...

@final
class OnlineFit:
    """Online EM, batch by batch."""

    def __new__(cls, components: int, **choices: Any) -> OnlineFit: ...
    @staticmethod
    def after(mixture: Mixture, components: int, **choices: Any) -> OnlineFit:
        """Continues after the fit of a mixture."""

    def see(
        self, rows: _Rows, weights: _Floats | None = None, normalize: bool = False, threads: int | None = None
    ) -> None: ...
    @property
    def mixture(self) -> Mixture | None:
        """The mixture, or None before there are enough rows for a start."""

    def calibrated(self, threads: int | None = None) -> Mixture | None:
        """The mixture with its calibration, which is computed now."""

    @property
    def held(self) -> tuple[int, int, int | None]:
        """Number of held rows, number of rows that a start needs, and their dimension."""

    @property
    def drift(self) -> list[str]:
        """Notes of the last call on components that moved or became idle."""

    @property
    def passes(self) -> int: ...
    def to_bytes(self) -> bytes: ...
    @staticmethod
    def from_bytes(bytes: bytes, components: int, **choices: Any) -> OnlineFit: ...

@final
class ProjectionLaw:
    """The distribution of mu.x."""

    def __new__(cls, dim: int, concentration: float) -> ProjectionLaw: ...
    def evaluate(self, name: str, values: _Floats) -> _Floats: ...

@final
class MergeTree:
    """The components of a mixture, merged step by step."""

    def __new__(cls, mixture: Mixture, threads: int | None = None) -> MergeTree: ...
    @property
    def components(self) -> int: ...
    @property
    def has_statistics(self) -> bool:
        """Whether the statistics are those of the fit, not those that the mixture expects."""

    def linkage(self) -> _Floats: ...
    def merges(self) -> dict[str, NDArray[Any]]: ...
    def leaf_order(self) -> NDArray[np.int64]: ...
    def newick(self, names: list[str] | None = None) -> str: ...
    def cut(self, clusters: int) -> NDArray[np.int64]:
        """The cluster of each component, a background last."""

    def mixture(self, clusters: int) -> Mixture: ...
    def assign(
        self, rows: _Rows, clusters: int, normalize: bool = False, threads: int | None = None
    ) -> NDArray[np.uint32]: ...
    def probabilities(
        self, rows: _Rows, clusters: int, normalize: bool = False, threads: int | None = None, calibrated: bool = True
    ) -> _Floats: ...

def fit(
    rows: _Rows,
    components: int,
    weights: _Floats | None = None,
    progress: Callable[[int, int, int, float | None], None] | None = None,
    **choices: Any,
) -> Fit: ...
def select(
    rows: _Rows,
    components: list[int],
    weights: _Floats | None = None,
    progress: Callable[[int, int], None] | None = None,
    *,
    policies: list[str],
    backgrounds: list[bool],
    criterion: str = "auto",
    repeats: int | None = None,
    holdout: float = 0.0,
    restarts: int | None = None,
    search: bool = True,
    tolerance: float | None = None,
    passes: int | None = None,
    seed: int = 0,
    normalize: bool = False,
    threads: int | None = None,
) -> tuple[list[dict[str, Any]], dict[str, Any] | None]:
    """Fits a mixture for each number of components, policy and background; one dictionary per fit, and the recommendation."""

def fit_labels(
    rows: _Rows,
    labels: NDArray[np.uint32],
    names: list[str],
    weights: _Floats | None = None,
    priors: _Floats | None = None,
    policy: str = "shared",
    estimator: str = "exact",
    calibrate: bool = True,
    normalize: bool = False,
    threads: int | None = None,
) -> tuple[Mixture, list[str]]:
    """Fits one component per label; returns the mixture and notes on components."""

def calibrated(
    mixture: Mixture,
    rows: _Rows,
    weights: _Floats | None = None,
    held_out: bool = False,
    table_only: bool = False,
    normalize: bool = False,
    threads: int | None = None,
) -> Mixture:
    """The mixture with the calibration that these rows give, or only with the table of p-values of held-out rows."""

def typical_rows(
    mixture: Mixture, rows: _Rows, count: int, normalize: bool = False, threads: int | None = None
) -> list[tuple[int, float, NDArray[np.int64]]]:
    """Number of rows, mean calibrated probability and most typical rows of each component."""

def angle_count(kind: str) -> int: ...
def angles_to_unit(kind: str, angles: _Floats) -> _Floats: ...
def angles_of_unit(kind: str, rows: _Floats) -> _Floats: ...
def guess_angles(columns: list[str]) -> str | None: ...
def default_settings(method: str, components: int, dim: int, policy: str | None = None) -> dict[str, str]:
    """The default settings of a method and policy, by their names in model files."""

def fit_density(
    rows: _Rows,
    weights: _Floats | None = None,
    normalize: bool = False,
    estimator: str = "exact",
    level: float = 0.95,
    threads: int | None = None,
) -> dict[str, Any]: ...
def deviations(direction: _Floats, rows: _Rows, normalize: bool = False, threads: int | None = None) -> _Floats:
    """1 - mu.x of each row."""

def start_rows(components: int) -> int:
    """Number of rows from which a start is computed."""

def sample_density(
    direction: _Floats, concentration: float, out: _Floats, seed: int = 0, first: int = 0, threads: int | None = None
) -> None: ...
def axis_draws(
    dim: int, concentrations: _Floats, count: int, seed: int = 0, slopes: bool = True
) -> tuple[_Floats, _Floats, _Floats]: ...
def of_concentrations(name: str, dims: NDArray[np.uintp], values: _Floats, out: _Floats) -> None: ...
def of_orders(name: str, orders: _Floats, values: _Floats, out: _Floats) -> None: ...
def divergences(dim: int, from_: _Floats, to: _Floats, out: _Floats) -> None: ...

# Hypothesis tests; each returns a dictionary with `statistic` and `p_value`. `vmfkit.stats` has the typed functions.
hypothesis: ModuleType
