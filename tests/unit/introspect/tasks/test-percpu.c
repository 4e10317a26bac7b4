/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Per-CPU variables of a fake kernel, in each layout that kernels have had, and those of real
 * kernels as their images have them before the first instruction ($KERNELS_DIR).
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "introspect/tasks/task-reader.h"
#include "introspect/guest/control.h"
#include "tests/lib/fake-btf.h"
#include "tests/lib/fake-kernel.h"
#include "tests/lib/fetched-kernel.h"
#include "tests/lib/tap.h"

enum {
	VCPUS = 3,
	AREA = 0x10000,    /* of one CPU */
	OFFSETS = 0x30000, /* __per_cpu_offset, an image offset */
	ONLINE_MASK = 0x30800,
	PERCPU = 0x40000, /* __per_cpu_start where variables are linked like others */
	CPU_NUMBER = 0x9158,
	CURRENT_TASK = 0xbc0,
	OWN_OFFSET = 0x9160,
	HOT = 0x5000,
	HOT_NUMBER = 12,
	TASKS = FAKE_HEAP_GPA + VCPUS * AREA,
	TASK_SIZE = 0x1000,
	PID = 0x98,
	COMM = 0x2b0,
	ON_CPU = 0x34,
	TGID = 0x9c,
	CGROUPS = 0x400,
	DFL_CGRP = 0x88,
	KN = 0x10,
	NODE_ID = 0x60,
	CGROUP = FAKE_HEAP_GPA + 0xf0000, /* of vCPU 1's task: css_set, cgroup, kernfs_node */
	PHYS_TEXT = 16 << 20,
	/* image offsets in a kernel for one CPU */
	ONLY_BASE = 0x30000,
	ONLY_ZEROES = 0x31000,
	ONLY_TASK = 0x2f000,
};

enum layout { ZERO_BASED, HOT_STRUCT, REAL_ADDRESSES };

static struct fake_kernel fake;
static struct dump_guest *dump; /* with VCPUS vCPUs */
static struct kernel kernel;

static uint64_t area_gpa(unsigned int cpu)
{
	return FAKE_HEAP_GPA + cpu * AREA;
}

static uint64_t task_gpa(unsigned int cpu)
{
	return TASKS + cpu * TASK_SIZE;
}

/* What GS of a CPU holds. */
static uint64_t gs_base(enum layout layout, unsigned int cpu)
{
	uint64_t start = layout == REAL_ADDRESSES ? FAKE_LINK_TEXT + FAKE_SLIDE + PERCPU : 0;

	return fake_direct(area_gpa(cpu)) - start;
}

static bool use_symbols(enum layout layout)
{
	uint64_t base = layout == REAL_ADDRESSES ? FAKE_LINK_TEXT + PERCPU : 0;
	char map[1024];
	int n = snprintf(map, sizeof(map),
			 "%016llx T _text\n%016llx D __per_cpu_offset\n%016llx D "
			 "this_cpu_off\n%016llx D init_top_pgt\n%016llx D __cpu_online_mask\n",
			 FAKE_LINK_TEXT, FAKE_LINK_TEXT + OFFSETS,
			 (unsigned long long)base + OWN_OFFSET, FAKE_LINK_TEXT + FAKE_INIT_TOP_PGT,
			 FAKE_LINK_TEXT + ONLINE_MASK);

	if (layout == HOT_STRUCT)
		n += snprintf(map + n, sizeof(map) - (size_t)n, "%016x A pcpu_hot\n", HOT);
	else
		n += snprintf(map + n, sizeof(map) - (size_t)n,
			      "%016llx A cpu_number\n%016llx A current_task\n",
			      (unsigned long long)base + CPU_NUMBER,
			      (unsigned long long)base + CURRENT_TASK);
	return !fake_kernel_set_symbols(&fake, map, (size_t)n);
}

static bool use_btf(uint32_t comm_bytes, bool has_cgroups)
{
	const struct fake_struct structs[] = {
		{"pcpu_hot",
		 64,
		 {{"current_task", 0, 8, 0, 0}, {"cpu_number", HOT_NUMBER, 4, 0, 0}}},
		{"task_struct",
		 TASK_SIZE,
		 {{"pid", PID, 4, 0, 0},
		  {"comm", COMM, comm_bytes, 0, 0},
		  {"on_cpu", ON_CPU, 4, 0, 0},
		  {"tgid", TGID, 4, 0, 0},
		  {"cgroups", CGROUPS, 8, 0, 0}}},
		{"css_set", 0x200, {{"dfl_cgrp", DFL_CGRP, 8, 0, 0}}},
		{"cgroup", 0x200, {{"kn", KN, 8, 0, 0}}},
		{has_cgroups ? "kernfs_node" : "other", 0x80, {{"id", NODE_ID, 8, 0, 0}}},
		{NULL, 0, {{NULL, 0, 0, 0, 0}}},
	};

	return !fake_kernel_set_structs(&fake, structs);
}

