/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>
#include "formats/trace/reader.h"
#include "formats/trace/writer.h"
#include "tests/lib/tap.h"
#include "tests/lib/trace-make.h"

static const struct trace_info info = {.mode = "trap", .page_size = 4096};

static int symbolize(void *arg, uint64_t address, struct site_function *out)
{
	(void)arg;
	if (address >= 0x9000)
		return -ENOENT;
	out->start = address & ~0xffull;
	out->size = 0x100;
	snprintf(out->name, sizeof(out->name), "fn_%llx", (unsigned long long)out->start);
	return 0;
}

static unsigned int encoding; /* of the trace under test */

static bool is_kmemtrace(void)
{
	return !strcmp(trace_encoding_names[encoding], "kmemtrace");
}

static struct trace_writer *create(const char *path, unsigned int nr_vcpus)
{
	struct trace_writer *writer = NULL;
	struct error err = {0};

	if (!ok(!trace_writer_create(path, nr_vcpus, encoding, &info, &writer, &err),
		"the trace is created"))
		tap_diag("%s", err.text);
	is_u64((uint64_t)trace_writer_add_instance(writer, &kmem_instance, &err), 0,
	       "the instance is added");
	return writer;
}

static struct trace_reader *open_trace(const char *path)
{
	struct trace_reader *reader = NULL;
	struct error err = {0};

	if (!ok(!trace_reader_open(path, &reader, &err), "the trace can be opened"))
		tap_diag("%s", err.text);
	return reader;
}

static uint64_t count_events(struct trace_reader *reader)
{
	struct record_event event;
	uint64_t n = 0;

	while (read_record(reader, &event, NULL) > 0)
		n++;
	return n;
}

static void check_sidecar(const struct sidecar *sidecar)
{
	if (!ok(sidecar, "the trace has a sidecar"))
		return;
	ok(sidecar->complete, "a finished trace is complete");
	is_u64(sidecar->vcpus[0].allocs, 2, "allocations are counted by vCPU");
	is_u64(sidecar->vcpus[1].frees, 1, "frees are counted by vCPU");
	is_u64(sidecar->nr_symbols, 2,
	       "each function has one symbol, call sites without a name none");
	is_str(sidecar->symbols[0].name, "fn_1000", "a symbol has the function's name");
	is_u64(sidecar->symbols[0].address, 0x1010, "a symbol has the function's lowest call site");
	is_str(sidecar_cache(sidecar, 1)->name, "dentry", "a cache has its name");
}

static void test_whole(void)
{
	struct scratch dir = scratch_make();
	struct trace_writer *writer = create(dir.path, 2);
	struct kmem_record records[] = {
		make_alloc(KMEM_TYPE_CACHE, 0x100, 0x1020, 190, 192, 10),
		make_alloc(KMEM_TYPE_KMALLOC, 0x200, 0x1010, 5, 8, 20),
		make_free(KMEM_TYPE_KMALLOC, 0x200, 0x2000, 30),
		make_free(KMEM_TYPE_CACHE, 0x100, 0x9000, 40),
	};
	struct record_event event;
	struct trace_reader *reader;
	char *text;

	records[0].cache = trace_writer_cache_id(writer, "dentry", 190, 192);
	is_u64(records[0].cache, 1, "the first cache has id 1");
	is_u64(trace_writer_cache_id(writer, "dentry", 190, 256), 2,
	       "a cache of another size gets another id");
	is_u64(trace_writer_cache_id(writer, "dentry", 190, 192), 1,
	       "the same cache gets the same id");
	for (unsigned int i = 0; i < 3; i++)
		trace_writer_append(writer, i == 2, &records[i]);
	trace_writer_append(writer, 0, &records[3]);
	ok(trace_writer_append(writer, 2, &records[0]) == -EINVAL,
	   "a record of a vCPU that the trace lacks is refused");
	ok(!trace_writer_finish(writer, &info, symbolize, NULL, NULL), "the trace is finished");
	ok(!trace_writer_error(writer), "a trace without failures has no error");
	trace_writer_destroy(writer);
	reader = open_trace(dir.path);
	check_sidecar(trace_reader_sidecar(reader));
	is_str(trace_reader_note(reader), "", "there is nothing to note of its encoding");
	read_record(reader, &event, NULL);
	is_u64(event.record.cache, 1, "the record's cache comes back");
	is_u64(event.record.bytes_req, 190, "the record comes back");
	is_u64(count_events(reader), 3, "all other records come back");
	trace_reader_close(reader);
	text = file_get(dir.path, "abi_version", NULL);
	is_str(text, is_kmemtrace() ? "1\n" : NULL, "kmemtrace has its ABI version as text");
	free(text);
	text = file_get(dir.path, "total_overruns", NULL);
	is_str(text, is_kmemtrace() ? "0\n" : NULL, "kmemtrace has its overruns as text");
	free(text);
	scratch_remove(&dir);
}

