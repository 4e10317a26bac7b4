/* SPDX-License-Identifier: GPL-2.0-or-later */
/* sonde top, sonde profile and sonde hist, of a monitor whose guest only pretends, and of a trace.
 */
#include "tests/unit/vmm/monitor/monitor-fixture.h"

#include <jansson.h>
#include "tests/lib/hostile-make.h"
#include "tests/lib/trace-make.h"
#include "formats/hist/hists.h"
#include "formats/profile/profiles.h"
#include "vmm/cmd.h"

/* Counts of vfs_read(), of a profile, and of all profiles. */
#define READ(hits, returns, timed, total, max)                                         \
	"{\"function\":\"vfs_read\",\"address\":\"0xffffffff81000000\",\"hits\":" hits \
	",\"returns\":" returns ",\"timed\":" timed ",\"total_ns\":" total ",\"max_ns\":" max "}"
#define PROFILE(name, ended, function)                                            \
	"{\"name\":\"" name "\",\"spec\":\"" name "=profile:x\",\"ended\":" ended \
	",\"profiled\":9,\"functions\":[" function "]}"
#define PROFILES(profiles) "{\"profiles\":[" profiles "]}"

#define NOW PROFILE("p", "false", READ("7", "true", "7", "70", "20"))
#define EARLIER PROFILE("p", "false", READ("5", "true", "5", "40", "20"))
#define UNTIMED PROFILE("q", "false", READ("3", "false", "0", "0", "0"))
#define ENDED PROFILE("gone", "true", READ("9", "true", "9", "9", "9"))

static const char sidecar[] =
	"{\"version\":1,\"complete\":true,\"vcpus\":[{\"allocs\":3,\"frees\":1}],"
	"\"caches\":[{\"id\":1,\"name\":\"dentry\",\"object_size\":190,\"size\":192}],"
	"\"symbols\":[{\"name\":\"d_alloc\",\"start\":\"0x1000\",\"size\":256}]}";

/* What the guest has counted; NULL: it says that it cannot. */
static const char *counted;

static json_t *give_profiles(void *arg, const char *name, struct error *err)
{
	json_t *document = counted ? json_loads(counted, 0, NULL) : NULL;

	(void)arg;
	(void)name;
	if (!document)
		error_set(err, EIO, "the rings are torn");
	return document;
}

static int clear_profiles(void *arg, const char *name, struct error *err)
{
	(void)arg;
	(void)name;
	(void)err;
	return 0;
}

static void add_profiles(struct fixture *f)
{
	f->trace_ops.profiles = give_profiles;
	f->trace_ops.clear_profiles = clear_profiles;
	f->trace_ops.hists = give_profiles;
	f->trace_ops.clear_hists = clear_profiles;
}

static void put_trace(const char *dir)
{
	static const uint8_t cache_ids[] = {1, 0, 1, 0, 0, 0, 0, 0};
	const struct kmem_record records[] = {
		make_alloc(KMEM_TYPE_CACHE, 0x100, 0x1010, 190, 192, 1000),
		make_alloc(KMEM_TYPE_CACHE, 0x200, 0x1010, 190, 192, 2000),
		make_alloc(KMEM_TYPE_PAGES, 0x3000, 0x2000, 4096, 4096, 3000),
		make_free(KMEM_TYPE_CACHE, 0x100, 0x5000, 4000),
	};

	stream_put(dir, 0, records, 4);
	file_put(dir, "caches0", cache_ids, sizeof(cache_ids));
	file_put(dir, "sonde.json", sidecar, strlen(sidecar));
}

/* --- top ------------------------------------------------------------------------------------- */

static struct verb_result top(const struct fixture *f, const char *dir, const char *option)
{
	const char *const argv[] = {"top", "--interval", "100ms", "--trace",
				    dir,   f->path,      option,  NULL};

	return verb_run(cmd_top, argv);
}

/* A row of `list`, by its name; NULL: there is none. */
static const json_t *row_of(const json_t *root, const char *list, const char *name)
{
	const json_t *array = json_object_get(root, list);

	for (size_t i = 0; i < json_array_size(array); i++) {
		const json_t *row = json_array_get(array, i);
		const char *its = json_string_value(json_object_get(row, "name"));

		if (its && !strcmp(its, name))
			return row;
	}
	return NULL;
}

static bool has(const json_t *row, const char *key, json_int_t value)
{
	const json_t *field = json_object_get(row, key);

	return json_is_integer(field) && json_integer_value(field) == value;
}

