# SPDX-License-Identifier: GPL-2.0-or-later
#
# Everything that tests, measures or demonstrates.

#:   setup         install missing Debian packages with apt
#:   demo          boot a Debian kernel, trace it, print the report
#:   check         check-layers, check-unit, check-fuzz (short) and check-guest
#:   check-unit    unit tests, no KVM needed (TESTS='tests/unit/test-x.c' for some)
#:   check-guest   guest tests in the software KVM host (GUEST='6.1' for some)
#:   check-dump    introspection of memory dumps under plain QEMU (GUEST='6.1' for some)
#:   check-fuzz    every fuzz target for FUZZ_SECONDS (30)
#:   check-layers  the folders' dependency direction
#:   check-long    the long campaigns
#:   bench         cost figures in the deterministic testbed, to $(O)/bench.json

FUZZ_SECONDS ?= 30
TESTS ?= $(UNIT_SOURCES)

.PHONY: setup
setup:
	$(Q)tests/setup

.PHONY: check-layers
check-layers:
	$(Q)prove -e perl tests/check-layers

$(O)/tests/unit/%: $(O)/tests/unit/%.o $(TEST_LIB_OBJECTS) $(O)/libsonde.a
	$(say) LD $@
	$(Q)$(CC) $(LDFLAGS_ALL) $(LDFLAGS) -o $@ $^ $(PACKAGE_LIBS) $(TEST_LIBS)

# Zydis is the oracle for instruction lengths.
$(O)/tests/unit/test-insn: TEST_LIBS := -lZydis

.SECONDARY:

.PHONY: unit-tests
unit-tests: $(UNIT_TESTS)

.PHONY: check-unit
check-unit: all $(TESTS:%.c=$(O)/%)
	$(Q)SONDE=$(abspath $(O))/sonde prove -e '' $(TESTS:%.c=$(O)/%)

# Fuzz targets are built from the sources, all instrumented, with clang.
FUZZ_FLAGS := -fsanitize=fuzzer,address,undefined -fno-sanitize-recover=undefined -O1 -g
$(O)/fuzz/%.o: %.c | probes
	$(say) CC $@
	$(Q)mkdir -p $(@D) && $(CLANG) $(CFLAGS_ALL) $(PACKAGE_CFLAGS) $(subst sanitize=fuzzer,sanitize=fuzzer-no-link,$(FUZZ_FLAGS)) -MMD -MP -c -o $@ $<

$(O)/fuzz/libsonde.a: $(patsubst %.c,$(O)/fuzz/%.o,$(LIB_SOURCES) $(TEST_LIB_SOURCES))
	$(Q)rm -f $@ && $(AR) rcs $@ $^

FUZZ_LIB_OBJECTS := $(TEST_LIB_SOURCES:%.c=$(O)/fuzz/%.o)
$(O)/tests/fuzz/fuzz-%: tests/fuzz/fuzz-%.c $(FUZZ_LIB_OBJECTS) $(O)/fuzz/libsonde.a
	$(say) CLANG $@
	$(Q)mkdir -p $(@D) && $(CLANG) $(CFLAGS_ALL) $(PACKAGE_CFLAGS) $(FUZZ_FLAGS) -o $@ $< $(FUZZ_LIB_OBJECTS) $(O)/fuzz/libsonde.a $(PACKAGE_LIBS)

.PHONY: check-fuzz
check-fuzz: $(FUZZ_TARGETS)
	$(Q)FUZZ_SECONDS=$(FUZZ_SECONDS) prove -e '' tests/fuzz/run.t :: $(FUZZ_TARGETS)

-include $(wildcard $(O)/fuzz/*/*.d)

# Memory dumps of real kernels under plain QEMU, read by introspect/.
$(O)/tests/introspect/dump-facts: $(O)/tests/introspect/dump-facts.o $(O)/libsonde.a
	$(say) LD $@
	$(Q)$(CC) $(LDFLAGS_ALL) $(LDFLAGS) -o $@ $^ $(PACKAGE_LIBS)

.PHONY: check-dump
check-dump: $(O)/tests/introspect/dump-facts
	$(Q)O=$(abspath $(O)) $(if $(GUEST),GUEST='$(GUEST)') prove -e perl tests/introspect/dump.t

# Guest tests: programs that prepare or judge them, the kernels, the guests' initramfs.
GUEST_TOOLS := $(O)/tests/guest/oracle-extract $(O)/tests/guest/call-target
ORACLE_OBJECTS := $(O)/tests/workload/oracle-extract.o $(O)/tests/lib/event-format.o $(O)/tests/lib/ring-buffer.o
$(O)/tests/guest/oracle-extract: $(ORACLE_OBJECTS) $(O)/libsonde.a
	$(say) LD $@
	$(Q)mkdir -p $(@D) && $(CC) $(LDFLAGS_ALL) $(LDFLAGS) -o $@ $^
$(O)/tests/guest/call-target: $(O)/tests/guest/call-target.o $(O)/libsonde.a
	$(say) LD $@
	$(Q)$(CC) $(LDFLAGS_ALL) $(LDFLAGS) -o $@ $^ $(PACKAGE_LIBS)

$(O)/guest/initrd: $(wildcard tests/workload/*) tests/testbed/build-initrd
	$(say) INITRD $@
	$(Q)tests/testbed/build-initrd $@

.PHONY: guest-parts
guest-parts: all $(GUEST_TOOLS) $(O)/guest/initrd
	$(Q)for v in 5.10 6.1 6.12 7.0; do tests/testbed/fetch-kernel $$v >/dev/null || exit 1; done

.PHONY: check-guest
check-guest: guest-parts
	$(Q)GUEST='$(GUEST)' prove -j2 -e perl tests/guest/*.t
