"""Conversion between angles and unit vectors, and files of angles."""

import doctest
import warnings
from pathlib import Path

import numpy as np
import pytest

import vmfkit
from vmfkit import angles, vonmises_fisher

KINDS = ("lat,lon", "lon,lat", "ra,dec", "dec,inc", "trend,plunge", "theta,phi")
POLES = Path(__file__).parents[2] / "testdata" / "directional" / "fle_b1_poles.csv"


@pytest.mark.parametrize("unit", ["", ",degrees", ",radians"])
@pytest.mark.parametrize("kind", KINDS)
def test_angles_round_trip(kind, unit):
    rows = np.random.default_rng(1).normal(size=(4, 50, 3))
    rows /= np.linalg.norm(rows, axis=-1, keepdims=True)
    found = angles.from_unit(kind + unit, rows)
    assert found.shape == (4, 50, 2)
    np.testing.assert_allclose(angles.to_unit(kind + unit, found), rows, atol=1e-15)
    np.testing.assert_allclose(angles.to_unit(kind + unit, found[..., 0], found[..., 1]), rows, atol=1e-15)


def test_formulas_match_the_documentation():
    lat, lon = np.deg2rad(-26.4), np.deg2rad(324.0)
    expected = [np.cos(lat) * np.cos(lon), np.cos(lat) * np.sin(lon), np.sin(lat)]
    np.testing.assert_allclose(angles.to_unit("lat,lon", -26.4, 324), expected, atol=1e-15)
    np.testing.assert_allclose(angles.to_unit("dec,inc", 324, -26.4), expected, atol=1e-15)
    np.testing.assert_allclose(angles.to_unit("ra,dec,radians", lon, lat), expected, atol=1e-15)
    np.testing.assert_allclose(angles.to_unit("theta,phi", 90 + 26.4, 324), expected, atol=1e-15)


def test_a_single_angle_has_no_axis():
    turns = np.array([[0.0, 90.0], [180.0, 270.0]])
    rows = angles.to_unit("angle", turns)
    assert rows.tolist() == [[[1, 0], [0, 1]], [[-1, 0], [0, -1]]]
    np.testing.assert_array_equal(angles.from_unit("angle", rows), turns)
    assert angles.from_unit("angle", [0.0, 3.0]).shape == ()


def test_errors_name_wrong_angles():
    with pytest.raises(ValueError, match="row 1: the latitude must be from -90 to 90 degrees, found: `95`"):
        angles.to_unit("lat,lon", [0, 95], [0, 720])
    with pytest.raises(ValueError, match="row 0, column 1 must be a finite number"):
        angles.to_unit("lat,lon", [0], [np.nan])
    with pytest.raises(ValueError, match="angles must be lat,lon; ra,dec"):
        angles.to_unit("lat,dec", [0], [0])
    with pytest.raises(ValueError, match="the last axis must have the 2 angles"):
        angles.to_unit("lat,lon", np.zeros((2, 3)))
    with pytest.raises(TypeError, match="takes 2 arrays"):
        angles.to_unit("lat,lon", [0], [0], [0])
    with pytest.raises(ValueError, match="must have 3 coordinates"):
        angles.from_unit("lat,lon", [1.0, 0.0])
    with pytest.raises(vmfkit.ZeroRowError):
        angles.from_unit("lat,lon", [0.0, 0.0, 0.0])


def test_files_of_angles_are_fitted_like_unit_vectors():
    pytest.importorskip("sklearn")
    table = np.loadtxt(POLES, delimiter=",", skiprows=1)
    rows = angles.to_unit("lat,lon", table)
    files = vmfkit.Files(POLES, angles="lat,lon")
    options = {"n_components": 2, "policy": "shared", "random_state": 0}
    found = vmfkit.VonMisesFisherMixture(**options).fit(files)
    expected = vmfkit.VonMisesFisherMixture(**options).fit(rows)
    np.testing.assert_allclose(found.mean_directions_, expected.mean_directions_, rtol=1e-12)
    np.testing.assert_array_equal(found.predict(files), expected.predict(rows))
    with pytest.raises(ValueError, match="look like angles, which `angles=.lat,lon.` reads"):
        vmfkit.VonMisesFisherMixture(2, normalize=False).fit(POLES)
    with pytest.raises(ValueError, match="two numbers a row"):
        vmfkit.VonMisesFisherMixture(2).fit(vmfkit.Files(POLES, angles="lat,lon", columns="lat_deg"))


def test_angle_columns_read_as_coordinates_warn():
    pytest.importorskip("sklearn")
    pandas = pytest.importorskip("pandas")
    table = pandas.read_csv(POLES)
    model = vmfkit.VonMisesFisherMixture(2, random_state=0)
    with pytest.warns(UserWarning, match="look like angles, but are read as coordinates.*to_unit.'lat,lon'"):
        model.fit(table)
    with pytest.warns(UserWarning, match="look like angles, but are read as coordinates"):
        vmfkit.VonMisesFisherClassifier().fit(table, np.arange(len(table)) % 2)
    with pytest.warns(UserWarning, match="look like angles, but are read as coordinates"):
        vmfkit.stats.rayleigh_test(table, normalize=True)
    with pytest.warns(UserWarning, match="look like angles, but are read as coordinates.*angles=.lat,lon."):
        model.fit(POLES)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.fit(vmfkit.Files(POLES, angles="lat,lon"))
        model.fit(angles.to_unit("lat,lon", table))
        model.fit(pandas.DataFrame(angles.to_unit("lat,lon", table), columns=["x", "y", "z"]))


def test_the_poles_of_fisher_lewis_and_embleton():
    rows = angles.to_unit("lat,lon", np.loadtxt(POLES, delimiter=",", skiprows=1))
    mean, concentration = vonmises_fisher.fit(rows)
    assert concentration == pytest.approx(4.318318, rel=1e-6)
    np.testing.assert_allclose(angles.from_unit("lat,lon", mean), [-78.4692, 87.2154], atol=1e-3)


def test_examples():
    assert doctest.testmod(angles).failed == 0
