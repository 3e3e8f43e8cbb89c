"""Calibrated probabilities, conformal p-values, representatives and summaries."""

import pickle
import sys

import numpy as np
import pytest
import scipy.sparse as sparse

import vmfkit
from vmfkit import VonMisesFisherClassifier, VonMisesFisherMixture


def noise_in_few_dimensions(rows, seed, dim=64, noisy=8, components=10, spread=0.7):
    """Rows whose noise lies in the first `noisy` dimensions, like that of embeddings, and their components."""
    rng = np.random.default_rng(seed)
    centres = np.random.default_rng(99).normal(size=(components, noisy)) / np.sqrt(noisy)
    labels = rng.integers(components, size=rows)
    found = np.zeros((rows, dim))
    found[:, -1] = 1
    found[:, :noisy] += centres[labels] + spread * rng.normal(size=(rows, noisy)) / np.sqrt(noisy)
    return found / np.linalg.norm(found, axis=1, keepdims=True), labels


def calibration_error(probabilities, right):
    """The expected calibration error of probabilities, in 15 bins."""
    bins = np.minimum((probabilities * 15).astype(int), 14)
    error = [abs(probabilities[bins == b].sum() - right[bins == b].sum()) for b in range(15)]
    return sum(error) / len(probabilities)


@pytest.fixture(scope="module")
def rows():
    return noise_in_few_dimensions(4000, 1)[0]


@pytest.fixture(scope="module")
def fresh():
    return noise_in_few_dimensions(20_000, 2)[0]


@pytest.fixture(scope="module")
def model(rows):
    return VonMisesFisherMixture(10, random_state=0).fit(rows)


def test_probabilities_are_calibrated_and_labels_stay(model, rows):
    calibration = model.calibration_
    assert calibration.basis == "neighbours" and model.temperature_ == calibration.temperature > 2 and model.dispersion_ > 1.5
    assert calibration.calibrated.error < 0.02 < calibration.raw.error < 0.5
    assert calibration.sample_rows == 4000 == calibration.outlier_rows and not calibration.held_out
    assert calibration.spreads.shape == (10,) and calibration.spreads.mean() == pytest.approx(model.dispersion_, rel=0.5)
    assert calibration.raw.fraction.sum() == pytest.approx(1) and len(calibration.raw.probability) == 15
    assert "times as much along their mean directions as the model allows" in str(calibration)
    assert str(calibration).endswith("; conformal p-values from 4000 rows of the fit")
    calibrated, exact = model.predict_proba(rows), model.responsibilities(rows)
    for probabilities in (calibrated, exact):
        np.testing.assert_array_equal(probabilities.argmax(1), model.predict(rows))
        np.testing.assert_allclose(probabilities.sum(1), 1)
    # One temperature relates the logits of the two.
    with np.errstate(divide="ignore"):
        tempered = np.exp(np.log(exact) / model.temperature_)
    sure = exact.min(axis=1) > 0
    np.testing.assert_allclose(calibrated[sure], (tempered / tempered.sum(1, keepdims=True))[sure], rtol=1e-9)
    np.testing.assert_array_equal(model.probabilities_, calibrated)
    np.testing.assert_array_equal(model.transform(rows), calibrated)
    plain = VonMisesFisherMixture(10, random_state=0, calibration=False).fit(rows)
    assert plain.calibration_ is None and plain.temperature_ == 1 and np.isnan(plain.dispersion_)
    np.testing.assert_array_equal(plain.mean_directions_, model.mean_directions_)
    np.testing.assert_array_equal(plain.predict_proba(rows), exact)


def test_rows_that_fit_the_model_have_the_exact_posterior():
    truth = vmfkit.Mixture([0.3, 0.7], np.eye(8)[:2], [20.0, 20.0])
    drawn, _ = truth.sample(2000, seed=1)
    model = VonMisesFisherMixture(2, random_state=0).fit(drawn)
    assert model.calibration_.basis == "model" and model.temperature_ == 1 and np.isnan(model.calibration_.raw.error)
    np.testing.assert_array_equal(model.predict_proba(drawn), model.responsibilities(drawn))
    assert str(model.calibration_).startswith("exact posterior (temperature 1), because the rows fit the model")


