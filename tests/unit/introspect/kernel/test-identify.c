/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "guest-symbols/image/mcount.h"
#include "introspect/kernel/identify.h"
#include "tests/lib/fake-running.h"
#include "tests/lib/tap.h"

#define CR3_USER (1ull << 12)

static struct fake_running running;

static int identify(struct kernel_identity *out, struct error *err)
{
	return kernel_identify(dump_guest(running.fake.dump), &running.sregs, 1, NULL, out, err);
}

static int check(const struct kernel_image *image, struct kernel *out, struct error *err)
{
	return kernel_check(dump_guest(running.fake.dump), image, &running.sregs, 1, out, err);
}

static void test_image(const struct kernel_image *image, enum fake_kallsyms_layout layout)
{
	const struct symbol *kfree = symbols_find(image->symbols, "kfree");
	const struct symbol *percpu = symbols_find(image->symbols, "percpu_variable");

	is_str(image->banner, running.fake.image.banner, "the image has the banner");
	ok(image->build_id_size == 20 && !memcmp(image->build_id, FAKE_BUILD_ID, 20),
	   "the image has the build id");
	is_str(image->symbol_source, "kallsyms in memory",
	       "the image says where its symbols come from");
	is_u64(image->text, FAKE_LINK_TEXT, "the text begins at its link address");
	is_u64(image->end, FAKE_LINK_TEXT + FAKE_IMAGE_SIZE, "the image ends at its link address");
	is_u64(kfree ? kfree->address : 0, FAKE_LINK_TEXT + FAKE_FUNCTIONS + FAKE_FUNCTION_SIZE,
	       "a symbol has its link address");
	is_u64(kfree ? kfree->size : 0, FAKE_FUNCTION_SIZE, "a symbol has its size");
	ok(!percpu == (layout > FAKE_KALLSYMS_6_4),
	   "per-CPU variables are found where kallsyms has them");
	if (percpu) {
		is_u64(percpu->address, 64, "the offset of a per-CPU variable is not moved");
		is_u64(percpu->size, FAKE_LINK_TEXT - 64,
		       "a per-CPU variable reaches up to the text");
	}
	ok(image->btf && btf_struct_size(image->btf, "ftrace_page") == FAKE_FTRACE_PAGE_SIZE,
	   "the image has BTF");
}

static void test_sites(const struct kernel_image *image)
{
	unsigned int wrong = 0;

	is_u64(image->nr_mcount_sites, FAKE_NR_SITES, "the sites are read, without a module's");
	for (size_t i = 1; i < image->nr_mcount_sites; i++)
		wrong += image->mcount_sites[i] <= image->mcount_sites[i - 1];
	is_u64(wrong, 0, "the sites are sorted");
	for (unsigned int i = 0; i < FAKE_NR_FUNCTIONS; i++) {
		uint64_t function = FAKE_LINK_TEXT + FAKE_FUNCTIONS + i * FAKE_FUNCTION_SIZE;

		wrong += !site_in_range(image->mcount_sites, image->nr_mcount_sites, function,
					function + 1);
	}
	is_u64(wrong, 0, "each function has its site");
}

static void test_found(enum fake_kallsyms_layout layout, unsigned int levels)
{
	struct kernel_identity found;
	struct error err = {0};

	if (!ok(!fake_running_create(&running, layout, levels),
		"a kernel with kallsyms layout %d and %u levels runs", layout, levels))
		return;
	if (ok(!identify(&found, &err), "the kernel is identified (%s)", err.text)) {
		is_u64(found.kernel.virt_slide, FAKE_SLIDE, "the slide is found");
		ok(!found.slide_assumed, "the slide comes from vmcoreinfo");
		is_u64(found.kernel.phys_text, FAKE_PHYS_TEXT, "the guest-physical place is found");
		ok(found.kernel.confirmed, "the kernel is confirmed");
		test_image(found.image, layout);
		test_sites(found.image);
		kernel_image_destroy(found.image);
	}
	fake_running_destroy(&running);
}

static void test_vcpus(void)
{
	struct guest_sregs vcpus[3];
	struct kernel_identity found;

	fake_running_create(&running, FAKE_KALLSYMS_6_4, 4);
	for (unsigned int i = 0; i < 3; i++)
		vcpus[i] = running.sregs;
	vcpus[0].cr0 = 0;                /* in its firmware */
	vcpus[1].cr3 = FAKE_VMEMMAP_GPA; /* tables that are no tables */
	vcpus[2].cr3 |= CR3_USER | 1ull << 63 | 5;
	ok(!kernel_identify(dump_guest(running.fake.dump), vcpus, 3, NULL, &found, NULL),
	   "one vCPU in user mode, without the kernel in its tables, is enough");
	is_u64(found.vcpu, 2, "that vCPU is named");
	kernel_image_destroy(found.image);
	is_u64((uint64_t)-kernel_identify(dump_guest(running.fake.dump), vcpus, 2, NULL, &found,
					  NULL),
	       ENOENT, "vCPUs in firmware or with broken tables find no kernel");
	fake_running_destroy(&running);
}

