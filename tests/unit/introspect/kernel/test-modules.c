/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <elf.h>
#include <errno.h>
#include <string.h>

#include "introspect/kernel/modules.h"
#include "tests/lib/fake-kernel.h"
#include "tests/lib/tap.h"

#define TEXT (FAKE_LINK_TEXT + FAKE_SLIDE)

enum {
	MODULE_GPA = FAKE_HEAP_GPA,
	KALLSYMS_GPA = FAKE_HEAP_GPA + 0x1000,
	SYMTAB_GPA = FAKE_HEAP_GPA + 0x2000,
	STRTAB_GPA = FAKE_HEAP_GPA + 0x3000,
};
#define MODULE_TEXT 0xffffffffc0100000ull

static struct fake_kernel fake;

static void put_symbol(unsigned int index, uint32_t name, uint64_t value, uint16_t section)
{
	Elf64_Sym sym = {.st_name = name, .st_value = value, .st_shndx = section};

	memcpy(fake.ram + SYMTAB_GPA + index * sizeof(sym), &sym, sizeof(sym));
}

/* A list of one module, "mod", with functions alpha and beta in 0x2000 bytes of text. */
static void plant_module(void)
{
	fake_put_module(&fake, MODULE_GPA, "mod", MODULE_TEXT, 0x2000, KALLSYMS_GPA);
	fake_put64(&fake, KALLSYMS_GPA, fake_direct(SYMTAB_GPA));
	fake_put32(&fake, KALLSYMS_GPA + 8, 5);
	fake_put64(&fake, KALLSYMS_GPA + 16, fake_direct(STRTAB_GPA));
	memcpy(fake.ram + STRTAB_GPA, "\0alpha\0beta\0data\0import\0gamma.llvm.12", 38);
	put_symbol(0, 0, 0, SHN_UNDEF);
	put_symbol(1, 7, MODULE_TEXT + 0x1000, 1);
	put_symbol(2, 1, MODULE_TEXT + 0x100, 1);
	put_symbol(3, 12, MODULE_TEXT + 0x8000, 2);
	put_symbol(4, 17, MODULE_TEXT + 0x200, SHN_UNDEF);
}

static int lookup(struct kernel_names *names, uint64_t gva, char *name, uint64_t *start,
		  uint64_t *size)
{
	return kernel_names_lookup(names, gva, name, 64, start, size);
}

static struct kernel_names *create(void)
{
	struct kernel_names *names = NULL;
	struct error err = {0};

	ok(!kernel_names_create(&fake.kernel, &names, &err), "the names are read %s", err.text);
	return names;
}

static void test_lookup(void)
{
	uint64_t start, size;
	char name[64];
	struct kernel_names *names;

	plant_module();
	names = create();
	if (!names)
		return;
	ok(!lookup(names, MODULE_TEXT + 0x1234, name, &start, &size),
	   "an address in a module's last function is found");
	is_str(name, "beta [mod]", "a module's function has its name");
	ok(start == MODULE_TEXT + 0x1000 && size == 0x1000,
	   "the last function ends with the module's text");
	ok(!lookup(names, MODULE_TEXT + 0x200, name, &start, &size),
	   "an address behind an import is found");
	is_str(name, "alpha [mod]", "an import is no function: the one before it is found");
	is_u64(size, 0xf00, "a function ends where the next one begins");
	ok(lookup(names, MODULE_TEXT, name, &start, &size) == -ENOENT,
	   "an address before the first function has no name");
	ok(lookup(names, MODULE_TEXT + 0x2000, name, &start, &size) == -ENOENT,
	   "an address after the module's text has no name");
	ok(lookup(names, MODULE_TEXT + 0x8000, name, &start, &size) == -ENOENT,
	   "an address in module data has no name");
	ok(!lookup(names, TEXT + 0x10, name, &start, &size) && start == TEXT,
	   "an address in the image is found");
	is_str(name, "_text", "a function of the image has its name");
	ok(lookup(names, 0x1000, name, &start, &size) == -ENOENT,
	   "an address that is mapped nowhere has no name");
	kernel_names_destroy(names);
}

