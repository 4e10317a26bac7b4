/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the vCPUs write into the rings. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "patcher/tracers/kmem/kmem.h"
#include "tests/bench/drain-mix-internal.h"
#include "tests/lib/ring-writer.h"

static bool has_room(const struct ring *ring, uint32_t bytes)
{
	uint64_t used = ring->header->reserve - ring->consumed;
	uint32_t most = ring->config.data_bytes - ring_slack(ring->config.data_bytes);

	return used < (bytes < most ? bytes : most);
}

static uint64_t next_stamp(struct drain_mix *m)
{
	m->now += 1 + (mix_draw(m) >> (64 - STEP_BITS));
	return m->now;
}

static void begin_fill(struct drain_mix *m)
{
	m->now = m->fs->fg.guest.clock->tsc(&m->fs->fg.guest);
}

/* A pass takes what its clock is safely behind. */
static void end_fill(struct drain_mix *m)
{
	atomic_store(&m->fs->fg.last_tsc, m->now + SLACK_NS);
}

/* --- the ordered lane ------------------------------------------------------------------------ */

static uint64_t value_of(const struct drain_mix *m, const struct mix_call *call,
			 enum alloc_role role)
{
	switch (role) {
	case ALLOC_ROLE_CACHE:
		return m->caches[call->site->cache].gva;
	case ALLOC_ROLE_SIZE:
		return call->bytes;
	case ALLOC_ROLE_GFP:
		return call->site->gfp;
	case ALLOC_ROLE_OBJECT:
	case ALLOC_ROLE_PAGE:
		return call->object.address;
	default:
		return 0;
	}
}

static void set_field(struct ring_record *record, const struct trampoline_place *place,
		      enum record_field field, uint64_t value)
{
	if (place->layout.offset[field])
		memcpy((uint8_t *)record + place->layout.offset[field], &value, sizeof(value));
}

static void set_arguments(const struct drain_mix *m, struct ring_record *record,
			  const struct trampoline_place *place, const struct mix_call *call)
{
	const struct alloc_entry *entry = place->ref->probe->data;

	for (unsigned int i = 0; i < ALLOC_MAX_ARGS; i++)
		set_field(record, place, FIELD_ARG0 + i, value_of(m, call, entry->args[i]));
}

static void set_result(const struct drain_mix *m, struct ring_record *record,
		       const struct trampoline_place *place, const struct mix_call *call)
{
	set_field(record, place, FIELD_RESULT, call->object.address);
	set_field(record, place, FIELD_SLAB_CACHE, m->caches[call->site->cache].gva);
}

/* Whose stack it is. */
static void set_task(struct ring_record *record, const struct trampoline_place *place, uint64_t key)
{
	const uint64_t task = key >> 15 & 0xffff;
	char comm[sizeof(uint64_t) + 1];
	uint64_t word;

	snprintf(comm, sizeof(comm), "task%u", (unsigned int)task % 1000);
	memcpy(&word, comm, sizeof(word));
	set_field(record, place, FIELD_PID, 1 + task);
	set_field(record, place, FIELD_TGID, 1 + task);
	set_field(record, place, FIELD_COMM, word);
}

static void put_record(struct drain_mix *m, unsigned int vcpu, uint32_t id,
		       const struct mix_call *call)
{
	const struct trampoline_place *place = &m->x->set.places[id];
	const struct ring *ring = &m->x->rings[vcpu];
	struct ring_writer writer = ring_writer(ring->header, ring->config.data_bytes);
	struct ring_record *record = ring_writer_reserve_unchecked(&writer, place->layout.size);

	record->tsc = next_stamp(m);
	set_field(record, place, FIELD_KEY, call->key);
	set_field(record, place, FIELD_CALL_SITE, call->address);
	set_task(record, place, call->key);
	if (place->capture.point == POINT_ENTRY)
		set_arguments(m, record, place, call);
	else
		set_result(m, record, place, call);
	ring_writer_commit(record, (struct ring_sample){.id = id, .size = place->layout.size});
}