static void set_vcpu(unsigned int vcpu, bool started, uint64_t gs, uint64_t kernel_gs)
{
	struct guest_sregs sregs = {.gs_base = gs, .kernel_gs_base = kernel_gs};
	struct guest_regs regs = {0};

	if (started) {
		sregs.cr0 = CR0_PG;
		sregs.efer = EFER_LMA;
	}
	dump_guest_set_vcpu(dump, vcpu, &regs, &sregs, NULL);
}

/* One CPU's variables, and its vCPU in the kernel. */
static void put_cpu(enum layout layout, unsigned int cpu)
{
	uint64_t area = area_gpa(cpu), base = gs_base(layout, cpu);

	fake_put64(&fake, FAKE_PHYS_TEXT + OFFSETS + cpu * 8, base);
	fake_put64(&fake, area + OWN_OFFSET, base);
	if (layout == HOT_STRUCT) {
		fake_put32(&fake, area + HOT + HOT_NUMBER, cpu);
		fake_put64(&fake, area + HOT, fake_direct(task_gpa(cpu)));
	} else {
		fake_put32(&fake, area + CPU_NUMBER, cpu);
		fake_put64(&fake, area + CURRENT_TASK, fake_direct(task_gpa(cpu)));
	}
	fake_put32(&fake, task_gpa(cpu) + PID, 100 + cpu);
	memcpy(fake.ram + task_gpa(cpu) + COMM, "worker", 7);
	fake_put32(&fake, task_gpa(cpu) + ON_CPU, 1);
	set_vcpu(cpu, true, base, 0x7f0000001000ull);
}

static bool start(enum layout layout)
{
	if (!ok(!fake_kernel_create(&fake, FAKE_6_12, 4) && use_symbols(layout) &&
			use_btf(8, true) && !fake_kernel_set_vcpus(&fake, VCPUS),
		"a kernel is made"))
		return false;
	dump = fake.dump;
	for (unsigned int i = 0; i < VCPUS; i++)
		put_cpu(layout, i);
	kernel = fake.kernel;
	return true;
}

static void finish(void)
{
	fake_kernel_destroy(&fake);
}

static void test_layouts(void)
{
	static const char *const names[] = {"linked at 0", "in pcpu_hot", "linked like other data"};
	static const uint64_t numbers[] = {CPU_NUMBER, HOT + HOT_NUMBER,
					   FAKE_LINK_TEXT + FAKE_SLIDE + PERCPU + CPU_NUMBER};
	static const uint64_t tasks[] = {CURRENT_TASK, HOT,
					 FAKE_LINK_TEXT + FAKE_SLIDE + PERCPU + CURRENT_TASK};
	struct percpu_task task;
	int32_t number;

	for (enum layout layout = ZERO_BASED; layout <= REAL_ADDRESSES; layout++) {
		if (!start(layout))
			return;
		ok(!percpu_cpu_number(&kernel, &number, NULL), "the CPU number is found %s",
		   names[layout]);
		is_u64((uint64_t)number, numbers[layout], "the CPU number has its displacement");
		ok(!percpu_current_task(&kernel, &task, NULL), "the current task is found %s",
		   names[layout]);
		is_u64((uint64_t)task.displacement, tasks[layout],
		       "the current task has its displacement");
		ok(task.pid == PID && task.comm == COMM && task.comm_size == 8,
		   "the fields of a task have their offsets");
		finish();
	}
}

static int find_number(const char *want)
{
	struct error err = {0};
	int32_t number;
	int ret = percpu_cpu_number(&kernel, &number, &err);

	if (ret && !strstr(err.text, want))
		tap_diag("%s", err.text);
	return ret && !strstr(err.text, want) ? 1 : ret;
}

static int find_task(const char *want)
{
	struct percpu_task task;
	struct error err = {0};
	int ret = percpu_current_task(&kernel, &task, &err);

	if (ret && !strstr(err.text, want))
		tap_diag("%s", err.text);
	return ret && !strstr(err.text, want) ? 1 : ret;
}

