"""The scikit-learn estimators."""

import copy
import pickle
import subprocess
import sys
import warnings
import weakref

import numpy as np
import pytest
import scipy.sparse as sparse
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.metrics import adjusted_rand_score
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer
from sklearn.utils.estimator_checks import parametrize_with_checks

import vmfkit
from vmfkit import SphericalKMeans, VonMisesFisherMixture

# The checks of sparse rows treat every estimator with predict_proba as a classifier of four classes.
NOT_FOUR = {
    name: "expects the probabilities of four classes"
    for name in ("check_estimator_sparse_array", "check_estimator_sparse_matrix")
}


def expected_failures(estimator):
    return NOT_FOUR if isinstance(estimator, VonMisesFisherMixture) and estimator.n_components == 1 else {}


@parametrize_with_checks(
    [VonMisesFisherMixture(), VonMisesFisherMixture(n_components=4), SphericalKMeans(), SphericalKMeans(n_clusters=4)],
    expected_failed_checks=expected_failures,
)
def test_checks_of_scikit_learn(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def truth():
    directions = np.linalg.qr(np.random.default_rng(1).normal(size=(16, 3)))[0].T
    return vmfkit.Mixture(np.array([0.2, 0.3, 0.5]), np.ascontiguousarray(directions), np.array([60.0, 80.0, 100.0]))


@pytest.fixture(scope="module")
def drawn(truth):
    return truth.sample(3000, seed=5)


def test_components_are_found(truth, drawn):
    rows, labels = drawn
    model = VonMisesFisherMixture(3, random_state=0).fit(rows)
    assert model.converged_ and model.n_iter_ == len(model.lower_bounds_)
    assert adjusted_rand_score(labels, model.labels_) > 0.99
    order = np.argsort(model.weights_)
    np.testing.assert_allclose(model.weights_[order], truth.weights, atol=0.03)
    np.testing.assert_allclose(model.concentrations_[order], truth.concentrations, rtol=0.1)
    assert np.all(np.sum(model.mean_directions_[order] * truth.directions, axis=1) > 0.999)
    assert model.lower_bound_ == pytest.approx(model.score(rows), abs=1e-4)
    np.testing.assert_array_equal(model.labels_, model.predict(rows))
    np.testing.assert_array_equal(model.predict_proba(rows).argmax(1), model.predict(rows))
    assert model.bic(rows) > model.aic(rows)
    assert model.icl(rows) >= model.bic(rows)


def test_every_method_and_policy_fits(drawn):
    rows, labels = drawn
    for method in ("em", "hard", "stochastic", "online", "sgd"):
        model = VonMisesFisherMixture(3, method=method, random_state=0, max_iter=10, tol=0).fit(rows)
        assert adjusted_rand_score(labels, model.labels_) > 0.98, method
    for policy in ("free", "shared", "fixed:70", "ratio:1.5", "auto"):
        model = VonMisesFisherMixture(3, policy=policy, random_state=0).fit(rows)
        assert adjusted_rand_score(labels, model.labels_) > 0.98, policy
    assert np.all(VonMisesFisherMixture(3, policy="fixed:70", random_state=0).fit(rows).concentrations_ == 70)


def test_errors_name_wrong_options(drawn):
    rows, _ = drawn
    with pytest.raises(ValueError, match="unknown method `gibbs`"):
        VonMisesFisherMixture(3, method="gibbs").fit(rows)
    with pytest.raises(ValueError, match="unknown policy `loose`"):
        VonMisesFisherMixture(3, policy="loose").fit(rows)
    with pytest.raises(ValueError, match="found: `none of these`"):
        VonMisesFisherMixture(3, init="none of these").fit(rows)
    with pytest.raises(ValueError, match="row 0 must have length 1"):
        VonMisesFisherMixture(3, normalize=False).fit(2 * rows)
    with pytest.raises(NotFittedError):
        VonMisesFisherMixture(3).predict(rows)
    assert not hasattr(VonMisesFisherMixture(3), "labels_") and not hasattr(VonMisesFisherMixture(3), "weights_")


@pytest.mark.parametrize(
    "parameters",
    [
        {"n_components": -1},
        {"n_components": 2.5},
        {"n_init": 0},
        {"n_threads": 0},
        {"n_threads": -1},
        {"max_iter": -1},
        {"max_memory": -1},
        {"tol": -1},
        {"init": None},
        {"batch_size": 0},
        {"learning_rate": -0.1},
        {"normalize": "yes"},
    ],
)
def test_errors_name_parameters_out_of_range(drawn, parameters):
    (name,) = parameters
    with pytest.raises(ValueError, match=f"The '{name}' parameter of VonMisesFisherMixture must be .* Got .* instead"):
        VonMisesFisherMixture(**parameters).fit(drawn[0])
    parameters = {name.replace("components", "clusters"): value for name, value in parameters.items()}
    if set(parameters) <= set(SphericalKMeans().get_params()):
        with pytest.raises(ValueError, match="parameter of SphericalKMeans must be"):
            SphericalKMeans(**parameters).fit(drawn[0])


def test_not_converging_is_a_warning(drawn):
    with pytest.warns(ConvergenceWarning, match="stopped after 1 passes"):
        VonMisesFisherMixture(3, max_iter=1, init="random", random_state=0).fit(drawn[0])
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        VonMisesFisherMixture(3, max_iter=1, init="random", random_state=0, tol=0).fit(drawn[0])


def test_k_means_as_a_method_of_the_mixture(drawn):
    model = VonMisesFisherMixture(3, method="kmeans", random_state=0).fit(drawn[0])
    np.testing.assert_array_equal(model.labels_, SphericalKMeans(3, random_state=0).fit(drawn[0]).labels_)
    assert np.ptp(model.weights_) == 0 and np.ptp(model.concentrations_) == 0


def test_single_precision_and_sparse_rows_give_the_same_fit(drawn):
    rows, _ = drawn
    model = VonMisesFisherMixture(3, random_state=0).fit(rows)
    single = VonMisesFisherMixture(3, random_state=0).fit(rows.astype(np.float32))
    scattered = VonMisesFisherMixture(3, random_state=0).fit(sparse.csr_array(rows))
    np.testing.assert_allclose(single.weights_, model.weights_, rtol=1e-4)
    np.testing.assert_allclose(scattered.weights_, model.weights_, rtol=1e-9)
    np.testing.assert_allclose(scattered.score_samples(sparse.csc_array(rows)), model.score_samples(rows), rtol=1e-9)


def test_rows_of_zeros_are_ignored_by_fits(drawn):
    rows = drawn[0].copy()
    rows[7] = 0
    for kind in (np.asarray, sparse.csr_array):
        with pytest.warns(UserWarning, match="left out of the fit, found: `1`"):
            model = VonMisesFisherMixture(3, random_state=0).fit(kind(rows))
        assert model.labels_[7] == -1 and (model.probabilities_[7] == 0).all()
        with pytest.warns(UserWarning, match="rows of zeros have no direction and belong to no component"):
            assert np.isfinite(model.score_samples(kind(rows))).all()


@pytest.mark.parametrize("background", [None, 0.1])
@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array, np.float32])
def test_rows_of_zeros_belong_to_no_component(drawn, kind, background):
    rows = drawn[0][:50].copy()
    rows[[3, 40]] = 0
    others = np.delete(np.arange(50), [3, 40])
    model = VonMisesFisherMixture(3, random_state=0, background=background).fit(drawn[0])
    nearest = SphericalKMeans(3, random_state=0).fit(drawn[0])
    counted = "rows of zeros have no direction.*found: `2`"
    for estimator in (model, nearest):
        with pytest.warns(UserWarning, match=counted) as told:
            labels = estimator.predict(kind(rows))
        assert told[0].filename == __file__, "the warning names the line of the caller"
        assert (labels[[3, 40]] == -1).all()
        np.testing.assert_array_equal(labels[others], estimator.predict(rows[others]))
    with pytest.warns(UserWarning, match=counted):
        p_values = model.p_values(kind(rows))
    assert np.isnan(p_values[[3, 40]]).all() and np.isfinite(p_values[others]).all()
    with pytest.warns(UserWarning, match=counted):
        probabilities = model.predict_proba(kind(rows))
    assert (probabilities[[3, 40]] == 0).all()
    np.testing.assert_allclose(probabilities[others].sum(1), 1)
    with pytest.warns(UserWarning, match=counted):
        assert (nearest.transform(kind(rows))[[3, 40]] == 1).all()


