"""The components of one fit merged step by step."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from numbers import Integral
from typing import Any

import numpy as np

from . import _vmfkit
from ._directions import Directions
from ._rows import as_rows


def default_sizes(components: int) -> list[int]:
    """Numbers of clusters of nested layers: each has a quarter of the one before, as long as that is at least 3."""
    sizes = [components]
    while sizes[-1] >= 12:
        sizes.append(sizes[-1] // 4)
    return sizes


def _checked(clusters: Any) -> int:
    if not isinstance(clusters, Integral) or clusters < 1:
        raise ValueError(f"the number of clusters must be a whole number of at least 1, found: `{clusters}`")
    return int(clusters)


class MergeTree:
    """The components of a mixture, merged step by step from the statistics of its fit.

    Each step joins the two clusters whose merging loses the least log-likelihood of rows in their clusters (spherical Ward linkage). One fit with
    many components thus serves every smaller number of clusters, without another pass over the rows. The cluster of a row is that of its most
    probable component, so clusters of different numbers nest. A background is never merged.

    Parameters
    ----------
    model : fitted estimator or vmfkit.Mixture
        `estimator.tree()` makes the same tree.
    n_threads : int or None, default=None
        Number of threads; None means `vmfkit.threads()`.

    Attributes
    ----------
    linkage : array of shape (n_components - 1, 4)
        The linkage matrix of scipy.cluster.hierarchy: both nodes, height and number of components of each merge. A height is the largest cost so
        far, in nats.
    n_components : int
        Number of components, without a background.
    leaf_order : array of shape (n_components,)
        The components in an order in which no branches cross.

    Examples
    --------
    >>> import numpy as np
    >>> from vmfkit import VonMisesFisherMixture, vonmises_fisher
    >>> means = [[5, 0, 1], [5, 1, 1], [-5, 0, 1], [-5, 1, 1]]
    >>> groups = [vonmises_fisher(np.divide(mu, np.linalg.norm(mu)), 500).rvs(200, random_state=1) for mu in means]
    >>> model = VonMisesFisherMixture(n_components=4, random_state=0).fit(np.concatenate(groups))
    >>> tree = model.tree()
    >>> np.unique(tree.predict(np.concatenate(groups), 2)[:400]).size
    1
    >>> tree.linkage.shape
    (3, 4)
    """

    def __init__(self, model: Any, *, n_threads: int | None = None) -> None:
        mixture = getattr(model, "mixture_", model)
        if not isinstance(mixture, _vmfkit.Mixture):
            raise ValueError(f"a merge tree needs a fitted estimator or a Mixture, found: `{model!r}`")
        self._model = None if mixture is model else model
        self._mixture = mixture
        self._threads = getattr(model, "n_threads", None) if n_threads is None else n_threads
        self._tree = _vmfkit.MergeTree(mixture, self._threads)
        self.linkage = self._tree.linkage()
        self.leaf_order = self._tree.leaf_order()

    @property
    def n_components(self) -> int:
        return self._tree.components

    def __repr__(self) -> str:
        return f"MergeTree(n_components={self.n_components})"

    def __reduce__(self) -> tuple[Any, tuple[Any]]:
        return MergeTree, (self._model if self._model is not None else self._mixture,)

    def newick(self, labels: Sequence[Any] | None = None) -> str:
        """Returns the tree in Newick format.

        Parameters
        ----------
        labels : sequence, optional
            A name for each component; by default its number. Names are quoted where the format needs it.

        Returns
        -------
        text : str
        """
        return self._tree.newick(None if labels is None else [str(label) for label in labels])

    def table(self) -> dict[str, np.ndarray]:
        """Returns all merges as columns, for example for `pandas.DataFrame(tree.table())`.

        Returns
        -------
        table : dict of arrays
            "step", "first" and "second" (nodes as in scipy: components, then merges), "cost" (log-likelihood lost, in nats), "height" (the largest
            cost so far), "clusters" (left after the merge), "components" and "mass" (of the merged cluster).
        """
        merges = self._tree.merges()
        steps = np.arange(1, self.n_components)
        first, second = {"step": steps}, {"clusters": self.n_components - steps}
        names = ("first", "second", "cost", "height")
        return {**first, **{name: merges[name] for name in names}, **second, **{name: merges[name] for name in ("components", "mass")}}

    def cut(self, n_clusters: int) -> np.ndarray:
        """Returns the cluster of each component when this number of clusters is left.

        Parameters
        ----------
        n_clusters : int

        Returns
        -------
        clusters : array of shape (n_components,)
            Clusters are numbered in the order of their first components.
        """
        return self._tree.cut(_checked(n_clusters))[: self.n_components]

    def layers(self, sizes: Iterable[int] | None = None, X: Any = None) -> list[np.ndarray]:
        """Returns labels of rows in nested layers, finest first.

        Parameters
        ----------
        sizes : iterable of int, optional
            Numbers of clusters. By default the number of components, then a quarter of the layer before, at least 3.
        X : array, sparse matrix, column of lists, or files, optional
            The rows; by default those of the fit.

        Returns
        -------
        layers : list of arrays of shape (n_samples,)
            -1 for the background and for rows of zeros.
        """
        labels = self._labels_of_fit() if X is None else self.predict(X, self.n_components)
        return self._layers_of(labels, default_sizes(self.n_components) if sizes is None else sizes)

    def _labels_of_fit(self) -> np.ndarray:
        if not hasattr(self._model, "labels_"):
            raise ValueError("the rows of the fit are not known: pass X")
        return self._model.labels_

    def _layers_of(self, labels: np.ndarray, sizes: Iterable[int]) -> list[np.ndarray]:
        cuts = [self.cut(size) for size in sorted((_checked(size) for size in sizes), reverse=True)]
        return [np.append(cut, -1)[labels] for cut in cuts]

    def _directions(self, X: Any) -> Directions:
        if hasattr(self._model, "_directions"):
            return self._model._directions(X)
        return Directions(as_rows(X, normalize=True), True)

    def predict(self, X: Any, n_clusters: int) -> np.ndarray:
        """Computes the cluster of each row, that of its most probable component.

        Parameters
        ----------
        X : array, sparse matrix, column of lists, or files
        n_clusters : int

        Returns
        -------
        labels : array of shape (n_samples,)
            -1 for the background and for rows of zeros.
        """
        clusters, directions = _checked(n_clusters), self._directions(X)
        labels = directions.ask(self._tree.assign, clusters, threads=self._threads).astype(np.int64)
        labels[labels == clusters] = -1
        if directions.zeros is not None:
            labels[directions.zeros] = -1
        return labels

    def predict_proba(self, X: Any, n_clusters: int, *, calibrated: bool = True) -> np.ndarray:
        """Computes the probability of each cluster, the sum of those of its components.

        Parameters
        ----------
        X : array, sparse matrix, column of lists, or files
        n_clusters : int
        calibrated : bool, default=True
            If False, the exact posterior of the model.

        Returns
        -------
        probabilities : array of shape (n_samples, n_clusters)
            With a column for the background at the end, if there is one; 0 for rows of zeros.
        """
        directions = self._directions(X)
        options = {"threads": self._threads, "calibrated": calibrated}
        found = directions.ask(self._tree.probabilities, _checked(n_clusters), **options)
        if directions.zeros is not None:
            found[directions.zeros] = 0
        return found

    def mixture(self, n_clusters: int) -> _vmfkit.Mixture:
        """Returns the mixture with one component for each cluster, made from the merged statistics.

        It is a new model: its labels differ from those of the tree, and it is not calibrated. To fit it to rows, start a fit with it:
        `VonMisesFisherMixture(n_clusters, init=tree.mixture(n_clusters)).fit(X)`.

        Parameters
        ----------
        n_clusters : int

        Returns
        -------
        mixture : vmfkit.Mixture
        """
        return self._tree.mixture(_checked(n_clusters))
