# SPDX-License-Identifier: GPL-2.0-or-later
#
# Everything that tests, measures or demonstrates.

#:   setup         install missing Debian packages with apt
#:   demo          boot a Debian kernel, trace it, print the report
#:   check         check-layers, check-unit, check-fuzz (short) and check-guest
#:   check-unit    unit tests, no KVM needed (TESTS='tests/unit/test-x.c' for some)
#:   check-guest   guest tests in the software KVM host (GUEST='6.1' for some)
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
	$(Q)$(CC) $(LDFLAGS_ALL) $(LDFLAGS) -o $@ $^ $(PACKAGE_LIBS)

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

$(O)/fuzz/libsonde.a: $(LIB_SOURCES:%.c=$(O)/fuzz/%.o)
	$(Q)rm -f $@ && $(AR) rcs $@ $^

$(O)/tests/fuzz/fuzz-%: tests/fuzz/fuzz-%.c $(O)/fuzz/libsonde.a
	$(say) CLANG $@
	$(Q)mkdir -p $(@D) && $(CLANG) $(CFLAGS_ALL) $(PACKAGE_CFLAGS) $(FUZZ_FLAGS) -o $@ $< $(O)/fuzz/libsonde.a $(PACKAGE_LIBS)

.PHONY: check-fuzz
check-fuzz: $(FUZZ_TARGETS)
	$(Q)FUZZ_SECONDS=$(FUZZ_SECONDS) prove -e '' tests/fuzz/run.t :: $(FUZZ_TARGETS)

-include $(wildcard $(O)/fuzz/*/*.d)
