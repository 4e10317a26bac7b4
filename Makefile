# SPDX-License-Identifier: GPL-2.0-or-later
#
# make help lists the targets. All .c files in the five source folders and their rooms are built into
# one library, which vmm/main.c is linked with. No source file is named here, so a new one needs no
# change here.

O ?= build
# One name for one folder: what was built as build/x.o depends on its headers as /tree/build/x.o, too.
override O := $(patsubst $(CURDIR)/%,%,$(O))
V ?= 0
ASAN ?= 0
TSAN ?= 0
COVERAGE ?= 0
prefix ?= /usr/local
CC ?= gcc
CLANG ?= clang
OBJCOPY ?= objcopy
PKG_CONFIG ?= pkg-config

SHELL := /bin/bash
Q := $(if $(filter 1,$(V)),,@)
say = $(if $(filter 1,$(V)),@:,@printf '  %-7s %s\n')

FOLDERS := formats guest-symbols introspect patcher vmm
PACKAGES := libelf libdw capstone jansson zlib liblzma libzstd liblz4 ncurses

CFLAGS ?= -O2 -g
CFLAGS_ALL := -std=gnu11 -D_GNU_SOURCE -I. -Wall -Wextra -Wshadow -Wstrict-prototypes -pthread
LDFLAGS_ALL := -pthread -Wl,--as-needed
ifeq ($(CI),true)
CFLAGS_ALL += -Werror
endif
ifeq ($(ASAN),1)
CFLAGS_ALL += -fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer
LDFLAGS_ALL += -fsanitize=address,undefined
endif
ifeq ($(TSAN),1)
# It does not understand fences; what they order is atomic, too.
CFLAGS_ALL += -fsanitize=thread -fno-omit-frame-pointer -Wno-tsan
LDFLAGS_ALL += -fsanitize=thread
endif
ifneq ($(filter 1,$(ASAN) $(TSAN)),)
# Their tests share one library.
CFLAGS_ALL += -fPIC
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

# It has these files in it.
$(O)/formats/html/page.o: formats/html/page.css formats/html/page.js

# Rebuild everything when the flags change, for example with ASAN=1 after a plain build.
$(O)/flags: FORCE
	$(Q)mkdir -p $(O)
	$(Q)echo '$(CC) $(CFLAGS_ALL) $(CFLAGS) $(LDFLAGS_ALL)' | cmp -s - $@ || \
		echo '$(CC) $(CFLAGS_ALL) $(CFLAGS) $(LDFLAGS_ALL)' > $@
.PHONY: FORCE
FORCE:

# DESTDIR is a staging folder for packages; it is not part of any installed path.
BIN_DIR := $(DESTDIR)$(prefix)/bin
MAN_DIR := $(DESTDIR)$(prefix)/share/man
COMPLETION_DIR := $(DESTDIR)$(prefix)/share/bash-completion/completions
MAN_PAGES := $(wildcard $(FOLDERS:%=%/man/*.1) $(FOLDERS:%=%/man/*.5))

.PHONY: install uninstall
install: all
	install -D -m 755 -t $(BIN_DIR) $(O)/sonde
	$(foreach n,1 5,install -D -m 644 -t $(MAN_DIR)/man$(n) $(filter %.$(n),$(MAN_PAGES)) && ) :
	install -D -m 644 vmm/sonde.bash-completion $(COMPLETION_DIR)/sonde
uninstall:
	rm -f $(BIN_DIR)/sonde $(COMPLETION_DIR)/sonde \
		$(foreach n,1 5,$(addprefix $(MAN_DIR)/man$(n)/,$(notdir $(filter %.$(n),$(MAN_PAGES)))))

.PHONY: clean
clean:
	rm -rf $(O)

.PHONY: help
help:
	@sed -n 's/^#: //p' Makefile tests/tests.mk
	@sed -n 's/^#= //p' Makefile
#: targets:
#:   all           build $(O)/sonde (default)
#:   install       install program, man pages and completion (prefix=/usr/local, DESTDIR=)
#:   uninstall     remove what install has installed
#:   clean         remove $(O)
#= variables:
#=   V=1           show the commands
#=   O=DIR         build in DIR (default build)
#=   CI=true       make warnings errors
#=   ASAN=1        with AddressSanitizer and UBSan
#=   TSAN=1        with ThreadSanitizer
#=   COVERAGE=1    with gcov counters

-include $(LIB_OBJECTS:.o=.d) $(O)/vmm/main.d $(UNIT_TESTS:=.d) $(wildcard $(O)/tests/*/*.d)
