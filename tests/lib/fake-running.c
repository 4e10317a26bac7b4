/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "tests/lib/fake-running.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "introspect/guest/control.h"
#include "tests/lib/fake-btf.h"

#define TEXT (FAKE_LINK_TEXT + FAKE_SLIDE)
#define MODULE_SITE 0xffffffffc0001000ull

enum { SITE_FILLER = 0x8000, NOTE_HEADER = 16, ROOM = 1 << 16 };

struct symbol_at {
	const char *name; /* with its type */
	uint64_t offset;
};

static const struct symbol_at symbols[] = {
	{"T_text", 0},
	{"T_stext", 0},
	{"T__kmalloc", FAKE_FUNCTIONS},
	{"Tkfree", FAKE_FUNCTIONS + FAKE_FUNCTION_SIZE},
	{"Tkmem_cache_alloc", FAKE_FUNCTIONS + 2 * FAKE_FUNCTION_SIZE},
	{"Tkmem_cache_free", FAKE_FUNCTIONS + 3 * FAKE_FUNCTION_SIZE},
	{"T__alloc_pages", FAKE_FUNCTIONS + 4 * FAKE_FUNCTION_SIZE},
	{"Tfree_unref_page", FAKE_FUNCTIONS + 5 * FAKE_FUNCTION_SIZE},
	{"T__free_pages_ok", FAKE_FUNCTIONS + 6 * FAKE_FUNCTION_SIZE},
	{"tfiller", SITE_FILLER}, /* and as many of them as make FAKE_NR_SYMBOLS */
	{"T_etext", FAKE_BANNER},
	{"Dlinux_banner", FAKE_BANNER},
	{"D__start_notes", FAKE_NOTES},
	{"D__stop_notes", FAKE_NOTES_END},
	{"Dphys_base", FAKE_PHYS_BASE},
	{"Dpgdir_shift", FAKE_PGDIR_SHIFT},
	{"Dpage_offset_base", FAKE_PAGE_OFFSET_BASE},
	{"bftrace_pages_start", FAKE_FTRACE_START},
	{"Dvmcoreinfo_data", FAKE_VMCOREINFO},
	{"Dinit_top_pgt", FAKE_INIT_TOP_PGT},
	{"bkprobe_table", FAKE_RUNNING_KPROBES},
	{"R__start_BTF", FAKE_BTF_AT},
	{"R__stop_BTF", 0 /* follows from its size */},
	{"B_end", FAKE_IMAGE_SIZE},
};

static const struct fake_struct structs[] = {
	{"ftrace_page",
	 FAKE_FTRACE_PAGE_SIZE,
	 {{"next", FAKE_FTRACE_NEXT, 8, 0, 0},
	  {"records", FAKE_FTRACE_RECORDS, 8, 0, 0},
	  {"index", FAKE_FTRACE_INDEX, 4, 0, 0}}},
	{"dyn_ftrace", FAKE_RECORD_SIZE, {{"ip", 0, 8, 0, 0}, {"flags", 8, 8, 0, 0}}},
	{"kprobe",
	 FAKE_RUNNING_KPROBE_SIZE,
	 {{"hlist", 0, 16, 0, 0},
	  {"addr", FAKE_RUNNING_KPROBE_ADDR, 8, 0, 0},
	  {"flags", FAKE_RUNNING_KPROBE_FLAGS, 4, 0, 0},
	  {"opcode", FAKE_RUNNING_KPROBE_OPCODE, 1, 0, 0}}},
	{NULL, 0, {{NULL, 0, 0, 0, 0}}},
};
static const struct fake_enumerator enums[] = {{"NOTHING", 1}, {NULL, 0}};

static const char *const prototypes[] = {
	"void *__kmalloc(size_t size, gfp_t flags)",
	"void kfree(const void *x)",
	"void *kmem_cache_alloc(struct kmem_cache *s, gfp_t gfpflags)",
	"void kmem_cache_free(struct kmem_cache *s, void *x)",
	"struct page *__alloc_pages(gfp_t gfp, unsigned int order)",
	"void free_unref_page(struct page *page, unsigned int order)",
	"void __free_pages_ok(struct page *page, unsigned int order)",
	NULL,
};

static size_t put_btf(struct fake_running *r)
{
	return fake_btf_functions(structs, enums, prototypes,
				  r->fake.ram + FAKE_PHYS_TEXT + FAKE_BTF_AT, ROOM);
}

static void add(struct fake_kallsyms_symbol *v, uint32_t *n, uint64_t address, const char *name)
{
	v[*n].address = address;
	snprintf(v[(*n)++].name, sizeof(v->name), "%s", name);
}

