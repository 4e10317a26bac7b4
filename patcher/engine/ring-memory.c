/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the guest sees of the ring engine: memory, mapping, trampolines, rings. */
#include <errno.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include "introspect/tasks/task-reader.h"
#include "patcher/coexist/watchdogs.h"
#include "patcher/engine/host-record.h"
#include "patcher/engine/ring-internal.h"

enum {
	SMALL_CODE_BYTES = 128 << 10, /* in a chunk that is shared with the rings */
	TRAP_RING_BYTES = 256 << 10,
	MAX_CLOCK_SKEW_NS = 1000,
	/* Host queue for records behind one that a vCPU has not finished, because the host does
	 * not run it. Where writers spin they cannot be made to wait that long. */
	SPIN_QUEUE_BYTES = 8 << 20,
};

/* --- facts ----------------------------------------------------------------------------------- */

static int check_guest(const struct guest *guest, struct error *err)
{
	if (!(guest->caps & GUEST_CAP_SCRATCH))
		return error_set(err, ENOTSUP, "this backend cannot add memory to the guest");
	if (!guest->clock->tsc || !guest->clock->tsc_clock)
		return error_set(err, ENOTSUP, "the guest's time stamp counter cannot be used");
	return 0;
}

/* All captures that have some agree. NULL: none has. */
static const struct task_places *find_task_places(const struct patch_plan *plan)
{
	const struct task_places *found = NULL;

	for (size_t i = 0; !found && i < plan->nr_refs; i++)
		found = plan->refs[i].probe->entry.task;
	return found;
}

/* What is known by the image is checked on each vCPU. */
static int read_task_facts(struct ring_engine *x, struct error *err)
{
	const struct task_places *places = find_task_places(x->config.plan);
	struct percpu_task task;
	int ret;

	if (!places)
		return 0;
	ret = percpu_current_task(x->kernel, &task, err);
	if (ret)
		return ret;
	x->facts.current_task = task.displacement;
	x->facts.task_pid = task.pid;
	x->facts.task_comm = task.comm;
	x->facts.task_tgid = places->tgid;
	memcpy(x->facts.cgroup_path, places->cgroup_path, sizeof(x->facts.cgroup_path));
	return 0;
}

static int read_facts(struct ring_engine *x, struct error *err)
{
	int ret = percpu_cpu_number(x->kernel, &x->facts.cpu_number, err);

	if (!ret)
		ret = read_task_facts(x, err);
	if (!ret)
		ret = task_stacks_init(x->kernel, &x->tasks, err);
	x->facts.task_stack = x->tasks.stack;
	x->facts.stack_bytes = x->tasks.stack_bytes;
	x->facts.user_regs = task_user_regs(x->kernel->image);
	return ret;
}

static uint64_t distance(uint64_t a, uint64_t b)
{
	return a > b ? a - b : b - a;
}

/* The merge compares time stamps of all vCPUs: their counters must agree. */
int ring_engine_read_clocks(struct ring_engine *x, struct error *err)
{
	const struct tsc_clock *first = &x->vcpus[0].clock;
	struct tsc_clock clock;

	for (unsigned int i = 0; i < x->nr_vcpus; i++) {
		int ret = x->guest->clock->tsc_clock(x->guest, i, &clock, err);

		if (ret)
			return ret;
		pthread_mutex_lock(&x->lock);
		x->vcpus[i].clock = clock;
		pthread_mutex_unlock(&x->lock);
		if (distance(tsc_clock_ns(first, clock.tsc0), clock.ns0) > MAX_CLOCK_SKEW_NS)
			return error_set(err, ENOTSUP,
					 "the time stamp counters of vCPUs 0 and %u differ", i);
	}
	return 0;
}

/* --- memory ---------------------------------------------------------------------------------- */

static uint64_t group_size(const struct ring_engine *x, uint32_t ring_bytes)
{
	return (uint64_t)x->nr_vcpus * ring_stride(ring_bytes);
}

static uint64_t rings_size(const struct ring_engine *x)
{
	return group_size(x, x->ring_bytes);
}

static uint64_t align_up(uint64_t bytes, uint64_t unit)
{
	return (bytes + unit - 1) & ~(unit - 1);
}

static uint64_t saved_size(void)
{
	return RING_SAVED_SLOTS * sizeof(struct ring_saved_array);
}

static uint64_t boxes_at(const struct ring_engine *x)
{
	return align_up(rings_size(x) + saved_size(), sizeof(struct ask_box));
}

