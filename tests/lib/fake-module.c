/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "tests/lib/fake-module.h"

#include <elf.h>
#include <stdlib.h>
#include <string.h>
#include "tests/lib/fake-module-btf.h"
#include "tests/lib/fake-sections.h"
#include "tests/lib/tap.h"

enum {
	DISABLED = 1 << 25,
	PRESENT_RW = 3,

	/* the heap: page tables, the module's page, its struct ftrace_page and struct module */
	PMD_GPA = FAKE_HEAP_GPA + 0x200000,
	PT_GPA = PMD_GPA + 0x1000,
	TEXT_GPA = PMD_GPA + 0x2000,
	PAGE_GPA = PMD_GPA + 0x3000,
	RECORDS_GPA = PMD_GPA + 0x4000,
	MODULE_GPA = PMD_GPA + 0x5000,
	KALLSYMS_GPA = PMD_GPA + 0x6000,
	SYMTAB_GPA = PMD_GPA + 0x7000,
	STRTAB_GPA = PMD_GPA + 0x8000,
	SECTIONS_GPA = PMD_GPA + 0x9000,
	TYPES_GPA = PMD_GPA + 0xa000,

	RETURN_SITES = 0x800, /* in the module's page */
	NOTE = 0xc00,

	/* offsets in fake-kernel.c's struct module */
};

enum { CALL = 0xe8 };

static const uint8_t nop[] = {0x0f, 0x1f, 0x44, 0x00, 0x00};

static uint8_t *memory(struct fake_session *fs, uint64_t gpa)
{
	return fs->fg.base.ram + gpa;
}

static void put64(struct fake_session *fs, uint64_t gpa, uint64_t value)
{
	fake_put64(&fs->fg.base, gpa, value);
}

uint8_t *fake_module_text(struct fake_session *fs, uint64_t offset)
{
	return memory(fs, TEXT_GPA + offset);
}

/* A page of the kernel's page tables, for the last GiB. */
static void map_module_area(struct fake_session *fs)
{
	uint64_t pgd = FAKE_PHYS_TEXT + FAKE_INIT_TOP_PGT, pud;

	memcpy(&pud, memory(fs, pgd + 511 * 8), sizeof(pud));
	put64(fs, (pud & ~UINT64_C(0xfff)) + 511 * 8, PMD_GPA | PRESENT_RW);
	put64(fs, PMD_GPA, PT_GPA | PRESENT_RW);
}

static void add_loader(struct fake_session *fs)
{
	static const struct fake_symbol symbols[] = {{"do_init_module", FAKE_INIT_MODULE},
						     {NULL, 0}};
	static const uint8_t body[] = {0x0f, 0x1f, 0x44, 0x00, 0x00, 0xc3};

	if (fake_guest_add_symbols(&fs->fg, symbols))
		abort();
	fake_code(&fs->fg, FAKE_INIT_MODULE, body, sizeof(body));
	put64(fs, FAKE_SITES_GPA + FAKE_NR_SITES * 16, fake_gva(FAKE_INIT_MODULE));
	fake_put32(&fs->fg.base, FAKE_FTRACE_LIST_GPA + 16, FAKE_NR_SITES + 1);
}

void fake_module_prepare(struct fake_session *fs, bool has_loader)
{
	map_module_area(fs);
	if (has_loader)
		add_loader(fs);
	fake_module_unload(fs);
	fake_session_keep_text(fs);
}

static void put_symbol(struct fake_session *fs, unsigned int index, uint32_t name, uint64_t value)
{
	const Elf64_Sym sym = {.st_name = name, .st_value = value, .st_shndx = 1};

	memcpy(memory(fs, SYMTAB_GPA + index * sizeof(sym)), &sym, sizeof(sym));
}

static void put_jump(struct fake_session *fs, uint64_t offset, uint64_t target)
{
	const int32_t distance =
		(int32_t)(target - (FAKE_MODULE_TEXT + offset + FAKE_MODULE_SLOT_SIZE));

	*fake_module_text(fs, offset) = 0xe9;
	memcpy(fake_module_text(fs, offset) + 1, &distance, sizeof(distance));
}

static void put_returns(struct fake_session *fs)
{
	static const struct fake_section sections[] = {
		{".note.gnu.build-id", FAKE_MODULE_TEXT + NOTE},
		{".return_sites", FAKE_MODULE_TEXT + RETURN_SITES},
		{NULL, 0}};
	const uint64_t slots[] = {FAKE_MODULE_TEXT + FAKE_MODULE_SLOT,
				  FAKE_MODULE_TEXT + FAKE_MODULE_SLOT_2,
				  FAKE_MODULE_TEXT + FAKE_MODULE_NO_SLOT};

	put_jump(fs, FAKE_MODULE_SLOT, fake_gva(FAKE_RETURN_THUNK));
	put_jump(fs, FAKE_MODULE_JUMP, FAKE_MODULE_TEXT);
	put_jump(fs, FAKE_MODULE_NO_SLOT, fake_gva(FAKE_KMALLOC));
	memcpy(fake_module_text(fs, FAKE_MODULE_SLOT_2), "\xc3\xcc\xcc\xcc\xcc",
	       FAKE_MODULE_SLOT_SIZE);
	fake_put_return_sites(&fs->fg.base, TEXT_GPA + RETURN_SITES,
			      FAKE_MODULE_TEXT + RETURN_SITES, slots,
			      sizeof(slots) / sizeof(slots[0]));
	fake_put_sections(&fs->fg.base, FAKE_6_12, MODULE_GPA, SECTIONS_GPA, sections);
}

