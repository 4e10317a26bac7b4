/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "tests/lib/hostile-make.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include "formats/base/json.h"
#include "formats/ctf/codec.h"
#include "formats/event/function.h"
#include "formats/event/graph.h"
#include "formats/trace/writer.h"
#include "tests/lib/trace-make.h"

/* Four bytes of a name that stand for others, of the same number in the packets. */
static const struct place {
	const char text[5], bytes[5], *json;
} places[] = {
	{"QZ0Q", "\x1b[7m", "\\u001b[7m"},     /* ECMA-48: reverse video */
	{"QZ1Q", "\x1b]0;", "\\u001b]0;"},     /* xterm: the window's title */
	{"QZ2Q", "\xe2\x80\xa8!", "\\u2028!"}, /* the end of a line in old JavaScript */
	{"QZ3Q", "\x07\x01\x9b\x7f", "\\u0007\\u0001\\u009b\\u007f"},
};

enum { NR_PLACES = sizeof(places) / sizeof(*places), STEP = 0x100, LONG = 200, COMM = 16 };

#define SET(n) "window." HOSTILE_MARK "=" #n

static const char *const names[] = {
	"<script>" SET(1) "</script>",
	"</script><script>" SET(2) "</script>",
	"<img src=x onerror=" SET(3) ">",
	"\"><svg onload=" SET(4) ">",
	"' onmouseover='" SET(5) "' x='",
	"javascript:" SET(6),
	"</title></text></svg><script>" SET(7) "</script>",
	"]]><!--<b>&lt;i&gt;&amp;",
	"${" SET(8) "}`\\u003cb\\u003e\\",
	"__proto__",
	"constructor",
	"QZ0QredQZ1QtitleQZ3QbellQZ2Qline",
	"=cmd|' /C calc'!A0",
	"", /* a long one */
};

enum { NR_NAMES = sizeof(names) / sizeof(*names) };

static const uint64_t text_base = 0xffffffff81000000, data_base = 0xffff888000000000;

/* Functions: these names, then those of system calls, then those of a module. */
enum { PLAIN, SYSCALLS, MODULE, NR_KINDS };

static const char *name_of(unsigned int i, char out[LONG + 64])
{
	if (*names[i])
		return names[i];
	memset(out, 'A', LONG);
	strcpy(out + LONG, "<script>" SET(9) "</script>");
	return out;
}

static uint64_t code(unsigned int kind, unsigned int i)
{
	return text_base + (uint64_t)(kind * NR_NAMES + i) * STEP;
}

static int symbolize(void *arg, uint64_t address, struct site_function *out)
{
	const unsigned int number = (unsigned int)((address - text_base) / STEP);
	char room[LONG + 64];

	(void)arg;
	if (address < text_base || number >= NR_KINDS * NR_NAMES)
		return -1;
	out->start = text_base + (uint64_t)number * STEP;
	out->size = STEP;
	snprintf(out->name, sizeof(out->name), "%s%.300s%s",
		 number / NR_NAMES == SYSCALLS ? "__x64_sys_" : "",
		 name_of(number % NR_NAMES, room),
		 number / NR_NAMES == MODULE ? " [<img/src/onerror=" SET(10) ">]" : "");
	return 0;
}

/* --- events ---------------------------------------------------------------------------------- */

struct numbers {
	int kmem, function, graph, syscalls;
};

static void put_task(char comm[COMM], unsigned int i)
{
	char room[LONG + 64];

	memcpy(comm, name_of(i, room), strnlen(name_of(i, room), COMM - 1));
}

static void put_allocation(struct trace_writer *writer, int number, unsigned int i, int64_t ns)
{
	char room[LONG + 64];
	struct kmem_task_record event = {.record = make_alloc(KMEM_TYPE_CACHE, data_base + i * 4096,
							      code(i % 2 ? PLAIN : MODULE, i), 60,
							      64, ns),
					 .task = {.pid = i + 1, .tgid = i + 1}};

	event.record.cache = trace_writer_cache_id(writer, name_of(i, room), 60, 64);
	put_task(event.task.comm, i);
	trace_put(writer, number, kmem_class_of(&event.record), ns, &event);
}

static void put_function(struct trace_writer *writer, int number, unsigned int i, int64_t ns)
{
	struct function_event event = {
		.ip = code(PLAIN, i), .parent_ip = code(MODULE, i), .pid = i + 1};

	put_task(event.comm, i);
	trace_put(writer, number, 0, ns, &event);
}

static void put_call(struct trace_writer *writer, int number, uint64_t ip, unsigned int i,
		     int64_t ns)
{
	struct syscall_event event = {.call = {.call = {.ip = ip, .pid = i + 1}, .frame = 0x9000}};

	put_task(event.call.call.comm, i);
	trace_put(writer, number, GRAPH_ENTRY, ns, &event);
	trace_put(writer, number, GRAPH_EXIT, ns + 100, &event);
}

