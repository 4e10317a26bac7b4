/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "formats/output/output.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#include "formats/base/clock.h"
#include "tests/lib/tap.h"
#include "tests/lib/trace-make.h"

enum { PACKET = 1000, MAX_WRITES = 4096, DEADLINE_MS = 10000 };

/* A disk that is as slow, and fails, as a test wants. A packet begins with its number. */
struct sink {
	struct output_file base;
	atomic_int fails;      /* errno of each write, or 0 */
	atomic_uint sleep_ms;  /* before each write */
	atomic_bool hangs;     /* no write returns */
	atomic_uint nr_writes; /* that were tried */
	atomic_uint nr;        /* packets taken */
	uint32_t taken[MAX_WRITES];
};

static int sink_write(struct output_file *base, void *packet, size_t size)
{
	struct sink *sink = (struct sink *)base;

	sink->nr_writes++;
	if (sink->sleep_ms)
		clock_wait_ms(sink->sleep_ms);
	while (sink->hangs)
		clock_wait_ms(1);
	if (sink->fails)
		return -sink->fails;
	memcpy(&sink->taken[sink->nr], packet, sizeof(uint32_t));
	sink->nr += size > 0;
	return 0;
}

struct fixture {
	struct output *output;
	struct sink sinks[2];
	struct output_stream *streams[2];
};

static struct fixture *begin(const struct output_config *config)
{
	struct fixture *f = calloc(1, sizeof(*f));

	if (!f || output_create(config, &f->output))
		abort();
	for (int i = 0; i < 2; i++) {
		f->sinks[i].base.write = sink_write;
		if (output_add(f->output, &f->sinks[i].base, &f->streams[i]))
			abort();
	}
	return f;
}

static void end(struct fixture *f)
{
	output_destroy(f->output);
	free(f);
}

/* In memory for a larger one. */
static int put_copy(struct output_stream *stream, const void *bytes, size_t size,
		    const struct output_events *events)
{
	void *packet = output_packet_new(2 * size);
	int ret;

	if (!packet)
		abort();
	memcpy(packet, bytes, size);
	ret = output_put(stream, packet, size, events);
	if (ret)
		output_packet_free(packet);
	return ret;
}

/* A packet of 3 allocations and 1 free. */
static int put(struct fixture *f, int stream, uint32_t number)
{
	const struct output_events events = {.n = {3, 1}};
	uint8_t packet[PACKET] = {0};

	memcpy(packet, &number, sizeof(number));
	return put_copy(f->streams[stream], packet, sizeof(packet), &events);
}

static bool await(const atomic_uint *count, unsigned int n)
{
	uint64_t until = clock_monotonic_ms() + DEADLINE_MS;

	while (*count < n && clock_monotonic_ms() < until)
		clock_wait_ms(1);
	return *count >= n;
}

static bool is_sequence(const struct sink *sink, uint32_t first, uint32_t n)
{
	bool same = sink->nr == n;

	for (uint32_t i = 0; same && i < n; i++)
		same = sink->taken[i] == first + i;
	return same;
}

static void test_order(void)
{
	struct fixture *f = begin(&(struct output_config){.queue_bytes = 1 << 20});
	unsigned int failed = 0;

	for (uint32_t i = 0; i < 400; i++)
		failed += put(f, i % 2, i / 2) != 0;
	is_u64(failed, 0, "packets are taken");
	ok(!output_sync(f->output), "they are written");
	ok(is_sequence(&f->sinks[0], 0, 200) && is_sequence(&f->sinks[1], 0, 200),
	   "each stream has its packets, in order");
	is_u64(output_counts(f->output).written_bytes, 400 * PACKET, "written bytes are counted");
	is_u64(output_counts(f->output).queued_bytes, 0, "nothing is left in the queue");
	is_u64(output_counts(f->output).waits, 0, "no thread waits for a fast disk");
	end(f);
}