/* A recorder that is killed leaves a trace. */
static void test_at_once(void)
{
	struct scratch dir = scratch_make();
	struct kmem_record record = make_alloc(KMEM_TYPE_KMALLOC, 0x100, 0x1000, 8, 8, 1);
	struct trace_writer *writer = create(dir.path, 1);
	struct trace_reader *reader = open_trace(dir.path);
	struct trace_losses losses;

	is_u64(count_events(reader), 0, "a trace is empty after creation");
	trace_reader_losses(reader, &losses);
	ok(losses.unfinished, "a trace is unfinished after creation");
	trace_reader_close(reader);
	trace_writer_append(writer, 0, &record);
	ok(!trace_writer_flush(writer, NULL), "the trace is flushed");
	reader = open_trace(dir.path);
	is_u64(count_events(reader), 1, "a record is in the trace after a flush");
	trace_reader_close(reader);
	trace_writer_destroy(writer);
	scratch_remove(&dir);
}

/* What a recorder knows of itself. */
struct knowledge {
	pthread_mutex_t lock;
	struct trace_info info;
	bool busy;
};

static bool tell(void *arg, struct trace_info *out)
{
	struct knowledge *k = arg;
	bool can;

	pthread_mutex_lock(&k->lock);
	*out = k->info;
	can = !k->busy;
	pthread_mutex_unlock(&k->lock);
	return can;
}

static void learn(struct knowledge *k, const char *mode, uint64_t samplings)
{
	pthread_mutex_lock(&k->lock);
	snprintf(k->info.mode, sizeof(k->info.mode), "%s", mode);
	k->info.counters.v[COUNTER_SAMPLINGS] = samplings;
	pthread_mutex_unlock(&k->lock);
}

/* losses->writer stays valid until the next call. */
static uint64_t records_of(const char *path, struct trace_losses *losses, char *mode, size_t size)
{
	static char writer[16];
	struct trace_reader *reader;
	uint64_t n;

	if (trace_reader_open(path, &reader, NULL))
		abort();
	n = count_events(reader);
	trace_reader_losses(reader, losses);
	snprintf(writer, sizeof(writer), "%s", losses->writer ? losses->writer : "");
	losses->writer = writer;
	snprintf(mode, size, "%s", trace_reader_sidecar(reader)->info.mode);
	trace_reader_close(reader);
	return n;
}

/* Wait for n records. Returns whether the sidecar then says what is so. */
static bool await_records(const char *path, uint64_t n, const char *mode, uint64_t samplings)
{
	struct trace_losses losses;
	char is[16];

	for (unsigned int i = 0; i < 500 && records_of(path, &losses, is, sizeof(is)) < n; i++)
		usleep(10000);
	if (records_of(path, &losses, is, sizeof(is)) < n)
		return false;
	return !strcmp(is, mode) && losses.counters.v[COUNTER_SAMPLINGS] == samplings;
}

/* A trace that is being recorded says what is so, and says it before it has the records. */
static void test_live(void)
{
	struct knowledge k = {PTHREAD_MUTEX_INITIALIZER, info, false};
	struct kmem_record record = make_alloc(KMEM_TYPE_KMALLOC, 0x100, 0x1000, 8, 8, 1);
	struct scratch dir = scratch_make();
	struct trace_writer *writer = create(dir.path, 1);
	struct trace_losses losses;
	char mode[16];

	snprintf(k.info.writer, sizeof(k.info.writer), "run");
	trace_writer_set_source(writer, tell, NULL, &k);
	trace_writer_append(writer, 0, &record);
	ok(await_records(dir.path, 1, "trap", 0), "records appear while a trace is recorded");
	learn(&k, "exitless", 0);
	trace_writer_append(writer, 0, &record);
	ok(await_records(dir.path, 2, "exitless", 0),
	   "the sidecar has a new mode before the records from behind it are there");
	learn(&k, "exitless", 1);
	trace_writer_append(writer, 0, &record);
	ok(await_records(dir.path, 3, "exitless", 1), "and so it has a gap");
	records_of(dir.path, &losses, mode, sizeof(mode));
	ok(losses.unfinished && losses.recording && !strcmp(losses.writer, "run"),
	   "a reader knows that the trace is being recorded, and by what");
	pthread_mutex_lock(&k.lock);
	k.busy = true;
	pthread_mutex_unlock(&k.lock);
	learn(&k, "trap", 2);
	trace_writer_append(writer, 0, &record);
	ok(await_records(dir.path, 4, "exitless", 1),
	   "a source that is busy does not keep records from being written");
	trace_writer_destroy(writer);
	records_of(dir.path, &losses, mode, sizeof(mode));
	ok(losses.unfinished && !losses.recording,
	   "when the recorder has died, a reader knows that it did not end in order");
	scratch_remove(&dir);
}