def test_p_values_hold_on_fresh_rows(model, rows, fresh):
    for kind in ("conformal", "component"):
        p_values = model.p_values(fresh, kind=kind)
        for level in (0.1, 0.01):
            error = np.sqrt(level * (1 - level) * (1 / 4000 + 1 / 20_000))
            assert 0.7 * level - 3 * error <= np.mean(p_values <= level) <= level + 3 * error, (kind, level)
    np.testing.assert_array_equal(model.p_values(fresh[:9]), model.p_values(fresh[:9], kind="conformal"))
    # The law does not hold on such rows.
    assert np.mean(model.p_values(fresh[:2000], kind="law") <= 0.01) > 0.03
    assert model.p_values(np.eye(64)[20:21]) == 1 / 4001
    with pytest.raises(ValueError, match="kind must be conformal, component or law, found: `exact`"):
        model.p_values(rows, kind="exact")


def test_held_out_rows_give_the_exact_guarantee(rows, fresh):
    model = VonMisesFisherMixture(10, random_state=0).fit(rows[:500])
    temperature, probabilities = model.temperature_, model.predict_proba(fresh)
    assert model.calibrate_outliers(fresh[:10_000]) is model
    assert model.calibration_.held_out and model.calibration_.outlier_rows == 10_000
    assert model.temperature_ == temperature
    np.testing.assert_array_equal(model.predict_proba(fresh), probabilities)
    flagged = np.mean(model.p_values(fresh[10_000:]) <= 0.05)
    assert abs(flagged - 0.05) <= 3 * np.sqrt(0.05 * 0.95 * 2 / 10_000)


def test_a_mixture_without_a_calibration_gets_one(rows, fresh, model, tmp_path):
    plain = VonMisesFisherMixture(10, random_state=0, calibration=False).fit(rows)
    for kind in ("conformal", "component"):
        with pytest.raises(ValueError, match=f"p-values of the kind {kind} need a calibrated mixture"):
            plain.p_values(rows, kind=kind)
    assert np.isfinite(plain.p_values(rows[:5], kind="law")).all()
    # As if it had been calibrated by the fit; from files, too.
    np.save(tmp_path / "rows.npy", rows)
    for given in (rows, tmp_path / "rows.npy"):
        found = VonMisesFisherMixture.from_mixture(plain.mixture_).calibrate(given)
        assert found.mixture_.to_bytes() == model.mixture_.to_bytes()
    held = plain.calibrate(fresh[:3000], held_out=True, sample_weight=np.ones(3000))
    assert held is plain and held.calibration_.held_out and held.calibration_.outlier_rows == 3000
    assert held.temperature_ == pytest.approx(model.temperature_, rel=0.2)
    with pytest.raises(AttributeError, match="no probabilities_"):
        held.probabilities_
    # A mixture of arrays.
    arrays = vmfkit.Mixture(model.weights_, model.mean_directions_, model.concentrations_)
    assert VonMisesFisherMixture.from_mixture(arrays).calibrate(rows).temperature_ == pytest.approx(model.temperature_)
    with pytest.raises(ValueError, match="63 features"):
        plain.calibrate(rows[:, 1:])


def test_files_and_pickles_keep_the_calibration(model, fresh, tmp_path, vmf):
    model.save(tmp_path / "model.safetensors")
    for other in (VonMisesFisherMixture.load(tmp_path / "model.safetensors"), pickle.loads(pickle.dumps(model))):
        assert other.temperature_ == model.temperature_ and str(other.calibration_) == str(model.calibration_)
        np.testing.assert_array_equal(other.predict_proba(fresh[:50]), model.predict_proba(fresh[:50]))
        np.testing.assert_array_equal(other.p_values(fresh[:50]), model.p_values(fresh[:50]))
    # The command writes the same numbers.
    import subprocess

    np.save(tmp_path / "fresh.npy", fresh[:200])
    arguments = [vmf, "assign", "model.safetensors", "fresh.npy", "-o", "found.csv", "-q"]
    subprocess.run(arguments, cwd=tmp_path, check=True, capture_output=True)
    found = np.genfromtxt(tmp_path / "found.csv", delimiter=",", names=True)
    np.testing.assert_allclose(found["probability"], model.predict_proba(fresh[:200]).max(axis=1), rtol=1e-6)
    np.testing.assert_allclose(found["p_value"], model.p_values(fresh[:200]), rtol=1e-6)


