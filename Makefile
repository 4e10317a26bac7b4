# SPDX-License-Identifier: GPL-2.0-or-later
#
# make help lists the targets. Every .c file below the five source folders goes into one library;
# vmm/main.c and the library make the program. Nothing here names a source file, so adding one is
# adding a file.

O ?= build
V ?= 0
ASAN ?= 0
COVERAGE ?= 0
prefix ?= /usr/local
CC ?= gcc
CLANG ?= clang
PKG_CONFIG ?= pkg-config

SHELL := /bin/bash
Q := $(if $(filter 1,$(V)),,@)
say = $(if $(filter 1,$(V)),@:,@printf '  %-7s %s\n')

FOLDERS := formats guest-symbols introspect patcher vmm
PACKAGES := libelf capstone jansson zlib liblzma libzstd liblz4

CFLAGS ?= -O2 -g
CFLAGS_ALL := -std=gnu11 -D_GNU_SOURCE -I. -Wall -Wextra -Wshadow -Wstrict-prototypes -pthread
LDFLAGS_ALL := -pthread -Wl,--as-needed
ifeq ($(CI),true)
CFLAGS_ALL += -Werror
endif
ifeq ($(ASAN),1)
CFLAGS_ALL += -fsanitize=address,undefined -fno-omit-frame-pointer
LDFLAGS_ALL += -fsanitize=address,undefined
endif
ifeq ($(COVERAGE),1)
CFLAGS_ALL += --coverage
LDFLAGS_ALL += --coverage
endif

LIB_SOURCES := $(filter-out vmm/main.c,$(shell find $(FOLDERS) -name '*.c' | LC_ALL=C sort))
LIB_OBJECTS := $(LIB_SOURCES:%.c=$(O)/%.o)
UNIT_SOURCES := $(shell find tests/unit -name 'test-*.c' | LC_ALL=C sort)
UNIT_TESTS := $(UNIT_SOURCES:%.c=$(O)/%)
TEST_LIB_SOURCES := $(wildcard tests/lib/*.c)
TEST_LIB_OBJECTS := $(TEST_LIB_SOURCES:%.c=$(O)/%.o)
FUZZ_SOURCES := $(wildcard tests/fuzz/fuzz-*.c)
FUZZ_TARGETS := $(FUZZ_SOURCES:%.c=$(O)/%)

.PHONY: all
all: $(O)/sonde

include tests/probes.mk
include tests/tests.mk

$(O)/sonde: $(O)/vmm/main.o $(O)/libsonde.a
	$(say) LD $@
	$(Q)$(CC) $(LDFLAGS_ALL) $(LDFLAGS) -o $@ $^ $(PACKAGE_LIBS)

$(O)/libsonde.a: $(LIB_OBJECTS)
	$(say) AR $@
	$(Q)rm -f $@ && $(AR) qcs $@ $^

$(O)/%.o: %.c $(O)/flags | probes
	$(say) CC $@
	$(Q)mkdir -p $(@D) && $(CC) $(CFLAGS_ALL) $(PACKAGE_CFLAGS) $(CFLAGS) -MMD -MP -c -o $@ $<

# Rebuild everything when the flags change (ASAN=1 after a plain build, say).
$(O)/flags: FORCE
	$(Q)mkdir -p $(O)
	$(Q)echo '$(CC) $(CFLAGS_ALL) $(CFLAGS) $(LDFLAGS_ALL)' | cmp -s - $@ || \
		echo '$(CC) $(CFLAGS_ALL) $(CFLAGS) $(LDFLAGS_ALL)' > $@
.PHONY: FORCE
FORCE:

.PHONY: install
install: all
	install -D -m 755 $(O)/sonde $(DESTDIR)$(prefix)/bin/sonde
	for page in $(wildcard $(FOLDERS:%=%/man/*.1) $(FOLDERS:%=%/man/*.5)); do \
		install -D -m 644 $$page $(DESTDIR)$(prefix)/share/man/man$${page##*.}/$${page##*/} || exit 1; \
	done
	install -D -m 644 vmm/sonde.bash-completion \
		$(DESTDIR)$(prefix)/share/bash-completion/completions/sonde

.PHONY: clean
clean:
	rm -rf $(O)

.PHONY: help
help:
	@sed -n 's/^#: //p' Makefile tests/tests.mk
#: targets:
#:   all           build $(O)/sonde (default)
#:   install       install program, man pages and completion (DESTDIR=, prefix=/usr/local)
#:   clean         remove $(O)
#: variables:
#:   V=1           show the commands
#:   O=DIR         build in DIR (default build)
#:   ASAN=1        with AddressSanitizer and UBSan
#:   COVERAGE=1    with gcov counters

-include $(LIB_OBJECTS:.o=.d) $(O)/vmm/main.d $(UNIT_TESTS:=.d) $(TEST_LIB_OBJECTS:.o=.d)
