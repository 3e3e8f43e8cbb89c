"""scikit-learn estimators: a mixture of von Mises-Fisher densities, spherical k-means, and a classifier."""

from __future__ import annotations

from ._classifier import VonMisesFisherClassifier
from ._kmeans import SphericalKMeans
from ._mixture import VonMisesFisherMixture

__all__ = ["SphericalKMeans", "VonMisesFisherClassifier", "VonMisesFisherMixture"]

# Pickles refer to the public module, whichever file defines the class.
for _class in (SphericalKMeans, VonMisesFisherClassifier, VonMisesFisherMixture):
    _class.__module__ = __name__
