"""Plots of densities, mixtures and fits with matplotlib.

- `density`, `sphere`, `circle`: a density and rows in 3 or 2 dimensions
- `map`: a mixture of any dimension in the plane, arranged by the angles between its components
- `components`: weight and concentration of each component
- `dendrogram`: the components merged step by step
- `trace`: the objective of each pass
- `selection`: criteria over the number of components

All functions draw on `ax`, or on a new figure, and return the Axes. A model is a fitted estimator, a `vmfkit.Mixture` or a
`vonmises_fisher(mu, kappa)`. Rows may be anything that a fit accepts, including files. A component has the same colour in every plot.
"""

from __future__ import annotations

try:
    import matplotlib as _matplotlib  # noqa: F401
except ImportError as error:
    raise ImportError("vmfkit.plot needs matplotlib\nhint: pip install './python[plot]' in a clone of the repository") from error

from ._dendrogram import dendrogram
from ._fits import components, selection, trace
from ._map import map
from ._sphere import circle, density, sphere

__all__ = ["circle", "components", "dendrogram", "density", "map", "selection", "sphere", "trace"]
