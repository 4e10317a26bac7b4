/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "formats/cmd.h"
#include "formats/event/counters.h"
#include "formats/trace/sidecar.h"
#include "tests/lib/tap.h"
#include "tests/lib/trace-make.h"

enum { VALUE = 76543210 };

static const char count[] = "76,543,210", duration[] = "76 ms", bytes[] = "73.0 MiB";

/* A trace in which one counter is not 0. */
static struct scratch make_trace(enum counter_id id)
{
	const struct kmem_record record =
		make_alloc(KMEM_TYPE_KMALLOC, 0x100, 0x1000, 32, 32, 1000);
	struct sidecar_vcpu vcpu = {.allocs = 1};
	struct sidecar sidecar = {.complete = true, .vcpus = &vcpu, .nr_vcpus = 1};
	struct scratch dir = scratch_make();
	int fd = open(dir.path, O_RDONLY | O_DIRECTORY);

	sidecar.info.counters.v[id] = VALUE;
	stream_put(dir.path, 0, &record, 1);
	ok(!sidecar_write(fd, SIDECAR_NAME, &sidecar, NULL), "%s is written to a sidecar",
	   counter_table[id].key);
	close(fd);
	return dir;
}

static int load(const char *dir, struct sidecar **out, struct error *err)
{
	struct trace_files *files;
	int ret;

	if (trace_files_open(dir, &files, NULL))
		abort();
	ret = sidecar_load(files, out, err);
	trace_files_close(files);
	return ret;
}

static void check_sidecar(const char *dir, enum counter_id id)
{
	struct sidecar *sidecar = NULL;
	uint64_t others = 0;

	if (ok(!load(dir, &sidecar, NULL), "the sidecar with %s is read", counter_table[id].key)) {
		for (enum counter_id i = 0; i < COUNTER_COUNT; i++)
			others += i == id ? 0 : sidecar->info.counters.v[i];
		ok(sidecar->info.counters.v[id] == VALUE && !others,
		   "%s, and no other counter, is read from a sidecar", counter_table[id].key);
	}
	sidecar_destroy(sidecar);
}

static void check_verb(const char *dir, int (*verb)(int, char **), const char *name,
		       enum counter_id id)
{
	const struct counter *counter = &counter_table[id];
	const char *argv[] = {name, "--json", dir, NULL};
	json_t *root = verb_json(verb, argv);

	ok(json_integer_value(json_object_get(root, counter->key)) == VALUE,
	   "sonde %s --json has %s", name, counter->key);
	json_decref(root);
}

/* A detail is said with the row above it. */
static bool is_about_loss(enum counter_id id)
{
	while (counter_table[id].kind == COUNTER_DETAIL)
		id--;
	return counter_is_loss(id);
}

static void check_text(const char *dir, enum counter_id id)
{
	const struct counter *counter = &counter_table[id];
	const char *shown = counter->is_ns ? duration : counter->is_bytes ? bytes : count;
	const char *argv[] = {"report", "-v", dir, NULL};
	struct verb_result result = verb_run(cmd_report, argv);

	ok(strstr(result.out, shown), "sonde report shows %s", counter->key);
	verb_result_deinit(&result);
	result = verb_run(cmd_check, (const char *const[]){"check", dir, NULL});
	ok(!is_about_loss(id) == !strstr(result.out, shown),
	   "sonde check shows %s if events are missing by it", counter->key);
	verb_result_deinit(&result);
}

static void test_row(enum counter_id id)
{
	struct scratch dir = make_trace(id);

	check_sidecar(dir.path, id);
	check_verb(dir.path, cmd_report, "report", id);
	check_verb(dir.path, cmd_check, "check", id);
	check_text(dir.path, id);
	scratch_remove(&dir);
}