@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array])
def test_criteria_treat_rows_of_zeros_like_score_samples(drawn, kind):
    rows = drawn[0][:500].copy()
    rows[[7, 200, 499]] = 0
    model = VonMisesFisherMixture(3, random_state=0).fit(drawn[0])
    ln_likelihood = model.score_samples(kind(rows)).sum()
    shares = model.predict_proba(kind(rows))
    entropy = -(shares * np.log(np.where(shares > 0, shares, 1))).sum()
    without = np.delete(rows, [7, 200, 499], axis=0)
    free = model.aic(without) / 2 + model.score_samples(without).sum()
    assert model.aic(kind(rows)) == pytest.approx(-2 * ln_likelihood + 2 * free, rel=1e-9)
    assert model.bic(kind(rows)) == pytest.approx(-2 * ln_likelihood + free * np.log(500), rel=1e-9)
    assert model.icl(kind(rows)) == pytest.approx(model.bic(kind(rows)) + 2 * entropy, rel=1e-9)


def test_sparse_rows_of_explicit_zeros_are_detected():
    from vmfkit._directions import Directions
    from vmfkit._rows import as_rows

    # Empty rows at the start, at the end and in between, and a row of explicit zeros.
    matrix = sparse.csr_matrix(np.array([[0, 0], [1, 0], [0, 0], [0, 0], [0, 1], [0, 0.0]]))
    matrix = sparse.csr_matrix((np.append(matrix.data, 0.0), np.append(matrix.indices, 1), np.append(matrix.indptr, 3)), shape=(7, 2))
    directions = Directions(as_rows(matrix), normalize=True)
    directions.ask(vmfkit.Mixture(np.ones(1), np.eye(2)[:1], np.ones(1)).assign)
    np.testing.assert_array_equal(directions.zeros, [True, False, True, True, False, True, True])


def test_weights_count_like_repetitions(drawn):
    rows = drawn[0][:500]
    weights = np.random.default_rng(2).integers(0, 4, 500)
    start = VonMisesFisherMixture(3, random_state=0).fit(rows).mean_directions_
    weighted = VonMisesFisherMixture(3, init=start).fit(rows, sample_weight=weights)
    repeated = VonMisesFisherMixture(3, init=start).fit(np.repeat(rows, weights, axis=0))
    np.testing.assert_allclose(weighted.concentrations_, repeated.concentrations_, rtol=1e-9)


