/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "tests/lib/fake-exitless.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { PATIENCE_MS = 20000 };

static void keep_hit(void *arg, const struct probe_ref *ref, enum probe_point point,
		     const struct probe_hit *hit)
{
	struct fake_exitless *f = arg;
	size_t n = atomic_load(&f->nr_hits);

	pthread_mutex_lock(&f->gate);
	if (n == FAKE_MAX_HITS)
		abort();
	f->hits[n] = (struct fake_hit){.ref = ref,
				       .point = point,
				       .vcpu = hit->vcpu,
				       .time_ns = hit->time_ns,
				       .key = hit->key};
	atomic_store(&f->nr_hits, n + 1);
	pthread_mutex_unlock(&f->gate);
}

static void make_plan(struct fake_exitless *f)
{
	const struct kernel *kernel = &f->fs.fg.kernel;
	const struct tracer_context context = {.kernel = kernel,
					       .writer = f->fs.writer,
					       .calls = f->calls,
					       .counters = &f->counters};
	const char *const specs[] = {"kmem"};
	struct patch_request request = {0};

	if (tracer_set_create(&f->tracers, specs, NULL, 1, &context, NULL))
		abort();
	request.refs = f->tracers.refs;
	request.nr_refs = f->tracers.nr_refs;
	trap_table_init(&f->traps);
	if (patch_plan_make(&f->plan, &request, kernel, f->decoder, &f->traps, NULL))
		abort();
}

void fake_exitless_init(struct fake_exitless *f, enum trampoline_full full)
{
	memset(f, 0, sizeof(*f));
	fake_session_create(&f->fs);
	pthread_mutex_init(&f->gate, NULL);
	f->hits = calloc(FAKE_MAX_HITS, sizeof(*f->hits));
	f->ram = malloc(FAKE_RAM);
	if (!f->hits || !f->ram || decoder_create(&f->decoder, NULL) ||
	    call_table_create(NULL, &f->calls, NULL))
		abort();
	make_plan(f);
	f->reader = (struct trap_reader){.kernel = &f->fs.fg.kernel,
					 .plan = &f->plan,
					 .traps = &f->traps,
					 .oneshots = &f->oneshots,
					 .counters = &f->counters};
	if (trap_reader_init(&f->reader, NULL))
		abort();
	f->config = (struct engine_config){.kernel = &f->fs.fg.kernel,
					   .plan = &f->plan,
					   .traps = &f->traps,
					   .decoder = f->decoder,
					   .reader = &f->reader,
					   .failure = &f->failure,
					   .emit = keep_hit,
					   .stacks = &f->calls->stacks,
					   .arg = f,
					   .ring_bytes = FAKE_RING_BYTES,
					   .drop = full == TRAMPOLINE_DROP};
	if (full == TRAMPOLINE_SPIN)
		f->fs.fg.guest.caps &= ~(uint32_t)GUEST_CAP_PORT_TRAP;
}

void fake_exitless_deinit(struct fake_exitless *f)
{
	engine_destroy(f->engine);
	trap_reader_deinit(&f->reader);
	patch_plan_deinit(&f->plan);
	trap_table_deinit(&f->traps);
	tracer_set_destroy(&f->tracers);
	call_table_destroy(f->calls);
	decoder_destroy(f->decoder);
	free(f->ram);
	free(f->hits);
	pthread_mutex_destroy(&f->gate);
	fake_session_destroy(&f->fs);
}

static void find_traps(struct fake_exitless *f)
{
	const struct trampoline_set *set = &f->x->set;

	if (set->n > FAKE_MAX_PLACES)
		abort();
	for (uint64_t gva = f->x->mapping.gva; gva < f->x->mapping.gva + set->code_bytes; gva++) {
		const struct trampoline_place *place = trampoline_set_at(set, gva);

		if (place)
			f->trap_gva[place - set->places] = gva;
	}
}

void fake_exitless_create(struct fake_exitless *f)
{
	if (f->engine)
		return;
	if (ring_engine_create(&f->config, &f->engine, NULL))
		abort();
	f->x = ring_engine_of(f->engine);
}

int fake_exitless_install(struct fake_exitless *f, struct error *err)
{
	struct guest *guest = &f->fs.fg.guest;
	int ret;

	fake_exitless_create(f);
	memcpy(f->ram, f->fs.fg.base.ram, FAKE_RAM);
	guest->control->stop(guest, NULL);
	ret = f->engine->ops->install(f->engine, err);
	guest->control->resume(guest, NULL);
	if (!ret)
		find_traps(f);
	return ret;
}