static uint64_t pids_at(const struct ring_engine *x)
{
	return boxes_at(x) + ENGINE_MAX_ASKS * sizeof(struct ask_box);
}

/* What the guest may write on the ordered lane: the rings, then the arrays that are saved for
 * returns, then the boxes of functions that ask. Behind these it reads the pids of its gate. */
static uint64_t ordered_size(const struct ring_engine *x)
{
	return pids_at(x) + (x->has_pid_gate ? PID_GATE_BUCKETS : 0);
}

uint64_t asks_box_offset(const struct ring_engine *x)
{
	return x->code_bytes + boxes_at(x);
}

/* The direct lane has what is left of `room` bytes behind the ordered lane: as many groups as fit
 * of the largest rings of which one fits. Returns the bytes of both lanes. */
static uint64_t add_groups(struct ring_engine *x, uint64_t room)
{
	const uint64_t begin = align_up(ordered_size(x), KERNEL_MAP_PAGE);
	const uint64_t left = room > begin ? room - begin : 0;
	struct direct_lane *lane = &x->direct;

	lane->ring_bytes = x->ring_bytes;
	while (lane->ring_bytes > RING_MIN_DATA && group_size(x, lane->ring_bytes) > left)
		lane->ring_bytes /= 2;
	lane->nr_groups = (unsigned int)(left / group_size(x, lane->ring_bytes));
	if (lane->nr_groups > DIRECT_GROUPS)
		lane->nr_groups = DIRECT_GROUPS;
	lane->offset = x->code_bytes + begin;
	return lane->nr_groups ? begin + lane->nr_groups * group_size(x, lane->ring_bytes)
			       : ordered_size(x);
}

/* Code and rings in chunks of their own; *data is the size of the latter. */
static int make_layout(struct ring_engine *x, uint64_t *data, struct error *err)
{
	uint64_t most = x->guest->max_scratch;

	if (!most || most > KERNEL_MAP_MAX)
		most = KERNEL_MAP_MAX;
	x->code_bytes = KERNEL_MAP_CHUNK;
	*data = align_up(add_groups(x, most - KERNEL_MAP_CHUNK), KERNEL_MAP_CHUNK);
	if (*data > most - KERNEL_MAP_CHUNK)
		return error_set(err, ENOSPC,
				 "rings of %u vCPUs take %" PRIu64 " MiB, %" PRIu64 " are the most",
				 x->nr_vcpus, *data >> 20, (most - KERNEL_MAP_CHUNK) >> 20);
	return 0;
}

int ring_engine_check_chains(uint32_t ring_bytes, struct error *err)
{
	if (ring_bytes >= RING_MIN_LARGE)
		return 0;
	return error_set(err, ENOSPC,
			 "call chains need rings of %d KiB per vCPU, and there is room for %u KiB",
			 RING_MIN_LARGE >> 10, ring_bytes >> 10);
}

uint64_t ring_engine_fit(struct ring_engine *x, uint64_t room)
{
	uint32_t largest;
	uint64_t bytes;

	while (ordered_size(x) > room && x->ring_bytes > RING_MIN_DATA)
		x->ring_bytes /= 2;
	largest = x->ring_bytes;
	bytes = add_groups(x, room);
	while (!x->direct.nr_groups && x->ring_bytes > RING_MIN_DATA) {
		x->ring_bytes /= 2;
		bytes = add_groups(x, room);
	}
	if (x->direct.nr_groups)
		return bytes;
	x->ring_bytes = largest;
	return add_groups(x, room);
}

/* Code, rings and their page table in one chunk. */
static int make_small_layout(struct ring_engine *x, uint64_t *data, struct error *err)
{
	uint64_t room = KERNEL_MAP_CHUNK - SMALL_CODE_BYTES - KERNEL_MAP_PAGE;

	x->code_bytes = SMALL_CODE_BYTES;
	*data = align_up(ring_engine_fit(x, room), KERNEL_MAP_PAGE);
	if (*data > room)
		return error_set(err, ENOSPC,
				 "rings of %u vCPUs take %" PRIu64 " KiB, %" PRIu64 " are the most",
				 x->nr_vcpus, *data >> 10, room >> 10);
	return 0;
}

static bool is_small(const struct guest *guest)
{
	return guest->max_scratch && guest->max_scratch < 2 * KERNEL_MAP_CHUNK;
}

