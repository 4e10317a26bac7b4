/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <stdlib.h>
#include <string.h>
#include "formats/ctf/ctf.h"
#include "formats/ctf/v2.h"
#include "formats/event/function.h"
#include "formats/event/kmem.h"
#include "formats/trace/reader.h"
#include "tests/lib/consume.h"

/*
 * First byte: 0 for a metadata text ('#' in the corpus, which says the same); 1 for a stream as it
 * is, little-endian; 2 and 3 for packets, in either byte order: for each a length byte, a byte that
 * says which number in its header to put wrong, one that says where the tables begin, and that many
 * bytes of content, with the right checksum, so that decoding gets past the header. 4 to 6: the
 * same in format version 2. Bit 7: the stream is one of the function tracer; else bit 6: of kmem
 * with all of the task and a stack; both: of events with long strings.
 */
enum { MAX_STREAM = 64 << 10, VERSION_2 = 4, NR_KINDS = 7, FUNCTIONS = 0x80, CHAINS = 0x40 };
enum { NR_INSTANCES = 4 };

static const char *const stream_names[NR_INSTANCES] = {"cpu0", "cpu0.calls", "cpu0.chains",
						       "cpu0.strings"};

static const struct event_field string_fields[] = {
	{.name = "pid", .type = EVENT_UINT, .size = 4, .bits = {24, 32}},
	{.name = "name", .type = EVENT_LONG_STRING, .size = 1, .at = 8, .bits = {8, 8}},
	{.name = "to",
	 .type = EVENT_LONG_STRING,
	 .size = 1,
	 .at = 8 + EVENT_LONG_STRING_MAX,
	 .bits = {8, 8}}};
static const struct event_class string_class = {.system = "my",
						.name = "renamed",
						.fields = string_fields,
						.nr_fields = 3,
						.size = 8 + 2 * EVENT_LONG_STRING_MAX,
						.nr_forms = 2};

static char *metadata(bool big_endian)
{
	static char *texts[2];
	static const struct sidecar none;
	const struct trace_instance abouts[NR_INSTANCES] = {
		{.name = "kmem",
		 .spec = "kmem",
		 .classes = kmem_classes,
		 .nr_classes = KMEM_NR_CLASSES},
		{.name = "calls",
		 .spec = "function",
		 .classes = function_class(FUNCTION_ALL),
		 .nr_classes = 1},
		{.name = "chains",
		 .spec = "kmem:stack",
		 .classes = kmem_classes_of(EVENT_TASK_ALL | EVENT_TASK_STACK),
		 .nr_classes = KMEM_NR_CLASSES},
		{.name = "strings", .spec = "probe", .classes = &string_class, .nr_classes = 1}};
	struct ctf_instance_ids ids[NR_INSTANCES] = {{.about = &abouts[0], .suffix = ""},
						     {.about = &abouts[1], .suffix = ".calls"},
						     {.about = &abouts[2], .suffix = ".chains"},
						     {.about = &abouts[3], .suffix = ".strings"}};
	const struct ctf_metadata all = {.identity.big_endian = big_endian,
					 .sidecar = &none,
					 .instances = ids,
					 .nr_instances = NR_INSTANCES};

	if (texts[big_endian])
		return texts[big_endian];
	for (unsigned int i = 0; i < NR_INSTANCES; i++)
		ids[i].plan = ctf_plan_create(ids[i].about->classes, ids[i].about->nr_classes);
	texts[big_endian] = ctf_metadata_text(&all);
	if (!texts[big_endian])
		abort();
	for (unsigned int i = 0; i < NR_INSTANCES; i++)
		free((void *)(uintptr_t)ids[i].plan);
	return texts[big_endian];
}

static char *metadata_v2(bool big_endian)
{
	static char *texts[2];
	char *layout;

	if (texts[big_endian])
		return texts[big_endian];
	layout = v2_layout_text();
	if (!layout || asprintf(&texts[big_endian],
				"/* CTF 1.8 */\nuuid = \"00000000-0000-0000-0000-000000000000\";\n"
				"byte_order = %s;\ntracer_name = \"sonde\";\nsonde_format = 2;\n%s",
				big_endian ? "be" : "le", layout) < 0)
		abort();
	free(layout);
	return texts[big_endian];
}

static struct trace_reader *open_stream(const struct trace_memory_file files[2])
{
	struct trace_reader *reader;

	if (trace_reader_open_memory(files, 2, &reader, NULL))
		abort();
	return reader;
}

static bool are_same(const struct event *a, const struct event *b)
{
	return a->ns == b->ns && a->vcpu == b->vcpu && a->index == b->index &&
	       a->offset == b->offset && !strcmp(a->class->name, b->class->name) &&
	       !memcmp(a->bytes, b->bytes, a->class->size);
}