def test_a_pickle_is_the_same_model(drawn):
    rows, _ = drawn
    model = VonMisesFisherMixture(3, random_state=0).fit(rows)
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.labels_, model.labels_)
    np.testing.assert_array_equal(again.score_samples(rows), model.score_samples(rows))
    assert again.mixture_.description == model.mixture_.description
    assert not hasattr(clone(model), "mixture_")
    near = SphericalKMeans(3, random_state=0).fit(rows)
    again = pickle.loads(pickle.dumps(near))
    assert again.inertia_ == near.inertia_ and (again.labels_ == near.labels_).all()


@pytest.mark.parametrize("kind", [VonMisesFisherMixture, SphericalKMeans])
@pytest.mark.parametrize("how", ["fit", "partial_fit"])
def test_labels_are_those_of_the_rows_at_the_time_of_the_fit(drawn, kind, how):
    rows = drawn[0].copy()
    model = kind(3, random_state=0)
    getattr(model, how)(rows)
    expected = model.predict(drawn[0])
    reference = weakref.ref(rows)
    rows[:] = np.nan
    np.testing.assert_array_equal(model.labels_, expected)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(model)).labels_, expected)
    del rows
    assert reference() is None, "the estimator holds the rows"


@pytest.mark.parametrize("kind", [VonMisesFisherMixture, SphericalKMeans])
def test_a_copy_does_not_read_the_files_of_the_fit(drawn, kind, tmp_path):
    np.save(tmp_path / "a.npy", drawn[0])
    model = kind(3, random_state=0).fit(tmp_path / "a.npy")
    asked = copy.deepcopy(kind(3, random_state=0).fit(tmp_path / "a.npy"))
    with pytest.raises(AttributeError, match="has no labels_.*copied before"):
        asked.labels_
    np.testing.assert_array_equal(copy.deepcopy(model).predict(drawn[0]), model.predict(drawn[0]))
    (tmp_path / "a.npy").rename(tmp_path / "b.npy")
    pickle.dumps(model)
    assert not hasattr(model, "labels_")
    with pytest.raises(AttributeError, match=r"a\.npy"):
        model.labels_
    np.save(tmp_path / "a.npy", drawn[0][:, :3])
    assert not hasattr(model, "labels_")
    (tmp_path / "b.npy").rename(tmp_path / "a.npy")
    np.testing.assert_array_equal(model.labels_, model.predict(drawn[0]))
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(model)).labels_, model.labels_)


@pytest.mark.parametrize("kind", [VonMisesFisherMixture, SphericalKMeans])
def test_a_pickle_refers_to_the_public_module(kind):
    assert f"vmfkit.sklearn {kind.__name__}".encode() in pickle.dumps(kind(), protocol=0).replace(b"\n", b" ")


def test_partial_fit_continues_from_a_pickle(drawn):
    rows, labels = drawn
    parts = np.array_split(rows, 10)
    model = VonMisesFisherMixture(3, random_state=0)
    for part in parts[:5]:
        model.partial_fit(part)
    other = pickle.loads(pickle.dumps(model))
    for part in parts[5:]:
        model.partial_fit(part)
        other.partial_fit(part)
    np.testing.assert_array_equal(model.mean_directions_, other.mean_directions_)
    assert model.n_iter_ == 10
    assert adjusted_rand_score(labels, model.predict(rows)) > 0.98
    np.testing.assert_allclose(model.predict_proba(rows).sum(1), 1)


def test_partial_fit_after_a_fit_weighs_all_rows_equally(truth, tmp_path):
    rows, labels = truth.sample(30_000, seed=6)
    model = VonMisesFisherMixture(3, random_state=0).fit(rows)
    model.save(tmp_path / "model.safetensors")
    before, new = model.mixture_, rows[model.predict(rows) == 0][:20]
    expected = (before.weights * 30_000 + np.array([20, 0, 0])) / 30_020
    for again in (model, VonMisesFisherMixture.load(tmp_path / "model.safetensors")):
        again.partial_fit(new)
        np.testing.assert_allclose(again.weights_, expected, rtol=1e-6)
        np.testing.assert_allclose(again.mean_directions_, before.directions, atol=1e-3)
        np.testing.assert_allclose(again.concentrations_, before.concentrations, rtol=1e-2)
        assert again.mixture_.description["weight"] == 30_020
    other = pickle.loads(pickle.dumps(model))
    assert other.partial_fit(rows[:5]).mixture_.to_bytes() == model.partial_fit(rows[:5]).mixture_.to_bytes()
    # The number of rows of another fit is unknown; they count as the rows of a start.
    made = VonMisesFisherMixture.from_mixture(vmfkit.Mixture(before.weights, before.directions, before.concentrations))
    np.testing.assert_allclose(made.partial_fit(new).weights_[0], (before.weights[0] * 8192 + 20) / 8212, rtol=1e-6)
    with pytest.raises(ValueError, match="4 components to continue from, found: `3`"):
        VonMisesFisherMixture.load(tmp_path / "model.safetensors").set_params(n_components=4).partial_fit(new)