static void test_table(void)
{
	for (enum counter_id id = 0; id < COUNTER_COUNT; id++) {
		const struct counter *counter = &counter_table[id];
		size_t same = 0;

		if (!ok(counter->key && counter->kind < COUNTER_KIND_COUNT, "row %u is filled in",
			id))
			continue;
		ok(!counter_is_loss(id) == !counter->cause, "%s has a cause if it is a loss",
		   counter->key);
		for (enum counter_id i = 0; i < COUNTER_COUNT; i++)
			same += !strcmp(counter->key, counter_table[i].key);
		is_u64(same, 1, "no two rows have the same key");
	}
}

static void test_text(void)
{
	struct trace_counters c = {{[COUNTER_LOST] = 1239,
				    [COUNTER_RING_DROPS] = 1234,
				    [COUNTER_SAMPLINGS] = 1,
				    [COUNTER_UNSAMPLED_NS] = 500000000,
				    [COUNTER_TRACING_NS] = 2000000000,
				    [COUNTER_NULL_FREES] = 1,
				    [COUNTER_NESTED] = 2}};
	char text[COUNTER_TEXT_MAX];

	ok(counter_text(&c, COUNTER_RING_DROPS, text, sizeof(text)), "a loss has a text");
	is_str(text, "1,234 events: ring full", "the text of a loss names number and cause");
	counter_text(&c, COUNTER_LOST, text, sizeof(text));
	is_str(text, "5 events: not captured", "a sum is shown without the parts that have rows");
	counter_text(&c, COUNTER_SAMPLINGS, text, sizeof(text));
	is_str(text,
	       "1 gap (500 ms of 2,000 ms, 25.0 %): this is a sample, as more calls came than "
	       "--max-rate",
	       "a gap is compared with the time of tracing");
	ok(!counter_text(&c, COUNTER_OVERRUNS, text, sizeof(text)),
	   "a counter that is 0 has no text");
	counters_text(&c, COUNTER_LEFT_OUT, text, sizeof(text));
	is_str(text, "1 NULL free, 2 nested calls",
	       "all counters of a kind are listed, in singular and plural");
	counters_text(&c, COUNTER_LEFT_OUT, text, 8);
	is_str(text, "1 NULL ", "a text is cut to its buffer");
	is_u64(counters_lost(&c), 1239, "parts of a loss are not counted twice");
	counters_lost_text(&c, text, sizeof(text));
	is_str(text, "1,239 lost outside the gaps", "what happened in gaps is not known");
	ok(counters_are_lossy(&c), "a loss or gap makes a trace lossy");
	c = (struct trace_counters){{[COUNTER_NULL_FREES] = 1}};
	ok(!counters_are_lossy(&c), "what was left out does not make a trace lossy");
	counters_lost_text(&c, text, sizeof(text));
	is_str(text, "0 lost", "without a gap nothing is missing");
}

static void test_sums(void)
{
	struct trace_counters sum = {{[COUNTER_TRAPS] = UINT64_MAX - 1, [COUNTER_LOST] = 1}};

	counters_add(&sum, &sum);
	is_u64(sum.v[COUNTER_TRAPS], UINT64_MAX, "a sum does not wrap");
	is_u64(sum.v[COUNTER_LOST], 2, "counters are added");
}

static void test_hostile(void)
{
	static const char *const texts[] = {"{\"lost\":-1}", "{\"lost\":\"1\"}", "{\"lost\":1.5}"};
	struct trace_counters counters = {{[COUNTER_TRAPS] = 3}};

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		json_t *root = json_loads(texts[i], 0, NULL);

		ok(counters_get(root, &counters) == -EINVAL, "%s is refused", texts[i]);
		json_decref(root);
	}
	ok(!counters_get(NULL, &counters) && counters.v[COUNTER_TRAPS] == 3,
	   "counters that are not there stay as they are");
}

int main(void)
{
	test_table();
	test_text();
	test_sums();
	test_hostile();
	for (enum counter_id id = 0; id < COUNTER_COUNT; id++)
		test_row(id);
	return tap_done();
}
