/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "tests/lib/fake-kernel.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/lib/fake-btf.h"
#include "tests/lib/fake-module-btf.h"

enum {
	TABLE = 4096,
	PRESENT_RW = 3,
	LARGE = 1 << 7,
	/* tables, in pages from FAKE_TABLES */
	PUD_KERNEL = 0,
	PMD_KERNEL,
	PUD_DIRECT,
	PUD_VMEMMAP,
	PMD_VMEMMAP,
	P4D, /* all kernel addresses here share the last entry above it */
};

/* The structures that do not differ between flavours; a member without a size is the one behind its
 * own. The one behind task_struct is all three
 * members of it that are structures. */
#define COMMON_STRUCTS                                                                       \
	{"kmem_cache",                                                                       \
	 64,                                                                                 \
	 {{"size", 8, 4, 0, 0},                                                              \
	  {"object_size", 12, 4, 0, 0},                                                      \
	  {"name", 16, 8, 0, 0},                                                             \
	  {"oo", 32, 4, 0, 0},                                                               \
	  {"flags", FAKE_CACHE_FLAGS, 4, 0, 0}}},                                            \
		{"module",                                                                   \
		 256,                                                                        \
		 {{"list", 8, 8, 0, 0},                                                      \
		  {"name", 24, 1, 0, 0},                                                     \
		  {"mem", 128, 8, 0, 0},                                                     \
		  {"kallsyms", 200, 8, 0, 0},                                                \
		  {"sect_attrs", 208, 8, 0, 0},                                              \
		  {"arch", FAKE_MODULE_ARCH, 0, 0, 0}}},                                     \
		{"mod_arch_specific",                                                        \
		 24,                                                                         \
		 {{"num_orcs", 0, 4, 0, 0},                                                  \
		  {"orc_unwind_ip", 8, 8, 0, 0},                                             \
		  {"orc_unwind", 16, 8, 0, 0}}},                                             \
		{"task_struct",                                                              \
		 256,                                                                        \
		 {{"tasks", FAKE_TASK_TASKS, 8, 0, 0},                                       \
		  {"signal", FAKE_TASK_SIGNAL, 8, 0, 0},                                     \
		  {"thread_node", FAKE_TASK_THREAD_NODE, 8, 0, 0},                           \
		  {"stack", FAKE_TASK_STACK, 8, 0, 0},                                       \
		  {"on_cpu", FAKE_TASK_ON_CPU, 4, 0, 0},                                     \
		  {"pid", FAKE_TASK_PID, 4, 0, 0},                                           \
		  {"tgid", FAKE_TASK_TGID, 4, 0, 0},                                         \
		  {"comm", FAKE_TASK_COMM, 16, 0, 0},                                        \
		  {"cgroups", FAKE_TASK_CGROUPS, 8, 0, 0},                                   \
		  {"thread", FAKE_TASK_SP, 0, 0, 0},                                         \
		  {"se", FAKE_TASK_FAIR - 8, 0, 0, 0},                                       \
		  {"rt", FAKE_TASK_RT - 16, 0, 0, 0},                                        \
		  {"scx", FAKE_TASK_EXT - 24, 0, 0, 0}}},                                    \
		{"thread_struct",                                                            \
		 32,                                                                         \
		 {{"sp", 0, 8, 0, 0},                                                        \
		  {"group_node", 8, 8, 0, 0},                                                \
		  {"run_list", 16, 8, 0, 0},                                                 \
		  {"runnable_node", 24, 8, 0, 0}}},                                          \
		{"rq",                                                                       \
		 4096,                                                                       \
		 {{"cfs_tasks", FAKE_RQ_FAIR, 8, 0, 0},                                      \
		  {"rt", FAKE_RQ_RT - 16, 0, 0, 0},                                          \
		  {"scx", FAKE_RQ_EXT - 8, 0, 0, 0}}},                                       \
		{"rt_rq", 2048, {{"active", 0, 0, 0, 0}, {"runnable_list", 8, 8, 0, 0}}},    \
		{"rt_prio_array", 2048, {{"queue", 16, 8, 0, 0}}},                           \
		{"signal_struct", 64, {{"thread_head", FAKE_THREAD_HEAD, 8, 0, 0}}},         \
		{"kprobe",                                                                   \
		 64,                                                                         \
		 {{"hlist", 0, 16, 0, 0},                                                    \
		  {"addr", FAKE_KPROBE_ADDR, 8, 0, 0},                                       \
		  {"flags", FAKE_KPROBE_FLAGS, 4, 0, 0},                                     \
		  {"opcode", FAKE_KPROBE_OPCODE, 1, 0, 0}}},                                 \
		{"optimized_kprobe",                                                         \
		 80,                                                                         \
		 {{"kp", 0, 8, 0, 0}, {"optinsn", FAKE_KPROBE_OPTINSN, 8, 0, 0}}},           \
		{"arch_optimized_insn", 16, {{"copied_insn", FAKE_KPROBE_COPIED, 4, 0, 0}}}, \
		{"rcu_data", 64, {{"rcu_ofl_gp_seq", FAKE_RCU_OFFLINE, 8, 0, 0}}},           \
		{"ftrace_page",                                                              \
		 32,                                                                         \
		 {{"next", 0, 8, 0, 0}, {"records", 8, 8, 0, 0}, {"index", 16, 4, 0, 0}}},   \
		{"dyn_ftrace", 16, {{"ip", 0, 8, 0, 0}, {"flags", 8, 8, 0, 0}}},             \
		{"module_memory", 16, {{"base", 0, 8, 0, 0}, {"size", 8, 4, 0, 0}}},         \
		{"btf_module",                                                               \
		 48,                                                                         \
		 {{"list", FAKE_LISTED_LIST, 8, 0, 0},                                       \
		  {"module", FAKE_LISTED_MODULE, 8, 0, 0},                                   \
		  {"btf", FAKE_LISTED_BTF, 8, 0, 0}}},                                       \
		{"btf",                                                                      \
		 192,                                                                        \
		 {{"data", FAKE_BTF_DATA, 8, 0, 0},                                          \
		  {"data_size", FAKE_BTF_SIZE, 4, 0, 0},                                     \
		  {"start_id", FAKE_BTF_START_ID, 4, 0, 0},                                  \
		  {"start_str_off", FAKE_BTF_START_STRING, 4, 0, 0}}},                       \
		{"module_sect_attrs", 64, {{"grp", 0, 0, 0, 0}}},                            \
		{"attribute_group", 40, {{"bin_attrs", 32, 8, 0, 0}}},                       \
		{"bin_attribute", 72, {{"attr", 0, 0, 0, 0}, {"private", 24, 8, 0, 0}}},     \
		{"attribute", 16, {{"name", 0, 8, 0, 0}}},                                   \
	{                                                                                    \
		"mod_kallsyms", 32,                                                          \
		{                                                                            \
			{"symtab", 0, 8, 0, 0}, {"num_symtab", 8, 4, 0, 0},                  \
			{                                                                    \
				"strtab", 16, 8, 0, 0                                        \
			}                                                                    \
		}                                                                            \
	}