/* The latest free object of the cache, as SLUB does it. */
static uint64_t take_object(struct drain_mix *m, const struct mix_site *site)
{
	struct mix_cache *cache = &m->caches[site->cache];

	if (site->function == MIX_PAGES)
		return fake_page(FAKE_HEAP_GPA / 4096 + m->next_page++ % 1024);
	if (cache->nr_reused)
		return cache->reused[--cache->nr_reused];
	cache->fresh += cache->bytes;
	return cache->fresh;
}

static void give_back(struct drain_mix *m, const struct mix_object *object)
{
	const struct mix_site *site = &m->sites[object->site];
	struct mix_cache *cache = &m->caches[site->cache];

	if (site->function != MIX_PAGES && cache->nr_reused < REUSED)
		cache->reused[cache->nr_reused++] = object->address;
}

/* A task runs for some time. */
static uint64_t next_key(struct drain_mix *m, struct mix_vcpu *v)
{
	if (!v->stack || !mix_draw_below(m, 64))
		v->stack = 0xffffc90000000000 + mix_draw_below(m, TASKS) * 0x8000 +
			   (uint64_t)(v - m->vcpus) * 0x1000000;
	return v->stack + 0x3000 + 8 * mix_draw_below(m, 256);
}

static const struct mix_site *draw_site(struct drain_mix *m)
{
	bool pages = m->has_pages && (!m->has_slab || !mix_draw_below(m, 6));

	return &m->sites[(pages ? m->page_lots : m->slab_lots)[mix_draw_below(m, LOTS)]];
}

static struct mix_call draw_call(struct drain_mix *m, const struct mix_site *site, uint64_t key)
{
	struct mix_call call = {
		.site = site, .address = site->address, .bytes = site->bytes, .key = key};

	if (site->varies)
		call.bytes -= mix_draw_below(m, site->bytes / 4 + 1);
	return call;
}

static void put_return(struct drain_mix *m, unsigned int vcpu, struct mix_call *call)
{
	struct mix_vcpu *v = &m->vcpus[vcpu];

	call->object.site = (uint16_t)(call->site - m->sites);
	call->object.address = take_object(m, call->site);
	v->live[v->nr_live++] = call->object;
	put_record(m, vcpu, m->ret[call->site->function], call);
}

static void begin_call(struct drain_mix *m, unsigned int vcpu)
{
	struct mix_vcpu *v = &m->vcpus[vcpu];

	v->call = draw_call(m, draw_site(m), next_key(m, v));
	v->open = true;
	put_record(m, vcpu, m->entry[v->call.site->function], &v->call);
}

/* Now and then an allocation makes another one, of a page for its objects. */
static void put_inner_call(struct drain_mix *m, unsigned int vcpu)
{
	const struct mix_vcpu *v = &m->vcpus[vcpu];
	const struct mix_site *site = &m->sites[m->page_lots[mix_draw_below(m, LOTS)]];
	struct mix_call inner = draw_call(m, site, v->call.key - INNER_DISTANCE);

	put_record(m, vcpu, m->entry[inner.site->function], &inner);
	put_return(m, vcpu, &inner);
}

static void end_call(struct drain_mix *m, unsigned int vcpu)
{
	struct mix_vcpu *v = &m->vcpus[vcpu];

	v->open = false;
	put_return(m, vcpu, &v->call);
}

static void release(struct drain_mix *m, unsigned int vcpu, const struct mix_object *object)
{
	const struct mix_site *site = &m->sites[object->site];
	struct mix_call call = {.site = site, .object = *object};

	/* a function that frees is often the one behind that which allocates */
	call.address = site->address + 0x40 + mix_draw_below(m, 3) * 0x20;
	call.key = next_key(m, &m->vcpus[vcpu]);
	put_record(m, vcpu, m->entry[site->function + MIX_KFREE], &call);
}

