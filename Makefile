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

.PHONY: help install test fast thorough check format wheels docs site demo calculator guess blackjack frozenlake learn curriculum alarms troubleshooting claims curves preferences distill moe parity killtest ahead beside bytes memory vllmtest fuzz counts bench gpu gpuday profile growth speed loggers stack clean
.DEFAULT_GOAL := help

help:  ## this list
	@sed -n 's/^\([a-z]*\):.*##  *\(.*\)/make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 20

install: $(STAMP)  ## make a virtual environment in .venv with the core and every plugin, editable (PYTHON=python3.13: in .venv-3.13)

$(STAMP): constraints.txt $(PROJECTS)
	$(call installed,-e '.[dev]' $(PLUGINS))
	@test -n "$(COMPILER)" || echo "no C compiler on the path, so that reasoning-gym is left out: lightrl-reasoning-gym[full] needs one"
	touch $(DEMO) $@

$(DEMO): constraints.txt pyproject.toml plugins/lightrl-grpo/pyproject.toml plugins/lightrl-runs/pyproject.toml
	$(call installed,-e . -e plugins/lightrl-grpo -e plugins/lightrl-runs)
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

test: $(STAMP)  ## run the tests of the core and of every plugin
	HF_HUB_OFFLINE=1 $(BIN)/python -m pytest -n $(JOBS) --dist worksteal

fast: $(STAMP)  ## run the tests that take less than ten seconds each
	HF_HUB_OFFLINE=1 $(BIN)/python -m pytest -n $(JOBS) --dist worksteal -m 'not slow and not thorough'

thorough: $(STAMP)  ## what make test leaves out: packaging, further strategies, ends of runs
	HF_HUB_OFFLINE=1 $(BIN)/python -m pytest -n $(JOBS) --dist worksteal -m thorough

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

demo: $(DEMO)  ## train a small policy to sort digits, in an environment with what that needs (SEED=0)
	$(BIN)/python examples/sort_demo.py --seed $(SEED)

calculator: $(STAMP)  ## train a small policy that cannot add to call a calculator (SEED=0)
	$(BIN)/python -m benchmarks.learning.calculator --seed $(SEED)

guess: $(STAMP)  ## train a small policy that guesses at random to search (SEED=0)
	$(BIN)/python -m benchmarks.learning.guess --seed $(SEED)

blackjack: $(STAMP)  ## train a small policy that plays Blackjack at random, beside the best play (SEED=0)
	$(BIN)/python -m benchmarks.learning.blackjack --seed $(SEED)

frozenlake: $(STAMP)  ## train a small policy that walks on a frozen lake at random, beside the best walk (SEED=0)
	$(BIN)/python -m benchmarks.learning.frozenlake --seed $(SEED)

learn: $(STAMP)  ## train every online algorithm to sort digits (LEARN="--only grpo --seeds 0")
	$(BIN)/python -m benchmarks.learning.learn $(LEARN)

preferences: $(STAMP)  ## compare objectives on given answers with PPO and GRPO (PREFERENCES="--only dpo ppo --seeds 0 1 2 3 4")
	$(BIN)/python -m benchmarks.learning.preferences $(PREFERENCES)

curriculum: $(STAMP)  ## count the tokens that samplers need to learn tasks of mixed difficulty
	$(BIN)/python -m benchmarks.learning.curriculum

distill: $(STAMP)  ## count completions until a student nears its teacher, beside GRPO (DISTILL="--only grpo distill --seeds 0")
	HF_HUB_OFFLINE=1 $(BIN)/python -m benchmarks.learning.distill $(DISTILL)

moe: $(STAMP)  ## train a mixture of experts by GRPO, GRPO with routing replay and GSPO (MOE="--only moe_grpo --seeds 0")
	HF_HUB_OFFLINE=1 $(BIN)/python -m benchmarks.learning.moe $(MOE)

alarms: $(STAMP)  ## test that ten runs with a fault raise their alarm, and ten healthy runs none
	HF_HUB_OFFLINE=1 $(BIN)/python -m benchmarks.faults.alarms

troubleshooting: $(STAMP)  ## run the faults of docs/troubleshooting.md, and write its tables and its picture
	HF_HUB_OFFLINE=1 $(BIN)/python -m benchmarks.faults.troubleshooting

claims: $(STAMP)  ## look for published effects on a small task, and write docs/claims.md (CLAIMS=--plan, CLAIMS="--only clip-higher")
	HF_HUB_OFFLINE=1 $(BIN)/python -m benchmarks.evidence.claims $(CLAIMS)

curves: $(STAMP)  ## compare curves of learning with TRL's, and write docs/curves.md (CURVES=--plan, CURVES="--only grpo --trl ENVIRONMENT")
	HF_HUB_OFFLINE=1 $(BIN)/python -m benchmarks.evidence.curves $(CURVES)

