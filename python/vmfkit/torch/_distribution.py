"""Distributions on the unit sphere with the interface of `torch.distributions`."""

from __future__ import annotations

from typing import Any

import torch
from torch import Size, Tensor
from torch.autograd import forward_ad
from torch.distributions import Distribution, constraints, register_kl
from torch.distributions.utils import lazy_property

from .. import _vmfkit
from ._special import as_dim, as_kappa, divergence, log_uniform, special

# Tolerance of the length of a unit vector.
_UNIT_TOLERANCE = 1e-4


class _UnitVector(constraints.Constraint):
    """Vectors of length 1."""

    event_dim = 1

    def check(self, value: Tensor) -> Tensor:
        return (torch.linalg.vector_norm(value, dim=-1) - 1).abs() <= _UNIT_TOLERANCE


unit_vector = _UnitVector()


class _Once(torch.autograd.Function):
    """A derivative in kappa that cannot be differentiated again."""

    @staticmethod
    def forward(slope: Tensor, kappa: Tensor) -> Tensor:
        return slope.clone()

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        pass

    @staticmethod
    def backward(ctx: Any, *_: Any) -> Any:
        raise NotImplementedError("draws can be differentiated once in kappa, requested: `the second derivative`")

    jvp = backward


class _AxisDraws(torch.autograd.Function):
    """Draws around the first axis, of shape (draws, concentrations).

    Returns the rows, the deviations 1 - t, the same deviations as constants, and the relative derivative of the tangent part. Only the first
    deviations are functions of kappa; `_about_axis` makes the rows depend on them.
    """

    @staticmethod
    def forward(kappa: Tensor, dim: int, count: int, seed: int) -> tuple[Tensor, ...]:
        rows, s, slope = _draws(kappa, dim, count, seed, slopes=True)
        # Logarithmic derivative of sqrt(s (2 - s)), 0 at the ends.
        across = s * (2 - s)
        stretch = torch.where(across > 0, (1 - s) / across.clamp_min(torch.finfo(s.dtype).tiny), 0.0)
        s, slope, stretch = (column.to(kappa.dtype).to(kappa.device) for column in (s, slope, stretch))
        return rows, s, s.clone(), stretch, slope

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        rows, _, fixed, stretch, slope = output
        ctx.mark_non_differentiable(rows, fixed, stretch, slope)
        ctx.save_for_backward(slope, inputs[0])
        ctx.save_for_forward(slope, inputs[0])

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None, None]:
        return (gradients[1] * _Once.apply(*ctx.saved_tensors)).sum(0), None, None, None

    @staticmethod
    def jvp(ctx: Any, tangent: Tensor, *_: Any) -> tuple[None, Tensor, None, None, None]:
        return None, tangent * _Once.apply(*ctx.saved_tensors), None, None, None


def _draws(kappa: Tensor, dim: int, count: int, seed: int, slopes: bool) -> tuple[Tensor, ...]:
    """Rows in the dtype and on the device of kappa, then deviations and, with `slopes`, their derivatives, in double precision."""
    flat = kappa.detach().to("cpu", torch.float64).reshape(-1).contiguous()
    rows, *columns = (table for table in _vmfkit.axis_draws(dim, flat.numpy(), count, seed, slopes) if table is not None)
    # The tables have the concentrations first.
    shape = (count, *kappa.shape)
    placed = torch.from_numpy(rows).to(kappa.dtype).to(kappa.device).transpose(0, 1).reshape(*shape, dim)
    return placed, *(torch.from_numpy(column).view(flat.numel(), count).T.reshape(shape) for column in columns)


def _is_differentiated(kappa: Tensor) -> bool:
    """Whether a derivative may be needed, in reverse or forward mode or by torch.func."""
    if torch._C._functorch.is_functorch_wrapped_tensor(kappa) or forward_ad.unpack_dual(kappa).tangent is not None:
        return True
    return kappa.requires_grad and torch.is_grad_enabled()


def _seed() -> int:
    """A seed from torch's generator, controlled by `torch.manual_seed`."""
    return int(torch.randint(2**63 - 1, ()))


def _rotate(rows: Tensor, direction: Tensor) -> Tensor:
    """Maps the first axis to `direction` by the reflection of MATH.md (11.4), differentiable in both.

    The choice between two reflections depends on a sign; both are smooth where it changes.
    """
    first = direction[..., :1]
    sign = torch.where(first.detach() >= 0, 1.0, -1.0).to(direction.dtype)
    axis = torch.cat([1 + sign * first, sign * direction[..., 1:]], -1)
    along = (axis * rows).sum(-1, keepdim=True) / (1 + sign * first)
    return sign * (axis * along - rows)