def test_a_background_is_left_out_of_p_values_and_attributes(rows):
    scattered = np.random.default_rng(1).normal(size=(200, 64))
    model = VonMisesFisherMixture(10, background=0.05, random_state=0).fit(np.concatenate([rows, scattered]))
    assert len(model.calibration_.spreads) == 10 and model.predict_proba(rows).shape == (4000, 11)
    assert model.p_values(scattered).max() <= 0.06
    assert len(model.representatives(rows, 2)) == 10 and len(model.summary()) == 10
    assert model.summary(as_text=True).splitlines()[-1].split()[0] == "background"


@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_matrix], ids=["dense", "sparse"])
def test_representatives_are_the_densest_rows_of_their_component(model, rows, kind):
    given = rows.copy()
    given[[3, 77]] = 0
    with pytest.warns(UserWarning, match="rows of zeros"):
        found = model.representatives(kind(given), n=4)
    others = np.setdiff1d(np.arange(4000), [3, 77])
    labels, densities = model.predict(given[others]), model.mixture_.component_ln_densities(given[others])
    for component, representatives in enumerate(found):
        own = np.flatnonzero(labels == component)
        np.testing.assert_array_equal(representatives, others[own[np.argsort(-densities[own, component], kind="stable")[:4]]])
    with pytest.raises(ValueError, match="n must be a whole number of at least 0, found: `-1`"):
        model.representatives(rows, -1)
    assert [len(few) for few in model.representatives(rows[:2], 3)].count(0) >= 8


def test_a_summary_describes_components(model, rows, fresh, tmp_path, monkeypatch):
    pandas = pytest.importorskip("pandas")
    frame = model.summary()
    assert isinstance(frame, pandas.DataFrame) and list(frame.index) == list(np.argsort(-model.weights_, kind="stable"))
    names = ["size", "weight", "probability", "concentration", "half_angle", "spread", "nearest", "angle"]
    assert list(frame.columns) == names and frame.attrs["calibration"] == str(model.calibration_)
    np.testing.assert_array_equal(frame["size"].sort_index(), np.bincount(model.labels_, minlength=10))
    largest = model.predict_proba(rows).max(axis=1)
    for component, line in frame.iterrows():
        assert line["probability"] == pytest.approx(largest[model.labels_ == component].mean())
        assert line["spread"] == model.calibration_.spreads[component]
        cosines = model.mean_directions_ @ model.mean_directions_[component]
        cosines[component] = -2
        assert line["nearest"] == cosines.argmax() and np.cos(np.radians(line["angle"])) == pytest.approx(cosines.max())
    of_rows = model.summary(fresh, n_typical=2)
    assert [list(typical) for typical in of_rows["typical"].sort_index()] == [list(few) for few in model.representatives(fresh, 2)]
    np.testing.assert_array_equal(of_rows["size"].sort_index(), np.bincount(model.predict(fresh), minlength=10))
    # Neither the rows of the fit nor a second component.
    np.save(tmp_path / "rows.npy", rows)
    one = VonMisesFisherMixture(1, random_state=0).fit(tmp_path / "rows.npy").summary()
    assert np.isnan(one["size"]).all() and list(one["nearest"]) == [-1] and np.isnan(one["angle"]).all()
    # Without pandas it is text.
    text = model.summary(as_text=True)
    assert "times as much" in text.splitlines()[0] and "typical rows" in model.summary(fresh, as_text=True)
    monkeypatch.setitem(sys.modules, "pandas", None)
    assert model.summary() == text


