/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Histograms and profiles of a session on a fake guest, as documents: names that go with keys,
 * files. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "formats/base/json.h"
#include "formats/hist/hists.h"
#include "formats/profile/profiles.h"
#include "patcher/text/site.h"
#include "tests/lib/fake-counts.h"
#include "tests/lib/tap.h"
#include "tests/lib/trace-make.h"
#include "vmm/ctl/connection.h"
#include "vmm/recorder/internal.h"

enum { RING_BYTES = 64 << 10 };

static struct fake_session fs;

static bool start(const char *spec)
{
	fake_counts_create(&fs, RING_BYTES);
	return fake_counts_start(&fs, spec);
}

/* A document of the trace; NULL: it has none. */
static json_t *written(const char *dir, const char *name)
{
	json_t *document = NULL;
	char path[128];

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	return json_read_file(path, 1 << 20, &document, NULL) ? NULL : document;
}

static void end(void)
{
	ok(!trace_session_stop(fs.session, NULL), "tracing stops");
	fake_session_destroy(&fs);
}

/* By the host: the innermost frame is in a function, the next one is nowhere, and then nothing is
 * known. */
static void check_chain(void)
{
	const uint64_t words[HIST_FRAMES] = {fake_gva(FAKE_KFREE) + 5, 0x1234, EVENT_STACK_CUT};
	struct trace_hist list[TRACE_MAX_PROFILES];
	struct hist_set set = {0};
	const struct hist_value *key;

	ok(start("h=function:kfree,hist:keys=stacktrace"), "a histogram of call chains");
	if (!trace_session_hists(fs.session, list))
		abort();
	hist_add(list[0].hist, words, NULL);
	if (recorder_read_hists(fs.session, &set, NULL) || !set.n || !set.v[0].n)
		abort();
	key = &set.v[0].v[0].keys[0];
	ok(key->nr_frames == 2 && key->cut && key->number == words[0] && !key->text,
	   "its row has the frames that are known");
	ok(!strncmp(key->frames[0].text, "kfree+0x5/0x", 12) &&
		   !strcmp(key->frames[1].text, "0x1234") && key->frames[1].address == 0x1234,
	   "by their symbols: %s", key->frames[0].text);
	hist_set_deinit(&set);
	end();
}

/* What a histogram with this key shows for these words of the guest's. */
static void check_key(const char *key, const uint64_t *words, size_t n, uint64_t number,
		      const char *text)
{
	struct hist_set set = {0};
	struct hist_place *place;
	struct error err = {0};
	char spec[96];

	snprintf(spec, sizeof(spec), "h=function:kfree,hist:keys=%s", key);
	ok(start(spec), "%s: a histogram", key);
	place = fake_hist_place(&fs);
	memcpy(place->words, words, n * sizeof(*words));
	place->hits = 3;
	place->state = HIST_READY;
	ok(!recorder_read_hists(fs.session, &set, &err) && set.n == 1 && set.v[0].n == 1,
	   "%s: has one row %s", key, err.text);
	if (set.n && set.v[0].n) {
		const struct hist_row *row = &set.v[0].v[0];

		ok(row->hits == 3 && row->keys[0].number == number,
		   "%s: the row has its hits and its number", key);
		is_str(row->keys[0].text ? row->keys[0].text : "", text, key);
	}
	ok(set.n && !strcmp(set.v[0].name, "h") && !strcmp(set.v[0].spec, spec) && !set.v[0].ended,
	   "%s: the document has the instance", key);
	hist_set_deinit(&set);
	end();
}

static void test_keys(void)
{
	static const char comm[16] = "a\tshell";
	/* Where a call from the site returns to: the function is that of the site. */
	uint64_t words[3] = {fake_gva(FAKE_KFREE + SITE_SIZE)};

	check_key("ip", words, 1, fake_gva(FAKE_KFREE), "kfree+0x0/0x100");
	check_key("ip.sym", words, 1, fake_gva(FAKE_KFREE), "kfree");
	check_key("parent_ip.sym", words, 1, words[0], "kfree");
	words[0] = 5;
	check_key("parent_ip.sym-offset", words, 1, 5, "0x5");
	words[0] = 100;
	memcpy(words + 1, comm, sizeof(comm));
	check_key("common_pid.execname", words, 3, 100, "a?shell");
	words[0] = 0;
	check_key("common_pid.execname", words, 3, 0, "<idle>");
	memcpy(words, comm, sizeof(comm));
	check_key("comm", words, 2, 0, "a?shell");
}

