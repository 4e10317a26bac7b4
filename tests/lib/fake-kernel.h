/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_TESTS_LIB_FAKE_KERNEL_H
#define SONDE_TESTS_LIB_FAKE_KERNEL_H

#include <stddef.h>
#include <stdint.h>
#include "introspect/guest/dump.h"
#include "introspect/kernel/kernel.h"
#include "tests/lib/fake-btf.h"

/*
 * A tiny "running kernel" in 16 MiB of RAM: an image with banner, build id, page tables, direct map
 * and vmemmap, but no code. Everything lies at fixed places, so that tests can change it.
 */
#define FAKE_LINK_TEXT 0xffffffff81000000ull
#define FAKE_SLIDE 0x0a000000ull
#define FAKE_PAGE_OFFSET 0xffff9d4000000000ull
#define FAKE_VMEMMAP 0xffffe12340000000ull
#define FAKE_BUILD_ID \
	"\x11\x22\x33\x44\x55\x66\x77\x88\x99\xaa\xbb\xcc\xdd\xee\xff\x01\x02\x03\x04\x05"

enum {
	FAKE_RAM = 16 << 20,
	FAKE_PHYS_TEXT = 4 << 20,
	FAKE_IMAGE_SIZE = 2 << 20,
	FAKE_VMEMMAP_GPA = 8 << 20, /* 2 MiB of struct page */
	FAKE_HEAP_GPA = 10 << 20,   /* free for tests */
	FAKE_PAGE_STRUCT = 64,

	/* offsets in the image */
	FAKE_BANNER = 0x10000,
	FAKE_NOTES = 0x10100,
	FAKE_NOTES_END = 0x10140,
	FAKE_PHYS_BASE = 0x11000,
	FAKE_PGDIR_SHIFT = 0x11008,
	FAKE_PAGE_OFFSET_BASE = 0x11010,
	FAKE_VMEMMAP_BASE = 0x11018,
	FAKE_MODULES = 0x11020,
	FAKE_BTF_MODULES = 0x11028,
	FAKE_INIT_TOP_PGT = 0x12000,
	FAKE_EARLY_TOP_PGT = 0x13000,
	FAKE_TABLES = 0x14000, /* the lower levels */
	FAKE_ORC_IPS = 0x20000,
	FAKE_ORC_ENTRIES = 0x21000,
	FAKE_NR_ORC = 4,

	/* in a struct module */
	FAKE_MODULE_LIST = 8,
	FAKE_MODULE_NAME = 24,
	FAKE_MODULE_MEM = 128, /* of its text: gva, and u32 bytes; 16 behind it of its init text */
	FAKE_MODULE_KALLSYMS = 200, /* gva */
	FAKE_MODULE_ARCH = 216,     /* u32 num_orcs, and the gvas of both tables */

	/* a struct slab_sheaf of FAKE_7_0, and the flag that goes with it */
	FAKE_SHEAF_CACHE = 0,
	FAKE_SHEAF_RCU_HEAD = 8,
	FAKE_SHEAF_SIZE = 24,
	FAKE_SHEAF_OBJECTS = 32,
	FAKE_CACHE_FLAGS = 24, /* in a struct kmem_cache */
	FAKE_KMALLOC_BIT = 3,  /* of the flags */

	/* in a struct task_struct, and in its struct signal_struct */
	FAKE_TASK_TASKS = 16,
	FAKE_TASK_SIGNAL = 32,
	FAKE_TASK_THREAD_NODE = 40,
	FAKE_TASK_STACK = 56,
	FAKE_TASK_ON_CPU = 64,
	FAKE_TASK_SP = 72,
	FAKE_TASK_FAIR = 80, /* se.group_node */
	FAKE_TASK_RT = 112,  /* rt.run_list */
	FAKE_TASK_PID = 128,
	FAKE_TASK_TGID = 132,
	FAKE_TASK_COMM = 136,
	FAKE_TASK_CGROUPS = 152,
	FAKE_TASK_EXT = 160, /* scx.runnable_node */
	FAKE_DFL_CGRP = 16,  /* in a struct css_set, cgroup, kernfs_node */
	FAKE_CGROUP_KN = 24,
	FAKE_NODE_ID = 32,
	FAKE_THREAD_HEAD = 16,
	FAKE_RQ_FAIR = 8, /* in a struct rq: cfs_tasks, rt.active.queue, scx.runnable_list */
	FAKE_RQ_RT = 40,
	FAKE_RQ_EXT = 1640,
	FAKE_RCU_OFFLINE = 8,  /* in struct rcu_data: rcu_ofl_gp_seq */
	FAKE_KPROBE_ADDR = 40, /* in a struct kprobe, which begins with its list */
	FAKE_KPROBE_FLAGS = 48,
	FAKE_KPROBE_OPCODE = 52,
	FAKE_KPROBE_OPTINSN = 64, /* in a struct optimized_kprobe, which begins with the other */
	FAKE_KPROBE_COPIED = 8,   /* in its struct arch_optimized_insn */
};

/* Whose struct page and related structs the BTF describes. */
enum fake_flavour {
	FAKE_5_10,        /* PG_slab in flags, page.compound_order, pagevec */
	FAKE_6_11,        /* PG_slab as a page_type bit */
	FAKE_6_12,        /* PGTY_slab, folio._flags_1, struct slab */
	FAKE_7_0,         /* the same, and struct slab_sheaf */
	FAKE_7_1,         /* the same, with compound_info in place of compound_head */
	FAKE_NEXT,        /* the same, with neither */
	FAKE_BARE,        /* no struct page, no struct kmem_cache that is known */
	FAKE_SMALL_PAGES, /* as FAKE_5_10, with a struct page of 56 bytes */
	FAKE_ODD_PAGES,   /* of 60 bytes, which no kernel can have */
};

struct fake_kernel {
	struct dump_guest *dump;
	uint8_t *ram;
	struct kernel_image image;
	struct kernel kernel;
	unsigned int levels;
	enum fake_flavour flavour;
};

/* A kernel that runs with 4 or 5 level tables, and `kernel` set by kernel_at(). 0 or -errno. */
int fake_kernel_create(struct fake_kernel *fake, enum fake_flavour flavour, unsigned int levels);
/* Its BTF has the structures that lead to the id of a task's cgroup, too. 0 or -errno. */
int fake_kernel_describe_cgroups(struct fake_kernel *fake);
/* It has so many vCPUs, which are all zeroes, and this System.map, or these structures. Otherwise
 * it is as it was. 0 or -errno. */
int fake_kernel_set_vcpus(struct fake_kernel *fake, unsigned int nr_vcpus);
int fake_kernel_set_symbols(struct fake_kernel *fake, const char *map, size_t size);
int fake_kernel_set_structs(struct fake_kernel *fake, const struct fake_struct *structs);
void fake_kernel_destroy(struct fake_kernel *fake);

/* The list of modules is this one. `gpa`: of its struct module, of which this sets the list, the
 * name and the text, and that its struct mod_kallsyms is at `kallsyms_gpa`. */
void fake_put_module(struct fake_kernel *fake, uint64_t gpa, const char *name, uint64_t text,
		     uint32_t text_bytes, uint64_t kallsyms_gpa);

void fake_put64(struct fake_kernel *fake, uint64_t gpa, uint64_t value);
void fake_put32(struct fake_kernel *fake, uint64_t gpa, uint32_t value);

/* gva of a gpa in the direct map, of a pfn's struct page, and gpa of the latter. */
uint64_t fake_direct(uint64_t gpa);
uint64_t fake_page(uint64_t pfn);
uint64_t fake_page_gpa(uint64_t pfn);

#endif
