"""Available memory and files."""

import os
import subprocess
import sys
import textwrap

import numpy as np
import pytest

from vmfkit import _vmfkit
from vmfkit.sklearn import VonMisesFisherMixture


def rows(count=200):
    made = np.random.default_rng(0).normal(size=(count, 3))
    return made / np.linalg.norm(made, axis=1, keepdims=True)


@pytest.mark.skipif(sys.platform != "linux", reason="limits are those of Linux")
def test_default_memory_respects_process_limits():
    code = """
        import resource
        from vmfkit import _vmfkit
        before = _vmfkit.available_memory()
        with open("/proc/self/status") as status:
            used = next(int(line.split()[1]) for line in status if line.startswith("VmSize:")) * 1024
        resource.setrlimit(resource.RLIMIT_AS, (used + 300_000_000, resource.RLIM_INFINITY))
        after = _vmfkit.available_memory()
        assert 200_000_000 < after <= 300_000_000 and after <= before, (before, after)
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(code)], check=True)


def test_a_model_file_is_replaced_atomically(tmp_path):
    path = tmp_path / "model.safetensors"
    path.write_bytes(b"before")
    model = VonMisesFisherMixture(2, random_state=0).fit(rows())
    model.save(path)
    assert path.read_bytes() == model.mixture_.to_bytes()
    assert os.listdir(tmp_path) == ["model.safetensors"]
    with pytest.raises(FileNotFoundError, match="missing"):
        model.save(tmp_path / "missing" / "model.safetensors")


def test_damaged_models_are_refused():
    model = VonMisesFisherMixture(2, random_state=0).fit(rows())
    data = bytearray(model.mixture_.to_bytes())
    data[-1] ^= 1
    with pytest.raises(ValueError, match="the file is damaged: its checksum must be "):
        _vmfkit.Mixture.from_bytes(bytes(data))


def test_the_checksum_is_the_documented_one():
    xxhash = pytest.importorskip("xxhash")
    import re

    data = VonMisesFisherMixture(2, random_state=0).fit(rows()).mixture_.to_bytes()
    start, end = re.search(rb'"checksum":"([0-9a-f]{16})"', data).span(1)
    assert xxhash.xxh3_64_hexdigest(data[:start] + b"0" * 16 + data[end:]) == data[start:end].decode()
