# SPDX-License-Identifier: Apache-2.0
# Programs of the end-to-end tests, benchmarks and fuzzers, and the long runs.

# Programs and libraries that the end-to-end tests trace: tests/e2e/c/x.c -> x, tests/e2e/c/libx.c -> libx.so.
E2E_SRC := $(wildcard tests/e2e/c/*.c)
E2E_LIB := $(patsubst tests/e2e/c/%.c,$(BUILD)/e2e/%.so,$(filter tests/e2e/c/lib%,$(E2E_SRC)))
E2E_BIN := $(patsubst tests/e2e/c/%.c,$(BUILD)/e2e/%,$(filter-out tests/e2e/c/lib%,$(E2E_SRC)))

# Code that is tested in every interleaving of its threads: tests/explore/explore_x.c -> explore/x.
EXPLORE_BIN := $(patsubst tests/explore/explore_%.c,$(BUILD)/explore/%,$(wildcard tests/explore/explore_*.c))

# Programs of `make bench` and `make fuzz`. They link the modules as an archive, so that each contains only what it
# calls, and a program that only includes cprof.h is an ordinary program to run under the library.
ARCHIVE := $(BUILD)/libmodules.a
BENCH_BIN := $(patsubst tests/bench/%.c,$(BUILD)/bench/%,$(wildcard tests/bench/bench_*.c))
FUZZ_BIN := $(patsubst tests/fuzz/%.c,$(BUILD)/fuzz/%,$(wildcard tests/fuzz/fuzz_*.c))
FUZZ_SECONDS ?= 600

.PHONY: e2e-programs
e2e-programs: $(E2E_BIN) $(E2E_LIB) $(EXPLORE_BIN) $(if $(HAVE_CUDA),sim)

## bench: measure the cost of recording, as ratios in one run (tests/bench/README.md)
.PHONY: bench
bench: setup
	$(Q)$(MAKE) all bench-programs $(if $(E2E_SRC),e2e-programs)
	$(Q)BUILD=$(abspath $(BUILD)) $(PYTHON_VENV) scripts/bench $(BENCH_ARGS)

## bench-tool: measure time and memory of the command's readers at 100 MB and 1 GB (20 minutes, 8 GB of disk; BENCH_TOOL="--mb 10 100")
.PHONY: bench-tool
bench-tool: setup
	$(Q)$(MAKE) all $(if $(HAVE_CUDA),sim)
	$(Q)BUILD=$(abspath $(BUILD)) $(PYTHON_VENV) tests/bench/tool_cost.py $(BENCH_TOOL)

## bench-fleet: name planted faults in runs of 1,024 ranks, and measure it (20 minutes; BENCH_FLEET="--ranks 256 --runs 20")
.PHONY: bench-fleet
bench-fleet: setup
	$(Q)$(PYTHON_VENV) tests/bench/fleet_cost.py $(BENCH_FLEET)

.PHONY: bench-programs
bench-programs: $(BENCH_BIN)

## fuzz: run each target of tests/fuzz for FUZZ_SECONDS=600, under ASan and UBSan (needs clang), and fuzz the command's readers
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

## other-programs: compare tests of CPython and PyTorch, and everyday programs, with and without the library (an hour; OTHER="--only git")
.PHONY: other-programs
other-programs: setup
	$(Q)$(MAKE) all e2e-programs
	$(Q)BUILD=$(abspath $(BUILD)) $(PYTHON_VENV) tests/others/run.py $(OTHER)

## soak: kill -9 200 times, let each call fail in turn, ten minutes of stacks, ten of one window, an hour each of cycles and of uneven training (SOAK_SECONDS=3600)
# The short runs come first. A failure does not stop the others.
SOAK_SECONDS ?= 3600
.PHONY: soak
soak: setup
	$(Q)$(MAKE) all e2e-programs
	$(Q)cd tests/e2e && export BUILD="$(abspath $(BUILD))" && status=0 && \
		for run in "kills.py 200" "faults.py" "../soak/stacks.py 600" "soak.py --endless 600" "soak.py $(SOAK_SECONDS)" \
			"../soak/healthy.py $(SOAK_SECONDS)"; do \
			$(abspath $(PYTHON_VENV)) $$run || { echo "make soak: $$run failed" >&2; status=1; }; done; exit $$status

## standing: run whole programs (E2E="-k flight") while cprof's thread stands still now and then
.PHONY: standing
standing: setup
	$(Q)$(PYTHON_VENV) tests/soak/standing.py $(MAKE) e2e

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

# Its functions must be found by name.
$(BUILD)/e2e/interpreter: private E2E_LDFLAGS := -rdynamic
$(BUILD)/e2e/%: tests/e2e/c/%.c $(wildcard preload/cprof.h tests/e2e/c/*.h) $(BUILD)/.flags
	$(SAY) "  CC      $@"
	@mkdir -p $(@D)
	$(Q)$(CC) -std=gnu11 -D_GNU_SOURCE= -O2 -g -Wall -Wextra $(WERROR) $(INCLUDES) $(E2E_LDFLAGS) -o $@ $< -ldl -lpthread -lm

# It imitates another build of the library.
$(BUILD)/e2e/liboldcopy.so: private SONAME := libcprof.so
$(BUILD)/e2e/lib%.so: tests/e2e/c/lib%.c $(wildcard preload/cprof.h)
	$(SAY) "  CC      $@"
	@mkdir -p $(@D)
	$(Q)$(CC) -std=gnu11 -D_GNU_SOURCE= -O2 -g -fPIC -Wall -Wextra $(WERROR) -I. -shared -Wl,-soname,$(or $(SONAME),lib$*.so) \
		-o $@ $< -ldl -lpthread -lm

# Its memory accesses become calls of explore.c, which replaces the sanitizer's runtime. gcc warns of fences, which neither supports.
$(BUILD)/explore/%: tests/explore/explore_%.c tests/explore/explore.c tests/explore/explore.h $(SRC) $(BUILD)/.flags
	$(SAY) "  CC      $@"
	@mkdir -p $(@D)
	$(Q)$(CC) $(CODEGEN) -O1 -g $(WARNINGS) $(INCLUDES) -c -o $@.runtime.o tests/explore/explore.c
	$(Q)$(CC) $(CODEGEN) -O1 -g $(WARNINGS) $(INCLUDES) -fsanitize=thread -c -o $@.o $<
	$(Q)$(CC) -o $@ $@.runtime.o $@.o -lpthread