static void test_tables(const struct fixture *f, const char *dir)
{
	struct verb_result result;
	const json_t *row;
	json_t *root;

	counted = PROFILES(NOW);
	result = top(f, dir, "--json");
	root = json_loads(result.out, 0, NULL);
	row = row_of(root, "callsites", "d_alloc+0x10/0x100");
	ok(!result.status && has(row, "allocs", 2) && has(row, "live_objects", 1) &&
		   has(row, "live_bytes", 192),
	   "top: a call site has its allocations, and what is live of them");
	ok(has(row_of(root, "caches", "dentry"), "live_bytes", 192), "top: so has a cache");
	row = row_of(root, "functions", "vfs_read");
	ok(has(row, "calls", 7) && has(row, "mean_ns", 10) && has(row, "max_ns", 20),
	   "top: a profiled function has its calls and times");
	ok(json_is_real(json_object_get(row, "calls_per_second")) &&
		   json_real_value(json_object_get(row, "calls_per_second")) == 0,
	   "top: a function that is not called meanwhile has a rate of 0");
	json_decref(root);
	verb_result_deinit(&result);
	result = top(f, dir, "--once");
	ok(!result.status && strstr(result.out, "d_alloc+0x10/0x100") &&
		   strstr(result.out, "vfs_read"),
	   "top --once prints all tables");
	verb_result_deinit(&result);
}

static void test_instances(const struct fixture *f, const char *dir)
{
	struct verb_result result;
	json_t *root;

	counted = PROFILES(NOW "," UNTIMED "," ENDED);
	result = top(f, dir, "--json");
	root = json_loads(result.out, 0, NULL);
	ok(has(row_of(root, "functions", "vfs_read (p)"), "calls", 7) &&
		   has(row_of(root, "functions", "vfs_read (q) (hits only)"), "calls", 3),
	   "top: with several profiles, a function's row has the name of each");
	ok(json_is_null(json_object_get(row_of(root, "functions", "vfs_read (q) (hits only)"),
					"mean_ns")),
	   "top: a function whose returns are not seen has no times");
	is_u64(json_array_size(json_object_get(root, "functions")), 2,
	       "top: a profile that has ended is not shown");
	json_decref(root);
	verb_result_deinit(&result);
}

static void test_missing(const struct fixture *f, const char *dir)
{
	const char *const gone[] = {"top", "--once", "/nonexistent/monitor", NULL};
	struct verb_result result;

	counted = NULL;
	result = top(f, dir, "--once");
	ok(!result.status && strstr(result.out, "the rings are torn") &&
		   strstr(result.out, "d_alloc+0x10/0x100"),
	   "top: if functions cannot be read, it says why, and shows allocations: %s", result.out);
	verb_result_deinit(&result);
	counted = PROFILES("");
	result = top(f, "/nonexistent", "--once");
	ok(!result.status && strstr(result.out, "/nonexistent: No such file") &&
		   strstr(result.out, "no function is profiled"),
	   "top: what is missing is said in its place: %s", result.out);
	verb_result_deinit(&result);
	counted = "{\"profiles\":7}";
	result = top(f, dir, "--once");
	ok(result.status == 1 && strstr(result.err, "sonde top: "),
	   "top: a reply that is none ends it");
	verb_result_deinit(&result);
	result = verb_run(cmd_top, gone);
	ok(result.status == 1 && strstr(result.err, "/nonexistent/monitor"),
	   "top: without a monitor it fails");
	verb_result_deinit(&result);
}

/* The monitor names the trace, by a name that is relative to another folder. */
static void test_named(const struct fixture *f)
{
	const char *const argv[] = {"top", "--interval", "100ms", "--once", f->path, NULL};
	struct verb_result result;

	counted = PROFILES("");
	result = verb_run(cmd_top, argv);
	ok(!result.status && strstr(result.out, "out: "),
	   "top: without --trace the monitor's name of the trace is taken: %s", result.out);
	verb_result_deinit(&result);
}

/* --- profile --------------------------------------------------------------------------------- */

static struct verb_result profile(const char *source, const char *option, const char *value)
{
	const char *const argv[] = {"profile", source, option, value, NULL};

	return verb_run(cmd_profile, argv);
}

static void prints(const char *source, const char *option, const char *value, const char *want,
		   const char *label)
{
	struct verb_result result = profile(source, option, value);

	ok(!result.status && strstr(result.out, want), "profile: %s: %s%s", label, result.out,
	   result.err);
	verb_result_deinit(&result);
}

static void fails(const char *source, const char *option, const char *value, const char *want,
		  const char *label)
{
	struct verb_result result = profile(source, option, value);

	ok(result.status && !*result.out && strstr(result.err, want), "profile: %s: %s", label,
	   result.err);
	verb_result_deinit(&result);
}

static void test_profile(const struct fixture *f, const char *dir)
{
	static const char earlier[] = PROFILES(EARLIER);
	char file[128];

	counted = PROFILES(NOW);
	prints(f->path, NULL, NULL, "vfs_read", "a guest that runs is asked by its monitor");
	fails(dir, NULL, NULL, "has no profile", "a trace without one says so");
	file_put(dir, PROFILE_FILE, earlier, strlen(earlier));
	prints(dir, "--json", NULL, "\"hits\": 5", "of a trace the numbers at its end are shown");
	snprintf(file, sizeof(file), "%s/%s", dir, PROFILE_FILE);
	prints(f->path, "--since", file, "vfs_read", "--since takes an earlier output");
	prints(f->path, "--name", "p", "vfs_read", "--name selects a profile");
	fails(f->path, "--name", "x", "--name takes p, not 'x'",
	      "a name that no profile has is refused");
	fails("/dev/null", NULL, NULL, "neither a trace, nor a monitor's socket, nor a profile",
	      "a file that is none of these is refused");
	fails(file, "--since", f->path, "sonde profile: ", "numbers that have shrunk are refused");
	fails("/nonexistent", NULL, NULL, "/nonexistent: No such file",
	      "what is not there is named");
	fails(f->path, "--since", "/nonexistent", "/nonexistent: No such file",
	      "also what numbers are compared with");
	counted = NULL;
	fails(f->path, NULL, NULL, "the rings are torn", "what the monitor says is passed on");
}