/* The loser of a race for an empty directory. */
static void test_locked(void)
{
	struct scratch dir = scratch_make();
	int fd = open(dir.path, O_RDONLY | O_DIRECTORY);
	struct trace_writer *writer = NULL;
	struct error err = {0};

	ok(!flock(fd, LOCK_EX) &&
		   trace_writer_create(dir.path, 1, encoding, &info, &writer, &err) == -EBUSY,
	   "a directory that another recorder writes to is refused");
	ok(strstr(err.text, dir.path), "the message names it: %s", err.text);
	close(fd);
	scratch_remove(&dir);
}

static void test_refusals(void)
{
	struct scratch dir = scratch_make();
	struct trace_writer *writer = NULL;
	struct error err = {0};
	char path[128];

	file_put(dir.path, "x", "x", 1);
	ok(trace_writer_create(dir.path, 1, encoding, &info, &writer, &err) == -ENOTEMPTY,
	   "a directory that is not empty is refused");
	ok(strstr(err.text, dir.path), "the message names the directory");
	snprintf(path, sizeof(path), "%s/x", dir.path);
	ok(trace_writer_create(path, 1, encoding, &info, &writer, &err) == -ENOTDIR,
	   "a file is refused");
	snprintf(path, sizeof(path), "%s/a/b", dir.path);
	ok(trace_writer_create(path, 1, encoding, &info, &writer, &err) == -ENOENT,
	   "a directory without a parent is refused");
	snprintf(path, sizeof(path), "%s/y", dir.path);
	ok(trace_writer_create(path, 0, encoding, &info, &writer, &err) == -EINVAL,
	   "a trace of no vCPUs is refused");
	ok(trace_writer_create(path, 4097, encoding, &info, &writer, &err) == -EINVAL,
	   "a trace of too many vCPUs is refused");
	ok(access(path, F_OK) < 0, "a refused trace creates nothing");
	scratch_remove(&dir);
}

enum { THREADS = 4, PER_THREAD = 20000 };

static void *append_many(void *arg)
{
	struct trace_writer *writer = arg;

	for (int i = 0; i < PER_THREAD; i++) {
		struct kmem_record record = make_alloc(KMEM_TYPE_KMALLOC, 0x1000, 0x10, 8, 8, i);

		record.cache = trace_writer_cache_id(writer, i % 2 ? "odd" : "even", 8, 8);
		trace_writer_append(writer, (unsigned int)i % 2, &record);
	}
	return NULL;
}

static void test_threads(void)
{
	struct scratch dir = scratch_make();
	struct trace_writer *writer = create(dir.path, 2);
	unsigned int wrong = 0, even;
	struct trace_reader *reader;
	struct record_event event;
	pthread_t threads[THREADS];

	even = trace_writer_cache_id(writer, "even", 8, 8);
	for (int i = 0; i < THREADS; i++)
		pthread_create(&threads[i], NULL, append_many, writer);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	ok(!trace_writer_finish(writer, &info, NULL, NULL, NULL), "the trace is finished");
	trace_writer_destroy(writer);
	reader = open_trace(dir.path);
	while (read_record(reader, &event, NULL) > 0)
		wrong += (event.record.cache == even) != (event.vcpu == 0);
	is_u64(wrong, 0, "each record keeps its own cache");
	for (unsigned int i = 0; i < 2; i++) {
		struct trace_stream_info stream;

		trace_reader_stream_info(reader, i, &stream);
		is_u64(stream.records, THREADS * PER_THREAD / 2, "all records are there");
	}
	trace_reader_close(reader);
	scratch_remove(&dir);
}

/* More than the writer's buffer holds. */
enum { MANY = 1000000 };

/* Append `n` records. Returns how many were refused. */
static uint64_t append_some(struct trace_writer *writer, int n)
{
	uint64_t refused = 0;

	for (int i = 0; i < n; i++) {
		struct kmem_record record = make_alloc(KMEM_TYPE_KMALLOC, 0x1000, 0x10, 8, 8, i);

		record.cache = (uint16_t)(i + 1);
		refused += trace_writer_append(writer, 0, &record) != 0;
	}
	return refused;
}

/* Append until long after the disk is full. Returns how many appends were refused. */
static uint64_t overfill(struct trace_writer *writer)
{
	return append_some(writer, MANY);
}

