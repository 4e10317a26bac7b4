/* SPDX-License-Identifier: GPL-2.0-or-later */
/* On a terminal of 80 columns no verb prints a longer line, but for commands to be pasted. */
#include <pty.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include "formats/cmd.h"
#include "formats/report/parts.h"
#include "formats/report/table.h"
#include "tests/lib/tap.h"
#include "tests/lib/trace-make.h"

enum { WIDTH = 80, SIZE = 1 << 18, OBJECTS = 4000, EVERY_NS = 20000000 };

/* Lossy, cut, with a long name for everything. */
static const char sidecar[] =
	"{\"version\":1,\"complete\":false,\"mode\":\"exitless\",\"from_first_allocation\":true,"
	"\"banner\":\"Linux version 6.12.118+deb13-cloud-amd64-with-a-long-name (x@y) #1\","
	"\"build_id\":\"3b43fad50348744900112233\",\"null_allocs\":4,"
	"\"ended\":\"the domain was reset while its memory was being read, for the third time in "
	"this trace\",\"vcpus\":[{\"allocs\":9000,\"overruns\":123456}],"
	"\"gaps\":[{\"function\":\"kmem_cache_alloc_node_with_a_long_name\",\"reason\":\"its first "
	"instruction is not one that can be moved elsewhere\"}],"
	"\"caches\":[{\"id\":1,\"name\":\"a_cache_with_a_long_name_dentry\",\"object_size\":190,"
	"\"size\":192}],\"symbols\":[{\"name\":\"a_function_whose_name_is_so_long_that_it_has_to_"
	"be_"
	"cut "
	"[module]\",\"start\":\"0x1000\",\"size\":4096},{\"name\":\"devm_kstrdup_const.cold_and_a_"
	"suffix_that_is_long\",\"start\":\"0x2000\",\"size\":4096},"
	"{\"name\":\"free_reserved_area\",\"start\":\"0x5000\",\"size\":256}]}";

/* Some memory grows, some can be shrunk, some is freed at once, some twice. */
static void put_trace(const char *dir, int64_t ns)
{
	static struct kmem_record records[5 * OBJECTS];
	static uint8_t caches[2 * 5 * OBJECTS];
	size_t n = 0;

	for (uint64_t i = 0; i < OBJECTS; i++, ns += EVERY_NS) {
		const uint64_t ptr = 0xffff888000000000 + i * 4096;

		records[n++] = make_alloc(KMEM_TYPE_KMALLOC, ptr, 0x1010, 1900, 2048, ns);
		caches[2 * n] = 1;
		records[n++] = make_alloc(KMEM_TYPE_CACHE, ptr + 2048, 0x2010, 190, 192, ns + 1);
		records[n++] = make_alloc(KMEM_TYPE_KMALLOC, ptr + 3072, 0x2020, 60, 64, ns + 2);
		records[n++] = make_free(KMEM_TYPE_KMALLOC, ptr + 3072, 0x2030, ns + 3);
		records[n++] = make_free(i % 100 || !i ? KMEM_TYPE_PAGES : KMEM_TYPE_KMALLOC,
					 i ? ptr + 3072 : 0x9000000, i ? 0x2030 : 0x5010, ns + 4);
	}
	stream_put(dir, 0, records, n);
	file_put(dir, "caches0", caches, 2 * n);
	file_put(dir, "sonde.json", sidecar, strlen(sidecar));
}

/* What a verb prints on a terminal of its own. */
static void run_on_terminal(int (*verb)(int, char **), const char *const *argv, char out[SIZE])
{
	struct winsize size = {.ws_row = 24, .ws_col = WIDTH};
	size_t used = 0;
	int fd, argc = 0;
	pid_t pid = forkpty(&fd, NULL, NULL, &size);

	if (pid < 0)
		abort();
	if (!pid) {
		while (argv[argc])
			argc++;
		verb(argc, (char **)argv);
		fflush(stdout);
		_exit(0);
	}
	for (ssize_t n; used < SIZE - 1 && (n = read(fd, out + used, SIZE - 1 - used)) > 0;)
		used += (size_t)n;
	out[used] = '\0';
	close(fd);
	waitpid(pid, NULL, 0);
}

/* Characters, without colours, behind the last carriage return. */
static size_t width_of(const char *line)
{
	size_t n = 0;

	for (; *line; line++) {
		if (*line == '\033') {
			line += strcspn(line, "mKHJ");
			if (!*line)
				break;
		} else if (*line == '\r') {
			n = line[1] ? 0 : n;
		} else {
			n += ((unsigned char)*line & 0xc0) != 0x80;
		}
	}
	return n;
}

static void fits(int (*verb)(int, char **), const char *const *argv)
{
	static char out[SIZE];
	bool all = true;
	size_t lines = 0;

	run_on_terminal(verb, argv, out);
	for (char *line = strtok(out, "\n"); line; line = strtok(NULL, "\n"), lines++) {
		if (width_of(line) <= WIDTH || strstr(line, "Next  "))
			continue;
		tap_diag("%zu: %s", width_of(line), line);
		all = false;
	}
	ok(all && lines > 3, "sonde %s %s fits 80 columns", argv[0], argv[1]);
}

