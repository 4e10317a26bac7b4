/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A trace that two threads describe. */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>
#include "formats/base/clock.h"
#include "formats/trace/reader.h"
#include "tests/lib/trace-make.h"
#include "tests/unit/formats/trace/instances-fixture.h"

enum { MANY = 100 };

/* Space for the last sidecar is reserved in the file that each sidecar is written to. This one
 * takes long, as on a shared disk. */
static atomic_uint reserving, overlaps;

int posix_fallocate(int fd, off_t offset, off_t length)
{
	reserving++;
	clock_wait_ms(1);
	reserving--;
	return ftruncate(fd, offset + length) ? errno : 0;
}

int renameat(int from_fd, const char *from, int to_fd, const char *to)
{
	overlaps += reserving != 0;
	return (int)syscall(SYS_renameat2, from_fd, from, to_fd, to, 0);
}

struct describer {
	struct trace_writer *writer;
	atomic_bool ends;
	atomic_uint times, failures;
};

static void *describe_again(void *arg)
{
	struct describer *d = arg;

	while (!d->ends) {
		d->failures += trace_writer_set_info(d->writer, &info, NULL) != 0;
		d->times++;
	}
	return NULL;
}

static void test_described_by_two(void)
{
	struct scratch dir = scratch_make();
	struct describer d = {.writer = create(dir.path, "ctf")};
	struct trace_instance instance = functions("a", FUNCTION_ALL);
	struct trace_reader *reader;
	char name[8];
	pthread_t other;
	unsigned int failed = 0;

	if (pthread_create(&other, NULL, describe_again, &d))
		abort();
	while (!d.times)
		sched_yield();
	for (unsigned int i = 0; i < MANY; i++) {
		snprintf(name, sizeof(name), "i%u", i);
		instance.name = name;
		failed += add(d.writer, &instance) < 0;
	}
	d.ends = true;
	pthread_join(other, NULL);
	is_u64(overlaps, 0, "a sidecar is not written where space is being reserved");
	is_u64(failed, 0, "instances are added while another thread describes the trace");
	is_u64(d.failures, 0, "nor does the other thread fail");
	ok(!trace_reader_open(dir.path, &reader, NULL), "what it says can be read");
	trace_reader_close(reader);
	trace_writer_destroy(d.writer);
	scratch_remove(&dir);
}

int main(void)
{
	test_described_by_two();
	return tap_done();
}
