"""partial_fit: rows that arrive in batches."""

import pickle
import warnings

import numpy as np
import pytest
from sklearn.cluster import MiniBatchKMeans
from sklearn.exceptions import NotFittedError
from sklearn.metrics import adjusted_rand_score
from threadpoolctl import threadpool_limits

import vmfkit
from vmfkit import VonMisesFisherMixture


def batches(active, seed, topics=20, dim=50, count=60, rows=300):
    """Batches of rows about some of the topics, `active(batch)`, and the topics of the rows."""
    rng = np.random.default_rng(seed)
    directions = rng.normal(size=(topics, dim)) + rng.normal(size=dim)
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    for batch in range(count):
        chosen = rng.choice(active(batch), rows)
        drawn = np.empty((rows, dim))
        for topic in np.unique(chosen):
            density = vmfkit.vonmises_fisher(directions[topic], 1.5 * dim)
            drawn[chosen == topic] = density.rvs(int((chosen == topic).sum()), random_state=rng).reshape(-1, dim)
        yield drawn, chosen


def followed(model, stream):
    """Scores of batches before they are learnt, from the fourth on, and of the last ten batches afterwards."""
    stream, before = list(stream), []
    # Batches are small, so threads of k-means would wait for each other.
    with warnings.catch_warnings(), threadpool_limits(1):
        warnings.simplefilter("ignore")
        for number, (rows, topics) in enumerate(stream):
            if number > 2:
                before.append(adjusted_rand_score(topics, model.predict(rows)))
            model.partial_fit(rows)
    rows, topics = (np.concatenate(part) for part in zip(*stream[-10:]))
    return np.mean(before), adjusted_rand_score(topics, model.predict(rows))


APPEAR = (20, lambda batch: np.arange(min(20, 4 + 20 * batch // 45)))
COME_AND_GO = (8, lambda batch: np.arange(6) + 14 * batch // 59)


@pytest.mark.parametrize(("components", "active"), [APPEAR, COME_AND_GO], ids=["appear", "come and go"])
@pytest.mark.parametrize("policy", ["free", "shared"])
def test_streams_are_clustered_at_least_as_well_as_by_mini_batch_k_means(components, active, policy):
    ours, theirs = [], []
    for seed in range(4):
        model = VonMisesFisherMixture(components, policy=policy, random_state=seed)
        ours.append(followed(model, batches(active, seed)))
        theirs.append(followed(MiniBatchKMeans(components, n_init=3, random_state=seed), batches(active, seed)))
    difference = np.subtract(ours, theirs)
    error = difference.std(axis=0, ddof=1) / 2
    assert np.all(difference.mean(axis=0) > -2 * error)
    assert np.mean(ours, axis=0)[0] > 0.8, np.mean(ours, axis=0)


def test_a_moved_component_causes_a_warning_and_a_note():
    stream = batches(lambda batch: np.arange(3) if batch < 10 else np.arange(4), 1, topics=4, count=12)
    model = VonMisesFisherMixture(4, policy="free", random_state=0)
    for number, (rows, _) in enumerate(stream):
        if number == 10:
            with pytest.warns(UserWarning, match=r"the rows drift: component \d was moved to a new cluster after 3000 rows"):
                model.partial_fit(rows)
            assert any("was moved" in note for note in model.notes_)
        else:
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                model.partial_fit(rows)


def test_a_vanished_topic_causes_one_warning():
    stream = batches(lambda batch: np.arange(3) if batch < 10 else np.arange(2), 1, topics=3, count=13)
    model = VonMisesFisherMixture(3, policy="free", random_state=0)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for rows, _ in stream:
            model.partial_fit(rows)
    assert ["got none of the last 300 rows" in str(warning.message) for warning in caught] == [True]
    assert any("got none of the last 900 rows" in note for note in model.notes_)


def test_a_half_life_reduces_the_weight_of_old_rows(tmp_path):
    directions = np.eye(6)[:2]
    draws = [vmfkit.vonmises_fisher(direction, 400).rvs(1000, random_state=1) for direction in directions]
    fitted = VonMisesFisherMixture(2, policy="free", random_state=0, init=directions).fit(np.concatenate(draws * 20))
    fitted.save(tmp_path / "model.safetensors")
    parameters = {"policy": "free", "random_state": 0}
    model = VonMisesFisherMixture.load(tmp_path / "model.safetensors", half_life=1000, **parameters)
    for batch in np.array_split(draws[1], 10):
        model.partial_fit(batch)
    assert model.weights_[0] == pytest.approx(0.25, abs=1e-6)
    # The file and the pickle keep the half-life.
    model.save(tmp_path / "again.safetensors")
    assert b'"setting.half_life":"1000.0"' in (tmp_path / "again.safetensors").read_bytes()
    again = pickle.loads(pickle.dumps(model))
    assert again.partial_fit(draws[1]).mixture_.to_bytes() == model.partial_fit(draws[1]).mixture_.to_bytes()
    assert model.weights_[0] == pytest.approx(0.125, abs=1e-6)
    with pytest.raises(ValueError, match="half_life"):
        VonMisesFisherMixture(2, half_life=0).partial_fit(draws[0])


@pytest.mark.parametrize("kind", [np.float64, np.float32])
def test_the_first_rows_are_held_for_the_start(kind):
    rows, _ = next(batches(lambda batch: np.arange(3), 2, topics=3, rows=240))
    rows = rows.astype(kind)
    model = VonMisesFisherMixture(10, policy="free", random_state=0)
    for batch in np.array_split(rows[:72], 9):
        assert model.partial_fit(batch) is model
        model = pickle.loads(pickle.dumps(model))
        with pytest.raises(NotFittedError, match="until there are 80, found: `"):
            model.predict(batch)
        with pytest.raises(NotFittedError):
            model.sample()
        assert not hasattr(model, "weights_") and not hasattr(model, "labels_")
    with pytest.raises(ValueError, match="49 features"):
        model.partial_fit(rows[:5, 1:])
    model.partial_fit(rows[72:80])
    at_once = VonMisesFisherMixture(10, policy="free", random_state=0).partial_fit(rows[:80])
    assert model.mixture_.to_bytes() == at_once.mixture_.to_bytes()
    assert model.mixture_.description["rows"] == 80 and len(model.labels_) == 8


def test_a_start_with_free_concentrations_has_no_component_of_a_single_row():
    rows, _ = next(batches(lambda batch: np.arange(20), 3))
    model = VonMisesFisherMixture(20, policy="free", random_state=0)
    for batch in np.array_split(rows, 60):
        model.partial_fit(batch)
    assert model.concentrations_.max() < 1e4


@pytest.mark.parametrize(("dim", "concentrations"), [(100, [100.0, 400.0]), (300, [300.0, 1200.0])])
def test_a_stream_estimates_concentrations_by_default(dim, concentrations):
    directions = np.random.default_rng(0).normal(size=(2, dim))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    rows, _ = vmfkit.Mixture([0.5, 0.5], directions, concentrations).sample(50_000, seed=1)
    model = VonMisesFisherMixture(2, random_state=0)
    for batch in np.array_split(rows, 100):
        model.partial_fit(batch)
    np.testing.assert_allclose(np.sort(model.concentrations_), concentrations, rtol=0.02)
