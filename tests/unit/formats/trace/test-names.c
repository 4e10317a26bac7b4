/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Names of functions in a trace: while it is recorded, after a kill, on a full disk, from -k. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <unistd.h>
#include "formats/trace/reader.h"
#include "formats/trace/writer.h"
#include "tests/lib/tap.h"
#include "tests/lib/trace-make.h"

static const struct trace_info info = {.mode = "trap", .page_size = 4096, .virt_slide = 0x100};

/* A kernel: functions of 0x100 bytes. Those of a module are there while it is loaded. */
struct names {
	pthread_mutex_t lock;
	bool module, busy;
	_Atomic unsigned int asked;
};

enum { MODULE = 0x100000, NOWHERE = 0x900000, HIGH = 0x1000000 };

static bool tell(void *arg, struct trace_info *out)
{
	(void)arg;
	*out = info;
	return true;
}

static int look_up(struct names *n, uint64_t address, struct site_function *out)
{
	n->asked++;
	if (n->busy || (address >= MODULE && address < NOWHERE && !n->module))
		return -EAGAIN;
	if (address >= NOWHERE && address < HIGH)
		return -ENOENT;
	out->start = address & ~UINT64_C(0xff);
	out->size = 0x100;
	snprintf(out->name, sizeof(out->name), "fn_%llx%s", (unsigned long long)out->start,
		 address >= MODULE && address < NOWHERE ? " [mod\"\\]" : "");
	return 0;
}

static int symbolize(void *arg, uint64_t address, struct site_function *out)
{
	struct names *n = arg;
	int ret;

	pthread_mutex_lock(&n->lock);
	ret = look_up(n, address, out);
	pthread_mutex_unlock(&n->lock);
	return ret;
}

static void set(struct names *n, bool *what, bool value)
{
	pthread_mutex_lock(&n->lock);
	*what = value;
	pthread_mutex_unlock(&n->lock);
}

static unsigned int encoding; /* of the trace under test */

static struct trace_writer *create(const char *path, struct names *n)
{
	struct trace_writer *writer;

	if (trace_writer_create(path, 1, encoding, &info, &writer, NULL) ||
	    trace_writer_add_instance(writer, &kmem_instance, NULL))
		abort();
	trace_writer_set_source(writer, tell, symbolize, n);
	return writer;
}

static void put(struct trace_writer *writer, uint64_t call_site)
{
	struct kmem_record record =
		make_alloc(KMEM_TYPE_KMALLOC, 0x1000 + call_site, call_site, 8, 8, 1);

	trace_writer_append(writer, 0, &record);
}

static struct text name_in(const struct trace_reader *reader, uint64_t address)
{
	return sidecar_symbol_text(trace_reader_sidecar(reader), address);
}

static struct text name_of(const char *path, uint64_t address)
{
	struct trace_reader *reader;
	struct text out;

	if (trace_reader_open(path, &reader, NULL))
		abort();
	out = name_in(reader, address);
	trace_reader_close(reader);
	return out;
}

static unsigned int count_all(struct trace_reader *reader, unsigned int *nameless)
{
	struct record_event event;
	unsigned int n = 0;

	for (; read_record(reader, &event, NULL) > 0; n++)
		*nameless += name_in(reader, event.record.call_site).s[0] != 'f';
	return n;
}

/* Events of the trace now, all of whose call sites below NOWHERE must have names. */
static unsigned int count_events(struct trace_reader *reader, unsigned int *nameless)
{
	struct record_event event;
	unsigned int n = 0;

	for (; read_record(reader, &event, NULL) > 0; n++)
		*nameless += event.record.call_site < NOWHERE &&
			     name_in(reader, event.record.call_site).s[0] != 'f';
	return n;
}

/* Wait for n events. Returns how many of them had no name when they could be read. */
static unsigned int await_events(const char *path, unsigned int n)
{
	unsigned int nameless = 0, seen = 0;

	for (unsigned int i = 0; i < 1000 && seen < n; i++) {
		struct trace_reader *reader;

		usleep(10000);
		nameless = 0;
		if (trace_reader_open(path, &reader, NULL))
			abort();
		seen = count_events(reader, &nameless);
		trace_reader_close(reader);
	}
	return seen < n ? n : nameless;
}