/* Mostly the latest, now and then another vCPU's. */
static void release_one(struct drain_mix *m, unsigned int vcpu)
{
	unsigned int from =
		mix_draw_below(m, 20) ? vcpu : (unsigned int)mix_draw_below(m, m->nr_vcpus);
	struct mix_vcpu *v = &m->vcpus[m->vcpus[from].nr_live ? from : vcpu];
	unsigned int i =
		mix_draw_below(m, 3) ? v->nr_live - 1 : (unsigned int)mix_draw_below(m, v->nr_live);
	struct mix_object object = v->live[i];

	v->live[i] = v->live[--v->nr_live];
	release(m, vcpu, &object);
	give_back(m, &object);
}

/* One record, or two for a call in another one. */
static void step(struct drain_mix *m, unsigned int vcpu, struct drain_mix_counts *counts)
{
	struct mix_vcpu *v = &m->vcpus[vcpu];
	bool grow = v->nr_live < LIVE_MIN || (v->nr_live < LIVE_MAX && mix_draw(m) >> 63);

	counts->records++;
	if (v->open && m->has_pages && v->nr_live < LIVE_MAX && !mix_draw_below(m, INNER_EACH)) {
		put_inner_call(m, vcpu);
		counts->records++;
		counts->events++;
	} else if (v->open) {
		end_call(m, vcpu);
		counts->events++;
	} else if (m->has_slab && !mix_draw_below(m, 40)) {
		/* kfree(NULL) is recorded, and no event */
		release(m, vcpu, &(struct mix_object){0, m->slab_lots[0]});
	} else if (grow) {
		begin_call(m, vcpu);
	} else {
		release_one(m, vcpu);
		counts->events++;
	}
}

void drain_mix_fill_kmem(struct drain_mix *m, uint32_t bytes, struct drain_mix_counts *counts)
{
	unsigned int vcpu;

	begin_fill(m);
	for (;;) {
		vcpu = (unsigned int)mix_draw_below(m, m->nr_vcpus);
		if (!has_room(&m->x->rings[vcpu], bytes))
			break;
		step(m, vcpu, counts);
	}
	end_fill(m);
}

/* --- the direct lane ------------------------------------------------------------------------- */

/* The first slot whose records are of this point; DIRECT_MAX: none. */
static uint32_t live_slot(const struct direct_lane *lane, enum probe_point point)
{
	uint32_t id = 0;

	while (id < DIRECT_MAX &&
	       (lane->slots[id].state != DIRECT_LIVE || lane->slots[id].want.point != point))
		id++;
	return id;
}

static uint32_t next_function(struct drain_mix *m, struct mix_vcpu *v)
{
	if (!v->path || v->step == v->path->n) {
		v->path = &m->paths[m->path_lots[mix_draw_below(m, LOTS)]];
		v->step = 0;
	}
	return v->path->functions[v->step++];
}

/* A file's number, a buffer, its size, and what is left in the other registers. */
static void set_registers(struct drain_mix *m, uint64_t *args)
{
	args[0] = mix_draw_below(m, 64);
	args[1] = 0x7ffc00000000 + 16 * mix_draw_below(m, 1 << 20);
	args[2] = UINT64_C(1) << mix_draw_below(m, 16);
	for (unsigned int i = 3; i < DIRECT_SYSCALL_ARGS; i++)
		args[i] = mix_draw_below(m, 2) ? 0x7f0000000000 + mix_draw_below(m, 1 << 30) : i;
}

