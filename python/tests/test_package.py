"""The package: types, version, examples in the documentation."""

import re
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pytest

import vmfkit

ROOT = Path(__file__).resolve().parents[2]


def test_stubs_match_the_module():
    pytest.importorskip("mypy")
    done = subprocess.run([sys.executable, "-m", "mypy.stubtest", "vmfkit._vmfkit"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_version_matches_the_distribution():
    assert vmfkit.__version__ == version("vmfkit")


def test_all_public_names_exist():
    for name in vmfkit.__all__:
        assert getattr(vmfkit, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        vmfkit.nothing


def test_lazy_names_are_listed_and_found():
    program = """
import sys, vmfkit
assert {"VonMisesFisherMixture", "SphericalKMeans", "plot", "sklearn", "torch", "jax"} <= set(dir(vmfkit))
assert "sklearn" not in sys.modules and "vmfkit.sklearn" not in sys.modules
assert vmfkit.sklearn.SphericalKMeans is vmfkit.SphericalKMeans
assert issubclass(vmfkit.ZeroRowError, ValueError)
sys.modules["torch"] = None  # as where it is not installed
assert not hasattr(vmfkit, "torch")
try:
    from vmfkit import torch
except ImportError as error:
    assert "vmfkit.torch needs PyTorch" in str(error)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_type_checkers_know_the_estimators(tmp_path):
    pytest.importorskip("mypy")
    (tmp_path / "use.py").write_text("from vmfkit import VonMisesFisherMixture\nimport vmfkit\nreveal_type(VonMisesFisherMixture(2).predict)\n")
    command = [sys.executable, "-m", "mypy", "--ignore-missing-imports", "--no-incremental", "use.py"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert "ndarray" in done.stdout, done.stdout + done.stderr


PAGES = [path for path in (ROOT / "README.md", ROOT / "python/README.md", *sorted((ROOT / "docs").glob("*.md"))) if path.exists()]
PAGES = [path for path in PAGES if "```python" in path.read_text()]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_examples_of_pages_run(page, tmp_path, monkeypatch):
    """Runs all blocks of a page in order, in a folder with a model file as the command writes it."""
    monkeypatch.chdir(tmp_path)
    rows = vmfkit.vonmises_fisher(np.eye(3)[0], 5.0).rvs(200, random_state=1)
    Path("model.safetensors").write_bytes(vmfkit._vmfkit.fit(rows, 2).mixture.to_bytes())
    blocks = re.findall(r"^```python\n(.*?)^```", page.read_text(), re.M | re.S)
    code = "\n".join(blocks)
    for name in ("jax", "matplotlib", "pandas", "polars", "pyarrow", "safetensors", "sklearn", "torch"):
        if re.search(rf"^\s*(import|from) (vmfkit\.)?{name}\b", code, re.M):
            pytest.importorskip(name)
    if "plot" in code:
        pytest.importorskip("matplotlib").use("Agg")
    exec(compile(code, str(page), "exec"), {"__name__": "example", "rows": rows})


def test_threads_are_set_by_argument_and_environment():
    program = "import vmfkit; print(vmfkit.threads()); vmfkit.set_threads(3); print(vmfkit.threads())"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env={"VMFKIT_NUM_THREADS": "5", "PATH": ""})
    assert done.stdout.split() == ["5", "3"], done.stderr