bool fake_exitless_finish(struct fake_exitless *f, unsigned int ms)
{
	return ring_engine_has_left(f->x, ms) && !f->engine->ops->finish(f->engine, NULL) &&
	       !first_error_get(&f->failure);
}

bool fake_exitless_leave(struct fake_exitless *f, unsigned int ms)
{
	struct guest *guest = &f->fs.fg.guest;

	guest->control->stop(guest, NULL);
	if (f->engine->ops->withdraw(f->engine, NULL, NULL))
		abort();
	guest->control->resume(guest, NULL);
	return fake_exitless_finish(f, ms);
}

static bool are_traps(const struct patch_set *set)
{
	for (size_t i = 0; i < set->n; i++)
		if (set->v[i].new_bytes[0] != 0xe6 || set->v[i].new_bytes[1] != GUEST_TRAP_PORT)
			return false;
	return true;
}

bool fake_exitless_is_gone(const struct fake_exitless *f)
{
	return !memcmp(f->ram, f->fs.fg.base.ram, FAKE_RAM) && f->fs.fg.nr_regions == 1;
}

bool fake_exitless_plans_traps(const struct fake_exitless *f)
{
	return are_traps(&f->plan.entries) && are_traps(&f->plan.returns);
}

uint32_t fake_exitless_place(const struct fake_exitless *f, uint64_t function)
{
	for (size_t i = 0; i < f->plan.entries.n; i++)
		if (f->plan.entries.v[i].gva == fake_gva(function))
			return (uint32_t)i;
	abort();
}

struct ring_writer fake_exitless_writer(const struct fake_exitless *f, unsigned int vcpu)
{
	return ring_writer(f->x->rings[vcpu].header, f->config.ring_bytes);
}

/* The slow path. False: the record is given up. */
static bool try_again(struct fake_exitless *f, unsigned int vcpu, uint32_t place,
		      struct ring_header *header)
{
	const struct trampoline_place *p = &f->x->set.places[place];
	struct guest_trap trap = {.vcpu = vcpu, .regs = {.rip = f->trap_gva[place]}};

	if (f->x->full == TRAMPOLINE_DROP &&
	    !__atomic_load_n(&header->doorbell, __ATOMIC_ACQUIRE)) {
		__atomic_store_n(&header->lost, header->lost + 1, __ATOMIC_RELAXED);
		return false;
	}
	if (f->engine->ops->on_trap(f->engine, &trap) != ENGINE_TRAP_OTHER ||
	    (trap.regs.rip != p->retry && trap.regs.rip != p->skip))
		abort();
	return trap.regs.rip == p->retry;
}

bool fake_exitless_record(struct fake_exitless *f, unsigned int vcpu, uint32_t place,
			  uint64_t value)
{
	const struct trampoline_place *p = &f->x->set.places[place];
	const struct ring_sample sample = {place, p->layout.size, 0};
	struct ring_writer writer = fake_exitless_writer(f, vcpu);
	struct ring_record *record;

	while (!(record = ring_writer_reserve(&writer, sample.size)))
		if (!try_again(f, vcpu, place, writer.header))
			return false;
	record->tsc = f->x->guest->clock->tsc(f->x->guest);
	ring_writer_fill(record, sample.size, value);
	ring_writer_commit(record, sample);
	return true;
}

uint64_t fake_exitless_count(const struct fake_exitless *f, unsigned int vcpu, enum counter_id id)
{
	struct trace_counters counts = {0};

	f->engine->ops->counts(f->engine, vcpu, &counts);
	return counts.v[id];
}

bool fake_exitless_wait(const struct fake_exitless *f, size_t hits)
{
	for (int i = 0; i < PATIENCE_MS && atomic_load(&f->nr_hits) < hits; i++)
		clock_wait_ms(1);
	return atomic_load(&f->nr_hits) == hits;
}

static bool is_idle(const struct fake_exitless *f)
{
	bool idle = atomic_load(&f->x->asleep);

	for (unsigned int i = 0; i < FAKE_VCPUS; i++)
		idle &= ring_room(&f->x->rings[i]) != RING_ROOM;
	return idle;
}

bool fake_exitless_wait_idle(const struct fake_exitless *f)
{
	for (int i = 0; i < PATIENCE_MS && !is_idle(f); i++)
		clock_wait_ms(1);
	return is_idle(f);
}
