/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A whole trace session on a fake guest, again and again: each time another one of its fallible
 * calls (faults.h) fails. It must not crash or hang, every failure must be reported in one line,
 * and afterwards the guest must be as before. Each time is a process of its own.
 *
 * FAULTS (42): every 42nd call only; 1: each. BUDGET: seconds in which as many calls fail as
 * there is time for, spread over all. `session WAY CALL` lets one call fail, for a debugger.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include "formats/base/clock.h"
#include "tests/fault/faults.h"
#include "tests/fault/faulty-guest.h"
#include "tests/lib/fake-module.h"
#include "tests/lib/fake-session.h"
#include "tests/lib/tap.h"

enum { RING_BYTES = 64 << 10, TIME_LIMIT = 60, MOST_DIAGNOSES = 12 };

static const struct way {
	const char *name;
	struct trace_options options;
	bool breaks; /* breakpoints instead of port writes */
	bool live;   /* the direct lane: instances of its tracers come and go, a module, too */
} ways[] = {
	{"by traps", {0}, false, false},
	{"by breakpoints", {.max_rate = 3}, true, false},
	{"exitless, waiting", {.exitless = true, .ring_bytes = RING_BYTES}, false, false},
	{"exitless, dropping",
	 {.exitless = true, .drop = true, .ring_bytes = RING_BYTES},
	 true,
	 false},
	{"exitless, live changes", {.exitless = true, .ring_bytes = RING_BYTES}, false, true},
};

enum { NR_WAYS = sizeof(ways) / sizeof(ways[0]) };

/* --- in the process of one time --------------------------------------------------------------- */

static const char *step; /* of the session */

/* What is wrong, to standard output, which is the parent's pipe. */
static void complain(const char *what)
{
	printf("%s fails in '%s': %s\n", faults_failed() ? faults_failed() : "nothing", step, what);
	fflush(stdout);
	_exit(1);
}

/* Whether the step succeeded; if not, a call has failed, and it must say why. */
static bool judge(int ret, const struct error *err)
{
	if (!ret)
		return true;
	if (ret > 0)
		complain("a positive result");
	if (!err->code || !err->text[0])
		complain("no error is reported");
	if (strchr(err->text, '\n'))
		complain("the error has more than one line");
	if (!faults_failed())
		complain(err->text);
	return false;
}

static uint8_t ram[FAKE_RAM]; /* the guest's, at first */

/* A guest without a session, which the processes inherit. */
static void prepare(struct fake_session *fs, const struct way *way)
{
	fake_session_create(fs);
	trace_session_destroy(fs->session);
	trace_writer_destroy(fs->writer);
	scratch_remove(&fs->dir);
	fs->session = NULL;
	fs->writer = NULL;
	if (way->breaks)
		fs->fg.guest.caps =
			(fs->fg.guest.caps & ~(uint32_t)GUEST_CAP_PORT_TRAP) | GUEST_CAP_BREAK;
	if (way->live)
		fake_module_prepare(fs, true);
	faulty_guest_init(&fs->fg);
	memcpy(ram, fs->fg.base.ram, FAKE_RAM);
}

static bool create(struct fake_session *fs, const struct way *way)
{
	struct trace_info info = {0};
	struct error err = {0};

	step = "create";
	if (!judge(trace_writer_create(fs->dir.path, FAKE_VCPUS, 0, &info, &fs->writer, &err),
		   &err) ||
	    !judge(trace_session_create(&fs->fg.guest, &fs->fg.base.image, fs->writer, &fs->session,
					&err),
		   &err))
		return false;
	trace_session_kernel_at(fs->session, FAKE_SLIDE, FAKE_PHYS_TEXT);
	trace_session_set_options(fs->session, &way->options);
	return true;
}

static bool start(struct fake_session *fs, const char *spec)
{
	const char *const specs[] = {spec, NULL};
	struct error err = {0};

	step = spec;
	return judge(trace_session_start(fs->session, specs, &err), &err);
}

/* A call of each kind by the guest, where traps are in place. */
static void work(struct fake_session *fs, const struct way *way)
{
	struct error err = {0};

	step = "work";
	if (!way->options.exitless) {
		fake_session_call(fs, 0, FAKE_KMALLOC, 64);
		fake_session_call(fs, 1, FAKE_CACHE_ALLOC, 0);
		fake_session_call(fs, 2, FAKE_KFREE, fake_object());
	}
	judge(trace_session_tick(fs->session, &err), &err);
}