/* A document with a flipped bit is refused. */
static void check_damage(const char *dir, const char *name)
{
	json_t *document = NULL;
	struct error err = {0};
	char path[128];
	size_t size;
	char *text = file_get(dir, name, &size), *key = strstr(text, "spec");

	*key ^= 1;
	file_put(dir, name, text, size);
	free(text);
	snprintf(path, sizeof(path), "%s/%s", dir, name);
	ok(json_read_file(path, 1 << 20, &document, &err) == -EINVAL &&
		   strstr(err.text, "is damaged: its checksum is wrong"),
	   "a flipped bit in %s is noticed: %s", name, err.text);
}

static void test_hist_files(void)
{
	struct hist_set set = {0};
	struct error err = {0};
	bool any = true;
	json_t *document;

	ok(start("h=function:kfree,hist:keys=ip"), "a histogram");
	fake_hist_place(&fs)->hits = 7;
	fake_hist_place(&fs)->state = HIST_READY;
	ok(!recorder_write_hists(fs.session, fs.writer, &any, &err) && any, "is written: %s",
	   err.text);
	document = written(fs.dir.path, HIST_FILE);
	ok(!hist_set_parse(document, &set, &err) && set.n == 1 && set.v[0].n == 1 &&
		   set.v[0].v[0].hits == 7,
	   "the file has it: %s", err.text);
	json_decref(document);
	check_damage(fs.dir.path, HIST_FILE);
	hist_set_deinit(&set);
	ok(recorder_clear_hists(fs.session, "other", &err) == -ENOENT && strstr(err.text, "other"),
	   "none of another name is cleared: %s", err.text);
	ok(!recorder_clear_hists(fs.session, "h", NULL) &&
		   !recorder_read_hists(fs.session, &set, NULL) && !set.v[0].n,
	   "by its name it is");
	hist_set_deinit(&set);
	fake_hist_place(&fs)->hits++;
	ok(!recorder_clear_hists(fs.session, NULL, NULL) &&
		   !recorder_read_hists(fs.session, &set, NULL) && !set.v[0].n,
	   "without a name all are");
	hist_set_deinit(&set);
	end();
}

static void test_profiles(void)
{
	struct profile_set set = {0};
	struct error err = {0};
	bool any = true;
	json_t *document;

	ok(start("p=profile:kfree,kmem_cache_alloc"), "a profile");
	*fake_call_count(&fs, FAKE_CACHE_ALLOC) =
		(struct call_count){.hits = 5, .timed = 4, .ticks = 4000, .longest = 1000};
	ok(!recorder_write_profiles(fs.session, fs.writer, &any, &err) && any, "is written: %s",
	   err.text);
	document = written(fs.dir.path, PROFILE_FILE);
	ok(!profile_set_parse(document, &set, &err) && set.n == 1 && set.v[0].nr_profiled == 2 &&
		   set.v[0].n == 1,
	   "of two functions the file has the one that was called: %s", err.text);
	ok(set.n && set.v[0].n && !strcmp(set.v[0].v[0].name, "kmem_cache_alloc") &&
		   set.v[0].v[0].hits == 5 && set.v[0].v[0].timed == 4 && set.v[0].v[0].returns &&
		   set.v[0].v[0].total_ns,
	   "with its counts");
	json_decref(document);
	check_damage(fs.dir.path, PROFILE_FILE);
	profile_set_deinit(&set);
	ok(recorder_clear_profiles(fs.session, "other", &err) == -ENOENT,
	   "none of another name is cleared: %s", err.text);
	ok(!recorder_clear_profiles(fs.session, "p", NULL) &&
		   !recorder_read_profiles(fs.session, &set, NULL) && !set.v[0].n,
	   "by its name it is");
	profile_set_deinit(&set);
	end();
}

