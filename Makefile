# make test            all tests; make test-torch: those of vmfkit.torch and vmfkit.jax
# make test-32-bit     the core on 32 bits and in WebAssembly
# make lint            formatting, clippy and documentation
# make compare         accuracy, speed and quality compared with other libraries; also compare-kernels, compare-python, compare-images
# make compare-builds two builds compared, in the folders BEFORE and AFTER
# make quality         clustering of labelled data
# make bench           benchmarks of the core
# make fuzz            malformed files, MINUTES for each reader
# make out-of-core     a fit of a file of 20 GB in the folder SCRATCH
.DELETE_ON_ERROR:
.PHONY: test test-32-bit test-python run-python-tests test-torch wheel lint compare compare-kernels compare-builds compare-python compare-images quality calibration bench fuzz out-of-core

VENV := .venv
PYTHON := $(VENV)/bin/python
RELEASE := $(or $(CARGO_TARGET_DIR),target)/release

# Requirements of the Python scripts; installed again when a list changes.
$(VENV)/ready: testdata/requirements.txt
	python3 -m venv $(VENV)
	$(PYTHON) -m pip install --quiet --disable-pip-version-check -r testdata/requirements.txt
	touch $@

$(VENV)/compare-ready: $(VENV)/ready compare/requirements.txt
	$(PYTHON) -m pip install --quiet --disable-pip-version-check -r compare/requirements.txt
	touch $@

# Crates with neural networks, tested separately: the features of their dependencies would change those of all others.
NETWORKS := vmfkit-nn reproduce

# An object store has many dependencies, so its tests are built without optimisation.
OBJECT_STORE := vmfkit-io/object-store,vmfkit-cli/object-store

# Examples that check their own results. `cargo test` builds them; `cargo run` would build the crates again with other features.
EXAMPLES := custom_source ndarray nalgebra streaming

test: $(VENV)/ready
	cargo test --release --workspace $(NETWORKS:%=--exclude %) --features vmfkit/ndarray --locked
	for example in $(EXAMPLES); do $(RELEASE)/examples/$$example || exit 1; done
	CARGO_PROFILE_DEV_DEBUG=0 cargo test -p vmfkit-io -p vmfkit-cli --lib --test suite --features $(OBJECT_STORE) --locked object_store
	cargo test --release $(NETWORKS:%=-p %) --features vmfkit-nn/candle --locked
	$(PYTHON) testdata/bessel_series.py --check
	$(PYTHON) testdata/normal_layers.py --check
	$(PYTHON) testdata/check_with_numpy.py $(RELEASE)/vmf
	$(RELEASE)/examples/write_columnar $(RELEASE)/written
	$(PYTHON) testdata/check_columnar.py $(RELEASE)/written
	$(MAKE) run-python-tests

# The core on machines of 32 bits, and in WebAssembly with node. Needs `rustup target add i686-unknown-linux-gnu wasm32-unknown-unknown`.
test-32-bit:
	cargo check --release -p vmfkit --locked --target i686-unknown-linux-gnu
	cd crates/vmfkit/tests/wasm && cargo build --release --target wasm32-unknown-unknown --target-dir $(abspath $(or $(CARGO_TARGET_DIR),target))
	node crates/vmfkit/tests/wasm/run.mjs $(or $(CARGO_TARGET_DIR),target)/wasm32-unknown-unknown/release/vmfkit_wasm_test.wasm

# The Python package as users get it: a wheel in a separate environment, with the newest and with the oldest dependencies.
WHEELS := $(or $(CARGO_TARGET_DIR),target)/wheels
PYTEST := VMFKIT_COMMAND=$(abspath $(RELEASE)/vmf) bin/python -m pytest -p no:cacheprovider $(abspath python/tests)

$(VENV)/maturin-ready: $(VENV)/ready
	$(PYTHON) -m pip install --quiet --disable-pip-version-check 'maturin>=1.9,<2'
	touch $@

wheel: $(VENV)/maturin-ready
	rm -rf $(WHEELS)
	$(PYTHON) -m maturin build --release --locked --quiet --manifest-path python/Cargo.toml --out $(WHEELS)
	$(PYTHON) -m maturin sdist --manifest-path python/Cargo.toml --out $(WHEELS)

test-python:
	cargo build --release --locked
	$(MAKE) run-python-tests

# With the command that was built before: `cargo build` after `cargo test` would build the crates again with other features.
run-python-tests: wheel
	python3 -m venv --clear $(VENV)-python
	$(VENV)-python/bin/pip install --quiet --disable-pip-version-check "$$(ls $(WHEELS)/*.whl)[test]"
	cd $(VENV)-python && $(PYTEST)
	python3 -m venv --clear $(VENV)-oldest
	$(VENV)-oldest/bin/pip install --quiet --disable-pip-version-check "$$(ls $(WHEELS)/*.whl)" -r python/oldest.txt
	cd $(VENV)-oldest && $(PYTEST)/test_sklearn.py