static void stop(struct fake_session *fs)
{
	struct error err = {0};

	step = "stop";
	judge(trace_session_stop(fs->session, &err), &err);
}

static void finish(struct fake_session *fs)
{
	struct trace_info info = {0};
	struct error err = {0};

	step = "finish";
	trace_session_info(fs->session, &info);
	judge(trace_writer_finish(fs->writer, &info, trace_session_symbolize, fs->session, &err),
	      &err);
}

static void add(struct fake_session *fs, const char *spec)
{
	struct error err = {0};

	step = spec;
	judge(trace_session_add_instance(fs->session, spec, &err), &err);
}

static void take_away(struct fake_session *fs, const char *name)
{
	struct error err = {0};

	step = name;
	/* it may never have come */
	judge(trace_session_remove_instance(fs->session, name, &err), &err);
}

static void load(struct fake_session *fs)
{
	static const struct fake_struct structs[] = {{"brd_device", 64, {{"number", 8, 4, 0, 0}}},
						     {NULL, 0, {{NULL, 0, 0, 0, 0}}}};
	static const char *const prototypes[] = {"int brd_read(struct brd_device *brd)", NULL};

	fake_module_load(fs);
	fake_module_put_types(fs, structs, prototypes);
}

/* Instances of each tracer on the direct lane, some of them with functions of a module. */
static void change(struct fake_session *fs, const struct way *way)
{
	load(fs);
	work(fs, way);
	add(fs, "g=graph:*:mod:brd,kmem_cache_alloc");
	add(fs, "p=profile:kfree,__kmalloc");
	add(fs, "d=probe:p:freed kmem_cache_free cache=%di");
	add(fs, "n=probe:p brd:brd_read brd->number");
	take_away(fs, "g");
	take_away(fs, "p");
	fake_module_unload(fs);
	work(fs, way);
	add(fs, "h=function:kfree,hist:keys=ip");
	add(fs, "kmem:cache");
}

static void run_live(struct fake_session *fs, const struct way *way)
{
	if (create(fs, way) && start(fs, "f=function:*:mod:brd,kfree")) {
		change(fs, way);
		stop(fs);
	}
	if (fs->session)
		finish(fs);
}

static void run(struct fake_session *fs, const struct way *way)
{
	if (way->live) {
		run_live(fs, way);
		return;
	}
	if (!create(fs, way))
		return;
	if (start(fs, "kmem")) {
		work(fs, way);
		stop(fs);
	}
	if (!fake_session_status(fs).enabled && start(fs, "kmem:cache")) {
		work(fs, way);
		stop(fs);
	}
	finish(fs);
}

/* After a stop that failed, another one must succeed, as the machine has recovered. */
static void check_guest(struct fake_session *fs, const struct way *way)
{
	struct error err = {0};

	step = "the end";
	if (fs->session && fake_session_status(fs).enabled && trace_session_stop(fs->session, &err))
		complain(err.text);
	trace_session_destroy(fs->session);
	fs->session = NULL;
	if (fs->fg.stopped)
		complain("the guest is left stopped");
	if (fs->fg.trap_fn)
		complain("the trap handler is left");
	if (fs->fg.nr_regions != 1)
		complain("scratch memory is left");
	if (!fake_session_text_same(fs))
		complain("the guest's text has changed");
	if (way->options.exitless && !way->live && memcmp(ram, fs->fg.base.ram, FAKE_RAM))
		complain("the guest's memory has changed");
}

/* Returns how many fallible calls there were, if none was to fail. */
static unsigned long run_once(struct fake_session *fs, const struct way *way, unsigned long n)
{
	unsigned long calls;

	alarm(TIME_LIMIT);
	fs->dir = scratch_make();
	faults_begin(n);
	run(fs, way);
	calls = faults_end();
	check_guest(fs, way);
	fake_session_destroy(fs);
	return calls;
}

/* --- all of them ------------------------------------------------------------------------------ */

static struct fake_session fs;
static unsigned long every = 42, diagnoses;

