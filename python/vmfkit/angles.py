"""Conversion between angles and unit vectors on the circle and on the sphere.

| kind | unit vector | `from_unit` gives |
|---|---|---|
| `lat,lon` | x = cos lat cos lon, y = cos lat sin lon, z = sin lat | lat -90..90, lon -180..180 |
| `ra,dec` | x = cos dec cos ra, y = cos dec sin ra, z = sin dec | ra 0..360, dec -90..90 |
| `dec,inc` | x = cos inc cos dec (north), y = cos inc sin dec (east), z = sin inc (down) | dec 0..360, inc -90..90 |
| `trend,plunge` | the same as `dec,inc` | trend 0..360, plunge -90..90 |
| `theta,phi` | x = sin theta cos phi, y = sin theta sin phi, z = cos theta (theta from the pole, as in physics) | theta 0..180, phi 0..360 |
| `angle` | x = cos angle, y = sin angle | 0..360 |

The order of the names is the order of the angles: `lon,lat` has the longitude first. Angles are in degrees; `lat,lon,radians` is in radians.
`vmfkit.Files(..., angles="lat,lon")` reads files of angles.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from . import _vmfkit

__all__ = ["from_unit", "to_unit"]


def to_unit(kind: str, *angles: Any) -> np.ndarray:
    """Converts angles to unit vectors.

    The result is exact at the poles and at multiples of a right angle in degrees.

    Parameters
    ----------
    kind : str
        Kind of angles, such as "lat,lon" or "lat,lon,radians".
    *angles : array
        One array per angle, or one array with all angles in its last axis. A latitude (or similar) beyond a pole raises ValueError, as do NaN
        and infinity. Other angles may exceed a full turn.

    Returns
    -------
    directions : array
        Unit vectors, in a new last axis.

    Examples
    --------
    >>> from vmfkit.angles import to_unit
    >>> to_unit("lat,lon", [0, 90], [90, 12])
    array([[0., 1., 0.],
           [0., 0., 1.]])
    """
    count = _vmfkit.angle_count(kind)
    if len(angles) not in (1, count):
        raise TypeError(f"`{kind}` takes {count} arrays, or one array with all angles in its last axis, found: `{len(angles)}`")
    if count == 1:
        joined = np.asarray(angles[0], np.float64)[..., np.newaxis]
    elif len(angles) == count:
        joined = np.stack(np.broadcast_arrays(*(np.asarray(angle, np.float64) for angle in angles)), axis=-1)
    else:
        joined = np.asarray(angles[0], np.float64)
        if joined.ndim == 0 or joined.shape[-1] != count:
            raise ValueError(f"the last axis must have the {count} angles of `{kind}`, found shape: `{joined.shape}`")
    found = _vmfkit.angles_to_unit(kind, np.ascontiguousarray(joined).reshape(-1))
    return found.reshape(*joined.shape[:-1], count + 1)


def from_unit(kind: str, directions: Any) -> np.ndarray:
    """Converts vectors of any length to angles.

    At a pole the angle around the axis is 0.

    Parameters
    ----------
    kind : str
        Kind of angles, such as "lat,lon" or "lat,lon,radians".
    directions : array
        Vectors, in the last axis.

    Returns
    -------
    angles : array
        Angles, in the last axis. The single angle of the kind "angle" has no axis.

    Examples
    --------
    >>> from vmfkit.angles import from_unit
    >>> from_unit("lat,lon", [[0, 2, 0], [0, 0, -1]])
    array([[  0.,  90.],
           [-90.,   0.]])
    """
    count = _vmfkit.angle_count(kind)
    directions = np.asarray(directions, np.float64)
    if directions.ndim == 0 or directions.shape[-1] != count + 1:
        raise ValueError(f"directions of `{kind}` must have {count + 1} coordinates in their last axis, found shape: `{directions.shape}`")
    found = _vmfkit.angles_of_unit(kind, np.ascontiguousarray(directions).reshape(-1))
    return found.reshape(directions.shape[:-1] if count == 1 else (*directions.shape[:-1], count))