def test_the_policy_auto_keeps_its_decision(tmp_path):
    """Rows that vary in 3 of 120 dimensions do not fit the model: concentrations are tied, and stay so after pickles and files."""
    rng = np.random.default_rng(3)
    rows = np.zeros((1200, 120))
    rows[np.arange(1200), np.arange(1200) % 2] = 1
    rows[:, 100:103] = rng.normal(size=(1200, 3)) * np.where(np.arange(1200) % 2, 0.2, 0.06)[:, None]
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    model = VonMisesFisherMixture(2, random_state=0).fit(rows)
    ratio = np.exp(20 / 119) * (1 + 1e-12)
    assert model.concentrations_.max() <= ratio * model.concentrations_.min()
    free = VonMisesFisherMixture(2, policy="free", random_state=0).fit(rows)
    assert free.concentrations_.max() > 5 * free.concentrations_.min()
    model.save(tmp_path / "model.safetensors")
    loaded = VonMisesFisherMixture.load(tmp_path / "model.safetensors")
    for again in (model, loaded):
        for batch in (rows[:50], rows[50:90]):
            again.partial_fit(batch)
            assert again.concentrations_.max() <= ratio * again.concentrations_.min()
            again = pickle.loads(pickle.dumps(again))
    assert loaded.mixture_.to_bytes() == model.mixture_.to_bytes()


def test_notes_of_a_fit_match_its_mixture(truth, drawn):
    with pytest.warns(UserWarning):
        model = VonMisesFisherMixture(3, policy="free", random_state=0).fit(np.repeat(drawn[0][:3], 5, axis=0))
    assert model.notes_
    assert model.partial_fit(drawn[0][:3]).notes_ == model.mixture_.description["notes"] != []


def test_criteria_count_free_parameters(drawn):
    rows, _ = drawn
    for policy, free in (("free", 3 * 16 + 2), ("shared", 3 * 15 + 1 + 2), ("fixed:80", 3 * 15 + 2)):
        fitted = VonMisesFisherMixture(3, policy=policy, random_state=0).fit(rows)
        streamed = VonMisesFisherMixture(3, policy=policy, random_state=0).partial_fit(rows)
        for model in (fitted, streamed):
            assert model.mixture_.free_parameters == free
            assert model.aic(rows) == pytest.approx(2 * free - 2 * 3000 * model.score(rows), rel=1e-9)
    assert SphericalKMeans(3, random_state=0).fit(rows).mixture_.free_parameters == 3 * 15 + 1


def test_the_error_names_a_start_of_another_dimension(drawn):
    with pytest.raises(ValueError, match="expected dimension 16, found: `15`"):
        VonMisesFisherMixture(3, init=np.eye(15)[:3]).fit(drawn[0])


def test_it_works_as_an_online_cluster_model(drawn):
    """BERTopic requires an online cluster model to have partial_fit(X), labels_ and predict(X)."""

    class TopicTool:
        def __init__(self, cluster_model):
            self.cluster_model = cluster_model

        def partial_fit(self, embeddings):
            self.cluster_model = self.cluster_model.partial_fit(embeddings)
            return self.cluster_model.labels_

    tool = TopicTool(VonMisesFisherMixture(3, random_state=0))
    for part in np.array_split(drawn[0], 4):
        assert len(tool.partial_fit(part)) == len(part)


def test_warm_start_continues(drawn):
    rows, _ = drawn
    model = VonMisesFisherMixture(3, warm_start=True, random_state=0, init="random-rows", max_iter=2, tol=0).fit(rows)
    before = model.score(rows)
    assert model.fit(rows).score(rows) >= before


def test_a_background_takes_outliers(truth, drawn):
    noise = vmfkit.vonmises_fisher(np.eye(16)[0], 0).rvs(600, random_state=3)
    rows = np.concatenate([drawn[0], noise])
    model = VonMisesFisherMixture(3, background=0.1, random_state=0).fit(rows)
    assert 0.1 < model.background_weight_ < 0.25
    assert len(model.weights_) == 3 and model.predict_proba(rows).shape == (3600, 4)
    assert (model.predict(noise) == -1).mean() > 0.9 and (model.predict(drawn[0]) == -1).mean() < 0.02


def test_p_values_of_drawn_rows_are_uniform(truth):
    model = VonMisesFisherMixture.from_mixture(truth)
    values = model.p_values(truth.sample(20_000, seed=8)[0], kind="law")
    for level in (0.01, 0.1, 0.5):
        # Four standard errors; with random seeds one run in 5,000 would fail.
        assert abs((values < level).mean() - level) < 4 * np.sqrt(level * (1 - level) / 20_000)


def test_sample_returns_rows_and_labels(drawn):
    model = VonMisesFisherMixture(3, random_state=0).fit(drawn[0])
    rows, labels = model.sample(50)
    assert rows.shape == (50, 16) and labels.shape == (50,)
    with pytest.raises(ValueError, match="at least one sample"):
        model.sample(0)


def test_pipeline_and_grid_search(drawn):
    rows, _ = drawn
    search = GridSearchCV(VonMisesFisherMixture(random_state=0), {"n_components": [1, 2, 3]}, cv=3).fit(rows)
    assert search.best_params_ == {"n_components": 3}
    pipeline = make_pipeline(Normalizer(), SphericalKMeans(3, random_state=0)).fit(5 * rows)
    assert pipeline.transform(rows).shape == (3000, 3)


