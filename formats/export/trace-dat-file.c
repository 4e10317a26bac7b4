/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * trace.dat, version 7: trace-cmd.dat.v7(5) of trace-cmd 3.1. The data of CPUs is compressed with
 * zstd, which the trace-cmd of Debian 12 reads. What describes the data comes behind it, as all of
 * it is known then.
 */
#include "formats/export/trace-dat.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <zstd.h>
#include "formats/base/text.h"
#include "formats/cli/cli.h"
#include "formats/report/trace-text.h"

enum section_id {
	SECTION_OPTIONS = 0,
	SECTION_BUFFER = 3,
	SECTION_HEADER_INFO = 16,
	SECTION_FTRACE_EVENTS = 17,
	SECTION_EVENT_FORMATS = 18,
	SECTION_KALLSYMS = 19,
	SECTION_CMDLINES = 21,
	NR_SECTIONS,
};

/* Options that point to a section have its number. */
enum option_id {
	OPTION_DONE = 0,
	OPTION_CPUSTAT = 2,
	OPTION_BUFFER = 3,
	OPTION_TRACECLOCK = 4,
	OPTION_UNAME = 5,
	OPTION_CPUCOUNT = 8,
	OPTION_VERSION = 9,
};

enum { COMPRESSED = 1 /* flag of a section */, LONG_BYTES = 8, LABEL = 7 };

/* A file at work, and where its sections are, by number. */
struct layout {
	struct trace_dat *t;
	struct export_file *file;
	uint64_t sections[NR_SECTIONS]; /* offsets; 0: there is none */
};

/* --- parts ----------------------------------------------------------------------------------- */

static void put_u16(struct export_file *file, uint16_t value)
{
	export_took(file, put_le16(export_room(file), value));
}

static void put_u32(struct export_file *file, uint32_t value)
{
	export_took(file, put_le32(export_room(file), value));
}

static void put_u64(struct export_file *file, uint64_t value)
{
	export_took(file, put_le64(export_room(file), value));
}

/* With its NUL. */
static void put_string(struct export_file *file, const char *text)
{
	export_put(file, text, strlen(text) + 1);
}

/* A size that stands in front of what it counts: put it when its end is known. */
static uint64_t begin_sized(struct export_file *file, size_t size_bytes)
{
	export_put(file, (uint8_t[sizeof(uint64_t)]){0}, size_bytes);
	return export_offset(file);
}

static void end_sized(struct export_file *file, uint64_t begin, size_t size_bytes)
{
	uint8_t size[sizeof(uint64_t)];

	put_le64(size, export_offset(file) - begin);
	export_patch(file, begin - size_bytes, size, size_bytes);
}

/* Returns its begin, for end_section(). */
static uint64_t begin_section(struct layout *l, enum section_id id, uint16_t flags)
{
	l->sections[id] = export_offset(l->file);
	put_u16(l->file, id);
	put_u16(l->file, flags);
	put_u32(l->file, 0); /* no description */
	return begin_sized(l->file, sizeof(uint64_t));
}

static void end_section(struct layout *l, uint64_t begin)
{
	end_sized(l->file, begin, sizeof(uint64_t));
}

/* --- sections -------------------------------------------------------------------------------- */

static int put_data(struct layout *l, struct buffer *buffer)
{
	const unsigned int nr_vcpus = l->t->nr_vcpus;
	const uint64_t begin = begin_section(l, SECTION_BUFFER, COMPRESSED);
	int ret = 0;

	buffer->offset = l->sections[SECTION_BUFFER];
	for (unsigned int i = 0; !ret && i < nr_vcpus; i++) {
		struct place *place = &buffer->cpus[i];

		place->offset = export_offset(l->file);
		ret = ftrace_stream_copy(&buffer->streams[i], &l->t->spool, l->file);
		place->size = export_offset(l->file) - place->offset;
	}
	end_section(l, begin);
	return ret;
}

static void put_header(struct export_file *file, const char *name, const char *text)
{
	put_string(file, name);
	put_u64(file, strlen(text));
	export_text(file, text);
}

