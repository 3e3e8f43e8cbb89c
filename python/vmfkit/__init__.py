"""Densities and mixtures of von Mises-Fisher distributions on the unit hypersphere, for embeddings and directional data.

- `VonMisesFisherMixture`, `SphericalKMeans`, `VonMisesFisherClassifier`: scikit-learn estimators (`vmfkit.sklearn`)
- `select`: the number of components, by AIC, BIC, ICL or held-out likelihood
- `MergeTree`: the components of one fit merged step by step, for every smaller number of clusters
- `Calibration`: how far probabilities can be trusted (`model.calibration_`)
- `Files`: files of rows, with options for reading them
- `vonmises_fisher`: one distribution, with the interface of scipy
- `vmfkit.angles`: conversion between angles, such as latitude and longitude, and unit vectors
- `vmfkit.special`: special functions
- `vmfkit.stats`: tests of mean directions, concentrations, uniformity and symmetry
- `vmfkit.torch`, `vmfkit.jax`: the log-normaliser with derivatives, distributions and modules
- `vmfkit.plot`: plots of densities, mixtures and fits
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from . import angles, special, stats
from ._calibration import Calibration, Reliability
from ._density import vonmises_fisher
from ._rows import Files
from ._select import Selection, select
from ._tree import MergeTree
from ._vmfkit import Mixture, ZeroRowError, __version__, set_threads, threads

if TYPE_CHECKING:
    from . import jax, plot, sklearn, torch  # noqa: F401
    from .sklearn import SphericalKMeans, VonMisesFisherClassifier, VonMisesFisherMixture

__all__ = [
    "Calibration",
    "Files",
    "MergeTree",
    "Mixture",
    "Reliability",
    "Selection",
    "SphericalKMeans",
    "VonMisesFisherClassifier",
    "VonMisesFisherMixture",
    "ZeroRowError",
    "__version__",
    "angles",
    "select",
    "set_threads",
    "special",
    "stats",
    "threads",
    "vonmises_fisher",
]

# Imported on first use, because of their dependencies.
_MODULES = ("jax", "plot", "sklearn", "torch")

if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        if name in _MODULES:
            try:
                return importlib.import_module(f".{name}", __name__)
            except ImportError as error:
                # hasattr expects an AttributeError.
                raise AttributeError(str(error)) from error
        if name in ("SphericalKMeans", "VonMisesFisherClassifier", "VonMisesFisherMixture"):
            return getattr(importlib.import_module(".sklearn", __name__), name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_MODULES})
