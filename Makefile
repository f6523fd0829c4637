# Kinema. `make` lists the targets; everything runs from the virtual environment that `make setup` makes.

VENV    := .venv
BIN     := $(VENV)/bin
STAMP   := $(VENV)/.setup-done
DEMO_STAMP := $(VENV)/.demo-setup-done
TYPES_STAMP := $(VENV)/.types-setup-done
# uv installs in a third of the time; pip does it where uv cannot be installed or does not reach the package index.
PIP     := $(BIN)/python -m pip install --quiet --disable-pip-version-check
INSTALL := install() { $(PIP) uv 2>/dev/null && $(BIN)/python -m uv pip install --quiet "$$@" || $(PIP) --no-compile "$$@"; }; install
# One more than cores: there are processes to wait for.
WORKERS ?= 3
STEPS   ?= 10000000
ROBOT   ?=
ROBOTS  := examples/robots
SOURCES := $(wildcard src tests tools examples integrations)

# Where it is set, every process compiles all modules again that it imports.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help setup demo test test-all lint types format oracles corpus matrix looks pictures sensors judges browser frames light cluster fuzz reach walk train breaks soak pairs scenes parity fuzz-scenes docs wheel workflows clean

help:  ## list the targets
	@awk -F ':.*##' '/^[a-z-]+:.*##/ {printf "  make %-11s%s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(STAMP)  ## make .venv with Kinema and its development tools in it (again when pyproject.toml changes)

# PYTHON=... chooses the interpreter; otherwise the first of these that is Python 3.11 or newer.
PYTHON  ?=
PYTHONS := $(if $(PYTHON),$(PYTHON),python3 python3.13 python3.12 python3.11)

$(BIN)/python:
	@set -e; found=; \
	for candidate in $(PYTHONS); do \
	  if "$$candidate" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then \
	    found=$$candidate; break; \
	  fi; \
	done; \
	if [ -z "$$found" ]; then \
	  echo "make setup: no Python 3.11 or newer with the venv module was found (tried: $(PYTHONS))." >&2; \
	  echo "Install one (Debian, Ubuntu: apt install python3 python3-venv), or name it: make setup PYTHON=/path/to/python3" >&2; \
	  exit 1; \
	fi; \
	echo "Making $(VENV) with $$("$$found" --version)"; \
	"$$found" -m venv $(VENV)

$(STAMP): pyproject.toml | $(BIN)/python
	@$(INSTALL) -e '.[dev]' && $(BIN)/python -m compileall -q -j0 src tests && touch $@ $(DEMO_STAMP)

# Nor does whoever only runs the tests wait for the complete check of types.
$(TYPES_STAMP): $(STAMP)
	@$(INSTALL) 'basedpyright>=1.28' && touch $@

# A demonstration does not wait for the tools of developers.
$(DEMO_STAMP): pyproject.toml | $(BIN)/python
	@$(INSTALL) -e '.[render,viewer]' && touch $@

# What takes a while and measures no speed runs beside what is read, and is shown at the end.
BESIDE  := build/demo/beside
PICTURES_DONE = while [ ! -e $(BESIDE).rc ]; do sleep 0.2; done