static int map_scratch(struct ring_engine *x, struct error *err)
{
	bool small = is_small(x->guest);
	struct scratch_part parts[2];
	uint64_t data;
	int ret = small ? make_small_layout(x, &data, err) : make_layout(x, &data, err);

	if (ret)
		return ret;
	ret = x->guest->scratch->add(x->guest, small ? KERNEL_MAP_CHUNK : x->code_bytes + data,
				     &x->scratch, err);
	if (ret) {
		x->scratch.size = 0;
		return ret;
	}
	parts[0] = (struct scratch_part){.size = x->code_bytes, .executable = true};
	parts[1] = (struct scratch_part){.offset = x->code_bytes, .size = data};
	return scratch_mapping_create(x->kernel, &x->scratch, parts, 2, &x->mapping, err);
}

int ring_engine_remove_memory(struct ring_engine *x, struct error *err)
{
	int ret = scratch_mapping_remove(&x->mapping, err);
	int removed = 0;

	if (x->mapping.size)
		return ret;
	direct_keep_counts(x);
	if (x->scratch.size)
		removed = x->guest->scratch->remove(x->guest, &x->scratch, ret ? NULL : err);
	if (!removed)
		x->scratch.size = 0;
	return ret ? ret : removed;
}

static int make_rings(struct ring_engine *x, struct error *err)
{
	const uint32_t stride = ring_stride(x->ring_bytes);
	struct ring_config config = {.data_bytes = x->ring_bytes,
				     .queue_bytes =
					     x->ring_bytes + RING_MAX_RECORD +
					     (x->full == TRAMPOLINE_SPIN ? SPIN_QUEUE_BYTES : 0),
				     .shapes = x->set.shapes,
				     .nr_shapes = trampoline_set_room(&x->set)};
	struct ring_config traps = {.data_bytes = TRAP_RING_BYTES,
				    .queue_bytes = TRAP_RING_BYTES + RING_MAX_RECORD,
				    .shapes = trap_record_shapes,
				    .nr_shapes = TRAP_RECORD_SHAPES};
	int ret = 0;

	x->rings = calloc(2 * (size_t)x->nr_vcpus, sizeof(*x->rings));
	x->trap_memory = calloc(x->nr_vcpus, ring_stride(TRAP_RING_BYTES));
	if (!x->rings || !x->trap_memory)
		return error_set(err, ENOMEM, "out of memory");
	x->saved_arrays = (struct ring_saved_array *)(void *)((uint8_t *)x->scratch.hva +
							      x->code_bytes + rings_size(x));
	for (unsigned int i = 0; !ret && i < x->nr_vcpus; i++) {
		ret = ring_init(&x->rings[i], x->scratch.hva + x->code_bytes + (uint64_t)i * stride,
				&config, err);
		if (!ret)
			ret = ring_init(trap_ring(x, i),
					x->trap_memory + (size_t)i * ring_stride(TRAP_RING_BYTES),
					&traps, err);
	}
	return ret ? ret
		   : ring_merge_init(&x->merge, x->rings, 2 * x->nr_vcpus, x->config.stacks, err);
}

uint64_t ring_engine_ticks(const struct ring_engine *x, uint64_t ns)
{
	const struct tsc_clock *clock = &x->vcpus[0].clock;
	uint64_t low = clock->tsc0, high = clock->tsc0 + (ns << 8);

	while (low < high) {
		uint64_t mid = low + (high - low) / 2;

		if (tsc_clock_ns(clock, mid) - clock->ns0 < ns)
			low = mid + 1;
		else
			high = mid;
	}
	return low - clock->tsc0;
}

/* In ticks, capped: writers compare RING_PATIENCE_BITS. */
static uint32_t patience(const struct ring_engine *x)
{
	uint64_t wanted =
		ring_engine_ticks(x, watchdogs_allow_ns(x->kernel, RING_SPIN_PATIENCE_NS));

	return wanted < UINT32_MAX ? (uint32_t)wanted : UINT32_MAX;
}

struct trampoline_rings ring_engine_rings(const struct ring_engine *x, int group)
{
	const struct direct_lane *lane = &x->direct;
	struct trampoline_rings rings = {.gva = x->mapping.gva + x->code_bytes,
					 .data_bytes = x->ring_bytes,
					 .cpus = x->nr_vcpus,
					 .patience = patience(x)};

	/* all groups have the ordered lane's */
	rings.deadline = rings.gva + offsetof(struct ring_header, spin_deadline);
	if (group < 0)
		return rings;
	rings.data_bytes = lane->ring_bytes;
	rings.gva =
		x->mapping.gva + lane->offset + (uint64_t)group * group_size(x, lane->ring_bytes);
	return rings;
}