/* It is armed: its INT3 stands in the text. */
static void put_kprobe(uint64_t gpa, uint64_t offset)
{
	fake_put64(&running.fake, FAKE_PHYS_TEXT + FAKE_RUNNING_KPROBES, fake_direct(gpa));
	fake_put64(&running.fake, gpa + FAKE_RUNNING_KPROBE_ADDR,
		   FAKE_LINK_TEXT + FAKE_SLIDE + offset);
	running.fake.ram[gpa + FAKE_RUNNING_KPROBE_OPCODE] =
		running.fake.ram[FAKE_PHYS_TEXT + offset];
	running.fake.ram[FAKE_PHYS_TEXT + offset] = 0xcc;
}

static void test_kprobe(void)
{
	const uint64_t place = FAKE_FUNCTIONS + 8;
	struct kernel_identity found;
	uint8_t original;

	fake_running_create(&running, FAKE_KALLSYMS_6_4, 4);
	original = running.fake.ram[FAKE_PHYS_TEXT + place];
	put_kprobe(FAKE_VMCOREINFO_GPA + 0x800, place);
	if (identify(&found, NULL))
		abort();
	ok(*kernel_image_bytes(found.image, FAKE_LINK_TEXT + place, 1) == original,
	   "the image has the instruction that a kprobe hides");
	kernel_image_destroy(found.image);
	fake_running_destroy(&running);
}

/* What may be wrong with a guest, and the error for it. */
static void test_damaged(void)
{
	static const struct {
		const char *what, *text;
		uint64_t gpa, value;
		int code;
	} cases[] = {
		{"a kernel that is not mapped is refused", "no vCPU is in a Linux kernel",
		 FAKE_PHYS_TEXT + FAKE_TABLES + 510 * 8, 0, ENOENT},
		{"a kernel without a banner is refused", "is not Linux",
		 FAKE_PHYS_TEXT + FAKE_BANNER, 0, ENOENT},
		{"a kernel with no kallsyms is refused", "no kallsyms",
		 FAKE_PHYS_TEXT + FAKE_KALLSYMS_AT, 0, ENOENT},
		{"a kernel without BTF is refused", "BTF", FAKE_PHYS_TEXT + FAKE_BTF_AT, 0,
		 EBADMSG},
		{"before ftrace_init() identifying fails", "not set up its mcount sites yet",
		 FAKE_PHYS_TEXT + FAKE_FTRACE_START, 0, EAGAIN},
		{"a list of sites that is not mapped is refused", "not a mapped kernel address",
		 FAKE_PHYS_TEXT + FAKE_FTRACE_START, 0xffff800000000000, EFAULT},
		{"an endless list of sites is refused", "endless",
		 FAKE_FTRACE_PAGES + FAKE_FTRACE_NEXT, FAKE_PAGE_OFFSET + FAKE_FTRACE_PAGES,
		 EBADMSG},
		{"a negative number of sites is refused", "damaged",
		 FAKE_FTRACE_PAGES + FAKE_FTRACE_INDEX, 0xffffffff, EBADMSG},
		{"an absurd number of sites is refused", "too many",
		 FAKE_FTRACE_PAGES + FAKE_FTRACE_INDEX, 0x7fffffff, EBADMSG},
		{"sites that are not mapped are refused", "not a mapped kernel address",
		 FAKE_FTRACE_PAGES + FAKE_FTRACE_RECORDS, 0x1000, EFAULT},
		{"a list without sites of the kernel is refused", "empty",
		 FAKE_FTRACE_PAGES + FAKE_FTRACE_INDEX, 0, ENOTSUP},
	};
	struct kernel_identity found;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct error err = {0};
		struct fake_kernel *fake = &running.fake;

		fake_running_create(&running, FAKE_KALLSYMS_6_4, 4);
		if (cases[i].code == ENOTSUP)
			fake_put64(fake, FAKE_FTRACE_PAGES + FAKE_FTRACE_NEXT, 0);
		if (strstr(cases[i].what, "no kallsyms"))
			memset(fake->ram + cases[i].gpa, 0, running.kallsyms_size);
		fake_put64(fake, cases[i].gpa, cases[i].value);
		is_u64((uint64_t)-identify(&found, &err), (uint64_t)cases[i].code, cases[i].what);
		ok(strstr(err.text, cases[i].text), "the error says why: %s", err.text);
		fake_running_destroy(&running);
	}
}

