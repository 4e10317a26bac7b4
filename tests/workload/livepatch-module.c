// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A livepatch (tests/testbed/build-module): kmem_cache_alloc() becomes a function that lets
 * kmem_cache_alloc_node() do the same. /sys/kernel/livepatch/livepatch/enabled takes it back, after
 * which the module can be unloaded.
 *
 * There are no headers of the kernel: the structs of its include/linux/livepatch.h are those of
 * Linux 5.5 and later as far as a livepatch fills them in. The rest is zeros for the kernel's own
 * use, which also end its arrays, as its structs are smaller than these.
 */
#include <stddef.h>

#define WEAK __attribute__((weak))

enum { NO_NODE = -1, OWN = 1024 };

struct klp_func {
	const char *old_name;
	void *new_func;
	unsigned long old_sympos;
	char own[OWN];
};

struct klp_object {
	const char *name; /* NULL: the kernel itself */
	struct klp_func *funcs;
	void *callbacks[4];
	char own[OWN];
};

struct klp_patch {
	void *mod;
	struct klp_object *objs;
	void *states;
	_Bool replace;
	char own[OWN];
};

int klp_enable_patch(struct klp_patch *patch);
WEAK void *kmem_cache_alloc_node(void *cache, unsigned int gfp, int node);
WEAK void *kmem_cache_alloc_node_noprof(void *cache, unsigned int gfp, int node); /* since 6.10 */

extern char own_module[];

static void *alloc(void *cache, unsigned int gfp)
{
	return kmem_cache_alloc_node ? kmem_cache_alloc_node(cache, gfp, NO_NODE)
				     : kmem_cache_alloc_node_noprof(cache, gfp, NO_NODE);
}

static struct klp_func func = {.new_func = alloc};
static struct klp_object object = {.funcs = &func};
static struct klp_patch patch = {.mod = own_module, .objs = &object};

int init_module(void)
{
	func.old_name = kmem_cache_alloc_node ? "kmem_cache_alloc" : "kmem_cache_alloc_noprof";
	return klp_enable_patch(&patch);
}

void cleanup_module(void)
{
}

/* struct module: as in pages-module.c. */
__asm__(".section .gnu.linkonce.this_module, \"aw\", @progbits\n"
	".balign 64\n"
	"own_module:\n"
	".org 24\n"
	".asciz \"livepatch\"\n"
	".org " MODULE_INIT "\n"
	".quad init_module\n"
	".org " MODULE_EXIT "\n"
	".quad cleanup_module\n"
	".org " MODULE_SIZE "\n"
	".section .modinfo, \"a\", @progbits\n"
	".asciz \"license=GPL\"\n"
	".asciz \"name=livepatch\"\n"
	".asciz \"livepatch=Y\"\n"
	".asciz \"retpoline=Y\"\n"
	".asciz \"vermagic=" MODULE_VERMAGIC "\"\n"
	".text\n");
