/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The functions that probes of real Debian kernels mean. Needs tests/testbed/fetch-kernel to have
 * run; $KERNELS_DIR names another directory.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "guest-symbols/image/kernel-image.h"
#include "patcher/tracers/probe/probe.h"
#include "tests/lib/fetched-kernel.h"
#include "tests/lib/tap.h"

enum { SLIDE = 0x1000000 };

static int find(const struct kernel *kernel, const char *definition, struct fetch_probe *probe,
		struct probe_place *place, struct error *err)
{
	*err = (struct error){0};
	if (fetch_parse(definition, probe, err))
		abort();
	return probe_find_place(probe, kernel, place, err);
}

/* KIND, _text+OFFSET of an address, and arguments. */
static const char *from_text(const struct kernel *kernel, char kind, uint64_t link,
			     const char *args)
{
	static char definition[100];

	snprintf(definition, sizeof(definition), "%c:x _text+%#" PRIx64 " %s", kind,
		 link - symbols_address(kernel->image->symbols, "_text"), args);
	return definition;
}

/* As `perf probe` writes places. */
static void test_text(const struct kernel *kernel)
{
	const uint64_t link = symbols_address(kernel->image->symbols, "vfs_read");
	struct fetch_probe probe, named;
	struct probe_place place, inside;
	struct error err;
	char definition[100];

	ok(!find(kernel, from_text(kernel, 'p', link, "file"), &probe, &place, &err) &&
		   place.function == link + SLIDE && !place.inside &&
		   !strcmp(place.name, "vfs_read"),
	   "a function by its distance from _text: %s", err.text);
	ok(!find(kernel, from_text(kernel, 'r', link, "$retval"), &probe, &place, &err) &&
		   place.function == link + SLIDE,
	   "its returns: %s", err.text);
	ok(find(kernel, from_text(kernel, 'r', link + 7, "$retval"), &probe, &place, &err) ==
			   -ENOTSUP &&
		   strstr(err.text, "a probe of returns has no offset: vfs_read+0x7"),
	   "which begin where it does: %s", err.text);
	/* the first of its instructions that can be probed */
	for (unsigned int i = 6; i < 100; i++) {
		snprintf(definition, sizeof(definition), "p vfs_read+%u %%di", i);
		if (!find(kernel, definition, &named, &inside, &err))
			break;
	}
	ok(inside.inside &&
		   !find(kernel, from_text(kernel, 'p', inside.inside - SLIDE, "%ax"), &probe,
			 &place, &err) &&
		   place.inside == inside.inside && probe.inside && probe.offset == named.offset,
	   "an instruction of it: %s", err.text);
}

/* The place that a message proposes as `_text+0x...`. */
static uint64_t proposed(const struct kernel *kernel, const struct error *err)
{
	const char *at = strstr(err->text, "_text+");

	return at ? symbols_address(kernel->image->symbols, "_text") +
			       strtoull(at + strlen("_text+"), NULL, 0)
		  : 0;
}

static void test_namesakes(const struct kernel *kernel)
{
	struct fetch_probe probe;
	struct probe_place place;
	struct error err;
	uint64_t link;

	ok(find(kernel, "p type_show %di", &probe, &place, &err) == -EADDRNOTAVAIL &&
		   strstr(err.text, "functions have the name 'type_show': give one as _text+0x") &&
		   strstr(err.text, " ..."),
	   "a name that several functions have is refused: %s", err.text);
	link = proposed(kernel, &err);
	ok(!find(kernel, from_text(kernel, 'p', link, "%di $arg2"), &probe, &place, &err) &&
		   place.function == link + SLIDE && !strcmp(place.name, "type_show"),
	   "what the message says is one of them: %s", err.text);
	ok(find(kernel, from_text(kernel, 'p', link, "$arg*"), &probe, &place, &err) ==
			   -EADDRNOTAVAIL &&
		   strstr(err.text, "which one its types are of is not known"),
	   "its parameters could be those of another one: %s", err.text);
}

static void test_wrong(const struct kernel *kernel)
{
	struct fetch_probe probe;
	struct probe_place place;
	struct error err;

	ok(find(kernel, "p _text %di", &probe, &place, &err) == -ENOTSUP &&
		   strstr(err.text, "'_text' cannot be probed"),
	   "_text itself is no function: %s", err.text);
	ok(find(kernel, "p _text+0x7fffffff %di", &probe, &place, &err),
	   "nor is what lies behind the text: %s", err.text);
	ok(find(kernel, "p init_task+8 %di", &probe, &place, &err) == -ENOTSUP &&
		   strstr(err.text, "'init_task' cannot be probed"),
	   "or in data: %s", err.text);
}

static void test_kernel(const struct kernel_image *image, const char *version)
{
	const struct kernel kernel = {.virt_slide = SLIDE, .image = image};

	tap_diag("%s", version);
	test_text(&kernel);
	test_namesakes(&kernel);
	test_wrong(&kernel);
}

int main(void)
{
	static const char *const versions[] = {"5.10", "6.1", "6.12", NULL};

	return fetched_kernels_test(versions, test_kernel);
}
