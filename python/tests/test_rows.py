"""Kinds of rows: arrays, columns and files."""

import json
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import vmfkit
from vmfkit import Files, SphericalKMeans, VonMisesFisherMixture, _vmfkit
from vmfkit._rows import as_rows


@pytest.fixture(scope="module")
def rows():
    directions = np.linalg.qr(np.random.default_rng(1).normal(size=(8, 4)))[0].T
    mixture = vmfkit.Mixture(np.full(4, 0.25), np.ascontiguousarray(directions), np.full(4, 50.0))
    return mixture.sample(2000, seed=1, single=True)[0]


def test_arrays_in_c_order_are_not_copied(rows):
    assert as_rows(rows).argument is rows
    double = rows.astype(np.float64)
    assert as_rows(double).argument is double
    assert as_rows(np.asfortranarray(rows)).argument.flags.c_contiguous
    assert as_rows(rows[::2]).argument.shape == (1000, 8)
    assert as_rows(rows.astype(">f4")).argument.dtype == np.float32
    assert as_rows(rows.astype(np.float16)).argument.dtype == np.float32
    assert as_rows([[1, 0], [0, 1]]).argument.dtype == np.float64
    with pytest.raises(ValueError, match="two axes"):
        as_rows(rows[0])


def test_columns_of_lists_are_rows(rows):
    pa = pytest.importorskip("pyarrow")
    model = VonMisesFisherMixture(4, random_state=0).fit(rows)
    fixed = pa.FixedSizeListArray.from_arrays(pa.array(rows.ravel()), 8)
    for column in (fixed, fixed.cast(pa.list_(pa.float32())), pa.chunked_array([fixed[:700], fixed[700:]])):
        again = VonMisesFisherMixture(4, random_state=0).fit(column)
        assert again.mixture_.to_bytes() == model.mixture_.to_bytes()
    pl = pytest.importorskip("polars")
    for column in (pl.Series("x", rows), pl.Series("x", rows.tolist(), dtype=pl.List(pl.Float32))):
        again = VonMisesFisherMixture(4, random_state=0).fit(column)
        assert again.mixture_.to_bytes() == model.mixture_.to_bytes()
    pandas = pytest.importorskip("pandas")
    column = pandas.Series(list(rows), dtype=pandas.ArrowDtype(pa.list_(pa.float32())))
    again = VonMisesFisherMixture(4, random_state=0).fit(column)
    assert again.mixture_.to_bytes() == model.mixture_.to_bytes()
    with pytest.raises(ValueError, match="null"):
        as_rows(pa.array([[1.0, 0.0], None]))


def test_one_distribution_accepts_columns(rows):
    pa = pytest.importorskip("pyarrow")
    pandas = pytest.importorskip("pandas")
    pl = pytest.importorskip("polars")
    density = vmfkit.vonmises_fisher(rows[0] / np.linalg.norm(rows[0].astype(float)), 3.0)
    fixed = pa.FixedSizeListArray.from_arrays(pa.array(rows.ravel()), 8)
    series = pandas.Series(list(rows))
    columns = [fixed, pa.chunked_array([fixed[:0], fixed]), series, pl.Series("x", rows)]
    tables = [pa.table({"x": fixed}), pa.record_batch({"x": fixed}), pandas.DataFrame({"x": series}), pl.DataFrame({"x": pl.Series(rows)})]
    for column in columns + tables:
        assert vmfkit.vonmises_fisher.fit(column)[1] == vmfkit.vonmises_fisher.fit(rows)[1]
        np.testing.assert_array_equal(density.logpdf(column), density.logpdf(rows))
        np.testing.assert_array_equal(as_rows(column).argument, rows)
        assert VonMisesFisherMixture(2, random_state=0).fit(column).n_features_in_ == 8