def test_feature_names_are_kept(drawn):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(drawn[0], columns=[f"x{i}" for i in range(16)])
    model = VonMisesFisherMixture(3, random_state=0).fit(frame)
    assert list(model.feature_names_in_) == list(frame.columns)
    found = model.set_output(transform="pandas").transform(frame)
    assert list(found.columns) == [f"vonmisesfishermixture{i}" for i in range(3)]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.predict(frame)


def test_files_reset_feature_names(drawn, tmp_path):
    pandas = pytest.importorskip("pandas")
    np.save(tmp_path / "x.npy", drawn[0])
    model = VonMisesFisherMixture(3, random_state=0).fit(pandas.DataFrame(drawn[0], columns=[f"x{i}" for i in range(16)]))
    assert not hasattr(model.fit(tmp_path / "x.npy"), "feature_names_in_")


def test_partial_fit_removes_the_bounds_of_an_earlier_fit(drawn):
    model = VonMisesFisherMixture(3, random_state=0).fit(drawn[0])
    assert hasattr(model, "lower_bound_")
    assert not hasattr(model.partial_fit(drawn[0]), "lower_bound_")


def test_a_scalar_weight_applies_to_all_rows(drawn):
    for kind in (VonMisesFisherMixture, SphericalKMeans):
        model = kind(3, random_state=0).fit(drawn[0], sample_weight=2.0)
        expected = model.score(drawn[0], sample_weight=np.full(len(drawn[0]), 2.0))
        assert model.score(drawn[0], sample_weight=2.0) == pytest.approx(expected)


def test_a_notebook_shows_the_components(drawn):
    for kind in (VonMisesFisherMixture, SphericalKMeans):
        model = kind(3, random_state=0)
        assert "half its mass within" not in model._repr_html_()
        model.fit(drawn[0])
        for shown in (model._repr_html_(), model._repr_mimebundle_()["text/html"]):
            assert "half its mass within" in shown and "sk-container" in shown


def test_a_summary_is_text_and_html(drawn):
    summary = VonMisesFisherMixture(3, background=0.1, random_state=0).fit(drawn[0]).summary(as_text=True)
    assert isinstance(summary, str) and summary.splitlines()[0] == repr(summary).splitlines()[0]
    assert summary.splitlines()[1].split()[:3] == ["component", "weight", "concentration"] and len(summary.splitlines()) == 6
    weights = [float(line.split()[1]) for line in summary.splitlines()[2:5]]
    assert weights == sorted(weights, reverse=True) and summary.splitlines()[-1].split()[0] == "background"
    assert summary._repr_html_().startswith("<table>") and summary._repr_html_().count("<tr>") == 5


def test_rows_whose_sum_is_zero_have_distances():
    """The concentration of such rows is 0, which must not be a divisor."""
    cross = np.array([[1, 0], [-1, 0], [0, 1], [0, -1.0]])
    model = SphericalKMeans(1, random_state=0).fit(cross)
    np.testing.assert_allclose(model.transform(cross), 1 - cross @ model.cluster_centers_.T, atol=1e-12)
    assert model.inertia_ == pytest.approx(4) and model.score(cross) == pytest.approx(-4)


def test_inertia_counts_weights(drawn):
    rows = drawn[0][:500]
    weights = np.random.default_rng(2).integers(1, 4, 500)
    start = SphericalKMeans(3, random_state=0).fit(rows).cluster_centers_
    model = SphericalKMeans(3, init=start).fit(rows, sample_weight=weights)
    repeated = SphericalKMeans(3, init=start).fit(np.repeat(rows, weights, axis=0))
    assert model.inertia_ == pytest.approx(repeated.inertia_)
    assert model.inertia_ == pytest.approx(-model.score(rows, sample_weight=weights))


@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array, np.float32])
def test_k_means_partial_fit(drawn, kind):
    rows, labels = drawn
    parts = np.array_split(3 * rows, 10)
    model = SphericalKMeans(3, random_state=0)
    for part in parts[:5]:
        model.partial_fit(kind(part))
    other = pickle.loads(pickle.dumps(model))
    for part in parts[5:]:
        model.partial_fit(kind(part))
        other.partial_fit(kind(part))
    np.testing.assert_array_equal(model.cluster_centers_, other.cluster_centers_)
    assert model.n_iter_ == 10 and len(model.labels_) == len(parts[-1])
    assert adjusted_rand_score(labels, model.predict(rows)) > 0.98
    whole = SphericalKMeans(3, init=model.cluster_centers_).fit(rows)
    assert np.all(np.sum(model.cluster_centers_ * whole.cluster_centers_, axis=1) > 0.999)
    np.testing.assert_allclose(model.mixture_.concentrations, whole.mixture_.concentrations, rtol=0.05)


def test_k_means_partial_fit_adds_to_the_resultants():
    first = np.array([[1, 0], [0.8, 0.6], [0, 1], [-0.6, 0.8]])
    model = SphericalKMeans(2, init=np.eye(2)).partial_fit(first[[0, 2]])
    model.partial_fit(first[[1, 3]], sample_weight=[2.0, 3.0])
    expected = np.array([first[0] + 2 * first[1], first[2] + 3 * first[3]])
    np.testing.assert_allclose(model.cluster_centers_, expected / np.linalg.norm(expected, axis=1, keepdims=True), atol=1e-14)
    # After a fit, its rows count.
    again = SphericalKMeans(2, init=np.eye(2)).fit(first[[0, 2]]).partial_fit(first[[1, 3]], sample_weight=[2.0, 3.0])
    np.testing.assert_allclose(again.cluster_centers_, model.cluster_centers_, atol=1e-12)
    # Rows of zeros change nothing.
    with pytest.warns(UserWarning, match="rows of zeros"):
        again.partial_fit(np.zeros((3, 2)))
    np.testing.assert_allclose(again.cluster_centers_, model.cluster_centers_, atol=1e-12)