# PyTorch and JAX are large downloads, so this environment is kept.
$(VENV)-torch/ready: python/pyproject.toml
	python3 -m venv $(VENV)-torch
	$(VENV)-torch/bin/pip install --quiet --disable-pip-version-check torch 'jax[cpu]' pytest scikit-learn scipy matplotlib pandas 'mpmath<1.4'
	touch $@

test-torch: wheel $(VENV)-torch/ready
	$(VENV)-torch/bin/pip install --quiet --disable-pip-version-check --force-reinstall --no-deps $(WHEELS)/*.whl
	cd $(VENV)-torch && $(PYTEST)/test_torch.py $(abspath python/tests/test_jax.py) $(abspath python/tests/test_package.py)

lint:
	cargo fmt --all --check
	cargo clippy --release --workspace --all-targets --features compare/kernels,vmfkit/ndarray,vmfkit-nn/candle,$(OBJECT_STORE) --locked -- -D warnings
	cargo clippy --release -p vmfkit-nn --lib --no-default-features --features candle --locked -- -D warnings
	RUSTDOCFLAGS="-D warnings" cargo doc --release --workspace --no-deps --features vmfkit/ndarray,vmfkit-nn/candle --locked

# With TORCH=1 also the paper's loops in PyTorch, which is installed for this.
compare: $(VENV)/compare-ready
	$(if $(TORCH),$(PYTHON) -m pip install --quiet --disable-pip-version-check torch)
	cargo build --release -p compare --locked
	$(PYTHON) compare/run.py $(RELEASE)/compare
	cd compare && ../$(PYTHON) -m unittest --quiet test_mixture
	$(PYTHON) compare/mixture.py $(RELEASE)/compare --output compare/MIXTURE.md

# The matrix kernels compared with the crates gemm and faer.
compare-kernels:
	cargo build --release -p compare --features kernels --locked
	$(RELEASE)/compare kernels > compare/KERNELS.md

# Two builds compared: BEFORE and AFTER are folders with the programs `compare` and `vmf`.
compare-builds: $(VENV)/compare-ready
	$(PYTHON) compare/builds.py $(BEFORE) $(AFTER) $(or $(SCRATCH),target)

# Overhead of the Python package over the Rust calls, compared with scipy and mpmath; and its log-normaliser in PyTorch and JAX.
compare-python: wheel $(VENV)-torch/ready
	$(VENV)-torch/bin/pip install --quiet --disable-pip-version-check --force-reinstall --no-deps $(WHEELS)/*.whl
	$(VENV)-torch/bin/python compare/python_package.py
	$(VENV)-torch/bin/python compare/python_torch.py

# An epoch of the autoencoder and the fit of its latent space, compared with PyTorch; CIFAR10 is the folder of the binary version.
compare-images: $(VENV)-torch/ready
	cargo build --release -p reproduce --locked
	$(VENV)-torch/bin/python compare/image_clusters.py $(RELEASE)/reproduce $(CIFAR10)

# The tables of docs/quality.md, from the labelled data sets in the folder VMFKIT_DATA.
quality: $(VENV)/compare-ready
	cargo build --release -p compare --locked
	$(PYTHON) compare/quality.py $(RELEASE)/compare $(VMFKIT_DATA) --output docs/quality.md

# docs/calibration.md and its picture, from the labelled data sets in the folder VMFKIT_DATA.
calibration: $(VENV)/compare-ready
	cargo build --release -p compare --locked
	$(PYTHON) compare/calibration.py $(RELEASE)/compare $(VMFKIT_DATA) --output docs/calibration.md --image docs/images/reliability.svg

bench:
	cargo bench -p vmfkit -p vmfkit-special

# Needs `cargo install cargo-fuzz`, and runs with the stable compiler. Findings are stored in fuzz/artifacts.
MINUTES := 3
fuzz:
	cargo build --release -p vmfkit-cli --locked
	fuzz/seeds.sh $(RELEASE)/vmf
	cd fuzz && cargo fuzz build -s none
	cd fuzz && for target in npy stream parquet_file arrow_file npz_file safetensors_file model checkpoint statistics part_statistics; do \
	  cargo fuzz run $$target -s none -- -max_total_time=$$((60 * $(MINUTES))) -rss_limit_mb=512 -malloc_limit_mb=256 \
	    -timeout=10 -print_final_stats=1 || exit 1; done

out-of-core: $(VENV)/compare-ready
	cargo build --release --locked
	$(PYTHON) compare/out_of_core.py $(RELEASE)/vmf $(or $(SCRATCH),target) --output compare/OUT_OF_CORE.md \
	  --methods-output compare/OUT_OF_CORE_METHODS.md
