# SPDX-License-Identifier: GPL-2.0-or-later
#
# Targets that test, measure or demonstrate.

#:   setup         install missing Debian packages with apt
#:   demo          boot a Debian kernel, trace it, print the report
#:   check         the tests that CI runs, all of the following but those marked *; about 15 minutes on two cores
#:   check-host    all that need no guest: check-layers to check-campaigns below but those marked *
#:   check-layers  which room includes which, and whether READMEs name all rooms
#:   check-docs    --help, man pages, sources and shell completion against each other
#:   check-unit    unit tests, no KVM needed; ROOM='formats/ctf patcher' for rooms or folders,
#:                 TESTS=tests/unit/FOLDER/ROOM/test-x.c for files
#:   check-asan, check-tsan
#:                 unit tests with AddressSanitizer and UBSan, with ThreadSanitizer; SANITIZED=all for the slow ones,
#:                 too, or ROOM= and TESTS= as above
#:   coverage *    line coverage of a folder by its unit tests, ROOM=vmm, or of all
#:   check-inverted *
#:                 which decisions about what is put back can be inverted without a unit test that fails; FILES= and ROOM=
#:                 for others
#:   check-faults  each FAULTS-th (42) fallible call of a trace session fails once
#:   check-run-faults, check-attach-faults *
#:                 so do random ones of sonde run and sonde attach (ROUNDS=6)
#:   check-memory * a trace of 10 GiB read with 2 GiB of memory (GIB=10 LIMIT_MIB=2048); takes 12 GiB of disk
#:   check-damage * a trace cut off at each byte, and a million damaged ones: what verbs say of them
#:   check-errors  wrong input of every verb
#:   check-tables * DuckDB and ClickHouse read what sonde convert writes for databases; setup-tables installs them
#:   check-kshark * KernelShark's library loads what sonde convert --to trace.dat writes; installs it, with Qt 5
#:   check-fuzz    each fuzz target for FUZZ_SECONDS (2)
#:   check-agreement
#:                 figures of sonde report and others follow from the text that trace-cmd and babeltrace2 print of a made
#:                 trace; of a guest's, too, with TRACE=build/demo/trace
#:   check-compare whether the oracle's comparison finds errors
#:   check-campaigns
#:                 whether check-long divides its time and counts
#:   check-dump    introspection of memory dumps under plain QEMU (MODELS='max qemu64' for both paging modes)
#:   check-guest   guests in the software KVM host; GUEST='6.1 6.12/4' for some
#:   check-oracle-VERSION/VCPUS, check-boot, check-changes, check-limits, check-scratch, check-stacks,
#:   check-survive, check-toggle, check-testbed
#:                 parts of check-guest
#:   check-all-functions, check-chains, check-frozen, check-function, check-hist, check-leaks, check-leave, check-modules, check-probe, check-profile, check-slabinfo,
#:   check-syscalls, check-timed-calls *
#:                 other tests of guests
#:   check-small-kernels, check-refusals *
#:                 kernels with what Debian's lack, built from source (an hour); GUEST=6.1-nobtf for one
#:   check-options *
#:                 the oracle's comparison of guests booted with other options: debugging, mitigations, preemption
#:   check-vmx *   the oracle's comparison of a guest on an Intel machine, which Bochs emulates (7 minutes of a CPU)
#:   check-libvirt libvirt domains; check-libvirt-NAME for tests/libvirt/NAME.t (KILLS=200 for a campaign)
#:   check-html *  HTML reports in a headless Chromium, with screenshots in $(O)/html
#:   check-long *  campaigns for HOURS (4; 0.5 is possible) together, and a table of what they have counted;
#:                 CAMPAIGNS='toggle fuzz' for some of tests/long/campaigns
#:   bench *       costs in the deterministic testbed, to $(O)/bench.json

FUZZ_SECONDS ?= 2
UNIT_TESTS_OF = $(or $(filter tests/unit/$(1)/%,$(UNIT_SOURCES)),$(error no unit tests in tests/unit/$(1)))
# Those of vmm/ first: several of them wait for half a minute, while others run.
WAITING_FIRST = $(filter tests/unit/vmm/%,$(1)) $(filter-out tests/unit/vmm/%,$(1))
TESTS ?= $(if $(ROOM),$(foreach room,$(ROOM:%/=%),$(call UNIT_TESTS_OF,$(room))),$(call WAITING_FIRST,$(UNIT_SOURCES)))

