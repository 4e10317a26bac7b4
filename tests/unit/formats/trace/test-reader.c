/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "formats/trace/reader.h"
#include "tests/lib/tap.h"
#include "tests/lib/trace-make.h"

enum { SMALL = 3 };

static struct kmem_record at(int64_t timestamp, uint64_t ptr)
{
	return make_alloc(KMEM_TYPE_KMALLOC, ptr, 0x1000, 8, 8, timestamp);
}

/* The pointers of all events in merged order, as text; ptr below 16. */
static void read_order(struct trace_reader *reader, char *order)
{
	struct record_event event;

	while (read_record(reader, &event, NULL) > 0)
		*order++ = "0123456789abcdef"[event.record.ptr & 15];
	*order = '\0';
}

static void test_merge(void)
{
	struct scratch dir = scratch_make();
	const struct kmem_record first[] = {at(-5, 1), at(10, 3), at(30, 6)};
	const struct kmem_record second[] = {at(10, 4), at(10, 5), at(40, 8)};
	const struct kmem_record third[] = {at(0, 2), at(35, 7)};
	struct trace_reader *reader = NULL;
	char order[32];

	stream_put(dir.path, 0, first, 3);
	stream_put(dir.path, 2, second, 3);
	stream_put(dir.path, 11, third, 2);
	stream_put(dir.path, 5, NULL, 0);
	file_put(dir.path, "cpu01", "x", 1);
	file_put(dir.path, "cpufreq", "x", 1);
	ok(!trace_reader_open(dir.path, &reader, NULL),
	   "a trace whose vCPU numbers have holes is opened");
	is_u64(trace_reader_nr_streams(reader), 4, "only files named cpu<n> are streams");
	read_order(reader, order);
	is_str(order, "12345678", "events are merged by time, of equal times by vCPU");
	ok(trace_reader_sidecar_error(reader)->code == ENOENT, "a missing sidecar gives ENOENT");
	ok(!trace_reader_cut(reader), "a whole trace is not cut");
	trace_reader_close(reader);
	scratch_remove(&dir);
}

static void test_backwards(void)
{
	struct scratch dir = scratch_make();
	const struct kmem_record first[] = {at(100, 3), at(50, 4), at(110, 5)};
	const struct kmem_record second[] = {at(10, 1), at(20, 2), at(120, 6)};
	struct trace_reader *reader = NULL;
	char order[32];

	stream_put(dir.path, 0, first, 3);
	stream_put(dir.path, 1, second, 3);
	trace_reader_open(dir.path, &reader, NULL);
	read_order(reader, order);
	is_str(order, "123456", "a clock that steps back loses and reorders nothing of its vCPU");
	trace_reader_close(reader);
	scratch_remove(&dir);
}

/* Many streams with many records: more than the buffers hold. */
static void test_many(void)
{
	enum { STREAMS = 9, RECORDS = 3000 };
	struct scratch dir = scratch_make();
	struct kmem_record *records = calloc(RECORDS, sizeof(*records));
	uint64_t next_index[STREAMS] = {0};
	struct trace_reader *reader = NULL;
	struct record_event event;
	unsigned int seed = 3, wrong = 0;
	int64_t last = -1;

	for (unsigned int vcpu = 0; vcpu < STREAMS; vcpu++) {
		int64_t now = 0;

		for (int i = 0; i < RECORDS; i++)
			records[i] = at(now += rand_r(&seed) % 1000, (uint64_t)i);
		stream_put(dir.path, vcpu, records, RECORDS);
	}
	trace_reader_open(dir.path, &reader, NULL);
	while (read_record(reader, &event, NULL) > 0) {
		wrong += event.index != next_index[event.vcpu]++ ||
			 event.record.ptr != event.index ||
			 event.offset != event.index * KMEMTRACE_RECORD_SIZE ||
			 event.record.timestamp < last;
		last = event.record.timestamp;
	}
	is_u64(wrong, 0, "every event has its index and offset, in the order of time");
	for (unsigned int vcpu = 0; vcpu < STREAMS; vcpu++)
		is_u64(next_index[vcpu], RECORDS, "all records of a vCPU are read");
	trace_reader_close(reader);
	free(records);
	scratch_remove(&dir);
}

