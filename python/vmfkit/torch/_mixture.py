"""A mixture of von Mises-Fisher distributions as a module."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.distributions import Categorical, MixtureSameFamily

from .. import _vmfkit
from ._distribution import VonMisesFisher
from ._special import as_dim, log_peak, wide

# Above this concentration kappa mu.x is computed in double precision (MATH.md section 14).
_SINGLE_UP_TO = 4096.0


def _at_least_single(dtype: torch.dtype) -> torch.dtype:
    return dtype if dtype in (torch.float32, torch.float64) else torch.float32


class MixtureVonMisesFisher(nn.Module):
    """A mixture on the unit sphere, with parameters for any torch optimiser.

    The parameters are those of Kim (arXiv:2102.05340): `logits` of the weights, `unnormalized` directions, and `log_concentrations`. A component with
    concentration 0 (a logarithm of minus infinity) is uniform and stays so.

    >>> import torch, vmfkit.torch
    >>> mixture = vmfkit.torch.MixtureVonMisesFisher(16, 3)
    >>> rows = torch.nn.functional.normalize(torch.randn(8, 16), dim=1)
    >>> mixture(rows).shape, mixture.responsibilities(rows).shape
    (torch.Size([8]), torch.Size([8, 3]))
    """

    def __init__(
        self,
        dim: int,
        components: int,
        *,
        concentration: float | None = None,
        dtype: torch.dtype | None = None,
        device: Any = None,
    ) -> None:
        """Creates a module with equal weights, random directions and one `concentration`, by default `dim`. `from_rows` gives a better start."""
        super().__init__()
        dim = as_dim(dim)
        if components < 1:
            raise ValueError(f"the number of components must be at least 1, found: `{components}`")
        start = float(dim if concentration is None else concentration)
        if not 0 <= start < math.inf:
            raise ValueError(f"a concentration must be at least 0 and finite, found: `{start}`")
        options = {"dtype": dtype, "device": device}
        self.logits = nn.Parameter(torch.zeros(components, **options))
        self.unnormalized = nn.Parameter(nn.functional.normalize(torch.randn(components, dim, **options), dim=1))
        self.log_concentrations = nn.Parameter(torch.full((components,), math.log(start) if start else -math.inf, **options))

    @classmethod
    def from_mixture(cls, mixture: Any, *, dtype: torch.dtype | None = None, device: Any = None) -> MixtureVonMisesFisher:
        """Creates a module from a `vmfkit.Mixture` or a fitted estimator."""
        mixture = getattr(mixture, "mixture_", mixture)
        if not isinstance(mixture, _vmfkit.Mixture):
            raise TypeError(f"expected a vmfkit.Mixture or a fitted estimator, found: `{type(mixture).__name__}`")
        new = cls(mixture.dim, mixture.components, dtype=dtype, device=device)
        with torch.no_grad(), np.errstate(divide="ignore"):
            # A weight of 0 has no finite logit; this one underflows to 0.
            new.logits.copy_(torch.from_numpy(np.log(mixture.weights)).clamp_min(-1e3))
            new.unnormalized.copy_(torch.from_numpy(mixture.directions))
            new.log_concentrations.copy_(torch.from_numpy(np.log(mixture.concentrations)))
        return new

    @classmethod
    def from_rows(cls, rows: Tensor, components: int, *, passes: int = 1, normalize: bool = False) -> MixtureVonMisesFisher:
        """Creates a module from k-means++ directions of the rows and `passes` passes of EM.

        Training from random directions often ends with several clusters in one component. `normalize` divides rows by their length for the
        start; the module itself requires rows of length 1. Half-precision rows give a single-precision module.
        """
        if passes < 1:
            raise ValueError(f"the number of passes must be at least 1, found: `{passes}`")
        seed = int(torch.randint(2**31, ()))
        dtype = _at_least_single(rows.dtype)
        table = rows.detach().cpu().to(dtype).contiguous().numpy()
        fit = _vmfkit.fit(table, components, seed=seed, passes=passes, normalize=normalize)
        return cls.from_mixture(fit.mixture, dtype=dtype, device=rows.device)

    def to_mixture(self) -> _vmfkit.Mixture:
        """Converts to a `vmfkit.Mixture`, for saving, further fitting or finding outliers. A uniform last component becomes the background."""
        weights, directions, concentrations = (
            tensor.detach().cpu().double().numpy()
            for tensor in (self.logits.double().softmax(0), self.unnormalized, self.concentrations)
        )
        directions = directions / np.linalg.norm(directions, axis=1, keepdims=True)
        if self.components == 1 or concentrations[-1] > 0:
            return _vmfkit.Mixture(np.ascontiguousarray(weights), directions, np.ascontiguousarray(concentrations))
        others = weights[:-1] / weights[:-1].sum()
        return _vmfkit.Mixture(others, directions[:-1], np.ascontiguousarray(concentrations[:-1]), float(weights[-1]))

    @property
    def dim(self) -> int:
        """The number of coordinates."""
        return self.unnormalized.shape[1]

    @property
    def components(self) -> int:
        """The number of components."""
        return self.logits.shape[0]

    @property
    def weights(self) -> Tensor:
        return self.logits.softmax(0)

    @property
    def directions(self) -> Tensor:
        return nn.functional.normalize(self.unnormalized, dim=1)

    @property
    def concentrations(self) -> Tensor:
        return self.log_concentrations.exp()

    def component_log_prob(self, x: Tensor) -> Tensor:
        """ln p of each row (..., dim) under each component: (..., components)."""
        if x.shape[-1] != self.dim:
            raise ValueError(f"rows must have {self.dim} coordinates, found: `{x.shape[-1]}`")
        # In the higher precision of rows and parameters.
        dtype = _at_least_single(torch.promote_types(x.dtype, self.logits.dtype))
        x, directions, kappa = (tensor.to(dtype) for tensor in (x, self.unnormalized, self.log_concentrations))
        directions, kappa = nn.functional.normalize(directions, dim=1), kappa.exp()
        if dtype == torch.float32 and float(kappa.detach().max()) > _SINGLE_UP_TO:
            x, directions, kappa = wide(x), wide(directions), wide(kappa)
        found = log_peak(self.dim, kappa) + kappa * (x @ directions.T - 1)
        return found.to(self.logits.dtype)

    def _joint(self, x: Tensor) -> Tensor:
        return self.logits.log_softmax(0) + self.component_log_prob(x)

    def forward(self, x: Tensor) -> Tensor:
        """ln p of each row, which must have length 1."""
        return self._joint(x).logsumexp(-1)

    def log_prob(self, x: Tensor) -> Tensor:
        """Same as calling the module."""
        return self(x)

    def responsibilities(self, x: Tensor) -> Tensor:
        """Probability of each component for each row."""
        return self._joint(x).softmax(-1)

    def predict(self, x: Tensor) -> Tensor:
        """The most probable component of each row."""
        return self._joint(x).argmax(-1)

    def distribution(self) -> MixtureSameFamily:
        """The mixture as a torch distribution, for sampling."""
        return MixtureSameFamily(Categorical(logits=self.logits), VonMisesFisher(self.directions, self.concentrations))

    def _repr_html_(self) -> str:
        return self.to_mixture()._repr_html_()

    def extra_repr(self) -> str:
        return f"dim={self.dim}, components={self.components}"
