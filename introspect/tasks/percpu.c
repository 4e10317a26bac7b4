/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "introspect/tasks/percpu.h"

#include <errno.h>
#include <string.h>
#include "introspect/guest/control.h"

enum {
	PID_LIMIT = 4 << 20, /* PID_MAX_LIMIT */
	COMM_SIZE_MAX = 64,
};

/* A variable, or a member of one. The first candidate that a kernel has is used. */
struct candidate {
	const char *symbol;
	const char
		*member; /* of the struct that has the symbol's name; NULL: the variable itself */
};

/* Single variables up to 6.1 and since 6.14; in between, both in one struct. */
static const struct candidate cpu_numbers[] = {{"cpu_number", NULL}, {"pcpu_hot", "cpu_number"}};
static const struct candidate current_tasks[] = {{"current_task", NULL},
						 {"pcpu_hot", "current_task"}};
static const struct candidate own_offset = {"this_cpu_off", NULL};
/* A kernel for one CPU has no variable for its number: what is always 0 has the same effect. */
static const struct candidate only_cpu_number = {"empty_zero_page", NULL};
enum { NR_CANDIDATES = 2 };

/* A check of one vCPU; `base` is what its GS holds in kernel mode. */
typedef int check_fn(const struct kernel *kernel, unsigned int vcpu, uint64_t base, const void *arg,
		     struct error *err);

static bool has_one_cpu(const struct kernel *kernel)
{
	return !symbols_find(kernel->image->symbols, "__per_cpu_offset");
}

/*
 * What GS holds in a kernel for one CPU, where per-CPU variables are plain ones: the address of the
 * stack protector's word less its displacement (arch/x86/kernel/head_64.S, initial_gs); 0
 * since 6.15.
 */
static uint64_t only_base(const struct kernel *kernel)
{
	return kernel_symbol(kernel, "fixed_percpu_data");
}

/* For a symbol linked at 0, its address is the displacement. Else GS holds the distance to it. */
int percpu_displacement(const struct kernel *kernel, const char *name, const char *member,
			int32_t *displacement, struct error *err)
{
	const struct symbol *symbol = symbols_find(kernel->image->symbols, name);
	struct btf_field field = {0};
	uint64_t address;
	int ret = 0;

	if (!symbol)
		return error_set(err, ENOENT, "the kernel has no symbol %s", name);
	if (member)
		ret = kernel_image_check_btf(kernel->image, err);
	if (!ret && member)
		ret = btf_field(kernel->image->btf, name, member, &field, err);
	if (ret)
		return ret;
	address = kernel_gva(kernel, symbol->address);
	if (!kernel_in_image(kernel, address))
		address = symbol->address;
	address += field.offset;
	if (has_one_cpu(kernel))
		address -= only_base(kernel);
	*displacement = (int32_t)address;
	if ((uint64_t)*displacement != address)
		return error_set_at(err, EPROTO, address, "per-CPU variable %s is out of reach",
				    name);
	return 0;
}

static int find_candidate(const struct kernel *kernel, const struct candidate *candidate,
			  int32_t *displacement, struct error *err)
{
	return percpu_displacement(kernel, candidate->symbol, candidate->member, displacement, err);
}

static int find_one_of(const struct kernel *kernel, const struct candidate *candidates,
		       int32_t *displacement, struct error *err)
{
	size_t i = 0;
	int ret;

	while (i < NR_CANDIDATES - 1 && !symbols_find(kernel->image->symbols, candidates[i].symbol))
		i++;
	ret = find_candidate(kernel, &candidates[i], displacement, err);
	if (ret)
		error_prefix(err, "no %s: ", candidates[0].symbol);
	return ret;
}

static int read_own(const struct kernel *kernel, uint64_t base, int32_t displacement, void *to,
		    size_t size, struct error *err)
{
	return kernel_read(kernel, base + (uint64_t)displacement, to, size, err);
}

static int find_only_cpu(const struct kernel *kernel, const struct guest_sregs *sregs,
			 unsigned int vcpu, unsigned int *cpu, uint64_t *base, struct error *err)
{
	*base = only_base(kernel);
	*cpu = 0;
	if (vcpu)
		return error_set(err, ENOTSUP, "the kernel is for one CPU, but vCPU %u runs", vcpu);
	if (sregs->gs_base != *base && sregs->kernel_gs_base != *base)
		*cpu = kernel->guest->nr_vcpus;
	return 0;
}

/*
 * Which CPU the guest takes a vCPU for; nr_vcpus: none. The vCPU swaps its two GS bases when it
 * enters the kernel. One is the kernel's, the other any value that user mode has set: so the vCPU's
 * own number is tried first.
 */
