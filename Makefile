# Every target does its own set-up: the virtual environment, the packages and, where Spark runs, Java.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

# Python keeps what it compiles, whatever the caller set: tests of the shell start it hundreds of times.
unexport PYTHONDONTWRITEBYTECODE

COUNT ?= 1000
SEED ?= 0

BENCHMARKS ?= allocation collocation collocation_priorities intervals key_splitting key_splitting_speed latency limits mclb mixed_routing papers plans prices spark_keys spark_stats

.PHONY: setup demo test coverage slow hostile lint docs transcripts notebooks bench ladder best-known outside verify certificates flink redis kafka storm surface kit dist clean java

setup: $(READY) java

$(READY): pyproject.toml constraints.txt
	@sh .ci/venv.sh "$(PYTHON)" $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev]'
	@touch $@

java:
	@sh .ci/java.sh

demo: setup
	$(BIN)/keyshift demo --out out

test: setup
	$(BIN)/python -m pytest -n 3 --dist worksteal

# The same, traced line by line, which takes half as long again; at least 90 % must be covered.
coverage: setup
	$(BIN)/python -m pytest -n 2 --dist worksteal --cov --cov-report=term:skip-covered --cov-fail-under=90

slow: setup
	$(BIN)/python -m pytest -m slow
	@if command -v mvn >/dev/null; then mvn -q -B -f engines/storm/pom.xml test; else echo "the engine of Storm is not tested: no Maven"; fi

# Hostile instances of every problem against an oracle of its own; run it again to go on where it stopped.
hostile: setup
	PYTHONPATH=tests $(BIN)/python -m hostile.refusals --out out/hostile
	PYTHONPATH=tests $(BIN)/python -m hostile --count $(COUNT) --seed $(SEED) --out out/hostile

# The types are checked on an installed copy: that is the layout users import, and it proves the wheel is whole.
lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	rm -rf build
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --upgrade --target build/typed .
	cd build/typed && MYPYPATH=. ../../$(BIN)/python -m mypy --config-file ../../pyproject.toml -p keyshift
	@sh .ci/scripts/check.sh

# What stands in the pages' source as printed by a shell must be what the shell prints now.
docs: setup
	$(BIN)/python docs/transcripts.py
	$(BIN)/python -m sphinx --fail-on-warning --keep-going -j 2 -b html docs docs/_build/html

# Run the pages' transcripts again and write what comes out, the catalogue of methods and the list of options too.
transcripts: setup
	$(BIN)/python docs/transcripts.py --write

# Every notebook that the site offers, in an environment of its own with nothing but what a reader installs. It takes a while.
READER := build/reader
notebooks: setup
	rm -rf $(READER)
	"$(PYTHON)" -m venv $(READER)
	$(READER)/bin/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt '.[demo]'
	$(BIN)/python docs/run_notebooks.py $(READER)/bin/python

bench: setup
	mkdir -p out/benchmarks
	for name in $(BENCHMARKS); do echo "== $$name"; $(BIN)/python benchmarks/$$name.py --quick --out out/benchmarks || exit 1; done

# How large can it be? Every problem up to a million key groups, a process each; it goes on where it was stopped. Some hours.
ladder: setup
	$(BIN)/python benchmarks/ladder.py --out out/benchmarks

# Draw every instance of the table of best known answers, check every answer, hold every bound against it.
best-known: setup
	$(BIN)/python benchmarks/best_known.py --check

# Benchmarks that others wrote, at full size, and graph partitioning beside KaHIP and Mt-KaHyPar.
outside: setup
	$(BIN)/python -m pip install --quiet --disable-pip-version-check '.[partition]' prtpy
	$(BIN)/python benchmarks/outside.py --out out/benchmarks

# Check the certificates of the best known answers by verify.py alone.
verify: setup
	$(BIN)/python benchmarks/best_known_certificates.py --check

# verify.py against brute force on a thousand tiny instances of every problem, and under every Python from 3.11 that is there.
certificates: setup
	$(BIN)/python -m pytest -q -n 2 --dist worksteal -m "slow or not slow" tests/interface/test_certificates.py -k "brute_force or every_python"

# A real Flink, in an environment of its own: keys, records, delays, state. Some 20 minutes; it needs a JDK, for javac.
FLINK := benchmarks/flink/.venv
$(FLINK)/.ready:
	"$(PYTHON)" -m venv $(FLINK)
	$(FLINK)/bin/python -m pip install --quiet --disable-pip-version-check apache-flink==2.3.0
	@touch $@

flink: setup $(FLINK)/.ready
	$(BIN)/python benchmarks/flink/key_groups.py
	mkdir -p out/benchmarks
	$(BIN)/python benchmarks/flink/live.py --out out/benchmarks

# A real Redis Cluster of six masters on this machine: apt-get install redis-server. Some 10 minutes.
redis: setup
	@if command -v redis-server >/dev/null; then $(BIN)/python benchmarks/redis/live.py --out out/benchmarks; \
	else echo "redis-server is not installed: apt-get install redis-server"; fi

# A real Kafka 4.3 of four brokers on this machine, from Maven Central, with Java 17; its client has an environment of its own.
# Some 7 minutes.
KAFKA := benchmarks/kafka/.venv
$(KAFKA)/.ready:
	"$(PYTHON)" -m venv $(KAFKA)
	$(KAFKA)/bin/python -m pip install --quiet --disable-pip-version-check confluent-kafka==2.16.1
	@touch $@

kafka: setup $(KAFKA)/.ready
	@command -v mvn >/dev/null && command -v javac >/dev/null || apt-get install --yes maven openjdk-17-jdk-headless
	$(BIN)/python benchmarks/kafka/live.py --out out/benchmarks

# A real Storm 2.8 on this machine, from Maven Central: groupings, plans that are carried out, killed workers. Two runs take an
# hour; RUNS=1 half of that, and a second start goes on where the first one ended. Java 17 and Maven are installed if they are not there.
RUNS ?= 2
storm: setup
	@command -v mvn >/dev/null && command -v javac >/dev/null || apt-get install --yes maven openjdk-17-jdk-headless
	$(BIN)/python benchmarks/storm/live.py --runs $(RUNS) --out out/benchmarks

# For lecturers: decks, workbook, sheets and projects as pages and PDF; the lessons as EPUB and PDF. PDF needs Chromium.
kit: setup
	$(BIN)/python docs/kit/build.py out/kit --pdf --course

# sdist and wheel of the last commit, twice byte for byte, and the README run on the wheel alone; into out/dist.
dist: $(READY)
	rm -rf out/dist
	$(BIN)/python .ci/dist.py out/dist

# The public surface as it is now; read the difference before committing it.
surface: $(READY)
	$(BIN)/python tests/support/public_surface.py

clean:
	rm -rf build out docs/_build $(VENV)
	find . -name "*.nb[ic]" -delete
