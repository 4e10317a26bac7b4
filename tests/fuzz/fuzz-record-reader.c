/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <stdlib.h>
#include "formats/trace/sidecar.h"
#include "formats/trace/reader.h"
#include "tests/lib/consume.h"

/*
 * First byte: 0 for a sidecar ('#' in the corpus, which says the same), else the number of vCPUs (up to 4) that the rest is split among,
 * each with the first bytes of the whole as its cache ids too. What is read goes through the
 * analysis and the checks.
 */
enum { MAX_STREAMS = 4 };

static void read_records(const uint8_t *data, size_t size, size_t nr_streams)
{
	static const char *const names[][MAX_STREAMS] = {
		{"cpu0", "cpu1", "cpu2", "cpu3"}, {"caches0", "caches1", "caches2", "caches3"}};
	struct trace_memory_file files[2 * MAX_STREAMS];
	struct trace_reader *reader;
	size_t part = size / nr_streams;

	for (size_t i = 0; i < nr_streams; i++) {
		files[2 * i] = (struct trace_memory_file){names[0][i], data + i * part, part};
		files[2 * i + 1] = (struct trace_memory_file){names[1][i], data, size / 64};
	}
	if (trace_reader_open_memory(files, 2 * nr_streams, &reader, NULL))
		return;
	consume_trace(reader);
	trace_reader_close(reader);
}

static void read_sidecar(const uint8_t *data, size_t size)
{
	struct sidecar *sidecar;

	if (sidecar_parse(data, size, &sidecar, NULL))
		return;
	for (size_t i = 0; i < sidecar->nr_symbols; i++)
		sidecar_symbol(sidecar, sidecar->symbols[i].start + i);
	sidecar_cache(sidecar, 1);
	sidecar_destroy(sidecar);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (!size)
		return 0;
	if (data[0] % (MAX_STREAMS + 1))
		read_records(data + 1, size - 1, data[0] % (MAX_STREAMS + 1));
	else
		read_sidecar(data + 1, size - 1);
	return 0;
}
