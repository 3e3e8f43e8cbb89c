"""Estimators of scikit-learn: a mixture of von Mises-Fisher densities, and spherical k-means."""

from __future__ import annotations

from ._kmeans import SphericalKMeans
from ._mixture import VonMisesFisherMixture

__all__ = ["SphericalKMeans", "VonMisesFisherMixture"]

# Pickles find a class where people import it, in whichever file it is.
for _class in (SphericalKMeans, VonMisesFisherMixture):
    _class.__module__ = __name__
