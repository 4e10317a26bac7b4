/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "tests/lib/fake-guest.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include "formats/base/clock.h"
#include "introspect/guest/control.h"

enum {
	STACK_SIZE = 16 << 10,
	STACKS_GPA = 12 << 20,
	SCRATCH_GPA = 1 << 30,
	KHZ = 1000000,
};

static struct fake_guest *fake_of(struct guest *guest)
{
	return (struct fake_guest *)guest;
}

/* --- operations ----------------------------------------------------------------------------- */

static int regions(struct guest *guest, const struct guest_region **out, size_t *n,
		   struct error *err)
{
	(void)err;
	*out = fake_of(guest)->regions;
	*n = fake_of(guest)->nr_regions;
	return 0;
}

static bool touches(uint64_t gpa, size_t size, uint64_t byte)
{
	return byte && byte >= gpa && byte < gpa + size;
}

static int phys_read(struct guest *guest, uint64_t gpa, void *to, size_t size, struct error *err)
{
	const uint8_t *from = fake_of(guest)->base.ram + gpa;
	uint8_t *bytes = to;

	fake_of(guest)->reads++;
	if (touches(gpa, size, fake_of(guest)->missing_gpa))
		return error_set_at(err, EFAULT, gpa, "fake read failure");
	/* as of a guest that runs: other threads may write it (ThreadSanitizer) */
	for (size_t i = 0; i < size; i++)
		bytes[i] = __atomic_load_n(&from[i], __ATOMIC_RELAXED);
	return 0;
}

static int phys_write(struct guest *guest, uint64_t gpa, const void *from, size_t size,
		      struct error *err)
{
	struct fake_guest *fg = fake_of(guest);
	uint8_t kept;

	fg->writes++;
	if (touches(gpa, size, fg->failing_gpa))
		return error_set_at(err, EIO, gpa, "fake write failure");
	kept = fg->base.ram[fg->ignored_gpa];
	memcpy(fg->base.ram + gpa, from, size);
	if (fg->ignored_gpa)
		fg->base.ram[fg->ignored_gpa] = kept;
	return 0;
}

static int get_regs(struct guest *guest, unsigned int vcpu, struct guest_regs *out,
		    struct error *err)
{
	if (vcpu >= FAKE_VCPUS)
		return error_set(err, EINVAL, "no such vCPU");
	*out = fake_of(guest)->vcpus[vcpu].regs;
	return 0;
}

static int set_regs(struct guest *guest, unsigned int vcpu, const struct guest_regs *regs,
		    struct error *err)
{
	if (vcpu >= FAKE_VCPUS)
		return error_set(err, EINVAL, "no such vCPU");
	fake_of(guest)->vcpus[vcpu].regs = *regs;
	return 0;
}

static int get_sregs(struct guest *guest, unsigned int vcpu, struct guest_sregs *out,
		     struct error *err)
{
	if (vcpu >= FAKE_VCPUS)
		return error_set(err, EINVAL, "no such vCPU");
	if (fake_of(guest)->mute)
		return error_set(err, EIO, "its registers cannot be read");
	*out = fake_of(guest)->vcpus[vcpu].sregs;
	return 0;
}

static void note_stop(struct fake_guest *fg)
{
	void (*const on_stop)(struct fake_guest *) = fg->on_stop;

	fg->stopped++;
	fg->stops++;
	if (on_stop)
		on_stop(fg);
}

static int stop(struct guest *guest, struct error *err)
{
	(void)err;
	pthread_mutex_lock(&fake_of(guest)->gate);
	note_stop(fake_of(guest));
	return 0;
}

static int try_stop(struct guest *guest, struct error *err)
{
	if (pthread_mutex_trylock(&fake_of(guest)->gate))
		return error_set(err, EBUSY, "another thread holds the guest");
	if (fake_of(guest)->paused) {
		pthread_mutex_unlock(&fake_of(guest)->gate);
		return error_set(err, EBUSY, "the guest is paused");
	}
	note_stop(fake_of(guest));
	return 0;
}

static int resume(struct guest *guest, struct error *err)
{
	struct fake_guest *fg = fake_of(guest);

	if (!fg->stopped)
		return error_set(err, EPERM, "resume without stop");
	fg->stopped--;
	pthread_mutex_unlock(&fg->gate);
	if (fg->stopped || !fg->failing_resumes)
		return 0;
	fg->failing_resumes--;
	return error_set(err, ENOTCONN, "the guest does not resume");
}

