"""Merge trees: linkage, cuts, layers, labels and probabilities of clusters, plots."""

import pickle
import subprocess

import numpy as np
import pytest

import vmfkit
from vmfkit import MergeTree, SphericalKMeans, VonMisesFisherMixture

hierarchy = pytest.importorskip("scipy.cluster.hierarchy")


@pytest.fixture(scope="module")
def rows():
    """Four groups of rows in two pairs."""
    means = np.array([[5, 0, 1], [5, 1, 1], [-5, 0, 1], [-5, 1, 1]]) / np.sqrt([[26], [27], [26], [27]])
    return np.concatenate([vmfkit.vonmises_fisher(mu, 400).rvs(200, random_state=seed) for seed, mu in enumerate(means)])


@pytest.fixture(scope="module")
def model(rows):
    return VonMisesFisherMixture(12, random_state=0, search=False).fit(rows)


@pytest.fixture(scope="module")
def tree(model):
    return model.tree()


def test_the_linkage_is_valid_for_scipy(tree):
    assert hierarchy.is_valid_linkage(tree.linkage, throw=True) and hierarchy.is_monotonic(tree.linkage)
    assert tree.linkage.shape == (11, 4) and tree.n_components == 12 and repr(tree) == "MergeTree(n_components=12)"
    for clusters in (1, 2, 5, 12):
        theirs = hierarchy.fcluster(tree.linkage, clusters, "maxclust")
        ours = tree.cut(clusters)
        # The same partition, numbered by its first components.
        assert len(set(zip(theirs, ours))) == clusters == len(set(theirs))
        assert ours[0] == 0 and all(ours[i] <= ours[:i].max() + 1 for i in range(1, 12))
    assert sorted(tree.leaf_order) == list(range(12))
    drawn = hierarchy.dendrogram(tree.linkage, no_plot=True)
    assert sorted(drawn["leaves"]) == list(range(12))


def test_costs_are_a_table(tree):
    table = tree.table()
    assert list(table) == ["step", "first", "second", "cost", "height", "clusters", "components", "mass"]
    assert all(len(column) == 11 for column in table.values())
    np.testing.assert_array_equal(table["height"], np.maximum.accumulate(table["cost"]))
    np.testing.assert_array_equal(table["clusters"], np.arange(11, 0, -1))
    assert table["mass"][-1] == pytest.approx(800) and table["components"][-1] == 12
    # Two pairs: the last merge costs most, then the two that make the pairs.
    assert table["cost"][-1] > 5 * table["cost"][-2] and table["cost"][-3] > 2 * table["cost"][-4]
    pandas = pytest.importorskip("pandas")
    assert pandas.DataFrame(table).shape == (11, 8)


def test_labels_and_probabilities_are_those_of_components(model, tree, rows):
    components, probabilities = model.predict(rows), model.predict_proba(rows)
    for clusters in (1, 2, 4, 12):
        cut = tree.cut(clusters)
        np.testing.assert_array_equal(tree.predict(rows, clusters), cut[components])
        found = tree.predict_proba(rows, clusters, calibrated=False)
        exact = model.mixture_.responsibilities(rows)
        for cluster in range(clusters):
            np.testing.assert_allclose(found[:, cluster], exact[:, cut == cluster].sum(axis=1), atol=1e-12)
        np.testing.assert_allclose(tree.predict_proba(rows, clusters).sum(axis=1), 1)
    assert probabilities.shape == (800, 12)
    pairs = tree.predict(rows, 2)
    assert len(set(pairs[:400])) == len(set(pairs[400:])) == 1 and pairs[0] != pairs[-1]


def test_layers_nest_and_the_finest_comes_first(model, tree, rows):
    for layers in (tree.layers([3, 12, 6]), tree.layers([6, 3, 12], rows)):
        assert [len(set(labels)) for labels in layers] == [12, 6, 3]
        for fine, coarse in zip(layers, layers[1:]):
            assert len(set(zip(fine, coarse))) == len(set(fine))
        np.testing.assert_array_equal(layers[0], model.labels_)
    default = model.cluster_layers_
    assert [labels.max() + 1 for labels in default] == [12, 3]
    for one, other in zip(default, tree.layers()):
        np.testing.assert_array_equal(one, other)
    with pytest.raises(ValueError, match="the rows of the fit are not known: pass X"):
        MergeTree(model.mixture_).layers([2])


def test_backgrounds_and_rows_of_zeros_have_no_cluster(rows):
    scattered = np.random.default_rng(1).normal(size=(200, 3))
    rows = np.concatenate([rows, scattered / np.linalg.norm(scattered, axis=1, keepdims=True)])
    model = VonMisesFisherMixture(6, background=0.2, policy="shared", random_state=0).fit(rows)
    tree = model.tree()
    assert tree.n_components == 6 and tree.cut(2).shape == (6,)
    given = np.concatenate([rows[:50], np.zeros((2, 3)), [[0, 0, -1.0]]])
    with pytest.warns(UserWarning, match="rows of zeros"):
        labels = tree.predict(given, 2)
    assert set(labels[:50]) <= {0, 1} and list(labels[50:]) == [-1, -1, -1]
    with pytest.warns(UserWarning, match="rows of zeros"):
        probabilities = tree.predict_proba(given, 2)
    assert probabilities.shape == (53, 3) and (probabilities[50:52] == 0).all() and probabilities[52, 2] > 0.9
    assert (tree.layers([2])[0] == tree.predict(rows, 2)).all()
    coarse = tree.mixture(2)
    assert coarse.has_background and coarse.components == 3