def test_k_means_without_a_number_of_rows_counts_as_a_start():
    assert [vmfkit._vmfkit.start_rows(clusters) for clusters in (1, 128, 200)] == [8192, 8192, 64 * 200]
    made = SphericalKMeans.from_mixture(vmfkit.Mixture([0.5, 0.5], [[1, 0], [0, -1]], [50, 50]))
    row = np.array([0.8, 0.6])
    expected = 4096 * vmfkit.special.iv_ratio(2, 50.0) * np.array([1, 0]) + row
    np.testing.assert_allclose(made.partial_fit([row]).cluster_centers_, [expected / np.linalg.norm(expected), [0, -1]], atol=1e-12)


def test_k_means_is_loaded_as_it_was_saved(drawn, tmp_path):
    model = SphericalKMeans(3, random_state=0).fit(drawn[0])
    model.save(tmp_path / "m.safetensors")
    again = SphericalKMeans.load(tmp_path / "m.safetensors")
    assert again.get_params() == model.get_params()
    np.testing.assert_array_equal(again.predict(drawn[0]), model.labels_)
    assert again.score(drawn[0]) == model.score(drawn[0])
    assert again.partial_fit(drawn[0][:100]).n_iter_ == model.n_iter_ + 1


def test_spherical_k_means_assigns_the_nearest_direction(drawn):
    rows, labels = drawn
    model = SphericalKMeans(3, random_state=0).fit(rows)
    cosines = rows @ model.cluster_centers_.T
    np.testing.assert_array_equal(model.labels_, cosines.argmax(1))
    np.testing.assert_allclose(model.transform(rows), 1 - cosines, atol=1e-12)
    assert model.inertia_ == pytest.approx((1 - cosines.max(1)).sum())
    assert model.score(rows) == pytest.approx(-model.inertia_)
    assert adjusted_rand_score(labels, model.labels_) > 0.98


CHOSEN = [
    {},
    {"policy": "free", "random_state": 7, "max_iter": 17, "background": 0.05},
    {"policy": "shared", "concentration": "sra", "init": "plusplus", "n_init": 3, "tol": 1e-3},
    {"policy": "fixed:70", "tol": 0.0, "max_iter": 2, "search": False, "random_state": 2**40},
    {"method": "online", "batch_size": 100, "random_state": 1},
    {"method": "sgd", "policy": "free", "learning_rate": 0.05, "decay": 0.9, "max_iter": 3},
    {"method": "hard", "init": "random-rows"},
    {"method": "kmeans", "tol": 0.0},
]


@pytest.mark.parametrize("parameters", CHOSEN)
def test_a_model_is_loaded_with_the_parameters_of_its_fit(drawn, parameters, tmp_path):
    rows = drawn[0]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = VonMisesFisherMixture(3, **{"random_state": 3, **parameters}).fit(rows)
        model.save(tmp_path / "model.safetensors")
        again = VonMisesFisherMixture.load(tmp_path / "model.safetensors")
        assert again.get_params() == model.get_params()
        assert (again.n_iter_, again.converged_, again.notes_) == (model.n_iter_, model.converged_, model.notes_)
        assert again.lower_bounds_ == model.lower_bounds_
        # The same fit again, and the same stream.
        assert clone(again).fit(rows).mixture_.to_bytes() == model.mixture_.to_bytes()
        assert again.partial_fit(rows[:50]).mixture_.to_bytes() == model.partial_fit(rows[:50]).mixture_.to_bytes()
    # Arguments take precedence.
    assert VonMisesFisherMixture.load(tmp_path / "model.safetensors", max_iter=9, n_threads=2).max_iter == 9


def test_a_drawn_seed_is_restored(drawn, tmp_path):
    model = VonMisesFisherMixture(3, random_state=np.random.RandomState(5), init=drawn[0][:3]).fit(drawn[0])
    model.save(tmp_path / "model.safetensors")
    again = VonMisesFisherMixture.load(tmp_path / "model.safetensors")
    assert again.random_state == model.mixture_.description["seed"] and again.init == "kmeans"
    # A stream stores its policy but no other parameter of a fit.
    stream = VonMisesFisherMixture(3, policy="shared", random_state=1).partial_fit(drawn[0])
    stream.save(tmp_path / "stream.safetensors")
    again = VonMisesFisherMixture.load(tmp_path / "stream.safetensors")
    assert (again.policy, again.method, again.random_state) == ("shared", "em", None) and not hasattr(again, "lower_bound_")