static bool is_stopped(struct guest *guest)
{
	bool stopped = fake_of(guest)->stopped || fake_of(guest)->paused;

	fake_of(guest)->polls++;
	return stopped;
}

static int set_trap_handler(struct guest *guest, guest_trap_fn *fn, void *arg, struct error *err)
{
	(void)err;
	fake_of(guest)->trap_fn = fn;
	fake_of(guest)->trap_arg = arg;
	return 0;
}

static int set_break(struct guest *guest, uint64_t gva, uint64_t gpa, bool on, struct error *err)
{
	if (fake_text(fake_of(guest), gva - fake_gva(0)) != fake_of(guest)->base.ram + gpa)
		return error_set_at(err, EINVAL, gva, "the gva does not lie at that gpa");
	if (!on && gva == fake_of(guest)->failing_break)
		return error_set_at(err, EIO, gva, "fake breakpoint failure");
	return fake_breaks_set(&fake_of(guest)->breaks, gva, on, err);
}

static uint64_t clock_ns(struct guest *guest)
{
	return ++fake_of(guest)->clock;
}

static uint64_t tsc(struct guest *guest)
{
	_Atomic uint64_t *last = &fake_of(guest)->last_tsc;
	uint64_t before = atomic_load(last), next;
	uint64_t now = clock_monotonic_ns();

	do {
		next = now;
		if (next <= before)
			next = before + 1;
	} while (!atomic_compare_exchange_weak(last, &before, next));
	return next;
}

static int tsc_clock(struct guest *guest, unsigned int vcpu, struct tsc_clock *out,
		     struct error *err)
{
	out->ns0 = tsc(guest);
	out->tsc0 = out->ns0 - fake_of(guest)->vcpus[vcpu].tsc_behind;
	return tsc_clock_set_rate(out, KHZ, err);
}

static int scratch_add(struct guest *guest, size_t size, struct guest_region *out,
		       struct error *err)
{
	struct fake_guest *fg = fake_of(guest);
	void *memory;

	if (fg->nr_regions > 1)
		return error_set(err, ENOSPC, "the fake guest has one scratch region");
	memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (memory == MAP_FAILED)
		return error_set(err, ENOMEM, "out of memory");
	*out = (struct guest_region){.gpa = SCRATCH_GPA, .size = size, .hva = memory};
	fg->regions[fg->nr_regions++] = *out;
	return 0;
}

static int scratch_remove(struct guest *guest, const struct guest_region *scratch,
			  struct error *err)
{
	(void)err;
	munmap(scratch->hva, scratch->size);
	fake_of(guest)->nr_regions = 1;
	return 0;
}

static const struct guest_memory_ops memory_ops = {
	.regions = regions, .read = phys_read, .write = phys_write};
static const struct guest_control_ops control_ops = {
	.stop = stop,
	.resume = resume,
	.try_stop = try_stop,
	.is_stopped = is_stopped,
	.get_regs = get_regs,
	.set_regs = set_regs,
	.get_sregs = get_sregs,
};
static const struct guest_trap_ops trap_ops = {.set_handler = set_trap_handler,
					       .set_break = set_break};
static const struct guest_clock_ops clock_ops = {
	.now_ns = clock_ns, .tsc = tsc, .tsc_clock = tsc_clock};
static const struct guest_scratch_ops scratch_ops = {.add = scratch_add, .remove = scratch_remove};

/* --- making one ----------------------------------------------------------------------------- */