static int find_cpu(const struct kernel *kernel, const struct guest_sregs *sregs, unsigned int vcpu,
		    unsigned int *cpu, uint64_t *base, struct error *err)
{
	uint64_t offsets = kernel_symbol(kernel, "__per_cpu_offset");
	unsigned int n = kernel->guest->nr_vcpus;

	if (has_one_cpu(kernel))
		return find_only_cpu(kernel, sregs, vcpu, cpu, base, err);
	for (unsigned int i = 0; i < n; i++) {
		int ret;

		*cpu = (vcpu + i) % n;
		ret = kernel_read(kernel, offsets + *cpu * sizeof(*base), base, sizeof(*base), err);
		if (ret || sregs->gs_base == *base || sregs->kernel_gs_base == *base)
			return ret;
	}
	*cpu = n;
	return 0;
}

/* The CPU's own copy of its distance leads to itself. */
static int check_own(const struct kernel *kernel, unsigned int vcpu, uint64_t base,
		     struct error *err)
{
	uint64_t own = 0;
	int32_t own_at = 0;
	int ret;

	if (has_one_cpu(kernel))
		return 0;
	ret = find_candidate(kernel, &own_offset, &own_at, err);
	if (!ret)
		ret = read_own(kernel, base, own_at, &own, sizeof(own), err);
	if (!ret && own != base)
		ret = error_set_at(err, EPROTO, base + (uint64_t)own_at,
				   "the per-CPU data of vCPU %u is not where it should be", vcpu);
	return ret;
}

static uint64_t bit_of(unsigned int vcpu)
{
	return vcpu < 64 ? UINT64_C(1) << vcpu : 0;
}

static uint64_t *seen(const struct kernel *kernel)
{
	return (uint64_t *)&kernel->known.vcpus_seen;
}

void percpu_forget_vcpus(const struct kernel *kernel)
{
	__atomic_store_n(seen(kernel), 0, __ATOMIC_RELAXED);
}

static bool is_online(const struct kernel *kernel, unsigned int cpu)
{
	const uint64_t mask = kernel_symbol(kernel, "__cpu_online_mask");
	uint64_t online;

	return mask && !kernel_read(kernel, mask, &online, sizeof(online), NULL) &&
	       online & bit_of(cpu);
}

/* Neither GS base is a CPU's. Once it was seen, it is still the CPU of its number. */
static int find_hidden(const struct kernel *kernel, unsigned int vcpu, uint64_t *base,
		       struct error *err)
{
	if (__atomic_load_n(seen(kernel), __ATOMIC_RELAXED) & bit_of(vcpu))
		return percpu_base(kernel, vcpu, base, err);
	if (is_online(kernel, vcpu))
		return error_set(err, EAGAIN,
				 "vCPU %u was not seen in this kernel: it is in a guest of its own",
				 vcpu);
	return error_set(err, EAGAIN, "vCPU %u has not set up its per-CPU data yet", vcpu);
}

static int check_vcpu(const struct kernel *kernel, const struct guest_sregs *sregs,
		      unsigned int vcpu, check_fn *check, const void *arg, struct error *err)
{
	unsigned int cpu = 0;
	uint64_t base = 0;
	int ret = find_cpu(kernel, sregs, vcpu, &cpu, &base, err);

	if (!ret && cpu == kernel->guest->nr_vcpus) {
		ret = find_hidden(kernel, vcpu, &base, err);
		cpu = vcpu;
	}
	if (!ret)
		ret = check_own(kernel, vcpu, base, err);
	if (!ret && cpu != vcpu)
		ret = error_set(err, ENOTSUP, "the guest calls vCPU %u its CPU %u", vcpu, cpu);
	if (ret)
		return ret;
	__atomic_fetch_or(seen(kernel), bit_of(vcpu), __ATOMIC_RELAXED);
	return check(kernel, vcpu, base, arg, err);
}

/* Call `check` for each vCPU that has been started; there must be one. -EAGAIN of one does not keep
 * the others from being seen. */
static int check_vcpus(const struct kernel *kernel, check_fn *check, const void *arg,
		       struct error *err)
{
	struct guest *guest = kernel->guest;
	struct error why = {0}, again = {0};
	struct guest_sregs sregs;
	bool any = false;
	int ret = 0;

