/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "tests/lib/trace-make.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "tests/lib/tap.h"

struct scratch scratch_make(void)
{
	const char *parent = getenv("TMPDIR");
	struct scratch scratch;
	int length = snprintf(scratch.path, sizeof(scratch.path), "%s/sonde-test-XXXXXX",
			      parent ? parent : "/tmp");

	if (length >= (int)sizeof(scratch.path) || !mkdtemp(scratch.path))
		abort();
	return scratch;
}

static int remove_entry(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
	(void)st;
	(void)flag;
	(void)ftw;
	return remove(path);
}

void scratch_remove(const struct scratch *scratch)
{
	nftw(scratch->path, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}

void scratch_fill(const char *path)
{
	char name[256], page[4096] = "";
	int fd;

	snprintf(name, sizeof(name), "%s/.full", path);
	fd = open(name, O_WRONLY | O_CREAT | O_APPEND, 0600);
	if (fd < 0)
		return;
	while (write(fd, page, sizeof(page)) > 0)
		;
	close(fd);
}

void file_put(const char *dir, const char *name, const void *bytes, size_t size)
{
	char path[256];
	FILE *file;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	file = fopen(path, "w");
	if (!file || (size && fwrite(bytes, size, 1, file) != 1) || fclose(file))
		abort();
}

char *file_get(const char *dir, const char *name, size_t *size)
{
	char path[256], *bytes = NULL;
	size_t capacity = 0;
	ssize_t n;
	FILE *file;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	file = fopen(path, "r");
	if (!file)
		return NULL;
	fseek(file, 0, SEEK_END);
	n = ftell(file);
	rewind(file);
	capacity = (size_t)n;
	bytes = calloc(1, capacity + 1);
	if (!bytes || fread(bytes, 1, capacity, file) != capacity || fclose(file))
		abort();
	if (size)
		*size = capacity;
	return bytes;
}

struct kmem_record make_alloc(unsigned int type, uint64_t ptr, uint64_t call_site, uint64_t req,
			      uint64_t alloc, int64_t timestamp)
{
	return (struct kmem_record){
		.event_id = KMEM_EVENT_ALLOC,
		.type_id = (uint8_t)type,
		.node = -1,
		.call_site = call_site,
		.ptr = ptr,
		.bytes_req = req,
		.bytes_alloc = alloc,
		.gfp_flags = 0xcc0,
		.timestamp = timestamp,
	};
}

struct kmem_record make_free(unsigned int type, uint64_t ptr, uint64_t call_site, int64_t timestamp)
{
	return (struct kmem_record){
		.event_id = KMEM_EVENT_FREE,
		.type_id = (uint8_t)type,
		.call_site = call_site,
		.ptr = ptr,
		.timestamp = timestamp,
	};
}

static void reverse(uint8_t *field, size_t size)
{
	for (size_t i = 0; i < size / 2; i++) {
		uint8_t byte = field[i];

		field[i] = field[size - 1 - i];
		field[size - 1 - i] = byte;
	}
}

void kmemtrace_reverse(uint8_t record[KMEMTRACE_RECORD_SIZE])
{
	reverse(record + 2, 2);
	reverse(record + 4, 4);
	for (size_t at = 8; at < KMEMTRACE_RECORD_SIZE; at += 8)
		reverse(record + at, 8);
}

int name_numbered(void *arg, uint64_t address, struct site_function *out)
{
	(void)arg;
	if (address % 0x1000 >= 0x90)
		return -ENOENT;
	out->start = address - address % 0x1000;
	out->size = 0x90;
	snprintf(out->name, sizeof(out->name), "f%u", (unsigned int)(address >> 12 & 0xf));
	return 0;
}

int trace_add(struct trace_writer *writer, const char *name, const struct event_class *classes,
	      size_t nr_classes)
{
	const struct trace_instance instance = {
		.name = name, .spec = name, .classes = classes, .nr_classes = nr_classes};
	int ret = trace_writer_add_instance(writer, &instance, NULL);

	if (ret < 0)
		abort();
	return ret;
}

void trace_put(struct trace_writer *writer, int instance, unsigned int class_index, int64_t ns,
	       const void *bytes)
{
	struct event_sink *sink = trace_writer_sink(writer, (unsigned int)instance, 0);
	struct event_batch batch = {0};

	if (event_batch_put(&batch, sink, class_index, ns, bytes))
		abort();
	event_batch_end(&batch);
}

void stream_put(const char *dir, unsigned int vcpu, const struct kmem_record *records, size_t n)
{
	uint8_t *bytes = calloc(n + 1, KMEMTRACE_RECORD_SIZE);
	char name[32];

	if (!bytes)
		abort();
	for (size_t i = 0; i < n; i++)
		kmemtrace_encode(&records[i], bytes + i * KMEMTRACE_RECORD_SIZE);
	snprintf(name, sizeof(name), "cpu%u", vcpu);
	file_put(dir, name, bytes, n * KMEMTRACE_RECORD_SIZE);
	free(bytes);
}

static void take_record(const struct event *event, struct record_event *out)
{
	if (!kmem_record_of(event, &out->record))
		abort();
	out->vcpu = event->vcpu;
	out->index = event->index;
	out->offset = event->offset;
}

int read_record(struct trace_reader *reader, struct record_event *out, struct error *err)
{
	struct event event;
	int ret = trace_reader_next(reader, &event, err);

	if (ret > 0)
		take_record(&event, out);
	return ret;
}

int stream_record(struct record_stream *stream, struct record_event *out)
{
	struct event event;
	int ret = record_stream_next(stream, &event);

	if (ret > 0)
		take_record(&event, out);
	return ret;
}

/* Let fd go to path; returns what it was, to be restored with dup2(). */
static int redirect(int fd, const char *dir, const char *name)
{
	char path[256];
	int old = dup(fd), file;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	file = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
	if (old < 0 || file < 0 || dup2(file, fd) < 0)
		abort();
	close(file);
	return old;
}

static void restore(int fd, int old)
{
	if (dup2(old, fd) < 0)
		abort();
	close(old);
}

struct verb_result verb_run(int (*verb)(int, char **), const char *const *argv)
{
	struct scratch scratch = scratch_make();
	struct verb_result result;
	int argc = 0, old_out, old_err;

	while (argv[argc])
		argc++;
	fflush(stdout);
	old_out = redirect(STDOUT_FILENO, scratch.path, "out");
	old_err = redirect(STDERR_FILENO, scratch.path, "err");
	result.status = verb(argc, (char **)(uintptr_t)argv);
	fflush(stdout);
	restore(STDOUT_FILENO, old_out);
	restore(STDERR_FILENO, old_err);
	result.out = file_get(scratch.path, "out", NULL);
	result.err = file_get(scratch.path, "err", NULL);
	scratch_remove(&scratch);
	return result;
}

void verb_result_deinit(struct verb_result *result)
{
	free(result->out);
	free(result->err);
}

json_t *verb_json(int (*verb)(int, char **), const char *const *argv)
{
	struct verb_result result = verb_run(verb, argv);
	json_t *root = json_loads(result.out, 0, NULL);
	char line[256] = "";

	for (size_t n = 0; *argv && n < sizeof(line); argv++)
		n += (size_t)snprintf(line + n, sizeof(line) - n, " %s", *argv);
	if (!ok(!result.status && root, "sonde%s prints JSON", line))
		tap_diag("%s", result.err);
	verb_result_deinit(&result);
	return root;
}
