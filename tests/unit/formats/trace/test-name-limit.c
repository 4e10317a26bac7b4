/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A guest whose functions have as many and as long names as it likes: readers take every file. */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "formats/event/function.h"
#include "formats/trace/reader.h"
#include "formats/trace/writer.h"
#include "tests/lib/tap.h"
#include "tests/lib/trace-make.h"

enum { MOST_BYTES = 64 << 20 /* that readers take of a file */ };
enum { SITES = 110000, FIRST = 0x1000, APART = 0x100 };
enum { INSTANCES = 8, PROTOTYPES = 4000, PROTOTYPE = 500 };

static const struct trace_info info = {.mode = "trap", .page_size = 4096};

static uint64_t site(size_t i)
{
	return FIRST + i * APART;
}

/* As long as they can be. */
static int symbolize(void *arg, uint64_t address, struct site_function *out)
{
	(void)arg;
	out->start = address & ~UINT64_C(0xff);
	out->size = APART;
	memset(out->name, 'n', sizeof(out->name) - 1);
	return 0;
}

/* --- the bytes of a name ---------------------------------------------------------------------- */

static size_t printed_bytes(const struct sidecar_symbol *symbol)
{
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);

	if (!out || sidecar_print_symbol(out, symbol) || fclose(out))
		abort();
	free(text);
	return size;
}

static void test_bytes(void)
{
	struct sidecar_symbol symbol = {.address = UINT64_MAX,
					.start = UINT64_MAX,
					.size = UINT64_MAX,
					.returned = {UINT64_MAX, "struct \\\"dentry"},
					.build_id = {{1}, 20}};
	char name[] = "a \"name\" with \\ and \x01\xff";

	symbol.name = name;
	ok(printed_bytes(&symbol) <= sidecar_symbol_bytes(&symbol),
	   "a line has at most the bytes that are counted: %zu of %zu", printed_bytes(&symbol),
	   sidecar_symbol_bytes(&symbol));
}

/* --- a trace --------------------------------------------------------------------------------- */

/* Instances have declarations, which the sidecar also has: with them it has no room for the names.
 */
static char *make_prototypes(void)
{
	char *lines = malloc(PROTOTYPES * PROTOTYPE + 1);

	if (!lines)
		abort();
	memset(lines, 'p', PROTOTYPES * PROTOTYPE);
	for (size_t i = 1; i <= PROTOTYPES; i++)
		lines[i * PROTOTYPE - 1] = '\n';
	lines[PROTOTYPES * PROTOTYPE] = '\0';
	return lines;
}

static void add_instances(struct trace_writer *writer, const char *prototypes)
{
	for (size_t i = 0; i < INSTANCES; i++) {
		const char name[] = {(char)('a' + i), '\0'};
		const struct trace_instance instance = {.name = name,
							.spec = "function",
							.prototypes = prototypes,
							.classes = function_class(FUNCTION_PARENT),
							.nr_classes = 1};

		if (trace_writer_add_instance(writer, &instance, NULL) < 0)
			abort();
	}
}

static void write_trace(const char *path, const char *prototypes)
{
	struct trace_counters counters = {0};
	struct trace_writer *writer;
	struct error err = {0};

	if (trace_writer_create(path, 1, 0, &info, &writer, NULL))
		abort();
	add_instances(writer, prototypes);
	for (size_t i = 0; i < SITES; i++) {
		const struct function_event event = {.ip = site(i), .parent_ip = site(i) + 8};

		trace_put(writer, 0, 0, (int64_t)i, &event);
	}
	ok(!trace_writer_finish(writer, &info, symbolize, NULL, &err), "the trace is finished: %s",
	   err.text);
	trace_writer_counters(writer, &counters);
	ok(counters.v[COUNTER_OVER_BUDGET], "names that are left out are counted");
	trace_writer_destroy(writer);
}

static size_t size_of(const char *path, const char *name)
{
	char file[128];
	struct stat st;

	snprintf(file, sizeof(file), "%s/%s", path, name);
	return stat(file, &st) ? 0 : (size_t)st.st_size;
}

/* Returns how many sites have names. */
static size_t read_trace(const char *path)
{
	const struct sidecar *sidecar;
	struct trace_reader *reader;
	struct trace_losses losses;
	size_t n = 0;

	if (trace_reader_open(path, &reader, NULL))
		abort();
	sidecar = trace_reader_sidecar(reader);
	trace_reader_losses(reader, &losses);
	ok(!trace_reader_damage(reader, 0) && !losses.unknown && !losses.unfinished,
	   "all of its files are read: %s", trace_reader_sidecar_error(reader)->text);
	ok(losses.counters.v[COUNTER_OVER_BUDGET], "the trace says that names were left out");
	for (size_t i = 0; i < SITES; i++)
		n += !!sidecar_symbol(sidecar, site(i));
	trace_reader_close(reader);
	return n;
}

/* In the sidecar, or beside it. */
static void test_trace(const char *prototypes)
{
	struct scratch dir = scratch_make();
	size_t named;

	write_trace(dir.path, prototypes);
	ok(size_of(dir.path, ".sonde.json") <= MOST_BYTES &&
		   size_of(dir.path, ".sonde.names") <= MOST_BYTES &&
		   size_of(dir.path, "metadata") <= MOST_BYTES,
	   "no file is larger than what readers take");
	ok(!size_of(dir.path, ".sonde.names") == !*prototypes,
	   "the names are in the sidecar if it has room for them, else beside it");
	named = read_trace(dir.path);
	ok(named > SITES / 2 && named < SITES, "most sites have names: %zu", named);
	scratch_remove(&dir);
}

int main(void)
{
	char *prototypes = make_prototypes();

	test_bytes();
	test_trace("");
	test_trace(prototypes);
	free(prototypes);
	return tap_done();
}
