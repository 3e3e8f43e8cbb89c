"""Special functions of tensors. Each derivative is another special function, computed from kappa."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor

from .. import _series, _vmfkit


def as_dim(dim: Any) -> int:
    if int(dim) != dim or dim < 2:
        raise ValueError(f"the dimension must be an integer of at least 2, found: `{dim}`")
    return int(dim)


def as_kappa(kappa: Any) -> Tensor:
    kappa = torch.as_tensor(kappa)
    if kappa.dtype in (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8):
        kappa = kappa.to(torch.get_default_dtype())
    if not kappa.is_floating_point():
        raise TypeError(f"kappa must be real, found: `{kappa.dtype}`")
    return kappa


def wide(tensor: Tensor) -> Tensor:
    """Converts to double precision, if the device supports it."""
    return tensor if tensor.device.type == "mps" else tensor.to(torch.float64)


def _is_readable(tensor: Tensor) -> bool:
    """Whether the extension module can read the tensor."""
    return tensor.device.type == "cpu"


def _flat(tensor: Tensor) -> np.ndarray:
    """Flat float64 array; shares memory if the tensor is contiguous and in double precision."""
    return tensor.detach().to(torch.float64).contiguous().view(-1).numpy()


def _of_rust(name: str, dim: int, kappa: Tensor) -> Tensor:
    if name == "mean_length_curvature":
        slope, beyond, beyond_slope = (
            _of_rust(part, d, kappa)
            for part, d in (("mean_length_slope", dim), ("mean_length", dim + 2), ("mean_length_slope", dim + 2))
        )
        return _series.curvature(torch, dim, kappa.to(torch.float64), slope, beyond, beyond_slope)
    found = torch.empty(kappa.shape, dtype=torch.float64)
    _vmfkit.of_concentrations(name, np.array([dim], np.uintp), _flat(kappa), found.view(-1).numpy())
    return found


# Custom operators are opaque to torch.compile.
@torch.library.custom_op("vmfkit::special", mutates_args=())
def _evaluate(kappa: Tensor, dim: int, name: str) -> Tensor:
    if _is_readable(kappa):
        return _of_rust(name, dim, kappa).to(kappa.dtype)
    return _series.evaluate(torch, name, dim, wide(kappa)).to(kappa.dtype)


@_evaluate.register_fake
def _(kappa: Tensor, dim: int, name: str) -> Tensor:
    return torch.empty(kappa.shape, dtype=kappa.dtype, device=kappa.device)


def _derivative(kappa: Tensor, dim: int, name: str) -> Tensor:
    if name == "log_normalizer":
        return -_apply(kappa, dim, "mean_length")
    if name == "log_peak":
        return _apply(kappa, dim, "mean_length_complement")
    if name == "mean_length":
        return _apply(kappa, dim, "mean_length_slope")
    if name == "mean_length_complement":
        return -_apply(kappa, dim, "mean_length_slope")
    if name == "mean_length_slope":
        return _apply(kappa, dim, "mean_length_curvature")
    if name == "entropy":
        return -kappa * _apply(kappa, dim, "mean_length_slope")
    if name == "divergence_from_uniform":
        return kappa * _apply(kappa, dim, "mean_length_slope")
    raise NotImplementedError("the log-normaliser has derivatives up to the third order, requested: `the fourth`")


class _Special(torch.autograd.Function):
    """An elementwise function of kappa, whose derivative is another such function."""

    @staticmethod
    def forward(kappa: Tensor, dim: int, name: str) -> Tensor:
        return _evaluate(kappa, dim, name)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        kappa, ctx.dim, ctx.name = inputs
        ctx.save_for_backward(kappa)
        ctx.save_for_forward(kappa)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        (kappa,) = ctx.saved_tensors
        return gradient * _derivative(kappa, ctx.dim, ctx.name), None, None

    @staticmethod
    def vmap(info: Any, in_dims: tuple[Any, ...], kappa: Tensor, dim: int, name: str) -> tuple[Tensor, Any]:
        # Elementwise, so a batch needs no special treatment.
        return _apply(kappa, dim, name), in_dims[0]


class _SpecialForward(_Special):
    """With a forward-mode derivative, which torch.compile does not support."""

    @staticmethod
    def jvp(ctx: Any, tangent: Tensor, *_: Any) -> Tensor:
        (kappa,) = ctx.saved_tensors
        return tangent * _derivative(kappa, ctx.dim, ctx.name)


def _apply(kappa: Tensor, dim: int, name: str) -> Tensor:
    return (_Special if torch.compiler.is_compiling() else _SpecialForward).apply(kappa, dim, name)


def special(name: str, dim: Any, kappa: Any) -> Tensor:
    return _apply(as_kappa(kappa), as_dim(dim), name)


def log_normalizer(dim: int, kappa: Any) -> Tensor:
    """ln C_d(kappa), where the density is C_d(kappa) exp(kappa mu.x); differentiable three times.

    Takes a tensor of any shape and keeps its dtype and device. It is computed in double precision if the device supports it. The derivative
    is -A_d(kappa), computed from kappa. A negative kappa gives nan.
    """
    return special("log_normalizer", dim, kappa)


def log_peak(dim: int, kappa: Any) -> Tensor:
    """kappa + ln C_d(kappa), the log density at the mode; use it for large kappa."""
    return special("log_peak", dim, kappa)


def mean_length(dim: int, kappa: Any) -> Tensor:
    """A_d(kappa), the mean of mu.x."""
    return special("mean_length", dim, kappa)


def entropy(dim: int, kappa: Any) -> Tensor:
    """Differential entropy."""
    return special("entropy", dim, kappa)


@torch.library.custom_op("vmfkit::divergence", mutates_args=())
def _evaluate_divergence(kappa: Tensor, other: Tensor, dim: int) -> Tensor:
    if _is_readable(kappa):
        found = torch.empty(kappa.shape, dtype=torch.float64)
        _vmfkit.divergences(dim, _flat(kappa), _flat(other), found.view(-1).numpy())
        return found.to(kappa.dtype)
    return divergence_by_series(dim, wide(kappa), wide(other)).to(kappa.dtype)


@_evaluate_divergence.register_fake
def _(kappa: Tensor, other: Tensor, dim: int) -> Tensor:
    return torch.empty(kappa.shape, dtype=kappa.dtype, device=kappa.device)


def divergence_by_series(dim: int, kappa: Tensor, other: Tensor) -> Tensor:
    """KL as a difference of logarithms, accurate to their rounding error; clamped at 0."""
    fall = (kappa - other) * _series.ratio(torch, dim, kappa).complement
    return (_series.log_peak(torch, dim, kappa) - _series.log_peak(torch, dim, other) - fall).clamp_min(0.0)


class _Divergence(torch.autograd.Function):
    """KL divergence of two distributions with the same mean direction."""

    @staticmethod
    def forward(kappa: Tensor, other: Tensor, dim: int) -> Tensor:
        return _evaluate_divergence(kappa, other, dim)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        kappa, other, ctx.dim = inputs
        ctx.save_for_backward(kappa, other)
        ctx.save_for_forward(kappa, other)

    @staticmethod
    def slopes(ctx: Any) -> tuple[Tensor, Tensor]:
        """Derivatives in both concentrations."""
        kappa, other = ctx.saved_tensors
        complement, other_complement = (special("mean_length_complement", ctx.dim, k) for k in (kappa, other))
        return (kappa - other) * special("mean_length_slope", ctx.dim, kappa), complement - other_complement

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor, None]:
        slope, other_slope = _Divergence.slopes(ctx)
        return gradient * slope, gradient * other_slope, None

    @staticmethod
    def vmap(info: Any, in_dims: tuple[Any, ...], kappa: Tensor, other: Tensor, dim: int) -> tuple[Tensor, int]:
        kappa, other = (
            k.expand(info.batch_size, *k.shape) if at is None else k.movedim(at, 0) for k, at in zip((kappa, other), in_dims)
        )
        return _apply_divergence(kappa, other, dim), 0


class _DivergenceForward(_Divergence):
    """With a forward-mode derivative, which torch.compile does not support."""

    @staticmethod
    def jvp(ctx: Any, tangent: Tensor | None, other_tangent: Tensor | None, _: Any) -> Tensor:
        pairs = zip((tangent, other_tangent), _Divergence.slopes(ctx))
        return sum(tangent * slope for tangent, slope in pairs if tangent is not None)


def _apply_divergence(kappa: Tensor, other: Tensor, dim: int) -> Tensor:
    return (_Divergence if torch.compiler.is_compiling() else _DivergenceForward).apply(kappa, other, dim)


def divergence(dim: int, kappa: Tensor, other: Tensor) -> Tensor:
    """KL divergence of two distributions with the same mean direction."""
    kappa, other = torch.broadcast_tensors(kappa, other)
    return _apply_divergence(kappa, other.to(kappa.dtype), dim)


def log_uniform(dim: int) -> float:
    """The log density of the uniform distribution."""
    return math.lgamma(0.5 * dim) - math.log(2.0) - 0.5 * dim * math.log(math.pi)
