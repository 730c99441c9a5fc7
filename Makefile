# Every target does its own set-up: python, pip and make are all that a fresh machine needs.
#   make musts    the main job: every MUST rule on every model of the zoo, and on its counterexamples
#   make commands every command of `hierexport` on every model of the zoo but those below
#   make test     the tests of the package
#   make lint     ruff, mypy, and the check of retired words
#   make bench    what the design promises about speed, measured
#   make site     the pages of docs/ as a site, in site/; fails at a broken link
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
# The site has an environment of its own: it needs neither torch nor the package.
SITE_VENV := .venv-site
SITE_INSTALLED := $(SITE_VENV)/.installed

.PHONY: musts commands test lint bench site clean

musts: $(INSTALLED)
	$(BIN)/python -m pytest musts --ignore=musts/test_commands.py --hierexport-models=all --hierexport-require-snapshots \
		-n $(WORKERS) $(ARGS)

commands: $(INSTALLED)
	$(BIN)/python -m pytest musts/test_commands.py --hierexport-models=all -m 'not hierexport' \
		-k '$(COMMANDED)' -n $(WORKERS) $(ARGS)

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

site: $(SITE_INSTALLED)
	NO_MKDOCS_2_WARNING=1 $(SITE_VENV)/bin/mkdocs build --strict

$(SITE_INSTALLED): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(SITE_VENV)
	$(SITE_VENV)/bin/python -c 'import tomllib; extras = tomllib.load(open("pyproject.toml", "rb"))["project"]; \
		print("\n".join(extras["optional-dependencies"]["docs"]))' > $(SITE_VENV)/requirements.txt
	$(SITE_VENV)/bin/python -m pip install --quiet -c constraints.txt -r $(SITE_VENV)/requirements.txt
	touch $@

# torch first and at the constraint's exact version: a looser one fetches several GB of CUDA packages.
$(INSTALLED): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet -c constraints.txt torch==2.13.0
	$(BIN)/python -m pip install --quiet -c constraints.txt -e '.[zoo,tools,test,dev]'
	touch $@

clean:
	rm -rf $(VENV) $(SITE_VENV) site