static void test_slow(void)
{
	struct fixture *f = begin(&(struct output_config){.queue_bytes = 4 * PACKET});
	struct output_counts counts;
	uint64_t begin_ns;
	uint32_t n = 0;

	f->sinks[0].sleep_ms = 20;
	while (!put(f, 0, n))
		n++;
	ok(n >= 4 && n <= 6, "the queue holds what it may, and no more (%u)", n);
	ok(put(f, 0, n) == -EAGAIN, "a full queue refuses, and does not wait");
	begin_ns = clock_monotonic_ns();
	ok(!output_wait(f->streams[0], PACKET), "output_wait() waits for the disk");
	ok(clock_monotonic_ns() > begin_ns && !put(f, 0, n), "then there is room for a packet");
	ok(!output_sync(f->output), "all is written");
	ok(is_sequence(&f->sinks[0], 0, n + 1), "nothing is lost");
	counts = output_counts(f->output);
	is_u64(counts.waits, 1, "a spell of a full queue is counted once");
	ok(counts.wait_ns > 1000000, "its time is counted (%llu ns)",
	   (unsigned long long)counts.wait_ns);
	end(f);
}

static void test_failing(void)
{
	struct fixture *f = begin(&(struct output_config){.queue_bytes = 8 * PACKET});
	struct output_events events = {0};
	uint32_t n = 0;

	f->sinks[0].fails = ENOSPC;
	ok(!put(f, 0, n++) && await(&f->sinks[0].nr_writes, 1), "a packet is tried");
	ok(output_sync(f->output) == -ENOSPC, "output_sync() has the disk's error");
	while (n < 100 && !put(f, 0, n))
		n++;
	is_u64(n, 4, "a failing stream fills its share of the queue only");
	ok(put(f, 0, n) == -ENOSPC, "then it refuses with the disk's error");
	ok(!output_wait(f->streams[0], PACKET), "no thread waits for a disk that fails");
	is_u64(output_counts(f->output).waits, 0, "a disk that refuses is not a slow one");
	for (uint32_t i = 0; i < 50; i++) {
		while (put(f, 1, i) == -EAGAIN)
			output_wait(f->streams[1], PACKET);
	}
	ok(output_sync(f->output) == -ENOSPC && is_sequence(&f->sinks[1], 0, 50),
	   "another stream is written meanwhile");
	f->sinks[0].fails = 0;
	ok(await(&f->sinks[0].nr, n) && is_sequence(&f->sinks[0], 0, n),
	   "when the disk has room again, what was queued is written");
	f->sinks[0].fails = EIO;
	put(f, 0, n++);
	put(f, 0, n++);
	ok(output_sync(f->output) == -EIO, "the disk fails again");
	is_u64(output_discard(f->streams[0], &events), 2, "what is queued can be discarded");
	ok(events.n[0] == 6 && events.n[1] == 2, "the events in it are known");
	ok(!output_sync(f->output), "after that nothing is left to fail");
	end(f);
}

static void test_hang(void)
{
	struct fixture *f =
		begin(&(struct output_config){.queue_bytes = 2 * PACKET, .stall_ms = 100});
	uint64_t began;
	uint32_t n = 0;

	f->sinks[0].hangs = true;
	put(f, 0, n++);
	await(&f->sinks[0].nr_writes, 1);
	while (!put(f, 0, n))
		n++;
	began = clock_monotonic_ms();
	ok(output_wait_briefly(f->streams[0], PACKET, 30) == -ETIMEDOUT &&
		   clock_monotonic_ms() - began < 80,
	   "a thread may wait for less");
	began = clock_monotonic_ms();
	ok(output_wait(f->streams[0], PACKET) == -ETIMEDOUT, "a disk that hangs is given up");
	ok(clock_monotonic_ms() - began < 5000, "the wait is bounded");
	began = clock_monotonic_ms();
	ok(output_wait(f->streams[0], PACKET) == -ETIMEDOUT && clock_monotonic_ms() - began < 50,
	   "after that no thread waits for the disk");
	ok(output_sync(f->output) == -ETIMEDOUT, "nor does output_sync()");
	f->sinks[0].hangs = false;
	ok(await(&f->sinks[0].nr, n) && is_sequence(&f->sinks[0], 0, n),
	   "when the disk lives again, what was queued is written");
	end(f);
}

/* Of a test that stops its process. */
enum { STOPPED_MS = 400 };