/* clang-format off */
static const struct fake_struct structs_5_10[] = {
	{"page", 64, {{"flags", 0, 8, 0, 0}, {"lru", 8, 8, 0, 0}, {"compound_head", 8, 8, 0, 0},
		      {"compound_order", 17, 1, 0, 0}, {"slab_cache", 24, 8, 0, 0},
		      {"page_type", 48, 4, 0, 0}}},
	{"pagevec", 128, {{"nr", 0, 1, 0, 0}, {"pages", 8, 8, 0, 0}}},
	{"orc_entry", 6, {{"type", 4, 4, 8, 2}}},
	{"module_sect_attr", 80, {{"battr", 0, 0, 0, 0}, {"address", 72, 8, 0, 0}}},
	COMMON_STRUCTS,
	{NULL, 0, {{NULL, 0, 0, 0, 0}}},
};

#define OTHER_PAGES(size)                                                                        \
	{"page", size, {{"flags", 0, 8, 0, 0}, {"lru", 8, 8, 0, 0},                              \
			{"compound_head", 8, 8, 0, 0}, {"compound_order", 17, 1, 0, 0},          \
			{"slab_cache", 24, 8, 0, 0}, {"page_type", 48, 4, 0, 0}}},               \
	{"orc_entry", 6, {{"type", 4, 4, 8, 2}}},                                                \
	COMMON_STRUCTS,                                                                          \
	{NULL, 0, {{NULL, 0, 0, 0, 0}}}