def test_errors_name_columns_that_are_not_rows(rows):
    pa = pytest.importorskip("pyarrow")
    pandas = pytest.importorskip("pandas")
    for empty in (pa.chunked_array([], type=pa.list_(pa.float32(), 8)), pa.array([], pa.list_(pa.float32()))):
        for take in (as_rows, vmfkit.vonmises_fisher.fit, VonMisesFisherMixture().fit):
            with pytest.raises(ValueError, match="there must be a row, found: `0`"):
                take(empty)
    with pytest.raises(ValueError, match="lists of equal length"):
        as_rows(pa.array([[1.0, 0.0], [1.0]]))
    with pytest.raises(ValueError, match="must have lists"):
        as_rows(pandas.Series([1.0, 2.0]))
    # A table of numbers remains a table if it has one column.
    assert as_rows(pandas.DataFrame(rows)).argument.shape == (2000, 8)
    assert as_rows(pandas.DataFrame(rows[:, :1])).argument.shape == (2000, 1)


def test_files_are_fitted_like_arrays(rows, tmp_path):
    model = VonMisesFisherMixture(4, random_state=0).fit(rows)
    np.save(tmp_path / "all.npy", rows)
    for i, part in enumerate(np.array_split(rows, 3)):
        np.save(tmp_path / f"part-{i}.npy", part)
    for place in (tmp_path / "all.npy", str(tmp_path / "part-*.npy"), sorted(tmp_path.glob("part-*.npy"))):
        found = VonMisesFisherMixture(4, random_state=0).fit(place)
        assert found.mixture_.to_bytes() == model.mixture_.to_bytes()
        np.testing.assert_array_equal(found.labels_, model.labels_)
        np.testing.assert_array_equal(found.predict_proba(place), model.predict_proba(rows))
    # Rows that do not fit into memory are read again in every pass.
    found = VonMisesFisherMixture(4, random_state=0, max_memory=0).fit(tmp_path / "all.npy")
    assert found.mixture_.to_bytes() == model.mixture_.to_bytes()
    # Text is parsed once, and read again from a scratch file.
    np.savetxt(tmp_path / "all.csv", rows, fmt="%.17g", delimiter=",")
    found = VonMisesFisherMixture(4, random_state=0, max_memory=0).fit(tmp_path / "all.csv")
    assert found.mixture_.to_bytes() == VonMisesFisherMixture(4, random_state=0).fit(rows.astype(float)).mixture_.to_bytes()
    assert vmfkit.vonmises_fisher.fit(tmp_path / "all.npy")[1] == pytest.approx(vmfkit.vonmises_fisher.fit(rows)[1], rel=1e-6)


MU = np.eye(8)[0]


def of_one_density(x):
    """All results of one density for rows."""
    density = vmfkit.vonmises_fisher(MU, 30.0)
    yield density.logpdf(x)
    yield density.pdf(x)
    yield vmfkit.vonmises_fisher.logpdf(x, MU, 30.0)
    yield vmfkit.vonmises_fisher.pdf(x, MU, 30.0)
    yield vmfkit.vonmises_fisher(MU, np.array([[3.0], [0.0]])).logpdf(x)
    yield np.hstack(vmfkit.vonmises_fisher.fit(x))
    yield np.hstack(vmfkit.vonmises_fisher.fit_report(x))


def of_a_mixture(x):
    mixture = vmfkit.Mixture(np.full(4, 0.25), np.eye(8)[:4], np.full(4, 5.0))
    for ask in (mixture.ln_densities, mixture.component_ln_densities, mixture.responsibilities, mixture.assign, mixture.p_values):
        yield ask(x)
    yield list(mixture.evaluate(x).values())
    yield from mixture.nearest_statistics(x)


def of_estimators(x):
    for kind in (VonMisesFisherMixture, SphericalKMeans):
        model = kind(4, init=np.eye(8)[:4], tol=0, max_iter=5)
        for name in ("fit_predict", "fit_transform", "predict", "transform", "score"):
            yield getattr(model, name)(x)
        yield model.fit(x).labels_
        stream = kind(4, init=np.eye(8)[:4], random_state=0).partial_fit(x).partial_fit(x)
        yield stream.mixture_.directions
        yield stream.labels_
        yield (model.inertia_, stream.inertia_) if kind is SphericalKMeans else model.lower_bounds_
    model = VonMisesFisherMixture(4, init=np.eye(8)[:4], tol=0, max_iter=5).fit(x)
    for name in ("predict_proba", "score_samples", "p_values", "aic", "bic", "icl"):
        yield getattr(model, name)(x)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("ask", [of_one_density, of_a_mixture, of_estimators])
