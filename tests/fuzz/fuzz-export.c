/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "formats/export/export.h"

/*
 * First byte: which export, and which value. Then NAMES bytes, of which names of functions, caches
 * and flags are made. The rest is streams of the format kmemtrace, whose records may be anything.
 */
enum { NAMES = 48, PART = NAMES / 3, MAX_SIZE = 1 << 16, EXPORTERS = 11, STREAMS = 2 };

static json_t *name_of(const uint8_t *bytes)
{
	char text[PART + 1] = "";

	for (size_t i = 0; i < PART; i++)
		text[i] = (char)(bytes[i] & 0x7f);
	return json_string(text);
}

static char *make_sidecar(const uint8_t *names)
{
	json_t *root = json_pack("{si sb s[{so ss ss si}] s[{si so si si}] s[{so ss}]}", "version",
				 1, "complete", 1, "symbols", "name", name_of(names), "address",
				 "0xffffffff81000010", "start", "0xffffffff81000000", "size", 256,
				 "caches", "id", 1, "name", name_of(names + PART), "object_size", 8,
				 "size", 8, "gfp_flags", "name", name_of(names + 2 * PART), "mask",
				 "0xcc0");
	char *text = json_dumps(root, 0);

	json_decref(root);
	if (!text)
		abort();
	return text;
}

static void run(struct trace_reader *reader, uint8_t which)
{
	const struct exporter_ops *ops = exporters[which % EXPORTERS];
	const struct export_options options = {
		ops->takes_value ? which / EXPORTERS % (EXPORT_TIME + 1) : EXPORT_COUNT, "host",
		NULL};
	/* these events have no durations */
	const bool refuses = options.value == EXPORT_TIME;
	char path[64];
	uint64_t n;
	struct error err;

	trace_reader_read_ahead(reader, 0);
	snprintf(path, sizeof(path), "/dev/shm/sonde-fuzz-export-%d", (int)getpid());
	if (!export_trace(ops, reader, path, true, &options, &n, &err) == refuses)
		abort();
	unlink(path);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const size_t part = size > 1 + NAMES ? (size - 1 - NAMES) / STREAMS : 0;
	const uint8_t *streams = data + 1 + NAMES;
	struct trace_reader *reader;
	char *sidecar;

	if (size < 1 + NAMES || size > MAX_SIZE)
		return 0;
	sidecar = make_sidecar(data + 1);
	{
		const struct trace_memory_file files[] = {{"cpu0", streams, part},
							  {"cpu1", streams + part, part},
							  {"caches0", streams, part / 16},
							  {"sonde.json", sidecar, strlen(sidecar)}};

		if (!trace_reader_open_memory(files, 4, &reader, NULL)) {
			run(reader, data[0]);
			trace_reader_close(reader);
		}
	}
	free(sidecar);
	return 0;
}
