/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <string.h>

#include "guest-symbols/image/mcount.h"
#include "introspect/kernel/identify.h"
#include "tests/lib/fake-running.h"
#include "tests/lib/tap.h"

#define CR3_USER (1ull << 12)

static struct fake_running running;

static int identify(struct kernel_identity *out, struct error *err)
{
	return kernel_identify(dump_guest(running.fake.dump), &running.sregs, 1, out, err);
}

static int check(const struct kernel_image *image, struct kernel *out, struct error *err)
{
	return kernel_check(dump_guest(running.fake.dump), image, &running.sregs, 1, out, err);
}

static void test_image(const struct kernel_image *image, enum fake_kallsyms_layout layout)
{
	const struct symbol *kfree = symbols_find(image->symbols, "kfree");
	const struct symbol *percpu = symbols_find(image->symbols, "percpu_variable");

	is_str(image->banner, running.fake.image.banner, "banner");
	ok(image->build_id_size == 20 && !memcmp(image->build_id, FAKE_BUILD_ID, 20), "build id");
	is_str(image->symbol_source, "kallsyms in memory", "where the symbols are from");
	is_u64(image->text, FAKE_LINK_TEXT, "text, at its link address");
	is_u64(image->end, FAKE_LINK_TEXT + FAKE_IMAGE_SIZE, "end");
	is_u64(kfree ? kfree->address : 0, FAKE_LINK_TEXT + FAKE_FUNCTIONS + FAKE_FUNCTION_SIZE,
	       "a symbol");
	is_u64(kfree ? kfree->size : 0, FAKE_FUNCTION_SIZE, "and its size");
	ok(!percpu == (layout > FAKE_KALLSYMS_6_4), "per-CPU variables");
	if (percpu) {
		is_u64(percpu->address, 64, "the offset of a per-CPU variable is not moved");
		is_u64(percpu->size, FAKE_LINK_TEXT - 64, "and reaches up to the text");
	}
	ok(image->btf && btf_struct_size(image->btf, "ftrace_page") == FAKE_FTRACE_PAGE_SIZE,
	   "BTF");
}

static void test_sites(const struct kernel_image *image)
{
	unsigned int wrong = 0;

	is_u64(image->nr_mcount_sites, FAKE_NR_SITES, "sites, without a module's");
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

	if (!ok(!fake_running_create(&running, layout, levels), "kallsyms %d, %u levels", layout,
		levels))
		return;
	if (ok(!identify(&found, &err), "found (%s)", err.text)) {
		is_u64(found.kernel.virt_slide, FAKE_SLIDE, "slide");
		ok(!found.slide_assumed, "known from vmcoreinfo");
		is_u64(found.kernel.phys_text, FAKE_PHYS_TEXT, "guest-physical place");
		ok(found.kernel.confirmed, "confirmed");
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
	ok(!kernel_identify(dump_guest(running.fake.dump), vcpus, 3, &found, NULL),
	   "one vCPU in user mode is enough, its tables without the kernel");
	is_u64(found.vcpu, 2, "and named");
	kernel_image_destroy(found.image);
	is_u64((uint64_t)-kernel_identify(dump_guest(running.fake.dump), vcpus, 2, &found, NULL),
	       ENOENT, "the other two know of no kernel");
	fake_running_destroy(&running);
}

/* What may be wrong with a guest, and what is said of it. */
static void test_damaged(void)
{
	static const struct {
		const char *what, *text;
		uint64_t gpa, value;
		int code;
	} cases[] = {
		{"not mapped", "no vCPU is in a Linux kernel",
		 FAKE_PHYS_TEXT + FAKE_TABLES + 510 * 8, 0, ENOENT},
		{"no banner", "is not Linux", FAKE_PHYS_TEXT + FAKE_BANNER, 0, ENOENT},
		{"no kallsyms", "no kallsyms", FAKE_PHYS_TEXT + FAKE_KALLSYMS_AT, 0, ENOENT},
		{"no BTF", "BTF", FAKE_PHYS_TEXT + FAKE_BTF_AT, 0, EBADMSG},
		{"ftrace not initialised", "not set up its mcount sites yet",
		 FAKE_PHYS_TEXT + FAKE_FTRACE_START, 0, EAGAIN},
		{"ftrace's list lies nowhere", "not a mapped kernel address",
		 FAKE_PHYS_TEXT + FAKE_FTRACE_START, 0xffff800000000000, EFAULT},
		{"ftrace's list has no end", "endless", FAKE_FTRACE_PAGES + FAKE_FTRACE_NEXT,
		 FAKE_PAGE_OFFSET + FAKE_FTRACE_PAGES, EBADMSG},
		{"a negative number of records", "damaged", FAKE_FTRACE_PAGES + FAKE_FTRACE_INDEX,
		 0xffffffff, EBADMSG},
		{"an absurd number of records", "too many", FAKE_FTRACE_PAGES + FAKE_FTRACE_INDEX,
		 0x7fffffff, EBADMSG},
		{"records lie nowhere", "not a mapped kernel address",
		 FAKE_FTRACE_PAGES + FAKE_FTRACE_RECORDS, 0x1000, EFAULT},
		{"no sites of the kernel's own", "empty", FAKE_FTRACE_PAGES + FAKE_FTRACE_INDEX, 0,
		 ENOTSUP},
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
		ok(strstr(err.text, cases[i].text), "says so: %s", err.text);
		fake_running_destroy(&running);
	}
}

/* Without vmcoreinfo, or with nonsense in it, the usual link address is assumed. */
static void test_slide(void)
{
	static const char *const infos[] = {"PAGESIZE=4096\n", "X\nKERNELOFFSET=123\n",
					    "X\nKERNELOFFSET=fffffffff00000\n"};
	struct kernel_identity found;

	for (size_t i = 0; i < sizeof(infos) / sizeof(infos[0]); i++) {
		fake_running_create(&running, FAKE_KALLSYMS_7_0, 5);
		strcpy((char *)running.fake.ram + FAKE_VMCOREINFO_GPA, infos[i]);
		if (ok(!identify(&found, NULL), "vmcoreinfo %zu", i)) {
			ok(found.slide_assumed, "the slide is assumed");
			is_u64(found.kernel.virt_slide, FAKE_SLIDE, "and right");
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
	   "the kernel of that file runs");
	image.build_id[3] ^= 1;
	ok(check(&image, &k, &err) == -EAGAIN, "another build of it: %s", err.text);
	memset(banner, 0, 128);
	ok(check(&image, &k, &err) == -ENOENT, "no banner: %s", err.text);
	memcpy(banner + 64, other, sizeof(other) - 2);
	banner[64 + sizeof(other) - 2] = 'x';
	ok(check(&image, &k, &err) == -ENOENT, "a line of the kernel's log is no banner");
	memcpy(banner + 64, other, sizeof(other));
	ok(check(&image, &k, &err) == -ESTALE && strstr(err.text, "5.4.0-other"),
	   "another kernel: %s", err.text);
	running.sregs.cr0 = 0;
	ok(check(&image, &k, &err) == -ENOENT, "no vCPU in a kernel: %s", err.text);
	fake_running_destroy(&running);
}

int main(void)
{
	for (int layout = 0; layout < FAKE_KALLSYMS_LAYOUTS; layout++)
		test_found((enum fake_kallsyms_layout)layout, 4 + (unsigned int)layout % 2);
	test_vcpus();
	test_damaged();
	test_slide();
	test_file();
	return tap_done();
}
