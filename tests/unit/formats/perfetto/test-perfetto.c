/* SPDX-License-Identifier: GPL-2.0-or-later */
/* protoc as judge of the export for Perfetto: with the published fields it reads the events. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include "formats/event/graph.h"
#include "formats/heap/heap.h"
#include "formats/trace/writer.h"
#include "tests/lib/event-lines.h"
#include "tests/lib/export-make.h"
#include "tests/lib/tap.h"
#include "tests/lib/tool.h"

enum {
	MAX_NAMES = 4096,
	NAME_BYTES = 256,
	FIELDS_BYTES = 4096,
	DEPTH = 8,
	MAX_TRACKS = 8192,
	THREAD_TRACKS = 2048, /* here: behind the vCPUs' */
	BELOW_TRACKS = 4096,  /* those of other instances */
};

/* What protoc has printed so far: the messages that are open, and what numbers stand for. */
struct decoded {
	struct event_lines events;
	char open[DEPTH][64];
	int depth;
	char (*categories)[NAME_BYTES], (*names)[NAME_BYTES], (*fields)[NAME_BYTES],
		(*strings)[NAME_BYTES];
	uint64_t iid; /* of the entry at hand */
	/* Of the packet at hand: */
	uint64_t ns, track, category, name;
	char values[FIELDS_BYTES];
	char tracks[MAX_TRACKS][32];
	const char *slice; /* what an event is of one, with a blank; "": an instant */
	uint64_t pid, tid; /* of the thread that was described last */
	unsigned int threads;
	unsigned int cleared, needs_state, others;
	bool is_counter, is_about;
	char about[NAME_BYTES]; /* the event of the root track */
	uint64_t value;
	uint64_t counters[3]; /* the last values */
	unsigned int nr_counters;
};

static char *name_at(char (*names)[NAME_BYTES], uint64_t iid)
{
	if (iid >= MAX_NAMES)
		abort();
	return names[iid];
}

/* protoc's string: quoted, with escapes. */
static void unquote(char *out, const char *text)
{
	const char *at = text + 1;

	for (; *at && *at != '"'; at++) {
		if (*at == '\\' && at[1] >= '0' && at[1] <= '7') {
			*out++ = (char)strtoul((char[]){at[1], at[2], at[3], 0}, NULL, 8);
			at += 3;
		} else {
			*out++ = *at == '\\' ? *++at : *at;
		}
	}
	*out = '\0';
}

static void add_value(struct decoded *d, const char *text)
{
	snprintf(d->values + strlen(d->values), FIELDS_BYTES - strlen(d->values), "%s", text);
}

static void take_annotation(struct decoded *d, const char *key, const char *value)
{
	char text[NAME_BYTES + EVENT_TEXT_ROOM];

	if (!strcmp(key, "name_iid")) {
		snprintf(text, sizeof(text),
			 " %.250s=", name_at(d->fields, strtoull(value, NULL, 10)));
		add_value(d, text);
	} else if (!strcmp(key, "string_value_iid")) {
		add_value(d, name_at(d->strings, strtoull(value, NULL, 10)));
	} else if (!strcmp(key, "string_value")) {
		unquote(text, value);
		add_value(d, text);
	} else {
		add_value(d, value);
	}
}

/* Tracks of threads have large numbers. */
static uint64_t track_of(uint64_t uuid)
{
	if (uuid >> 48)
		return BELOW_TRACKS + track_of(uuid & (UINT64_MAX >> 16));
	return uuid >> 32 ? THREAD_TRACKS + uuid % (BELOW_TRACKS - THREAD_TRACKS) : uuid;
}

static void take_thread(struct decoded *d, const char *key, const char *value)
{
	char name[NAME_BYTES] = "";

	if (!strcmp(key, "pid"))
		d->pid = strtoull(value, NULL, 10);
	else if (!strcmp(key, "tid"))
		d->tid = strtoull(value, NULL, 10);
	if (strcmp(key, "thread_name"))
		return;
	unquote(name, value);
	d->threads += d->pid == d->tid;
	snprintf(d->tracks[d->track], sizeof(d->tracks[0]), "%llu-%.16s",
		 (unsigned long long)d->tid, name);
}

