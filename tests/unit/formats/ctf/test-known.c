/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Events of this program's own classes: the code that the compiler makes for them writes the bytes
 * that the loop over a plan's steps writes for any class. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "formats/event/graph.h"
#include "formats/event/kmem.h"
#include "tests/lib/ctf-make.h"
#include "tests/lib/tap.h"
#include "tests/lib/trace-make.h"

enum { EVENTS = 4000, MAX_BYTES = 4 << 20, SEED = 20, FLUSH_EACH = 700 };

struct made_event {
	unsigned int class;
	int64_t ns;
	union {
		struct kmem_record record;
		struct kmem_task_record of_task;
		struct function_event call;
		struct graph_event graph;
		struct call_stack_event chain;
		struct function_stack_event call_chain;
	};
};

/* How events are put. */
enum way { ONE_BY_ONE, IN_RUNS, MIXED };

static struct made_event events[EVENTS];
static unsigned int nr_taken; /* at once */
static unsigned int seed = SEED;

static uint64_t draw(unsigned int bits)
{
	uint64_t value = 0;

	for (int i = 0; i < 5; i++)
		value = value << 15 ^ (uint64_t)rand_r(&seed);
	return bits < 64 ? value & ((UINT64_C(1) << bits) - 1) : value;
}

/* Mostly what the first form holds, now and then what only a later one does. */
static uint64_t draw_value(unsigned int usual, unsigned int most)
{
	return draw(draw(4) ? usual : most);
}

static void make_record(struct made_event *event)
{
	struct kmem_record *r = &event->record;
	bool alloc;

	event->class = (unsigned int)draw(8) % KMEM_NR_CLASSES;
	alloc = event->class < KMEM_CLASS_KFREE;
	r->event_id = alloc ? KMEM_EVENT_ALLOC : KMEM_EVENT_FREE;
	r->type_id = (uint8_t)(event->class % KMEM_TYPE_COUNT);
	r->call_site = 0xffffffff81000000 + draw_value(8, 24);
	r->ptr = draw(1) ? 0xffff888000000000 + draw(40) : draw_value(47, 64);
	r->bytes_req = draw_value(13, 40);
	r->bytes_alloc = draw_value(13, 40);
	if (r->type_id == KMEM_TYPE_PAGES && event->class != KMEM_CLASS_OTHER)
		r->bytes_req = r->bytes_alloc = UINT64_C(4096) << draw(4);
	r->cache = (uint16_t)draw_value(3, 16);
	r->gfp_flags = draw_value(4, 12);
	r->node = draw(3) ? -1 : (int32_t)draw(6);
}

/* Tasks run for some time; now and then one has what only the last form holds. */
static void make_record_of_task(struct made_event *event)
{
	static const char names[][sizeof(((struct event_task *)0)->comm)] = {
		"sh", "", "kworker/0:1", "a name of 16 ch", "\x01\xff", "sh\0garbage"};
	static struct event_task task;

	if (!draw(3)) {
		task = (struct event_task){.pid = (uint32_t)draw_value(22, draw(3) ? 22 : 32),
					   .tgid = (uint32_t)draw_value(15, draw(3) ? 22 : 32),
					   .cgroup = draw_value(20, draw(3) ? 20 : 64)};
		memcpy(task.comm, names[draw(8) % 6], sizeof(task.comm));
	}
	make_record(event);
	event->of_task.task = task;
}

static void make_call(struct made_event *event)
{
	struct function_event *call = &event->call;
	static const char names[][sizeof(call->comm)] = {"", "sh", "kworker/0:1", "a name of 16 ch",
							 "\x01\xff"};

	event->class = 0;
	call->ip = draw(6) ? 0xffffffff81000000 + draw(16) * 16 : draw(64);
	call->parent_ip = draw(6) ? 0xffffffff81000000 + draw(10) : draw(64);
	call->pid = (uint32_t)draw_value(15, 32);
	call->tgid = (uint32_t)draw_value(15, 32);
	call->cgroup = draw_value(12, 40);
	memcpy(call->comm, names[draw(8) % 5], sizeof(call->comm));
}

