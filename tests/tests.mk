# SPDX-License-Identifier: GPL-2.0-or-later
#
# Targets that test, measure or demonstrate.

#:   setup         install missing Debian packages with apt
#:   demo          boot a Debian kernel, trace it, print the report
#:   check         all of the following but check-long and bench; under 15 minutes on two cores
#:   check-layers  which room includes which, and whether READMEs name all rooms
#:   check-docs    --help, man pages, sources and shell completion against each other
#:   check-unit    unit tests, no KVM needed; ROOM='formats/ctf patcher' for rooms or folders,
#:                 TESTS=tests/unit/FOLDER/ROOM/test-x.c for files
#:   check-errors  wrong input of every verb
#:   check-fuzz    each fuzz target for FUZZ_SECONDS (4)
#:   check-compare whether the oracle's comparison finds errors
#:   check-dump    introspection of memory dumps under plain QEMU (MODELS='max qemu64' for both paging modes)
#:   check-guest   guests in the software KVM host; GUEST='6.1 6.12/4' for some
#:   check-oracle-VERSION/VCPUS, check-boot, check-scratch, check-stacks, check-survive, check-toggle,
#:   check-testbed parts of check-guest
#:   check-libvirt libvirt domains; check-libvirt-NAME for tests/libvirt/NAME.t (KILLS=200 for a campaign)
#:   check-long    campaigns of several hours; reports all failures at the end
#:   bench         costs in the deterministic testbed, to $(O)/bench.json

FUZZ_SECONDS ?= 4
UNIT_TESTS_OF = $(or $(filter tests/unit/$(1)/%,$(UNIT_SOURCES)),$(error no unit tests in tests/unit/$(1)))
TESTS ?= $(if $(ROOM),$(foreach room,$(ROOM:%/=%),$(call UNIT_TESTS_OF,$(room))),$(UNIT_SOURCES))

.PHONY: setup
setup:
	$(Q)tests/setup

.PHONY: check-layers
check-layers:
	$(Q)prove -e perl tests/check-layers

.PHONY: check-docs
check-docs: all
	$(Q)O=$(abspath $(O)) prove -e perl tests/docs

.PHONY: check-compare
check-compare:
	$(Q)prove -e perl tests/guest/compare.t

$(O)/tests/unit/%: $(O)/tests/unit/%.o $(TEST_LIB_OBJECTS) $(O)/libsonde.a
	$(say) LD $@
	$(Q)$(CC) $(LDFLAGS_ALL) $(LDFLAGS) -o $@ $^ $(PACKAGE_LIBS) $(TEST_LIBS)

# Zydis is the oracle for instructions.
$(O)/tests/unit/patcher/text/test-insn: TEST_LIBS := -lZydis
$(O)/tests/unit/patcher/trampoline/test-operands: TEST_LIBS := -lZydis

.SECONDARY:

.PHONY: unit-tests
unit-tests: $(UNIT_TESTS)

.PHONY: check-unit
check-unit: all kernels $(TESTS:%.c=$(O)/%)
	$(Q)SONDE=$(abspath $(O))/sonde KERNELS_DIR=$(abspath $(O))/kernels prove -j2 -e '' $(TESTS:%.c=$(O)/%)

# clang builds the fuzz targets from the sources, all instrumented.
FUZZ_FLAGS := -fsanitize=fuzzer,address,undefined -fno-sanitize-recover=undefined -O1 -g
$(O)/fuzz/%.o: %.c | probes
	$(say) CC $@
	$(Q)mkdir -p $(@D) && $(CLANG) $(CFLAGS_ALL) $(PACKAGE_CFLAGS) $(subst sanitize=fuzzer,sanitize=fuzzer-no-link,$(FUZZ_FLAGS)) -MMD -MP -c -o $@ $<

$(O)/fuzz/libsonde.a: $(patsubst %.c,$(O)/fuzz/%.o,$(LIB_SOURCES) $(TEST_LIB_SOURCES))
	$(Q)rm -f $@ && $(AR) qcs $@ $^

FUZZ_LIB_OBJECTS := $(TEST_LIB_SOURCES:%.c=$(O)/fuzz/%.o)
$(O)/tests/fuzz/fuzz-%: tests/fuzz/fuzz-%.c $(FUZZ_LIB_OBJECTS) $(O)/fuzz/libsonde.a
	$(say) CLANG $@
	$(Q)mkdir -p $(@D) && $(CLANG) $(CFLAGS_ALL) $(PACKAGE_CFLAGS) $(FUZZ_FLAGS) -o $@ $< $(FUZZ_LIB_OBJECTS) $(O)/fuzz/libsonde.a $(PACKAGE_LIBS)