static void take_type(struct decoded *d, const char *type)
{
	d->is_counter = !strcmp(type, "TYPE_COUNTER");
	d->slice = !strcmp(type, "TYPE_SLICE_BEGIN") ? "begin "
		   : !strcmp(type, "TYPE_SLICE_END") ? "end "
						     : "";
}

static void take_track_event(struct decoded *d, const char *key, const char *value)
{
	const uint64_t number = strtoull(value, NULL, 10);

	if (!strcmp(key, "track_uuid"))
		d->track = track_of(number);
	else if (!strcmp(key, "category_iids"))
		d->category = number;
	else if (!strcmp(key, "name_iid"))
		d->name = number;
	else if (!strcmp(key, "type"))
		take_type(d, value);
	else if (!strcmp(key, "counter_value"))
		d->value = number;
	else if (!strcmp(key, "name"))
		unquote(d->about, value), d->is_about = true;
	else
		d->others++;
}

static void take_entry(struct decoded *d, const char *kind, const char *key, const char *value)
{
	char(*names)[NAME_BYTES] = !strcmp(kind, "event_categories")         ? d->categories
				   : !strcmp(kind, "event_names")            ? d->names
				   : !strcmp(kind, "debug_annotation_names") ? d->fields
									     : d->strings;

	if (!strcmp(key, "iid"))
		d->iid = strtoull(value, NULL, 10);
	else
		unquote(name_at(names, d->iid), value);
}

static void take_number(struct decoded *d, const char *key, const char *value)
{
	const char *message = d->depth ? d->open[d->depth - 1] : "";

	if (!strcmp(message, "debug_annotations"))
		take_annotation(d, key, value);
	else if (!strcmp(message, "track_event"))
		take_track_event(d, key, value);
	else if (d->depth > 1 && !strcmp(d->open[d->depth - 2], "interned_data"))
		take_entry(d, message, key, value);
	else if (!strcmp(key, "timestamp"))
		d->ns = strtoull(value, NULL, 10);
	else if (!strcmp(key, "sequence_flags"))
		d->cleared += !strcmp(value, "1"), d->needs_state += !strcmp(value, "2");
	else if (!strcmp(message, "track_descriptor") && !strcmp(key, "uuid"))
		d->track = track_of(strtoull(value, NULL, 10));
	else if (!strcmp(message, "thread"))
		take_thread(d, key, value);
	else if (!strcmp(message, "track_descriptor") && !strcmp(key, "name") &&
		 d->track < MAX_TRACKS)
		unquote(d->tracks[d->track], strlen(value) < 30 ? value : "\"\"");
	else if (key[0] >= '0' && key[0] <= '9')
		d->others++;
}

static void end_message(struct decoded *d)
{
	const char *track = d->tracks[d->track % MAX_TRACKS];

	if (strcmp(d->open[--d->depth], "track_event"))
		return;
	if (d->is_about) {
		d->is_about = false;
		return;
	}
	if (d->is_counter) {
		static const char *const names[] = {"kmem: memory in use", "kmem: slabs",
						    "kmem: slab objects"};

		for (unsigned int i = 0; i < 3; i++)
			if (!strcmp(track, names[i]))
				d->counters[i] = d->value;
		d->nr_counters++;
		return;
	}
	event_lines_add(&d->events, "%s %" PRIu64 " %s%s %s%s", track, d->ns, d->slice,
			name_at(d->categories, d->category), name_at(d->names, d->name), d->values);
	d->values[0] = '\0';
	d->category = d->name = 0;
}

static void take_line(struct decoded *d, char *line)
{
	char *key = line + strspn(line, " "), *colon = strstr(key, ": ");

	if (*key == '}') {
		end_message(d);
	} else if (!colon) {
		snprintf(d->open[d->depth++], sizeof(d->open[0]), "%.*s", (int)strcspn(key, " "),
			 key);
	} else {
		*colon = '\0';
		take_number(d, key, colon + 2);
	}
}