enum { MIB = 1 << 20, FAR = 130 * MIB, PIECE = 2 * MIB, PMD = FAKE_TABLES + 0x1000 };

/* Map a kernel of 132 MiB, with its banner near its end. */
static void put_large(struct fake_kernel *fake, uint8_t *end)
{
	const uint64_t text = FAKE_LINK_TEXT + FAKE_SLIDE, entry = (text + FAR) >> 21 & 511;

	memcpy(end, fake->ram + FAKE_PHYS_TEXT + FAKE_BANNER, 256);
	fake_put64(fake, FAKE_PHYS_TEXT + FAKE_BANNER, 0);
	fake_put64(fake, FAKE_PHYS_TEXT + PMD + entry * 8, (FAKE_PHYS_TEXT + FAR) | 0x83);
	if (dump_guest_add_buffer(fake->dump, FAKE_PHYS_TEXT + FAR, end, PIECE, DUMP_MAPPED, NULL))
		abort();
}

/* Kernels in which everything is built in, with sanitizers, have 160 MiB of text. */
static void test_large(void)
{
	struct error err = {0};
	struct kernel_identity found;
	struct budget budget;
	uint8_t *end = calloc(1, PIECE);

	fake_running_create(&running, FAKE_KALLSYMS_6_4, 4);
	put_large(&running.fake, end);
	identify(&found, &err);
	ok(!strstr(err.text, "is not Linux"), "a kernel of 132 MiB is read to its end: %s",
	   err.text);
	is_u64(found.mapping.size, FAR + PIECE, "it has the size that is mapped");
	kernel_image_destroy(found.image);
	budget_init(&budget, 101 * MIB);
	dump_guest(running.fake.dump)->budget = &budget;
	is_u64((uint64_t)-identify(&found, &err), ENOENT,
	       "what the guest's budget has no room for is cut off");
	is_str(err.text,
	       "the first 100 of 132 MiB were read: what is mapped where Linux has its kernel is "
	       "not Linux",
	       "the error says so");
	is_u64(budget.used, 0, "the budget gets it back");
	dump_guest(running.fake.dump)->budget = NULL;
	fake_running_destroy(&running);
	free(end);
}

/* Modules' sites, too, as the guest has them. */
static void test_all_sites(void)
{
	struct kernel_identity found;
	struct address_list sites;
	bool sorted = true;

	fake_running_create(&running, FAKE_KALLSYMS_6_4, 4);
	identify(&found, NULL);
	ok(!ftrace_sites_read_all(&found.kernel, &sites, NULL), "all sites are read");
	is_u64(sites.n, FAKE_NR_SITES + 1, "with that of a module");
	for (size_t i = 1; i < sites.n; i++)
		sorted &= sites.v[i - 1] < sites.v[i];
	ok(sorted && sites.n && !kernel_in_image(&found.kernel, sites.v[sites.n - 1]),
	   "in the order of their addresses");
	address_list_deinit(&sites);
	kernel_image_destroy(found.image);
	fake_running_destroy(&running);
}

static bool changes(const struct kernel *kernel, const struct ftrace_census *before, size_t modules)
{
	struct ftrace_census now;
	bool changed;

	if (ftrace_census_take(&now, kernel, NULL))
		return false;
	changed = !ftrace_census_is_same(before, &now) && now.modules.n == modules;
	ftrace_census_deinit(&now);
	return changed;
}

/* A guest that says that it has a million sites. */
static void test_sites_budget(void)
{
	struct kernel_identity found;
	struct ftrace_census census;
	struct address_list sites;
	struct budget budget;

	fake_running_create(&running, FAKE_KALLSYMS_6_4, 4);
	identify(&found, NULL);
	found.kernel.guest->budget = &budget;
	budget_init(&budget, 64);
	ok(ftrace_sites_read_all(&found.kernel, &sites, NULL) == -ENOMEM &&
		   ftrace_census_take(&census, &found.kernel, NULL) == -ENOMEM && !budget.used,
	   "sites that do not fit into the guest's budget are refused");
	budget_init(&budget, 64 << 10);
	ok(!ftrace_sites_read_all(&found.kernel, &sites, NULL) && budget.used,
	   "others are part of it");
	address_list_deinit(&sites);
	ok(!budget.used && !ftrace_census_take(&census, &found.kernel, NULL) && budget.used,
	   "as is a census");
	ftrace_census_deinit(&census);
	is_u64(budget.used, 0, "all is given back");
	found.kernel.guest->budget = NULL;
	kernel_image_destroy(found.image);
	fake_running_destroy(&running);
}