/* Shared with that process: it goes on. */
static atomic_bool *goes_on;

/* A disk that answers when the process has been stopped, but not at once. */
static int write_after_stop(struct output_file *base, void *packet, size_t size)
{
	while (!*goes_on)
		clock_wait_ms(1);
	clock_wait_ms(20);
	return sink_write(base, packet, size);
}

static void *stop_soon(void *arg)
{
	(void)arg;
	clock_wait_ms(20);
	kill(getpid(), SIGSTOP);
	return NULL;
}

/* Exits with 0 if the disk was waited for. */
static void wait_and_be_stopped(bool while_waiting)
{
	struct fixture *f =
		begin(&(struct output_config){.queue_bytes = 2 * PACKET, .stall_ms = 200});
	pthread_t stopper;
	uint32_t n = 0;
	int ret;

	f->sinks[0].base.write = write_after_stop;
	while (!put(f, 0, n))
		n++;
	if (while_waiting)
		pthread_create(&stopper, NULL, stop_soon, NULL);
	else
		kill(getpid(), SIGSTOP);
	ret = output_wait(f->streams[0], PACKET);
	if (while_waiting)
		pthread_join(stopper, NULL);
	if (!ret)
		ret = put(f, 0, n) || output_sync(f->output) ||
		      !is_sequence(&f->sinks[0], 0, n + 1);
	end(f);
	_exit(ret != 0);
}

