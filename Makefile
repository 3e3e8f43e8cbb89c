# One command each: `make test` (everything that must hold), `make lint`, `make compare` (beside the peers), `make quality` (labelled
# data), `make bench`, `make fuzz` (hostile bytes, MINUTES for each reader), `make out-of-core` (a fit of a file of 20 GB, written to the
# folder SCRATCH).
.DELETE_ON_ERROR:
.PHONY: test lint compare quality bench fuzz out-of-core

VENV := .venv
PYTHON := $(VENV)/bin/python
RELEASE := $(or $(CARGO_TARGET_DIR),target)/release

# What the Python scripts need; made anew when a list changes.
$(VENV)/ready: testdata/requirements.txt
	python3 -m venv $(VENV)
	$(PYTHON) -m pip install --quiet --disable-pip-version-check -r testdata/requirements.txt
	touch $@

$(VENV)/compare-ready: $(VENV)/ready compare/requirements.txt
	$(PYTHON) -m pip install --quiet --disable-pip-version-check -r compare/requirements.txt
	touch $@

test: $(VENV)/ready
	cargo test --release --workspace --locked
	$(PYTHON) testdata/bessel_series.py --check
	$(PYTHON) testdata/normal_layers.py --check
	$(PYTHON) testdata/check_with_numpy.py $(RELEASE)/vmf
	cargo run --release --quiet -p vmfkit-data --example write_columnar --locked -- $(RELEASE)/written
	$(PYTHON) testdata/check_columnar.py $(RELEASE)/written

lint:
	cargo fmt --all --check
	cargo clippy --release --workspace --all-targets --locked -- -D warnings
	RUSTDOCFLAGS="-D warnings" cargo doc --release --workspace --no-deps --locked

compare: $(VENV)/compare-ready
	cargo build --release -p compare --locked
	$(PYTHON) compare/run.py $(RELEASE)/compare
	cd compare && ../$(PYTHON) -m unittest --quiet test_mixture
	$(PYTHON) compare/mixture.py $(RELEASE)/compare --output compare/MIXTURE.md

# The tables of docs/quality.md, from the labelled data sets in the folder VMFKIT_DATA.
quality: $(VENV)/compare-ready
	cargo build --release -p compare --locked
	$(PYTHON) compare/quality.py $(RELEASE)/compare $(VMFKIT_DATA) --output docs/quality.md

bench:
	cargo bench -p vmfkit

# Needs `cargo install cargo-fuzz`, and runs with the stable compiler. What a target finds is left in fuzz/artifacts.
MINUTES := 3
fuzz:
	cargo build --release -p vmfkit-cli --locked
	fuzz/seeds.sh $(RELEASE)/vmf
	cd fuzz && cargo fuzz build -s none
	cd fuzz && for target in npy stream model checkpoint statistics part_statistics; do \
	  cargo fuzz run $$target -s none -- -max_total_time=$$((60 * $(MINUTES))) -rss_limit_mb=512 -malloc_limit_mb=256 \
	    -print_final_stats=1 || exit 1; done

out-of-core: $(VENV)/compare-ready
	cargo build --release --locked
	$(PYTHON) compare/out_of_core.py $(RELEASE)/vmf $(or $(SCRATCH),target) --output compare/OUT_OF_CORE.md