def test_a_fit_continues_from_a_coarser_mixture(model, tree, rows, tmp_path):
    coarse = tree.mixture(4)
    assert coarse.components == 4 and coarse.description["status"] == "merged" and coarse.description["components"] == "4"
    assert "merged from 12 to 4 components" in coarse.description["notes"][0]
    refined = VonMisesFisherMixture(4, init=coarse).fit(rows)
    direct = VonMisesFisherMixture(4, random_state=0).fit(rows)
    assert refined.lower_bound_ == pytest.approx(direct.lower_bound_, abs=1e-3)
    # A coarser model has a tree of its own.
    assert VonMisesFisherMixture.from_mixture(coarse).tree().n_components == 4


def test_the_command_makes_the_same_tree(model, tree, rows, tmp_path, vmf):
    model.save(tmp_path / "model.safetensors")
    np.save(tmp_path / "rows.npy", rows)

    def run(*arguments):
        return subprocess.run([vmf, *arguments], cwd=tmp_path, check=True, capture_output=True, text=True).stdout

    assert run("tree", "model.safetensors", "--newick", "--linkage", "linkage.npy").strip() == tree.newick()
    np.testing.assert_array_equal(np.load(tmp_path / "linkage.npy"), tree.linkage)
    run("assign", "model.safetensors", "rows.npy", "--clusters", "3", "-o", "labels.npy")
    np.testing.assert_array_equal(np.load(tmp_path / "labels.npy"), tree.predict(rows, 3))
    run("tree", "model.safetensors", "--clusters", "3", "-o", "coarse.safetensors")
    assert (tmp_path / "coarse.safetensors").read_bytes() == tree.mixture(3).to_bytes()


def test_newick_quotes_names(tree):
    text = tree.newick()
    assert text.endswith(";") and text.count(",") == 11 and text.count("(") == 11
    names = [f"it's {number}" for number in range(12)]
    assert "'it''s 3':" in tree.newick(names)
    with pytest.raises(ValueError, match="expected 12 names, one per component, found: `2`"):
        tree.newick(["a", "b"])


def test_every_estimator_and_mixture_has_a_tree(rows):
    means = SphericalKMeans(6, random_state=0).fit(rows)
    assert means.tree().n_components == 6 and len(means.cluster_layers_) == 1
    assert hierarchy.is_valid_linkage(MergeTree(means.tree().mixture(3)).linkage)
    plain = vmfkit.Mixture([0.2, 0.3, 0.5], np.eye(3), [5.0, 5.0, 5.0])
    found = MergeTree(plain)
    assert found.linkage.shape == (2, 4) and found.predict(np.eye(3), 3).tolist() == [0, 1, 2]
    assert found.predict_proba(2 * np.eye(3), 2).shape == (3, 2)
    single = MergeTree(vmfkit.Mixture([1.0], np.eye(3)[:1], [5.0]))
    assert single.linkage.shape == (0, 4) and single.newick() == "0;" and list(single.cut(1)) == [0]
    again = pickle.loads(pickle.dumps(found))
    np.testing.assert_array_equal(again.linkage, found.linkage)


def test_wrong_arguments_are_named(tree, rows):
    for wrong in (0, -1, 2.5, "three"):
        with pytest.raises(ValueError, match=f"the number of clusters must be a whole number of at least 1, found: `{wrong}`"):
            tree.cut(wrong)
    with pytest.raises(ValueError, match="from 1 to the number of components without a background, found: `13`"):
        tree.predict(rows, 13)
    with pytest.raises(ValueError, match="3 features"):
        tree.predict(rows[:, :2], 3)
    with pytest.raises(ValueError, match="a merge tree needs a fitted estimator or a Mixture, found: `7`"):
        MergeTree(7)


def test_a_dendrogram_is_drawn(model, tree):
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    from vmfkit import plot

    figure, ax = plt.subplots()
    assert plot.dendrogram(model, ax) is ax
    figure.canvas.draw()
    (lines,) = ax.collections
    segments = lines.get_segments()
    assert len(segments) == 11 and [segment[1][0] for segment in segments] == pytest.approx(list(tree.linkage[:, 2]))
    assert [text.get_text() for text in ax.get_yticklabels()] == [str(component) for component in tree.leaf_order]
    ax = plot.dendrogram(tree, clusters=2, labels=[f"c{number}" for number in range(12)])
    ax.figure.canvas.draw()
    assert len({tuple(colour) for colour in ax.collections[0].get_colors()}) == 3
    (cut,) = ax.lines
    assert tree.linkage[-2, 2] < cut.get_xdata()[0] < tree.linkage[-1, 2]
    assert ax.get_yticklabels()[0].get_text() == f"c{tree.leaf_order[0]}"
    directions = np.random.default_rng(1).normal(size=(120, 3))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    many = plot.dendrogram(vmfkit.Mixture(np.full(120, 1 / 120), directions, np.full(120, 5.0)), clusters=30)
    assert many.get_ylabel() == "120 components" and len(many.get_yticks()) == 0
    single = plot.dendrogram(vmfkit.Mixture([1.0], np.eye(3)[:1], [5.0]))
    single.figure.canvas.draw()
    with pytest.raises(ValueError, match="expected one label for each of 12 components, found: `1`"):
        plot.dendrogram(tree, labels=["one"])
    plt.close("all")