static int stop_a_waiter(bool while_waiting)
{
	int status = -1;
	pid_t pid;

	goes_on = mmap(NULL, sizeof(*goes_on), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
		       -1, 0);
	if (goes_on == MAP_FAILED)
		return -1;
	pid = fork();
	if (!pid)
		wait_and_be_stopped(while_waiting);
	waitpid(pid, &status, WUNTRACED);
	if (!WIFSTOPPED(status))
		return -1;
	clock_wait_ms(STOPPED_MS);
	*goes_on = true;
	kill(pid, SIGCONT);
	waitpid(pid, &status, 0);
	munmap(goes_on, sizeof(*goes_on));
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void test_stopped(void)
{
	is_u64((uint64_t)stop_a_waiter(true), 0,
	       "a process that is stopped while it waits does not take the disk for dead");
	is_u64((uint64_t)stop_a_waiter(false), 0, "nor does one that is stopped before it waits");
}

/* The thread calls it; puts a packet once, as an encoder that is flushed would. */
struct preparing {
	struct fixture *_Atomic f;
	atomic_uint calls, puts;
	atomic_uint early; /* packets that were written before the call */
};

static int before_writing(void *arg)
{
	struct preparing *p = arg;

	p->calls++;
	if (!p->f)
		return 0;
	if (p->puts++)
		return 0;
	p->early = p->f->sinks[0].nr;
	put(p->f, 1, 7);
	return 0;
}

static void test_before_writing(void)
{
	struct preparing p = {.early = 1};
	struct fixture *f = begin(&(struct output_config){
		.queue_bytes = 1 << 20, .before_writing = before_writing, .arg = &p});
	unsigned int calls;

	p.f = f;
	put(f, 0, 0);
	ok(await(&f->sinks[0].nr, 1) && p.calls, "before_writing() is called");
	is_u64(p.early, 0, "it is called before the packet is written");
	ok(await(&f->sinks[1].nr, 1) && f->sinks[1].taken[0] == 7,
	   "a packet that it puts is written, too");
	calls = p.calls;
	ok(await(&p.calls, calls + 2), "it is called while there is nothing to write");
	end(f);
}

static void test_flight_recorder(void)
{
	struct fixture *f =
		begin(&(struct output_config){.queue_bytes = 1 << 20, .keep_bytes = 10 * PACKET});
	struct output_events forgotten;

	for (uint32_t i = 0; i < 35; i++)
		put(f, 0, i);
	put(f, 1, 100);
	ok(!output_sync(f->output), "a flight recorder has nothing to wait for");
	is_u64(f->sinks[0].nr_writes + f->sinks[1].nr_writes, 0,
	       "a flight recorder writes nothing");
	forgotten = output_forgotten(f->streams[0]);
	ok(forgotten.n[0] == 25 * 3 && forgotten.n[1] == 25,
	   "it knows how many events it has forgotten");
	output_release(f->output);
	ok(!output_sync(f->output), "what it keeps can be written");
	ok(is_sequence(&f->sinks[0], 25, 10), "that is the last packets");
	ok(is_sequence(&f->sinks[1], 100, 1), "a stream of its own forgets nothing");
	for (uint32_t i = 35; i < 50; i++)
		put(f, 0, i);
	output_sync(f->output);
	is_u64(f->sinks[0].nr, 10, "after that it keeps packets as before");
	output_release(f->output);
	output_sync(f->output);
	is_u64(f->sinks[0].taken[10], 40, "a second time it writes the last packets again");
	end(f);
}

/* Packets that come while older ones are written neither push those out nor are written. */
static void test_release_while_writing(void)
{
	struct fixture *f =
		begin(&(struct output_config){.queue_bytes = 2 * PACKET, .keep_bytes = 4 * PACKET});
	uint32_t n = 0;

	f->sinks[0].hangs = true;
	for (; n < 4; n++)
		put(f, 0, n);
	output_release(f->output);
	await(&f->sinks[0].nr_writes, 1);
	ok(!put(f, 0, n++), "there is some room beside packets that are being written");
	ok(put(f, 0, n) == -EAGAIN, "that room is bounded");
	f->sinks[0].hangs = false;
	ok(!output_sync(f->output) && is_sequence(&f->sinks[0], 0, 4),
	   "what was released is written, and nothing else");
	end(f);
}

/* An error that is known before output_sync() asks for it counts, too. */
static void test_release_refused(void)
{
	struct fixture *f =
		begin(&(struct output_config){.queue_bytes = 2 * PACKET, .keep_bytes = 4 * PACKET});
	unsigned int refused = 0;
	uint32_t n = 0;

	for (; n < 4; n++)
		put(f, 0, n);
	f->sinks[0].fails = ENOSPC;
	output_release(f->output);
	await(&f->sinks[0].nr_writes, 1);
	ok(output_sync(f->output) == -ENOSPC, "a full disk is reported");
	f->sinks[0].fails = 0;
	for (; n < 20; n++)
		refused += put(f, 0, n) != 0;
	is_u64(refused, 0, "after that a flight recorder takes packets");
	is_u64(f->sinks[0].nr, 0, "it writes none of them unasked");
	output_release(f->output);
	ok(!output_sync(f->output) && is_sequence(&f->sinks[0], 16, 4),
	   "what it has kept are the last packets");
	end(f);
}

static void test_file(void)
{
	struct scratch dir = scratch_make();
	const struct output_events none = {0};
	struct output_stream *stream;
	struct packet_file file;
	struct rlimit old, limit;
	struct output *output;
	char path[128], *text;
	int fd, ret;
	size_t size;

	snprintf(path, sizeof(path), "%s/packets", dir.path);
	fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	packet_file_init(&file, fd);
	if (output_create(&(struct output_config){.queue_bytes = 1000}, &output) ||
	    output_add(output, &file.base, &stream))
		abort();
	getrlimit(RLIMIT_FSIZE, &old);
	limit = old;
	limit.rlim_cur = 7;
	setrlimit(RLIMIT_FSIZE, &limit);
	put_copy(stream, "first", 5, &none);
	put_copy(stream, "second", 6, &none);
	ret = output_sync(output);
	text = file_get(dir.path, "packets", &size);
	setrlimit(RLIMIT_FSIZE, &old);
	ok(ret == -EFBIG, "a file that may not grow fails");
	is_str(text, "first", "it is cut back to whole packets");
	free(text);
	ok(!output_sync(output), "the rest is written when it may");
	text = file_get(dir.path, "packets", &size);
	is_str(text, "firstsecond", "packets follow each other");
	free(text);
	output_destroy(output);
	close(fd);
	scratch_remove(&dir);
}

enum { THREADS = 2, PER_THREAD = 2000 };

struct producer {
	struct fixture *f;
	int stream;
};

static void *produce(void *arg)
{
	const struct producer *p = arg;

	for (uint32_t i = 0; i < PER_THREAD; i++) {
		while (put(p->f, p->stream, i) == -EAGAIN)
			output_wait(p->f->streams[p->stream], PACKET);
	}
	return NULL;
}

static void test_threads(void)
{
	struct fixture *f = begin(&(struct output_config){.queue_bytes = 3 * PACKET});
	struct producer producers[THREADS];
	pthread_t threads[THREADS];

	for (int i = 0; i < THREADS; i++) {
		producers[i] = (struct producer){f, i};
		pthread_create(&threads[i], NULL, produce, &producers[i]);
	}
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	ok(!output_sync(f->output), "what several threads put is written");
	ok(is_sequence(&f->sinks[0], 0, PER_THREAD) && is_sequence(&f->sinks[1], 0, PER_THREAD),
	   "nothing is lost however small the queue is");
	end(f);
}

/* Rounds come twice a second. */
static void test_hold(void)
{
	struct fixture *f = begin(&(struct output_config){.queue_bytes = 10 * PACKET});

	put(f, 0, 1);
	ok(!output_sync(f->output), "a packet is written");
	output_hold(f->output);
	put(f, 0, 2);
	clock_wait_ms(700);
	is_u64(f->sinks[0].nr_writes, 1, "while the output is held, the next one is not");
	output_resume(f->output);
	ok(!output_sync(f->output), "it is written when the output resumes");
	is_u64(f->sinks[0].nr, 2, "both are there");
	end(f);
}

static atomic_int unprepared; /* errno */
static atomic_uint nr_prepared;

static int refuse_to_prepare(void *arg)
{
	(void)arg;
	nr_prepared++;
	return -unprepared;
}

/* What a packet needs before it is written cannot be had. */
static void test_refused_preparation(void)
{
	struct fixture *f = begin(&(struct output_config){.queue_bytes = 8 * PACKET,
							  .before_writing = refuse_to_prepare});
	unsigned int calls;
	uint32_t n = 1;

	put(f, 0, 0);
	ok(!output_sync(f->output), "a packet that is prepared is written");
	unprepared = ENOSPC;
	put(f, 0, n++);
	ok(output_sync(f->output) == -ENOSPC, "one that cannot be counts as refused");
	is_u64(f->sinks[0].nr_writes, 1, "it is not written");
	while (n < 100 && !put(f, 0, n))
		n++;
	ok(put(f, 0, n) == -ENOSPC, "a full queue refuses with that error");
	calls = nr_prepared;
	clock_wait_ms(1000);
	ok(nr_prepared > calls && nr_prepared < calls + 100, "it is tried again at times");
	unprepared = 0;
	ok(await(&f->sinks[0].nr, n) && is_sequence(&f->sinks[0], 0, n),
	   "when it can be had, all is written");
	calls = nr_prepared;
	output_prepare(f->output);
	ok(await(&nr_prepared, calls + 1), "it can be asked for");
	end(f);
}

static int prepare_for_long(void *arg)
{
	atomic_uint *calls = arg;

	++*calls;
	clock_wait_ms(600);
	return 0;
}

/* Longer than the time between two calls: packets are written nevertheless. */
static void test_long_preparation(void)
{
	static atomic_uint calls;
	struct fixture *f = begin(&(struct output_config){
		.queue_bytes = 1 << 20, .before_writing = prepare_for_long, .arg = &calls});

	put(f, 0, 0);
	for (int i = 0; i < 1000 && calls < 5 && !f->sinks[0].nr; i++)
		clock_wait_ms(10);
	ok(f->sinks[0].nr == 1, "a packet is written also where each preparation takes long");
	end(f);
}

int main(void)
{
	signal(SIGXFSZ, SIG_IGN);
	test_order();
	test_slow();
	test_failing();
	test_hang();
	test_stopped();
	test_before_writing();
	test_long_preparation();
	test_refused_preparation();
	test_flight_recorder();
	test_release_while_writing();
	test_release_refused();
	test_hold();
	test_file();
	test_threads();
	return tap_done();
}