static void test_vcpus(void)
{
	const uint64_t user = 0x7f0000002000ull;

	if (!start(ZERO_BASED))
		return;
	set_vcpu(1, true, user, gs_base(ZERO_BASED, 1));
	ok(!find_number(""), "a vCPU in user mode is recognised");
	set_vcpu(1, true, gs_base(ZERO_BASED, 0), gs_base(ZERO_BASED, 1));
	ok(!find_number(""), "a vCPU in user mode with another CPU's address in GS is recognised");
	set_vcpu(1, false, 0, 0);
	ok(!find_number(""), "a vCPU that was not started does not matter");
	set_vcpu(1, true, user, 0);
	percpu_forget_vcpus(&kernel);
	ok(find_number("vCPU 1 has not set up") == -EAGAIN,
	   "a vCPU that is being started is waited for");
	set_vcpu(1, true, gs_base(ZERO_BASED, 2), user);
	ok(find_number("calls vCPU 1 its CPU 2") == -ENOTSUP,
	   "a guest that numbers its CPUs otherwise is refused");
	for (unsigned int i = 0; i < VCPUS; i++)
		set_vcpu(i, false, 0, 0);
	ok(find_number("no vCPU runs") == -EAGAIN, "a guest without a started vCPU is waited for");
	finish();
}

/* Two vCPUs that run guests of their own: a stop mostly finds them in these. */
static void test_nested(void)
{
	const uint64_t user = 0x7f0000002000ull;

	if (!start(ZERO_BASED))
		return;
	fake_put64(&fake, FAKE_PHYS_TEXT + ONLINE_MASK, (1 << VCPUS) - 1);
	set_vcpu(0, true, user, 0);
	set_vcpu(1, true, user, 0);
	ok(find_number("vCPU 0 was not seen in this kernel: it is in a guest of its own") ==
		   -EAGAIN,
	   "a vCPU that is stopped in a guest of its own is waited for");
	set_vcpu(0, true, gs_base(ZERO_BASED, 0), user);
	ok(find_number("vCPU 1 was not seen") == -EAGAIN, "and so is the other one");
	set_vcpu(0, true, user, 0);
	set_vcpu(1, true, gs_base(ZERO_BASED, 1), user);
	ok(!find_number(""), "each has to be seen once, at any stop");
	set_vcpu(1, true, user, 0);
	ok(!find_task(""), "their tasks are found then, wherever they are");
	fake_put32(&fake, area_gpa(1) + CPU_NUMBER, 2);
	ok(find_number("vCPU 1 finds 2") == -EPROTO, "their variables are still checked");
	fake_put32(&fake, area_gpa(1) + CPU_NUMBER, 1);
	percpu_forget_vcpus(&kernel);
	ok(find_number("vCPU 0 was not seen") == -EAGAIN,
	   "when vCPUs may have changed each has to be seen again");
	finish();
}

static void test_wrong_memory(void)
{
	if (!start(ZERO_BASED))
		return;
	fake_put32(&fake, area_gpa(2) + CPU_NUMBER, 1);
	ok(find_number("vCPU 2 finds 1") == -EPROTO,
	   "a vCPU that finds another number is an error");
	fake_put64(&fake, area_gpa(0) + OWN_OFFSET, 0);
	ok(find_number("data of vCPU 0 is not where") == -EPROTO,
	   "a vCPU without per-CPU data is an error");
	fake_put64(&fake, area_gpa(0) + OWN_OFFSET, gs_base(ZERO_BASED, 0));
	ok(!find_task(""), "the vCPUs' tasks are found");
	fake_put32(&fake, task_gpa(1) + ON_CPU, 0);
	ok(find_task("task of vCPU 1 is not marked") == -EAGAIN,
	   "a task that is not marked as running is waited for");
	fake_put32(&fake, task_gpa(1) + PID, 5 << 20);
	ok(find_task("vCPU 1 does not run a task") == -EPROTO,
	   "a task with an impossible pid is an error");
	memset(fake.ram + task_gpa(0) + COMM, 'x', 8);
	ok(find_task("vCPU 0 does not run a task") == -EPROTO,
	   "a task whose name does not end is an error");
	fake_put64(&fake, area_gpa(0) + CURRENT_TASK, 0x1234);
	ok(find_task("not a mapped") == -EFAULT, "a task pointer that leads nowhere is an error");
	finish();
}

/* --- what is recorded of a task -------------------------------------------------------------- */

static int find_places(uint32_t fields, struct task_places *places, const char *want)
{
	struct error err = {0};
	int ret = task_places_find(&kernel, fields, places, &err);

	return ok(!ret || strstr(err.text, want), "the reason is told: %s", err.text) ? ret : 1;
}