static void put_header_info(struct layout *l)
{
	const uint64_t begin = begin_section(l, SECTION_HEADER_INFO, 0);

	put_header(l->file, "header_page", ftrace_header_page);
	put_header(l->file, "header_event", ftrace_header_event);
	end_section(l, begin);
}

/* Of ftrace's own events, which are none. */
static void put_ftrace_events(struct layout *l)
{
	const uint64_t begin = begin_section(l, SECTION_FTRACE_EVENTS, 0);

	put_u32(l->file, 0);
	end_section(l, begin);
}

/* Each class is put as a system with one event: a system may come more than once. */
static void put_formats(struct layout *l)
{
	const struct sidecar *sidecar = trace_reader_sidecar(l->t->base.input.reader);
	const uint64_t begin = begin_section(l, SECTION_EVENT_FORMATS, 0);

	put_u32(l->file, (uint32_t)l->t->nr_classes);
	for (size_t i = 0; i < l->t->nr_classes; i++) {
		uint64_t format;

		put_string(l->file, l->t->classes[i].class->system);
		put_u32(l->file, 1);
		format = begin_sized(l->file, sizeof(uint64_t));
		ftrace_print_format(l->file, &l->t->classes[i], sidecar);
		end_sized(l->file, format, sizeof(uint64_t));
	}
	end_section(l, begin);
}

static void put_kallsyms(struct layout *l)
{
	const uint64_t begin = begin_section(l, SECTION_KALLSYMS, 0);
	const uint64_t symbols = begin_sized(l->file, sizeof(uint32_t));
	const bool *unnamed;
	size_t pos = 0;
	uint64_t address;

	ftrace_print_kallsyms(l->file, trace_reader_sidecar(l->t->base.input.reader));
	while ((unnamed = u64_map_next(&l->t->functions, &pos, &address)))
		if (*unnamed)
			ftrace_print_address(l->file, address);
	end_sized(l->file, symbols, sizeof(uint32_t));
	end_section(l, begin);
}

static void put_cmdlines(struct layout *l)
{
	const uint64_t begin = begin_section(l, SECTION_CMDLINES, 0);
	const uint64_t tasks = begin_sized(l->file, sizeof(uint64_t));
	const struct task *task;
	size_t pos = 0;
	uint64_t pid;

	export_printf(l->file, "%d unknown\n", FTRACE_NO_PID);
	while ((task = u64_map_next(&l->t->tasks, &pos, &pid)))
		export_printf(l->file, "%" PRId32 " %s\n", (int32_t)pid,
			      task->comm[0] ? task->comm : "?");
	end_sized(l->file, tasks, sizeof(uint64_t));
	end_section(l, begin);
}

/* --- options --------------------------------------------------------------------------------- */

static void put_text_option(struct export_file *file, enum option_id id, const char *text)
{
	put_u16(file, id);
	put_u32(file, (uint32_t)strlen(text) + 1);
	put_string(file, text);
}

static void put_buffer_option(const struct layout *l, const struct buffer *buffer)
{
	uint64_t begin;

	put_u16(l->file, OPTION_BUFFER);
	begin = begin_sized(l->file, sizeof(uint32_t));
	put_u64(l->file, buffer->offset);
	put_string(l->file, buffer->name);
	put_string(l->file, "local"); /* a clock that readers take for nanoseconds */
	put_u32(l->file, FTRACE_PAGE);
	put_u32(l->file, l->t->nr_vcpus);
	for (unsigned int i = 0; i < l->t->nr_vcpus; i++) {
		put_u32(l->file, i);
		put_u64(l->file, buffer->cpus[i].offset);
		put_u64(l->file, buffer->cpus[i].size);
	}
	end_sized(l->file, begin, sizeof(uint32_t));
}

/* In recording, and from files that are damaged or cut off. */
static uint64_t lost_on(const struct trace_reader *reader, unsigned int vcpu)
{
	const struct sidecar *sidecar = trace_reader_sidecar(reader);
	uint64_t lost = 0, said = 0, cut = 0;

	for (size_t i = 0; i < trace_reader_nr_streams(reader); i++) {
		struct trace_stream_info info;

		trace_reader_stream_info(reader, i, &info);
		if (info.vcpu != vcpu)
			continue;
		lost += info.lost;
		cut += info.expected > info.records ? info.expected - info.records : 0;
	}
	if (sidecar && vcpu < sidecar->nr_vcpus)
		said = sidecar->vcpus[vcpu].overruns;
	return (said > lost ? said : lost) + cut;
}