static const struct fake_struct structs_small_pages[] = {OTHER_PAGES(56)};
static const struct fake_struct structs_odd_pages[] = {OTHER_PAGES(60)};

#define STRUCTS_6_12(head)                                                                       \
	{"page", 64, {{"flags", 0, 8, 0, 0}, {"lru", 8, 8, 0, 0}, {head, 8, 8, 0, 0},            \
		      {"page_type", 48, 4, 0, 0}, {"_refcount", 52, 4, 0, 0}}},                  \
	{"folio", 256, {{"_flags_1", 64, 8, 0, 0}}},                                             \
	{"slab", 64, {{"slab_cache", 8, 8, 0, 0}}},                                              \
	{"folio_batch", 256, {{"nr", 0, 1, 0, 0}, {"folios", 8, 8, 0, 0}}},                      \
	{"orc_entry", 6, {{"type", 4, 4, 8, 3}}},                                                \
	COMMON_STRUCTS

static const struct fake_struct structs_6_12[] = {
	STRUCTS_6_12("compound_head"),
	{NULL, 0, {{NULL, 0, 0, 0, 0}}},
};

#define SHEAF                                                                                    \
	{"slab_sheaf", 40, {{"cache", FAKE_SHEAF_CACHE, 8, 0, 0}, \
	{"callback_head", FAKE_SHEAF_RCU_HEAD, 8, 0, 0}, \
	{"size", FAKE_SHEAF_SIZE, 4, 0, 0}, \
	{"objects", FAKE_SHEAF_OBJECTS, 8, 0, 0}}}

static const struct fake_struct structs_7_0[] = {
	STRUCTS_6_12("compound_head"),
	SHEAF,
	{NULL, 0, {{NULL, 0, 0, 0, 0}}},
};
static const struct fake_struct structs_7_1[] = {
	STRUCTS_6_12("compound_info"),
	SHEAF,
	{NULL, 0, {{NULL, 0, 0, 0, 0}}},
};
static const struct fake_struct structs_next[] = {
	STRUCTS_6_12("compound_other"),
	SHEAF,
	{NULL, 0, {{NULL, 0, 0, 0, 0}}},
};
static const struct fake_struct structs_bare[] = {
	{"kmem_cache", 64, {{"flags", FAKE_CACHE_FLAGS, 4, 0, 0}}},
	SHEAF,
	{NULL, 0, {{NULL, 0, 0, 0, 0}}},
};
/* clang-format on */

static const struct fake_enumerator enums_5_10[] = {
	{"PG_slab", 9}, {"PG_head", 16}, {"MOD_TEXT", 0}, {"MOD_INIT_TEXT", 1}, {NULL, 0}};
static const struct fake_enumerator enums_6_11[] = {
	{"PG_slab", 0x02000000}, {"PAGE_TYPE_BASE", 0x80000000}, {"PG_head", 6},
	{"MOD_TEXT", 0},         {"MOD_INIT_TEXT", 1},           {NULL, 0}};