static void test_reader(void)
{
	struct event_task task;
	struct task_places places;

	if (!start(ZERO_BASED) || !use_btf(16, true))
		return;
	fake_put32(&fake, task_gpa(1) + TGID, 77);
	ok(!find_places(EVENT_TASK_ALL, &places, ""), "all fields of a task have their places");
	ok(!task_read_current(&kernel, &places, 1, &task, NULL) && task.pid == 101 &&
		   task.tgid == 77 && !strcmp(task.comm, "worker") && !task.cgroup,
	   "those of a CPU's task are read; it has no cgroup yet");
	fake_put64(&fake, task_gpa(1) + CGROUPS, fake_direct(CGROUP));
	fake_put64(&fake, CGROUP + DFL_CGRP, fake_direct(CGROUP + 0x1000));
	fake_put64(&fake, CGROUP + 0x1000 + KN, fake_direct(CGROUP + 0x2000));
	fake_put64(&fake, CGROUP + 0x2000 + NODE_ID, UINT64_C(0x123456789));
	ok(!task_read_current(&kernel, &places, 1, &task, NULL) &&
		   task.cgroup == UINT64_C(0x123456789),
	   "with a cgroup its id is read");
	ok(!find_places(EVENT_TASK_PID, &places, "") &&
		   !task_read_current(&kernel, &places, 1, &task, NULL) && task.pid == 101 &&
		   !task.tgid && !task.comm[0] && !task.cgroup,
	   "what is not asked for is 0");
	ok(task_read_current(&kernel, &places, VCPUS, &task, NULL) == -ENOTSUP,
	   "a CPU that the guest does not have is refused");
	fake_put64(&fake, area_gpa(1) + CURRENT_TASK, 0x1234);
	ok(task_read_current(&kernel, &places, 1, &task, NULL) == -EFAULT,
	   "a task pointer that leads nowhere is an error");
	use_btf(16, false);
	ok(find_places(EVENT_TASK_CGROUP, &places, "kernfs_node") == -ENOENT &&
		   !find_places(EVENT_TASK_TGID, &places, ""),
	   "a kernel without the path to cgroups has the rest");
	use_btf(8, true);
	ok(find_places(EVENT_TASK_PID, &places, "only 8 bytes") == -ENOTSUP,
	   "a name that is too short is refused");
	finish();
}

/* Without SMP per-CPU variables are plain ones, and GS holds what the stack protector needs. */
static void use_one_cpu(bool has_base)
{
	char map[512];
	int n = snprintf(map, sizeof(map),
			 "%016llx T _text\n%016llx D init_top_pgt\n%016llx B empty_zero_page\n"
			 "%016llx D current_task\n",
			 FAKE_LINK_TEXT, FAKE_LINK_TEXT + FAKE_INIT_TOP_PGT,
			 FAKE_LINK_TEXT + ONLY_ZEROES, FAKE_LINK_TEXT + ONLY_TASK);

	if (has_base)
		n += snprintf(map + n, sizeof(map) - (size_t)n, "%016llx D fixed_percpu_data\n",
			      FAKE_LINK_TEXT + ONLY_BASE);
	if (fake_kernel_set_symbols(&fake, map, (size_t)n))
		abort();
	fake_put64(&fake, FAKE_PHYS_TEXT + ONLY_TASK, fake_direct(task_gpa(0)));
	fake_put32(&fake, FAKE_PHYS_TEXT + ONLY_ZEROES, 0);
	for (unsigned int i = 1; i < VCPUS; i++)
		set_vcpu(i, false, 0, 0);
}

static void test_one_cpu(void)
{
	const uint64_t text = FAKE_LINK_TEXT + FAKE_SLIDE;

	if (!start(ZERO_BASED))
		return;
	for (int has_base = 0; has_base < 2; has_base++) {
		uint64_t base = has_base ? text + ONLY_BASE : 0;
		const char *where = has_base ? "with fixed_percpu_data" : "with 0 in GS";
		struct percpu_task task = {0};
		int32_t number = 0;

		use_one_cpu(has_base);
		set_vcpu(0, true, base, 0x7f0000001000ull);
		ok(!percpu_cpu_number(&kernel, &number, NULL), "a kernel for one CPU %s is read",
		   where);
		ok(base + (uint64_t)number == text + ONLY_ZEROES,
		   "the number of its CPU is a word that is always 0, %s", where);
		ok(!percpu_current_task(&kernel, &task, NULL), "its current task is found %s",
		   where);
		ok(base + (uint64_t)task.displacement == text + ONLY_TASK,
		   "its current task is a plain variable, %s", where);
		set_vcpu(0, true, 0x7f0000001000ull, base);
		ok(!find_number(""), "its vCPU is recognised in user mode, %s", where);
		set_vcpu(0, true, 0x7f0000001000ull, 0x7f0000002000ull);
		percpu_forget_vcpus(&kernel);
		ok(find_number("vCPU 0 has not set up") == -EAGAIN,
		   "its vCPU is waited for until GS is set, %s", where);
	}
	set_vcpu(1, true, 0, 0);
	set_vcpu(0, true, text + ONLY_BASE, 0);
	ok(find_number("for one CPU, but vCPU 1 runs") == -ENOTSUP,
	   "a second vCPU in a kernel for one CPU is refused");
	finish();
}