static struct trace_reader *open_bytes(const void *bytes, size_t size)
{
	static struct trace_memory_file file;
	struct trace_reader *reader = NULL;

	file = (struct trace_memory_file){"cpu0", bytes, size};
	if (trace_reader_open_memory(&file, 1, &reader, NULL))
		abort();
	return reader;
}

/* Reads n bytes of a trace of whole records of `stride` bytes. Returns whether all is as it must
 * be. */
static bool reads_prefix(const uint8_t *bytes, size_t n, size_t stride)
{
	uint8_t *copy = malloc(n + 1); /* exact, so that ASan sees a read too far */
	struct trace_reader *reader;
	struct trace_stream_info info;
	char order[32];
	bool right;

	if (!copy)
		abort();
	memcpy(copy, bytes, n);
	reader = open_bytes(copy, n);
	read_order(reader, order);
	trace_reader_stream_info(reader, 0, &info);
	right = info.records == n / stride && strlen(order) == n / stride &&
		info.ignored == n % stride && info.offset == n - n % stride &&
		info.fault == (n % stride ? RECORD_FAULT_TRUNCATED : RECORD_FAULT_NONE) &&
		trace_reader_cut(reader) == (n % stride != 0);
	trace_reader_close(reader);
	free(copy);
	return right;
}

static void test_truncation(void)
{
	uint8_t plain[SMALL * KMEMTRACE_RECORD_SIZE], longer[SMALL * 70] = {0};
	unsigned int wrong = 0;

	for (unsigned int i = 0; i < SMALL; i++) {
		struct kmem_record record = at(i, i);

		kmemtrace_encode(&record, plain + i * KMEMTRACE_RECORD_SIZE);
		kmemtrace_encode(&record, longer + i * 70ul);
		longer[i * 70 + 2] = 70;
	}
	for (size_t n = 0; n <= sizeof(plain); n++)
		wrong += !reads_prefix(plain, n, KMEMTRACE_RECORD_SIZE);
	is_u64(wrong, 0,
	       "of a stream cut at any byte whole records are read, and the rest is counted");
	for (size_t n = 0; n <= sizeof(longer); n++)
		wrong += !reads_prefix(longer, n, 70);
	is_u64(wrong, 0, "the same holds for records of a later, longer kind");
}

static void test_big_endian(void)
{
	/* An allocation of 2 of 3 bytes at 0x0a at 7 ns, by 0x0b, as a big-endian machine writes
	 * it. */
	static const uint8_t bytes[KMEMTRACE_RECORD_SIZE] = {
		[0] = 1,    [1] = 1,    [3] = 56, [4] = 0xff, [5] = 0xff, [6] = 0xff, [7] = 0xff,
		[15] = 0xb, [23] = 0xa, [31] = 2, [39] = 3,   [47] = 4,   [55] = 7,
	};
	struct trace_reader *reader = open_bytes(bytes, sizeof(bytes));
	struct record_event event = {0};

	is_u64((uint64_t)read_record(reader, &event, NULL), 1, "a big-endian record is read");
	ok(event.record.node == -1 && event.record.timestamp == 7,
	   "node and time of a big-endian record are right");
	ok(event.record.ptr == 0xa && event.record.call_site == 0xb,
	   "addresses of a big-endian record are right");
	ok(event.record.bytes_req == 2 && event.record.bytes_alloc == 3,
	   "sizes of a big-endian record are right");
	trace_reader_close(reader);
}

static void test_bad_size(void)
{
	uint8_t bytes[SMALL * KMEMTRACE_RECORD_SIZE];
	struct trace_stream_info info;
	struct trace_reader *reader;
	char order[32];

	for (unsigned int i = 0; i < SMALL; i++) {
		struct kmem_record record = at(i, i);

		kmemtrace_encode(&record, bytes + i * KMEMTRACE_RECORD_SIZE);
	}
	bytes[KMEMTRACE_RECORD_SIZE + 2] = 55;
	reader = open_bytes(bytes, sizeof(bytes));
	read_order(reader, order);
	is_str(order, "0", "reading ends at a record of impossible size");
	trace_reader_stream_info(reader, 0, &info);
	is_u64(info.fault, RECORD_FAULT_SIZE, "a record of impossible size is a fault");
	is_u64(info.offset, KMEMTRACE_RECORD_SIZE, "the fault has its offset");
	trace_reader_close(reader);
}