def test_a_stream_is_calibrated_when_it_is_asked(fresh, tmp_path):
    stream = VonMisesFisherMixture(10, random_state=0)
    for batch in np.array_split(fresh[:10_000], 20):
        stream.partial_fit(batch)
    copies = [pickle.loads(pickle.dumps(stream)), stream]
    for model in copies:
        assert model.mixture_.description["calibration"] is None
        assert model.calibration_.basis == "neighbours" and model.temperature_ > 2
        assert model.mixture_.description["calibration"]["sample_rows"] == 8192
        assert np.mean(model.p_values(fresh[10_000:]) <= 0.1) == pytest.approx(0.1, abs=0.02)
    assert copies[0].mixture_.to_bytes() == copies[1].mixture_.to_bytes()
    last = np.array_split(fresh[:10_000], 20)[-1]
    np.testing.assert_allclose(stream.probabilities_, stream.predict_proba(last), rtol=1e-9, atol=1e-300)
    # A saved stream has its calibration; the next rows are learnt under it at first.
    stream.save(tmp_path / "stream.safetensors")
    loaded = VonMisesFisherMixture.load(tmp_path / "stream.safetensors")
    loaded.partial_fit(fresh[10_000:10_300])
    assert loaded.temperature_ == stream.temperature_
    plain = VonMisesFisherMixture(10, random_state=0, calibration=False)
    plain.partial_fit(fresh[:500])
    assert plain.calibration_ is None and plain.probabilities_.shape == (500, 10)


def test_known_labels_calibrate_a_classifier():
    rows, labels = noise_in_few_dimensions(6000, 3, spread=0.9)
    model = VonMisesFisherClassifier().fit(rows[:3000], labels[:3000])
    others, truth = rows[3000:], labels[3000:]
    assert model.calibration_.basis == "labels" and model.temperature_ > 2

    def error(probabilities, classifier=model):
        found = classifier.classes_[probabilities.argmax(1)]
        return calibration_error(probabilities.max(1), found == truth)

    calibrated, exact = model.predict_proba(others), model.responsibilities(others)
    assert error(calibrated) < 0.03 < error(exact)
    np.testing.assert_array_equal(model.classes_[calibrated.argmax(1)], model.predict(others))
    np.testing.assert_allclose(np.exp(model.predict_log_proba(others)), calibrated, atol=1e-12)
    plain = VonMisesFisherClassifier(calibration=False).fit(rows[:3000], labels[:3000])
    assert plain.calibration_ is None and plain.temperature_ == 1
    np.testing.assert_array_equal(plain.predict_proba(others), exact)


def test_priors_weigh_the_rows_that_a_classifier_is_calibrated_with():
    rows, labels = noise_in_few_dimensions(12_000, 3, spread=0.9)
    # Half of the rows of the first five classes are missing.
    kept = (labels >= 5) | (np.arange(12_000) % 2 == 0)
    train = kept & (np.arange(12_000) < 6000)
    given = VonMisesFisherClassifier(priors="equal").fit(rows[train], labels[train])
    probabilities = given.predict_proba(rows[6000:])
    assert calibration_error(probabilities.max(1), probabilities.argmax(1) == labels[6000:]) < 0.03


def test_rows_that_cannot_be_calibrated_with_say_so_and_nothing_fails(rows):
    one = VonMisesFisherMixture(1).fit(rows)
    assert one.calibration_.basis == "one component" and "there is one component" in str(one.calibration_)
    few = VonMisesFisherMixture(3, policy="shared", random_state=0).fit(rows[:12])
    assert few.calibration_.basis in ("few rows", "model") and few.temperature_ == 1
    equal = VonMisesFisherMixture(2, random_state=0).fit(np.tile(rows[:1], (40, 1)))
    assert equal.temperature_ == 1 and equal.p_values(rows[:1]) == 1 and equal.p_values(-rows[:1]) < 0.05
    weights = np.where(np.arange(4000) % 2 == 0, 1e100, 0)
    heavy = VonMisesFisherMixture(3, random_state=0).fit(rows, sample_weight=weights)
    assert np.isfinite(heavy.temperature_) and np.isfinite(heavy.p_values(rows)).all()
    with pytest.raises(ValueError, match="1e100"):
        VonMisesFisherMixture(3).fit(rows, sample_weight=np.full(4000, 1e299))
    plain = VonMisesFisherMixture(3, random_state=0, calibration=False).fit(rows)
    with pytest.raises(ValueError, match="weight"):
        plain.calibrate(rows, sample_weight=np.zeros(4000))
    assert plain.calibrate(rows[:3]).calibration_.basis in ("few rows", "model")
    assert plain.calibrate(rows[:1], held_out=True).calibration_.outlier_rows == 1


def test_the_number_of_threads_does_not_change_a_calibration(rows):
    models = [VonMisesFisherMixture(10, random_state=0, n_threads=threads).fit(rows) for threads in (1, 3)]
    assert models[0].mixture_.to_bytes() == models[1].mixture_.to_bytes()
