# SPDX-License-Identifier: Apache-2.0
# Installing the library, its header and the command.

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