static void test_live(void)
{
	struct names n = {PTHREAD_MUTEX_INITIALIZER, true, false, 0};
	struct scratch dir = scratch_make();
	struct trace_writer *writer = create(dir.path, &n);
	struct trace_reader *follower = NULL;
	unsigned int nameless = 0, seen = 0, asked;

	if (trace_reader_open(dir.path, &follower, NULL))
		abort();
	trace_reader_follow(follower, NULL);
	for (uint64_t i = 0; i < 1000; i++)
		put(writer, 0x1000 + 0x80 * i);
	put(writer, NOWHERE);
	put(writer, MODULE + 0x10);
	is_u64(await_events(dir.path, 1002), 0,
	       "while a trace is recorded, a call site has its name when its events appear");
	is_str(name_of(dir.path, 0x1090).s, "fn_1000+0x90/0x100",
	       "a name is the function's, with the offset");
	is_str(name_of(dir.path, MODULE + 0x10).s, "fn_100000 [mod\"\\]+0x10/0x100",
	       "a function of a module has a name, whatever is in it");
	asked = n.asked;
	trace_reader_follow(follower, NULL);
	is_u64(count_events(follower, &nameless), 1002,
	       "a reader that follows the trace sees them");
	put(writer, 0x1000);
	put(writer, 0x80000);
	for (unsigned int i = 0; i < 1000 && seen < 2; i++) {
		usleep(10000);
		trace_reader_follow(follower, NULL);
		seen += count_events(follower, &nameless);
	}
	ok(seen == 2 && !nameless, "and learns the names as they come");
	is_u64(n.asked, asked + 1, "a call site is looked up once");
	trace_reader_close(follower);
	trace_writer_destroy(writer);
	is_str(name_of(dir.path, 0x80010).s, "fn_80000+0x10/0x100",
	       "a trace whose recorder was killed has names");
	scratch_remove(&dir);
}

static void test_modules(void)
{
	struct names n = {PTHREAD_MUTEX_INITIALIZER, false, false, 0};
	struct scratch dir = scratch_make();
	struct trace_writer *writer = create(dir.path, &n);

	put(writer, MODULE);
	usleep(700000);
	is_str(name_of(dir.path, MODULE).s, "0x100000", "a module that is not known yet");
	set(&n, &n.module, true);
	for (unsigned int i = 0; i < 500 && name_of(dir.path, MODULE).s[0] == '0'; i++)
		usleep(10000);
	is_str(name_of(dir.path, MODULE).s, "fn_100000 [mod\"\\]+0x0/0x100",
	       "is asked for again, until it is");
	put(writer, MODULE + 0x300);
	await_events(dir.path, 2);
	set(&n, &n.module, false);
	ok(!trace_writer_finish(writer, &info, symbolize, &n, NULL), "the trace is finished");
	trace_writer_destroy(writer);
	is_str(name_of(dir.path, MODULE + 0x300).s, "fn_100300 [mod\"\\]+0x0/0x100",
	       "a finished trace has the names of a module that was unloaded");
	scratch_remove(&dir);
}

static bool has_names_file(const char *path)
{
	char name[300];

	snprintf(name, sizeof(name), "%s/%s.names", path,
		 !strcmp(trace_encoding_names[encoding], "ctf") ? ".sonde" : "sonde");
	return !access(name, F_OK);
}

static void test_finished(void)
{
	struct names n = {PTHREAD_MUTEX_INITIALIZER, true, true, 0};
	struct scratch dir = scratch_make();
	struct trace_writer *writer = create(dir.path, &n);

	put(writer, 0x2000);
	usleep(700000);
	ok(!has_names_file(dir.path), "without names there is no file of names");
	set(&n, &n.busy, false);
	put(writer, 0x3000);
	await_events(dir.path, 2);
	for (unsigned int i = 0; i < 500 && !has_names_file(dir.path); i++)
		usleep(10000);
	ok(has_names_file(dir.path), "names are in a file while the trace is recorded");
	ok(!trace_writer_finish(writer, &info, symbolize, &n, NULL), "the trace is finished");
	trace_writer_destroy(writer);
	ok(!has_names_file(dir.path), "a finished trace has them in its sidecar alone");
	is_str(name_of(dir.path, 0x2001).s, "fn_2000+0x1/0x100", "and all of them");
	scratch_remove(&dir);
}