int fake_guest_create(struct fake_guest *fg)
{
	pthread_mutexattr_t recursive;
	int ret;

	memset(fg, 0, sizeof(*fg));
	pthread_mutexattr_init(&recursive);
	pthread_mutexattr_settype(&recursive, PTHREAD_MUTEX_RECURSIVE);
	pthread_mutex_init(&fg->gate, &recursive);
	pthread_mutexattr_destroy(&recursive);
	ret = fake_kernel_create(&fg->base, FAKE_7_0, 4);
	if (ret)
		return ret;
	fg->guest =
		(struct guest){.name = "fake",
			       .memory = &memory_ops,
			       .control = &control_ops,
			       .traps = &trap_ops,
			       .clock = &clock_ops,
			       .scratch = &scratch_ops,
			       .caps = GUEST_CAP_PORT_TRAP | GUEST_CAP_WRITE | GUEST_CAP_SCRATCH,
			       .nr_vcpus = FAKE_VCPUS};
	fg->regions[0] = (struct guest_region){.size = FAKE_RAM};
	fg->nr_regions = 1;
	for (unsigned int i = 0; i < FAKE_VCPUS; i++)
		fg->vcpus[i].sregs = (struct guest_sregs){.cr0 = CR0_PG | CR0_PE,
							  .efer = EFER_NXE | EFER_LMA | EFER_LME,
							  .halted = true};
	kernel_at(&fg->kernel, &fg->guest, &fg->base.image, FAKE_SLIDE, FAKE_PHYS_TEXT);
	return 0;
}

void fake_guest_destroy(struct fake_guest *fg)
{
	if (fg->nr_regions > 1)
		munmap(fg->regions[1].hva, fg->regions[1].size);
	pthread_mutex_destroy(&fg->gate);
	fake_kernel_destroy(&fg->base);
}

static void print_symbol(FILE *map, uint64_t address, char type, const char *name)
{
	fprintf(map, "%016llx %c %s\n", (unsigned long long)address, type, name);
}

/* Without the one of this name. */
static int make_symbols(struct fake_guest *fg, const char *without,
			const struct fake_symbol *symbols)
{
	struct symbol_table *old = fg->base.image.symbols, *table = NULL;
	char *text = NULL;
	size_t size = 0;
	FILE *map = open_memstream(&text, &size);
	int ret;

	if (!map)
		return -ENOMEM;
	for (size_t i = 0; i < symbols_count(old); i++) {
		const struct symbol *s = symbols_at(old, i);

		if (strcmp(s->name, without))
			print_symbol(map, s->address, s->type, s->name);
	}
	for (; symbols->name; symbols++)
		print_symbol(map, FAKE_LINK_TEXT + symbols->offset,
			     symbols->offset < FAKE_BANNER ? 'T' : 'D', symbols->name);
	fclose(map);
	ret = symbols_from_system_map(text, size, &table, NULL);
	free(text);
	if (ret)
		return ret;
	symbols_destroy(old);
	fg->base.image.symbols = table;
	return 0;
}

int fake_guest_add_symbols(struct fake_guest *fg, const struct fake_symbol *symbols)
{
	return make_symbols(fg, "", symbols);
}

int fake_guest_inline(struct fake_guest *fg, const char *function)
{
	static const struct fake_symbol none[] = {{NULL, 0}};

	return make_symbols(fg, function, none);
}

uint64_t fake_gva(uint64_t offset)
{
	return FAKE_LINK_TEXT + FAKE_SLIDE + offset;
}

uint8_t *fake_text(struct fake_guest *fg, uint64_t offset)
{
	return fg->base.ram + FAKE_PHYS_TEXT + offset;
}

void fake_code(struct fake_guest *fg, uint64_t offset, const void *bytes, size_t size)
{
	memcpy(fg->base.image.init_bytes + offset, bytes, size);
	memcpy(fake_text(fg, offset), bytes, size);
}

uint64_t fake_branch(struct fake_guest *fg, uint64_t offset, uint8_t opcode, uint64_t target)
{
	uint8_t bytes[5] = {opcode};
	int32_t displacement = (int32_t)(target - (offset + sizeof(bytes)));

	memcpy(bytes + 1, &displacement, sizeof(displacement));
	fake_code(fg, offset, bytes, sizeof(bytes));
	return offset + sizeof(bytes);
}

uint64_t fake_load_rax(struct fake_guest *fg, uint64_t offset, uint64_t value)
{
	uint8_t bytes[10] = {0x48, 0xb8};

	memcpy(bytes + 2, &value, sizeof(value));
	fake_code(fg, offset, bytes, sizeof(bytes));
	return offset + sizeof(bytes);
}

uint64_t fake_stack_top(unsigned int vcpu)
{
	return fake_direct(STACKS_GPA + (vcpu + 1) * STACK_SIZE) - sizeof(uint64_t);
}