.PHONY: fuzz-targets check-fuzz
fuzz-targets: $(FUZZ_TARGETS)
check-fuzz: $(FUZZ_TARGETS)
	$(Q)FUZZ_SECONDS=$(FUZZ_SECONDS) prove -e '' tests/fuzz/run.t :: $(FUZZ_TARGETS)

-include $(shell find $(O)/fuzz -name "*.d" 2>/dev/null)

# Memory dumps of real kernels under plain QEMU, read by introspect/.
DUMP_FACTS_OBJECTS := $(patsubst %.c,$(O)/%.o,$(wildcard tests/introspect/*.c))
$(O)/tests/introspect/dump-facts: $(DUMP_FACTS_OBJECTS) $(O)/libsonde.a
	$(say) LD $@
	$(Q)$(CC) $(LDFLAGS_ALL) $(LDFLAGS) -o $@ $^ $(PACKAGE_LIBS)

.PHONY: check-dump
check-dump: kernels $(O)/tests/introspect/dump-facts
	$(Q)O=$(abspath $(O)) $(if $(GUEST),GUEST='$(GUEST)') $(if $(MODELS),MODELS='$(MODELS)') prove -e perl tests/introspect/dump.t

# Guest tests need these programs, the kernels and the guests' initramfs.
GUEST_TOOLS := $(O)/tests/guest/oracle-extract $(O)/tests/guest/call-target $(O)/tests/guest/runtime-pointers $(O)/tests/guest/scratch
ORACLE_OBJECTS := $(O)/tests/workload/oracle-extract.o $(O)/tests/lib/event-format.o $(O)/tests/lib/ring-buffer.o
$(O)/tests/guest/oracle-extract: $(ORACLE_OBJECTS) $(O)/libsonde.a
	$(say) LD $@
	$(Q)mkdir -p $(@D) && $(CC) $(LDFLAGS_ALL) $(LDFLAGS) -o $@ $^
$(O)/tests/guest/call-target $(O)/tests/guest/runtime-pointers: $(O)/tests/guest/%: $(O)/tests/guest/%.o $(O)/libsonde.a
	$(say) LD $@
	$(Q)$(CC) $(LDFLAGS_ALL) $(LDFLAGS) -o $@ $^ $(PACKAGE_LIBS)

SCRATCH_OBJECTS := $(patsubst %.c,$(O)/%.o,$(wildcard tests/guest/scratch*.c))
$(O)/tests/guest/scratch: $(SCRATCH_OBJECTS) $(TEST_LIB_OBJECTS) $(O)/libsonde.a
	$(say) LD $@
	$(Q)$(CC) $(LDFLAGS_ALL) $(LDFLAGS) -o $@ $^ $(PACKAGE_LIBS)

$(O)/guest/initrd: $(wildcard tests/workload/*) tests/testbed/build-initrd
	$(say) INITRD $@
	$(Q)tests/testbed/build-initrd $@

KERNELS := 5.10 6.1 6.12 6.17 7.0 7.2 6.1-dbg 6.1-host
.PHONY: kernels
kernels:
	$(Q)for v in $(KERNELS); do O=$(O) tests/testbed/fetch-kernel $$v >/dev/null || exit 1; done

.PHONY: guest-parts
guest-parts: all kernels $(GUEST_TOOLS) $(O)/guest/initrd

ORACLE_ROWS := 5.10/4 6.1/4 6.12/4 6.1/1
ORACLE_TARGETS := $(addprefix check-oracle-,$(or $(GUEST),$(ORACLE_ROWS)))
.PHONY: $(ORACLE_TARGETS) check-boot check-scratch check-stacks check-survive check-toggle check-testbed check-errors check-guest
$(ORACLE_TARGETS): check-oracle-%: guest-parts
	$(Q)O=$(abspath $(O)) GUEST='$*' prove -e perl tests/guest/oracle.t
check-boot check-scratch check-stacks check-survive check-toggle: check-%: guest-parts
	$(Q)O=$(abspath $(O)) $(if $(GUEST),GUEST='$(GUEST)') prove -e perl tests/guest/$*.t
check-testbed: guest-parts
	$(Q)O=$(abspath $(O)) prove -e perl tests/testbed/kvm-host.t
check-errors: guest-parts
	$(Q)O=$(abspath $(O)) prove -e perl tests/errors/*.t

# Plain QEMU emulates the domains. Only kvm.t runs in the software KVM host.
LIBVIRT_TARGETS := $(patsubst tests/libvirt/%.t,check-libvirt-%,$(wildcard tests/libvirt/*.t))
.PHONY: check-libvirt $(LIBVIRT_TARGETS)
check-libvirt: $(LIBVIRT_TARGETS)
$(LIBVIRT_TARGETS): check-libvirt-%: guest-parts
	$(Q)O=$(abspath $(O)) prove -e perl tests/libvirt/$*.t

# The longest parts first. A guest keeps one core busy, a libvirt domain half of one: three parts at a time
# use two cores.
GUEST_PARTS := check-toggle check-libvirt-kvm check-libvirt-trap check-survive $(LIBVIRT_TARGETS) check-stacks check-boot check-scratch $(ORACLE_TARGETS) check-testbed check-dump check-errors
check-guest: guest-parts
	$(Q)$(MAKE) --no-print-directory -j3 -O -k $(GUEST_PARTS)

# make evaluates tests/probes.mk when it starts, so it starts again after the packages are installed.
.PHONY: check check-parts demo check-long
check:
	$(Q)tests/setup
	$(Q)$(MAKE) --no-print-directory -j2 all unit-tests fuzz-targets kernels
	$(Q)$(MAKE) --no-print-directory check-parts
check-parts: check-layers check-docs check-compare check-unit check-fuzz check-guest

demo:
	$(Q)tests/setup
	$(Q)$(MAKE) --no-print-directory -j2 all
	$(Q)O=$(O) examples/first-trace/run

# Campaigns that take too long for every change: 10,000 toggles, hours of fuzzing, a million oracle events
# of each kernel with the smallest ring. A campaign that fails does not keep the next ones from running.
LONG_ROWS := 5.10/4 6.1/4 6.12/4 6.17/4 5.10/1 6.12/1
LONG_ONCE := 7.0/4 7.2/1 6.12-rt/1
LONG_PARTS := long-toggle long-libvirt long-fuzz long-dump long-testbed $(LONG_ONCE:%=long-oracle-%) $(LONG_ROWS:%=long-oracle-%) long-guest
.PHONY: $(LONG_PARTS)
check-long:
	$(Q)tests/setup
	$(Q)$(MAKE) --no-print-directory -j2 fuzz-targets guest-parts
	$(Q)$(MAKE) --no-print-directory -k $(LONG_PARTS)
long-toggle:
	$(Q)$(MAKE) --no-print-directory check-toggle TOGGLES=5000 LONG=1
long-libvirt:
	$(Q)$(MAKE) --no-print-directory -k check-libvirt LONG=1 PREEMPT_KERNELS='6.12 6.1' KILLS=200 SUSPENDS=300 DAEMON_KILLS=20 WATCHDOG_KILLS=20 ATTACHES=500
long-fuzz:
	$(Q)$(MAKE) --no-print-directory check-fuzz FUZZ_SECONDS=900
long-dump:
	$(Q)$(MAKE) --no-print-directory check-dump GUEST='5.10 6.1 6.12 7.0' MODELS='max qemu64'
long-testbed: guest-parts
	$(Q)O=$(abspath $(O)) prove -e perl tests/testbed/oracle.t
$(LONG_ONCE:%=long-oracle-%): long-oracle-%:
	$(Q)O=$(O) tests/testbed/fetch-kernel $(*D) >/dev/null
	$(Q)$(MAKE) --no-print-directory check-oracle-$* GUEST=$*
$(LONG_ROWS:%=long-oracle-%): long-oracle-%:
	$(Q)$(MAKE) --no-print-directory check-oracle-$* GUEST=$* ITERATIONS_SCALE=28 RING=4
long-guest:
	$(Q)$(MAKE) --no-print-directory check-guest ITERATIONS_SCALE=8

# Each figure is measured BENCH_ROUNDS (3) times.
$(O)/tests/bench/timed: tests/bench/timed.c
	$(say) CC $@
	$(Q)mkdir -p $(@D) && $(CC) -std=gnu11 -D_GNU_SOURCE -Wall -Wextra -static -O2 -s -o $@ $<

$(O)/tests/bench/trampoline-ns: $(O)/tests/bench/trampoline-ns.o $(TEST_LIB_OBJECTS) $(O)/libsonde.a
	$(say) LD $@
	$(Q)$(CC) $(LDFLAGS_ALL) $(LDFLAGS) -o $@ $^ $(PACKAGE_LIBS)

$(O)/tests/bench/trace-size: $(O)/tests/bench/trace-size.o $(O)/libsonde.a
	$(say) LD $@
	$(Q)$(CC) $(LDFLAGS_ALL) $(LDFLAGS) -o $@ $^ $(PACKAGE_LIBS)

.PHONY: bench
bench: all $(O)/guest/initrd $(addprefix $(O)/tests/bench/,timed trace-size trampoline-ns)
	$(Q)O=$(abspath $(O)) tests/bench/bench
