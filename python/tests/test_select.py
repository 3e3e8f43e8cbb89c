"""`vmfkit.select`: the number of components."""

import json
import subprocess
from pathlib import Path

import numpy as np
import pytest

import vmfkit
from vmfkit import special, vonmises_fisher

HOUSEHOLD = Path(__file__).parents[2] / "testdata" / "household" / "household.csv"


@pytest.fixture(scope="module")
def three_groups():
    return np.concatenate([vonmises_fisher(mu, 40).rvs(300, random_state=1) for mu in np.eye(4)[:3]])


def test_the_household_data_have_the_published_criteria():
    # movMF's vignette: the best of 20 runs, BIC relative to the uniform density. A better optimum without warnings is welcome.
    rows = np.loadtxt(HOUSEHOLD, delimiter=",", skiprows=1)
    found = vmfkit.select(rows, range(1, 6), policy="free")
    uniform = -2 * len(rows) * special.log_normalizer(3, 0.0)
    bic = [candidate.bic - uniform for candidate in found.candidates]
    assert bic[:3] == pytest.approx([-169.4291, -200.3364, -211.5490], abs=1e-3)
    assert bic[3] < -207.1072 + 1e-3
    assert bic[4] < -202.4944 + 1e-3
    assert found.recommended.components == 3
    assert sorted(found.recommended.mixture.concentrations) == pytest.approx([62.91, 83.26, 181.21], abs=0.01)
    assert not any(candidate.warnings for candidate in found.candidates)


def test_all_numbers_match_the_command(vmf, three_groups, tmp_path):
    np.save(tmp_path / "x.npy", three_groups)
    command = [vmf, "select", tmp_path / "x.npy", "-k", "1:4", "--seed", "7", "--criterion", "held-out", "--json"]
    told = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
    found = vmfkit.select(three_groups, range(1, 5), random_state=7, criterion="held-out", normalize=False)
    for line, candidate in zip(told["candidates"], found.candidates, strict=True):
        for name in ("components", "policy", "background", "free_parameters", "total_weight", "ln_likelihood", "aic", "bic", "icl"):
            assert line[name] == getattr(candidate, name), name
        assert line["held_out"]["mean_ln_density"] == candidate.held_out
        assert line["held_out"]["standard_error"] == candidate.held_out_standard_error
        assert {name.replace("_", "-") for name, best in line["best"].items() if best} == set(candidate.best)
        assert line["stability"] is None
        assert candidate.stability is None
        assert line["dispersion"] == candidate.dispersion
    for name in ("components", "criterion", "confidence"):
        assert told["recommended"][name] == getattr(found.recommendation, name), name
    assert tuple(told["recommended"]["reasons"]) == found.recommendation.reasons


@pytest.fixture(scope="module")
def embeddings():
    # Noise, and the differences between 5 clusters, lie in 8 of 32 dimensions, as in embeddings.
    rng = np.random.default_rng(3)
    rows = np.zeros((400, 32))
    rows[:, 31] = 1
    rows[:, :8] = rng.normal(size=(5, 8))[np.arange(400) % 5] / 8**0.5 + 0.3 * rng.normal(size=(400, 8)) / 8**0.5
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def test_rows_that_do_not_fit_the_model_are_judged_by_independent_fits(vmf, embeddings, tmp_path):
    found = vmfkit.select(embeddings, range(2, 9), repeats=3, normalize=False)
    assert (found.recommended.components, found.recommendation.criterion) == (5, "shared-information")
    assert found.recommendation.confidence in ("medium", "high")
    assert found.recommended.dispersion > 1.5
    assert found.recommended.stability > 0.95
    assert 4 < found.recommended.shared_clusters < 5.1
    table = found.table()
    assert {len(column) for column in table.values()} == {7}
    assert table["shared_clusters"][3] == found.recommended.shared_clusters
    assert "shared-information recommends 5 components" in str(found)
    assert "shared clusters" in str(found)
    np.save(tmp_path / "x.npy", embeddings)
    command = [vmf, "select", tmp_path / "x.npy", "-k", "2:8", "--repeats", "3", "--json"]
    told = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
    for line, candidate in zip(told["candidates"], found.candidates, strict=True):
        for name in ("stability", "shared_information", "neighbours"):
            assert line[name]["mean"] == getattr(candidate, name), name
            assert line[name]["standard_error"] == getattr(candidate, f"{name}_standard_error"), name