/* As tracefs has it in per_cpu/cpu<n>/stats: entries are those that were left in the kernel. */
static void put_stats(const struct layout *l, unsigned int vcpu)
{
	struct text stats;

	snprintf(stats.s, sizeof(stats.s), "CPU: %u\nentries: 0\noverrun: %" PRIu64 "\n", vcpu,
		 lost_on(l->t->base.input.reader, vcpu));
	put_text_option(l->file, OPTION_CPUSTAT, stats.s);
}

/* A text that readers append to the statistics: what no vCPU's has, too. */
static int put_losses(const struct layout *l)
{
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);
	int ret;

	if (!out)
		return -ENOMEM;
	text_print_losses_if_any(out, l->t->base.input.reader, LABEL);
	ret = text_stream_close(out);
	if (!ret && size)
		put_text_option(l->file, OPTION_CPUSTAT, text);
	free(text);
	return ret;
}

static void put_section_options(const struct layout *l)
{
	for (unsigned int i = SECTION_HEADER_INFO; i < NR_SECTIONS; i++) {
		if (!l->sections[i])
			continue;
		put_u16(l->file, (uint16_t)i);
		put_u32(l->file, sizeof(uint64_t));
		put_u64(l->file, l->sections[i]);
	}
}

static int put_options(struct layout *l)
{
	const uint64_t begin = begin_section(l, SECTION_OPTIONS, 0);
	const char *banner = export_banner(l->t->base.input.reader);
	int ret;

	put_section_options(l);
	put_u16(l->file, OPTION_CPUCOUNT);
	put_u32(l->file, sizeof(uint32_t));
	put_u32(l->file, l->t->nr_vcpus);
	for (size_t i = 0; i < l->t->nr_buffers; i++)
		put_buffer_option(l, &l->t->buffers[i]);
	for (unsigned int i = 0; i < l->t->nr_vcpus; i++)
		put_stats(l, i);
	ret = put_losses(l);
	put_text_option(l->file, OPTION_TRACECLOCK, "[local]");
	if (*banner)
		put_text_option(l->file, OPTION_UNAME, banner);
	put_text_option(l->file, OPTION_VERSION, "sonde " SONDE_VERSION);
	put_u16(l->file, OPTION_DONE);
	put_u32(l->file, sizeof(uint64_t));
	put_u64(l->file, 0); /* no more options */
	end_section(l, begin);
	return ret;
}

/* --- the file -------------------------------------------------------------------------------- */

/* Returns where the file will say where its options are. */
static uint64_t put_begin(struct export_file *file)
{
	static const char magic[] = "\x17\x08\x44tracing7";
	static const uint8_t little_endian = 0, long_bytes = LONG_BYTES;
	uint64_t at;

	put_string(file, magic);
	export_put(file, &little_endian, sizeof(little_endian));
	export_put(file, &long_bytes, sizeof(long_bytes));
	put_u32(file, FTRACE_PAGE);
	put_string(file, "zstd");
	put_string(file, ZSTD_versionString());
	at = export_offset(file);
	put_u64(file, 0);
	return at;
}

int trace_dat_write(struct trace_dat *t)
{
	struct layout l = {.t = t, .file = t->base.input.file};
	const uint64_t options_at = put_begin(l.file);
	uint8_t offset[sizeof(uint64_t)];
	int ret = 0;

	for (size_t i = 0; !ret && i < t->nr_buffers; i++)
		ret = put_data(&l, &t->buffers[i]);
	if (ret)
		return ret;
	put_header_info(&l);
	put_ftrace_events(&l);
	put_formats(&l);
	put_kallsyms(&l);
	put_cmdlines(&l);
	ret = put_options(&l);
	if (ret)
		return ret;
	put_le64(offset, l.sections[SECTION_OPTIONS]);
	export_patch(l.file, options_at, offset, sizeof(offset));
	return 0;
}