/* "TID-COMM" of an event's fields in a line, in which the function follows; "" if it has none, or
 * is that of an idle task. */
static void thread_of(const char *line, char *out, size_t size)
{
	const char *pid = strstr(line, " pid="), *comm = strstr(line, " comm=");
	unsigned long tid = pid ? strtoul(pid + strlen(" pid="), NULL, 10) : 0;

	out[0] = '\0';
	if (tid && comm)
		snprintf(out, size, "%lu-%.*s", tid,
			 (int)(strstr(comm, " ip=") - comm - (long)strlen(" comm=")),
			 comm + strlen(" comm="));
}

/* The trace's own lines in the words of this export: "vCPU 0", no system in front of the name; the
 * thread in front of it, and the vCPU as a field, if the event has one. */
static void make_wanted(struct event_lines *want, const char *dir)
{
	struct event_lines lines = {0};

	event_lines_of_trace(&lines, dir);
	for (size_t i = 0; i < lines.n; i++) {
		char *colon = strchr(lines.at[i], ':'), *system = colon, *fields;
		char thread[64];

		thread_of(lines.at[i], thread, sizeof(thread));
		while (system[-1] != ' ')
			system--;
		fields = colon + 1 + strcspn(colon + 1, " ");
		if (!thread[0])
			event_lines_add(want, "vCPU %.*s%s", (int)(system - lines.at[i]),
					lines.at[i], colon + 1);
		else
			event_lines_add(want, "%s %.*s%.*s vcpu=%.*s%s", thread,
					(int)(system - strchr(lines.at[i], ' ') - 1),
					strchr(lines.at[i], ' ') + 1, (int)(fields - colon - 1),
					colon + 1, (int)strcspn(lines.at[i], " "), lines.at[i],
					fields);
		free(lines.at[i]);
	}
	free(lines.at);
}

static int ignore(void *arg, const struct heap_change *change)
{
	(void)arg;
	(void)change;
	return 0;
}

/* The counters end where the heap does. */
static void test_counters(const struct decoded *d, const char *dir)
{
	struct trace_reader *reader;
	struct heap *heap = heap_create(NULL, ignore, NULL);
	struct kmem_record record;
	struct event event;

	if (trace_reader_open(dir, &reader, NULL) || !heap)
		abort();
	while (trace_reader_next(reader, &event, NULL) > 0)
		if (kmem_record_of(&event, &record))
			heap_apply(heap, &record, event.vcpu, true);
	ok(d->nr_counters > 300, "counters follow the events of kmem");
	is_u64(d->counters[0], heap_live_bytes(heap), "the last value is the memory in use");
	is_u64(d->counters[1], heap_totals(heap)->pages[HEAP_SLAB].bytes, "that of the slabs");
	is_u64(d->counters[2], heap_totals(heap)->objects[HEAP_IN_SLAB].bytes,
	       "that of the objects in them");
	heap_destroy(heap);
	trace_reader_close(reader);
}

static struct decoded *decode(const char *file)
{
	struct decoded *d = calloc(1, sizeof(*d));
	char *text;

	d->categories = calloc(4 * MAX_NAMES, NAME_BYTES);
	d->names = d->categories + MAX_NAMES;
	d->fields = d->names + MAX_NAMES;
	d->strings = d->fields + MAX_NAMES;
	is_u64((uint64_t)tool_run(&text,
				  "protoc --proto_path=tests/unit/formats/export/data "
				  "--decode=Trace perfetto.proto < '%s'",
				  file),
	       0, "protoc decodes the file with the published fields");
	for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n"))
		take_line(d, line);
	free(text);
	return d;
}

static void free_decoded(struct decoded *d)
{
	free(d->categories);
	free(d);
}

static void test_events(const char *dir, const char *file)
{
	struct decoded *d = decode(file);
	struct event_lines want = {0};

	make_wanted(&want, dir);
	event_lines_compare(&d->events, &want, "protoc");
	is_u64(d->others, 0, "there are no other fields");
	is_u64(d->cleared, 1, "the sequence begins with a clear state");
	ok(d->needs_state > EXPORT_MAKE_EVENTS, "packets that use names say that they need it");
	ok(d->threads > 0, "a thread of no known process is described as one of its own");
	test_counters(d, dir);
	is_str(d->about, "up to 7 events are missing",
	       "an event of its own says how many are missing from the counters");
	free_decoded(d);
}