/* Whether a reader that follows the trace has the name of the only event that comes when it ends.
 */
static bool follows_end(struct trace_writer *writer, struct trace_reader *reader, struct names *n,
			uint64_t call_site)
{
	unsigned int nameless = 0;

	trace_reader_follow(reader, NULL);
	count_events(reader, &nameless);
	trace_writer_set_source(writer, NULL, NULL, NULL);
	put(writer, call_site);
	if (trace_writer_finish(writer, &info, symbolize, n, NULL))
		abort();
	nameless = 0;
	return trace_reader_follow(reader, NULL) == 1 && count_events(reader, &nameless) == 1 &&
	       !nameless;
}

/* Functions that are named at the end only. */
static void test_last_names(void)
{
	struct names n = {PTHREAD_MUTEX_INITIALIZER, true, false, 0};
	struct scratch dir = scratch_make(), other = scratch_make();
	struct trace_writer *writer = create(dir.path, &n), *short_lived = create(other.path, &n);
	struct trace_reader *reader = NULL;

	put(writer, 0x1000);
	await_events(dir.path, 1);
	if (trace_reader_open(dir.path, &reader, NULL))
		abort();
	ok(follows_end(writer, reader, &n, 0x80000),
	   "a reader that follows the trace learns the last names from the file of names");
	trace_reader_close(reader);
	if (trace_reader_open(other.path, &reader, NULL))
		abort();
	ok(follows_end(short_lived, reader, &n, 0x80000),
	   "one that has not seen this file learns them from the last sidecar");
	trace_reader_close(reader);
	trace_writer_destroy(writer);
	trace_writer_destroy(short_lived);
	scratch_remove(&dir);
	scratch_remove(&other);
}

#define LATE                                                                                       \
	"{\"address\":\"0x7000\",\"name\":\"late\",\"start\":\"0x7000\",\"size\":16, \"crc32c\": " \
	"\"5b5585ec\"}"

static const char *damage_of(const char *path)
{
	static char text[160];
	struct trace_reader *reader;
	const char *damage;

	if (trace_reader_open(path, &reader, NULL))
		abort();
	damage = trace_reader_damage(reader, 0);
	snprintf(text, sizeof(text), "%s", damage ? damage : "");
	trace_reader_close(reader);
	return text;
}

/* A line that the disk took a part of, lines that are no names, and one that has another checksum.
 */
static void test_damaged(void)
{
	static const char more[] =
		"nonsense\n{\"name\": 5}\n[]\n"
		"{\"address\":\"0x9000\",\"name\":\"wrong\",\"start\":\"0x9000\","
		"\"size\":16, \"crc32c\": \"01234567\"}\n" LATE "\n{\"address\":\"0x8000\",\"na";
	const bool is_ctf = !strcmp(trace_encoding_names[encoding], "ctf");
	struct names n = {PTHREAD_MUTEX_INITIALIZER, true, false, 0};
	struct scratch dir = scratch_make();
	struct trace_writer *writer = create(dir.path, &n);
	char name[300];
	int fd;

	put(writer, 0x2000);
	await_events(dir.path, 1);
	trace_writer_destroy(writer);
	is_str(damage_of(dir.path), "", "names are whole");
	snprintf(name, sizeof(name), "%s/%s.names", dir.path, is_ctf ? ".sonde" : "sonde");
	fd = open(name, O_WRONLY | O_APPEND);
	ok(fd >= 0 && write(fd, more, strlen(more)) == (ssize_t)strlen(more), "names are damaged");
	close(fd);
	is_str(name_of(dir.path, 0x2000).s, "fn_2000+0x0/0x100", "names before damage are read");
	is_str(name_of(dir.path, 0x7001).s, "late+0x1/0x10", "names behind damage are read");
	is_str(name_of(dir.path, 0x9000).s, "0x9000", "a name with a wrong checksum is not read");
	is_str(name_of(dir.path, 0x8000).s, "0x8000", "a line that is cut off is none");
	is_str(damage_of(dir.path),
	       is_ctf ? ".sonde.names is damaged: the checksum of 4 lines is wrong"
		      : "sonde.names is damaged: the checksum of 4 lines is wrong",
	       "the trace says which lines are damaged");
	scratch_remove(&dir);
}