static const struct fake_enumerator enums_6_12[] = {
	{"PGTY_slab", 0xf5}, {"PG_head", 6}, {"MOD_TEXT", 0}, {"MOD_INIT_TEXT", 1}, {NULL, 0}};
static const struct fake_enumerator enums_7_0[] = {{"PGTY_slab", 0xf5},
						   {"PG_head", 6},
						   {"MOD_TEXT", 0},
						   {"MOD_INIT_TEXT", 1},
						   {"_SLAB_KMALLOC", FAKE_KMALLOC_BIT},
						   {NULL, 0}};

/* Those of fake-session.h. The order of parameters is nobody's business but BTF's. */
static const char *const prototypes[] = {
	"void *__kmalloc(size_t size, gfp_t flags)",
	"void *kmalloc_large(size_t size, gfp_t flags)",
	"void *kmem_cache_alloc(gfp_t gfpflags, struct kmem_cache *s)",
	"void *kmem_cache_alloc_lru(gfp_t gfpflags, struct kmem_cache *s)",
	"void *kmem_cache_alloc_node(gfp_t gfpflags, struct kmem_cache *s)",
	"void kfree(const void *x)",
	"void rcu_free_sheaf(struct callback_head *head)",
	"int kmem_cache_alloc_bulk(struct kmem_cache *s, gfp_t flags, size_t size, void **p)",
	"void kmem_cache_free(struct kmem_cache *s, int a, int b, int c, void *x)",
	"void kmem_cache_free_bulk(struct kmem_cache *s, int a, size_t size, void **p)",
	"struct page *__alloc_pages(gfp_t gfp, unsigned int order)",
	"void free_unref_page(struct page *page, unsigned int order)",
	NULL,
};

enum { MAX_STRUCTS = 48 };

/* `to` has room for MAX_STRUCTS; returns how many there are then. */
static size_t append(struct fake_struct *to, size_t n, const struct fake_struct *more)
{
	while (more->name && n + 1 < MAX_STRUCTS)
		to[n++] = *more++;
	return n;
}

static int make_btf(enum fake_flavour flavour, bool has_cgroups, struct btf_types **out)
{
	static const struct fake_struct cgroups[] = {
		{"css_set", 64, {{"dfl_cgrp", FAKE_DFL_CGRP, 8, 0, 0}}},
		{"cgroup", 64, {{"kn", FAKE_CGROUP_KN, 8, 0, 0}}},
		{"kernfs_node", 64, {{"id", FAKE_NODE_ID, 8, 0, 0}}},
		{NULL, 0, {{NULL, 0, 0, 0, 0}}},
	};
	static const struct fake_struct *const structs[] = {
		structs_5_10, structs_6_12, structs_6_12,        structs_7_0,      structs_7_1,
		structs_next, structs_bare, structs_small_pages, structs_odd_pages};
	static const struct fake_enumerator *const enums[] = {enums_5_10, enums_6_11, enums_6_12,
							      enums_7_0,  enums_7_0,  enums_7_0,
							      enums_7_0,  enums_5_10, enums_5_10};
	struct fake_struct all[MAX_STRUCTS] = {{.name = NULL}};
	size_t n = append(all, 0, structs[flavour]);
	uint8_t bytes[8192];
	size_t size;

	if (has_cgroups)
		append(all, n, cgroups);
	size = fake_btf_functions(all, enums[flavour], prototypes, bytes, sizeof(bytes));
	return size ? btf_parse(bytes, size, out, NULL) : -ENOSPC;
}