/* --- slabs and large objects ----------------------------------------------------------------- */

enum { SLAB_SITE = 0x500, LARGE_SITE = 0x600, OBJECT_SITE = 0x700, LARGE_BYTES = 4 * 4096 };

static void put_alloc(struct trace_writer *writer, enum kmem_type_id type, uint64_t ptr,
		      uint64_t call_site, uint64_t bytes)
{
	static int64_t ns = 1000;
	const struct kmem_record record =
		make_alloc(type, ptr, call_site, bytes, bytes, ns += 1000);

	if (trace_writer_append(writer, 0, &record))
		abort();
}

static int name_slab_site(void *arg, uint64_t address, struct site_function *out)
{
	(void)arg;
	*out = (struct site_function){.name = "allocate_slab", .start = SLAB_SITE, .size = 1};
	return address == SLAB_SITE ? 0 : -1;
}

/* Slabs with an object each, an object in no page of the trace, and a large one. */
static void make_slabs(const char *dir)
{
	static const struct trace_info info = {.mode = "exitless", .page_size = 4096};
	struct trace_writer *writer;

	if (trace_writer_create(dir, 1, 0, &info, &writer, NULL) ||
	    trace_writer_add_instance(writer, &kmem_instance, NULL))
		abort();
	for (uint64_t ptr = 0x10000; ptr < 0x50000; ptr += 0x10000) {
		put_alloc(writer, KMEM_TYPE_PAGES, ptr, SLAB_SITE, 4096);
		put_alloc(writer, KMEM_TYPE_KMALLOC, ptr + 256, OBJECT_SITE, 256);
	}
	put_alloc(writer, KMEM_TYPE_KMALLOC, 0x60000, OBJECT_SITE, 64);
	put_alloc(writer, KMEM_TYPE_PAGES, 0x80000, LARGE_SITE, LARGE_BYTES);
	put_alloc(writer, KMEM_TYPE_KMALLOC, 0x80000, LARGE_SITE, LARGE_BYTES);
	if (trace_writer_finish(writer, &info, name_slab_site, NULL, NULL))
		abort();
	trace_writer_destroy(writer);
}

static void test_slabs(const char *dir, const char *file)
{
	struct decoded *d;

	make_slabs(dir);
	export_make_convert(dir, "perfetto", file, NULL);
	d = decode(file);
	is_u64(d->counters[0], 4 * 4096 + LARGE_BYTES + 64, "memory in use counts each byte once");
	is_u64(d->counters[1], UINT64_C(4) * 4096, "large objects are no slabs");
	is_u64(d->counters[2], UINT64_C(4) * 256,
	       "slab objects are those in slabs: no large ones, and none elsewhere");
	event_lines_free(&d->events);
	free_decoded(d);
}

/* --- calls ----------------------------------------------------------------------------------- */

static void put_call(struct trace_writer *writer, int instance, unsigned int class, int64_t ns,
		     uint64_t ip, uint64_t frame, uint64_t result)
{
	const bool is_return = class == 1; /* GRAPH_EXIT, SYSCALL_EXIT */

	trace_put(writer, instance, class, ns,
		  &(struct syscall_event){.call = {.call = {.ip = is_return ? 0 : ip,
							    .parent_ip = is_return ? 0 : 0x10,
							    .pid = 7},
						   .frame = frame,
						   .result = result}});
}

/* 0xc has a name, of which system calls have a part. */
static int symbolize(void *arg, uint64_t address, struct site_function *out)
{
	(void)arg;
	*out = (struct site_function){.name = "__x64_sys_read", .start = 0xc, .size = 1};
	return address == 0xc ? 0 : -1;
}

