// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A kernel module (tests/testbed/build-module) with a leak: take_object() allocates often, its
 * objects are soon freed in the order in which they came, but each 1,000th is forgotten. Loading it
 * never ends. There are no headers of the kernel: what it calls is declared here.
 */
#include <stddef.h>

enum { GFP_KERNEL = 0xcc0, SIZE = 160, LIVE = 32, BATCH = 100, PAUSE_MS = 20, LEAKS_ONE_OF = 1000 };

#define WEAK __attribute__((weak))

WEAK void *__kmalloc(unsigned long size, unsigned int gfp);
WEAK void *__kmalloc_noprof(unsigned long size, unsigned int gfp); /* since 6.10 */
void kfree(const void *object);
void msleep(unsigned int ms);

static void *objects[LIVE];
static unsigned long taken;

__attribute__((noinline)) static void *take_object(void)
{
	void *object = __kmalloc ? __kmalloc(SIZE, GFP_KERNEL) : __kmalloc_noprof(SIZE, GFP_KERNEL);

	/* The call must not become a jump: the call site is this function. */
	__asm__ volatile("" : "+r"(object));
	return object;
}

static void step(void)
{
	void **place = &objects[taken++ % LIVE];

	if (taken % LEAKS_ONE_OF)
		kfree(*place);
	*place = take_object();
}

int init_module(void)
{
	for (;;) {
		for (int i = 0; i < BATCH; i++)
			step();
		msleep(PAUSE_MS);
	}
}

/* struct module: its name comes behind a state and a list; the rest of the layout is from a module
 * of the kernel's own. */
__asm__(".section .gnu.linkonce.this_module, \"aw\", @progbits\n"
	".balign 64\n"
	".org 24\n"
	".asciz \"leak\"\n"
	".org " MODULE_INIT "\n"
	".quad init_module\n"
	".org " MODULE_SIZE "\n"
	".section .modinfo, \"a\", @progbits\n"
	".asciz \"license=GPL\"\n"
	".asciz \"name=leak\"\n"
	".asciz \"retpoline=Y\"\n"
	".asciz \"vermagic=" MODULE_VERMAGIC "\"\n"
	".text\n");