static int make_symbols(struct symbol_table **out)
{
	static const struct {
		const char *name;
		uint64_t offset;
	} symbols[] = {
		{"_text", 0},
		{"linux_banner", FAKE_BANNER},
		{"__start_notes", FAKE_NOTES},
		{"__stop_notes", FAKE_NOTES_END},
		{"phys_base", FAKE_PHYS_BASE},
		{"pgdir_shift", FAKE_PGDIR_SHIFT},
		{"page_offset_base", FAKE_PAGE_OFFSET_BASE},
		{"vmemmap_base", FAKE_VMEMMAP_BASE},
		{"vmemmap_populate", FAKE_VMEMMAP_BASE + 8},
		{"modules", FAKE_MODULES},
		{"btf_modules", FAKE_BTF_MODULES},
		{"init_top_pgt", FAKE_INIT_TOP_PGT},
		{"early_top_pgt", FAKE_EARLY_TOP_PGT},
		{"__start_orc_unwind_ip", FAKE_ORC_IPS},
		{"__stop_orc_unwind_ip", FAKE_ORC_IPS + FAKE_NR_ORC * 4},
		{"__start_orc_unwind", FAKE_ORC_ENTRIES},
		{"_end", FAKE_IMAGE_SIZE},
	};
	char map[2048];
	size_t at = 0;

	for (size_t i = 0; i < sizeof(symbols) / sizeof(symbols[0]); i++)
		at += (size_t)snprintf(map + at, sizeof(map) - at, "%016llx %c %s\n",
				       (unsigned long long)(FAKE_LINK_TEXT + symbols[i].offset),
				       i ? 'D' : 'T', symbols[i].name);
	return symbols_from_system_map(map, at, out, NULL);
}

/* Four functions of 0x1000 bytes: frames of 8, 40 and 8 bytes below the CFA, the third through RBP.
 */
static void make_orc(uint8_t *image, enum fake_flavour flavour)
{
	static const int16_t sp_offsets[FAKE_NR_ORC] = {8, 40, 16, 8};
	static const uint16_t registers[FAKE_NR_ORC] = {5, 5, 4, 5};
	uint16_t call = flavour == FAKE_5_10 ? 0 : 2;

	for (uint32_t i = 0; i < FAKE_NR_ORC; i++) {
		int32_t ip = (int32_t)(i * 0x1000) - (int32_t)(FAKE_ORC_IPS + i * 4);
		uint16_t flags = (uint16_t)(registers[i] | call << 8);

		memcpy(image + FAKE_ORC_IPS + i * 4, &ip, sizeof(ip));
		memcpy(image + FAKE_ORC_ENTRIES + i * 6, &sp_offsets[i], sizeof(sp_offsets[i]));
		memcpy(image + FAKE_ORC_ENTRIES + i * 6 + 4, &flags, sizeof(flags));
	}
}

static int make_image(struct kernel_image *image, enum fake_flavour flavour)
{
	int ret = make_symbols(&image->symbols);

	if (!ret)
		ret = make_btf(flavour, false, &image->btf);
	if (ret)
		return ret;
	image->banner = strdup("Linux version 6.66.0-fake (test@sonde) #1 SMP");
	image->init_bytes = calloc(1, FAKE_IMAGE_SIZE);
	if (!image->banner || !image->init_bytes)
		return -ENOMEM;
	memcpy(image->build_id, FAKE_BUILD_ID, 20);
	image->build_id_size = 20;
	image->init_size = FAKE_IMAGE_SIZE;
	image->text = image->stext = FAKE_LINK_TEXT;
	image->etext = FAKE_LINK_TEXT + FAKE_BANNER;
	image->end = FAKE_LINK_TEXT + FAKE_IMAGE_SIZE;
	sprintf((char *)image->init_bytes + FAKE_BANNER, "%s\n", image->banner);
	memcpy(image->init_bytes + FAKE_NOTES + 16, FAKE_BUILD_ID, 20);
	make_orc(image->init_bytes, flavour);
	return 0;
}

static uint64_t table_gpa(unsigned int table)
{
	return FAKE_PHYS_TEXT + FAKE_TABLES + table * TABLE;
}

static unsigned int index_at(uint64_t gva, unsigned int level)
{
	return (gva >> (12 + 9 * (level - 1))) & 511;
}

