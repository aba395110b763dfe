# SPDX-License-Identifier: Apache-2.0
# Builds build/libcprof.so and runs everything around it. `make` needs a C compiler and zlib's static library;
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

# How many at once a goal builds in a make of its own, where nobody has said how many.
JOBS = $(if $(findstring jobserver,$(MAKEFLAGS)),,-j$(shell nproc))

LIB := $(BUILD)/libcprof.so
MAP := preload/exports.map

# ---- flags ------------------------------------------------------------------------------------------------

WARNINGS := -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wold-style-definition -Wpointer-arith \
	-Wundef -Wvla -Wwrite-strings -Wformat=2 -Wno-format-nonliteral $(WERROR)

# initial-exec: the library is loaded at start, and a lazily allocated TLS block would call malloc inside a hook.
# no-semantic-interposition, no-plt: our own calls bind directly, the few foreign ones go through the GOT.
CODEGEN := -std=gnu11 -fPIC -fvisibility=hidden -ftls-model=initial-exec -fno-semantic-interposition -fno-plt \
	-fno-strict-aliasing -D_GNU_SOURCE=

# CUDA_INC (written by scripts/setup.sh) is a list of header folders; empty when there are none of CUDA 13.
-include $(firstword $(wildcard $(BUILD)/cuda.mk build/cuda.mk))
INCLUDES := -I. $(addprefix -isystem ,$(CUDA_INC))

ALL_CFLAGS := $(CODEGEN) $(CFLAGS) $(WARNINGS) $(INCLUDES) $(SANITIZE)

# zlib is linked statically and hidden (exclude-libs): a NEEDED libz would meet the copies that extensions bring.
# So is libsupc++, which demangles kernel names; without it (no C++ compiler) they stay mangled.
SUPCXX := $(if $(filter /%,$(shell $(CC) -print-file-name=libsupc++.a 2>/dev/null)),-l:libsupc++.a)
# And json-c, which reads foreign traces; without its header or static library they cannot be handed in. --wrap: writer/import/parse_memory.h.
comma := ,
hash := \#
JSONC := $(if $(and $(filter /%,$(shell $(CC) -print-file-name=libjson-c.a 2>/dev/null)), \
	$(shell echo '$(hash)include <json-c/json.h>' | $(CC) -E - >/dev/null 2>&1 && echo yes)),-l:libjson-c.a \
	$(addprefix -Wl$(comma)--wrap=,malloc calloc realloc strdup))
# igzip of ISA-L is opened while the program runs, so only its header is wanted; without it zlib does all.
IGZIP := $(shell echo '$(hash)include <isa-l.h>' | $(CC) -E - >/dev/null 2>&1 && echo -DCPROF_IGZIP)
LIBS := -l:libz.a $(SUPCXX) $(JSONC) -lpthread -ldl
ALL_CFLAGS += $(IGZIP) $(if $(SUPCXX),,-DCPROF_NO_DEMANGLE) $(if $(JSONC),,-DCPROF_NO_JSON_C)
LIB_LDFLAGS := -shared -Wl,-soname,libcprof.so -Wl,-z,defs -Wl,-z,relro,-z,now -Wl,--as-needed \
	-Wl,--exclude-libs,ALL -Wl,--version-script=$(MAP) $(SANITIZE)

# ---- sources ----------------------------------------------------------------------------------------------

SRC := $(wildcard $(foreach folder,preload cupti writer,$(folder)/*.c $(folder)/*/*.c))
OBJ := $(SRC:%.c=$(BUILD)/%.o)

