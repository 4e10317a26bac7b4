/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_TESTS_LIB_FAKE_RUNNING_H
#define SONDE_TESTS_LIB_FAKE_RUNNING_H

#include "tests/lib/fake-kallsyms.h"
#include "tests/lib/fake-kernel.h"

/*
 * A fake kernel (fake-kernel.h) that can be identified from its memory: it has kallsyms tables,
 * BTF, a build id, ftrace's list of sites, and vmcoreinfo, at fixed places for tests to damage.
 */
enum {
	/* offsets in the image */
	FAKE_FUNCTIONS = 0x100, /* FAKE_NR_FUNCTIONS allocator functions ... */
	FAKE_FUNCTION_SIZE = 0x40,
	FAKE_NR_FUNCTIONS = 7,
	FAKE_FTRACE_START = 0x11100,
	FAKE_VMCOREINFO = 0x11108,
	FAKE_RUNNING_KPROBES = 0x28000, /* the table of kprobes, which is empty */
	FAKE_BTF_AT = 0x30000,
	FAKE_KALLSYMS_AT = 0x40000,

	/* gpas: two struct ftrace_page, their records, the vmcoreinfo text */
	FAKE_FTRACE_PAGES = FAKE_HEAP_GPA,
	FAKE_FTRACE_PAGE_SIZE = 32,
	FAKE_FTRACE_NEXT = 0,
	FAKE_FTRACE_RECORDS = 8,
	FAKE_FTRACE_INDEX = 16,
	FAKE_RECORDS = FAKE_HEAP_GPA + 0x1000,
	FAKE_RECORDS_2 = FAKE_HEAP_GPA + 0x2000, /* a module's, and one of the kernel's */
	FAKE_RECORD_SIZE = 16,
	FAKE_VMCOREINFO_GPA = FAKE_HEAP_GPA + 0x3000,

	/* in a struct kprobe */
	FAKE_RUNNING_KPROBE_ADDR = 16,
	FAKE_RUNNING_KPROBE_FLAGS = 24,
	FAKE_RUNNING_KPROBE_OPCODE = 28,
	FAKE_RUNNING_KPROBE_SIZE = 32,

	FAKE_NR_SITES = FAKE_NR_FUNCTIONS + 1,
	FAKE_NR_SYMBOLS = 300,
};

struct fake_running {
	struct fake_kernel fake;
	struct guest_sregs sregs; /* of a vCPU in the kernel */
	size_t kallsyms_size;
};

/* 0 or -errno. */
int fake_running_create(struct fake_running *running, enum fake_kallsyms_layout layout,
			unsigned int levels);
void fake_running_destroy(struct fake_running *running);

#endif
