"""von Mises-Fisher densities and mixtures on the unit hypersphere, for people who work with embeddings.

- `VonMisesFisherMixture`, `SphericalKMeans`: estimators of scikit-learn (`vmfkit.sklearn`)
- `vonmises_fisher`: one distribution, as in scipy
- `vmfkit.special`: the special functions behind them
- `vmfkit.torch`, `vmfkit.jax`: a log-normaliser to differentiate, distributions and modules
- `vmfkit.plot`: pictures
"""

from __future__ import annotations

from typing import Any

from . import special
from ._density import vonmises_fisher
from ._rows import Files
from ._vmfkit import Mixture, __version__, set_threads, threads

__all__ = [
    "Files",
    "Mixture",
    "SphericalKMeans",
    "VonMisesFisherMixture",
    "__version__",
    "set_threads",
    "special",
    "threads",
    "vonmises_fisher",
]


def __getattr__(name: str) -> Any:
    # scikit-learn is imported only by those who use it.
    if name in ("SphericalKMeans", "VonMisesFisherMixture"):
        from . import sklearn

        return getattr(sklearn, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