demo: $(DEMO_STAMP)  ## look at the example robots, check, convert, simulate and photograph them
	@mkdir -p build/demo && rm -f $(BESIDE).* && \
	  ($(BIN)/python examples/take_pictures.py --samples 12 >$(BESIDE).out 2>&1; \
	  echo $$? >$(BESIDE).part && mv $(BESIDE).part $(BESIDE).rc) &
	@echo "== A six-joint arm with a gripper, as URDF ==" && $(BIN)/kinema info $(ROBOTS)/arm/arm.urdf
	@echo "== The same arm, checked ==" && $(BIN)/kinema check $(ROBOTS)/arm/arm.urdf
	@echo "== A gripper with closed loops, as SDFormat ==" && $(BIN)/kinema info $(ROBOTS)/gripper/gripper.sdf
	@echo "== The arm as USD, and what USD has no words for ==" && \
	  $(BIN)/kinema convert $(ROBOTS)/arm/arm.urdf build/demo/arm.usda --report build/demo/losses.json
	@echo "== What came out, read back ==" && $(BIN)/kinema info build/demo/arm.usda
	@echo "== The arm's hand at 20,000 places ==" && $(BIN)/python examples/reach_targets.py --targets 20000
	@echo "== The arm grips boxes with the gripper of closed loops, and lifts them by 120 mm ==" && \
	  $(BIN)/python examples/grip_and_lift.py --short
	@echo "== Arms take parcels from a moving conveyor with suction cups and stack them, with a film ==" && \
	  $(BIN)/python examples/pick_from_conveyor.py --film build/demo/conveyor.mp4 --picture build/demo/conveyor.png
	@echo "== Quadrupeds that have learnt to walk ==" && \
	  $(BIN)/python examples/walk_quadruped.py --envs 32 --seconds 3 --codegen loops --picture build/demo/walk.png
	@echo "== 4,096 arms at once, each after random targets of its own ==" && $(PICTURES_DONE) && \
	  $(BIN)/kinema simulate $(ROBOTS)/arm/arm.urdf --envs 4096 --steps 500 --control random
	@echo "== 4,096 grippers of closed loops, opened and closed ==" && \
	  $(BIN)/python examples/close_gripper.py
	@echo "== 4,096 quadrupeds, dropped on stairs ==" && $(BIN)/python examples/drop_quadrupeds.py
	@echo "== Pictures of four robots, and a film of the arm ==" && \
	  cat $(BESIDE).out && exit $$(cat $(BESIDE).rc)
	@echo "Beside MuJoCo: $(BIN)/kinema bench $(ROBOTS)/arm/arm.urdf"
	@echo "Pictures are in build/demo. The arm in a browser, to be moved: $(BIN)/kinema view $(ROBOTS)/arm/arm.urdf"

# Types are checked beside the tests: at the beginning, when these read files, and at their end, when one core idles.
PYTEST  := $(BIN)/pytest -n $(WORKERS) --dist loadscope
TYPES   := build/types
BESIDE_TYPES = mkdir -p build && rm -f $(TYPES).rc; \
	  ($(BIN)/basedpyright >$(TYPES).out 2>&1; echo $$? >$(TYPES).rc) & \
	  status=0; $(1) || status=$$?; wait; tail -n 40 $(TYPES).out; \
	  [ $$status -ne 0 ] || status=$$(cat $(TYPES).rc); exit $$status

# Assertions are rewritten, which shows the values compared, only for the tests that failed: of a fresh clone it takes
# each worker a quarter of a minute.
test: setup lint  ## lint, check the types quickly, run the tests (WORKERS=3)
	@$(PYTEST) --assert=plain || { $(BIN)/pytest -q --last-failed --last-failed-no-failures none; exit 1; }

test-all: $(TYPES_STAMP) lint  ## the same with all types, every robot for every test and all combinations, which takes far longer
	@$(call BESIDE_TYPES,$(PYTEST) --all)

lint: setup  ## check style, formatting and, quickly, the types of src; change nothing
	$(BIN)/ruff check $(SOURCES)
	$(BIN)/ruff format --check $(SOURCES)
	@# Version 0.0.104 reports errors in code that it accepts when it is run again, or with one thread, once in many runs.
	$(BIN)/ty check -q || TY_MAX_PARALLELISM=1 $(BIN)/ty check -q || $(BIN)/ty check

types: $(TYPES_STAMP)  ## check all types, which takes minutes
	$(BIN)/basedpyright

format: setup  ## format the code, mend what can be mended
	$(BIN)/ruff check --fix $(SOURCES)
	$(BIN)/ruff format $(SOURCES)

oracles:  ## install the outside programs that tests compare with
	tools/oracles/setup.sh

corpus: setup  ## read every robot of the corpus and report
	$(BIN)/python tools/corpus.py

matrix: setup  ## take every robot of the corpus to every format and back, and report
	$(BIN)/python tools/round_trips.py

