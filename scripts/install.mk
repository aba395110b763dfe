# SPDX-License-Identifier: Apache-2.0
# Installs the library, its header, the command, manual pages and completions; also makes the wheel, which has the same.

INSTALLED = $(DESTDIR)$(PREFIX)
# The folder below PREFIX in which python3, which runs the command, looks for packages; empty if there is none.
SITE = $(shell python3 -c 'import site, sys; print(*[at for at in site.getsitepackages() if at.startswith(sys.argv[1] + "/")][:1])' '$(PREFIX)')
VERSION = $(shell sed -n 's/^__version__ = "\(.*\)"/\1/p' scripts/python/cprof/__init__.py)

## install: library, header, command and manual into PREFIX (default /usr/local), below DESTDIR
.PHONY: install
install: $(LIB) install-pages
	$(Q)install -D -m 755 $(LIB) "$(INSTALLED)/lib/libcprof.so"
	$(Q)install -D -m 755 scripts/cprof "$(INSTALLED)/bin/cprof"
	$(Q)install -d "$(INSTALLED)/share/cprof/cprof/tool"
	$(Q)install -m 644 scripts/python/cprof/*.py scripts/python/cprof/py.typed "$(INSTALLED)/share/cprof/cprof"
	$(Q)install -m 644 scripts/python/cprof/tool/*.py "$(INSTALLED)/share/cprof/cprof/tool"
	$(Q)[ -z "$(SITE)" ] || { install -d "$(DESTDIR)$(SITE)" && echo "$(PREFIX)/share/cprof" >"$(DESTDIR)$(SITE)/cprof.pth"; }
	$(Q)$(RUN_LDCONFIG)
	$(SAY) "  INSTALL $(INSTALLED)/lib/libcprof.so"
	@echo "LD_PRELOAD=$(PREFIX)/lib/libcprof.so python train.py"
	@$(if $(DESTDIR),:,$(TELL_OF_BARE_NAME))
	@[ -n "$(SITE)" ] || echo "import cprof: with PYTHONPATH=$(PREFIX)/share/cprof, because python3 has no folder for packages below $(PREFIX)"

## install-pages: of these only header, pkg-config file, manual pages and completions, as in the wheel
.PHONY: install-pages
install-pages:
	$(Q)install -D -m 644 preload/cprof.h "$(INSTALLED)/include/cprof.h"
	$(Q)install -d "$(INSTALLED)/lib/pkgconfig"
	$(Q)printf '%s\n' 'prefix=$${pcfiledir}/../..' 'Name: cprof' 'Description: marks for the profiler cprof' 'Version: $(VERSION)' \
		'Cflags: -I$${prefix}/include' >"$(INSTALLED)/lib/pkgconfig/cprof.pc"
	$(Q)for page in scripts/man/*.[137]; do install -D -m 644 $$page "$(INSTALLED)/share/man/man$${page##*.}/$${page##*/}" || exit 1; done
	$(Q)install -D -m 644 scripts/man/cprof.bash "$(INSTALLED)/share/bash-completion/completions/cprof"
	$(Q)install -D -m 644 scripts/man/_cprof "$(INSTALLED)/share/zsh/site-functions/_cprof"
	$(Q)install -D -m 644 scripts/man/cprof.fish "$(INSTALLED)/share/fish/vendor_completions.d/cprof.fish"

## uninstall: remove what install installed
.PHONY: uninstall
uninstall:
	$(Q)rm -f "$(INSTALLED)/lib/libcprof.so" "$(INSTALLED)/include/cprof.h" "$(INSTALLED)/bin/cprof" "$(INSTALLED)/lib/pkgconfig/cprof.pc"
	$(Q)rm -rf "$(INSTALLED)/share/cprof"
	$(Q)[ -z "$(SITE)" ] || rm -f "$(DESTDIR)$(SITE)/cprof.pth"
	$(Q)for page in scripts/man/*.[137]; do rm -f "$(INSTALLED)/share/man/man$${page##*.}/$${page##*/}"; done
	$(Q)rm -f "$(INSTALLED)/share/bash-completion/completions/cprof" "$(INSTALLED)/share/zsh/site-functions/_cprof" \
		"$(INSTALLED)/share/fish/vendor_completions.d/cprof.fish"
	$(Q)$(RUN_LDCONFIG)

## wheel: dist/cprof-….whl with library, command and manual for glibc 2.28 or later, built by zig (installed by pip; WHEEL="--machine aarch64")
.PHONY: wheel
wheel:
	$(Q)$$(command -v $(PYTHON_VENV) || echo python3) scripts/wheel.py $(WHEEL)

## man: make the manual pages and completions in scripts/man, and the page of settings, from command, header and config.def
.PHONY: man
man:
	$(Q)python3 scripts/lint/gen_settings.py
	$(Q)python3 scripts/lint/gen_man.py

# The loader finds the bare name in LD_PRELOAD=libcprof.so only through its cache. A staged install
# (DESTDIR) leaves the cache of this machine alone.
RUN_LDCONFIG = if [ -z "$(DESTDIR)" ] && [ "$$(id -u)" = 0 ]; then ldconfig; fi

# Prints what the loader finds by the bare name, with the loader's tracing of libraries.
TELL_OF_BARE_NAME = found=$$(LD_PRELOAD=libcprof.so LD_TRACE_LOADED_OBJECTS=1 /bin/true 2>/dev/null | sed -n 's/^[[:space:]]*libcprof.so => \([^ ]*\).*/\1/p'); \
	if [ -z "$$found" ]; then echo "LD_PRELOAD=libcprof.so: the loader does not find the bare name; LD_LIBRARY_PATH=$(PREFIX)/lib helps"; \
	elif [ "$$(realpath "$$found")" = "$$(realpath "$(PREFIX)/lib/libcprof.so")" ]; then echo "LD_PRELOAD=libcprof.so: the loader finds the bare name"; \
	else echo "LD_PRELOAD=libcprof.so: the loader finds another copy by the bare name, $$found"; fi
