"""Estimators of scikit-learn: a mixture of von Mises-Fisher densities, spherical k-means, and a classifier."""

from __future__ import annotations

from ._classifier import VonMisesFisherClassifier
from ._kmeans import SphericalKMeans
from ._mixture import VonMisesFisherMixture

__all__ = ["SphericalKMeans", "VonMisesFisherClassifier", "VonMisesFisherMixture"]

# Pickles find a class where people import it, in whichever file it is.
for _class in (SphericalKMeans, VonMisesFisherClassifier, VonMisesFisherMixture):
    _class.__module__ = __name__