.PHONY: setup
setup:
	$(Q)tests/setup

.PHONY: check-layers
check-layers:
	$(Q)prove -e perl tests/check-layers

.PHONY: check-docs
check-docs: all
	$(Q)O=$(abspath $(O)) prove -e perl tests/docs

.PHONY: check-compare check-campaigns
check-compare:
	$(Q)prove -e perl tests/guest/compare.t
check-campaigns:
	$(Q)prove -e perl tests/long/run.t

# With sanitizers, each program would take 27 MB, and linking all of them a minute.
ifneq ($(filter 1,$(ASAN) $(TSAN)),)
TESTS_USE := $(O)/libtests.so
TESTS_FIND := -Wl,-rpath,$(abspath $(O))
$(O)/libtests.so: $(LIB_OBJECTS) $(TEST_LIB_OBJECTS)
	$(say) LD $@
	$(Q)$(CC) $(LDFLAGS_ALL) $(LDFLAGS) -shared -o $@ $^ $(PACKAGE_LIBS)
$(O)/tests/fuzz/fuzz-%: $(O)/tests/fuzz/fuzz-%.o $(O)/libtests.so
	$(say) LD $@
	$(Q)$(CC) $(LDFLAGS_ALL) $(LDFLAGS) $(TESTS_FIND) -fsanitize=fuzzer -o $@ $^ $(PACKAGE_LIBS)
else
TESTS_USE := $(TEST_LIB_OBJECTS) $(O)/libsonde.a
endif

$(O)/tests/unit/%: $(O)/tests/unit/%.o $(TESTS_USE)
	$(say) LD $@
	$(Q)$(CC) $(LDFLAGS_ALL) $(LDFLAGS) $(TESTS_FIND) -o $@ $^ $(PACKAGE_LIBS) $(TEST_LIBS)

# Zydis is the oracle for instructions.
$(O)/tests/unit/guest-symbols/insn/test-decoder: TEST_LIBS := -lZydis
$(O)/tests/unit/patcher/text/test-displace-kernels: TEST_LIBS := -lZydis
$(O)/tests/unit/patcher/trampoline/test-operands: TEST_LIBS := -lZydis

.SECONDARY:

.PHONY: unit-tests
unit-tests: $(UNIT_TESTS)

.PHONY: check-unit
check-unit: all kernels $(TESTS:%.c=$(O)/%)
	$(Q)SONDE=$(abspath $(O))/sonde KERNELS_DIR=$(abspath $(O))/kernels prove -j8 -e '' $(TESTS:%.c=$(O)/%)