def test_files_are_accepted_wherever_rows_are(rows, tmp_path, ask):
    for i, part in enumerate(np.array_split(rows, 3)):
        np.save(tmp_path / f"part-{i}.npy", part)
    np.save(tmp_path / "all.npy", rows)
    whole, parts = tmp_path / "all.npy", sorted(tmp_path.glob("part-*.npy"))
    expected = list(ask(rows))
    places = [str(whole), whole, str(tmp_path / "part-*.npy"), tmp_path / "part-*.npy", parts, tuple(map(str, parts)), Files(*parts)]
    for place in places:
        found = list(ask(place))
        assert len(found) == len(expected)
        for one, other in zip(found, expected):
            # Rows keep their precision; for one density they are normalised in double precision.
            np.testing.assert_allclose(one, other, rtol=1e-6, atol=1e-7)


def test_densities_of_files_are_accurate(rows, tmp_path):
    sparse = pytest.importorskip("scipy.sparse")
    tight = vmfkit.vonmises_fisher(MU, 1e9).rvs(500, random_state=1)
    for kappa, x in ((1e9, tight), (40.0, rows), (40.0, (1 + 9e-6) * rows.astype(np.float64)), (0.0, rows)):
        density = vmfkit.vonmises_fisher(MU, kappa)
        np.save(tmp_path / "x.npy", x)
        np.testing.assert_allclose(density.logpdf(tmp_path / "x.npy"), density.logpdf(x), rtol=1e-13, atol=1e-12)
        # Only the stored entries of a sparse row are used, so 1 - mu.x has an error of 1e-16.
        np.testing.assert_allclose(density.logpdf(sparse.csr_array(x)), density.logpdf(x), rtol=1e-12, atol=1e-12 + 1e-15 * kappa)


def test_errors_name_files_that_a_density_cannot_use(rows, tmp_path):
    np.save(tmp_path / "x.npy", 2 * rows)
    density = vmfkit.vonmises_fisher(MU, 3.0)
    with pytest.raises(ValueError, match="x.npy.*row 0 must have length 1"):
        density.logpdf(tmp_path / "x.npy")
    with pytest.raises(FileNotFoundError, match="no file matches the pattern"):
        density.pdf(str(tmp_path / "*.parquet"))
    np.save(tmp_path / "x.npy", rows)
    with pytest.raises(ValueError, match="expected dimension 3, found: `8`"):
        vmfkit.vonmises_fisher(np.eye(3)[0], 3.0).logpdf(tmp_path / "x.npy")
    # Concentrations broadcast with rows of files as with rows of arrays.
    for x in (rows, tmp_path / "x.npy"):
        with pytest.raises(ValueError, match="broadcast"):
            vmfkit.vonmises_fisher(MU, np.ones(3)).logpdf(x)


