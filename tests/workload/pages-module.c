// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A kernel module (tests/testbed/build-module) that allocates pages as no system call does, when it
 * is loaded:
 *
 * - alloc_pages_exact() of sizes that are no power of two: the kernel frees the rest of a block at
 * once, and each page by itself later;
 * - bulk allocation into an array of which some entries are filled, not only the first ones: NFSD's
 * receive buffers are.
 *
 * Its loading ends with ECANCELED then, so that it is gone again; with another error, it could not
 * allocate. There are no headers of the kernel: what it calls is declared here, by the names of all
 * versions. Those that a kernel lacks are NULL.
 */
#include <errno.h>
#include <stddef.h>

#define WEAK __attribute__((weak))

enum { GFP_KERNEL = 0xcc0, PAGE = 4096, ENTRIES = 16, HOLES = 0x9182, ROUNDS = 20 };

struct page;

WEAK void *alloc_pages_exact(unsigned long size, unsigned int gfp);
WEAK void *alloc_pages_exact_noprof(unsigned long size, unsigned int gfp); /* since 6.10 */
void free_pages_exact(void *pages, unsigned long size);
void __free_pages(struct page *page, unsigned int order);

/* Linux 5.13 to 6.13 also take a list. */
#ifdef BULK_TAKES_LIST
#define LIST_PARAMETER void *list,
#define NO_LIST NULL,
#else
#define LIST_PARAMETER
#define NO_LIST
#endif
typedef unsigned long bulk_fn(unsigned int gfp, int node, void *nodemask, int count,
			      LIST_PARAMETER struct page **array);
WEAK bulk_fn __alloc_pages_bulk;
WEAK bulk_fn alloc_pages_bulk_noprof; /* since 6.10 */

static int use_exact(unsigned long size)
{
	void *pages = alloc_pages_exact ? alloc_pages_exact(size, GFP_KERNEL)
					: alloc_pages_exact_noprof(size, GFP_KERNEL);

	if (!pages)
		return -ENOMEM;
	free_pages_exact(pages, size);
	return 0;
}

/* Calls through pointers would need the kernel's thunks. Returns how many entries are filled. */
static unsigned long fill_some(struct page **array)
{
	return __alloc_pages_bulk
		       ? __alloc_pages_bulk(GFP_KERNEL, 0, NULL, ENTRIES, NO_LIST array)
		       : alloc_pages_bulk_noprof(GFP_KERNEL, 0, NULL, ENTRIES, NO_LIST array);
}

static int fill(struct page **array)
{
	int missing = 0;

	for (int tries = 0; tries < ENTRIES && fill_some(array) < ENTRIES; tries++)
		;
	for (int i = 0; i < ENTRIES; i++)
		missing += !array[i];
	return missing ? -ENOMEM : 0;
}

static void empty(struct page **array, unsigned int which)
{
	for (int i = 0; i < ENTRIES; i++) {
		if (!(which >> i & 1) || !array[i])
			continue;
		__free_pages(array[i], 0);
		array[i] = NULL;
	}
}

static int use_array(unsigned int holes)
{
	struct page *array[ENTRIES] = {NULL};
	int ret = fill(array);

	if (!ret) {
		empty(array, holes);
		ret = fill(array);
	}
	empty(array, ~0U);
	return ret;
}

int init_module(void)
{
	int ret = 0;

	for (unsigned int i = 0; !ret && i < ROUNDS; i++) {
		ret = use_exact((3 + i % 7) * PAGE + 1);
		if (!ret && (__alloc_pages_bulk || alloc_pages_bulk_noprof))
			ret = use_array(HOLES);
	}
	return ret ? ret : -ECANCELED;
}

/* struct module: its name comes behind a state and a list; the rest of the layout is from a module
 * of the kernel's own. */
__asm__(".section .gnu.linkonce.this_module, \"aw\", @progbits\n"
	".balign 64\n"
	".org 24\n"
	".asciz \"pages\"\n"
	".org " MODULE_INIT "\n"
	".quad init_module\n"
	".org " MODULE_SIZE "\n"
	".section .modinfo, \"a\", @progbits\n"
	".asciz \"license=GPL\"\n"
	".asciz \"name=pages\"\n"
	".asciz \"retpoline=Y\"\n"
	".asciz \"vermagic=" MODULE_VERMAGIC "\"\n"
	".text\n");