static void put_events(struct trace_writer *writer)
{
	const unsigned int task = EVENT_TASK_PID | EVENT_TASK_COMM;
	const struct numbers numbers = {
		.kmem = trace_add(writer, "kmem", kmem_classes_of(task), KMEM_NR_CLASSES),
		.function = trace_add(
			writer, "function",
			function_class(FUNCTION_PARENT | FUNCTION_PID | FUNCTION_COMM), 1),
		.graph = trace_add(writer, "graph", graph_classes(GRAPH_COMM), GRAPH_NR_CLASSES),
		.syscalls = trace_add(writer, "syscalls", syscall_classes(GRAPH_COMM),
				      SYSCALL_NR_CLASSES)};

	for (unsigned int i = 0; i < 4 * NR_NAMES; i++) {
		const unsigned int name = i % NR_NAMES;
		const int64_t ns = (int64_t)i * 1000000;

		put_allocation(writer, numbers.kmem, name, ns);
		put_function(writer, numbers.function, name, ns + 1000);
		put_call(writer, numbers.graph, code(PLAIN, name), name, ns + 2000);
		put_call(writer, numbers.syscalls, code(SYSCALLS, name), name, ns + 3000);
	}
}

/* --- what a writer would not write ----------------------------------------------------------- */

static void put_bytes(char *bytes, size_t size)
{
	for (size_t p = 0; p < NR_PLACES; p++) {
		char *at = bytes;

		while ((at = memmem(at, size - (size_t)(at - bytes), places[p].text, 4)))
			memcpy(at, places[p].bytes, 4);
	}
}

static void patch_packet(uint8_t *bytes, size_t size)
{
	uint8_t *const crc = bytes + CTF_PACKET_HEADER_SIZE - sizeof(uint32_t);
	uint32_t sum;

	put_bytes((char *)bytes, size);
	sum = ctf_packet_crc(bytes, size);
	for (size_t i = 0; i < sizeof(sum); i++)
		crc[i] = (uint8_t)(sum >> 8 * i);
}

static void patch_stream(const char *dir, const char *name)
{
	struct ctf_identity identity = {.big_endian = false};
	struct ctf_packet packet;
	size_t size;
	uint8_t *bytes = (uint8_t *)file_get(dir, name, &size);

	if (!bytes)
		abort();
	for (size_t at = 0; at < size; at += packet.size) {
		memcpy(identity.uuid, bytes + at + 4, CTF_UUID_SIZE);
		if (!ctf_packet_get(bytes + at, &identity, &packet) || !packet.size ||
		    packet.size > size - at)
			abort();
		patch_packet(bytes + at, packet.size);
	}
	file_put(dir, name, bytes, size);
	free(bytes);
}

/* A copy of a text, with each `from` replaced. */
static char *replaced(const char *text, const char *from, const char *to)
{
	char *copy = NULL;
	size_t size;
	FILE *out = open_memstream(&copy, &size);

	if (!out)
		abort();
	for (const char *at; (at = strstr(text, from)); text = at + strlen(from))
		fprintf(out, "%.*s%s", (int)(at - text), text, to);
	fputs(text, out);
	if (fclose(out))
		abort();
	return copy;
}

static void patch_sidecar(const char *dir)
{
	char *text = file_get(dir, ".sonde.json", NULL);
	json_t *root;

	for (size_t p = 0; text && p < NR_PLACES; p++) {
		char *next = replaced(text, places[p].text, places[p].json);

		free(text);
		text = next;
	}
	root = text ? json_loads(text, 0, NULL) : NULL;
	free(text);
	if (json_object_del(root, "crc32c"))
		abort();
	text = json_dump_with_checksum(root, JSON_INDENT(1) | JSON_PRESERVE_ORDER);
	if (!text)
		abort();
	file_put(dir, ".sonde.json", text, strlen(text));
	free(text);
	json_decref(root);
}

void hostile_make(const char *dir)
{
	static const char *const streams[] = {"cpu0", "cpu0.function", "cpu0.graph",
					      "cpu0.syscalls"};
	struct trace_info info = {.mode = "trap", .page_size = 4096};
	struct trace_writer *writer;

	snprintf(info.banner, sizeof(info.banner), "Linux version <script>%s</script>QZ0Q",
		 SET(11));
	if (trace_writer_create(dir, 1, 0, &info, &writer, NULL))
		abort();
	put_events(writer);
	if (trace_writer_finish(writer, &info, symbolize, NULL, NULL))
		abort();
	trace_writer_destroy(writer);
	for (size_t i = 0; i < sizeof(streams) / sizeof(*streams); i++)
		patch_stream(dir, streams[i]);
	patch_sidecar(dir);
}

/* --- what is shown of it ---------------------------------------------------------------------- */

/* The code point at *at, which is moved behind it; 0xfffd for what is no UTF-8. */
static unsigned int next_code(const unsigned char **at)
{
	const unsigned char first = *(*at)++;
	const unsigned int n = first < 0x80 ? 0 : first >= 0xf0 ? 3 : first >= 0xe0 ? 2 : 1;
	unsigned int code = n ? first & (0x3fu >> n) : first;

	if (first >= 0x80 && first < 0xc0)
		return 0xfffd;
	for (unsigned int i = 0; i < n; i++) {
		if ((**at & 0xc0) != 0x80)
			return 0xfffd;
		code = code << 6 | (*(*at)++ & 0x3fu);
	}
	return code;
}

static bool is_plain(unsigned int code)
{
	if (code < 0x20)
		return code == '\n' || code == '\t';
	return !(code >= 0x7f && code < 0xa0) && code != 0x2028 && code != 0x2029 && code != 0xfffd;
}

bool hostile_text_is_plain(const char *text)
{
	const unsigned char *at = (const unsigned char *)text;

	while (*at)
		if (!is_plain(next_code(&at)))
			return false;
	return true;
}
