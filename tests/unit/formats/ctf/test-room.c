/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Runs of events that have told a packet's tables of their values before the last one turns out to
 * have no id, so that they are written in full: no packet gets more than it has room for. */
#include <stdlib.h>
#include "formats/trace/reader.h"
#include "tests/lib/ctf-make.h"
#include "tests/lib/tap.h"
#include "tests/lib/trace-make.h"

enum {
	ADDRESSES = 24,
	RUN = 128,
	IDS = 65535,
	FILLING = IDS / ADDRESSES + 1, /* events that take all ids */
	EVENTS = FILLING + 80000,
	SEED = 21,
};

static struct event_field fields[ADDRESSES];
static char names[ADDRESSES][8];
static const struct event_class class = {.system = "any",
					 .name = "addresses",
					 .fields = fields,
					 .nr_fields = ADDRESSES,
					 .size = ADDRESSES * sizeof(uint64_t),
					 .nr_forms = 2};
static uint64_t events[EVENTS][ADDRESSES];

static void make_class(void)
{
	for (unsigned int i = 0; i < ADDRESSES; i++) {
		snprintf(names[i], sizeof(names[i]), "a%u", i);
		fields[i] = (struct event_field){.name = names[i],
						 .type = EVENT_CODE,
						 .size = sizeof(uint64_t),
						 .at = (uint16_t)(i * sizeof(uint64_t)),
						 .bits = {16, 64}};
	}
}

static unsigned int rand_of_run(unsigned int event)
{
	unsigned int seed = SEED + event / RUN;

	return (unsigned int)rand_r(&seed);
}

/* Those that are not near take most room in tables. */
static uint64_t address(unsigned int i)
{
	return 0xffffc90000000000 + 16 * (uint64_t)i;
}

/* Now and then a run of values that the packet does not have yet. */
static void make_events(void)
{
	unsigned int next = 0;

	for (unsigned int i = 0; i < EVENTS; i++) {
		const bool is_new = i < FILLING || rand_of_run(i) % 10 == 0;

		for (unsigned int k = 0; k < ADDRESSES; k++)
			events[i][k] = address(is_new ? next++ % IDS : k);
		if (i >= FILLING)
			events[i][ADDRESSES - 1] = address(2 * IDS + i);
	}
}

static void put_run(struct stream_writer *w, unsigned int i, unsigned int n)
{
	int64_t ns[RUN];
	struct event_run run = {n, ns, (const uint8_t *)events[i], sizeof(events[0])};
	size_t taken;

	for (unsigned int k = 0; k < n; k++)
		ns[k] = i + k;
	for (size_t done = 0; done < n; done += taken) {
		const struct event_run rest = event_run_rest(&run, done);

		if (!w->ready && w->ops->prepare(w, *rest.ns))
			abort();
		taken = w->ops->put_run(w, 0, &rest);
		if (!taken && w->ops->put(w, 0, *rest.ns, rest.bytes))
			abort();
		taken += !taken;
	}
}

static void write_events(const char *dir)
{
	const struct ctf_identity identity = {.uuid = {7}};
	const struct trace_instance instance = {
		.name = "any", .spec = "any", .classes = &class, .nr_classes = 1};
	const struct sidecar none = {0};
	struct ctf_maker maker;

	ctf_maker_init(&maker, dir, &identity, &instance);
	for (unsigned int i = 0; i < EVENTS; i += RUN)
		put_run(maker.stream, i, EVENTS - i < RUN ? EVENTS - i : RUN);
	ctf_maker_flush(&maker);
	if (maker.encoder->ops->describe(maker.encoder, &none, NULL))
		abort();
	ctf_maker_deinit(&maker);
}

static unsigned int count_same(const char *dir)
{
	struct trace_reader *reader;
	struct event event;
	unsigned int n = 0;

	if (trace_reader_open(dir, &reader, NULL))
		return 0;
	while (n < EVENTS && trace_reader_next(reader, &event, NULL) == 1 &&
	       !memcmp(event.bytes, events[n], sizeof(events[n])))
		n++;
	trace_reader_close(reader);
	return n;
}

int main(void)
{
	struct scratch dir = scratch_make();

	make_class();
	make_events();
	write_events(dir.path);
	is_u64(count_same(dir.path), EVENTS, "all events come back");
	scratch_remove(&dir);
	return tap_done();
}