static void set_entry(struct fake_kernel *fake, uint64_t table, uint64_t gva, unsigned int level,
		      uint64_t entry)
{
	fake_put64(fake, table + index_at(gva, level) * 8, entry);
}

static void link_top(struct fake_kernel *fake, uint64_t gva, unsigned int pud)
{
	uint64_t top = FAKE_PHYS_TEXT + FAKE_INIT_TOP_PGT;
	uint64_t pud_entry = table_gpa(pud) | PRESENT_RW;

	if (fake->levels == 4) {
		set_entry(fake, top, gva, 4, pud_entry);
		return;
	}
	set_entry(fake, top, gva, 5, table_gpa(P4D) | PRESENT_RW);
	set_entry(fake, table_gpa(P4D), gva, 4, pud_entry);
}

static void make_tables(struct fake_kernel *fake)
{
	uint64_t text = FAKE_LINK_TEXT + FAKE_SLIDE;

	link_top(fake, text, PUD_KERNEL);
	set_entry(fake, table_gpa(PUD_KERNEL), text, 3, table_gpa(PMD_KERNEL) | PRESENT_RW);
	set_entry(fake, table_gpa(PMD_KERNEL), text, 2, FAKE_PHYS_TEXT | PRESENT_RW | LARGE);
	link_top(fake, FAKE_PAGE_OFFSET, PUD_DIRECT);
	set_entry(fake, table_gpa(PUD_DIRECT), FAKE_PAGE_OFFSET, 3, PRESENT_RW | LARGE);
	link_top(fake, FAKE_VMEMMAP, PUD_VMEMMAP);
	set_entry(fake, table_gpa(PUD_VMEMMAP), FAKE_VMEMMAP, 3,
		  table_gpa(PMD_VMEMMAP) | PRESENT_RW);
	set_entry(fake, table_gpa(PMD_VMEMMAP), FAKE_VMEMMAP, 2,
		  FAKE_VMEMMAP_GPA | PRESENT_RW | LARGE);
}

static void make_memory(struct fake_kernel *fake)
{
	uint64_t modules = FAKE_LINK_TEXT + FAKE_SLIDE + FAKE_MODULES;

	memcpy(fake->ram + FAKE_PHYS_TEXT, fake->image.init_bytes, FAKE_IMAGE_SIZE);
	fake_put64(fake, FAKE_PHYS_TEXT + FAKE_PHYS_BASE,
		   FAKE_PHYS_TEXT - (FAKE_LINK_TEXT + FAKE_SLIDE - 0xffffffff80000000ull));
	fake_put32(fake, FAKE_PHYS_TEXT + FAKE_PGDIR_SHIFT, fake->levels == 5 ? 48 : 39);
	fake_put64(fake, FAKE_PHYS_TEXT + FAKE_PAGE_OFFSET_BASE, FAKE_PAGE_OFFSET);
	fake_put64(fake, FAKE_PHYS_TEXT + FAKE_VMEMMAP_BASE, FAKE_VMEMMAP);
	fake_put64(fake, FAKE_PHYS_TEXT + FAKE_MODULES, modules);
	fake_clear_module_btf(fake);
	make_tables(fake);
}

int fake_kernel_create(struct fake_kernel *fake, enum fake_flavour flavour, unsigned int levels)
{
	int ret;

	memset(fake, 0, sizeof(*fake));
	fake->levels = levels;
	fake->flavour = flavour;
	ret = make_image(&fake->image, flavour);
	if (!ret)
		ret = dump_guest_create(1, &fake->dump, NULL);
	if (!ret) {
		fake->ram = calloc(1, FAKE_RAM);
		ret = fake->ram ? 0 : -ENOMEM;
	}
	if (!ret)
		ret = dump_guest_add_buffer(fake->dump, 0, fake->ram, FAKE_RAM, DUMP_MAPPED, NULL);
	if (ret) {
		fake_kernel_destroy(fake);
		return ret;
	}
	make_memory(fake);
	kernel_at(&fake->kernel, dump_guest(fake->dump), &fake->image, FAKE_SLIDE, FAKE_PHYS_TEXT);
	return 0;
}