/* trace_reader_cut() must not turn true before the last event of the cut stream was dealt with. */
static void test_cut_in_time(void)
{
	struct scratch dir = scratch_make();
	const struct kmem_record first[] = {at(1, 1), at(3, 3)}, second[] = {at(2, 2), at(4, 4)};
	static const char sidecar[] = "{\"version\":1,\"complete\":true,\"vcpus\":"
				      "[{\"allocs\":3},{\"allocs\":2},{\"allocs\":1}]}";
	struct trace_reader *reader = NULL;
	struct record_event event;
	char cuts[8] = "";

	stream_put(dir.path, 0, first, 2);
	stream_put(dir.path, 1, second, 2);
	stream_put(dir.path, 2, first, 1);
	file_put(dir.path, "sonde.json", sidecar, strlen(sidecar));
	trace_reader_open(dir.path, &reader, NULL);
	while (read_record(reader, &event, NULL) > 0)
		strcat(cuts, trace_reader_cut(reader) ? "y" : "n");
	is_str(cuts, "nnnny", "a trace cut at a record's end counts as cut behind its last event");
	trace_reader_close(reader);
	scratch_remove(&dir);
}

static void test_lost_file(void)
{
	struct scratch dir = scratch_make();
	const struct kmem_record first[] = {at(1, 1)};
	static const char sidecar[] = "{\"version\":1,\"complete\":true,\"vcpus\":"
				      "[{\"allocs\":1},{\"allocs\":2,\"overruns\":4}]}";
	struct trace_reader *reader = NULL;
	struct trace_stream_info info;
	struct trace_losses losses;
	char order[32];

	stream_put(dir.path, 0, first, 1);
	file_put(dir.path, "sonde.json", sidecar, strlen(sidecar));
	file_put(dir.path, "total_overruns", "280\n", 4);
	trace_reader_open(dir.path, &reader, NULL);
	read_order(reader, order);
	is_str(order, "1", "a trace with a lost file is read");
	is_u64(trace_reader_nr_streams(reader), 2, "a lost file counts as a stream");
	trace_reader_stream_info(reader, 1, &info);
	is_u64(info.expected, 2, "a lost file's stream has the records that the sidecar counts");
	ok(trace_reader_cut(reader), "a trace with a lost file is cut");
	trace_reader_losses(reader, &losses);
	is_u64(losses.counters.v[COUNTER_OVERRUNS], 5,
	       "of two overrun counts the greater holds, in records");
	trace_reader_close(reader);
	scratch_remove(&dir);
}

static void test_not_a_trace(void)
{
	struct scratch dir = scratch_make();
	struct trace_reader *reader = NULL;
	struct error err = {0};
	char path[128];

	ok(trace_reader_open(dir.path, &reader, &err) == -ENOENT, "an empty directory is refused");
	ok(strstr(err.text, "not a trace"), "the message says that it is not a trace");
	snprintf(path, sizeof(path), "%s/cpu0", dir.path);
	ok(trace_reader_open(path, &reader, &err) == -ENOENT,
	   "a path that does not exist is refused");
	ok(!mkfifo(path, 0600), "a FIFO is made");
	ok(trace_reader_open(dir.path, &reader, &err) == -EINVAL,
	   "a FIFO as stream is refused without blocking");
	ok(!strchr(err.text, '\n') && strstr(err.text, "cpu0"), "the message names the FIFO");
	unlink(path);
	file_put(dir.path, "cpu4096", "", 0);
	ok(trace_reader_open(dir.path, &reader, &err) == -EINVAL,
	   "a vCPU number beyond the maximum is refused");
	ok(!reader, "a refused trace gives no reader");
	scratch_remove(&dir);
}

int main(void)
{
	test_merge();
	test_backwards();
	test_many();
	test_truncation();
	test_big_endian();
	test_bad_size();
	test_cut_in_time();
	test_lost_file();
	test_not_a_trace();
	return tap_done();
}