/* A module's init text, and modules that are gone. */
static void test_gone(void)
{
	const uint64_t init = MODULE_TEXT + 0x4000;
	struct kernel_names *first, *second;
	uint64_t start, size;
	char name[64];

	plant_module();
	fake_put64(&fake, MODULE_GPA + FAKE_MODULE_MEM + 16, init);
	fake_put32(&fake, MODULE_GPA + FAKE_MODULE_MEM + 24, 0x100);
	put_symbol(3, 12, init + 0x10, 2);
	first = create();
	ok(!lookup(first, init + 0x20, name, &start, &size) && start == init + 0x10 && size == 0xf0,
	   "an init function is found");
	is_str(name, "data [mod]", "it has its name");
	/* init text is freed, and alpha is another function now */
	fake_put64(&fake, MODULE_GPA + FAKE_MODULE_MEM + 16, 0);
	fake_put32(&fake, MODULE_GPA + FAKE_MODULE_MEM + 24, 0);
	put_symbol(2, 17, MODULE_TEXT + 0x180, 1);
	put_symbol(1, 0, 0, SHN_UNDEF);
	fake_put32(&fake, MODULE_GPA + FAKE_MODULE_MEM + 8, 0x1000);
	second = create();
	ok(lookup(second, init + 0x20, name, &start, &size) == -ENOENT,
	   "a later snapshot does not know what is gone");
	kernel_names_keep(second, first);
	ok(!lookup(second, init + 0x20, name, &start, &size) && !strcmp(name, "data [mod]"),
	   "unless it keeps what the earlier one knew");
	ok(!lookup(second, MODULE_TEXT + 0x1010, name, &start, &size) &&
		   !strcmp(name, "beta [mod]"),
	   "a function that has no successor keeps its name");
	ok(!lookup(second, MODULE_TEXT + 0x200, name, &start, &size) &&
		   !strcmp(name, "import [mod]"),
	   "one that has a successor does not");
	kernel_names_keep(second, NULL);
	kernel_names_destroy(second);
}

/* Clang's LTO has made it visible to other files. */
static void test_promoted(void)
{
	struct kernel_names *names;
	uint64_t start, size;
	char name[64];

	plant_module();
	put_symbol(2, 24, MODULE_TEXT + 0x100, 1);
	names = create();
	ok(!lookup(names, MODULE_TEXT + 0x110, name, &start, &size) && !strcmp(name, "gamma [mod]"),
	   "a module's static function has the name that it has in the source: %s", name);
	kernel_names_destroy(names);
}

/* A guest with millions of module symbols. */
static void test_budget(void)
{
	struct kernel_names *names;
	struct budget budget;
	uint64_t start, size;
	char name[64];

	plant_module();
	for (size_t most = 0; most < 100000; most += most < 100 ? 10 : 30000) {
		budget_init(&budget, most);
		fake.kernel.guest->budget = &budget;
		names = create();
		ok(!lookup(names, TEXT + 0x10, name, &start, &size),
		   "with a budget of %zu the image's names are there", most);
		ok(budget.used <= most, "the names take no more");
		ok(!lookup(names, MODULE_TEXT + 0x100, name, &start, &size) == !budget.refused,
		   "modules have names if these fit");
		kernel_names_destroy(names);
		is_u64(budget.used, 0, "and give it back");
	}
	fake.kernel.guest->budget = NULL;
}

/* A damaged module list must neither hang nor fail: names of the image stay. */
static void test_damage(void)
{
	static const struct {
		const char *what;
		uint64_t gpa, value;
	} damages[] = {
		{"a list that points nowhere leaves the image's names",
		 FAKE_PHYS_TEXT + FAKE_MODULES, 0xdead000000000100ull},
		{"a list that loops past its head leaves the image's names",
		 MODULE_GPA + FAKE_MODULE_LIST, FAKE_PAGE_OFFSET + MODULE_GPA + FAKE_MODULE_LIST},
		{"a module without kallsyms leaves the image's names",
		 MODULE_GPA + FAKE_MODULE_KALLSYMS, 0},
		{"an absurd number of symbols leaves the image's names", KALLSYMS_GPA + 8,
		 0xffffffff},
		{"a symbol table outside RAM leaves the image's names", KALLSYMS_GPA,
		 FAKE_PAGE_OFFSET + FAKE_RAM - 24},
		{"a string table in user space leaves the image's names", KALLSYMS_GPA + 16,
		 0x1000},
		{"a text that wraps leaves the image's names", MODULE_GPA + FAKE_MODULE_MEM,
		 0xfffffffffffff000ull},
		{"an absurd text size leaves the image's names", MODULE_GPA + FAKE_MODULE_MEM + 8,
		 0xffffffff},
	};

	for (size_t i = 0; i < sizeof(damages) / sizeof(damages[0]); i++) {
		struct kernel_names *names;
		uint64_t start, size;
		char name[64];

		plant_module();
		fake_put64(&fake, damages[i].gpa, damages[i].value);
		names = create();
		ok(names && !lookup(names, TEXT + 0x10, name, &start, &size), "%s",
		   damages[i].what);
		kernel_names_destroy(names);
	}
}

int main(void)
{
	if (fake_kernel_create(&fake, FAKE_6_12, 4))
		return tap_skip_all("no fake kernel");
	test_lookup();
	test_gone();
	test_promoted();
	test_budget();
	test_damage();
	fake_kernel_destroy(&fake);
	return tap_done();
}
