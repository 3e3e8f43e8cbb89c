"""Plots: positions, colours and errors."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sparse

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("Agg")

import matplotlib.pyplot as plt  # noqa: E402
from matplotlib.colors import to_rgba  # noqa: E402

import vmfkit  # noqa: E402
from vmfkit import VonMisesFisherMixture, plot, vonmises_fisher  # noqa: E402
from vmfkit.plot._layout import colours_of, layout  # noqa: E402
from vmfkit.plot._map import _radii  # noqa: E402
from vmfkit.plot._style import BACKGROUND, PALETTE  # noqa: E402

EXAMPLES = Path(__file__).parents[1] / "examples"


@pytest.fixture(autouse=True)
def closed():
    yield
    plt.close("all")


def mixture_of(dim, count, concentration=50.0, seed=1, background=None):
    directions = np.random.default_rng(seed).normal(size=(count, dim))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    weights = np.arange(1.0, count + 1)
    return vmfkit.Mixture(weights / weights.sum(), directions, np.full(count, concentration), background)


@pytest.fixture(scope="module")
def drawn():
    truth = mixture_of(40, 5, 120.0)
    return truth, *truth.sample(1000, seed=3)


@pytest.fixture(scope="module")
def model(drawn):
    return VonMisesFisherMixture(5, random_state=0).fit(drawn[1])


def points(ax):
    """Positions and colours of all scattered points."""
    found = [collection for collection in ax.collections if type(collection).__name__ == "PathCollection"]
    colours = [np.broadcast_to(c.get_facecolors(), (len(c.get_offsets()), 4)) for c in found]
    return np.concatenate([c.get_offsets() for c in found]), np.concatenate(colours)


def texts(ax):
    return [text.get_text() for text in ax.texts]


def test_plots_are_drawn_on_the_given_axes(model, drawn):
    _, rows, _ = drawn
    sphere, circle = vonmises_fisher([0, 0.6, 0.8], 10), vonmises_fisher([0.6, 0.8], 10)
    for draw in (
        lambda ax: plot.sphere(sphere, ax=ax),
        lambda ax: plot.circle(circle, ax=ax),
        lambda ax: plot.density(sphere, ax=ax),
        lambda ax: plot.density(circle, circle.rvs(10, 1), ax),
        lambda ax: plot.map(model, rows, ax=ax),
        lambda ax: plot.components(model, ax),
        lambda ax: plot.trace(model, ax),
        lambda ax: plot.selection([model], rows, ax=ax),
    ):
        figure, ax = plt.subplots()
        assert draw(ax) is ax
        figure.canvas.draw()
        assert draw(None) is not ax
    # Also without a grid.
    ax = plt.figure().add_axes((0.1, 0.1, 0.8, 0.8))
    plot.components(model, ax).figure.canvas.draw()
    assert len(ax.figure.axes) == 2


def test_a_sphere_shows_the_density_and_every_row():
    mixture = vmfkit.Mixture(np.array([0.5, 0.5]), np.array([[0.0, 0.6, 0.8], [0.0, -0.6, -0.8]]), np.array([30.0, 30.0]))
    rows, labels = mixture.sample(200, seed=1)
    ax = plot.sphere(mixture, rows)
    # Opposite components need both sides.
    assert len(ax.images) == 2 and {"front", "back"} <= set(texts(ax))
    places, colours = points(ax)
    assert len(places) == 200
    front = places[:, 0] < 1.1
    for side, component in ((front, 0), (~front, 1)):
        assert side.sum() == (labels == component).sum()
        assert (colours[side] == to_rgba(PALETTE[component])).all()
    for image in ax.images:
        values = np.ma.compressed(np.ma.masked_invalid(image.get_array()))
        # Both peaks are visible, on the same scale.
        assert values.max() == pytest.approx(0.5 * vonmises_fisher([0, 0, 1.0], 30).pdf([0, 0, 1.0]), rel=0.01)
        assert image.get_clim() == ax.images[0].get_clim()
    assert len(plot.sphere(mixture, rows, back=False).images) == 1


def test_rows_on_a_sphere_are_projected_correctly():
    density = vonmises_fisher([1, 0, 0], 5)
    rows = np.array([[1, 0, 0], [0.6, 0.8, 0], [0.6, 0, 0.8], [-1, 0, 0]])
    places, _ = points(plot.sphere(density, rows, view=(1, 0, 0), back=False))
    # Viewed from x with z up, y is to the right; rows on the back are hidden.
    np.testing.assert_allclose(places, [[0, 0], [0.8, 0], [0, 0.8]], atol=1e-12)
    places, _ = points(plot.sphere(density, 7 * rows, view=(1, 0, 0), back=True))
    np.testing.assert_allclose(places[3], [2.25, 0], atol=1e-12)
    for rows in (sparse.csr_array(rows), rows.astype(np.float32)):
        np.testing.assert_allclose(points(plot.sphere(density, rows, view=(1, 0, 0), back=False))[0][1], [0.8, 0], atol=1e-6)
    with pytest.raises(ValueError, match="view must be a direction in 3 dimensions"):
        plot.sphere(density, view=(0, 0, 0))


def test_the_default_view_faces_the_mean_direction():
    for mu in ([0, 0.6, 0.8], [0, 0, 1], [0, 0, -1], [0.6, -0.8, 0]):
        ax = plot.sphere(vonmises_fisher(mu, 100), [mu])
        (place,), _ = points(ax)
        assert len(ax.images) == 1 and np.linalg.norm(place) < 0.3
    # The uniform density has no direction.
    assert len(plot.sphere(vonmises_fisher([0, 0, 1], 0)).images) == 2


def test_rows_on_a_circle_are_stacked_inside():
    density = vonmises_fisher([0, 1.0], 8)
    rows = density.rvs(300, random_state=1)
    ax = plot.circle(density, rows)
    places, _ = points(ax)
    lengths = np.linalg.norm(places, axis=1)
    assert len(places) == 300 and lengths.max() < 0.98 and lengths.min() > 0.4
    np.testing.assert_allclose(places / lengths[:, None], rows, atol=1e-9)
    curve = next(line for line in ax.lines if line.get_label() == "density").get_xydata()
    heights = np.linalg.norm(curve, axis=1) - 1
    # The curve is highest, by one radius, in the mean direction, and proportional to the density elsewhere.
    np.testing.assert_allclose(curve[heights.argmax()], [0, 2], atol=1e-12)
    directions = curve / np.linalg.norm(curve, axis=1, keepdims=True)
    np.testing.assert_allclose(heights, density.pdf(directions) / density.pdf([0, 1.0]), atol=1e-9)
    assert {"0°", "90°", "180°", "270°"} <= set(texts(ax))
    # The length of the arrow is that of the mean.
    arrow = next(child for child in ax.texts if hasattr(child, "arrow_patch") and child.arrow_patch)
    np.testing.assert_allclose(arrow.xy, density.mean())


def test_errors_name_what_cannot_be_drawn(model, drawn):
    with pytest.raises(ValueError, match="sphere needs dimension 3.*found: `40`"):
        plot.sphere(model)
    with pytest.raises(ValueError, match="circle needs dimension 2.*found: `3`"):
        plot.circle(vonmises_fisher([0, 0, 1], 3))
    with pytest.raises(ValueError, match="2 or 3 dimensions.*found: `40`"):
        plot.density(model)
    with pytest.raises(ValueError, match="rows must have dimension 40, found: `3`"):
        plot.map(model, np.eye(3))
    with pytest.raises(ValueError, match="each of 5 components, found: `2`"):
        plot.map(model, labels=["a", "b"])
    with pytest.raises(ValueError, match="fitted estimator"):
        plot.map(VonMisesFisherMixture(3))
    with pytest.raises(ValueError, match=r"only one density can be drawn.*\(2,\)"):
        plot.density(vonmises_fisher([0, 1.0], [1, 2]))
    with pytest.raises(ValueError, match="found passes: `0`"):
        plot.trace(drawn[0])
    with pytest.raises(ValueError, match="criterion to draw"):
        plot.selection([model])
    with pytest.raises(ValueError, match="model to draw"):
        plot.selection([])
    with pytest.raises(ValueError, match="found: `waic`"):
        plot.selection([model], drawn[1], criteria=["waic"])
    with pytest.raises(ValueError, match="the column 'rows'"):
        plot.selection({"components": [1, 2], "bic": [3.0, 4.0]})


def test_a_trace_has_a_point_for_every_pass(model, drawn):
    ax = plot.trace(model, label="em")
    np.testing.assert_array_equal(ax.lines[0].get_xydata()[:, 0], np.arange(1, model.n_iter_ + 1))
    np.testing.assert_array_equal(ax.lines[0].get_ydata(), model.lower_bounds_)
    assert ax.get_xlabel() == "pass" and ax.get_ylabel() and ax.get_legend() is not None
    # A second trace has another colour, and a hollow end because the fit did not converge.
    with pytest.warns(UserWarning):
        stopped = VonMisesFisherMixture(5, max_iter=1, init="random", random_state=0).fit(drawn[1])
    plot.trace(stopped.mixture_, ax)
    np.testing.assert_array_equal(ax.lines[1].get_ydata(), stopped.lower_bounds_)
    assert ax.lines[0].get_color() != ax.lines[1].get_color()
    ends = [collection.get_facecolors()[0] for collection in ax.collections]
    assert tuple(ends[0]) != to_rgba("white") and tuple(ends[1]) == to_rgba("white")


def test_the_trace_of_k_means_is_the_mean_cosine(drawn):
    _, rows, _ = drawn
    model = vmfkit.SphericalKMeans(5, random_state=0).fit(rows)
    ax = plot.trace(model)
    assert ax.get_ylabel() == "mean cosine of a row"
    assert ax.lines[0].get_ydata()[-1] == pytest.approx(1 - model.inertia_ / len(rows))


def test_a_selection_shows_criteria_in_nats_per_row_and_marks_the_best(drawn):
    _, rows, _ = drawn
    seen, held_out = rows[:700], rows[700:]
    models = [VonMisesFisherMixture(k, random_state=0).fit(seen) for k in (9, 2, 5)]
    ax = plot.selection(models, seen, held_out)
    labels = ax.get_legend_handles_labels()[1]
    assert [label.split(",")[0] for label in labels] == ["BIC", "ICL", "AIC", "held out"]
    assert labels[0] == "BIC, best at 5"
    curves = {line.get_label().split(",")[0]: line for line in ax.lines if not line.get_label().startswith("_")}
    order = [1, 2, 0]
    for line in curves.values():
        np.testing.assert_array_equal(line.get_xdata(), [2, 5, 9])
    np.testing.assert_allclose(curves["BIC"].get_ydata(), [models[i].bic(seen) / 1400 for i in order])
    np.testing.assert_allclose(curves["held out"].get_ydata(), [-models[i].score(held_out) for i in order])
    assert [tick.get_text() for tick in ax.get_xticklabels()] == ["2", "5", "9"]


def test_selection_accepts_tables(drawn):
    pandas = pytest.importorskip("pandas")
    table = {"components": [1, 2, 3], "rows": [10, 10, 10], "bic": [60.0, 40.0, 50.0], "held_out": [-3.0, -2.5, -2.0]}
    for given in (table, pandas.DataFrame(table)):
        bic, held_out = [line for line in plot.selection(given).lines if not line.get_label().startswith("_")]
        np.testing.assert_allclose(bic.get_ydata(), [3, 2, 2.5])
        np.testing.assert_allclose(held_out.get_ydata(), [3, 2.5, 2])
        assert bic.get_label() == "BIC, best at 2" and held_out.get_label() == "held out, best at 3"


def test_selection_accepts_the_output_of_the_command(drawn, tmp_path, vmf):
    np.save(tmp_path / "x.npy", drawn[1])
    done = subprocess.run([vmf, "select", tmp_path / "x.npy", "-k", "2:6:2", "--holdout", "0.2", "--json"], capture_output=True, check=True)
    ax = plot.selection(json.loads(done.stdout))
    assert len(ax.get_legend_handles_labels()[1]) == 4
    np.testing.assert_array_equal(ax.lines[0].get_xdata(), [2, 4, 6])


def test_components_shows_weights_and_concentrations(model):
    ax = plot.components(model, labels="abcde")
    order = np.argsort(-model.weights_)
    np.testing.assert_allclose([bar.get_width() for bar in ax.patches], model.weights_[order])
    assert [tick.get_text() for tick in ax.get_yticklabels()] == ["abcde"[k] for k in order]
    assert ax.get_xlabel() == "weight"
    right = ax.figure.axes[1]
    places, colours = points(right)
    np.testing.assert_allclose(places[:, 0], model.concentrations_[order])
    np.testing.assert_allclose(colours, [bar.get_facecolor() for bar in ax.patches])
    assert right.get_xlabel() == "concentration" and right.get_xscale() == "linear"
    wide = vmfkit.Mixture(np.full(3, 1 / 3), np.eye(3), np.array([1.0, 10.0, 1000.0]), 0.1)
    ax = plot.components(wide)
    assert ax.figure.axes[1].get_xscale() == "log"
    # The angle that contains half the mass, computed from the distribution.
    half = np.degrees(np.arccos(vonmises_fisher([0, 0, 1], 10).ppf_projection(0.5)))
    assert f"{half:.1f}°" in texts(ax.figure.axes[1])
    assert [tick.get_text() for tick in ax.get_yticklabels()][-1] == "background"
    assert ax.patches[-1].get_width() == pytest.approx(0.1)


def test_a_map_places_components_by_their_angles():
    # For directions on an arc the map is exact, except for the angle subtracted from all distances.
    angles = np.radians([0, 10, 25, 60])
    directions = np.zeros((4, 50))
    directions[:, 0], directions[:, 1] = np.cos(angles), np.sin(angles)
    mixture = vmfkit.Mixture(np.full(4, 0.25), directions, np.full(4, 500.0))
    places = layout(mixture)
    along = places[:, 0] * np.sign(places[-1, 0] - places[0, 0])
    assert (np.diff(along) > 0).all() and np.argsort(np.diff(along)).tolist() == [0, 1, 2]
    assert np.abs(places[:, 1]).max() < 0.25 * np.ptp(places[:, 0])
    # Close pairs stay close in a dimension where all other angles are right angles.
    directions = np.eye(50)[[0, 0, 1, 1, 2, 2]] + 0.3 * np.eye(50)[[3, 4, 5, 6, 7, 8]]
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    places = layout(vmfkit.Mixture(np.full(6, 1 / 6), directions, np.full(6, 500.0)))
    distances = np.linalg.norm(places[:, None] - places, axis=-1) + 1e9 * np.eye(6)
    assert distances.argmin(axis=1).tolist() == [1, 0, 3, 2, 5, 4]


def test_rows_on_a_map_lie_around_their_component(model, drawn):
    _, rows, _ = drawn
    labels = model.predict(rows)
    ax = plot.map(model, rows, labels="abcde")
    places, colours = points(ax)
    assert len(places) == 1000 and set("abcde") <= set(texts(ax))
    np.testing.assert_allclose(colours[:, :3], colours_of(model.mixture_)[labels][:, :3])
    centres = layout(model.mixture_)
    radii = _radii(model.mixture_, centres)
    (rings,) = [c for c in ax.collections if type(c).__name__ == "EllipseCollection"]
    np.testing.assert_allclose(rings.get_offsets(), centres)
    np.testing.assert_allclose(rings._widths * 2, 2 * radii)
    # Without rows there are discs, whose areas are weights.
    _, discs = plot.map(model).collections
    np.testing.assert_allclose(discs._widths**2 / (discs._widths**2).sum(), model.weights_)
    for k in range(5):
        mine = labels == k
        away = np.linalg.norm(places[mine] - centres[k], axis=1)
        # Half of the rows are within the ring, and closer rows are closer on the map.
        assert np.mean(away < radii[k]) == pytest.approx(0.5, abs=0.02)
        assert np.corrcoef(away, np.arccos(rows[mine] @ model.mean_directions_[k]))[0, 1] > 0.9
    nearest = np.linalg.norm(places[:, None] - centres, axis=-1).argmin(axis=1)
    assert np.mean(nearest == labels) > 0.9


def test_a_row_between_two_components_is_drawn_between_them():
    mixture = vmfkit.Mixture(np.full(3, 1 / 3), np.eye(20)[:3].copy(), np.full(3, 60.0))
    between = (np.eye(20)[0] + np.eye(20)[1]) / np.sqrt(2)
    rows = np.concatenate([mixture.sample(300, seed=1)[0], [between]])
    centres = layout(mixture)
    places, _ = points(plot.map(mixture, rows))
    middle = (centres[0] + centres[1]) / 2
    assert np.linalg.norm(places[-1] - middle) < 0.5 * np.linalg.norm(centres[0] - centres[1])
    assert abs(np.linalg.norm(places[-1] - centres[0]) - np.linalg.norm(places[-1] - centres[1])) < 0.3


def test_a_map_accepts_files_and_sparse_rows_and_limits_their_number(model, drawn, tmp_path):
    _, rows, _ = drawn
    expected, _ = points(plot.map(model, rows))
    np.save(tmp_path / "x.npy", rows)
    for given in (tmp_path / "x.npy", sparse.csr_array(rows), 3 * rows):
        np.testing.assert_allclose(points(plot.map(model, given))[0], expected, atol=1e-6)
    few, _ = points(plot.map(model, rows, most_rows=100))
    for given in (tmp_path / "x.npy", sparse.csr_array(rows)):
        np.testing.assert_allclose(points(plot.map(model, given, most_rows=100))[0], few, atol=1e-6)
    assert len(few) == 100


def test_a_map_draws_edge_cases():
    for mixture in (mixture_of(30, 1), mixture_of(30, 2), mixture_of(2, 5), mixture_of(3, 12), mixture_of(8, 3, background=0.2)):
        rows, labels = mixture.sample(100, seed=1)
        ax = plot.map(mixture, rows)
        ax.figure.canvas.draw()
        places, colours = points(ax)
        assert len(places) == 100 and np.isfinite(places).all()
        if mixture.has_background:
            grey = (colours[:, :3] == to_rgba(BACKGROUND)[:3]).all(axis=1)
            np.testing.assert_array_equal(grey, mixture.assign(rows) == 3)
    # Too many to number them all, unless names are given.
    many = mixture_of(30, 120)
    assert len(texts(plot.map(many))) == 1 and len(texts(plot.map(many, labels=range(120)))) == 121
    # Two equal directions.
    twice = vmfkit.Mixture(np.full(3, 1 / 3), np.eye(9)[[0, 0, 1]].copy(), np.full(3, 5.0))
    assert np.isfinite(points(plot.map(twice, twice.sample(50, seed=1)[0]))[0]).all()


def test_neighbours_never_share_a_colour():
    few = colours_of(mixture_of(20, 9))
    assert len({tuple(colour) for colour in few}) == 10
    mixture = mixture_of(20, 40)
    colours, places = colours_of(mixture)[:-1], layout(mixture)
    assert len({tuple(colour) for colour in colours}) == 9
    distances = np.linalg.norm(places[:, None] - places, axis=-1) + 1e9 * np.eye(40)
    assert (colours[distances.argmin(axis=1)] != colours).any(axis=1).all()


def test_missing_matplotlib_is_reported():
    program = "import sys; sys.modules['matplotlib'] = None; import vmfkit\ntry:\n import vmfkit.plot\nexcept ImportError as e: print(e)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout.startswith("vmfkit.plot needs matplotlib\nhint: pip install './python[plot]'"), done.stderr


def test_the_topics_example_runs(tmp_path):
    mixture = mixture_of(24, 3, 80.0)
    rows, labels = mixture.sample(600, seed=1)
    np.save(tmp_path / "rows.npy", rows)
    subjects = ["stars and planets", "bread and butter", "engines and wheels"]
    (tmp_path / "texts.txt").write_text("\n".join(f"{subjects[label]} number {i}" for i, label in enumerate(labels)))
    options = ["--texts", "texts.txt", "--among", "2,3,5", "--pictures", "pictures"]
    done = subprocess.run(
        [sys.executable, EXAMPLES / "topics.py", "rows.npy", *options], capture_output=True, text=True, cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    assert "BIC prefers 3 topics" in done.stdout
    for subject in subjects:
        assert any(all(word in line for word in subject.split(" and ")) for line in done.stdout.splitlines())
    for name in ("selection", "map", "components", "trace"):
        assert (tmp_path / "pictures" / f"{name}.png").stat().st_size > 1000


def test_the_readme_example_draws_a_sphere(tmp_path):
    done = subprocess.run([sys.executable, EXAMPLES / "sphere.py", "fit.png"], capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "fit.png").stat().st_size > 1000


def test_the_topics_example_reports_missing_files(tmp_path):
    for folder, words in (({}, "VMFKIT_DATA"), ({"VMFKIT_DATA": str(tmp_path)}, "news20_minilm_f16.npy` is missing")):
        environment = {name: value for name, value in os.environ.items() if name != "VMFKIT_DATA"} | folder
        done = subprocess.run([sys.executable, EXAMPLES / "topics.py"], capture_output=True, text=True, env=environment, cwd=tmp_path)
        assert done.returncode == 1 and words in done.stderr


def test_rows_of_zeros_in_plots(model, drawn):
    """Fits ignore rows of zeros, so plots must accept them."""
    rows = drawn[1].copy()
    rows[[3, 500]] = 0
    for kind in (np.asarray, sparse.csr_matrix):
        assert len(points(plot.map(model, kind(rows)))[0]) == len(rows)
        ax = plot.selection([model], kind(rows), held_out=kind(rows))
        curves = {line.get_label().split(",")[0]: line.get_ydata()[0] for line in ax.lines if "best" in str(line.get_label())}
        assert curves["BIC"] == pytest.approx(model.bic(kind(rows)) / (2 * len(rows)))
        assert curves["held out"] == pytest.approx(-model.score(kind(rows)))
    for dim in (2, 3):
        density = vonmises_fisher(np.eye(dim)[0], 5.0)
        few = density.rvs(10, random_state=1)
        few[4] = 0
        assert len(points(plot.density(density, few))[0]) == 9