def test_likelihoods_alone_need_no_fits_of_halves(embeddings):
    found = vmfkit.select(embeddings, [4, 5, 6], criterion="bic")
    assert found.recommended.stability is None
    assert "stability" not in found.table()
    assert found.recommendation.confidence == "none"
    assert any("likelihoods cannot be trusted" in reason for reason in found.recommendation.reasons)


def test_a_criterion_that_cannot_be_measured_is_an_error(embeddings):
    with pytest.raises(ValueError, match="cannot be measured for any of these numbers of components: `\\[1\\]`"):
        vmfkit.select(embeddings, [1], criterion="stability")


def test_the_true_number_of_groups_is_recommended(three_groups):
    found = vmfkit.select(three_groups, [4, 2, 3, 1])
    assert [candidate.components for candidate in found.candidates] == [1, 2, 3, 4]
    assert found.recommended.components == 3
    model = found.recommended.model()
    assert len(set(model.predict(three_groups))) == 3
    assert model.bic(three_groups) == pytest.approx(found.recommended.bic, rel=1e-12)
    assert "bic recommends 3 components, confidence: high" in str(found)
    assert found.table()["components"] == [1, 2, 3, 4]


def test_policies_and_backgrounds_are_tried_in_turn(three_groups):
    found = vmfkit.select(three_groups, [2, 3], policy=["shared", "free"], background=(False, True))
    tried = [(c.background, c.policy, c.components) for c in found.candidates]
    assert tried == [(b, p, k) for b in (False, True) for p in ("shared", "free") for k in (2, 3)]
    assert found.recommended.policy == "shared"
    assert sum("bic" in candidate.best for candidate in found.candidates) == 2


def test_weights_and_rows_of_zeros(three_groups):
    twice = vmfkit.select(np.concatenate([three_groups, three_groups]), [1, 2], search=False, n_init=1)
    weighted = vmfkit.select(three_groups, [1, 2], sample_weight=np.full(len(three_groups), 2.0), search=False, n_init=1)
    assert weighted.candidates[0].bic == pytest.approx(twice.candidates[0].bic, rel=1e-12)
    with_zeros = np.concatenate([three_groups, np.zeros((2, 4))])
    with pytest.warns(UserWarning, match="rows of zeros have no direction and are left out of the fit, found: `2`"):
        found = vmfkit.select(with_zeros, [1])
    assert found.candidates[0].total_weight == len(three_groups)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"criterion": "dic"}, "the criterion must be one of auto, shared-information, stability, neighbours, aic, bic, icl, held-out"),
        ({"repeats": 0}, "the number of repeats must be at least 1, found: `0`"),
        ({"n_components": [0, 1]}, "n_components must be integers of at least 1"),
        ({"n_components": []}, "n_components must be integers of at least 1"),
        ({"n_components": [5000]}, "Expected n_samples >= 5000 components"),
        ({"holdout": 1.5}, "1.5"),
        ({"criterion": "held-out", "holdout": 0.0}, "needs held-out rows"),
        ({"policy": "loose"}, "loose"),
    ],
)
def test_errors_name_wrong_options(three_groups, options, message):
    with pytest.raises(ValueError, match=message.replace("(", r"\(")):
        vmfkit.select(three_groups, **{"n_components": [1, 2], **options})


def test_progress_has_one_line_per_fit(three_groups, capsys):
    vmfkit.select(three_groups, [1, 2], verbose=1)
    assert capsys.readouterr().err.splitlines() == [
        "select: 1 of 2 fits done, K = 1",
        "select: 2 of 2 fits done, K = 2",
    ]


def test_a_selection_can_be_plotted(three_groups):
    plot = pytest.importorskip("vmfkit.plot")
    ax = plot.selection(vmfkit.select(three_groups, [1, 2, 3, 4]))
    assert any("BIC, best at 3" in text.get_text() for text in ax.get_legend().get_texts())
