# SPDX-License-Identifier: Apache-2.0
# Builds build/libcprof.so, and runs tests, checks and tools. `make` needs a C compiler and zlib's static library;
# `make test` first installs what else is missing (scripts/setup.sh). `make help` lists the targets.

CC ?= cc
CFLAGS ?= -O2 -g
WERROR ?= -Werror
PREFIX ?= /usr/local
DESTDIR ?=
BUILD ?= build
PYTHON_VENV ?= .venv/bin/python

# Quiet unless V=1: Q hides a command, SAY prints the short line instead.
V ?= 0
ifeq ($(V),1)
Q :=
SAY := @:
else
Q := @
SAY := @echo
MAKEFLAGS += --no-print-directory
endif

# The -j option of a make within make, if the user gave none.
JOBS = $(if $(findstring jobserver,$(MAKEFLAGS)),,-j$(shell nproc))

LIB := $(BUILD)/libcprof.so
MAP := preload/exports.map

# ---- flags ------------------------------------------------------------------------------------------------

WARNINGS := -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wold-style-definition -Wpointer-arith \
	-Wundef -Wvla -Wwrite-strings -Wformat=2 -Wno-format-nonliteral $(WERROR)

# initial-exec: the library is loaded at start, and lazy allocation of a TLS block would call malloc inside a hook.
# no-semantic-interposition, no-plt: our own calls bind directly, the few other ones go through the GOT.
CODEGEN := -std=gnu11 -fPIC -fvisibility=hidden -ftls-model=initial-exec -fno-semantic-interposition -fno-plt \
	-fno-strict-aliasing -D_GNU_SOURCE=

# CUDA_INC (written by scripts/setup.sh) is a list of header folders; empty if there are no headers of CUDA 13.
-include $(firstword $(wildcard $(BUILD)/cuda.mk build/cuda.mk))
INCLUDES := -I. $(addprefix -isystem ,$(CUDA_INC))

ALL_CFLAGS := $(CODEGEN) $(CFLAGS) $(WARNINGS) $(INCLUDES) $(SANITIZE)

# `make wheel` compiles with one program and links with another, against an older libc (scripts/wheel.py).
LINKER ?= $(CC)
LIBC ?= -lpthread -ldl

# zlib is linked statically and hidden (exclude-libs): a NEEDED libz would conflict with the copies that extensions bring.
# So is libsupc++, which demangles kernel names; without it (no C++ compiler) they stay mangled.
SUPCXX := $(if $(filter /%,$(shell $(LINKER) -print-file-name=libsupc++.a 2>/dev/null)),-l:libsupc++.a)
# igzip of ISA-L is loaded at run time, so only its header is needed; without it zlib does all the work.
hash := \#
IGZIP := $(shell echo '$(hash)include <isa-l.h>' | $(CC) -E - >/dev/null 2>&1 && echo -DCPROF_IGZIP)
LIBS := -l:libz.a $(SUPCXX) $(LIBC)
ALL_CFLAGS += $(IGZIP) $(if $(SUPCXX),,-DCPROF_NO_DEMANGLE)
LIB_LDFLAGS := -shared -Wl,-soname,libcprof.so -Wl,-z,defs -Wl,-z,relro,-z,now -Wl,--as-needed \
	-Wl,--exclude-libs,ALL -Wl,--version-script=$(MAP) $(SANITIZE)

# ---- sources ----------------------------------------------------------------------------------------------

SRC := $(wildcard $(foreach folder,preload cupti writer,$(folder)/*.c $(folder)/*/*.c))
OBJ := $(SRC:%.c=$(BUILD)/%.o)