/* Modules come and go, and init text is freed. */
static void test_census(void)
{
	const uint64_t module = FAKE_RECORDS_2, disabled = UINT64_C(1) << 25;
	struct ftrace_census before, again;
	struct kernel_identity found;
	struct fake_kernel *fake = &running.fake;
	struct address_list sites;
	uint64_t ip;

	fake_running_create(&running, FAKE_KALLSYMS_6_4, 4);
	identify(&found, NULL);
	ok(!ftrace_census_take(&before, &found.kernel, NULL) &&
		   !ftrace_census_take(&again, &found.kernel, NULL) &&
		   ftrace_census_is_same(&before, &again),
	   "a census of the same guest is the same");
	ok(before.modules.n == 1 && before.in_image == FAKE_NR_SITES,
	   "it lists the modules' sites, and counts the image's");
	memcpy(&ip, fake->ram + module, sizeof(ip));
	fake_put64(fake, module + 8, disabled);
	ok(changes(&found.kernel, &before, 0), "a module that is being loaded is not there");
	ok(!ftrace_sites_read_all(&found.kernel, &sites, NULL) && sites.n == FAKE_NR_SITES,
	   "nor are its sites among all");
	address_list_deinit(&sites);
	fake_put64(fake, module + 8, 0);
	fake_put64(fake, module, ip + 64);
	ok(changes(&found.kernel, &before, 1), "another module in its place is another census");
	fake_put64(fake, module, ip);
	*(uint32_t *)(void *)(fake->ram + FAKE_FTRACE_PAGES + FAKE_FTRACE_INDEX) -= 1;
	ok(changes(&found.kernel, &before, 1), "a function that is freed is missing");
	ftrace_census_deinit(&before);
	ftrace_census_deinit(&again);
	kernel_image_destroy(found.image);
	fake_running_destroy(&running);
}

/* Without vmcoreinfo, or with an invalid one, the usual link address is assumed. */
static void test_slide(void)
{
	static const char *const infos[] = {"PAGESIZE=4096\n", "X\nKERNELOFFSET=123\n",
					    "X\nKERNELOFFSET=fffffffff00000\n"};
	struct kernel_identity found;

	for (size_t i = 0; i < sizeof(infos) / sizeof(infos[0]); i++) {
		fake_running_create(&running, FAKE_KALLSYMS_7_0, 5);
		strcpy((char *)running.fake.ram + FAKE_VMCOREINFO_GPA, infos[i]);
		if (ok(!identify(&found, NULL),
		       "without a valid vmcoreinfo (%zu) the kernel is identified", i)) {
			ok(found.slide_assumed, "without a valid vmcoreinfo the slide is assumed");
			is_u64(found.kernel.virt_slide, FAKE_SLIDE, "the assumed slide is right");
			kernel_image_destroy(found.image);
		}
		fake_running_destroy(&running);
	}
}

static void test_file(void)
{
	static const char other[] = "Linux version 5.4.0-other (me@there) #2 SMP\n";
	struct kernel_image image;
	struct kernel k;
	struct error err = {0};
	uint8_t *banner;

	fake_running_create(&running, FAKE_KALLSYMS_6_4, 4);
	image = running.fake.image;
	banner = running.fake.ram + FAKE_PHYS_TEXT + FAKE_BANNER;
	ok(!check(&image, &k, NULL) && k.virt_slide == FAKE_SLIDE && k.phys_text == FAKE_PHYS_TEXT,
	   "the kernel of a file is found to run");
	image.build_id[3] ^= 1;
	ok(check(&image, &k, &err) == -EAGAIN, "another build of the same version is refused: %s",
	   err.text);
	memset(banner, 0, 128);
	ok(check(&image, &k, &err) == -ENOENT, "memory without a banner is refused: %s", err.text);
	memcpy(banner + 64, other, sizeof(other) - 2);
	banner[64 + sizeof(other) - 2] = 'x';
	ok(check(&image, &k, &err) == -ENOENT, "a line of the kernel's log is no banner");
	memcpy(banner + 64, other, sizeof(other));
	ok(check(&image, &k, &err) == -ESTALE && strstr(err.text, "5.4.0-other"),
	   "another kernel is refused: %s", err.text);
	running.sregs.cr0 = 0;
	ok(check(&image, &k, &err) == -ENOENT, "a guest in its firmware is refused: %s", err.text);
	fake_running_destroy(&running);
}

int main(void)
{
	for (int layout = 0; layout < FAKE_KALLSYMS_LAYOUTS; layout++)
		test_found((enum fake_kallsyms_layout)layout, 4 + (unsigned int)layout % 2);
	test_vcpus();
	test_kprobe();
	test_damaged();
	test_large();
	test_slide();
	test_file();
	test_all_sites();
	test_census();
	test_sites_budget();
	return tap_done();
}
