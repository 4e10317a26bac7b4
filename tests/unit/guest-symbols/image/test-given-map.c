/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A System.map that is given: it must be that of the kernel. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "guest-symbols/image/kernel-image.h"
#include "tests/lib/fake-elf.h"
#include "tests/lib/fake-kallsyms.h"
#include "tests/lib/tap.h"

#define TEXT 0xffffffff81000000
enum {
	FUNCTIONS = 300,
	IMAGE = 1 << 16,
	BANNER_AT = 0x2000,
	KALLSYMS_AT = 0x3000,
	ROOM = IMAGE + 4096,
	NO_KALLSYMS = -1,
};

static char path[] = "/tmp/test-given-map.XXXXXX";
static uint8_t kernel[ROOM];
static size_t kernel_size;

/* Two of them have the name "twin". */
static void name_of(unsigned int i, char name[32])
{
	if (i == 0)
		strcpy(name, "_text");
	else if (i == 1)
		strcpy(name, "_stext");
	else if (i == 7 || i == 9)
		strcpy(name, "twin");
	else if (i == FUNCTIONS - 1)
		strcpy(name, "_etext");
	else
		snprintf(name, 32, "fn_%u", i);
}

static uint64_t address_of(unsigned int i)
{
	return i < 2 ? TEXT : TEXT + i * 16;
}

static void make_kernel(int layout)
{
	static struct fake_kallsyms_symbol symbols[FUNCTIONS];
	static uint8_t image[IMAGE];

	memset(image, 0, sizeof(image));
	strcpy((char *)image + BANNER_AT, "Linux version 6.1.0 (test)\n");
	for (unsigned int i = 0; i < FUNCTIONS; i++) {
		symbols[i].address = address_of(i);
		symbols[i].name[0] = 'T';
		name_of(i, symbols[i].name + 1);
	}
	if (layout != NO_KALLSYMS &&
	    !fake_kallsyms_of((enum fake_kallsyms_layout)layout, TEXT + KALLSYMS_AT, symbols,
			      FUNCTIONS, image + KALLSYMS_AT, IMAGE - KALLSYMS_AT))
		abort();
	kernel_size = fake_elf(TEXT, image, IMAGE, NULL, kernel, sizeof(kernel));
}

/* How a map differs from the kernel's own. */
struct change {
	unsigned int from, n;      /* so many functions, from this one on, lie 8 bytes further on */
	unsigned int omitted;      /* this one is not in the map; 0: none is */
	unsigned int banner_moved; /* bytes */
	const char *end;           /* the name of the last symbol; NULL: _end */
};

static void write_map(const struct change *change)
{
	FILE *file = fopen(path, "w");

	if (!file)
		abort();
	fprintf(file, "0000000000000000 D fn_5\n");
	for (unsigned int i = 0; i < FUNCTIONS; i++) {
		char name[32];

		name_of(i, name);
		if (!i || i != change->omitted)
			fprintf(file, "%lx T %s\n",
				(unsigned long)address_of(i) + 8 * (i - change->from < change->n),
				name);
	}
	fprintf(file, "%lx D linux_banner\n%lx B %s\n",
		(unsigned long)(TEXT + BANNER_AT + change->banner_moved),
		(unsigned long)(TEXT + IMAGE), change->end ? change->end : "_end");
	if (fclose(file))
		abort();
}

static int load(const struct change *change, struct error *err)
{
	struct kernel_given given;
	struct kernel_image *image;
	struct kernel_file *file;
	int ret;

	write_map(change);
	*err = (struct error){0};
	if (kernel_file_from_memory(kernel, kernel_size, &file, NULL))
		abort();
	ret = kernel_given_open(path, NULL, &given, err);
	if (!ret)
		ret = kernel_image_load(file, &given, &image, err);
	kernel_given_close(&given);
	kernel_file_close(file);
	if (!ret)
		kernel_image_destroy(image);
	return ret;
}

static void taken(const char *what, struct change change)
{
	struct error err;

	ok(!load(&change, &err), "%s is taken (%s)", what, err.text);
}

static void refused(const char *what, struct change change, int code, const char *text)
{
	struct error err;
	int ret = load(&change, &err);

	ok(ret == code && strstr(err.text, text) && strstr(err.text, path), "%s is refused: %s",
	   what, ret ? err.text : "it is not");
}

static void test_layout(enum fake_kallsyms_layout layout)
{
	make_kernel((int)layout);
	taken("the kernel's own map", (struct change){0});
	taken("one that lacks a function", (struct change){.omitted = 20});
	refused("one of another build", (struct change){.from = 100, .n = 200}, -ESTALE,
		": not the symbols of this kernel: it has 200 of 300 functions elsewhere");
	refused("one of another build that differs at the end",
		(struct change){.from = FUNCTIONS - 1, .n = 1}, -ESTALE,
		"it has 1 of 300 functions elsewhere");
	refused("one in which a function lies elsewhere whose name another has, too",
		(struct change){.from = 9, .n = 1}, -ESTALE, "it has 1 of 300 functions elsewhere");
}

int main(void)
{
	int fd = mkstemp(path);

	if (fd < 0)
		abort();
	close(fd);
	for (int layout = 0; layout < FAKE_KALLSYMS_LAYOUTS; layout++)
		test_layout((enum fake_kallsyms_layout)layout);
	make_kernel(NO_KALLSYMS);
	taken("a kernel without symbols: its own map", (struct change){0});
	refused("one whose banner is elsewhere", (struct change){.banner_moved = 32}, -ESTALE,
		": not the symbols of this kernel: its banner is not at their linux_banner");
	refused("one that lacks a symbol that is needed", (struct change){.end = "_other"}, -ENOENT,
		": no symbol _end");
	unlink(path);
	return tap_done();
}