static void make_graph(struct made_event *event)
{
	make_call(event);
	event->class = (unsigned int)draw(8) % GRAPH_NR_CLASSES;
	event->graph.frame = draw(6) ? 0xffffc90000000000 + draw(16) * 8 : draw(64);
	if (!draw(4))
		event->graph.frame = 0xff11000000000000 + draw(40);
	event->graph.result = draw(1) ? (uint64_t)-12 : draw_value(32, 64);
	for (unsigned int i = 0, n = (unsigned int)draw(3); i < n; i++)
		event->chain.stack[i] = draw(6) ? 0xffffffff81000000 + draw(4) : 1 + draw(60);
}

static void make_syscall(struct made_event *event)
{
	struct syscall_event *call = &event->chain.call;

	make_graph(event);
	event->class = (unsigned int)draw(8) % SYSCALL_NR_CLASSES;
	call->call.result = draw(1) ? (uint64_t)-12 : draw_value(31, 64);
	if (!draw(3))
		call->call.frame = 0xff11000000000000 + draw(40);
	for (unsigned int i = 0; i < SYSCALL_ARGS; i++)
		call->args[i] = draw(2) ? draw(32) : draw_value(47, 64);
}

static void make_events(void (*make)(struct made_event *event))
{
	int64_t now = 1000;

	memset(events, 0, sizeof(events));
	for (unsigned int i = 0; i < EVENTS; i++) {
		make(&events[i]);
		now += (int64_t)draw(draw(6) ? 12 : 30);
		events[i].ns = draw(7) ? now : now - 5000;
	}
}

/* How many of the next events, up to a packet's end, are taken as a run; those of one class whose
 * times do not go back. */
static unsigned int put_run(struct stream_writer *w, unsigned int i)
{
	int64_t ns[FLUSH_EACH];
	struct event_run run = {
		.ns = ns, .bytes = (const uint8_t *)&events[i].record, .stride = sizeof(events[0])};
	unsigned int end = i - i % FLUSH_EACH + FLUSH_EACH;

	for (; i + run.n < end && i + run.n < EVENTS; run.n++) {
		if (events[i + run.n].class != events[i].class ||
		    (run.n && events[i + run.n].ns < ns[run.n - 1]))
			break;
		ns[run.n] = events[i + run.n].ns;
	}
	return (unsigned int)w->ops->put_run(w, events[i].class, &run);
}

/* Likewise of events of any classes. */
static unsigned int put_mix(struct stream_writer *w, unsigned int i)
{
	uint8_t classes[FLUSH_EACH];
	struct event_mix mix = {.classes = classes,
				.ns = &events[i].ns,
				.ns_stride = sizeof(events[0]),
				.bytes = (const uint8_t *)&events[i].record,
				.stride = sizeof(events[0])};
	unsigned int end = i - i % FLUSH_EACH + FLUSH_EACH;

	for (; i + mix.n < end && i + mix.n < EVENTS; mix.n++) {
		if (mix.n && events[i + mix.n].ns < events[i + mix.n - 1].ns)
			break;
		classes[mix.n] = (uint8_t)events[i + mix.n].class;
	}
	return (unsigned int)w->ops->put_mix(w, &mix);
}

static void put_events(struct stream_writer *w, enum way way)
{
	unsigned int taken;

	for (unsigned int i = 0; i < EVENTS; i += taken) {
		if (!w->ready && w->ops->prepare(w, events[i].ns))
			abort();
		taken = way == IN_RUNS ? put_run(w, i) : way == MIXED ? put_mix(w, i) : 0;
		nr_taken += taken;
		if (!taken && w->ops->put(w, events[i].class, events[i].ns, &events[i].record))
			abort();
		taken += !taken;
		if ((i + taken) % FLUSH_EACH == 0 && w->ops->flush(w))
			abort();
	}
}

