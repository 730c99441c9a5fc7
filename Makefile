# Every target does its own set-up: python, pip and make are all that a fresh machine needs.
#   make musts    the main job: every MUST rule on every model of the zoo, and on its counterexamples
#   make commands every command of `hierexport` on every model of the zoo but those below
#   make zoo-extra the rules on the models of timm, torchvision and diffusers, in an environment of its own
#   make test     the tests of the package
#   make lint     ruff, mypy, and the check of retired words
#   make bench    what the design promises about speed, measured
# ARGS goes to pytest (`make test ARGS='-k storage'`), PYTHON makes the environment, WORKERS run side by side.

PYTHON ?= python3
WORKERS ?= 2
ARGS ?=

# Left out: half precision, and models on which a check of a command fails: carry (clap_audio, llama_prefill, upernet,
# xclip), functions (recurrent), diverge (conditional). `make commands COMMANDED=` runs all.
COMMANDED ?= not (float16 or clap_audio or llama_prefill or upernet or xclip or recurrent or conditional)

VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed

EXTRA := .venv-extra

.PHONY: musts commands zoo-extra test lint bench clean

musts: $(INSTALLED)
	$(BIN)/python -m pytest musts --ignore=musts/test_commands.py --hierexport-models=all --hierexport-require-snapshots \
		-n $(WORKERS) $(ARGS)

commands: $(INSTALLED)
	$(BIN)/python -m pytest musts/test_commands.py --hierexport-models=all -m 'not hierexport' \
		-k '$(COMMANDED)' -n $(WORKERS) $(ARGS)

zoo-extra: $(EXTRA)/.installed
	$(EXTRA)/bin/python -m pytest pyproject.toml \
		--hierexport-models=family:timm,family:torchvision,family:diffusers --hierexport-require-snapshots \
		-n $(WORKERS) $(ARGS)

test: $(INSTALLED)
	$(BIN)/python -m pytest tests -n $(WORKERS) $(ARGS)

lint: $(INSTALLED)
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/python -m pytest tests/test_retired_words.py -q

bench: $(INSTALLED)
	$(BIN)/python benchmarks/import_cost.py
	$(BIN)/python benchmarks/export_overhead.py

# torch first and at the constraint's exact version: a looser one fetches several GB of CUDA packages.
$(INSTALLED): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet -c constraints.txt torch==2.13.0
	$(BIN)/python -m pip install --quiet -c constraints.txt -e '.[zoo,tools,test,dev]'
	touch $@

# torchvision is built for one version of torch alone.
$(EXTRA)/.installed: pyproject.toml
	$(PYTHON) -m venv $(EXTRA)
	$(EXTRA)/bin/python -m pip install --quiet torch==2.14.1 torchvision==0.29.1
	$(EXTRA)/bin/python -m pip install --quiet -e '.[zoo,timm,torchvision,diffusers,test]'
	touch $@

clean:
	rm -rf $(VENV) $(EXTRA)
