"""A mixture of any dimension in the plane."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.collections import EllipseCollection

from .. import _vmfkit
from .._directions import Directions
from .._rows import Rows, as_rows
from ._layout import colours_of, distances_between, layout
from ._model import checked_rows, cosines_of, count_of, half_angles, mixture_of, names_of
from ._style import axes_of, halo, in_degrees

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Maximum number of rows on a map, taken at equal steps.
_MOST_ROWS = 20_000


def map(
    model: Any,
    rows: Any = None,
    labels: Sequence[Any] | None = None,
    ax: Axes | None = None,
    *,
    size: float = 5,
    most_rows: int = _MOST_ROWS,
) -> Axes:
    """Draws a mixture of any dimension in the plane, coloured by component.

    Distances between components follow the angles between their mean directions. The radius of a component's ring is proportional to the
    angle that contains half of its mass. Rings have a scale of their own: angles are wide in many dimensions, and rings to scale would cover
    the map. Without rows, the area of the disc in the centre is the weight.

    Rows are spread around their component like draws from a normal density, half of them within the ring. Rows closest to the mean direction
    are innermost, and each row is drawn in the direction of the components it is close to. A row that belongs to several components lies
    between them, weighted by its responsibilities.

    Parameters
    ----------
    model : fitted estimator, Mixture or frozen density
    rows : rows, optional
    labels : sequence, optional
        Names of the components.
    ax : Axes, optional
    size : float, default=5
        Size of the points.
    most_rows : int, default=20000
        Maximum number of rows, which are taken at equal steps.

    Returns
    -------
    ax : Axes
    """
    mixture = mixture_of(model)
    count = count_of(mixture)
    names = names_of(labels, count)
    ax = axes_of(ax, (7.6, 6.4))
    positions = layout(mixture)
    colours = colours_of(mixture, positions)
    radii = _radii(mixture, positions)
    edges = colours[:count]
    if rows is not None:
        found = Directions(_thinned(checked_rows(rows, mixture.dim).rows, most_rows), normalize=True)
        where, component = _row_positions(mixture, found, positions, radii, most_rows)
        ax.scatter(where[:, 0], where[:, 1], s=size, c=colours[component], linewidths=0, alpha=0.55, zorder=2, rasterized=True)
    units: dict[str, Any] = {"units": "xy", "offsets": positions, "offset_transform": ax.transData}
    flat = np.zeros(count)
    ax.add_collection(
        EllipseCollection(2 * radii, 2 * radii, flat, facecolors="none", edgecolors=edges, linewidths=1.3, zorder=3, **units)
    )
    if rows is None:
        discs = 1.2 * radii.max() * np.sqrt(mixture.weights[:count] / mixture.weights[:count].max())
        ax.add_collection(EllipseCollection(discs, discs, flat, facecolors=edges, linewidths=0, alpha=0.75, zorder=3.5, **units))
    # More than a hundred numbers would cover the map; names are always written.
    written = names if labels is not None or count <= 100 else []
    font = min(8.0, max(4.5, 8 * np.sqrt(40 / count)))
    for name, (x, y) in zip(written, positions):
        ax.text(x, y, name, ha="center", va="center", fontsize=font, color="black", path_effects=halo(), zorder=6)
    reach = positions if rows is None else np.concatenate([positions, where])
    margin = 1.15 * radii.max()
    ax.set_xlim(min(reach[:, 0].min(), (positions[:, 0]).min() - margin), max(reach[:, 0].max(), positions[:, 0].max() + margin))
    ax.set_ylim(min(reach[:, 1].min(), (positions[:, 1]).min() - margin), max(reach[:, 1].max(), positions[:, 1].max() + margin))
    angles = np.degrees(half_angles(mixture))
    span = " to ".join(dict.fromkeys(in_degrees(angle) for angle in (angles.min(), angles.max())))
    note = f"ring: half the mass of a component, within {span} of its mean direction" + ("; disc: weight" if rows is None else "")
    ax.text(0.5, -0.01, note, transform=ax.transAxes, ha="center", va="top", fontsize=8, color="#777777")
    ax.set_aspect("equal")
    ax.set_axis_off()
    return ax


def _radii(mixture: _vmfkit.Mixture, positions: np.ndarray) -> np.ndarray:
    """Radii of the rings: the angles that contain half the mass, scaled so that neighbouring rings hardly overlap."""
    angles = half_angles(mixture)
    if len(positions) == 1:
        return angles
    distances = distances_between(positions)
    np.fill_diagonal(distances, np.inf)
    spacing = np.median(distances.min(axis=1)) / 2
    return angles * min(1.0, 0.65 * spacing / np.median(angles))


def _thinned(rows: Rows, most: int) -> Rows:
    """At most `most` rows at equal steps, if the rows are in memory."""
    if rows.length is None or rows.length <= most:
        return rows
    kept = np.linspace(0, rows.length - 1, most).astype(int)
    if isinstance(rows.argument, np.ndarray):
        return as_rows(rows.argument[kept])
    from scipy.sparse import csr_array

    starts, columns, values, dim = rows.argument
    matrix = csr_array((values, columns.view(np.int32), starts.astype(np.int64)), shape=(rows.length, dim))
    return as_rows(matrix[kept])


def _row_positions(
    mixture: _vmfkit.Mixture, rows: Directions, positions: np.ndarray, radii: np.ndarray, most: int
) -> tuple[np.ndarray, np.ndarray]:
    """Positions of rows on the map, and their most probable components."""
    count = len(positions)
    directions = mixture.directions[:count]
    cosines = cosines_of(directions, rows)
    responsibilities = rows.responsibilities(mixture)
    if len(cosines) > most:
        kept = np.linspace(0, len(cosines) - 1, most).astype(int)
        cosines, responsibilities = cosines[kept], responsibilities[kept]
    component = responsibilities.argmax(axis=1)
    # A row of the background is placed as if there were no background.
    memberships = responsibilities[:, :count] + 1e-12
    memberships /= memberships.sum(axis=1, keepdims=True)
    # The linear map from cosines to positions that takes each mean direction to its position.
    gram = directions @ directions.T
    back = np.linalg.pinv(gram, rcond=1e-3, hermitian=True) @ positions
    leaning, own = cosines @ back, gram @ back
    where = np.zeros((len(cosines), 2))
    belongs = memberships.argmax(axis=1)
    for k in range(count):
        some = memberships[:, k] > 1e-3
        # Fraction of the component's rows that are farther away.
        mine = np.sort(cosines[belongs == k, k])
        beyond = (np.searchsorted(mine, cosines[some, k]) + 0.5) / (len(mine) + 1)
        side = leaning[some] - cosines[some, k : k + 1] * own[k]
        side /= np.maximum(np.linalg.norm(side, axis=1, keepdims=True), 1e-300)
        # A normal density in the plane has the mass exp(-ln 2 (r / radius)^2) beyond r.
        away = radii[k] * np.sqrt(-np.log2(np.minimum(beyond, 1)))
        where[some] += memberships[some, k : k + 1] * (positions[k] + away[:, np.newaxis] * side)
    # Renormalise after dropping small responsibilities.
    where /= np.where(memberships > 1e-3, memberships, 0).sum(axis=1, keepdims=True)
    return where, component