/* What is behind the header. */
static void set_fields(uint8_t *bytes, const struct direct_slot *slot, uint32_t parent,
		       uint32_t task, uint64_t frame)
{
	if (slot->want.fields & DIRECT_PARENT)
		memcpy(bytes + slot->layout.parent, &parent, sizeof(parent));
	if (slot->want.fields & DIRECT_PID)
		memcpy(bytes + slot->layout.pid, &task, sizeof(task));
	if (slot->want.fields & DIRECT_COMM)
		snprintf((char *)bytes + slot->layout.comm, DIRECT_COMM_SIZE, "task%u", task);
	if (slot->want.fields & DIRECT_TGID)
		memcpy(bytes + slot->layout.tgid, &(uint32_t){1000}, sizeof(uint32_t));
	if (slot->want.fields & DIRECT_CGROUP)
		memcpy(bytes + slot->layout.cgroup, &(uint64_t){4711}, sizeof(uint64_t));
	if (slot->want.fields & DIRECT_FRAME)
		memcpy(bytes + slot->layout.frame, &frame, sizeof(frame));
	if (slot->want.fields & DIRECT_RESULT)
		memset(bytes + slot->layout.result, 0, sizeof(uint64_t));
}

static void put_direct(struct drain_mix *m, unsigned int vcpu, uint32_t id, uint32_t ip,
		       uint32_t parent)
{
	const struct direct_slot *slot = &m->x->direct.slots[id];
	const struct ring *ring = &m->x->direct.rings[slot->group * m->x->nr_vcpus + vcpu];
	struct ring_writer writer = ring_writer(ring->header, ring->config.data_bytes);
	struct direct_record *record =
		(void *)ring_writer_reserve_unchecked(&writer, slot->layout.size);

	record->tsc = next_stamp(m);
	record->ip = ip;
	set_fields((uint8_t *)record, slot, parent, 1000 + vcpu,
		   0xffffc90000003f00 + vcpu * 0x4000 - m->vcpus[vcpu].depth * 0x40);
	if (slot->want.fields & DIRECT_SYSCALL)
		set_registers(m, (void *)((uint8_t *)record + slot->layout.syscall));
	__atomic_store_n(&record->commit, ring_commit(id), __ATOMIC_RELEASE);
}

static void put_call(struct drain_mix *m, unsigned int vcpu, uint32_t id)
{
	struct mix_vcpu *v = &m->vcpus[vcpu];
	uint32_t parent = v->step ? v->path->functions[v->step - 1] : 0;
	uint32_t function = next_function(m, v);

	if (m->x->direct.slots[id].want.fields & DIRECT_SYSCALL)
		function %= SYSCALLS;
	put_direct(m, vcpu, id, m->ips[function] + 5, m->ips[parent] + 0x34);
}

/* Half of the calls call another function before they return; no system call does. */
static void put_call_or_return(struct drain_mix *m, unsigned int vcpu, uint32_t entry, uint32_t ret)
{
	const bool is_syscall = m->x->direct.slots[entry].want.fields & DIRECT_SYSCALL;
	struct mix_vcpu *v = &m->vcpus[vcpu];

	if (v->depth && (is_syscall || v->depth == DEPTH_MAX || mix_draw(m) >> 63)) {
		v->depth--;
		put_direct(m, vcpu, ret, 0, 0);
	} else {
		put_call(m, vcpu, entry);
		v->depth++;
	}
}

bool drain_mix_is_direct(const struct drain_mix *m)
{
	return live_slot(&m->x->direct, POINT_ENTRY) < DIRECT_MAX;
}

void drain_mix_fill_direct(struct drain_mix *m, uint32_t bytes, struct drain_mix_counts *counts)
{
	const struct direct_lane *lane = &m->x->direct;
	const uint32_t entry = live_slot(lane, POINT_ENTRY), ret = live_slot(lane, POINT_RETURN);
	const unsigned int first = lane->slots[entry].group * m->x->nr_vcpus;

	begin_fill(m);
	for (;;) {
		unsigned int vcpu = (unsigned int)mix_draw_below(m, m->nr_vcpus);

		if (!has_room(&lane->rings[first + vcpu], bytes))
			break;
		if (ret < DIRECT_MAX)
			put_call_or_return(m, vcpu, entry, ret);
		else
			put_call(m, vcpu, entry);
		counts->records++;
		counts->events++;
	}
	end_fill(m);
}
