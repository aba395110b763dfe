# SPDX-License-Identifier: Apache-2.0
# Installing the library, its header, the command, manual pages and completions.

## install: library, header, command and manual into PREFIX (default /usr/local), below DESTDIR
.PHONY: install
install: $(LIB)
	$(Q)install -d "$(DESTDIR)$(PREFIX)/lib" "$(DESTDIR)$(PREFIX)/include"
	$(Q)install -m 755 $(LIB) "$(DESTDIR)$(PREFIX)/lib/libcprof.so"
	$(Q)install -m 644 preload/cprof.h "$(DESTDIR)$(PREFIX)/include/cprof.h"
	$(Q)install -d "$(DESTDIR)$(PREFIX)/bin" "$(DESTDIR)$(PREFIX)/share/cprof/cprof/tool"
	$(Q)install -m 755 scripts/cprof "$(DESTDIR)$(PREFIX)/bin/cprof"
	$(Q)install -m 644 scripts/python/cprof/*.py scripts/python/cprof/py.typed "$(DESTDIR)$(PREFIX)/share/cprof/cprof"
	$(Q)install -m 644 scripts/python/cprof/tool/*.py "$(DESTDIR)$(PREFIX)/share/cprof/cprof/tool"
	$(Q)for section in 1 3 7; do install -d "$(DESTDIR)$(PREFIX)/share/man/man$$section"; \
		install -m 644 scripts/man/*.$$section "$(DESTDIR)$(PREFIX)/share/man/man$$section"; done
	$(Q)install -d $(COMPLETIONS)
	$(Q)install -m 644 scripts/man/cprof.bash "$(DESTDIR)$(PREFIX)/share/bash-completion/completions/cprof"
	$(Q)install -m 644 scripts/man/_cprof "$(DESTDIR)$(PREFIX)/share/zsh/site-functions/_cprof"
	$(Q)install -m 644 scripts/man/cprof.fish "$(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d/cprof.fish"
	$(Q)$(RUN_LDCONFIG)
	$(SAY) "  INSTALL $(DESTDIR)$(PREFIX)/lib/libcprof.so"

## uninstall: remove what install put there
.PHONY: uninstall
uninstall:
	$(Q)rm -f "$(DESTDIR)$(PREFIX)/lib/libcprof.so" "$(DESTDIR)$(PREFIX)/include/cprof.h" "$(DESTDIR)$(PREFIX)/bin/cprof"
	$(Q)rm -rf "$(DESTDIR)$(PREFIX)/share/cprof"
	$(Q)for page in scripts/man/*.[137]; do rm -f "$(DESTDIR)$(PREFIX)/share/man/man$${page##*.}/$${page##*/}"; done
	$(Q)rm -f "$(DESTDIR)$(PREFIX)/share/bash-completion/completions/cprof" "$(DESTDIR)$(PREFIX)/share/zsh/site-functions/_cprof" \
		"$(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d/cprof.fish"
	$(Q)$(RUN_LDCONFIG)

COMPLETIONS = $(foreach folder,bash-completion/completions zsh/site-functions fish/vendor_completions.d,"$(DESTDIR)$(PREFIX)/share/$(folder)")

## man: the manual pages and completions in scripts/man, and the page of settings, made anew from command, header and config.def
.PHONY: man
man:
	$(Q)python3 scripts/lint/gen_settings.py
	$(Q)python3 scripts/lint/gen_man.py

# The loader finds the bare name in LD_PRELOAD=libcprof.so only through its cache. A staged install
# (DESTDIR) leaves the cache of this machine alone.
RUN_LDCONFIG = if [ -z "$(DESTDIR)" ] && [ "$$(id -u)" = 0 ]; then ldconfig; fi