class VonMisesFisher(Distribution):
    """The von Mises-Fisher distribution: density C_d(kappa) exp(kappa mu.x) on the unit sphere of R^d.

    `loc` (..., d) holds the mean directions mu, of length 1; `concentration` (...) the kappas, at least 0. They broadcast.

    >>> import torch, vmfkit.torch
    >>> density = vmfkit.torch.VonMisesFisher(torch.tensor([1.0, 0.0, 0.0]), torch.tensor(10.0))
    >>> density.rsample((4,)).shape
    torch.Size([4, 3])
    """

    arg_constraints = {"loc": unit_vector, "concentration": constraints.nonnegative}
    support = unit_vector
    has_rsample = True

    def __init__(self, loc: Tensor, concentration: Any, validate_args: bool | None = None) -> None:
        if loc.dim() == 0:
            raise ValueError(f"loc must have at least one axis, the coordinates, found shape: `{tuple(loc.shape)}`")
        dim = as_dim(loc.shape[-1])
        if not isinstance(concentration, Tensor):
            concentration = torch.as_tensor(concentration, dtype=loc.dtype, device=loc.device)
        concentration = as_kappa(concentration)
        dtype = torch.promote_types(loc.dtype, concentration.dtype) if concentration.dim() else loc.dtype
        batch = torch.broadcast_shapes(loc.shape[:-1], concentration.shape)
        self.loc = loc.to(dtype).expand(*batch, dim)
        self.concentration = concentration.to(dtype).expand(batch)
        super().__init__(batch, Size([dim]), validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> VonMisesFisher:
        new = self._get_checked_instance(VonMisesFisher, _instance)
        batch_shape = Size(batch_shape)
        new.loc = self.loc.expand(batch_shape + self.event_shape)
        new.concentration = self.concentration.expand(batch_shape)
        super(VonMisesFisher, new).__init__(batch_shape, self.event_shape, validate_args=False)
        new._validate_args = self._validate_args
        return new

    @property
    def dim(self) -> int:
        """The number of coordinates d."""
        return self.event_shape[0]

    @lazy_property
    def mean_length(self) -> Tensor:
        """A_d(kappa), the length of the mean."""
        return special("mean_length", self.dim, self.concentration)

    @property
    def mean(self) -> Tensor:
        """A_d(kappa) mu, a vector inside the sphere."""
        return self.mean_length.unsqueeze(-1) * self.loc

    @property
    def mode(self) -> Tensor:
        return self.loc

    def _variances(self) -> tuple[Tensor, Tensor]:
        """Along mu, A', and across it, A/kappa = 1/(d + kappa A_{d+2})."""
        along = special("mean_length_slope", self.dim, self.concentration)
        across = 1 / (self.dim + self.concentration * special("mean_length", self.dim + 2, self.concentration))
        return along.unsqueeze(-1), across.unsqueeze(-1)

    @property
    def variance(self) -> Tensor:
        """The variance of each coordinate."""
        along, across = self._variances()
        square = self.loc**2
        return along * square + across * (1 - square)

    @property
    def covariance_matrix(self) -> Tensor:
        along, across = (variance.unsqueeze(-1) for variance in self._variances())
        outer = self.loc.unsqueeze(-1) * self.loc.unsqueeze(-2)
        identity = torch.eye(self.dim, dtype=self.loc.dtype, device=self.loc.device)
        return across * identity + (along - across) * outer

    def log_prob(self, value: Tensor) -> Tensor:
        """Log density at `value`, computed from |x - mu|^2, which is accurate at any concentration."""
        if self._validate_args:
            self._validate_sample(value)
        difference = value - self.loc
        deviation = 0.5 * (difference * difference).sum(-1)
        return special("log_peak", self.dim, self.concentration) - self.concentration * deviation

    def entropy(self) -> Tensor:
        """The differential entropy."""
        return special("entropy", self.dim, self.concentration)

    def rsample(self, sample_shape: Any = Size()) -> Tensor:
        """Exact draws with unbiased gradients in `loc` and `concentration`, in every dimension.

        The gradient in the concentration is the derivative of a quantile (MATH.md (13.2)), and the gradient in the mean direction is that of a
        rotation. Draws are generated on the CPU, with a seed from torch's generator, and copied to the device of the parameters.
        """
        sample_shape = Size(sample_shape)
        return _rotate(self._about_axis(sample_shape.numel()), self.loc).reshape(self._extended_shape(sample_shape))

    @torch.compiler.disable
    def _about_axis(self, count: int) -> Tensor:
        """Draws around the first axis as functions of the concentrations: t = 1 - s changes, the tangent direction does not."""
        kappa, seed = self.concentration, _seed()
        if not _is_differentiated(kappa):
            return _draws(kappa, self.dim, count, seed, slopes=False)[0]
        axis, moving, fixed, stretch, _ = _AxisDraws.apply(kappa, self.dim, count, seed)
        move = (moving - fixed).unsqueeze(-1)
        return torch.cat([axis[..., :1] - move, axis[..., 1:] * (1 + stretch.unsqueeze(-1) * move)], -1)


class UniformSphere(Distribution):
    """The uniform distribution on the unit sphere of R^dim, which is the von Mises-Fisher distribution of concentration 0."""

    arg_constraints: dict[str, constraints.Constraint] = {}
    support = unit_vector
    has_rsample = True

    def __init__(
        self,
        dim: int,
        batch_shape: Any = Size(),
        *,
        dtype: torch.dtype | None = None,
        device: Any = None,
        validate_args: bool | None = None,
    ) -> None:
        self.dim = as_dim(dim)
        # Holds dtype and device.
        self._like = torch.empty((), dtype=dtype or torch.get_default_dtype(), device=device)
        super().__init__(Size(batch_shape), Size([self.dim]), validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> UniformSphere:
        new = self._get_checked_instance(UniformSphere, _instance)
        new.dim, new._like = self.dim, self._like
        super(UniformSphere, new).__init__(Size(batch_shape), self.event_shape, validate_args=False)
        new._validate_args = self._validate_args
        return new

    def _full(self, shape: Any, value: float) -> Tensor:
        return torch.full(tuple(shape), value, dtype=self._like.dtype, device=self._like.device)

    @property
    def mean(self) -> Tensor:
        return self._full(self._extended_shape(), 0.0)

    @property
    def variance(self) -> Tensor:
        return self._full(self._extended_shape(), 1 / self.dim)

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        return self._full(torch.broadcast_shapes(self.batch_shape, value.shape[:-1]), log_uniform(self.dim))

    def entropy(self) -> Tensor:
        return self._full(self.batch_shape, -log_uniform(self.dim))

    def rsample(self, sample_shape: Any = Size()) -> Tensor:
        shape = self._extended_shape(Size(sample_shape))
        normals = torch.randn(shape, dtype=self._like.dtype, device=self._like.device)
        return torch.nn.functional.normalize(normals, dim=-1)


def _same_dim(p: Any, q: Any) -> None:
    if p.dim != q.dim:
        raise ValueError(f"expected dimension {p.dim}, found: `{q.dim}`")


@register_kl(VonMisesFisher, VonMisesFisher)
def _kl_two(p: VonMisesFisher, q: VonMisesFisher) -> Tensor:
    """MATH.md (7.5)."""
    _same_dim(p, q)
    difference = p.loc - q.loc
    angle = 0.5 * (difference * difference).sum(-1)
    return divergence(p.dim, p.concentration, q.concentration) + q.concentration * p.mean_length * angle


@register_kl(VonMisesFisher, UniformSphere)
def _kl_from_uniform(p: VonMisesFisher, q: UniformSphere) -> Tensor:
    _same_dim(p, q)
    batch = torch.broadcast_shapes(p.batch_shape, q.batch_shape)
    return special("divergence_from_uniform", p.dim, p.concentration).expand(batch)


@register_kl(UniformSphere, VonMisesFisher)
def _kl_of_uniform(p: UniformSphere, q: VonMisesFisher) -> Tensor:
    _same_dim(p, q)
    batch = torch.broadcast_shapes(p.batch_shape, q.batch_shape)
    return divergence(p.dim, torch.zeros_like(q.concentration), q.concentration).expand(batch)


@register_kl(UniformSphere, UniformSphere)
def _kl_uniform(p: UniformSphere, q: UniformSphere) -> Tensor:
    _same_dim(p, q)
    return p._full(torch.broadcast_shapes(p.batch_shape, q.batch_shape), 0.0)