int fake_kernel_describe_cgroups(struct fake_kernel *fake)
{
	btf_destroy(fake->image.btf);
	fake->image.btf = NULL;
	return make_btf(fake->flavour, true, &fake->image.btf);
}

int fake_kernel_set_vcpus(struct fake_kernel *fake, unsigned int nr_vcpus)
{
	int ret;

	dump_guest_destroy(fake->dump);
	fake->dump = NULL;
	ret = dump_guest_create(nr_vcpus, &fake->dump, NULL);
	if (!ret)
		ret = dump_guest_add_buffer(fake->dump, 0, fake->ram, FAKE_RAM, DUMP_MAPPED, NULL);
	if (!ret)
		kernel_at(&fake->kernel, dump_guest(fake->dump), &fake->image, FAKE_SLIDE,
			  FAKE_PHYS_TEXT);
	return ret;
}

int fake_kernel_set_symbols(struct fake_kernel *fake, const char *map, size_t size)
{
	symbols_destroy(fake->image.symbols);
	fake->image.symbols = NULL;
	return symbols_from_system_map(map, size, &fake->image.symbols, NULL);
}

int fake_kernel_set_structs(struct fake_kernel *fake, const struct fake_struct *structs)
{
	static const struct fake_enumerator none[] = {{NULL, 0}};
	uint8_t bytes[2048];
	size_t size = fake_btf(structs, none, bytes, sizeof(bytes));

	btf_destroy(fake->image.btf);
	fake->image.btf = NULL;
	return btf_parse(bytes, size, &fake->image.btf, NULL);
}

void fake_put_module(struct fake_kernel *fake, uint64_t gpa, const char *name, uint64_t text,
		     uint32_t text_bytes, uint64_t kallsyms_gpa)
{
	fake_put64(fake, FAKE_PHYS_TEXT + FAKE_MODULES, fake_direct(gpa) + FAKE_MODULE_LIST);
	fake_put64(fake, gpa + FAKE_MODULE_LIST, FAKE_LINK_TEXT + FAKE_SLIDE + FAKE_MODULES);
	strcpy((char *)fake->ram + gpa + FAKE_MODULE_NAME, name);
	fake_put64(fake, gpa + FAKE_MODULE_MEM, text);
	fake_put32(fake, gpa + FAKE_MODULE_MEM + 8, text_bytes);
	fake_put64(fake, gpa + FAKE_MODULE_KALLSYMS, fake_direct(kallsyms_gpa));
}

void fake_kernel_destroy(struct fake_kernel *fake)
{
	kernel_image_forget(&fake->image);
	symbols_destroy(fake->image.symbols);
	btf_destroy(fake->image.btf);
	free(fake->image.banner);
	free(fake->image.init_bytes);
	dump_guest_destroy(fake->dump);
	free(fake->ram);
}

void fake_put64(struct fake_kernel *fake, uint64_t gpa, uint64_t value)
{
	memcpy(fake->ram + gpa, &value, sizeof(value));
}

void fake_put32(struct fake_kernel *fake, uint64_t gpa, uint32_t value)
{
	memcpy(fake->ram + gpa, &value, sizeof(value));
}

uint64_t fake_direct(uint64_t gpa)
{
	return FAKE_PAGE_OFFSET + gpa;
}

uint64_t fake_page(uint64_t pfn)
{
	return FAKE_VMEMMAP + pfn * FAKE_PAGE_STRUCT;
}

uint64_t fake_page_gpa(uint64_t pfn)
{
	return FAKE_VMEMMAP_GPA + pfn * FAKE_PAGE_STRUCT;
}