/* --- a full disk ------------------------------------------------------------------------------ */

enum { FUNCTIONS = 20000 }; /* names for more than the sidecar's reserve */

static void run_on_full_disk(const char *path)
{
	struct names n = {PTHREAD_MUTEX_INITIALIZER, true, false, 0};
	struct trace_writer *writer = create(path, &n);
	struct trace_reader *reader = NULL;
	struct trace_losses losses;
	struct error err = {0};

	for (uint64_t i = 0; i < FUNCTIONS; i++)
		put(writer, 0x10000000 + 0x100 * i);
	put(writer, 0x1000);
	await_events(path, FUNCTIONS + 1);
	scratch_fill(path);
	ok(!trace_writer_finish(writer, &info, symbolize, &n, &err),
	   "a trace ends in order on a full disk, though its names do not fit into the sidecar: %s",
	   err.text);
	trace_writer_destroy(writer);
	if (trace_reader_open(path, &reader, NULL))
		abort();
	trace_reader_losses(reader, &losses);
	ok(!losses.unfinished, "its sidecar says that it is complete");
	is_str(name_in(reader, 0x1001).s, "fn_1000+0x1/0x100",
	       "its names are in the file of names");
	trace_reader_close(reader);
}

static void test_full_disk(void)
{
	struct scratch dir = scratch_make();

	if (mount("none", dir.path, "tmpfs", 0, "size=5m")) {
		tap_skip("full disk", "mounting a tmpfs needs root");
	} else {
		run_on_full_disk(dir.path);
		umount(dir.path);
	}
	scratch_remove(&dir);
}

/* A guest that makes up call sites gets no more than its share of memory. */
static void test_budget(void)
{
	struct names n = {PTHREAD_MUTEX_INITIALIZER, true, false, 0};
	struct scratch dir = scratch_make();
	struct trace_writer *writer = create(dir.path, &n);
	struct trace_reader *reader = NULL;
	struct budget *budget = trace_writer_budget(writer);
	struct trace_losses losses;
	unsigned int nameless = 0;

	budget->most = 300 << 10;
	for (uint64_t i = 0; i < 10000; i++)
		put(writer, 0x10000000 + 0x100 * i);
	ok(!trace_writer_finish(writer, &info, symbolize, &n, NULL), "the trace is finished");
	ok(budget->refused && budget->used <= budget->most, "%lu requests were refused",
	   budget->refused);
	trace_writer_destroy(writer);
	if (trace_reader_open(dir.path, &reader, NULL))
		abort();
	is_u64(count_all(reader, &nameless), 10000, "no event is lost");
	ok(nameless > 0 && nameless < 10000, "but %u have no name", nameless);
	trace_reader_losses(reader, &losses);
	ok(!losses.unfinished, "the trace is complete");
	trace_reader_close(reader);
	scratch_remove(&dir);
}

