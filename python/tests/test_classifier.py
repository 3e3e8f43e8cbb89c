"""The classifier: one density per known label."""

import os
import pickle
import subprocess
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sparse
from sklearn.base import clone
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.model_selection import cross_val_score
from sklearn.utils.estimator_checks import parametrize_with_checks

import vmfkit
from vmfkit import VonMisesFisherClassifier


@parametrize_with_checks([VonMisesFisherClassifier(), VonMisesFisherClassifier(policy="fixed:5", priors="equal")])
def test_checks_of_scikit_learn(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def drawn():
    directions = np.linalg.qr(np.random.default_rng(1).normal(size=(16, 3)))[0].T
    truth = vmfkit.Mixture(np.array([0.2, 0.3, 0.5]), np.ascontiguousarray(directions), np.array([30.0, 40.0, 50.0]))
    rows, numbers = truth.sample(2000, seed=5)
    return rows, np.array(["pear", "apple", "fig"])[numbers], truth


def test_classes_are_sorted_and_fitted_to_their_rows(drawn):
    rows, labels, truth = drawn
    model = VonMisesFisherClassifier(policy="free").fit(rows, labels)
    assert model.classes_.tolist() == ["apple", "fig", "pear"]
    order = [1, 2, 0]
    np.testing.assert_allclose(model.priors_, [np.mean(labels == name) for name in model.classes_])
    np.testing.assert_allclose(model.concentrations_, truth.concentrations[order], rtol=0.05)
    for number, name in enumerate(model.classes_):
        mean, concentration = vmfkit.vonmises_fisher.fit(rows[labels == name])
        np.testing.assert_allclose(model.mean_directions_[number], mean, rtol=1e-12)
        assert model.concentrations_[number] == pytest.approx(concentration, rel=1e-12)
    assert model.score(rows, labels) > 0.97
    assert model.notes_ == []


def test_policies_tie_the_concentrations(drawn):
    rows, labels, _ = drawn
    assert len(set(VonMisesFisherClassifier().fit(rows, labels).concentrations_)) == 1
    assert set(VonMisesFisherClassifier(policy="fixed:7").fit(rows, labels).concentrations_) == {7.0}
    with pytest.raises(ValueError, match="unknown policy `tied`"):
        VonMisesFisherClassifier(policy="tied").fit(rows, labels)


def test_priors_may_be_given_equal_or_class_frequencies(drawn):
    rows, labels, _ = drawn
    assert VonMisesFisherClassifier(priors="equal").fit(rows, labels).priors_.tolist() == [1 / 3] * 3
    given = VonMisesFisherClassifier(priors=[0.5, 0.25, 0.25]).fit(rows, labels)
    assert given.priors_.tolist() == [0.5, 0.25, 0.25]
    assert given.mixture_.description["labels"] == ["apple", "fig", "pear"]
    weights = np.where(labels == "fig", 0.5, 2.0)
    model = VonMisesFisherClassifier().fit(rows, labels, sample_weight=weights)
    np.testing.assert_allclose(model.priors_, [weights[labels == name].sum() / weights.sum() for name in model.classes_])
    for priors, message in [([1.0], "each of 3 classes"), ([0.5, 0.5, 0.5], "sum to 1"), ("flat", "'equal' or None")]:
        with pytest.raises(ValueError, match=message):
            VonMisesFisherClassifier(priors=priors).fit(rows, labels)


def test_probabilities_follow_bayes_rule(drawn):
    rows, labels, _ = drawn
    model = VonMisesFisherClassifier(policy="free").fit(rows, labels)
    log_proba = model.predict_log_proba(rows)
    np.testing.assert_allclose(np.exp(log_proba), model.predict_proba(rows), atol=1e-12)
    np.testing.assert_array_equal(model.classes_[log_proba.argmax(axis=1)], model.predict(rows))
    sharp = VonMisesFisherClassifier(policy="fixed:1e5", calibration=False).fit(rows, labels)
    assert np.isfinite(sharp.predict_log_proba(rows)).all() and sharp.predict_log_proba(rows).min() < -1e3


def test_all_kinds_of_rows_give_the_same_result(drawn, tmp_path):
    rows, labels, _ = drawn
    model = VonMisesFisherClassifier().fit(rows, labels)
    np.save(tmp_path / "x.npy", rows)
    for other in (rows.tolist(), 3 * rows, sparse.csr_matrix(rows), tmp_path / "x.npy", str(tmp_path / "*.npy")):
        found = VonMisesFisherClassifier().fit(other, labels)
        np.testing.assert_allclose(found.concentrations_, model.concentrations_, rtol=1e-9)
        np.testing.assert_array_equal(found.predict(other), model.predict(rows))
    with pytest.raises(ValueError, match="expected 2000 labels, one per row, found: `7`"):
        VonMisesFisherClassifier().fit(tmp_path / "x.npy", labels[:7])


def test_rows_of_zeros_are_ignored_and_get_the_priors(drawn):
    rows, labels, _ = drawn
    model = VonMisesFisherClassifier().fit(rows, labels)
    with pytest.warns(UserWarning, match="rows of zeros have no direction"):
        with_zero = VonMisesFisherClassifier().fit(np.vstack([rows, np.zeros(16)]), np.append(labels, "apple"))
    np.testing.assert_allclose(with_zero.mean_directions_, model.mean_directions_, rtol=1e-12)
    assert model.predict(np.zeros((1, 16))) == [model.classes_[model.priors_.argmax()]]
    np.testing.assert_allclose(model.predict_proba(np.zeros((1, 16)))[0], model.priors_)
    np.testing.assert_allclose(np.exp(model.predict_log_proba(np.zeros((1, 16)))[0]), model.priors_)


def test_a_class_of_one_row_is_noted_with_free_concentrations():
    rows = np.array([[1.0, 0.0], [0.8, 0.6], [0.0, 1.0]])
    with pytest.warns(UserWarning, match="component 1 collapsed onto 1 row"):
        VonMisesFisherClassifier(policy="free").fit(rows, [4, 4, 9])


def test_models_can_be_saved_loaded_pickled_and_cloned(drawn, tmp_path):
    rows, labels, _ = drawn
    for y in (labels, np.unique(labels, return_inverse=True)[1] - 1):
        model = VonMisesFisherClassifier(policy="free").fit(rows, y)
        model.save(tmp_path / "m.safetensors")
        loaded = VonMisesFisherClassifier.load(tmp_path / "m.safetensors")
        assert loaded.classes_.tolist() == model.classes_.tolist() and loaded.classes_.dtype.kind == y.dtype.kind
        assert loaded.policy == "free"
        for other in (loaded, pickle.loads(pickle.dumps(model))):
            np.testing.assert_array_equal(other.predict_proba(rows), model.predict_proba(rows))
    assert clone(model).get_params() == model.get_params()
    vmfkit.VonMisesFisherMixture(2, random_state=0).fit(rows).save(tmp_path / "m.safetensors")
    with pytest.raises(ValueError, match="must have a label for each component"):
        VonMisesFisherClassifier.load(tmp_path / "m.safetensors")


def test_the_command_fits_the_same_model(vmf, drawn, tmp_path):
    rows, labels, _ = drawn
    np.save(tmp_path / "x.npy", rows)
    (tmp_path / "y.txt").write_text("\n".join(labels))
    command = [vmf, "fit", "x.npy", "--known-labels", "y.txt", "-o", "m.safetensors", "--quiet"]
    subprocess.run(command, cwd=tmp_path, check=True, stdout=subprocess.DEVNULL)
    model = VonMisesFisherClassifier().fit(rows, labels)
    model.save(tmp_path / "python.safetensors")
    assert (tmp_path / "m.safetensors").read_bytes() == (tmp_path / "python.safetensors").read_bytes()
    assert VonMisesFisherClassifier.load(tmp_path / "m.safetensors").classes_.tolist() == ["apple", "fig", "pear"]


def test_cross_validation_works(drawn):
    rows, labels, _ = drawn
    assert cross_val_score(VonMisesFisherClassifier(), rows, labels, cv=3).min() > 0.95


def test_accuracy_on_the_official_split_of_banking77():
    folder = os.environ.get("VMFKIT_DATA")
    if not folder:
        pytest.skip("VMFKIT_DATA does not say where banking77 is")
    data = Path(folder) / "banking77"
    rows = np.load(data / "banking77_minilm_f16.npy").astype(np.float32)
    names = np.array((data / "banking77_label_names.txt").read_text().splitlines())
    labels = names[np.load(data / "banking77_labels_u8.npy")]
    test = np.load(data / "banking77_is_test_u8.npy").astype(bool)
    model = VonMisesFisherClassifier().fit(rows[~test], labels[~test])
    accuracy = model.score(rows[test], labels[test])
    assert 0.845 < accuracy < 0.9
    # Compared with linear discriminant analysis, which estimates a full covariance matrix.
    assert accuracy > LinearDiscriminantAnalysis().fit(rows[~test], labels[~test]).score(rows[test], labels[test]) - 0.08