/* --- hist ------------------------------------------------------------------------------------ */

#define HISTS                                                                              \
	"{\"histograms\":[{\"name\":\"h\",\"spec\":\"s\",\"ended\":false,\"size\":16,"     \
	"\"dropped\":0,\"keys\":[{\"name\":\"pid\",\"show\":\"unsigned\"}],\"values\":[]," \
	"\"sort\":[],\"rows\":[{\"keys\":[{\"number\":42}],\"hitcount\":7,\"values\":{}}]}]}"

static void hist(const char *source, const char *option, const char *value, const char *want,
		 const char *label)
{
	const char *const argv[] = {"hist", source, option, value, NULL};
	struct verb_result result = verb_run(cmd_hist, argv);

	ok(strstr(result.status ? result.err : result.out, want), "hist: %s: %s%s", label,
	   result.out, result.err);
	verb_result_deinit(&result);
}

static void test_hist(const struct fixture *f, const char *dir)
{
	counted = HISTS;
	hist(f->path, NULL, NULL, "{ pid:         42 } hitcount:          7\n",
	     "a guest that runs is asked by its monitor");
	hist(dir, NULL, NULL, "has no histogram", "a trace without one says so");
	file_put(dir, HIST_FILE, HISTS, strlen(HISTS));
	hist(dir, "--json", NULL, "\"hitcount\": 7", "of a trace the numbers at its end are shown");
	hist(dir, "--name", "g", "--name takes h, not 'g'", "--name selects one");
	hist(dir, "--sort", "pids", "did you mean 'pid'?", "--sort takes columns");
	counted = NULL;
	hist(f->path, NULL, NULL, "the rings are torn", "what the monitor says is passed on");
}

/* --- a hostile guest ------------------------------------------------------------------------- */

#define EVIL "\\u001b[7mred\\u001b]0;title\\u0007\\u2028\\u009b31m"
#define EVIL_PROFILE                                                                        \
	PROFILE(EVIL, "false",                                                              \
		"{\"function\":\"" EVIL "\",\"address\":\"0xffffffff81000000\",\"hits\":7," \
		"\"returns\":true,\"timed\":7,\"total_ns\":70,\"max_ns\":20}")
#define EVIL_HISTS                                                                             \
	"{\"histograms\":[{\"name\":\"h" EVIL "\",\"spec\":\"" EVIL                            \
	"\",\"ended\":false,\"size\":16,\"dropped\":0,\"keys\":[{\"name\":\"comm" EVIL         \
	"\",\"show\":\"text\"}],\"values\":[],\"sort\":[],\"rows\":[{\"keys\":[{\"number\":1," \
	"\"text\":\"" EVIL "\"}],\"hitcount\":7,\"values\":{}}]}]}"

static void prints_plain(int (*verb)(int, char **), const char *const *argv)
{
	struct verb_result result = verb_run(verb, argv);

	ok(!result.status && strstr(result.out, "?[7mred?]0;title"),
	   "sonde %s shows a hostile name: %s%s", argv[0], result.out, result.err);
	ok(hostile_text_is_plain(result.out) && hostile_text_is_plain(result.err),
	   "without its control characters");
	verb_result_deinit(&result);
}

static void test_hostile(const struct fixture *f, const char *dir)
{
	char trace[128];

	snprintf(trace, sizeof(trace), "%s/hostile", dir);
	hostile_make(trace);
	counted = PROFILES(EVIL_PROFILE);
	prints_plain(cmd_profile, (const char *const[]){"profile", f->path, NULL});
	prints_plain(cmd_profile, (const char *const[]){"profile", "--json", f->path, NULL});
	prints_plain(cmd_top, (const char *const[]){"top", "--interval", "100ms", "--once",
						    "--trace", trace, f->path, NULL});
	prints_plain(cmd_top, (const char *const[]){"top", "--interval", "100ms", "--json",
						    "--trace", trace, f->path, NULL});
	counted = EVIL_HISTS;
	prints_plain(cmd_hist, (const char *const[]){"hist", f->path, NULL});
	prints_plain(cmd_hist, (const char *const[]){"hist", "--json", f->path, NULL});
}

int main(void)
{
	struct fixture *f = fixture_create(add_profiles);
	struct scratch scratch = scratch_make();

	if (!f)
		return tap_skip_all("no monitor can be made");
	put_trace(scratch.path);
	test_tables(f, scratch.path);
	test_instances(f, scratch.path);
	test_missing(f, scratch.path);
	test_named(f);
	test_profile(f, scratch.path);
	test_hist(f, scratch.path);
	test_hostile(f, scratch.path);
	fixture_destroy(f);
	scratch_remove(&scratch);
	return tap_done();
}