parity: $(STAMP)  ## test that every strategy gives the weights of one process
	$(BIN)/python -m benchmarks.evidence.parity

ahead: $(STAMP)  ## compare time and learning of runs with and without rollouts made ahead, on two idle cores
	HF_HUB_OFFLINE=1 $(BIN)/python -m benchmarks.speed.ahead

bench: $(STAMP)  ## measure time and memory beside TRL on the same work (BENCH="--only skewed flat --rounds 5")
	$(BIN)/python -m benchmarks.speed.bench $(BENCH)

gpu: $(STAMP)  ## the same on a GPU, with half a billion parameters, TRL without and with vLLM (GPU="--rounds 3")
	$(BIN)/python -m benchmarks.speed.gpu $(GPU)

gpuday: $(STAMP)  ## run all that wants a GPU, and write one table (GPUDAY="--policy FOLDER --data FILE", GPUDAY=--cpu)
	HF_HUB_OFFLINE=1 $(BIN)/python -m benchmarks.evidence.gpu_day $(GPUDAY)

profile: $(STAMP)  ## add up the operations of a step of the case 15m, in docs/speed.md
	HF_HUB_OFFLINE=1 $(BIN)/python -m benchmarks.speed.step_profile

growth: $(STAMP)  ## measure how cost grows with rows, lengths, prompts, groups, vocabulary and data, beside the work
	HF_HUB_OFFLINE=1 $(BIN)/python -m benchmarks.speed.growth

speed: $(STAMP)  ## put what make bench and make growth measured last into docs/speed.md
	$(BIN)/python -m benchmarks.speed.speed_page

bytes: $(STAMP)  ## count what ranks send each other for the advantages of a rollout
	$(BIN)/python -m benchmarks.speed.rank_bytes

memory: $(STAMP)  ## measure the memory of a rank under each strategy, beside the size of the policy
	HF_HUB_OFFLINE=1 $(BIN)/python -m benchmarks.speed.memory

fuzz: $(STAMP)  ## try 1,000 mutated configs with check and fit: no traceback, no hang (FUZZ="--only 0:17" for one alone)
	HF_HUB_OFFLINE=1 $(BIN)/python -m benchmarks.faults.fuzz --seed $(SEED) $(FUZZ)

killtest: $(STAMP)  ## test that a run that is killed and resumed ends like an uninterrupted one
	HF_HUB_OFFLINE=1 $(BIN)/python -m benchmarks.faults.killtest

vllmtest: $(STAMP)  ## test lightrl-vllm against a real `vllm serve`, if there is one on the path
	@command -v vllm >/dev/null || { echo "no vllm on the path, so that nothing was tested: install it in an environment of its own, and type PATH=\$$PATH:/there/bin make vllmtest"; }
	@! command -v vllm >/dev/null || LIGHTRL_REAL_VLLM=1 HF_HUB_OFFLINE=1 $(BIN)/python -m pytest -n0 -rs -m '' plugins/lightrl-vllm/tests/test_vllm_contract.py plugins/lightrl-vllm/tests/test_vllm_engine.py

loggers: $(STAMP)  ## test Weights & Biases and MLflow, offline, in an environment of their own (.venv-loggers)
	test -x $(VENV)-loggers/bin/python || $(PYTHON) -m venv $(VENV)-loggers
	echo "import site; site.addsitedir('$$($(BIN)/python -c "import sysconfig; print(sysconfig.get_paths()['purelib'])")')" > $$($(VENV)-loggers/bin/python -c "import sysconfig; print(sysconfig.get_paths()['purelib'])")/lightrl.pth
	$(VENV)-loggers/bin/python -m pip install --disable-pip-version-check -q -c constraints.txt wandb mlflow-skinny sqlalchemy alembic
	HF_HUB_OFFLINE=1 $(VENV)-loggers/bin/python -m pytest -n0 -rs tests/loggers

stack: $(STAMP)  ## run a short suite against the lowest, pinned and newest versions, and write docs/versions.md (STACK="lowest newest")
	$(BIN)/python -m benchmarks.evidence.stack $(STACK)

beside: $(STAMP)  ## ask a resolver for one environment with lightrl-core and the newest vLLM, and one with the newest TRL
	for other in vllm trl; do printf 'lightrl-core @ file://$(CURDIR)\n%s\n' $$other | $(BIN)/uv pip compile --quiet --no-annotate --no-header --python-platform linux - > $(VENV)/beside-$$other.txt || exit 1; grep -E "^($$other|torch|transformers)==" $(VENV)/beside-$$other.txt; done

clean:  ## remove the environment and the files of all tools
	rm -rf $(VENV) $(VENV)-loggers .venv-stack-* build dist site runs lightning_logs .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	find . -name __pycache__ -prune -exec rm -rf {} +
	find . -name '*.egg-info' -prune -exec rm -rf {} +