	if (!guest->control->get_sregs)
		return error_set(err, ENOTSUP, "%s guests have no vCPU state", guest->name);
	for (unsigned int i = 0; !ret && i < guest->nr_vcpus; i++) {
		ret = guest->control->get_sregs(guest, i, &sregs, &why);
		if (ret || !vcpu_in_long_mode(&sregs))
			continue;
		any = true;
		ret = check_vcpu(kernel, &sregs, i, check, arg, &why);
		if (ret != -EAGAIN)
			continue;
		again = again.code ? again : why;
		ret = 0;
	}
	if (!ret && again.code) {
		why = again;
		ret = -EAGAIN;
	}
	if (!ret && !any)
		ret = error_set(&why, EAGAIN, "no vCPU runs the kernel yet");
	if (ret && err)
		*err = why;
	return ret;
}

static int check_number(const struct kernel *kernel, unsigned int vcpu, uint64_t base,
			const void *arg, struct error *err)
{
	int32_t displacement = *(const int32_t *)arg;
	uint32_t number;
	int ret = read_own(kernel, base, displacement, &number, sizeof(number), err);

	if (!ret && number != vcpu)
		ret = error_set_at(err, EPROTO, base + (uint64_t)displacement,
				   "vCPU %u finds %u for the number of its CPU", vcpu, number);
	return ret;
}

int percpu_cpu_number(const struct kernel *kernel, int32_t *displacement, struct error *err)
{
	int ret = has_one_cpu(kernel) ? find_candidate(kernel, &only_cpu_number, displacement, err)
				      : find_one_of(kernel, cpu_numbers, displacement, err);

	return ret ? ret : check_vcpus(kernel, check_number, displacement, err);
}

static int task_field(const struct kernel *kernel, const char *member, uint32_t size,
		      struct btf_field *out, struct error *err)
{
	int ret = kernel_image_check_btf(kernel->image, err);

	if (!ret)
		ret = btf_field(kernel->image->btf, "task_struct", member, out, err);
	if (!ret && (out->bit_size || (size && out->size != size)))
		ret = error_set(err, ENOENT, "BTF: task_struct.%s has %u bytes, not %u", member,
				out->size, size);
	return ret;
}

/* Check that the task found by a vCPU looks like one, and like one that runs. */
static int check_task(const struct kernel *kernel, unsigned int vcpu, uint64_t base,
		      const void *arg, struct error *err)
{
	const struct percpu_task *place = arg;
	struct btf_field on_cpu;
	char comm[COMM_SIZE_MAX];
	uint32_t pid = 0, running = 1;
	uint64_t task;
	int ret = read_own(kernel, base, place->displacement, &task, sizeof(task), err);

	if (!ret)
		ret = kernel_read(kernel, task + place->pid, &pid, sizeof(pid), err);
	if (!ret)
		ret = kernel_read(kernel, task + place->comm, comm, place->comm_size, err);
	if (!ret && !task_field(kernel, "on_cpu", sizeof(running), &on_cpu, NULL))
		ret = kernel_read(kernel, task + on_cpu.offset, &running, sizeof(running), err);
	if (!ret && (pid >= PID_LIMIT || !memchr(comm, '\0', place->comm_size)))
		ret = error_set_at(err, EPROTO, task, "vCPU %u does not run a task there", vcpu);
	if (!ret && running != 1)
		ret = error_set_at(err, EAGAIN, task,
				   "the task of vCPU %u is not marked as running", vcpu);
	return ret;
}

int percpu_find_task(const struct kernel *kernel, struct percpu_task *out, struct error *err)
{
	struct btf_field pid, comm;
	int ret = find_one_of(kernel, current_tasks, &out->displacement, err);

	if (!ret)
		ret = task_field(kernel, "pid", sizeof(uint32_t), &pid, err);
	if (!ret)
		ret = task_field(kernel, "comm", 0, &comm, err);
	if (!ret && (!comm.size || comm.size > COMM_SIZE_MAX))
		ret = error_set(err, ENOENT, "BTF: task_struct.comm has %u bytes", comm.size);
	if (ret)
		return ret;
	out->pid = pid.offset;
	out->comm = comm.offset;
	out->comm_size = comm.size;
	return 0;
}

int percpu_current_task(const struct kernel *kernel, struct percpu_task *out, struct error *err)
{
	int ret = percpu_find_task(kernel, out, err);

	return ret ? ret : check_vcpus(kernel, check_task, out, err);
}

int percpu_base(const struct kernel *kernel, unsigned int cpu, uint64_t *base, struct error *err)
{
	const uint64_t offsets = kernel_symbol(kernel, "__per_cpu_offset");

	if (cpu >= kernel->guest->nr_vcpus || (cpu && has_one_cpu(kernel)))
		return error_set(err, ENOTSUP, "the guest has no CPU %u", cpu);
	if (!has_one_cpu(kernel))
		return kernel_read(kernel, offsets + cpu * sizeof(*base), base, sizeof(*base), err);
	*base = only_base(kernel);
	return 0;
}