@pytest.mark.parametrize("kind", [VonMisesFisherMixture, SphericalKMeans])
def test_an_interrupted_first_fit_is_not_fitted(kind):
    """Ctrl-C during the start."""
    program = f"""
import os, signal, threading, time, numpy as np, vmfkit
from sklearn.exceptions import NotFittedError
signal.signal(signal.SIGINT, signal.default_int_handler)
x = np.random.default_rng(1).normal(size=(100_000, 64))
model = vmfkit.{kind.__name__}(2000)
threading.Thread(target=lambda: (time.sleep(2), os.kill(os.getpid(), signal.SIGINT)), daemon=True).start()
try:
    model.fit(x)
except KeyboardInterrupt:
    try:
        model.predict(x[:3])
    except NotFittedError:
        print("not fitted", hasattr(model, "labels_"))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    assert done.stdout.strip() == "not fitted False", done.stderr


def test_verbose_prints_phases_passes_and_objectives(drawn, capfd):
    model = VonMisesFisherMixture(3, n_init=2, verbose=1, random_state=0).fit(drawn[0])
    lines = capfd.readouterr().err.splitlines()
    assert len(lines) == len(set(lines)), "no line twice"
    assert lines[0] == "VonMisesFisherMixture: restart 1 of 2, start and search"
    passes = [line for line in lines if ", pass " in line]
    assert len(passes) >= model.n_iter_ and all("of at most 100" in line for line in passes)
    last = f"mean ln p {model.lower_bound_:.6g}"
    assert any(last in line and "left in this restart" in line for line in passes)
    assert lines[-1].startswith(f"VonMisesFisherMixture: converged after {model.n_iter_} passes (and {model.n_search_iter_} of the search, over a sample), {last}, ")
    SphericalKMeans(3, verbose=1, random_state=0, max_iter=7).fit(drawn[0])
    lines = capfd.readouterr().err.splitlines()
    assert lines[0] == "SphericalKMeans: start" and "of at most 7" in lines[1] and "mean cosine 0." in lines[-1]


def test_k_means_does_not_stop_early_for_close_rows():
    """The tolerance was a fraction of the mean cosine, which is near 1 here: it stopped after 2 passes, 4 to 20 % above this inertia."""
    for degrees in (4.0, 1.0, 0.1):
        kappa = float(vmfkit.special.inverse_iv_ratio(10, np.cos(np.radians(degrees))))
        rows = vmfkit.vonmises_fisher(np.eye(10)[0], kappa).rvs(4000, random_state=1)
        model = SphericalKMeans(20, init="random-rows", random_state=0).fit(rows)
        further = SphericalKMeans(20, init=model.cluster_centers_, tol=0, max_iter=3000).fit(rows)
        assert model.converged_ and model.n_iter_ > 5
        assert model.inertia_ <= 1.01 * further.inertia_, degrees


def test_k_means_without_tolerance_stops_when_labels_repeat(drawn):
    for estimator in (SphericalKMeans(5, tol=0, init="random-rows", random_state=0), VonMisesFisherMixture(5, method="kmeans", tol=0, random_state=0)):
        estimator.fit(drawn[0])
        assert estimator.converged_ and estimator.n_iter_ < 100
        again = SphericalKMeans(5, init=estimator.mixture_.directions, tol=0, max_iter=1).fit(drawn[0])
        np.testing.assert_array_equal(again.labels_, estimator.labels_)


def test_k_means_warns_about_empty_clusters(tmp_path):
    rows = np.repeat(np.eye(4)[:3], 5, axis=0)
    with pytest.warns(ConvergenceWarning, match=r"distinct clusters \(3\) found smaller than n_clusters \(5\)"):
        SphericalKMeans(5, random_state=0).fit(rows)
    np.save(tmp_path / "x.npy", rows)
    with pytest.warns(ConvergenceWarning, match=r"cluster \d is (empty|the same as)"):
        SphericalKMeans(5, random_state=0).fit(tmp_path / "x.npy")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        SphericalKMeans(3, random_state=0).fit(rows)


def test_a_given_start_is_fitted_once(drawn):
    start = drawn[0][:3]
    once = VonMisesFisherMixture(3, init=start).fit(drawn[0])
    with pytest.warns(RuntimeWarning, match="one fit instead of n_init=10"):
        model = VonMisesFisherMixture(3, init=start, n_init=10).fit(drawn[0])
    assert model.mixture_.description["restarts"] == "1" and model.n_iter_ == once.n_iter_
    for init in (start, np.arange(3000) % 3):
        with pytest.warns(RuntimeWarning, match="one fit instead of n_init=10"):
            assert SphericalKMeans(3, init=init, n_init=10).fit(drawn[0]).mixture_.description["restarts"] == "1"


def test_a_warm_start_of_single_passes_converges(drawn):
    model = VonMisesFisherMixture(3, warm_start=True, max_iter=1, init="random-rows", random_state=0)
    with pytest.warns(ConvergenceWarning):
        model.fit(drawn[0])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        for count in range(1, 100):
            if model.fit(drawn[0]).converged_:
                break
    whole = VonMisesFisherMixture(3, init="random-rows", random_state=0).fit(drawn[0])
    assert model.converged_ and count + 1 == whole.n_iter_
    np.testing.assert_allclose(model.lower_bound_, whole.lower_bound_, rtol=1e-12)
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        assert model.fit(drawn[0]).converged_


def test_a_summary_has_mean_directions(drawn):
    three = vmfkit.Mixture([0.4, 0.6], [[0.6, 0.0, 0.8], [0, 0, -1.0]], [10, 20])
    summary = VonMisesFisherMixture.from_mixture(three).summary(as_text=True)
    assert "[0.0000 0.0000 -1.0000]" in summary.splitlines()[2] and "[0.6000 0.0000 0.8000]" in summary.splitlines()[3]
    assert "[0.6000 0.0000 0.8000]" in three._repr_html_() and "[0.6000 0.0000 0.8000]" in summary._repr_html_()
    wide = VonMisesFisherMixture(1).fit(drawn[0])
    first = wide.mean_directions_[0]
    expected = " ".join(f"{x:.4f}" for x in first[:4]) + " ... " + " ".join(f"{x:.4f}" for x in first[-2:])
    assert f"[{expected}]" in wide.summary(as_text=True)


@pytest.mark.parametrize("background", [None, 0.1])
def test_probabilities_suit_bertopic(drawn, background, monkeypatch):
    """BERTopic reads `labels_`, then `probabilities_` if it exists, and adds columns by the previous labels of topics."""
    rows, _ = drawn
    model = VonMisesFisherMixture(3, random_state=0, background=background).fit(rows)
    np.testing.assert_array_equal(model.probabilities_, model.predict_proba(rows)[:, :3])
    labels, probabilities = model.labels_, model.probabilities_
    sizes = {label: int((labels == label).sum()) for label in set(labels.tolist()) - {-1}}
    mapped = {label: place for place, label in enumerate(sorted(sizes, key=lambda label: -sizes[label]))}
    topics = np.zeros((len(rows), len(mapped)))
    for before, after in mapped.items():
        topics[:, after] += probabilities[:, before]
    some = labels >= 0
    np.testing.assert_array_equal(topics[some].argmax(1), [mapped[label] for label in labels[some]])
    # Neither a pickle nor a fit of very many rows has probabilities_.
    assert not hasattr(pickle.loads(pickle.dumps(model)), "probabilities_")
    monkeypatch.setattr("vmfkit.sklearn._mixture._MOST_PROBABILITIES", 8999 if background is None else 11_999)
    model.fit(rows)
    with pytest.raises(AttributeError, match="predict_proba gives those of any rows"):
        model.probabilities_
    assert not hasattr(VonMisesFisherMixture(3), "probabilities_")


LONG_CALLS = {
    "fit": ("x = rows(100_000, 256)", "V(400, init='random-rows', tol=0, max_iter=10_000).fit(x)"),
    "start of a fit": ("x = rows(200_000, 64)", "V(3000, random_state=0).fit(x)"),
    "start of k-means": ("x = rows(200_000, 64)", "vmfkit.SphericalKMeans(3000, random_state=0).fit(x)"),
    "start of a stream": ("x = rows(60_000, 64)", "V(3000, random_state=0).partial_fit(x)"),
    "draws": ("mixture = many(20_000, 8)", "mixture.sample(3_000_000)"),
    "draws with slopes": ("kappa = np.array([30.0])", "_vmfkit.axis_draws(5, kappa, 10_000_000)"),
    "quantiles": ("density = vmfkit.vonmises_fisher(np.eye(50)[0], 30)", "density.ppf_projection(np.linspace(0, 1, 20_000_000))"),
    "densities of files": (
        "import tempfile; x = tempfile.mkdtemp() + '/x.npy'; np.save(x, rows(20_000, 1024))",
        "vmfkit.vonmises_fisher(np.eye(1024)[0], 30).logpdf([x] * 1000)",
    ),
    "p-values": ("mixture, x = many(2000, 64), rows(1_000_000, 64)", "mixture.p_values(x)"),
}


@pytest.mark.parametrize("name", LONG_CALLS)
def test_ctrl_c_ends_a_long_call_soon(name):
    before, call = LONG_CALLS[name]
    program = f"""