# One suite per tests/unit/<room>/test_<name>.c. The list of suites is made from the file names.
TEST_MAIN := tests/unit/test_main.c
# SUITES="ring split" builds a binary with only these.
TEST_FILES := $(wildcard $(foreach folder,unit/* unit/*/* fuzz,tests/$(folder)/test_*.c))
SUITES := $(patsubst test_%.c,%,$(notdir $(TEST_FILES)))
TEST_SRC := $(foreach suite,$(SUITES),$(filter %/test_$(suite).c,$(TEST_FILES)))
TEST_OBJ := $(patsubst %.c,$(BUILD)/%.o,$(TEST_SRC) $(TEST_MAIN) $(wildcard tests/support/*.c)) \
	$(if $(filter fuzz,$(SUITES)),$(patsubst tests/fuzz/fuzz_%.c,$(BUILD)/tests/fuzz/replay_%.o,$(wildcard tests/fuzz/fuzz_*.c)))
CHECK_LIBS = $(shell pkg-config --libs check 2>/dev/null || echo -lcheck -lsubunit -lrt -lm)

# Makefiles of other parts, each beside its sources.
PARTS := Makefile tests/sim/sim.mk tests/programs.mk tests/sanitize.mk $(wildcard scripts/install.mk)

FORMATTED = $(shell git ls-files --cached --others --exclude-standard '*.c' '*.h')

.DEFAULT_GOAL := all
include $(filter-out Makefile,$(PARTS))

# ---- targets for users -------------------------------------------------------------------------------------

## all: build/libcprof.so (the default)
.PHONY: all
all: $(LIB)

## setup: install what this machine lacks for the tests (compilers, PyTorch, browser); quick if nothing is missing
.PHONY: setup
setup:
	$(Q)BUILD=$(BUILD) bash scripts/setup.sh

## demo: trace a small PyTorch training run (on a GPU if there is one) and print where the trace is
.PHONY: demo
demo:
	$(Q)BUILD=$(BUILD) bash scripts/setup.sh --demo
	@echo "demo: building $(LIB)"
	$(Q)$(MAKE) $(JOBS) $(if $(Q),SAY=@:) all
	$(Q)BUILD=$(BUILD) bash scripts/demo.sh

## test: all tests for correctness: setup, unit, asan-quick, e2e
.PHONY: test
# asan-quick runs beside unit and e2e, at lower priority. Its output comes after theirs.
test: setup
	$(Q)rm -rf $(BUILD)/times; status=0; log=$$(mktemp); nice $(MAKE) asan-quick >"$$log" 2>&1 & asan=$$!; \
		trap 'kill $$asan; rm -f "$$log"; exit 130' INT TERM; \
		$(MAKE) $(JOBS) $(BUILD)/unit || status=1; $(MAKE) unit || status=1; $(MAKE) e2e || status=1; \
		wait $$asan || status=1; cat "$$log"; rm -f "$$log"; \
		python3 tests/slowest.py $(BUILD)/times/*.xml; exit $$status

## unit: unit tests of the modules, in one binary (CK_RUN_SUITE=name runs one suite, CK_FORK=no for gdb)
.PHONY: unit
unit: $(BUILD)/unit
	$(SAY) "  RUN     $<"
	$(Q)CK_DEFAULT_TIMEOUT=$${CK_DEFAULT_TIMEOUT:-30} tests/unit/run.sh $< $(BUILD)/times/unit

## e2e: end-to-end tests: run programs under LD_PRELOAD and check their traces (E2E="-k name" selects tests)
.PHONY: e2e
e2e: setup
	$(Q)$(MAKE) $(JOBS) all $(if $(E2E_SRC),e2e-programs)
ifneq ($(E2E),)
	$(Q)$(PYTEST) tests/e2e $(E2E)
else
	$(Q)tests/e2e/run.sh $(BUILD)/times/e2e $(PYTEST)
endif

PYTEST = env BUILD=$(abspath $(BUILD)) $(PYTHON_VENV) -m pytest -q -rfEs -p no:cacheprovider $(E2E_LIMITS)

# Seconds for one test and for all. Programs have shorter limits of their own; these are for unexpected hangs.
E2E_LIMITS := -o timeout=600 -o session_timeout=3600

## gpu-check: the acceptance run on a GPU, a real one if there is one (13 minutes: --plan), else simulated (GPU_CHECK="--sim --quick")
.PHONY: gpu-check
gpu-check:
	$(Q)bash scripts/gpu_check.sh $(GPU_CHECK)

## aarch64: unit and end-to-end tests on an emulated aarch64 (root on Debian; an hour; AARCH64="tests/e2e/test_steps.py" selects tests)
.PHONY: aarch64
aarch64:
	$(Q)bash scripts/aarch64.sh $(AARCH64)

## lint: check layers, headers, exports, sizes, comments, forbidden calls, documents, formatting, and that clang builds without warnings
.PHONY: lint
lint: setup
	$(Q)$(MAKE) $(JOBS) all
	$(Q)BUILD=$(BUILD) bash scripts/lint/check_all.sh

## tree: print the rooms of preload/, cupti/ and writer/, their modules, and the calls between them, on one page
.PHONY: tree
tree: all
	$(Q)python3 scripts/lint/check_rooms.py $(BUILD) --tree

## format: rewrite the C sources in the style of .clang-format
.PHONY: format
format:
	$(SAY) "  FORMAT  $(words $(FORMATTED)) files"
	$(Q)clang-format -i $(FORMATTED)

## clean: remove every build folder (the Python environment in .venv stays)
.PHONY: clean
clean:
	$(Q)rm -rf build build-* $(BUILD)

## help: print this list
.PHONY: help
help:
	@echo "make [target] [V=1] [CC=clang] [CFLAGS=...] [PREFIX=/usr/local] [DESTDIR=...] [BUILD=build] [WERROR=]"
	@sed -n 's/^## \([a-z0-9-]*\): /\1\t/p' $(PARTS) | expand -t 15

# ---- rules for files -----------------------------------------------------------------------------------

$(LIB): $(OBJ) $(MAP) $(BUILD)/.flags
	$(SAY) "  LINK    $@"
	$(Q)$(LINKER) $(CFLAGS) $(LIB_LDFLAGS) -o $@ $(OBJ) $(LIBS)

$(BUILD)/%.o: %.c $(BUILD)/.flags
	$(SAY) "  CC      $<"
	@mkdir -p $(@D)
	$(Q)$(CC) $(ALL_CFLAGS) $(EXTRA) -MMD -MP -c -o $@ $<

# Tests define suite_<name>() only for the runner, so they need no prototype.
$(BUILD)/tests/%.o: EXTRA := -Wno-missing-prototypes -I$(BUILD)
$(TEST_MAIN:%.c=$(BUILD)/%.o): $(BUILD)/suites.def

# In the unit tests each fuzz target has its own function name.
$(BUILD)/tests/fuzz/replay_%.o: tests/fuzz/fuzz_%.c $(BUILD)/.flags
	$(SAY) "  CC      $@"
	@mkdir -p $(@D)
	$(Q)$(CC) $(ALL_CFLAGS) -DLLVMFuzzerTestOneInput=fuzz_$* -MMD -MP -c -o $@ $<

$(BUILD)/unit: $(OBJ) $(TEST_OBJ)
	$(SAY) "  LINK    $@"
	$(Q)$(CC) $(CFLAGS) $(SANITIZE) -o $@ $^ $(LIBS) $(CHECK_LIBS) -lm

# Rewrites a file only if its text changes, so that another compiler, other flags or a new test file rebuild
# exactly what depends on them.
define keep_if_same
	@mkdir -p $(@D)
	@printf '%s\n' $(1) >$@.new; if cmp -s $@.new $@; then rm $@.new; else mv $@.new $@; fi
endef

$(BUILD)/.flags: .always
	$(call keep_if_same,'$(CC) $(ALL_CFLAGS)')

$(BUILD)/suites.def: .always
	$(call keep_if_same,'/* Made by the Makefile from the names of the files test_NAME.c below tests/unit. */' $(patsubst %,'SUITE(%)',$(SUITES)))

# Keeps intermediate objects of programs.
.SECONDARY:

.PHONY: .always
.always:

-include $(OBJ:.o=.d) $(TEST_OBJ:.o=.d) $(patsubst %.c,$(BUILD)/%.d,$(wildcard tests/bench/*.c tests/fuzz/*.c))