# One suite per tests/unit/<room>/test_<name>.c; the list of suites is made from the file names, so there is no second list.
TEST_MAIN := tests/unit/test_main.c
TEST_SRC := $(wildcard $(foreach depth,/* /*/*,tests/unit$(depth)/test_*.c))
SUITES := $(patsubst test_%.c,%,$(notdir $(TEST_SRC)))
TEST_OBJ := $(patsubst %.c,$(BUILD)/%.o,$(TEST_SRC) $(TEST_MAIN) $(wildcard tests/support/*.c))
CHECK_LIBS = $(shell pkg-config --libs check 2>/dev/null || echo -lcheck -lsubunit -lrt -lm)

# Programs and libraries that the end-to-end tests trace: tests/e2e/c/x.c -> x, tests/e2e/c/libx.c -> libx.so.
E2E_SRC := $(wildcard tests/e2e/c/*.c)
E2E_LIB := $(patsubst tests/e2e/c/%.c,$(BUILD)/e2e/%.so,$(filter tests/e2e/c/lib%,$(E2E_SRC)))
E2E_BIN := $(patsubst tests/e2e/c/%.c,$(BUILD)/e2e/%,$(filter-out tests/e2e/c/lib%,$(E2E_SRC)))

# Code that is run through every interleaving of its threads: tests/explore/explore_x.c -> explore/x.
EXPLORE_BIN := $(patsubst tests/explore/explore_%.c,$(BUILD)/explore/%,$(wildcard tests/explore/explore_*.c))

# The simulated GPU (tests/sim) and programs that use a GPU (tests/gpu); needs the CUDA headers, no toolkit, no GPU.
# tests/gpu/x.c -> build/gpu/x; kernels_sim.c and what lies in lib*.c is linked to them.
SIM := $(BUILD)/sim
HAVE_CUDA := $(firstword $(wildcard $(addsuffix /cupti_runtime_cbid.h,$(CUDA_INC))))
SIM_CUDA_SRC := $(filter-out tests/sim/cudart% tests/sim/cupti% tests/sim/system%,$(wildcard tests/sim/*.c))
SIM_CUDART_SRC := $(wildcard tests/sim/cudart*.c)
SIM_CUPTI_SRC := $(wildcard tests/sim/cupti*.c)
SIM_LIB := $(SIM)/libsystemclock.so $(SIM)/libcuda.so.1 $(SIM)/libcudart.so.12 $(SIM)/libcudart.so.13 $(SIM)/libcudart_static.a \
	$(SIM)/libcublas.so.12 $(SIM)/libcublasLt.so.12 $(SIM)/libcudnn.so.9 $(SIM)/torch/libtorch_cpu.so $(SIM)/torch/libtorch_cuda.so \
	$(if $(SIM_CUPTI_SRC),$(foreach n,13 12 11.8,$(SIM)/libcupti.so.$n))
GPU_SRC := $(filter-out tests/gpu/kernels% tests/gpu/lib%,$(wildcard tests/gpu/*.c))
GPU_BIN := $(GPU_SRC:tests/gpu/%.c=$(BUILD)/gpu/%)

# Programs of `make bench` and `make fuzz`. They link the modules as an archive, so that each gets only what it
# calls, and one that includes nothing but cprof.h is a plain program to run under the library.
ARCHIVE := $(BUILD)/libmodules.a
BENCH_BIN := $(patsubst tests/bench/%.c,$(BUILD)/bench/%,$(wildcard tests/bench/bench_*.c))
FUZZ_BIN := $(patsubst tests/fuzz/%.c,$(BUILD)/fuzz/%,$(wildcard tests/fuzz/fuzz_*.c))
FUZZ_SECONDS ?= 600

FORMATTED = $(shell git ls-files --cached --others --exclude-standard '*.c' '*.h')

# ---- what people call -------------------------------------------------------------------------------------

## all: build/libcprof.so (the default)
.PHONY: all
all: $(LIB)

## setup: install what this machine lacks for the tests (compilers, PyTorch, browser); quick when all is there
.PHONY: setup
setup:
	$(Q)BUILD=$(BUILD) bash scripts/setup.sh

## demo: trace a small PyTorch training run (on the GPU where there is one) and say where the trace is
.PHONY: demo
demo:
	$(Q)BUILD=$(BUILD) bash scripts/setup.sh --demo
	$(Q)$(MAKE) all
	$(Q)BUILD=$(BUILD) bash scripts/demo.sh

## test: everything that tells right from wrong: setup, unit, asan-quick, e2e
.PHONY: test
test: setup
	$(Q)status=0; $(MAKE) $(JOBS) $(BUILD)/unit || status=1; \
		for part in unit asan-quick e2e; do $(MAKE) $$part || status=1; done; exit $$status

## unit: tests of the modules, in one binary (CK_RUN_SUITE=name runs one suite, CK_FORK=no for gdb)
.PHONY: unit
unit: $(BUILD)/unit
	$(SAY) "  RUN     $<"
	$(Q)CK_DEFAULT_TIMEOUT=$${CK_DEFAULT_TIMEOUT:-30} $<

## e2e: programs run under LD_PRELOAD, their traces read back (E2E="-k name" picks tests)
.PHONY: e2e
# What reads traces, or asks what stands in them rather than when it came, says the same however long it takes: it runs beside the rest, and
# is shown behind it.
e2e: setup
	$(Q)$(MAKE) $(JOBS) all $(if $(E2E_SRC),e2e-programs)
ifneq ($(E2E),)
	$(Q)$(PYTEST) tests/e2e $(E2E)
else
	$(Q)status=0; log=$$(mktemp); $(PYTEST) $(E2E_BESIDE) >"$$log" 2>&1 & beside=$$!; trap 'kill $$beside; rm -f "$$log"; exit 130' INT TERM; \
		$(PYTEST) tests/e2e $(addprefix --ignore=,$(E2E_BESIDE)) || status=1; \
		wait $$beside || status=1; cat "$$log"; rm -f "$$log"; exit $$status
endif

E2E_BESIDE := $(wildcard tests/e2e/test_tool_*.py tests/e2e/test_command_*.py tests/e2e/test_torch_*.py) \
	$(addprefix tests/e2e/test_,$(addsuffix .py,collectives consumers flops gpu_check memory modules python_module stacks))
PYTEST = BUILD=$(abspath $(BUILD)) $(PYTHON_VENV) -m pytest -q -rs -p no:cacheprovider $(E2E_LIMITS)

# Seconds for one test and for all. Programs have shorter ones of their own: this is for what hangs where nobody thought it could.
E2E_LIMITS := -o timeout=600 -o session_timeout=3600

.PHONY: e2e-programs
e2e-programs: $(E2E_BIN) $(E2E_LIB) $(EXPLORE_BIN) $(if $(HAVE_CUDA),sim)

## sim: the simulated GPU (driver, runtimes 12 and 13, CUPTI) and the programs that use it; needs the CUDA headers
.PHONY: sim
ifneq ($(HAVE_CUDA),)
sim: $(SIM_LIB) $(GPU_BIN) $(BUILD)/gpu/libgpu13_static.so
else
sim:
	@echo "make sim: no CUDA headers: $(BUILD)/cuda.mk names no folder with cupti_runtime_cbid.h (make setup)" >&2; exit 1
endif

## bench: measure the budgets of the README, as ratios in one run
.PHONY: bench
bench: setup
	$(Q)$(MAKE) all bench-programs $(if $(E2E_SRC),e2e-programs)
	$(Q)BUILD=$(abspath $(BUILD)) $(PYTHON_VENV) scripts/bench $(BENCH_ARGS)

## bench-tool: time and memory of the command's readers at 100 MB and 1 GB (20 minutes, 8 GB of disk; BENCH_TOOL="--mb 10 100")
.PHONY: bench-tool
bench-tool: setup
	$(Q)$(MAKE) all $(if $(HAVE_CUDA),sim)
	$(Q)BUILD=$(abspath $(BUILD)) $(PYTHON_VENV) tests/bench/tool_cost.py $(BENCH_TOOL)

## gpu-check: the acceptance run on a GPU, real where there is one (13 minutes: --plan), else simulated (GPU_CHECK="--sim --quick")
.PHONY: gpu-check
gpu-check:
	$(Q)bash scripts/gpu_check.sh $(GPU_CHECK)

.PHONY: bench-programs
bench-programs: $(BENCH_BIN)

## fuzz: each target of tests/fuzz for FUZZ_SECONDS=600, under ASan and UBSan (needs clang), and the command's readers
.PHONY: fuzz fuzz-programs
fuzz:
	$(Q)echo 'int LLVMFuzzerTestOneInput(void) {return 0;}' | clang -fsanitize=fuzzer,address,undefined -x c - -o /dev/null \
		2>/dev/null || { echo "make fuzz: needs clang and its runtimes (Debian: clang, libclang-rt-*-dev)" >&2; exit 1; }
	$(Q)$(MAKE) CC=clang BUILD=build-fuzz CFLAGS="-O1 -g" SANITIZE="-fsanitize=fuzzer-no-link,address,undefined" \
		fuzz-programs
	$(Q)status=0; for target in $(notdir $(FUZZ_BIN)); do \
		corpus=build-fuzz/corpus/$$target; mkdir -p $$corpus; \
		seeds=tests/fuzz/$${target#fuzz_}; [ -d $$seeds ] || seeds=; \
		echo "  FUZZ    $$target"; \
		build-fuzz/fuzz/$$target -max_total_time=$(FUZZ_SECONDS) -artifact_prefix=build-fuzz/ $$corpus \
			$$seeds >build-fuzz/$$target.log 2>&1 && grep '^Done' build-fuzz/$$target.log || { \
			tail -n 60 build-fuzz/$$target.log; echo "make fuzz: $$target: see build-fuzz/$$target.log" >&2; status=1; }; \
	done; \
	seed=$$(date +%s); echo "  FUZZ    readers, seed $$seed"; \
	$$(command -v $(PYTHON_VENV) || echo python3) tests/fuzz/fuzz_readers.py --seed $$seed --seconds $(FUZZ_SECONDS) --keep build-fuzz \
		|| status=1; exit $$status

fuzz-programs: $(FUZZ_BIN)

## other-programs: CPython's, PyTorch's and everyday programs with the library and without (an hour; OTHER="--only git")
.PHONY: other-programs
other-programs: setup
	$(Q)$(MAKE) all e2e-programs
	$(Q)BUILD=$(abspath $(BUILD)) $(PYTHON_VENV) tests/others/run.py $(OTHER)

## aarch64: unit tests and whole programs on an emulated aarch64 (root on Debian; an hour; AARCH64="tests/e2e/test_steps.py" picks tests)
.PHONY: aarch64
aarch64:
	$(Q)bash scripts/aarch64.sh $(AARCH64)

## lint: layers, headers, exports, sizes, comments, forbidden calls, formatting, a clean clang build
.PHONY: lint
lint: setup
	$(Q)$(MAKE) $(JOBS) all
	$(Q)BUILD=$(BUILD) bash scripts/lint/check_all.sh

## tree: the rooms of preload/, cupti/ and writer/, their modules, and the calls between them, on one page
.PHONY: tree
tree: all
	$(Q)python3 scripts/lint/check_rooms.py $(BUILD) --tree

## format: rewrite the C sources in the style of .clang-format
.PHONY: format
format:
	$(SAY) "  FORMAT  $(words $(FORMATTED)) files"
	$(Q)clang-format -i $(FORMATTED)

## asan: unit tests under AddressSanitizer and LeakSanitizer
## ubsan: unit tests under UndefinedBehaviorSanitizer
## tsan: unit tests under ThreadSanitizer
.PHONY: asan ubsan tsan
asan: SANITIZER := address
ubsan: SANITIZER := undefined -fno-sanitize-recover=all
# gcc warns that its TSan does not see fences; clang's does not either, and knows no such warning.
tsan: SANITIZER := thread $(if $(findstring clang,$(shell $(CC) --version 2>/dev/null)),,-Wno-tsan)
asan ubsan tsan:
	$(Q)CK_TIMEOUT_MULTIPLIER=10 $(MAKE) unit BUILD=build-$@ CFLAGS="-O1 -g -fno-omit-frame-pointer" \
		SANITIZE="-fsanitize=$(SANITIZER)"

## sanitize: units under ASan, UBSan, TSan and valgrind, then simulated GPU and other programs under ASan and TSan (an hour)
# Each part runs, whatever the others found.
.PHONY: sanitize
sanitize: setup
	$(Q)command -v valgrind >/dev/null || { echo "make sanitize: needs valgrind (Debian: valgrind)" >&2; exit 1; }
	$(Q)status=0; for part in asan ubsan "tsan CC=clang" memcheck e2e-asan e2e-tsan; do \
		$(MAKE) $$part && echo "  GOOD    $$part" || { echo "  FAILED  $$part"; status=1; }; done; exit $$status

## memcheck: unit tests under valgrind
## e2e-asan: simulated GPU and other programs under ASan and UBSan
## e2e-tsan: the same under TSan
.PHONY: memcheck e2e-asan e2e-tsan
memcheck: $(BUILD)/unit
	$(Q)CK_DEFAULT_TIMEOUT=60 CK_TIMEOUT_MULTIPLIER=60 valgrind -q --fair-sched=yes --error-exitcode=99 \
		--suppressions=tests/support/valgrind.txt $<

# What asserts a whole process' memory, its way to die or its LD_PRELOAD is not for a sanitizer's runtime.
SANITIZED := $(addprefix tests/e2e/test_,gpu_faults.py gpu_clients.py nvtx.py handlers.py blas.py import.py)
SANITIZED_TSAN := $(addprefix tests/e2e/test_,gpu_faults.py gpu_clients.py nvtx.py handlers.py)
SANITIZER_FLAGS := -O1 -g -fno-omit-frame-pointer
e2e-asan e2e-tsan: setup
e2e-asan:
	$(Q)$(MAKE) e2e-sanitized BUILD=build-$@ RUNTIME="libasan.so libubsan.so" TESTS="$(SANITIZED)" \
		CFLAGS="$(SANITIZER_FLAGS)" SANITIZE="-fsanitize=address,undefined"
e2e-tsan:
	$(Q)$(MAKE) e2e-sanitized BUILD=build-$@ RUNTIME="libtsan.so" TESTS="$(SANITIZED_TSAN)" \
		CFLAGS="$(SANITIZER_FLAGS)" SANITIZE="-fsanitize=thread -Wno-tsan"

## asan-quick: the unit suites that touch foreign bytes and threads, under ASan and UBSan (3 minutes)
QUICK_SUITES := ring thread_log io_thread sink gzip split json json_inputs json_gpu json_check translate stack_json dso_table modules memory_owners flop_stats \
	handler_queue upload spawn run_names nvtx gpu_records join
.PHONY: asan-quick
asan-quick:
	$(Q)$(MAKE) $(JOBS) build-quick/unit BUILD=build-quick CFLAGS="$(SANITIZER_FLAGS)" \
		SANITIZE="-fsanitize=address,undefined -fno-sanitize-recover=undefined"
	$(Q)for suite in $(QUICK_SUITES); do \
		CK_RUN_SUITE=$$suite CK_TIMEOUT_MULTIPLIER=10 CK_DEFAULT_TIMEOUT=60 build-quick/unit || exit 1; done

## e2e-sanitized: the programs' part of it: TESTS under the library built with SANITIZE, RUNTIME loaded first
.PHONY: e2e-sanitized
e2e-sanitized: all e2e-programs
	$(Q)SANITIZER_RUNTIME="$$(echo $(foreach l,$(RUNTIME),$$($(CC) -print-file-name=$l)) | tr ' ' :)" \
		ASAN_OPTIONS=detect_leaks=0 UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1 TSAN_OPTIONS="report_signal_unsafe=0 suppressions=$(CURDIR)/tests/support/tsan.txt" \
		BUILD=$(abspath $(BUILD)) $(PYTHON_VENV) -m pytest -q -rs -p no:cacheprovider $(TESTS)

## soak: 200 times kill -9, each call in turn failing, ten minutes of stacks, ten of one window, then an hour of cycles (SOAK_SECONDS=3600)
# The short ones first; each runs, whatever the others found.
SOAK_SECONDS ?= 3600
.PHONY: soak
soak: setup
	$(Q)$(MAKE) all e2e-programs
	$(Q)cd tests/e2e && export BUILD="$(abspath $(BUILD))" && status=0 && \
		for run in "kills.py 200" "faults.py" "../soak/stacks.py 600" "soak.py --endless 600" "soak.py $(SOAK_SECONDS)"; do \
			$(abspath $(PYTHON_VENV)) $$run || { echo "make soak: $$run failed" >&2; status=1; }; done; exit $$status

## coverage: unit tests with gcov; the share of lines run, by file, in build-coverage/
.PHONY: coverage
coverage:
	$(Q)$(MAKE) unit BUILD=build-coverage CFLAGS="-O0 -g --coverage" SANITIZE=--coverage
	$(Q)cd build-coverage && find . -name '*.gcda' -print0 | xargs -0 gcov -r -n -s "$(CURDIR)" 2>/dev/null \
		| awk -F"'" '/^File/ {file = $$2} \
			/^Lines executed/ && file ~ /^(preload|cupti|writer)\/.*\.c$$/ {split($$0, part, /[:%]/); \
				if (!(file in best) || part[2] > best[file]) best[file] = part[2] + 0; file = ""} \
			END {for (f in best) printf "%6.1f %%  %s\n", best[f], f}' | sort -k3

## install: library, header and command into PREFIX (default /usr/local), below DESTDIR
.PHONY: install
install: $(LIB)
	$(Q)install -d "$(DESTDIR)$(PREFIX)/lib" "$(DESTDIR)$(PREFIX)/include"
	$(Q)install -m 755 $(LIB) "$(DESTDIR)$(PREFIX)/lib/libcprof.so"
	$(Q)install -m 644 preload/cprof.h "$(DESTDIR)$(PREFIX)/include/cprof.h"
	$(Q)install -d "$(DESTDIR)$(PREFIX)/bin" "$(DESTDIR)$(PREFIX)/share/cprof/cprof/tool"
	$(Q)install -m 755 scripts/cprof "$(DESTDIR)$(PREFIX)/bin/cprof"
	$(Q)install -m 644 scripts/python/cprof/*.py scripts/python/cprof/py.typed "$(DESTDIR)$(PREFIX)/share/cprof/cprof"
	$(Q)install -m 644 scripts/python/cprof/tool/*.py "$(DESTDIR)$(PREFIX)/share/cprof/cprof/tool"
	$(Q)$(RUN_LDCONFIG)
	$(SAY) "  INSTALL $(DESTDIR)$(PREFIX)/lib/libcprof.so"

## uninstall: remove what install put there
.PHONY: uninstall
uninstall:
	$(Q)rm -f "$(DESTDIR)$(PREFIX)/lib/libcprof.so" "$(DESTDIR)$(PREFIX)/include/cprof.h" "$(DESTDIR)$(PREFIX)/bin/cprof"
	$(Q)rm -rf "$(DESTDIR)$(PREFIX)/share/cprof"
	$(Q)$(RUN_LDCONFIG)

# The loader finds the bare name in LD_PRELOAD=libcprof.so only through its cache. A staged install
# (DESTDIR) leaves the cache of this machine alone.
RUN_LDCONFIG = if [ -z "$(DESTDIR)" ] && [ "$$(id -u)" = 0 ]; then ldconfig; fi

## clean: remove every build folder (the Python environment in .venv stays)
.PHONY: clean
clean:
	$(Q)rm -rf build build-* $(BUILD)

## help: this list
.PHONY: help
help:
	@echo "make [target] [V=1] [CC=clang] [CFLAGS=...] [PREFIX=/usr/local] [DESTDIR=...] [BUILD=build] [WERROR=]"
	@sed -n 's/^## \([a-z0-9-]*\): /\1\t/p' Makefile | expand -t 15

# ---- how files are made -----------------------------------------------------------------------------------

$(LIB): $(OBJ) $(MAP) $(BUILD)/.flags
	$(SAY) "  LINK    $@"
	$(Q)$(CC) $(CFLAGS) $(LIB_LDFLAGS) -o $@ $(OBJ) $(LIBS)

$(BUILD)/%.o: %.c $(BUILD)/.flags
	$(SAY) "  CC      $<"
	@mkdir -p $(@D)
	$(Q)$(CC) $(ALL_CFLAGS) $(EXTRA) -MMD -MP -c -o $@ $<

# Tests define suite_<name>() for the runner only, so they need no prototype.
$(BUILD)/tests/%.o: EXTRA := -Wno-missing-prototypes -I$(BUILD)
$(TEST_MAIN:%.c=$(BUILD)/%.o): $(BUILD)/suites.def

$(BUILD)/unit: $(OBJ) $(TEST_OBJ)
	$(SAY) "  LINK    $@"
	$(Q)$(CC) $(CFLAGS) $(SANITIZE) -o $@ $^ $(LIBS) $(CHECK_LIBS) -lm

$(ARCHIVE): $(OBJ)
	@rm -f $@
	@$(AR) rcs $@ $^

$(BUILD)/bench/%: $(BUILD)/tests/bench/%.o $(ARCHIVE)
	$(SAY) "  LINK    $@"
	@mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS) $(SANITIZE) -o $@ $^ $(LIBS) -lm

$(BUILD)/fuzz/%: $(BUILD)/tests/fuzz/%.o $(ARCHIVE)
	$(SAY) "  LINK    $@"
	@mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS) $(SANITIZE) -fsanitize=fuzzer -o $@ $^ $(LIBS) -lm

# It stands in for one whose functions are found by name.
$(BUILD)/e2e/interpreter: private E2E_LDFLAGS := -rdynamic
$(BUILD)/e2e/%: tests/e2e/c/%.c $(wildcard preload/cprof.h tests/e2e/c/*.h) $(BUILD)/.flags
	$(SAY) "  CC      $@"
	@mkdir -p $(@D)
	$(Q)$(CC) -std=gnu11 -D_GNU_SOURCE= -O2 -g -Wall -Wextra $(WERROR) $(INCLUDES) $(E2E_LDFLAGS) -o $@ $< -ldl -lpthread -lm

# It stands in for another build of the library.
$(BUILD)/e2e/liboldcopy.so: private SONAME := libcprof.so
$(BUILD)/e2e/lib%.so: tests/e2e/c/lib%.c $(wildcard preload/cprof.h)
	$(SAY) "  CC      $@"
	@mkdir -p $(@D)
	$(Q)$(CC) -std=gnu11 -D_GNU_SOURCE= -O2 -g -fPIC -Wall -Wextra $(WERROR) -I. -shared -Wl,-soname,$(or $(SONAME),lib$*.so) \
		-o $@ $< -ldl -lpthread -lm

# Its accesses to memory become calls of explore.c, which stands in for the sanitizer's runtime. gcc warns of fences, which neither sees.
$(BUILD)/explore/%: tests/explore/explore_%.c tests/explore/explore.c tests/explore/explore.h $(SRC) $(BUILD)/.flags
	$(SAY) "  CC      $@"
	@mkdir -p $(@D)
	$(Q)$(CC) $(CODEGEN) -O1 -g $(WARNINGS) $(INCLUDES) -c -o $@.runtime.o tests/explore/explore.c
	$(Q)$(CC) $(CODEGEN) -O1 -g $(WARNINGS) $(INCLUDES) -fsanitize=thread -c -o $@.o $<
	$(Q)$(CC) -o $@ $@.runtime.o $@.o -lpthread

# ---- the simulated GPU: real sonames and version nodes, objects of the same sources with other settings ----------

# Function calls inside a library bind inside it, as in the real ones: interposing must not see them.
SIM_CFLAGS := -std=gnu11 -D_GNU_SOURCE= -O2 -g -fPIC -Wno-unused-function $(CFLAGS) $(WARNINGS) -Wno-missing-prototypes \
	$(INCLUDES) $(SANITIZE)
SIM_LINK = $(CC) $(CFLAGS) $(SANITIZE) -shared -Wl,-Bsymbolic-functions -Wl,-rpath,'$$ORIGIN' -Wl,-soname,$(@F) \
	-Wl,--version-script=$(filter %.map,$^) -o $@ $(filter %.o,$^) -lpthread -ldl

define sim_objects # name, sources, options
$(SIM)/$(1)/%.o: tests/sim/%.c $(BUILD)/.flags
	$$(SAY) "  CC      $$@"
	@mkdir -p $$(@D)
	$$(Q)$$(CC) $$(SIM_CFLAGS) $(3) -MMD -MP -c -o $$@ $$<
SIM_DEPS += $(2:tests/sim/%.c=$(SIM)/$(1)/%.d)
endef
$(eval $(call sim_objects,cuda,$(SIM_CUDA_SRC),))
$(eval $(call sim_objects,cudart12,$(SIM_CUDART_SRC),-DSIM_CUDART=12))
$(eval $(call sim_objects,cudart13,$(SIM_CUDART_SRC),-DSIM_CUDART=13))
$(eval $(call sim_objects,static,$(SIM_CUDART_SRC),-DSIM_CUDART=13 -DSIM_HIDDEN -fvisibility=hidden))
$(foreach n,13 12 11.8,$(eval $(call sim_objects,cupti$n,$(SIM_CUPTI_SRC),-DSIM_CUPTI_SONAME='"libcupti.so.$n"')))

$(SIM)/libcuda.so.1: $(SIM_CUDA_SRC:tests/sim/%.c=$(SIM)/cuda/%.o) tests/sim/libcuda.map
	$(SAY) "  LINK    $@"
	$(Q)$(SIM_LINK)
	@ln -sf $(@F) $(SIM)/libcuda.so

$(SIM)/libcudart.so.%: tests/sim/cudart_%.map $(SIM)/libcuda.so.1
	$(SAY) "  LINK    $@"
	$(Q)$(SIM_LINK)
$(SIM)/libcudart.so.12: $(SIM_CUDART_SRC:tests/sim/%.c=$(SIM)/cudart12/%.o)
$(SIM)/libcudart.so.13: $(SIM_CUDART_SRC:tests/sim/%.c=$(SIM)/cudart13/%.o)

$(SIM)/libcudart_static.a: $(SIM_CUDART_SRC:tests/sim/%.c=$(SIM)/static/%.o)
	@rm -f $@
	@$(AR) rcs $@ $^

$(SIM)/libcupti.so.%: tests/sim/cupti_%.map
	$(SAY) "  LINK    $@"
	$(Q)$(SIM_LINK)
$(foreach n,13 12 11.8,$(eval $(SIM)/libcupti.so.$n: $(SIM_CUPTI_SRC:tests/sim/%.c=$(SIM)/cupti$n/%.o)))

# A PyTorch with CUPTI linked into it: in a folder of its own, because its names are PyTorch's.
$(SIM)/torch/libtorch_cpu.so: $(SIM_CUPTI_SRC:tests/sim/%.c=$(SIM)/cupti13/%.o)
	$(SAY) "  LINK    $@"
	@mkdir -p $(@D)
	$(Q)echo '{ global: cupti*; local: *; };' >$@.map
	$(Q)$(CC) $(CFLAGS) $(SANITIZE) -shared -Wl,-Bsymbolic-functions -Wl,-soname,$(@F) -Wl,--version-script=$@.map -o $@ $^ -lpthread -ldl
$(SIM)/torch/libtorch_cuda.so: $(BUILD)/.flags
	@mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS) $(SANITIZE) -shared -Wl,-soname,$(@F) -o $@ -x c /dev/null

$(SIM)/libsystemclock.so: tests/sim/system_clock.c $(BUILD)/.flags
	$(SAY) "  LINK    $@"
	@mkdir -p $(@D)
	$(Q)$(CC) $(SIM_CFLAGS) -shared -o $@ $< -lpthread -ldl

# Programs: the runtime 13 unless said otherwise below. They find the libraries beside them, LD_LIBRARY_PATH first.
GPU_CC = $(CC) -std=gnu11 -D_GNU_SOURCE= -O2 -g $(CFLAGS) $(WARNINGS) -Wno-missing-prototypes $(INCLUDES) $(SANITIZE)
GPU_RPATH := -Wl,-rpath,'$$ORIGIN/../sim'
GPU_LINK := $(SIM)/libcudart.so.13
GPU_KERNELS := $(BUILD)/gpu/obj/kernels_sim.o
GPU_HEADERS := $(wildcard tests/gpu/*.h) preload/cprof.h tests/sim/sim.h tests/sim/image.h

$(BUILD)/gpu/obj/%.o: tests/gpu/%.c $(GPU_HEADERS) $(BUILD)/.flags
	@mkdir -p $(@D)
	$(Q)$(GPU_CC) -fPIC -fvisibility=hidden -c -o $@ $<

$(BUILD)/gpu/%: $(BUILD)/gpu/obj/%.o $(GPU_KERNELS) $(SIM_LIB)
	$(SAY) "  LINK    $@"
	$(Q)$(GPU_CC) -o $@ $(filter-out $(GPU_WITHOUT),$(filter %.o,$^)) $(GPU_LINK) $(GPU_RPATH) -lpthread -ldl

# cuBLAS, cuBLASLt and cuDNN, whose symbols carry their sonames as version.
BLAS_SIM = $(GPU_CC) -fPIC -shared -Wl,-soname,$(@F) -Wl,--version-script=$@.map -o $@ $(filter %.c %.o,$^) \
	$(filter %.so.12 %.so.13,$^) -Wl,-rpath,'$$ORIGIN' -lpthread -ldl
$(SIM)/libcublasLt.so.12: tests/gpu/libcublasLt.c tests/gpu/blas_sim.h $(GPU_KERNELS) $(SIM)/libcudart.so.13
	$(SAY) "  LINK    $@"
	$(Q)echo '$(@F) { global: cublas*; blas_sim_note; local: *; };' >$@.map
	$(Q)$(BLAS_SIM)
$(SIM)/libcublas.so.12: tests/gpu/libcublas.c tests/gpu/blas_sim.h $(GPU_KERNELS) $(SIM)/libcudart.so.13 \
		$(SIM)/libcublasLt.so.12
	$(SAY) "  LINK    $@"
	$(Q)echo '$(@F) { global: cublas*; local: *; };' >$@.map
	$(Q)$(BLAS_SIM)

$(SIM)/libcudnn.so.9: tests/gpu/libcudnn.c tests/gpu/dnn_sim.h tests/gpu/blas_sim.h $(GPU_KERNELS) $(SIM)/libcudart.so.13
	$(SAY) "  LINK    $@"
	$(Q)echo '$(@F) { global: cudnn*; blas_sim_note; local: *; };' >$@.map
	$(Q)$(BLAS_SIM)

$(BUILD)/gpu/dnn: GPU_LINK := $(SIM)/libcudnn.so.9 $(SIM)/libcudart.so.13
$(BUILD)/gpu/gemm $(BUILD)/gpu/products: GPU_LINK := $(SIM)/libcublas.so.12 $(SIM)/libcublasLt.so.12 $(SIM)/libcudart.so.13
$(BUILD)/gpu/driver_only $(BUILD)/gpu/two_runtimes: GPU_WITHOUT := $(GPU_KERNELS)
$(BUILD)/gpu/driver_only: GPU_LINK := $(SIM)/libcuda.so.1
$(BUILD)/gpu/static_runtime: GPU_LINK := $(SIM)/libcudart_static.a
$(BUILD)/gpu/second_client: GPU_LINK := $(SIM)/libcudart.so.13 $(SIM)/libcupti.so.13
$(BUILD)/gpu/two_runtimes: GPU_LINK = $(BUILD)/gpu/libgpu12.so $(BUILD)/gpu/libgpu13.so -Wl,-rpath,'$$ORIGIN'
$(BUILD)/gpu/two_runtimes: $(BUILD)/gpu/libgpu12.so $(BUILD)/gpu/libgpu13.so

# One library, linked to each of the two runtimes, with kernels of its own.
$(BUILD)/gpu/libgpu%.so: tests/gpu/libgpu.c tests/gpu/kernels_sim.c $(GPU_HEADERS) $(SIM)/libcudart.so.%
	$(SAY) "  LINK    $@"
	@mkdir -p $(@D)
	$(Q)$(GPU_CC) -DRUNTIME=$* -fPIC -fvisibility=hidden -shared -Wl,-soname,libgpu$*.so -o $@ $(filter %.c,$^) \
		$(SIM)/libcudart.so.$* $(GPU_RPATH)

# The same with the runtime inside, for processes that have NVIDIA's libcudart: that one does not work on a simulated driver.
$(BUILD)/gpu/libgpu13_static.so: tests/gpu/libgpu.c tests/gpu/kernels_sim.c $(GPU_HEADERS) $(SIM)/libcudart_static.a
	$(SAY) "  LINK    $@"
	@mkdir -p $(@D)
	$(Q)$(GPU_CC) -DRUNTIME=13 -fPIC -fvisibility=hidden -shared -Wl,-soname,$(@F) -o $@ $(filter %.c,$^) \
		$(SIM)/libcudart_static.a $(SIM)/libcuda.so.1 $(GPU_RPATH) -lpthread -ldl

# A stand-in for NCCL, which brings a runtime of its own as NCCL does.
$(BUILD)/gpu/libnccl.so.2: tests/gpu/libnccl.c tests/gpu/kernels_sim.c $(GPU_HEADERS) tests/gpu/nccl.h $(SIM)/libcudart_static.a
	$(SAY) "  LINK    $@"
	@mkdir -p $(@D)
	$(Q)$(GPU_CC) -fPIC -fvisibility=hidden -shared -Wl,-soname,libnccl.so.2 -o $@ $(filter %.c,$^) \
		$(SIM)/libcudart_static.a $(SIM)/libcuda.so.1 $(GPU_RPATH) -lpthread -ldl
$(BUILD)/gpu/transfers $(BUILD)/gpu/ranks: GPU_LINK = $(SIM)/libcudart.so.13 $(BUILD)/gpu/libnccl.so.2 -Wl,-rpath,'$$ORIGIN'
$(BUILD)/gpu/transfers $(BUILD)/gpu/ranks: $(BUILD)/gpu/libnccl.so.2

# Rewritten only when its text changes, so that another compiler, other flags or a new test file rebuild
# exactly what they touch.
define keep_if_same
	@mkdir -p $(@D)
	@printf '%s\n' $(1) >$@.new; if cmp -s $@.new $@; then rm $@.new; else mv $@.new $@; fi
endef

$(BUILD)/.flags: .always
	$(call keep_if_same,'$(CC) $(ALL_CFLAGS)')

$(BUILD)/suites.def: .always
	$(call keep_if_same,'/* Made by the Makefile from the names of the files test_NAME.c below tests/unit. */' $(patsubst %,'SUITE(%)',$(SUITES)))

# Objects that only lead to a program are kept like all others.
.SECONDARY:

.PHONY: .always
.always:

-include $(SIM_DEPS)
-include $(OBJ:.o=.d) $(TEST_OBJ:.o=.d) $(patsubst %.c,$(BUILD)/%.d,$(wildcard tests/bench/*.c tests/fuzz/*.c))