static void test_missing(void)
{
	static const char no_smp[] = "ffffffff81000000 T _text\n0000000000009158 A cpu_number\n";
	static const char nothing[] = "ffffffff81000000 T _text\n"
				      "ffffffff81030000 D __per_cpu_offset\n";

	if (!start(ZERO_BASED))
		return;
	fake_kernel_set_symbols(&fake, no_smp, sizeof(no_smp) - 1);
	ok(find_number("no symbol empty_zero_page") == -ENOENT,
	   "a kernel without SMP and without a word that is always 0 is refused");
	fake_kernel_set_symbols(&fake, nothing, sizeof(nothing) - 1);
	ok(find_number("no cpu_number: the kernel has no symbol pcpu_hot") == -ENOENT,
	   "a kernel without the number's variable is refused");
	ok(find_task("no current_task: ") == -ENOENT,
	   "a kernel without the task's variable is refused");
	use_symbols(HOT_STRUCT);
	btf_destroy(fake.image.btf);
	fake.image.btf = NULL;
	ok(find_number("has no BTF") == -ENOTSUP, "a kernel without BTF is refused");
	finish();
}

/*
 * A real image, not moved, as the first processor finds it: GS leads to the linked copy of the
 * variables, and the first task is the linked one.
 */
static void test_image(const struct kernel_image *image, const char *version)
{
	struct guest_sregs sregs = {.cr0 = CR0_PG, .efer = EFER_LMA};
	struct guest_regs regs = {0};
	struct percpu_task task;
	struct btf_field on_cpu;
	struct error err = {0};
	uint64_t init_task, pointer = 0;
	uint32_t one = 1;
	char comm[16] = "";
	int32_t number;

	if (dump_guest_create(1, &dump, NULL) ||
	    dump_guest_add_buffer(dump, PHYS_TEXT, image->init_bytes, image->init_size, DUMP_MAPPED,
				  NULL))
		abort();
	kernel_at(&kernel, dump_guest(dump), image, 0, PHYS_TEXT);
	kernel_read(&kernel, kernel_symbol(&kernel, "__per_cpu_offset"), &sregs.gs_base, 8, NULL);
	dump_guest_set_vcpu(dump, 0, &regs, &sregs, NULL);
	ok(!percpu_cpu_number(&kernel, &number, &err), "%s: the CPU number is found %s", version,
	   err.text);
	init_task = kernel_symbol(&kernel, "init_task");
	/* As sched_init() does. */
	ok(!btf_field(image->btf, "task_struct", "on_cpu", &on_cpu, NULL) &&
		   !kernel_write(&kernel, init_task + on_cpu.offset, &one, sizeof(one), NULL),
	   "%s: the first task runs", version);
	ok(!percpu_current_task(&kernel, &task, &err), "%s: the current task is found %s", version,
	   err.text);
	kernel_read(&kernel, sregs.gs_base + (uint64_t)task.displacement, &pointer, 8, NULL);
	is_u64(pointer, init_task, "the current task at start is init_task");
	kernel_read_string(&kernel, pointer + task.comm, comm, sizeof(comm), NULL);
	is_str(comm, "swapper", "the current task at start is called swapper");
	dump_guest_destroy(dump);
}

static void test_real(const char *version)
{
	struct kernel_image *image;
	struct kernel_file *file;
	struct error err = {0};
	char path[FETCHED_KERNEL_PATH];

	fetched_kernel_path(path, version);
	if (kernel_file_open(path, &file, &err) == -ENOENT) {
		tap_skip(version, "not fetched");
		return;
	}
	if (ok(!err.code && !kernel_image_load(file, NULL, &image, &err),
	       "%s: the image is loaded %s", version, err.text)) {
		test_image(image, version);
		kernel_image_destroy(image);
	}
	kernel_file_close(file);
}

int main(void)
{
	test_layouts();
	test_vcpus();
	test_reader();
	test_nested();
	test_wrong_memory();
	test_one_cpu();
	test_missing();
	test_real("5.10");
	test_real("6.1");
	test_real("6.12");
	test_real("6.17");
	test_real("7.0");
	test_real("7.2");
	return tap_done();
}
