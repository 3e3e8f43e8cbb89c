"""The von Mises-Fisher distribution in PyTorch: the log-normaliser with derivatives, distributions, and mixtures as modules.

    pip install './python[torch]'    # in a clone of the repository
"""

from __future__ import annotations

try:
    import torch as _torch  # noqa: F401
except ImportError as error:
    raise ImportError("vmfkit.torch needs PyTorch\nhint: pip install './python[torch]' in a clone of the repository") from error

from ._distribution import UniformSphere, VonMisesFisher, unit_vector
from ._mixture import MixtureVonMisesFisher
from ._special import entropy, log_normalizer, log_peak, mean_length

__all__ = [
    "MixtureVonMisesFisher",
    "UniformSphere",
    "VonMisesFisher",
    "entropy",
    "log_normalizer",
    "log_peak",
    "mean_length",
    "unit_vector",
]
