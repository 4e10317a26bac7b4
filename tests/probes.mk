# SPDX-License-Identifier: GPL-2.0-or-later
#
# Feature probes: each names the Debian package to install when something is missing.

debian_libelf := libelf-dev
debian_libdw := libdw-dev
debian_capstone := libcapstone-dev
debian_jansson := libjansson-dev
debian_zlib := zlib1g-dev
debian_liblzma := liblzma-dev
debian_libzstd := libzstd-dev
debian_liblz4 := liblz4-dev

ifneq ($(shell command -v $(PKG_CONFIG)),)
MISSING := $(strip $(foreach p,$(PACKAGES),$(if $(shell $(PKG_CONFIG) --exists $(p) && echo y),,$(p))))
PACKAGE_CFLAGS := $(if $(MISSING),,$(shell $(PKG_CONFIG) --cflags $(PACKAGES)))
PACKAGE_LIBS := $(if $(MISSING),,$(shell $(PKG_CONFIG) --libs $(PACKAGES))) -lm
else
NO_PKG_CONFIG := 1
endif

.PHONY: probes
probes:
ifdef NO_PKG_CONFIG
	@echo "sonde: pkg-config not found: apt-get install pkg-config (or: make setup)" >&2; exit 1
endif
ifneq ($(MISSING),)
	@$(foreach p,$(MISSING),echo "sonde: library $(p) not found: apt-get install $(debian_$(p)) (or: make setup)" >&2;) exit 1
endif
	@:
