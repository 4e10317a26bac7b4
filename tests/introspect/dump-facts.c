/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * dump-facts KERNEL MEMORY [CR0 CR3 CR4 EFER]... <QUERIES
 *
 * Prints what introspect/ finds in a memory dump of a guest; dump.t compares that with what the
 * guest and QEMU print. With MEMORY "none", RAM is as a decompressor leaves it that has just
 * written KERNEL. The command line has the control registers of each vCPU. Queries are read from
 * standard input, one per line: translate GVA, name GVA, object GVA, caches, tasks, stacks,
 * identify VCPU, prototype MODULE FUNCTION
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "introspect/guest/dump.h"
#include "introspect/kernel/identify.h"
#include "introspect/kernel/kernel.h"
#include "introspect/kernel/module-btf.h"
#include "introspect/kernel/modules.h"
#include "introspect/slab/slab.h"
#include "tests/introspect/identity-facts.h"

enum { MAX_LIST = 10000, MAX_FRAMES = 32 };

static struct kernel kernel;
static struct kernel_names *names;
static struct slab_view *view;

static uint32_t offset_of(const char *structure, const char *member)
{
	struct btf_field field;
	struct error err;

	if (btf_field(kernel.image->btf, structure, member, &field, &err)) {
		fprintf(stderr, "%s\n", err.text);
		exit(1);
	}
	return field.offset;
}

static uint64_t read64(uint64_t gva)
{
	struct error err;
	uint64_t value;

	if (kernel_read(&kernel, gva, &value, sizeof(value), &err)) {
		fprintf(stderr, "0x%" PRIx64 ": %s\n", gva, err.text);
		exit(1);
	}
	return value;
}

static void print_name(uint64_t gva)
{
	uint64_t start, size;
	char name[256];

	if (kernel_names_lookup(names, gva, name, sizeof(name), &start, &size))
		printf("%" PRIx64, gva);
	else
		printf("%s+0x%" PRIx64 "/0x%" PRIx64, name, gva - start, size);
}

static void do_translate(uint64_t gva)
{
	struct error err;
	uint64_t gpa;

	if (kernel_translate(&kernel, gva, &gpa, &err))
		printf("%" PRIx64 " error %d\n", gva, err.code);
	else
		printf("%" PRIx64 " %" PRIx64 "\n", gva, gpa);
}

static void do_object(uint64_t object)
{
	uint64_t cache, bytes;
	struct slab_cache info;
	struct error err;

	if (slab_of_object(view, object, &cache, &bytes, &err) ||
	    (cache && slab_cache_read(view, cache, &info, &err)))
		printf("%" PRIx64 " error %s\n", object, err.text);
	else if (cache)
		printf("%" PRIx64 " %" PRIu64 "\n", object, info.size);
	else
		printf("%" PRIx64 " %" PRIu64 "\n", object, bytes);
}

/* All caches, and for each struct kmem_cache, which is an object too, the cache it comes from. */
static void do_caches(void)
{
	uint32_t list = offset_of("kmem_cache", "list");
	uint64_t head = kernel_symbol(&kernel, "slab_caches"), link = read64(head);

	for (int i = 0; link != head && i < MAX_LIST; i++, link = read64(link)) {
		struct slab_cache cache, owner = {.name = "none"};
		uint64_t from = 0, bytes;
		struct error err;

		if (slab_cache_read(view, link - list, &cache, &err)) {
			printf("cache error %s\n", err.text);
			continue;
		}
		if (!slab_of_object(view, cache.address, &from, &bytes, NULL) && from)
			slab_cache_read(view, from, &owner, NULL);
		printf("%s %" PRIu64 " %" PRIu64 " %s\n", cache.name, cache.size, cache.object_size,
		       owner.name);
	}
}

static void print_task(uint64_t task, uint32_t pid)
{
	struct slab_cache cache = {.name = "none"};
	uint64_t from = 0, bytes;

	if (!slab_of_object(view, task, &from, &bytes, NULL) && from)
		slab_cache_read(view, from, &cache, NULL);
	printf("%u %s\n", pid, cache.name);
}

/*
 * Starts where a sleeping task was switched away (struct inactive_task_frame). __schedule() has a
 * frame pointer, so its caller is found through RBP. The frame of a running task is stale.
 */
static void print_stack(uint64_t task, uint32_t pid)
{
	uint64_t frame = read64(task + offset_of("task_struct", "thread.sp"));
	uint64_t bp = read64(frame + offset_of("inactive_task_frame", "bp"));
	uint64_t ip, sp = bp + 16;
	struct error err = {0};

	if (kernel_read(&kernel, bp + 8, &ip, sizeof(ip), NULL))
		return;
	for (int i = 0; i < MAX_FRAMES; i++) {
		printf("%u ", pid);
		print_name(ip);
		putchar('\n');
		if (orc_caller(&kernel, ip, sp, &ip, &sp, &err))
			break;
	}
	printf("%u end %s\n", pid, err.text);
}

static void for_each_task(void (*fn)(uint64_t task, uint32_t pid))
{
	uint32_t tasks = offset_of("task_struct", "tasks"),
		 pid_at = offset_of("task_struct", "pid");
	uint64_t head = kernel_symbol(&kernel, "init_task") + tasks, link = read64(head);

	for (int i = 0; link != head && i < MAX_LIST; i++, link = read64(link))
		fn(link - tasks, (uint32_t)read64(link - tasks + pid_at));
}

/* By the types that the guest's kernel keeps of the module. */
static void print_prototype(const char *line)
{
	char module[64] = "", function[128] = "";
	struct btf_prototype p = {.nr_params = 0};
	struct module_btf btf = {0};
	struct error err = {0};
	int ret;

	sscanf(line, "%*s %63s %127s", module, function);
	ret = module_btf_read(&kernel, module, &btf, &err);
	if (!ret)
		ret = btf_prototype(btf.types, function, &p, &err);
	printf("%s", ret ? err.text : function);
	for (unsigned int i = 0; i < p.nr_params; i++)
		printf(" %s:%s", p.params[i].name, p.params[i].type);
	putchar('\n');
	module_btf_deinit(&btf);
}

static void answer(const char *line)
{
	char verb[16] = "";
	uint64_t gva = 0;

	if (sscanf(line, "%15s %" SCNx64, verb, &gva) < 1)
		return;
	if (!strcmp(verb, "translate")) {
		do_translate(gva);
	} else if (!strcmp(verb, "name")) {
		printf("%" PRIx64 " ", gva);
		print_name(gva);
		putchar('\n');
	} else if (!strcmp(verb, "object")) {
		do_object(gva);
	} else if (!strcmp(verb, "caches")) {
		do_caches();
	} else if (!strcmp(verb, "tasks")) {
		for_each_task(print_task);
	} else if (!strcmp(verb, "stacks")) {
		for_each_task(print_stack);
	} else if (!strcmp(verb, "identify")) {
		print_identity(&kernel, (unsigned int)gva);
	} else if (!strcmp(verb, "prototype")) {
		print_prototype(line);
	}
}

static int load_image(const char *path, struct kernel_image **image, struct error *err)
{
	struct kernel_file *file;
	int ret = kernel_file_open(path, &file, err);

	if (ret)
		return ret;
	ret = kernel_image_load(file, NULL, image, err);
	kernel_file_close(file);
	return ret;
}

/* The image as the decompressor leaves it, at two addresses. Its page tables need not map it there.
 */
static int print_unstarted(const struct kernel_image *image, struct error *err)
{
	enum { RAM = 256 << 20 };
	static const uint64_t places[] = {16 << 20, 64 << 20};

	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
		uint8_t *ram = calloc(1, RAM);
		struct dump_guest *dump;
		int ret = dump_guest_create(1, &dump, err);

		if (!ret)
			ret = dump_guest_add_buffer(dump, 0, ram, RAM, DUMP_MAPPED, err);
		if (ret)
			return ret;
		memcpy(ram + places[i], image->init_bytes, image->init_size);
		ret = kernel_find(dump_guest(dump), image, &kernel, err);
		printf("unstarted %d %s\n", ret, err->text);
		dump_guest_destroy(dump);
		free(ram);
	}
	return 0;
}

static int open_dump(const char *path, char **registers, unsigned int nr_vcpus,
		     struct dump_guest **dump, struct error *err)
{
	const struct guest_regs regs = {0};
	int ret = dump_guest_create(nr_vcpus, dump, err);

	if (!ret)
		ret = dump_guest_add_file(*dump, 0, path, DUMP_MAPPED, err);
	for (unsigned int i = 0; !ret && i < nr_vcpus; i++) {
		struct guest_sregs sregs = {.cr0 = strtoull(registers[4 * i], NULL, 16),
					    .cr3 = strtoull(registers[4 * i + 1], NULL, 16),
					    .cr4 = strtoull(registers[4 * i + 2], NULL, 16),
					    .efer = strtoull(registers[4 * i + 3], NULL, 16)};

		ret = dump_guest_set_vcpu(*dump, i, &regs, &sregs, err);
	}
	return ret;
}

/* Which kernel runs instead, from the vCPUs' page tables. */
static void print_other(struct guest *guest, const struct kernel_image *image)
{
	enum { CHECKED_VCPUS = 16 };
	struct guest_sregs vcpus[CHECKED_VCPUS];
	struct error err = {0};
	int ret = guest->nr_vcpus <= CHECKED_VCPUS ? 0 : -EINVAL;

	for (unsigned int i = 0; !ret && i < guest->nr_vcpus; i++)
		ret = guest->control->get_sregs(guest, i, &vcpus[i], &err);
	if (!ret)
		ret = kernel_check(guest, image, vcpus, guest->nr_vcpus, &kernel, &err);
	printf("check %d %s\n", ret, err.text);
}

static int print_facts(struct dump_guest *dump, const struct kernel_image *image, struct error *err)
{
	struct guest *guest = dump_guest(dump);
	int ret = kernel_find(guest, image, &kernel, err);
	char line[256];

	printf("locate %d %s\n", ret, ret ? err->text : "");
	if (ret) {
		print_other(guest, image);
		return 0;
	}
	printf("text %" PRIx64 " %" PRIx64 "\n", kernel_symbol(&kernel, "_text"), kernel.phys_text);
	for (unsigned int i = 0; i < guest->nr_vcpus; i++) {
		bool maps = false;

		ret = kernel_cr3_maps_kernel(&kernel, i, &maps, err);
		printf("cr3 %u %s\n", i, ret ? err->text : maps ? "kernel" : "other");
	}
	ret = kernel_names_create(&kernel, &names, err);
	if (!ret)
		ret = slab_view_create(&kernel, &view, err);
	while (!ret && fgets(line, sizeof(line), stdin))
		answer(line);
	slab_view_destroy(view);
	kernel_names_destroy(names);
	return ret;
}

int main(int argc, char **argv)
{
	struct kernel_image *image = NULL;
	struct dump_guest *dump = NULL;
	struct error err = {0};
	int ret;

	if (argc < 3 || (argc - 3) % 4)
		return 2;
	ret = load_image(argv[1], &image, &err);
	if (!ret && !strcmp(argv[2], "none"))
		ret = print_unstarted(image, &err);
	else if (!ret)
		ret = open_dump(argv[2], argv + 3, (unsigned int)(argc - 3) / 4, &dump, &err);
	if (dump)
		ret = ret ? ret : print_facts(dump, image, &err);
	if (ret)
		fprintf(stderr, "dump-facts: %s\n", err.text);
	dump_guest_destroy(dump);
	kernel_image_destroy(image);
	return ret ? 1 : 0;
}