/* A profile with times in buckets. */
static void test_buckets(void)
{
	struct profile_set set = {0};

	ok(start("profile:kmem_cache_alloc,hist"), "a profile with a histogram of times");
	fake_call_count(&fs, FAKE_CACHE_ALLOC)->hits = 1;
	fake_call_count(&fs, FAKE_CACHE_ALLOC)->timed = 1;
	ok(!recorder_read_profiles(fs.session, &set, NULL) && set.n == 1 && set.v[0].n == 1 &&
		   set.v[0].v[0].buckets && !set.v[0].v[0].nr_buckets,
	   "has buckets, and none without calls");
	profile_set_deinit(&set);
	end();
}

/* A trace without either has no such file. */
static void test_none(void)
{
	bool hists = true, profiles = true;
	size_t size;

	ok(start("function:kfree"), "a function");
	ok(!recorder_write_hists(fs.session, fs.writer, &hists, NULL) && !hists &&
		   !recorder_write_profiles(fs.session, fs.writer, &profiles, NULL) && !profiles,
	   "has neither histograms nor profiles");
	ok(!file_get(fs.dir.path, HIST_FILE, &size) && !file_get(fs.dir.path, PROFILE_FILE, &size),
	   "and no file is written");
	end();
}

/* The owner of the folder above gives the trace's folder another name, and its name to a link. */
static void test_moved(void)
{
	struct scratch other = scratch_make();
	char moved[sizeof(fs.dir.path) + 8];
	bool any = false;
	size_t size;
	char *text;

	ok(start("p=profile:kfree"), "a profile");
	snprintf(moved, sizeof(moved), "%s.moved", fs.dir.path);
	if (rename(fs.dir.path, moved) || symlink(other.path, fs.dir.path))
		abort();
	ok(!recorder_write_profiles(fs.session, fs.writer, &any, NULL) && any,
	   "of a trace whose folder gets another name is written");
	text = file_get(moved, PROFILE_FILE, &size);
	ok(text && !file_get(other.path, PROFILE_FILE, &size),
	   "into that folder, and not where a link in its place leads");
	free(text);
	if (unlink(fs.dir.path) || rename(moved, fs.dir.path))
		abort();
	end();
	scratch_remove(&other);
}

static enum hist_show show; /* of the first key */

/* As `sonde hist --json` and the recorder write it. */
static size_t written_size(struct hist_row *rows, size_t n)
{
	struct hist_table table = {.spec = "", .nr_keys = HIST_COLUMNS, .nr_values = 1};
	const struct hist_set set = {&table, 1};
	json_t *document;
	size_t size;

	table.v = rows;
	table.n = n;
	table.keys[0].show = show;
	document = hist_set_json(&set);
	size = json_dumpb(document, NULL, 0, JSON_INDENT(1));
	json_decref(document);
	return size;
}

static void test_size(void)
{
	struct hist_row rows[2] = {{.hits = 1000000}, {.hits = 1000000}};
	struct hist_frame frames[HIST_FRAMES];
	const struct hist_value key = {.number = 0xffffffff81000000,
				       .text = "__alloc_pages_direct_compact+0x370/0x450"};

	for (size_t i = 0; i < 2 * HIST_COLUMNS; i++)
		rows[i / HIST_COLUMNS].keys[i % HIST_COLUMNS] = key;
	ok((written_size(rows, 2) - written_size(rows, 1)) * HIST_MAX_ROWS < QMP_REPLY_MAX,
	   "a document with as many rows as are read is not too large to be read");
	for (size_t i = 0; i < HIST_FRAMES; i++)
		frames[i] = (struct hist_frame){key.number, key.text};
	rows[0].keys[0] = rows[1].keys[0] =
		(struct hist_value){.frames = frames, .nr_frames = HIST_FRAMES};
	show = HIST_STACKTRACE;
	ok((written_size(rows, 2) - written_size(rows, 1)) * HIST_MAX_CHAINS < QMP_REPLY_MAX,
	   "nor is a histogram with as many call chains as there can be");
}

int main(void)
{
	test_size();
	test_keys();
	check_chain();
	test_hist_files();
	test_profiles();
	test_buckets();
	test_none();
	test_moved();
	return tap_done();
}