static void compare_ends(const struct trace_reader *a, const struct trace_reader *b)
{
	struct trace_stream_info x, y;

	for (size_t i = 0; i < trace_reader_nr_streams(a); i++) {
		trace_reader_stream_info(a, i, &x);
		trace_reader_stream_info(b, i, &y);
		if (x.records != y.records || x.offset != y.offset || x.fault != y.fault ||
		    x.lost != y.lost || x.nr_damages != y.nr_damages ||
		    x.damaged_bytes != y.damaged_bytes)
			abort();
	}
}

/* One event at a time and in runs, the same is read. */
static void compare_runs(const struct trace_memory_file files[2])
{
	struct trace_reader *single = open_stream(files), *runs = open_stream(files);
	struct event a, b;
	int more;

	trace_reader_read_ahead(runs, 0);
	do {
		more = trace_reader_next(single, &a, NULL);
		if (trace_reader_next(runs, &b, NULL) != more || (more > 0 && !are_same(&a, &b)) ||
		    trace_reader_cut(single) != trace_reader_cut(runs))
			abort();
	} while (more > 0);
	compare_ends(single, runs);
	trace_reader_close(single);
	trace_reader_close(runs);
}

static void read_stream(const char *text, const char *name, const uint8_t *bytes, size_t size)
{
	const struct trace_memory_file files[] = {{"metadata", text, strlen(text)},
						  {name, bytes, size}};
	struct trace_reader *reader = open_stream(files);

	compare_runs(files);
	trace_reader_read_ahead(reader, 0);
	consume_trace(reader);
	trace_reader_close(reader);
}

static void spoil(struct ctf_packet *packet, uint8_t how)
{
	uint64_t *const numbers[] = {&packet->begin, &packet->end,      &packet->content,
				     &packet->size,  &packet->sequence, &packet->lost};

	if (how % 16 < sizeof(numbers) / sizeof(numbers[0]))
		*numbers[how % 16] += (uint64_t)(how / 16) - 8;
}

/* How packets are made of the data. */
struct shape {
	bool v2, big_endian;
	uint32_t stream;
	size_t header; /* bytes */
};

static void put_packet(uint8_t *out, const struct shape *shape, struct ctf_packet *packet,
		       const uint8_t *content, size_t length)
{
	const struct ctf_identity identity = {.big_endian = shape->big_endian};

	memset(out, 0, CTF_PACKET_HEADER_SIZE);
	packet->crc = 0;
	ctf_packet_put(out, &identity, packet);
	memcpy(out + shape->header, content, length);
	if (shape->v2)
		return;
	packet->crc = ctf_packet_crc(out, shape->header + length);
	ctf_packet_put(out, &identity, packet);
}

static void read_packets(const uint8_t *data, size_t size, const struct shape *shape)
{
	const char *name = stream_names[shape->stream];
	uint8_t *stream = malloc(MAX_STREAM);
	struct ctf_packet packet = {.stream = shape->stream};
	size_t used = 0;

	if (!stream)
		abort();
	while (size > 3 && used < MAX_STREAM - 512) {
		size_t length = data[0] < size - 3 ? data[0] : size - 3;

		packet.begin = packet.end;
		packet.end += 1u << 28;
		packet.size = shape->header + length;
		packet.content = packet.size * 8;
		packet.tables = (uint32_t)(shape->header + data[2]);
		spoil(&packet, data[1]);
		put_packet(stream + used, shape, &packet, data + 3, length);
		packet.sequence++;
		used += shape->header + length;
		data += 3 + length;
		size -= 3 + length;
	}
	read_stream(shape->v2 ? metadata_v2(shape->big_endian) : metadata(shape->big_endian), name,
		    stream, used);
	free(stream);
}

static void read_metadata(const uint8_t *data, size_t size)
{
	struct ctf_described described;
	struct error err;

	if (!ctf_metadata_parse(data, size, &described, &err))
		ctf_described_deinit(&described);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const uint32_t streams[] = {0, 2, 1, 3}; /* by bits 7 and 6 */
	unsigned int kind = size ? (data[0] & ~(FUNCTIONS | CHAINS)) % NR_KINDS : 0;
	struct shape shape = {.v2 = kind >= VERSION_2,
			      .big_endian = kind == 3 || kind == 6,
			      .header = CTF_PACKET_HEADER_SIZE};

	if (!size)
		return 0;
	if (shape.v2)
		shape.header = CTF_V2_PACKET_HEADER_SIZE;
	else
		shape.stream = streams[data[0] >> 6];
	if (kind == 0)
		read_metadata(data + 1, size - 1);
	else if (kind == 1)
		read_stream(metadata(false), stream_names[shape.stream], data + 1, size - 1);
	else if (kind == VERSION_2)
		read_stream(metadata_v2(false), "cpu0", data + 1, size - 1);
	else
		read_packets(data + 1, size - 1, &shape);
	return 0;
}