/* Before them an offset of a per-CPU variable, in the kernels that have those. */
static int put_kallsyms(struct fake_running *r, enum fake_kallsyms_layout layout, size_t btf_size)
{
	enum { FILLERS = FAKE_NR_SYMBOLS - sizeof(symbols) / sizeof(symbols[0]) };
	struct fake_kallsyms_symbol *v = calloc(FAKE_KALLSYMS_MAX, sizeof(*v));
	uint32_t n = 0;

	if (!v)
		return -ENOMEM;
	if (layout <= FAKE_KALLSYMS_6_4)
		add(v, &n, 64, "Apercpu_variable");
	for (size_t i = 0; i < sizeof(symbols) / sizeof(symbols[0]); i++) {
		uint64_t offset = symbols[i].offset ? symbols[i].offset : FAKE_BTF_AT + btf_size;
		char name[32];

		for (uint32_t f = 0; symbols[i].offset == SITE_FILLER && f < FILLERS; f++) {
			snprintf(name, sizeof(name), "tfiller_%u", f);
			add(v, &n, TEXT + SITE_FILLER + f * 16, name);
		}
		if (symbols[i].offset != SITE_FILLER)
			add(v, &n, TEXT + (i < 2 ? 0 : offset), symbols[i].name);
	}
	r->kallsyms_size = fake_kallsyms_of(layout, TEXT + FAKE_KALLSYMS_AT, v, n,
					    r->fake.ram + FAKE_PHYS_TEXT + FAKE_KALLSYMS_AT, ROOM);
	free(v);
	return r->kallsyms_size ? 0 : -ENOSPC;
}

static void put_notes(struct fake_running *r)
{
	const uint32_t header[] = {4, 20, 3 /* NT_GNU_BUILD_ID */};
	uint8_t *notes = r->fake.ram + FAKE_PHYS_TEXT + FAKE_NOTES;

	memcpy(notes, header, sizeof(header));
	memcpy(notes + sizeof(header), "GNU", 4);
	memcpy(notes + NOTE_HEADER, FAKE_BUILD_ID, 20);
}

static void put_page(struct fake_kernel *fake, uint64_t gpa, uint64_t next, uint64_t records,
		     uint32_t n)
{
	fake_put64(fake, gpa + FAKE_FTRACE_NEXT, next);
	fake_put64(fake, gpa + FAKE_FTRACE_RECORDS, fake_direct(records));
	fake_put32(fake, gpa + FAKE_FTRACE_INDEX, n);
}

/* The second page is not in the order of addresses. */
static void put_sites(struct fake_kernel *fake)
{
	uint64_t second = FAKE_FTRACE_PAGES + FAKE_FTRACE_PAGE_SIZE;

	fake_put64(fake, FAKE_PHYS_TEXT + FAKE_FTRACE_START, fake_direct(FAKE_FTRACE_PAGES));
	put_page(fake, FAKE_FTRACE_PAGES, fake_direct(second), FAKE_RECORDS, FAKE_NR_FUNCTIONS);
	put_page(fake, second, 0, FAKE_RECORDS_2, 2);
	for (uint64_t i = 0; i < FAKE_NR_FUNCTIONS; i++)
		fake_put64(fake, FAKE_RECORDS + i * FAKE_RECORD_SIZE,
			   TEXT + FAKE_FUNCTIONS + i * FAKE_FUNCTION_SIZE);
	fake_put64(fake, FAKE_RECORDS_2, MODULE_SITE);
	fake_put64(fake, FAKE_RECORDS_2 + FAKE_RECORD_SIZE, TEXT + 0x80);
}

static void put_vmcoreinfo(struct fake_kernel *fake)
{
	fake_put64(fake, FAKE_PHYS_TEXT + FAKE_VMCOREINFO, fake_direct(FAKE_VMCOREINFO_GPA));
	sprintf((char *)fake->ram + FAKE_VMCOREINFO_GPA,
		"OSRELEASE=6.66.0-fake\nPAGESIZE=4096\nKERNELOFFSET=%llx\nNUMBER(x)=1\n",
		FAKE_SLIDE);
}

int fake_running_create(struct fake_running *r, enum fake_kallsyms_layout layout,
			unsigned int levels)
{
	int rc = fake_kernel_create(&r->fake, FAKE_6_12, levels);

	if (rc)
		return rc;
	put_notes(r);
	put_sites(&r->fake);
	put_vmcoreinfo(&r->fake);
	rc = put_kallsyms(r, layout, put_btf(r));
	r->sregs = (struct guest_sregs){.cr0 = CR0_PG,
					.cr3 = FAKE_PHYS_TEXT + FAKE_INIT_TOP_PGT,
					.cr4 = levels == 5 ? CR4_LA57 : 0,
					.efer = EFER_LMA};
	if (rc)
		fake_running_destroy(r);
	return rc;
}

void fake_running_destroy(struct fake_running *r)
{
	fake_kernel_destroy(&r->fake);
}