/* The bytes of the stream that the events make; returns how many. */
static size_t write_stream(const struct event_class *classes, size_t nr_classes, bool big_endian,
			   enum way way, uint8_t *bytes)
{
	const struct ctf_identity identity = {.uuid = {7}, .big_endian = big_endian};
	const struct trace_instance instance = {
		.name = "kmem", .spec = "kmem", .classes = classes, .nr_classes = nr_classes};
	struct scratch dir = scratch_make();
	struct ctf_maker maker;
	ssize_t n;
	int fd;

	ctf_maker_init(&maker, dir.path, &identity, &instance);
	for (unsigned int i = 0; i < 7; i++)
		cache_table_id(&maker.caches, "cache", 8 * i, 16 * i);
	put_events(maker.stream, way);
	ctf_maker_flush(&maker);
	fd = openat(maker.input.dir_fd, "cpu0", O_RDONLY);
	n = read(fd, bytes, MAX_BYTES);
	close(fd);
	ctf_maker_deinit(&maker);
	scratch_remove(&dir);
	return n > 0 ? (size_t)n : 0;
}

/* A copy of a class is not known by its address. */
static void compare(const struct event_class *classes, size_t nr_classes, const char *label)
{
	static uint8_t known[MAX_BYTES], at_once[MAX_BYTES], any[MAX_BYTES];
	struct event_class copies[KMEM_NR_CLASSES];

	memcpy(copies, classes, nr_classes * sizeof(*copies));
	for (int big_endian = 0; big_endian < 2; big_endian++) {
		size_t n = write_stream(classes, nr_classes, big_endian, ONE_BY_ONE, known);
		size_t m = write_stream(copies, nr_classes, big_endian, ONE_BY_ONE, any);

		ok(n && n == m && !memcmp(known, any, n), "%s, %s-endian: the same bytes (%zu)",
		   label, big_endian ? "big" : "little", n);
		nr_taken = 0;
		m = write_stream(classes, nr_classes, big_endian, MIXED, at_once);
		ok(n == m && !memcmp(known, at_once, n),
		   "%s, %s-endian: the same bytes of several classes at once (%u)", label,
		   big_endian ? "big" : "little", nr_taken);
		ok((nr_taken == 0) == (big_endian != 0), "%s, %s-endian: some were, if little",
		   label, big_endian ? "big" : "little");
		nr_taken = 0;
		m = write_stream(classes, nr_classes, big_endian, IN_RUNS, at_once);
		ok(n == m && !memcmp(known, at_once, n),
		   "%s, %s-endian: the same bytes of runs (%u)", label,
		   big_endian ? "big" : "little", nr_taken);
	}
}

int main(void)
{
	char label[64];

	make_events(make_record);
	compare(kmem_classes, KMEM_NR_CLASSES, "kmem");
	make_events(make_record_of_task);
	for (unsigned int fields = 1; fields <= EVENT_TASK_ALL; fields++) {
		snprintf(label, sizeof(label), "kmem with fields 0x%x", fields);
		compare(kmem_classes_of(fields), KMEM_NR_CLASSES, label);
	}
	make_events(make_call);
	for (unsigned int fields = 0; fields < FUNCTION_SETS; fields++) {
		snprintf(label, sizeof(label), "functions with fields 0x%x", fields);
		compare(function_class(fields), 1, label);
		ok(!nr_taken, "%s, big-endian: no run is taken", label);
	}
	make_events(make_graph);
	for (unsigned int fields = 0; fields <= (GRAPH_ALL | GRAPH_STACK); fields += 2) {
		snprintf(label, sizeof(label), "a graph with fields 0x%x", fields);
		compare(graph_classes(fields), GRAPH_NR_CLASSES, label);
	}
	make_events(make_syscall);
	for (unsigned int fields = 0; fields <= (SYSCALL_ALL | SYSCALL_STACK); fields += 2) {
		snprintf(label, sizeof(label), "system calls with fields 0x%x", fields);
		compare(syscall_classes(fields), SYSCALL_NR_CLASSES, label);
	}
	return tap_done();
}