static void diagnose(const struct way *way, unsigned long n, int status, const char *said)
{
	if (diagnoses++ < MOST_DIAGNOSES)
		tap_diag("%s, call %td %lu: %.*s %s", way->name, way - ways, n,
			 (int)strcspn(said, "\n"), said,
			 WIFSIGNALED(status) ? strsignal(WTERMSIG(status)) : "");
}

/* Runs in a child; returns whether all was well, and what it prints in `said`. */
static bool run_child(const struct way *way, unsigned long n, char *said, size_t size, int *status)
{
	int fds[2];
	size_t got = 0;
	ssize_t more;
	pid_t pid;

	fflush(stdout);
	if (pipe(fds) || (pid = fork()) < 0)
		abort();
	if (!pid) {
		dup2(fds[1], STDOUT_FILENO);
		printf("%lu calls\n", run_once(&fs, way, n));
		fflush(stdout);
		exit(0);
	}
	close(fds[1]);
	while (got < size - 1 && (more = read(fds[0], said + got, size - 1 - got)) > 0)
		got += (size_t)more;
	said[got] = '\0';
	close(fds[0]);
	waitpid(pid, status, 0);
	return !*status;
}

static void add_total(unsigned long faults)
{
	const char *path = getenv("SONDE_TOTALS");
	FILE *totals = path ? fopen(path, "a") : NULL;

	if (!totals)
		return;
	fprintf(totals, "%lu faults injected\n", faults);
	fclose(totals);
}

/* One of `every` calls, from `first` on. Returns how many have failed, in *wrong how many badly. */
static unsigned long fail_some(const struct way *way, unsigned long first, unsigned long calls,
			       unsigned long *wrong)
{
	unsigned long done = 0;
	char said[512];
	int status;

	for (unsigned long n = first; n <= calls; n += every, done++) {
		if (run_child(way, n, said, sizeof(said), &status))
			continue;
		(*wrong)++;
		diagnose(way, n, status, said);
	}
	return done;
}

/* The same, and with time left the calls in between, in an order that differs from run to run. */
static unsigned long fail_all(const struct way *way, unsigned long calls, uint64_t ms,
			      unsigned long *wrong)
{
	uint64_t end = clock_monotonic_ms() + ms;
	unsigned long begin = ms ? (unsigned long)time(NULL) : 0;
	unsigned long done = 0, pass = 0;

	do {
		done += fail_some(way, 1 + (begin + pass) % every, calls, wrong);
	} while (++pass < every && clock_monotonic_ms() < end);
	return done;
}

/* ms: as many calls as there is time for; 0: one of `every`. */
static void test_way(const struct way *way, uint64_t ms)
{
	char said[512];
	unsigned long calls, wrong = 0, done;
	int status;

	prepare(&fs, way);
	if (!ok(run_child(way, 0, said, sizeof(said), &status),
		"%s: a session without faults is well", way->name)) {
		diagnose(way, 0, status, said);
		fake_guest_destroy(&fs.fg);
		return;
	}
	calls = strtoul(said, NULL, 10);
	done = fail_all(way, calls, ms, &wrong);
	add_total(done);
	ok(calls > 100 && !wrong,
	   "%s: of %lu fallible calls each of %lu fails once, and the guest is as before",
	   way->name, calls, done);
	fake_guest_destroy(&fs.fg);
}

static uint64_t ms_until(uint64_t end)
{
	uint64_t now = clock_monotonic_ms();

	return end > now ? end - now : 0;
}

/* In this process, for a debugger. */
static int debug(const struct way *way, unsigned long n)
{
	prepare(&fs, way);
	printf("%lu calls\n", run_once(&fs, way, n));
	return 0;
}

int main(int argc, char **argv)
{
	const char *faults = getenv("FAULTS"), *budget = getenv("BUDGET");
	uint64_t end = clock_monotonic_ms() + (budget ? strtoul(budget, NULL, 10) * 1000 : 0);

	if (argc == 3)
		return debug(&ways[strtoul(argv[1], NULL, 10) % NR_WAYS],
			     strtoul(argv[2], NULL, 10));

	if (faults && strtoul(faults, NULL, 10))
		every = strtoul(faults, NULL, 10);
	for (size_t i = 0; i < NR_WAYS; i++) {
		diagnoses = 0;
		test_way(&ways[i], ms_until(end) / (NR_WAYS - i));
	}
	return tap_done();
}