/* Records with a part of a stack are the largest. */
static int check_rings(const struct ring_engine *x, struct error *err)
{
	bool any = false;

	for (size_t i = 0; i < x->config.plan->nr_refs; i++) {
		const struct probe *probe = x->config.plan->refs[i].probe;

		any |= (probe->entry.fields | probe->ret.fields) & CAPTURE(FIELD_CHAIN);
	}
	return any ? ring_engine_check_chains(x->ring_bytes, err) : 0;
}

static void store_pids(uint8_t *to, const uint8_t *pass, uint8_t value)
{
	for (size_t i = 0; i < PID_GATE_BUCKETS; i++)
		if (pass[i] == value)
			__atomic_store_n(&to[i], value, __ATOMIC_RELEASE);
}

/* First those that pass, then those that do not: else the return of a call that was recorded could
 * be refused, and behind it that of another task's, which was not, recorded on the same IRQ stack.
 */
bool ring_engine_pass_pids(struct engine *engine)
{
	struct ring_engine *x = ring_engine_of(engine);
	uint8_t *to = (uint8_t *)x->scratch.hva + x->code_bytes + pids_at(x);

	if (!x->has_pid_gate)
		return false;
	store_pids(to, x->config.pids->pass, true);
	store_pids(to, x->config.pids->pass, false);
	return true;
}

/* A return that stays a trap has no gate, and would be one without a call. */
static bool can_have_pid_gate(const struct ring_engine *x)
{
	const struct patch_plan *plan = x->config.plan;

	return x->config.pids && x->config.pids->on && patch_plan_has_room(plan) &&
	       find_task_places(plan);
}

static int make_code(struct ring_engine *x, struct error *err)
{
	const uint64_t data = x->mapping.gva + x->code_bytes;
	const struct trampoline_room room = {
		.gva = x->mapping.gva,
		.bytes = x->scratch.hva,
		.size = x->code_bytes,
		.rings = ring_engine_rings(x, -1),
		.kernel = &x->facts,
		.saved_arrays = data + rings_size(x),
		.pids = x->has_pid_gate ? data + pids_at(x) : 0,
		.full = x->full,
	};

	x->patience_ns = watchdogs_allow_ns(x->kernel, x->patience_ns);
	return trampoline_set_make(&x->set, x->config.plan, x->config.traps, x->config.decoder,
				   &room, err);
}

void ring_engine_find_takers(struct ring_engine *x, size_t view_index)
{
	for (size_t i = 0; x->config.taker && i < x->set.n; i++) {
		struct trampoline_place *place =
			&x->set.places[trampoline_set_number(&x->set, view_index, i)];

		if (!place->has_words)
			place->take = x->config.taker(place->ref);
	}
}

/* --- all of it ------------------------------------------------------------------------------- */

static enum trampoline_full when_full(const struct ring_engine *x)
{
	if (x->config.drop)
		return TRAMPOLINE_DROP;
	return x->guest->caps & GUEST_CAP_PORT_TRAP ? TRAMPOLINE_BLOCK : TRAMPOLINE_SPIN;
}

int ring_engine_make_memory(struct ring_engine *x, struct error *err)
{
	int ret = check_guest(x->guest, err);

	x->ring_bytes = x->config.ring_bytes;
	x->full = when_full(x);
	x->has_pid_gate = can_have_pid_gate(x);
	if (!ret)
		ret = read_facts(x, err);
	if (!ret)
		ret = ring_engine_read_clocks(x, err);
	if (!ret)
		ret = map_scratch(x, err);
	if (!ret)
		ret = check_rings(x, err);
	if (!ret)
		ret = make_code(x, err);
	if (!ret)
		ret = asks_make(x, err);
	if (!ret)
		ret = make_rings(x, err);
	if (ret) {
		patch_plan_use_traps(x->config.plan);
		return ret;
	}
	ring_engine_find_takers(x, 0);
	ring_engine_pass_pids(&x->engine);
	direct_begin(x);
	x->margin = ring_engine_ticks(x, RING_MARGIN_NS);
	return 0;
}

void ring_engine_free_memory(struct ring_engine *x)
{
	direct_end(x);
	asks_free(x);
	for (unsigned int i = 0; x->rings && i < 2 * x->nr_vcpus; i++)
		ring_deinit(&x->rings[i]);
	trampoline_set_deinit(&x->set);
	free(x->trap_memory);
	free(x->rings);
	x->trap_memory = NULL;
	x->rings = NULL;
	x->saved_arrays = NULL;
}