static void test_verbs(const char *dir)
{
	static const struct {
		int (*verb)(int, char **);
		const char *argv[8];
	} rows[] = {
		{cmd_report, {"report", "--top", "10"}},
		{cmd_report, {"report", "--verbose"}},
		{cmd_report, {"report", "--by", "cache"}},
		{cmd_report, {"report", "--by", "callsite,cache"}},
		{cmd_report, {"report", "--by", "pointer", "--older", "1s"}},
		{cmd_report, {"report", "--type", "kmalloc"}},
		{cmd_report, {"report", "--time", "5,"}},
		{cmd_report, {"report", "--history", "0xffff888000001810"}},
		{cmd_report, {"report", "-a", "events"}},
		{cmd_leaks, {"leaks", "--verbose"}},
		{cmd_leaks, {"leaks", "--since", "init"}},
		{cmd_timeline, {"timeline", "--verbose"}},
		{cmd_check, {"check"}},
		{cmd_replay, {"replay", "--allocator", "slub-6.1"}},
		{cmd_diff, {"diff", "--time-a", ",20", "--time-b", "20,"}},
		{cmd_diff, {"diff", "--time-a", ",20"}},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		const char *argv[10];
		size_t n = 0;

		for (; rows[i].argv[n]; n++)
			argv[n] = rows[i].argv[n];
		if (n == 1)
			argv[n++] = "--";
		argv[n] = dir;
		argv[n + 1] = NULL;
		fits(rows[i].verb, argv);
	}
}

/* Texts are written in lines of up to 100 characters. */
static void test_help(void)
{
	static int (*const verbs[])(int, char **) = {cmd_report,  cmd_leaks, cmd_timeline,
						     cmd_diff,    cmd_check, cmd_replay,
						     cmd_convert, cmd_events};
	static const char *const names[] = {"report", "leaks",  "timeline", "diff",
					    "check",  "replay", "convert",  "events"};

	for (size_t i = 0; i < sizeof(verbs) / sizeof(verbs[0]); i++) {
		const char *const argv[] = {names[i], "--help", NULL};

		fits(verbs[i], argv);
	}
}

static bool is_head(const char *line, const char *const *titles)
{
	bool all = true;

	for (; all && *titles; titles++)
		all = strstr(line, *titles);
	return all;
}

/* What a table is there for is shown, whatever room there is. */
static void test_titles(const char *dir)
{
	static const struct {
		int (*verb)(int, char **);
		const char *argv[8], *titles[5];
	} rows[] = {
		{cmd_leaks, {"leaks", "--verbose"}, {" AGE ", " GROWS/S ", " R2 ", " BORN"}},
		{cmd_timeline, {"timeline"}, {"SECONDS", " SLABS", " OBJECTS", " OTHERS"}},
		{cmd_diff,
		 {"diff", "--time-a", ",20", "--time-b", "20,"},
		 {" LIVE B", " SIGMA", " RATE A", " RATE B"}},
		{cmd_report,
		 {"report", "--history", "0xffff888000001810"},
		 {" WHAT", " BYTES", " CACHE"}},
	};
	static const char whole[] =
		"{\"version\":1,\"complete\":true,\"vcpus\":[{}],\"symbols\":[{\"name\":\"a_"
		"function_whose_name_is_long\",\"start\":\"0x1000\",\"size\":4096}]}";
	static char out[SIZE];

	file_put(dir, "sonde.json", whole, strlen(whole));
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		const char *argv[10];
		bool found = false;
		size_t n = 0;

		for (; rows[i].argv[n]; n++)
			argv[n] = rows[i].argv[n];
		argv[n] = dir;
		argv[n + 1] = NULL;
		run_on_terminal(rows[i].verb, argv, out);
		for (char *line = strtok(out, "\n"); line; line = strtok(NULL, "\n"))
			found |= is_head(line, rows[i].titles);
		ok(found, "sonde %s shows%s", argv[0], rows[i].titles[0]);
	}
}

static void test_names(void)
{
	static const struct {
		const char *name;
		size_t width;
		const char *cut;
	} rows[] = {
		{"kvmalloc_node+0x3f/0xd0 *", 25, "kvmalloc_node+0x3f/0xd0 *"},
		{"kvmalloc_node+0x3f/0xd0 *", 24, "kvmalloc_node+0x3f *"},
		{"__vmalloc_node_range+0x264/0x880 *", 24, "__vmalloc_node..+0x264 *"},
		{"__vmalloc_node_range+0x264/0x880 *", 12, "__vmallo.. *"},
		{"alloc_inode+0x59/0xc0 (inode_cache)", 30, "alloc_inode+0x59 (inode_cache)"},
		{"alloc_inode+0x59/0xc0 (inode_cache)", 26, "alloc_inode+0x59 (inode_.."},
		{"alloc_inode+0x59/0xc0 (inode_cache)", 20, "alloc_inode+0x59"},
		{"brd_insert_page.part.0 [brd]+0x26/0xe0", 24, "brd_insert_page.p..+0x26"},
		{"lsm_inode_cache", 10, "lsm_inod.."},
		{"lsm_inode_cache", 1, "."},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		is_str(name_cut(rows[i].name, rows[i].width).s, rows[i].cut, rows[i].name);
}

/* Elsewhere than on a terminal, a list has the first item as it is, and no later one than what has
 * no room. */
static void test_items(void)
{
	char name[120], want[160], *text;
	struct line_items line;
	size_t size;
	FILE *out = open_memstream(&text, &size);

	memset(name, 'x', sizeof(name) - 1);
	name[sizeof(name) - 1] = '\0';
	line_begin_items(&line, out, "Wasted");
	line_add_item(&line, name, " 5 B");
	line_add_item(&line, "a_long_one", " 4 B");
	line_add_item(&line, "b", "");
	fclose(out);
	snprintf(want, sizeof(want), "Wasted: %s 5 B", name);
	is_str(text, want, "the first item is whole, and no smaller one passes over another");
	free(text);
}

int main(void)
{
	struct scratch dir = scratch_make();

	setenv("LC_ALL", "C.UTF-8", 1);
	put_trace(dir.path, 1234567890);
	test_verbs(dir.path);
	test_help();
	test_titles(dir.path);
	test_names();
	test_items();
	scratch_remove(&dir);
	return tap_done();
}