/* What a failing disk must leave: whole records, and counts that add up. */
static void check_survivor(const char *path, const struct trace_writer_counts *counts)
{
	struct trace_reader *reader = open_trace(path);
	struct trace_stream_info stream;
	struct trace_losses losses;
	struct record_event event;
	uint64_t wrong = 0;

	while (read_record(reader, &event, NULL) > 0)
		wrong += event.record.cache != (uint16_t)(event.record.timestamp + 1);
	is_u64(wrong, 0, "after a failure records and cache ids are in step");
	trace_reader_stream_info(reader, 0, &stream);
	is_u64(stream.fault, RECORD_FAULT_NONE,
	       "after a failure the stream ends with a whole record");
	is_u64(stream.records, counts->allocs,
	       "after a failure there are as many records as counted");
	is_u64(counts->allocs + counts->overruns, MANY, "records written and lost add up to all");
	trace_reader_losses(reader, &losses);
	is_u64(losses.counters.v[COUNTER_OVERRUNS], counts->overruns,
	       "the trace says how many records were lost");
	ok(!losses.unfinished, "after a failure the trace has its final sidecar");
	trace_reader_close(reader);
}

static void run_out_of_disk(const char *path)
{
	struct trace_writer *writer = create(path, 1);
	struct trace_writer_counts counts;
	struct error err = {0};

	if (!writer)
		return;
	ok(overfill(writer), "records are refused when the disk is full");
	ok(trace_writer_finish(writer, &info, symbolize, NULL, &err) < 0,
	   "finishing fails when the disk is full");
	ok(trace_writer_error(writer), "the error says why: %s", err.text);
	trace_writer_counts(writer, 0, &counts);
	trace_writer_destroy(writer);
	check_survivor(path, &counts);
}

/* Each sidecar takes more room than the one before, of a disk that has none. */
static void outgrow_disk(const char *path)
{
	enum { CACHES = 300 };
	struct trace_writer *writer = create(path, 1);
	struct trace_reader *reader;
	struct trace_losses losses;
	char name[32];

	overfill(writer);
	for (int i = 0; i < CACHES; i++) {
		snprintf(name, sizeof(name), "cache-%d", i);
		trace_writer_cache_id(writer, name, 64, 64);
		scratch_fill(path);
		trace_writer_set_info(writer, &info, NULL);
	}
	ok(trace_writer_finish(writer, &info, symbolize, NULL, NULL) < 0,
	   "finishing fails, as records are lost");
	trace_writer_destroy(writer);
	reader = open_trace(path);
	trace_reader_losses(reader, &losses);
	ok(!losses.unfinished, "the last of many sidecars on a full disk is written");
	trace_reader_close(reader);
}

static void on_small_disk(void (*test)(const char *path))
{
	struct scratch dir = scratch_make();

	if (mount("none", dir.path, "tmpfs", 0, "size=1m")) {
		tap_skip("full disk", "mounting a tmpfs needs root");
	} else {
		test(dir.path);
		umount(dir.path);
	}
	scratch_remove(&dir);
}

static void test_disk_full(void)
{
	on_small_disk(run_out_of_disk);
	on_small_disk(outgrow_disk);
}

/* A limit that is no multiple of 56, or of the buffer: the last write is a short one. */
static void test_file_limit(void)
{
	struct scratch dir = scratch_make();
	struct rlimit old, limit;

	signal(SIGXFSZ, SIG_IGN);
	getrlimit(RLIMIT_FSIZE, &old);
	limit = old;
	limit.rlim_cur = 500003;
	setrlimit(RLIMIT_FSIZE, &limit);
	run_out_of_disk(dir.path);
	setrlimit(RLIMIT_FSIZE, &old);
	scratch_remove(&dir);
}

/* Space that comes back is used again; nothing that was accepted is lost. */
static void test_recovery(void)
{
	struct scratch dir = scratch_make();
	struct trace_writer *writer = create(dir.path, 1);
	struct trace_writer_counts counts;
	struct rlimit old, limit;
	uint64_t refused;

	getrlimit(RLIMIT_FSIZE, &old);
	limit = old;
	limit.rlim_cur = 500003;
	setrlimit(RLIMIT_FSIZE, &limit);
	refused = overfill(writer);
	setrlimit(RLIMIT_FSIZE, &old);
	ok(!trace_writer_finish(writer, &info, NULL, NULL, NULL),
	   "a trace is finished when space comes back");
	trace_writer_counts(writer, 0, &counts);
	is_u64(counts.overruns, refused, "only what was refused is lost");
	trace_writer_destroy(writer);
	check_survivor(dir.path, &counts);
	scratch_remove(&dir);
}

int main(void)
{
	for (encoding = 0; trace_encoding_names[encoding]; encoding++) {
		tap_diag("%s", trace_encoding_names[encoding]);
		test_whole();
		test_at_once();
		test_live();
		test_locked();
		test_refusals();
		test_threads();
		test_disk_full();
		test_file_limit();
		test_recovery();
	}
	return tap_done();
}