/* A guest that calls from addresses that nobody can name. */
static void test_pending(void)
{
	enum { SITES = 5000, ROUNDS = 100 };
	struct names n = {PTHREAD_MUTEX_INITIALIZER, false, false, 0};
	struct call_sites sites;
	struct site_names names;
	unsigned int before;

	call_sites_init(&sites, NULL);
	site_names_init(&names, &sites, -1, "sonde.json");
	for (uint64_t i = 0; i < SITES; i++)
		call_sites_note(&sites, MODULE + 0x100 * i);
	site_names_update(&names, symbolize, &n);
	is_u64(n.asked, SITES, "each call site is looked up when it comes");
	site_names_update(&names, symbolize, &n);
	before = n.asked;
	ok(before > SITES && before < SITES + SITES / 4, "then a few at a time: %u",
	   before - SITES);
	call_sites_note(&sites, 0x1000);
	site_names_update(&names, symbolize, &n);
	is_u64(names.count, 1, "a new one does not wait for them");
	n.module = true;
	for (unsigned int i = 0; i < ROUNDS; i++)
		site_names_update(&names, symbolize, &n);
	is_u64(names.count, SITES + 1, "each gets its turn");
	is_u64(names.nr_pending, 0, "none is looked up again");
	n.module = false;
	for (uint64_t i = 0; i < SITES; i++)
		call_sites_note(&sites, MODULE + 0x100 * (SITES + i));
	site_names_update(&names, symbolize, &n);
	n.module = true;
	site_names_complete(&names, symbolize, &n);
	is_u64(names.count, 2 * SITES + 1, "at the end all are looked up");
	site_names_deinit(&names);
	call_sites_deinit(&sites);
}

/* --- from a kernel image ---------------------------------------------------------------------- */

static int read_kernel(const char *path, const struct trace_info *of, struct sidecar_symbol **out,
		       size_t *n, struct error *err)
{
	if (strcmp(path, "vmlinuz"))
		return error_set(err, EINVAL, "%s: not the kernel", path);
	*out = calloc(3, sizeof(**out));
	*n = 3;
	for (uint64_t i = 0; i < 3; i++)
		(*out)[i] = (struct sidecar_symbol){.start = 0x2000 + 0x100 * i +
							     (uint64_t)of->virt_slide,
						    .size = 0x100,
						    .name = strdup("of_kernel")};
	return 0;
}

static void test_kernel(void)
{
	struct names n = {PTHREAD_MUTEX_INITIALIZER, true, false, 0};
	struct scratch dir = scratch_make();
	struct trace_writer *writer = create(dir.path, &n);
	struct trace_reader *reader;
	struct error err = {0};

	put(writer, 0x2200);
	await_events(dir.path, 1);
	trace_writer_destroy(writer);
	if (trace_reader_open(dir.path, &reader, NULL))
		abort();
	trace_reader_set_kernel_source(NULL);
	ok(trace_reader_name_functions(reader, "vmlinuz", &err) == -ENOTSUP,
	   "without a reader of images there is an error: %s", err.text);
	trace_reader_set_kernel_source(read_kernel);
	ok(trace_reader_name_functions(reader, "other", &err) == -EINVAL,
	   "an image that cannot be used is an error");
	ok(!trace_reader_name_functions(reader, "vmlinuz", &err), "an image names functions");
	is_str(name_in(reader, 0x2110).s, "of_kernel+0x10/0x100",
	       "functions are where the kernel was");
	is_str(name_in(reader, 0x2210).s, "fn_2200+0x10/0x100", "the trace's own names stay");
	is_str(name_in(reader, 0x2310).s, "of_kernel+0x10/0x100", "all others are added");
	trace_reader_close(reader);
	scratch_remove(&dir);
}

/* Without a sidecar nobody knows where the kernel was. */
static void test_no_sidecar(void)
{
	static const uint8_t none[1];
	const struct trace_memory_file files[] = {{"cpu0", none, 0}};
	struct trace_reader *reader;
	struct error err = {0};

	if (trace_reader_open_memory(files, 1, &reader, NULL))
		abort();
	ok(trace_reader_name_functions(reader, "vmlinuz", &err) == -ENOENT,
	   "-k needs the sidecar: %s", err.text);
	trace_reader_close(reader);
}

int main(void)
{
	for (encoding = 0; trace_encoding_names[encoding]; encoding++) {
		tap_diag("%s", trace_encoding_names[encoding]);
		test_live();
		test_modules();
		test_finished();
		test_last_names();
		test_damaged();
		test_full_disk();
		test_budget();
		test_kernel();
	}
	test_pending();
	test_no_sidecar();
	return tap_done();
}
