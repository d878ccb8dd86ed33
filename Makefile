# Every target makes the virtual environment it needs; nothing else has to be prepared.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
# Three for two cores: a test on real clusters waits a third of its time; quick ones wait less, but lint runs beside them.
WORKERS ?= 3
QUICK_WORKERS ?= 3
QUICK ?= -m "not real and not faults"
SEEDS ?= 5
VERDICTS := tests/faults/results.jsonl
# Failed tests run once more, alone; the file carries the flaky ones from one part of a run to the next (CONTRIBUTING.md).
FLAKY := $(VENV)/.flaky
RERUN := -p tests.flaky --flaky $(FLAKY)
# The real tests start some hundred JVMs of these, which start from archives of their classes in half the time.  They are
# fetched and made beside the quick tests.
ARCHIVED := 0.8.2.2 2.8.2 3.9.1 4.3.1 --spark
PKGS   := groundwork kafkawire zkconsumer groupadmin producer mirrormaker sparkpipeline localkafka

# Bytecode is kept, whatever the shell says: tests start hundreds of programs of ours, and each would compile all again.
# Libraries are compiled as they are loaded (--no-compile): pip would compile ten times as many modules.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: venv demo test quick archives check lint docs matrix bench faults soak fuzz simulate simulate-group audit requirements clean

$(STAMP): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	@echo "installing all extras into $(VENV), Spark among them: some hundred MB and a few minutes, once"
	$(BIN)/pip install -q --no-compile -e '.[dev]'
	touch $@

venv: $(STAMP)     ## .venv alone, with all extras

demo: $(STAMP)     ## the main job on real clusters: mirror, kill -9, prove that nothing was lost (KEEP=1 leaves them up)
	$(BIN)/python -m localkafka.demo $(if $(KEEP),--keep)

lint: $(STAMP)
	$(BIN)/ruff format --check $(PKGS) pyspark_kafka08.py setup.py tests benchmarks examples docs
	$(BIN)/ruff check $(PKGS) pyspark_kafka08.py setup.py tests benchmarks examples docs
	$(BIN)/mypy
	$(BIN)/mypy examples
	$(BIN)/lint-imports

check: $(STAMP)    ## format, lint, types, borders, and tests that need no JVM: a fifth of their examples, none that takes long
	$(MAKE) -j 2 lint quick QUICK='--few-examples -m "not real and not faults and not thorough"'

# These and lint run beside each other, in `make check` and as the first part of `make test`.
quick: $(STAMP)
	@# In a fresh checkout one process compiles the tests and what they import; else each worker would, beside the others.
	-@test -d tests/__pycache__ || $(BIN)/python -m pytest -q --collect-only -m "not real and not faults" >/dev/null
	@rm -f $(FLAKY)
	$(BIN)/python -m pytest -q $(RERUN) -n $(QUICK_WORKERS) --dist worksteal $(QUICK)

archives:
	$(BIN)/python -m localkafka.classdata $(ARCHIVED)

test: $(STAMP)     ## all that check does with all examples, then everything against real ZooKeeper, brokers and JVM clients
	$(MAKE) -j 3 lint quick archives
	FAULT_SLACK=3 $(BIN)/python -m pytest -q $(RERUN) -n $(WORKERS) --dist worksteal -m "real and (not faults or short)"

docs: $(STAMP)     ## the pages as a static site in build/site; a link that leads nowhere is an error
	$(BIN)/sphinx-build -q -W --keep-going -E -b html -c docs/site -d build/doctrees . build/site

matrix: $(STAMP)   ## mirrors between brokers of every release, 0.8 to 4.x, each killed at a third (an hour; JSON=FILE)
	$(BIN)/python -m tests.matrix $(if $(JSON),--json $(JSON))

faults: $(STAMP)   ## the fault matrix on real clusters, SEEDS=5 of each row (ONLY=f03: one row), and the longer scenarios; hours
	$(if $(ONLY),,rm -f $(VERDICTS))
	FAULT_SEEDS=$(SEEDS) $(if $(ONLY),,FAULT_REPORT=$(VERDICTS)) $(BIN)/python -m pytest -q -m faults -o faulthandler_timeout=0 \
		$(if $(ONLY),-k $(ONLY)); status=$$?; $(if $(ONLY),,$(BIN)/python -m tests.faults.report;) exit $$status

soak: $(STAMP)     ## random faults on two mirrors under load (MINUTES=60, SEED=n repeats one); the report goes to docs/reliability.md
	$(BIN)/python -m tests.faults.soak --minutes $(or $(MINUTES),60) $(if $(SEED),--seed $(SEED))

fuzz: $(STAMP)     ## decoders, readers of files and nodes, servers with mutated bytes (MINUTES=10 in all, or INPUTS=1000000 each)
	$(BIN)/python -m tests.fuzz $(if $(INPUTS),--inputs $(INPUTS),--minutes $(or $(MINUTES),10)) $(if $(SEED),--seed $(SEED))

simulate: $(STAMP) ## whole mirrors in virtual time, with faults by seed (SCHEDULES=1000 or MINUTES=10; SEED=1; MODE=exactly-once; MUTATION=...; STORY=1 tells one)
	$(BIN)/python -m tests.simulation.mirrors $(if $(MINUTES),--minutes $(MINUTES),--schedules $(or $(SCHEDULES),1000)) --seed $(or $(SEED),1) $(if $(MODE),--mode $(MODE)) $(if $(MUTATION),--mutation "$(MUTATION)") $(if $(STORY),--story)

simulate-group: $(STAMP) ## the members of a group alone, several times as fast (SCHEDULES=10000; SEED=1; MUTATION="no fence"; MORE=disk; STORY=1 tells one)
	$(BIN)/python -m tests.simulation --schedules $(or $(SCHEDULES),10000) --seed $(or $(SEED),1) $(if $(MUTATION),--mutation "$(MUTATION)") $(if $(MORE),--more "$(MORE)") $(if $(STORY),--story)

audit: $(STAMP)    ## known vulnerabilities of what is installed here (pip-audit, in an environment of its own)
	$(BIN)/python -m tests.security.audit

requirements: $(STAMP)   ## versions and hashes of what the images install, newest within the ranges (conf/docker/requirements)
	$(BIN)/python -m tests.security.requirements

bench: $(STAMP)    ## ratios against the JVM and other clients in one run, a summary, docs/performance.md (FULL=1: an hour)
	$(BIN)/python benchmarks/run.py $(if $(FULL),--full) $(if $(ONLY),--only $(ONLY))

clean:
	rm -rf $(VENV) .audit build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find $(PKGS) tests benchmarks examples -name __pycache__ -type d -prune -exec rm -rf {} +