static void put_build_id(struct fake_session *fs)
{
	static const uint8_t note[] = {4, 0, 0, 0, 8, 0, 0, 0, 3, 0, 0, 0, 'G', 'N', 'U', 0};

	memcpy(fake_module_text(fs, NOTE), note, sizeof(note));
	memcpy(fake_module_text(fs, NOTE + sizeof(note)), "\1\2\3\4\5\6\7\10", 8);
}

void fake_module_create_session(struct fake_session *fs, uint32_t ring_bytes)
{
	const struct trace_options options = {.exitless = true, .ring_bytes = ring_bytes};

	fake_session_create(fs);
	trace_session_set_options(fs->session, &options);
	fake_module_prepare(fs, true);
}

void fake_module_place(struct fake_session *fs)
{
	put64(fs, PT_GPA, TEXT_GPA | PRESENT_RW);
	memset(memory(fs, TEXT_GPA), 0x90, 0x1000);
	for (unsigned int i = 0; i < 2; i++)
		memcpy(fake_module_text(fs, i * FAKE_MODULE_FUNCTION), nop, sizeof(nop));
	fake_put_module(&fs->fg.base, MODULE_GPA, "brd", FAKE_MODULE_TEXT, 0x1000, KALLSYMS_GPA);
	put64(fs, KALLSYMS_GPA, fake_direct(SYMTAB_GPA));
	fake_put32(&fs->fg.base, KALLSYMS_GPA + 8, 2);
	put64(fs, KALLSYMS_GPA + 16, fake_direct(STRTAB_GPA));
	memcpy(memory(fs, STRTAB_GPA), "\0brd_read\0brd_write", 20);
	put_symbol(fs, 0, 1, FAKE_MODULE_TEXT);
	put_symbol(fs, 1, 10, FAKE_MODULE_TEXT + FAKE_MODULE_FUNCTION);
	put_build_id(fs);
	put_returns(fs);
}

void fake_module_list_sites(struct fake_session *fs, bool disabled)
{
	for (unsigned int i = 0; i < 2; i++) {
		put64(fs, RECORDS_GPA + i * 16, FAKE_MODULE_TEXT + i * FAKE_MODULE_FUNCTION);
		put64(fs, RECORDS_GPA + i * 16 + 8, disabled ? DISABLED : 0);
	}
	put64(fs, PAGE_GPA, 0);
	put64(fs, PAGE_GPA + 8, fake_direct(RECORDS_GPA));
	fake_put32(&fs->fg.base, PAGE_GPA + 16, 2);
	put64(fs, FAKE_FTRACE_LIST_GPA, fake_direct(PAGE_GPA));
}

void fake_module_load(struct fake_session *fs)
{
	fake_module_place(fs);
	fake_module_list_sites(fs, false);
}

void fake_module_unload(struct fake_session *fs)
{
	put64(fs, FAKE_FTRACE_LIST_GPA, 0);
	put64(fs, FAKE_PHYS_TEXT + FAKE_MODULES, fake_gva(FAKE_MODULES));
	fake_clear_module_btf(&fs->fg.base);
	fake_module_free_text(fs);
}

void fake_module_free_text(struct fake_session *fs)
{
	put64(fs, PT_GPA, 0);
}

bool fake_module_is_mapped(struct fake_session *fs)
{
	static const uint8_t unmapped[8];

	return memcmp(memory(fs, PT_GPA), unmapped, sizeof(unmapped));
}

void fake_module_hide_sections(struct fake_session *fs, bool hide)
{
	put64(fs, MODULE_GPA + FAKE_SECT_ATTRS, hide ? 0 : fake_direct(SECTIONS_GPA));
}

void fake_module_put_types(struct fake_session *fs, const struct fake_struct *structs,
			   const char *const *prototypes)
{
	fake_put_module_btf(&fs->fg.base, MODULE_GPA, TYPES_GPA, structs, prototypes);
}

void fake_module_claim_text(struct fake_session *fs, uint64_t gva)
{
	put64(fs, MODULE_GPA + FAKE_MODULE_MEM, gva);
	fake_put_return_sites(&fs->fg.base, TEXT_GPA + RETURN_SITES,
			      FAKE_MODULE_TEXT + RETURN_SITES, &gva, 1);
}

bool fake_module_is_recorded(struct fake_session *fs, bool first, bool second)
{
	return (*fake_module_text(fs, 0) == CALL) == first &&
	       (*fake_module_text(fs, FAKE_MODULE_FUNCTION) == CALL) == second;
}

/* Where it is loaded, its sites have their own bytes. */
static bool is_untouched(struct fake_session *fs)
{
	if (!fake_module_is_mapped(fs))
		return true;
	return !memcmp(fake_module_text(fs, 0), nop, sizeof(nop)) &&
	       !memcmp(fake_module_text(fs, FAKE_MODULE_FUNCTION), nop, sizeof(nop));
}

void fake_module_end(struct fake_session *fs)
{
	ok(!trace_session_failure(fs->session), "nothing has failed while tracing");
	ok(!trace_session_stop(fs->session, NULL) && fake_session_text_same(fs) && is_untouched(fs),
	   "after a stop the texts of kernel and module are what they were");
	fake_session_destroy(fs);
}