# The same with sanitizers, in build folders of their own. Without those that do the same with whole kernels or
# millions of instructions, and for ThreadSanitizer only the rooms with threads; SANITIZED=all for all.
SLOW_TESTS := $(wildcard $(addprefix tests/unit/,formats/ctf/test-ctf.c formats/trace/test-name-limit.c \
	guest-symbols/*/test-*-oracle.c */test-*-kernels.c */*/test-*-kernels.c guest-symbols/kmem/test-gfp-names.c \
	introspect/tasks/test-percpu.c guest-symbols/insn/test-decoder.c patcher/plan/test-scale.c \
	$(addprefix patcher/trampoline/,test-fetch-code.c test-gate-code.c test-shared.c test-shared-nested.c test-trampoline.c) \
	vmm/boot/test-bzimage.c vmm/libvirt/journal/test-forget.c))
QUICK_TESTS = $(if $(filter all,$(SANITIZED)),$(1),$(filter-out $(SLOW_TESTS),$(1)))
THREADED_ROOMS := vmm formats/output formats/trace introspect/tasks patcher/engine patcher/ring patcher/session
# Empty, or the tests that the user has named.
NAMED_TESTS = $(if $(ROOM)$(filter-out file,$(origin TESTS)),$(TESTS))
ASAN_TESTS = $(or $(NAMED_TESTS),$(call QUICK_TESTS,$(call WAITING_FIRST,$(UNIT_SOURCES))))
THREADED_TESTS = $(foreach room,$(THREADED_ROOMS),$(call UNIT_TESTS_OF,$(room))) $(wildcard tests/unit/patcher/trampoline/test-*threads.c)
TSAN_TESTS = $(or $(NAMED_TESTS),$(if $(filter all,$(SANITIZED)),$(UNIT_SOURCES),$(call QUICK_TESTS,$(THREADED_TESTS))))
.PHONY: check-asan check-tsan check-sanitized
check-asan: kernels
	$(Q)$(MAKE) --no-print-directory -j2 O=$(O)/asan ASAN=1 CFLAGS='-Og -g1' KERNELS_DIR=$(abspath $(O))/kernels TESTS='$(ASAN_TESTS)' check-sanitized
check-tsan: kernels
	$(Q)$(MAKE) --no-print-directory -j2 O=$(O)/tsan TSAN=1 CFLAGS='-Og -g1' KERNELS_DIR=$(abspath $(O))/kernels TESTS='$(TSAN_TESTS)' check-sanitized
check-sanitized: all $(TESTS:%.c=$(O)/%)
	$(Q)SONDE=$(abspath $(O))/sonde KERNELS_DIR=$(KERNELS_DIR) TSAN_OPTIONS='exitcode=66 handle_segv=0' \
		$(if $(filter all,$(SANITIZED)),,MUTATIONS=500) prove -j8 -e '' $(TESTS:%.c=$(O)/%)

# What is put back, and when a guest is let go on: which of these decisions can be inverted, and no test fails?
DECIDING := $(addprefix vmm/libvirt/,attach/end.c attach/owner.c \
		$(addprefix backend/,asker.c beat.c breaks.c guest.c memory.c serve.c shmem.c slot.c stop.c traps.c) \
		$(addprefix connection/,death.c process.c) gdb/owner.c gdb/stub.c $(addprefix journal/,entries.c file.c index.c parse.c) \
		$(addprefix recovery/,places.c recover.c watchdog.c)) \
	vmm/machine/stop-gate.c introspect/tasks/quiesce.c introspect/tasks/stack-scan.c $(wildcard patcher/coexist/*.c) \
	$(addprefix patcher/engine/,direct-change.c direct-retire.c ring-asks.c ring-drain.c ring-engine.c ring-memory.c \
		ring-traps.c) \
	$(addprefix patcher/,plan/patch-plan.c session/asks.c session/change.c session/leaving.c session/modules.c session/session.c \
		session/switch.c $(addprefix text/,patch-apply.c patch-set.c traps.c))
FILES ?= $(DECIDING)
# Tests of all these rooms decide: a file's decisions show in the rooms that use it, too.
INVERTED_ROOMS = $(if $(filter vmm/libvirt/%,$(FILES)),vmm/libvirt) $(if $(filter vmm/machine/%,$(FILES)),vmm/machine) \
	$(if $(filter-out vmm/%,$(FILES)),introspect/tasks $(addprefix patcher/,coexist engine plan session text))
INVERTED_TESTS = $(patsubst %.c,$(O)/%,$(or $(NAMED_TESTS),$(foreach room,$(INVERTED_ROOMS),$(call UNIT_TESTS_OF,$(room)))))
.PHONY: check-inverted
check-inverted: all kernels $(INVERTED_TESTS)
	$(Q)O=$(O) CC='$(CC)' FLAGS='$(CFLAGS_ALL) $(PACKAGE_CFLAGS)' LIBS='$(PACKAGE_LIBS)' SONDE=$(abspath $(O))/sonde \
		KERNELS_DIR=$(abspath $(O))/kernels tests/invert $(FILES) :: $(INVERTED_TESTS)

# Some tests run as another user, who adds to what was executed in the same files: so umask.
COVERAGE_MAKE = $(MAKE) --no-print-directory -j2 O=$(O)/cov COVERAGE=1 KERNELS_DIR=$(abspath $(O))/kernels TESTS='$(TESTS)'
.PHONY: coverage
coverage: kernels
	$(Q)$(COVERAGE_MAKE) all $(TESTS:%.c=$(O)/cov/%)
	$(Q)find $(O)/cov -name '*.gcda' -delete && chmod -R a+rwX $(O)/cov
	$(Q)umask 0 && $(COVERAGE_MAKE) check-sanitized
	$(Q)status=0; for folder in $(or $(ROOM),$(FOLDERS)); do tests/coverage $(O)/cov $$folder || status=1; done; exit $$status

# Instrumented by clang, in a build folder of their own. For seconds of fuzzing it does not pay to optimise.
FUZZ_CFLAGS ?= -O0 -g1
.PHONY: fuzz-targets fuzz-programs check-fuzz
fuzz-targets:
	$(Q)$(MAKE) --no-print-directory O=$(O)/fuzz ASAN=1 CC=$(CLANG) CFLAGS='$(FUZZ_CFLAGS) -fsanitize=fuzzer-no-link' fuzz-programs
fuzz-programs: $(FUZZ_SOURCES:%.c=$(O)/%)
check-fuzz: fuzz-targets
	$(Q)FUZZ_SECONDS=$(FUZZ_SECONDS) prove -e '' tests/fuzz/run.t :: $(FUZZ_SOURCES:%.c=$(O)/fuzz/%)

# Fault injection: a copy of the library whose calls of malloc(), mmap() and so on go to tests/fault/calls.c.
FAULT_OBJECTS := $(patsubst %.c,$(O)/%.o,$(addprefix tests/fault/,calls.c faults.c libvirt-calls.c steps.c))
$(O)/fault/renamed: tests/fault/calls.c
	$(Q)mkdir -p $(@D) && sed -nE 's/^FALLIBLE\([^,]*, (\w+),.*|^\w.* \*?fault_(\w+)\(.*;$$|^\w.* \*?fault_(\w+)\(.*\) __attribute__.*;$$/\1\2\3/p' $< | \
		sed -E 's/(.*)/\1 fault_\1/' > $@
$(O)/fault/libsonde.a: $(O)/libsonde.a $(O)/fault/renamed
	$(say) COPY $@
	$(Q)$(OBJCOPY) --redefine-syms=$(O)/fault/renamed $< $@
$(O)/fault/session: $(addprefix $(O)/tests/fault/,session.o faulty-guest.o) $(FAULT_OBJECTS) $(TEST_LIB_OBJECTS) $(O)/fault/libsonde.a
	$(say) LD $@
	$(Q)$(CC) $(LDFLAGS_ALL) $(LDFLAGS) -o $@ $^ $(PACKAGE_LIBS)
$(O)/fault/sonde: $(O)/vmm/main.o $(FAULT_OBJECTS) $(O)/fault/libsonde.a
	$(say) LD $@
	$(Q)$(CC) $(LDFLAGS_ALL) $(LDFLAGS) -o $@ $^ $(PACKAGE_LIBS)

# Every FAULTS-th fallible call of a trace session fails once; 1 for each. With BUDGET, as many as there is time for.
.PHONY: check-faults
check-faults: $(O)/fault/session
	$(Q)prove -e '' $<

# The same of the whole program, by steps: each test goes on where the last one stopped.
.PHONY: check-run-faults check-attach-faults
check-run-faults check-attach-faults: check-%-faults: $(O)/fault/sonde guest-parts
	$(Q)O=$(abspath $(O)) prove -e perl tests/fault/$*.t

# Memory dumps of real kernels under plain QEMU, read by introspect/.
DUMP_FACTS_OBJECTS := $(patsubst %.c,$(O)/%.o,$(wildcard tests/introspect/*.c))
$(O)/tests/introspect/dump-facts: $(DUMP_FACTS_OBJECTS) $(O)/libsonde.a
	$(say) LD $@
	$(Q)$(CC) $(LDFLAGS_ALL) $(LDFLAGS) -o $@ $^ $(PACKAGE_LIBS)

.PHONY: check-dump
check-dump: kernels $(O)/tests/introspect/dump-facts
	$(Q)O=$(abspath $(O)) $(if $(GUEST),GUEST='$(GUEST)') $(if $(MODELS),MODELS='$(MODELS)') prove -e perl tests/introspect/dump.t

# Guest tests need these programs, the kernels and the guests' initramfs.
GUEST_TOOLS := $(O)/tests/guest/ia32 $(O)/tests/guest/oracle-extract $(O)/tests/guest/call-target $(O)/tests/guest/runtime-text $(O)/tests/guest/scratch
ORACLE_OBJECTS := $(O)/tests/workload/oracle-extract.o $(O)/tests/lib/event-format.o $(O)/tests/lib/ring-buffer.o
$(O)/tests/guest/oracle-extract: $(ORACLE_OBJECTS) $(O)/libsonde.a
	$(say) LD $@
	$(Q)mkdir -p $(@D) && $(CC) $(LDFLAGS_ALL) $(LDFLAGS) -o $@ $^
# For 32-bit system calls, without a C library.
$(O)/tests/guest/ia32: tests/workload/ia32.c
	$(say) CC $@
	$(Q)mkdir -p $(@D) && $(CC) -m32 -nostdlib -static -ffreestanding -fno-pic -no-pie -fno-stack-protector -O1 -o $@ $<
$(O)/tests/guest/call-target $(O)/tests/guest/runtime-text: $(O)/tests/guest/%: $(O)/tests/guest/%.o $(O)/libsonde.a
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

ORACLE_ROWS := 5.10/4 6.12/4 6.1/1
ORACLE_TARGETS := $(addprefix check-oracle-,$(or $(GUEST),$(ORACLE_ROWS)))
.PHONY: $(ORACLE_TARGETS) check-all-functions check-boot check-busy check-chains check-changes check-frozen check-function check-hist check-leaks check-leave check-limits check-modules check-probe check-profile check-scratch check-slabinfo check-slice check-stacks check-survive check-syscalls check-tasks check-timed-calls check-toggle check-testbed check-errors check-guest
$(ORACLE_TARGETS): check-oracle-%: guest-parts
	$(Q)O=$(O) tests/testbed/fetch-kernel $(*D) >/dev/null
	$(Q)O=$(abspath $(O)) GUEST='$*' prove -e perl tests/guest/oracle.t
check-all-functions check-boot check-busy check-chains check-changes check-frozen check-function check-hist check-leaks check-leave check-limits check-modules check-probe check-profile check-scratch check-slabinfo check-slice check-stacks check-survive check-syscalls check-tasks check-timed-calls check-toggle: check-%: guest-parts
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

# A guest of the KVM host keeps one core busy, a libvirt domain a third of one: two of each use two cores. With more, a
# KVM host takes longer for its timers' sake. The longest parts first.
BUSY_PARTS := check-toggle $(ORACLE_TARGETS) check-libvirt-kvm check-boot check-changes check-limits check-survive check-testbed check-stacks check-scratch check-dump check-busy check-slice
LONG_WAITS := check-libvirt-tracers check-libvirt-yields check-libvirt-trap
WAITING_PARTS := $(LONG_WAITS) $(filter-out $(BUSY_PARTS) $(LONG_WAITS) check-libvirt-frozen,$(LIBVIRT_TARGETS)) check-errors
GUEST_PARTS := $(subst /and/, ,$(join $(addsuffix /and/,$(WAITING_PARTS)),$(BUSY_PARTS)))
check-guest: guest-parts
	$(Q)$(MAKE) --no-print-directory -j4 -O -k $(GUEST_PARTS)

# make evaluates tests/probes.mk when it starts, so it starts again after the packages are installed.
.PHONY: check check-parts demo check-long
check:
	$(Q)tests/setup
	$(Q)$(MAKE) --no-print-directory -j2 all unit-tests fuzz-targets kernels
	$(Q)$(MAKE) --no-print-directory check-parts
# Unit tests wait for each other's threads and for files: they leave a third of two cores idle.
HOST_PARTS := check-faults check-tsan check-asan check-unit check-fuzz check-docs check-agreement check-layers check-compare check-campaigns
.PHONY: check-host
check-host: all kernels fuzz-targets
	$(Q)$(MAKE) --no-print-directory -j2 -O -k $(HOST_PARTS)
check-parts: check-host check-guest

demo:
	$(Q)tests/setup
	$(Q)$(MAKE) --no-print-directory -j2 all
	$(Q)O=$(O) examples/first-trace/run

# Kernels that tests/testbed/build-kernel builds. They are traced, or refused in one line.
.PHONY: build-tools check-small-kernels check-refusals
build-tools:
	$(Q)tests/setup kernels
check-small-kernels check-refusals: guest-parts build-tools
check-small-kernels:
	$(Q)O=$(abspath $(O)) $(if $(GUEST),GUEST='$(GUEST)') prove -e perl tests/guest/oracle.t :: tests/guest/small-kernels
check-refusals:
	$(Q)O=$(abspath $(O)) $(if $(GUEST),GUEST='$(GUEST)') prove -e perl tests/guest/refusals.t

check-timed-calls: $(if $(filter 6.1-profiler,$(GUEST)),build-tools)
check-slabinfo: $(if $(filter 6.1-slab/% 6.1-slob/%,$(GUEST)),build-tools)

# Kernels with other options on their command line.
.PHONY: check-options
check-options: guest-parts
	$(Q)O=$(abspath $(O)) $(if $(GUEST),GUEST='$(GUEST)') prove -e perl tests/guest/oracle.t :: tests/guest/boot-options

# On an Intel machine, which Bochs emulates.
.PHONY: check-vmx
check-vmx: guest-parts
	$(Q)O=$(abspath $(O)) prove -e perl tests/guest/oracle.t :: tests/guest/vmx-configs

# The oracle by itself, without Sonde.
.PHONY: check-own-events
check-own-events: guest-parts
	$(Q)O=$(abspath $(O)) prove -e perl tests/testbed/oracle.t

# Not a part of check: it needs a browser.
HTML_TRACES = $(addprefix $(O)/tests/html/,make-calls make-hostile)
$(HTML_TRACES): %: %.o $(TEST_LIB_OBJECTS) $(O)/libsonde.a
	$(say) LD $@
	$(Q)$(CC) $(LDFLAGS_ALL) $(LDFLAGS) -o $@ $^ $(PACKAGE_LIBS)

.PHONY: check-html
check-html: all $(HTML_TRACES)
	-$(Q)tests/setup html
	$(Q)O=$(abspath $(O)) prove -e perl tests/html/report.t

# Campaigns: 10,000 toggles, as many changes of instances, hours of fuzzing, a million oracle events of each kernel.
HOURS ?= 4
check-long: export FUZZ_CFLAGS = -O1 -g1
check-long:
	$(Q)tests/setup
	$(Q)$(MAKE) --no-print-directory -j2 unit-tests fuzz-targets guest-parts
	$(Q)O=$(abspath $(O)) tests/long/run $(HOURS) $(CAMPAIGNS)

# Each figure is measured BENCH_ROUNDS (2) times.
$(O)/tests/bench/timed: tests/bench/timed.c
	$(say) CC $@
	$(Q)mkdir -p $(@D) && $(CC) -std=gnu11 -D_GNU_SOURCE -Wall -Wextra -static -O2 -s -o $@ $<

$(O)/tests/bench/trampoline-ns: $(O)/tests/bench/trampoline-ns.o $(TEST_LIB_OBJECTS) $(O)/libsonde.a
	$(say) LD $@
	$(Q)$(CC) $(LDFLAGS_ALL) $(LDFLAGS) -o $@ $^ $(PACKAGE_LIBS)

DRAIN_OBJECTS := $(patsubst %.c,$(O)/%.o,$(wildcard tests/bench/drain-*.c))
$(O)/tests/bench/drain-ns: $(DRAIN_OBJECTS) $(TEST_LIB_OBJECTS) $(O)/libsonde.a
	$(say) LD $@
	$(Q)$(CC) $(LDFLAGS_ALL) $(LDFLAGS) -o $@ $^ $(PACKAGE_LIBS)

$(O)/tests/bench/trace-size: $(O)/tests/bench/trace-size.o $(O)/libsonde.a
	$(say) LD $@
	$(Q)$(CC) $(LDFLAGS_ALL) $(LDFLAGS) -o $@ $^ $(PACKAGE_LIBS)

$(O)/tests/bench/trace-repeat: $(O)/tests/bench/trace-repeat.o $(O)/libsonde.a
	$(say) LD $@
	$(Q)$(CC) $(LDFLAGS_ALL) $(LDFLAGS) -o $@ $^ $(PACKAGE_LIBS)

# A trace that is cut off at each byte, and a million damaged ones, by sonde check and by the other verbs: in two halves,
# with -j2 side by side. Each round writes two files, which takes five times as long on a disk.
DAMAGE_TESTS = $(addprefix $(O)/tests/unit/formats/analysis/,test-damage test-damage-said)
.PHONY: check-damage check-damage-0 check-damage-1
check-damage: check-damage-0 check-damage-1
check-damage-0 check-damage-1: check-damage-%: $(DAMAGE_TESTS)
	$(Q)test ! -w /dev/shm || export TMPDIR=/dev/shm; \
		FIRST=$$(($* * 500000)) MUTATIONS=500000 CUTS=$$((1 - $*)) prove -v -e '' $^

# Of 10 GiB, on 2 GiB.
.PHONY: check-memory
check-memory: all $(O)/tests/bench/trace-repeat $(O)/guest/initrd
	$(Q)O=$(abspath $(O)) prove -v -e perl tests/long/memory.t

# Databases read the tables of sonde convert: setup-tables installs them.
$(O)/tests/tables/make-trace: $(O)/tests/tables/make-trace.o $(TEST_LIB_OBJECTS) $(O)/libsonde.a
	$(say) LD $@
	$(Q)$(CC) $(LDFLAGS_ALL) $(LDFLAGS) -o $@ $^ $(PACKAGE_LIBS)

.PHONY: check-tables setup-tables
check-tables: all $(O)/tests/tables/make-trace $(O)/tests/bench/trace-repeat
	$(Q)O=$(abspath $(O)) prove -e perl tests/tables/tables.t
setup-tables:
	$(Q)tests/tables/setup $(abspath $(O))/tools/duckdb

# trace-cmd's and babeltrace2's text of a trace, evaluated by a script, and sonde report.
$(O)/tests/agreement/make-heap: $(O)/tests/agreement/make-heap.o $(TEST_LIB_OBJECTS) $(O)/libsonde.a
	$(say) LD $@
	$(Q)$(CC) $(LDFLAGS_ALL) $(LDFLAGS) -o $@ $^ $(PACKAGE_LIBS)

.PHONY: check-agreement
check-agreement: all $(O)/tests/agreement/make-heap
	$(Q)O=$(abspath $(O)) $(if $(TRACE),TRACE=$(abspath $(TRACE))) prove -e perl tests/agreement/agreement.t

# KernelShark's library reads trace.dat. It is packaged with Qt 5, so CI goes without it. Its headers are not clean of warnings.
$(O)/tests/kshark/kshark-dump: tests/kshark/kshark-dump.c
	$(say) CC $@
	$(Q)mkdir -p $(@D) && $(CC) $(CFLAGS_ALL) $(CFLAGS) -isystem /usr/include/kernelshark -o $@ $< -lkshark

.PHONY: check-kshark
check-kshark: all $(O)/tests/tables/make-trace $(O)/tests/bench/trace-repeat
	-$(Q)tests/setup kshark
	$(Q)! [ -e /usr/include/kernelshark/libkshark.h -a -e /usr/include/json-c/json.h ] || \
		$(MAKE) --no-print-directory $(O)/tests/kshark/kshark-dump
	$(Q)O=$(abspath $(O)) prove -e perl tests/kshark/kshark.t

.PHONY: bench
bench: all $(O)/guest/initrd $(addprefix $(O)/tests/bench/,timed trace-size trace-repeat trampoline-ns drain-ns)
	$(Q)tests/setup bench
	$(Q)O=$(abspath $(O)) tests/bench/bench