looks: setup  ## the same for what can be seen of them
	$(BIN)/python tools/appearance.py

pictures: setup  ## draw robots from files of all formats side by side (docs/pictures.jpg)
	$(BIN)/python tools/pictures.py

sensors: setup  ## compare the sensors of every robot of the corpus with MuJoCo's
	$(BIN)/python tools/sensors.py

judges: setup  ## write every robot of the corpus in every format and have foreign programs judge the files
	$(BIN)/python tools/judges.py

browser: setup  ## look at the viewer and published pages with Chromium (apt install chromium; pip install playwright)
	$(BIN)/pytest tests/apps/viewer tests/apps/test_pages_in_browser.py -m browser

frames: setup  ## measure how fast the viewer moves in Chromium, and fail below the mark (on an idle machine)
	$(BIN)/python tools/frames.py

light: setup  ## compare the path tracer with Mitsuba (pip install mitsuba; ROBOT=a textured one), and fail beyond the mark
	$(BIN)/python tools/light.py --mitsuba $(BIN)/python $(if $(ROBOT),--robot $(ROBOT))

cluster: setup  ## convert, play and sweep on Ray nodes of this machine, and kill some
	@$(INSTALL) -e '.[cluster]'
	$(BIN)/pytest tests/apps/cluster -m cluster

fuzz: setup  ## feed damaged files to the readers
	$(BIN)/python tools/fuzz.py

reach: setup  ## measure inverse kinematics beside Pinocchio, and fail below the mark
	$(BIN)/python tools/inverse_kinematics.py

walk: setup  ## train the quadruped to walk on a GPU (pip install rsl-rl-lib), and fail where it does not within five minutes
	$(BIN)/python tools/train_walk.py

train: setup  ## train the small tasks with stable-baselines3 (pip install 'kinema[rl]'), and fail where that takes long
	$(BIN)/python tools/train.py

breaks: setup  ## step 10,000 random robots that are held by more than can be held, and count what is not finite
	$(BIN)/python tools/never_breaks.py --workers $(WORKERS)

soak: setup  ## run thrashing robots for ten million steps with contact (STEPS=10000000), and count what breaks
	$(BIN)/python tools/soak.py --env-steps $(STEPS) --workers $(WORKERS)

pairs: setup  ## compare distances of a million random pairs of shapes with coal's, and fail where ours are off too often
	$(BIN)/python -m tools.coal_pairs

gradients: setup  ## compare derivatives of the step of every robot of the corpus with differences, and fail where they are off
	$(BIN)/python tools/gradient_accuracy.py --workers $(WORKERS)
	$(BIN)/python tools/gradient_modes.py --workers $(WORKERS)

scenes: setup  ## run stacks, grips, slopes and the like (docs/contact-accuracy.md), and fail where a bound is missed
	$(BIN)/python tools/contact_scenes.py --workers $(WORKERS)

parity: setup  ## compare contacts of every MJCF robot of the corpus on a floor with MuJoCo's
	$(BIN)/python tools/contact_parity.py --workers $(WORKERS)

fuzz-scenes: setup  ## step 10,000 random scenes of things that touch, and count what breaks or gains energy
	$(BIN)/python tools/fuzz_scenes.py --workers $(WORKERS)

docs: $(BIN)/mkdocs  ## build the documentation site (build/site/index.html); warnings and dead links are errors
	$(BIN)/mkdocs build --strict
	$(BIN)/python tools/live_robots.py build/site/live
	@echo "build/site/index.html"

$(BIN)/mkdocs: $(STAMP)
	@$(INSTALL) -e '.[docs]'
	touch $@

wheel: setup  ## build a wheel (dist/), install it into an empty environment and try it there
	$(BIN)/python tools/try_wheel.py

workflows: setup  ## run what the workflows and the container run, in a fresh clone
	$(BIN)/pytest tests/test_workflows.py -m workflows

clean:  ## remove caches and builds (not .venv)
	rm -rf build dist .pytest_cache .ruff_cache .hypothesis
	find src tests tools examples -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true