def test_densities_of_files_use_memory_for_one_batch(tmp_path):
    """A file of 256 MB with 65,536 rows, of which a few blocks of 32 MB are in memory at a time."""
    resource = pytest.importorskip("resource")
    program = """
import resource, sys, numpy as np, vmfkit
if len(sys.argv) > 2:
    rows = np.lib.format.open_memmap(sys.argv[1], "w+", np.float32, (1 << 16, 1024))
    rows[:, 0] = 1
    sys.exit()
density = vmfkit.vonmises_fisher(np.eye(1024)[0], 3.0)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
found = density.logpdf(sys.argv[1])
assert found.shape == (1 << 16,) and np.ptp(found) == 0
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024)
"""
    arguments = [sys.executable, "-c", program, tmp_path / "x.npy"]
    subprocess.run([*arguments, "write"], check=True)
    done = subprocess.run(arguments, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert float(done.stdout) < 200, "MB"


def test_columns_and_weights_of_files_can_be_chosen(rows, tmp_path):
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    weights = np.random.default_rng(1).uniform(0, 2, 2000)
    lists = pa.FixedSizeListArray.from_arrays(pa.array(rows.ravel()), 8)
    pq.write_table(pa.table({"embedding": lists, "other": lists, "w": weights}), tmp_path / "x.parquet")
    files = Files(tmp_path / "x.parquet", columns="embedding", weight_column="w")
    start = VonMisesFisherMixture(4, random_state=0).fit(rows).mean_directions_
    found = VonMisesFisherMixture(4, init=start).fit(files)
    expected = VonMisesFisherMixture(4, init=start).fit(rows, sample_weight=weights)
    np.testing.assert_allclose(found.concentrations_, expected.concentrations_, rtol=1e-12)
    assert "weight_column='w'" in repr(files)
    with pytest.raises(ValueError, match="columns"):
        VonMisesFisherMixture(4).fit(tmp_path / "x.parquet")


@pytest.mark.filterwarnings("ignore")
def test_a_weight_column_works_wherever_weights_do(rows, tmp_path):
    weights = np.random.default_rng(4).uniform(0, 2, 2000)
    table = np.column_stack([rows, weights])
    np.savetxt(tmp_path / "x.csv", table, delimiter=",", header=",".join("abcdefghw"), comments="", fmt="%.17g")
    files = Files(tmp_path / "x.csv", columns=list("abcdefgh"), weight_column="w")
    start = np.eye(8)[:4]
    model = SphericalKMeans(4, init=start, max_iter=5, tol=0)
    expected = model.fit(rows, sample_weight=weights).inertia_
    unweighted = model.inertia_ / weights.sum() * 2000
    assert model.fit(files).inertia_ == pytest.approx(expected, rel=1e-6) != pytest.approx(unweighted, rel=1e-3)
    assert model.score(files) == pytest.approx(-expected, rel=1e-6)
    stream = SphericalKMeans(4, init=start).partial_fit(files)
    other = SphericalKMeans(4, init=start).partial_fit(rows, sample_weight=weights)
    np.testing.assert_allclose(stream.cluster_centers_, other.cluster_centers_, atol=1e-6)
    assert stream.inertia_ == pytest.approx(other.inertia_, rel=1e-6)
    mixture = VonMisesFisherMixture(4, init=start).fit(rows)
    expected = mixture.score(rows, sample_weight=weights)
    assert mixture.score(files) == pytest.approx(expected, rel=1e-6) != pytest.approx(mixture.score(rows), rel=1e-6)
    for ask in (mixture.fit, mixture.score, model.fit, model.score, model.partial_fit):
        with pytest.raises(ValueError, match="found: `both`"):
            ask(files, sample_weight=weights)
        with pytest.raises(ValueError, match="must be an array with one weight per row, found: `2.0`"):
            ask(files, sample_weight=2.0)


def test_k_means_partial_fit_on_files(rows, tmp_path):
    parts = np.array_split(rows, 4)
    for i, part in enumerate(parts):
        np.save(tmp_path / f"part-{i}.npy", part)
    of_arrays, of_files, asked = (SphericalKMeans(4, random_state=0) for _ in range(3))
    for i, part in enumerate(parts):
        place = tmp_path / f"part-{i}.npy"
        of_arrays.partial_fit(part)
        of_files.partial_fit(place if i else [place])
        # The last rows are not new to the stream.
        asked = pickle.loads(pickle.dumps(asked)) if i == 2 else asked
        assert len(asked.partial_fit(place).labels_) == len(part)
    for model in (of_files, asked):
        np.testing.assert_array_equal(model.cluster_centers_, of_arrays.cluster_centers_)
        assert model.mixture_.to_bytes() == of_arrays.mixture_.to_bytes()
        assert model.n_iter_ == 4 and model.inertia_ == of_arrays.inertia_
    # After a fit to files, all of its rows count.
    fitted = [SphericalKMeans(4, random_state=0).fit(x).partial_fit(parts[0][:20]) for x in (rows, str(tmp_path / "part-*.npy"))]
    np.testing.assert_allclose(fitted[1].cluster_centers_, fitted[0].cluster_centers_, atol=1e-7)
    with pytest.raises(FileNotFoundError, match="nowhere"):
        of_files.partial_fit(tmp_path / "nowhere.npy")
    np.testing.assert_array_equal(of_files.cluster_centers_, of_arrays.cluster_centers_)
    np.save(tmp_path / "two.npy", rows[:2])
    with pytest.raises(ValueError, match="Expected n_samples >= 4 components, but got n_samples = 2"):
        SphericalKMeans(4).partial_fit(tmp_path / "two.npy")


def fits_of_weights(rows, weights):
    """Results of all methods for weighted rows."""
    start = np.eye(8)[:4]
    yield VonMisesFisherMixture(4, init=start, max_iter=5, tol=0).fit(rows, sample_weight=weights).mixture_
    yield VonMisesFisherMixture(4, init=start).partial_fit(rows, sample_weight=weights).mixture_
    yield SphericalKMeans(4, init=start, max_iter=5, tol=0).fit(rows, sample_weight=weights).mixture_
    mu, kappa = vmfkit.vonmises_fisher.fit(rows, weights)
    yield vmfkit.Mixture([1.0], [mu], [kappa])


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", ["npy", "csv"])
def test_sample_weight_works_with_files(rows, tmp_path, kind):
    rows = rows.astype(np.float64)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    weights = np.random.default_rng(3).uniform(0, 2, 2000)
    np.save(tmp_path / "x.npy", rows)
    np.savetxt(tmp_path / "x.csv", rows, delimiter=",", fmt="%.17g")
    place = tmp_path / f"x.{kind}"
    for of_file, of_array, unweighted in zip(*(fits_of_weights(*x) for x in ((place, weights), (rows, weights), (rows, None)))):
        np.testing.assert_allclose(of_file.concentrations, of_array.concentrations, rtol=1e-6)
        np.testing.assert_allclose(of_file.directions, of_array.directions, atol=1e-6)
        assert not np.allclose(of_file.concentrations, unweighted.concentrations, rtol=1e-4)
    for wrong in (weights[:-1], np.append(weights, 1)):
        with pytest.raises(ValueError, match=f"expected 2000 weights, one per row, found: `{len(wrong)}`"):
            VonMisesFisherMixture(4).fit(place, sample_weight=wrong)


def test_weights_must_come_from_one_source(rows, tmp_path):
    table = np.column_stack([rows, np.ones(2000)])
    np.savetxt(tmp_path / "x.csv", table, delimiter=",", header=",".join("abcdefghw"), comments="", fmt="%.17g")
    files = Files(tmp_path / "x.csv", columns=list("abcdefgh"), weight_column="w")
    with pytest.raises(ValueError, match="found: `both`"):
        VonMisesFisherMixture(4).fit(files, sample_weight=np.ones(2000))


def test_files_with_fewer_rows_than_components_are_refused(rows, tmp_path):
    np.save(tmp_path / "two.npy", rows[:2])
    for two in (rows[:2], tmp_path / "two.npy"):
        with pytest.raises(ValueError, match="Expected n_samples >= 5 components, but got n_samples = 2"):
            VonMisesFisherMixture(5).fit(two)


def test_a_mixture_accepts_the_rows_of_an_estimator(rows, tmp_path):
    sparse = pytest.importorskip("scipy.sparse")
    mixture = VonMisesFisherMixture(4, random_state=0).fit(rows).mixture_
    expected = mixture.ln_densities(rows)
    np.save(tmp_path / "x.npy", rows)
    same = (str(tmp_path / "x.npy"), tmp_path / "x.npy", [tmp_path / "x.npy"], np.asfortranarray(rows), rows.tolist(), sparse.csr_matrix(rows))
    for other in same:
        np.testing.assert_allclose(mixture.ln_densities(other), expected, rtol=1e-5)
        assert mixture.evaluate(other)["mean"] == pytest.approx(expected.mean(), rel=1e-5)
        np.testing.assert_array_equal(mixture.assign(other), mixture.assign(rows))
    np.testing.assert_allclose(mixture.ln_densities(rows.astype(np.float16), normalize=True), expected, atol=0.5)
    np.testing.assert_array_equal(mixture.assign(np.eye(8, dtype=int)), mixture.assign(np.eye(8)))
    assert mixture.evaluate(rows, weights=[1] * 2000) == mixture.evaluate(rows)
    made = vmfkit.Mixture([0.5, 0.5], [[1, 0], [0, 1]], [3, 4])
    assert made.weights.tolist() == [0.5, 0.5] and made.concentrations.tolist() == [3, 4]
    single = vmfkit.Mixture(np.float32([0.5, 0.5]), np.eye(2, dtype=np.float32), np.float32([3, 4]))
    assert single.to_bytes() == made.to_bytes()
    with pytest.raises(TypeError, match="weights must be numbers, found: `array of <U1`"):
        vmfkit.Mixture(["a", "b"], [[1, 0], [0, 1]], [3, 4])


def test_a_missing_or_broken_file_raises_a_builtin_error(tmp_path):
    with pytest.raises(FileNotFoundError, match="nowhere.npy"):
        VonMisesFisherMixture(2).fit(tmp_path / "nowhere.npy")
    with pytest.raises(FileNotFoundError, match="no file matches the pattern"):
        VonMisesFisherMixture(2).fit(str(tmp_path / "*.npy"))
    (tmp_path / "broken.npy").write_bytes(b"\x93NUMPY\x01\x00\x10")
    with pytest.raises(ValueError, match="broken.npy"):
        VonMisesFisherMixture(2).fit(tmp_path / "broken.npy")


def test_errors_name_wrong_rows(rows):
    broken = rows.copy()
    broken[17, 3] = np.nan
    with pytest.raises(ValueError, match="row 17, column 3"):
        _vmfkit.fit(broken, 2)
    with pytest.raises(ValueError, match="two axes"):
        _vmfkit.fit(rows[0], 2)
    with pytest.raises(TypeError, match="no such option, found: `learning_rate`"):
        _vmfkit.fit(rows, 2, learning_rate=0.1)
    with pytest.raises(ValueError, match="2000 weights"):
        _vmfkit.fit(rows, 2, np.ones(3))


def test_zero_row_error_can_be_pickled(rows):
    with pytest.raises(_vmfkit.ZeroRowError) as raised:
        _vmfkit.fit(np.zeros((3, 2)), 2)
    assert isinstance(raised.value, ValueError)
    assert isinstance(pickle.loads(pickle.dumps(raised.value)), _vmfkit.ZeroRowError)


def test_the_command_writes_the_same_model(rows, tmp_path, vmf):
    np.save(tmp_path / "x.npy", rows)
    subprocess.run([vmf, "fit", tmp_path / "x.npy", "-k", "4", "--seed", "7", "-o", tmp_path / "m.safetensors", "-q"], check=True)
    found = _vmfkit.fit(rows, 4, seed=7)
    assert found.mixture.to_bytes() == (tmp_path / "m.safetensors").read_bytes()
    model = VonMisesFisherMixture.load(tmp_path / "m.safetensors")
    np.testing.assert_array_equal(model.concentrations_, found.mixture.concentrations)
    model.save(tmp_path / "again.safetensors")
    assert (tmp_path / "again.safetensors").read_bytes() == (tmp_path / "m.safetensors").read_bytes()


def test_criteria_match_the_command(rows, tmp_path, vmf):
    np.save(tmp_path / "x.npy", rows)
    for policy, free in (("free", 4 * 8 + 3), ("shared", 4 * 7 + 1 + 3), ("fixed:50", 4 * 7 + 3)):
        command = [vmf, "fit", tmp_path / "x.npy", "-k", "4", "--policy", policy, "-o", tmp_path / "m.safetensors", "--json"]
        told = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
        model = VonMisesFisherMixture.load(tmp_path / "m.safetensors")
        assert model.mixture_.free_parameters == told["free_parameters"] == free
        for criterion in ("aic", "bic", "icl"):
            assert getattr(model, criterion)(tmp_path / "x.npy") == pytest.approx(told[criterion], rel=1e-9)


@pytest.mark.filterwarnings("ignore")
def test_weights_that_overflow_are_refused(rows):
    weights = np.ones(2000)
    weights[3] = 1e299
    message = "the weight of row 3 must be from 0 to 1e100, found: `1e299`"
    with pytest.raises(ValueError, match=message):
        list(fits_of_weights(rows, weights))
    for fit in (VonMisesFisherMixture(4).partial_fit, SphericalKMeans(4).fit):
        with pytest.raises(ValueError, match=message):
            fit(rows, sample_weight=weights)


def test_a_damaged_file_raises_one_exception():
    """A third-party decoder panics on this file; the panic is not printed."""
    place = Path(__file__).parents[2] / "testdata" / "hostile" / "panic.parquet"
    script = f"""
from vmfkit import VonMisesFisherMixture
try:
    VonMisesFisherMixture(2).fit({str(place)!r})
except ValueError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert "the file is damaged, found: `" in done.stdout and done.stderr == ""


def test_the_error_for_a_table_names_the_column_to_pass():
    pandas, polars, pyarrow = (pytest.importorskip(name) for name in ("pandas", "polars", "pyarrow"))
    rows = np.random.default_rng(1).normal(size=(20, 4))
    columns = {"id": list(range(20)), "text": ["a text"] * 20, "embedding": [row.tolist() for row in rows]}
    for table in (pandas.DataFrame(columns), polars.DataFrame(columns), pyarrow.table(columns)):
        with pytest.raises(ValueError, match=r"pass it alone, table\['embedding'\]. Columns found: `\['id', 'text', 'embedding'\]`"):
            vmfkit.SphericalKMeans(2).fit(table)
        assert vmfkit.SphericalKMeans(2, random_state=0).fit(table["embedding"]).labels_.shape == (20,)
        with pytest.raises(ValueError, match="lists of numbers, found text: `a text`|rows must be numbers, found text: `a text`"):
            vmfkit.SphericalKMeans(2).fit(table["text"])
    two = columns | {"title": columns["embedding"]}
    with pytest.raises(ValueError, match=r"pass one of \['embedding', 'title'\] alone"):
        vmfkit.VonMisesFisherMixture(2).fit(pandas.DataFrame(two))
    flat = {"text": ["a text"] * 20, "x": rows[:, 0], "y": rows[:, 1]}
    for table in (pandas.DataFrame(flat), polars.DataFrame(flat), pyarrow.table(flat)):
        with pytest.raises(ValueError, match=r"pass table\[\['x', 'y'\]\]. Columns that have no numbers: `\['text'\]`"):
            vmfkit.VonMisesFisherMixture(2).fit(table)
    assert vmfkit.VonMisesFisherMixture(2).fit(pandas.DataFrame(flat)[["x", "y"]]).n_features_in_ == 2


def test_messages_about_files_name_python_arguments(tmp_path):
    (tmp_path / "cities.csv").write_text("name,x,y\nParis,0.6,0.8\n")
    with pytest.raises(ValueError, match=r'`columns=\["x", "y"\]` reads the columns of numbers'):
        vmfkit.VonMisesFisherMixture(1).fit(tmp_path / "cities.csv")
    (tmp_path / "places.csv").write_text("name,Lat,Lon\nParis,48.9,2.4\n")
    with pytest.raises(ValueError, match='`angles="lat,lon"` reads the columns of angles'):
        vmfkit.VonMisesFisherMixture(1).fit(tmp_path / "places.csv")
    (tmp_path / "rows").write_text("1 0\n")
    with pytest.raises(ValueError, match='`format="tsv"` reads tabs, `format="csv"` commas'):
        vmfkit.VonMisesFisherMixture(1).fit(tmp_path / "rows")


def test_the_format_and_header_of_files_can_be_given(tmp_path):
    (tmp_path / "rows").write_text("1,0\n0.6,0.8\n0,1\n")
    for header, count in ((False, 3), (True, 2)):
        files = vmfkit.Files(tmp_path / "rows", format="csv", header=header)
        assert len(vmfkit.SphericalKMeans(1).fit(files).labels_) == count
    with pytest.raises(ValueError, match="unknown format `cvs`, expected one of npy"):
        vmfkit.SphericalKMeans(1).fit(vmfkit.Files(tmp_path / "rows", format="cvs"))


def test_texts_are_distinguished_from_file_names(tmp_path):
    with pytest.raises(FileNotFoundError, match="no file `the first text`. If they are texts, pass their embeddings"):
        vmfkit.VonMisesFisherMixture(2).fit(["the first text", "the second text"])
    with pytest.raises(FileNotFoundError, match="no file `hello`. If they are texts, pass their embeddings"):
        vmfkit.VonMisesFisherMixture(2).fit(["hello", "you"])
    with pytest.raises(ValueError, match="found text: `the first text`"):
        vmfkit.VonMisesFisherMixture(2).fit([["the first text", "the second text"]])
    with pytest.raises(ValueError, match="found text: `the first text`"):
        vmfkit.VonMisesFisherMixture(2).fit(np.array([["the first text", "the second text"]]))
    with pytest.raises(FileNotFoundError, match="missing.npy"):
        vmfkit.VonMisesFisherMixture(2).fit(str(tmp_path / "missing.npy"))
    np.save(tmp_path / "with a space.npy", np.eye(3))
    assert vmfkit.VonMisesFisherMixture(1).fit([str(tmp_path / "with a space.npy")]).n_features_in_ == 3


@pytest.mark.parametrize("wrong", ["3", True, np.datetime64("2020-01-01"), np.array(["3", "4"]), [True, False], [None, 1.0], 1j])
def test_concentrations_must_be_numbers(wrong):
    for call in (
        lambda: vmfkit.vonmises_fisher([1.0, 0.0], wrong),
        lambda: vmfkit.vonmises_fisher.logpdf([1.0, 0.0], [1.0, 0.0], wrong),
        lambda: vmfkit.special.iv_ratio(3, wrong),
        lambda: vmfkit.special.log_iv(wrong, 1.0),
        lambda: vmfkit.Mixture([0.5, 0.5], np.eye(2), np.atleast_1d(np.asarray(wrong))),
    ):
        with pytest.raises(TypeError, match="must be numbers"):
            call()


def test_all_kinds_of_numbers_are_concentrations():
    from fractions import Fraction

    for kappa in (3, np.int8(3), np.float32(3), np.float16(3), Fraction(3), np.array(3, object)):
        assert vmfkit.vonmises_fisher([1.0, 0.0], kappa).kappa == 3.0
    assert vmfkit.special.iv_ratio(np.float64(3.0), 2) == vmfkit.special.iv_ratio(3, 2.0)


def test_single_precision_weights_are_normalised():
    weights = np.random.default_rng(4).random(5000).astype(np.float32)
    weights /= weights.sum()
    assert abs(weights.astype(float).sum() - 1) > 1e-9
    mixture = vmfkit.Mixture(weights, np.tile(np.eye(2), (2500, 1)), np.ones(5000))
    assert mixture.weights.sum() == pytest.approx(1, abs=1e-12)
    with pytest.raises(ValueError, match="must sum to 1"):
        vmfkit.Mixture([0.333, 0.333, 0.333], np.eye(3), np.ones(3))
