# Every target does its own set-up: python, pip and make are all that a fresh machine needs.
#   make musts    the main job: every MUST rule on every model of the zoo; what has not changed is not run again
#   make counterexamples  the models and exporters that each rule must catch, and their repaired twins
#   make commands every command of `hierexport` on every model of the zoo
#   make validation  musts and commands in one run, where each model is exported once for both
#   make zoo-extra the rules on the models of timm, torchvision and diffusers, in an environment of its own
#   make test     the tests of the package
#   make browser  the tests of the HTML report in Chromium, which `apt-get install chromium chromium-driver` gives
#   make lint     ruff, mypy, and the check of retired words
#   make bench    what the design promises about speed, measured: the figures of docs/benchmarks.md
#   make matrix   the installed wheel beside other versions of Python, torch, ONNX and pytest (docs/versions.md)
#   make wheel-test  the tests on the installed wheel, with the package's source out of reach
#   make site     the pages of docs/ as a site, in site/; fails at a broken link within it
#   make links    asks for the addresses of other servers that the pages link to; needs a network
# ARGS goes to pytest (`make test ARGS='-k storage'`), PYTHON makes the environment, WORKERS run side by side.

PYTHON ?= python3
WORKERS ?= 2
ARGS ?=
FIGURES ?= .bench

VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
# The site has an environment of its own: it needs neither torch nor the package.
SITE_VENV := .venv-site
SITE_INSTALLED := $(SITE_VENV)/.installed

# Of `make matrix`: see benchmarks/matrix.py.
ROWS ?=
MODELS ?=
TESTS ?=
TORCH ?=
ON ?=

EXTRA := .venv-extra

.PHONY: musts counterexamples commands validation zoo-extra test browser lint bench site links matrix wheel-test clean

musts: $(INSTALLED)
	$(BIN)/python -m pytest pyproject.toml --hierexport-models=all --hierexport-require-snapshots \
		--hierexport-cache=.hierexport/cache -n $(WORKERS) $(ARGS)

counterexamples: $(INSTALLED)
	$(BIN)/python -m pytest musts --ignore=musts/test_commands.py -n $(WORKERS) --dist worksteal $(ARGS)

commands: $(INSTALLED)
	$(BIN)/python -m pytest musts/test_commands.py --hierexport-models=all -m 'not hierexport' -n $(WORKERS) $(ARGS)

validation: $(INSTALLED)
	$(BIN)/python -m pytest pyproject.toml musts/test_commands.py --hierexport-models=all \
		--hierexport-require-snapshots -n $(WORKERS) $(ARGS)

zoo-extra: $(EXTRA)/.installed
	$(EXTRA)/bin/python -m pytest pyproject.toml \
		--hierexport-models=family:timm,family:torchvision,family:diffusers --hierexport-require-snapshots \
		-n $(WORKERS) $(ARGS)

test: $(INSTALLED)
	$(BIN)/python -m pytest tests -n $(WORKERS) $(ARGS)

browser: $(INSTALLED)
	$(BIN)/python -m pytest tests/test_report_browser.py $(ARGS)

lint: $(INSTALLED)
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/python -m pytest tests/test_retired_words.py -q

bench: $(INSTALLED)
	$(BIN)/python -m pip install --quiet -c constraints.txt -e '.[bench]'
	$(BIN)/python -m benchmarks.everything $(FIGURES) $(ARGS)

matrix: $(INSTALLED)
	$(BIN)/python benchmarks/matrix.py --workers $(WORKERS) $(if $(ROWS),--rows $(ROWS)) $(if $(MODELS),--models $(MODELS)) \
		$(if $(TESTS),--tests $(TESTS)) $(if $(TORCH),--torch $(TORCH)) $(if $(ON),--python $(ON))

wheel-test: $(INSTALLED)
	$(BIN)/python benchmarks/matrix.py --workers $(WORKERS) --rows locked --python $(BIN)/python --tests tests

site: $(SITE_INSTALLED)
	NO_MKDOCS_2_WARNING=1 $(SITE_VENV)/bin/mkdocs build --strict

links: $(SITE_INSTALLED)
	$(SITE_VENV)/bin/python benchmarks/links.py $(ARGS)

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

# torchvision is built for one version of torch alone.
$(EXTRA)/.installed: pyproject.toml
	$(PYTHON) -m venv $(EXTRA)
	$(EXTRA)/bin/python -m pip install --quiet torch==2.14.1 torchvision==0.29.1
	$(EXTRA)/bin/python -m pip install --quiet -e '.[zoo,timm,torchvision,diffusers,test]'
	touch $@

clean:
	rm -rf $(VENV) $(EXTRA) $(SITE_VENV) site