import os, signal, threading, time, numpy as np, vmfkit
from vmfkit import _vmfkit, VonMisesFisherMixture as V
signal.signal(signal.SIGINT, signal.default_int_handler)  # the parent process may ignore SIGINT
def rows(count, dim):
    values = np.random.default_rng(1).normal(size=(count, dim)).astype(np.float32)
    return values / np.linalg.norm(values, axis=1, keepdims=True)
def many(components, dim):
    return vmfkit.Mixture(np.full(components, 1 / components), rows(components, dim), np.linspace(20, 40, components))
{before}
began = None
def interrupt():
    global began
    time.sleep(1.5)
    began = time.monotonic()
    os.kill(os.getpid(), signal.SIGINT)
threading.Thread(target=interrupt, daemon=True).start()
try:
    {call}
except KeyboardInterrupt:
    print(time.monotonic() - began)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    # On busy cores it may take several seconds.
    assert done.stdout and float(done.stdout) < 5, done.stderr


def test_results_do_not_depend_on_the_number_of_threads(drawn):
    models = [VonMisesFisherMixture(5, random_state=0, n_threads=n).fit(drawn[0]) for n in (1, 2, 3)]
    assert len({model.mixture_.to_bytes() for model in models}) == 1


def test_passes_of_the_search_are_counted(tmp_path, capsys):
    rows = np.concatenate([vmfkit.vonmises_fisher(mu, 40).rvs(300, random_state=1) for mu in np.eye(4)])
    model = VonMisesFisherMixture(4, random_state=0, verbose=1).fit(rows)
    assert model.n_search_iter_ > model.n_iter_
    assert f"(and {model.n_search_iter_} of the search, over a sample)" in capsys.readouterr().err
    model.save(tmp_path / "model.safetensors")
    assert VonMisesFisherMixture.load(tmp_path / "model.safetensors").n_search_iter_ == model.n_search_iter_
    assert VonMisesFisherMixture(4, random_state=0, search=False).fit(rows).n_search_iter_ == 0
