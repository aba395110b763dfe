# SPDX-License-Identifier: Apache-2.0
# Unit and end-to-end tests under sanitizers and valgrind, and the coverage of the unit tests.

## asan: unit tests under AddressSanitizer and LeakSanitizer
## ubsan: unit tests under UndefinedBehaviorSanitizer
## tsan: unit tests under ThreadSanitizer
.PHONY: asan ubsan tsan
asan: SANITIZER := address
ubsan: SANITIZER := undefined -fno-sanitize-recover=all
# gcc warns that its TSan does not support fences; clang's does not either, but has no such warning.
tsan: SANITIZER := thread $(if $(findstring clang,$(shell $(CC) --version 2>/dev/null)),,-Wno-tsan)
asan ubsan tsan:
	$(Q)CK_TIMEOUT_MULTIPLIER=10 $(MAKE) unit BUILD=build-$@ CFLAGS="-O1 -g -fno-omit-frame-pointer -DFRAME_POINTERS" \
		SANITIZE="-fsanitize=$(SANITIZER)"

## sanitize: unit tests under ASan, UBSan, TSan and valgrind, then end-to-end tests under ASan and TSan (an hour)
# A failure does not stop the other parts.
.PHONY: sanitize
sanitize: setup
	$(Q)command -v valgrind >/dev/null || { echo "make sanitize: needs valgrind (Debian: valgrind)" >&2; exit 1; }
	$(Q)status=0; for part in asan ubsan "tsan CC=clang" memcheck e2e-asan e2e-tsan; do \
		$(MAKE) $$part && echo "  GOOD    $$part" || { echo "  FAILED  $$part"; status=1; }; done; exit $$status

## memcheck: unit tests under valgrind
## e2e-asan: end-to-end tests of the simulated GPU and some others under ASan and UBSan
## e2e-tsan: the same under TSan
.PHONY: memcheck e2e-asan e2e-tsan
memcheck: $(BUILD)/unit
	$(Q)CK_DEFAULT_TIMEOUT=60 CK_TIMEOUT_MULTIPLIER=60 valgrind -q --fair-sched=yes --error-exitcode=99 \
		--suppressions=tests/support/valgrind.txt $<

# Tests that check a process's memory, its way to die or its LD_PRELOAD do not work with a sanitizer's runtime.
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

## asan-quick: the unit suites that parse untrusted bytes or use threads, under ASan and UBSan (3 minutes)
QUICK_SUITES := fuzz ring thread_log io_thread sink sink_gzip split json json_inputs json_gpu json_check translate stack_json dso_table modules memory_owners flop_stats \
	handler_queue upload spawn run_names nvtx records join
# -Og -g1 compiles in half the time of -O1 -g, and reports functions and lines just as well.
.PHONY: asan-quick
asan-quick:
	$(Q)$(MAKE) $(JOBS) build-quick/unit BUILD=build-quick SUITES="$(QUICK_SUITES)" CFLAGS="-Og -g1 -fno-omit-frame-pointer" \
		SANITIZE="-fsanitize=address,undefined -fno-sanitize-recover=undefined"
	$(Q)CK_TIMEOUT_MULTIPLIER=10 CK_DEFAULT_TIMEOUT=60 tests/unit/run.sh build-quick/unit $(BUILD)/times/asan $(QUICK_SUITES)

## e2e-sanitized: helper of the e2e targets: runs TESTS with the library built with SANITIZE, and RUNTIME loaded first
.PHONY: e2e-sanitized
e2e-sanitized: all e2e-programs
	$(Q)SANITIZER_RUNTIME="$$(echo $(foreach l,$(RUNTIME),$$($(CC) -print-file-name=$l)) | tr ' ' :)" \
		ASAN_OPTIONS=detect_leaks=0 UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1 TSAN_OPTIONS="report_signal_unsafe=0 suppressions=$(CURDIR)/tests/support/tsan.txt" \
		BUILD=$(abspath $(BUILD)) $(PYTHON_VENV) -m pytest -q -rs -p no:cacheprovider $(TESTS)

## coverage: unit tests with gcov; prints the share of executed lines of each file (in build-coverage/)
.PHONY: coverage
coverage:
	$(Q)$(MAKE) unit BUILD=build-coverage CFLAGS="-O0 -g --coverage" SANITIZE=--coverage
	$(Q)cd build-coverage && find . -name '*.gcda' -print0 | xargs -0 gcov -r -n -s "$(CURDIR)" 2>/dev/null \
		| awk -F"'" '/^File/ {file = $$2} \
			/^Lines executed/ && file ~ /^(preload|cupti|writer)\/.*\.c$$/ {split($$0, part, /[:%]/); \
				if (!(file in best) || part[2] > best[file]) best[file] = part[2] + 0; file = ""} \
			END {for (f in best) printf "%6.1f %%  %s\n", best[f], f}' | sort -k3