/* 0xa makes two calls: of one the return is not in the trace. */
static void make_calls(const char *dir)
{
	static const struct trace_info info = {.mode = "exitless", .page_size = 4096};
	const struct trace_instance graph = {.name = "graph",
					     .spec = "graph:ret",
					     .classes = graph_classes(GRAPH_RESULT),
					     .nr_classes = GRAPH_NR_CLASSES};
	const struct trace_instance sys = {.name = "sys",
					   .spec = "syscalls",
					   .classes = syscall_classes(0),
					   .nr_classes = SYSCALL_NR_CLASSES};
	struct trace_writer *writer;

	if (trace_writer_create(dir, 1, 0, &info, &writer, NULL) ||
	    trace_writer_add_instance(writer, &graph, NULL) != 0 ||
	    trace_writer_add_instance(writer, &sys, NULL) != 1)
		abort();
	put_call(writer, 1, SYSCALL_ENTER, 1000, 0xc, 0x8000, 0);
	put_call(writer, 0, GRAPH_EXIT, 1500, 0, 0x9000, 1);
	put_call(writer, 0, GRAPH_ENTRY, 2000, 0xa, 0x7f00, 0);
	put_call(writer, 0, GRAPH_ENTRY, 3000, 0xb, 0x7e00, 0);
	put_call(writer, 0, GRAPH_EXIT, 4000, 0, 0x7e00, 2);
	put_call(writer, 0, GRAPH_ENTRY, 5000, 0xc, 0x7e00, 0);
	put_call(writer, 0, GRAPH_EXIT, 6000, 0, 0x7f00, 3);
	put_call(writer, 1, SYSCALL_EXIT, 7000, 0, 0x8000, 4);
	if (trace_writer_finish(writer, &info, symbolize, NULL, NULL))
		abort();
	trace_writer_destroy(writer);
}

/* The thread has no name, so that its track has none here. */
static void test_slices(const char *dir, const char *file)
{
	static const char *const lines[] = {
		"sys 1000 begin sys read vcpu=0 pid=7 ip=__x64_sys_read",
		"vCPU 0 1500 graph exit frame=36864 result=1",
		" 2000 begin graph 0xa vcpu=0 pid=7 ip=0xa",
		" 3000 begin graph 0xb vcpu=0 pid=7 ip=0xb",
		" 4000 end   return_vcpu=0 frame=32256 result=2",
		" 5000 begin graph __x64_sys_read vcpu=0 pid=7 ip=__x64_sys_read",
		" 6000 end   no_return=unseen",
		" 6000 end   return_vcpu=0 frame=32512 result=3",
		"sys 7000 end   return_vcpu=0 ",
	};
	struct decoded *d;

	make_calls(dir);
	export_make_convert(dir, "perfetto", file, NULL);
	d = decode(file);
	is_u64(d->events.n, sizeof(lines) / sizeof(lines[0]), "calls are slices of two events");
	for (size_t i = 0; i < d->events.n && i < sizeof(lines) / sizeof(lines[0]); i++)
		if (!ok(!strncmp(d->events.at[i], lines[i], strlen(lines[i])), "%s", lines[i]))
			tap_diag("%s", d->events.at[i]);
	is_u64(d->others, 0, "there are no other fields");
	event_lines_free(&d->events);
	free_decoded(d);
}

int main(void)
{
	struct scratch dir = scratch_make();
	char trace[128], file[128];

	if (!tool_exists("protoc"))
		return tap_skip_all("protoc is not installed");
	snprintf(trace, sizeof(trace), "%s/trace", dir.path);
	snprintf(file, sizeof(file), "%s/perfetto", dir.path);
	export_make(trace);
	export_make_convert(trace, "perfetto", file, NULL);
	test_events(trace, file);
	snprintf(trace, sizeof(trace), "%s/calls", dir.path);
	snprintf(file, sizeof(file), "%s/slices", dir.path);
	test_slices(trace, file);
	snprintf(trace, sizeof(trace), "%s/memory", dir.path);
	snprintf(file, sizeof(file), "%s/counters", dir.path);
	test_slabs(trace, file);
	scratch_remove(&dir);
	return tap_done();
}
