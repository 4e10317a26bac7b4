/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Histograms as documents: read, ordered, printed as ftrace does; and what is no histogram. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "formats/hist/hists.h"
#include "tests/lib/json-faults.h"
#include "tests/lib/tap.h"

#define KEYS "{\"name\":\"site\",\"show\":\"sym-offset\"},{\"name\":\"n\",\"show\":\"signed\"}"
#define ROW(site, text, n, hits, bytes)                                                   \
	"{\"keys\":[{\"number\":\"" site "\",\"text\":\"" text "\"},{\"number\":" n "}]," \
	"\"hitcount\":" hits ",\"values\":{\"bytes\":" bytes "}}"
#define TABLE(sort, rows)                                                             \
	"{\"name\":\"h\",\"spec\":\"kmem:kmalloc,hist:keys=site,n\",\"ended\":false," \
	"\"size\":2048,\"dropped\":3,\"keys\":[" KEYS                                 \
	"],\"values\":[{\"name\":\"bytes\",\"show\":\"unsigned\"}],\"sort\":[" sort   \
	"],\"rows\":[" rows "]}"
#define DOCUMENT(sort, rows) "{\"histograms\":[" TABLE(sort, rows) "]}"
#define SIGNED_VALUE(rows)                                                                    \
	"{\"histograms\":[{\"name\":\"h\",\"spec\":\"s\",\"keys\":[" KEYS                     \
	"],\"values\":[{\"name\":\"bytes\",\"show\":\"signed\"}],\"sort\":[],\"rows\":[" rows \
	"]}]}"
#define KEY(members)                                                                         \
	"{\"histograms\":[{\"name\":\"h\",\"spec\":\"s\",\"keys\":[{\"name\":\"k\"," members \
	"}],\"values\":[],\"sort\":[],\"rows\":[]}]}"
#define ROWS                                                 \
	ROW("0xffffffff81000020", "f+0x20", "-5", "7", "70") \
	"," ROW("0xffffffff81000010", "a\\u001b+0x10", "3", "9", "10")

static int parse(const char *text, struct hist_set *out)
{
	json_t *document = json_loads(text, 0, NULL);
	struct error err = {0};
	int ret = hist_set_parse(document, out, &err);

	json_decref(document);
	return ret;
}

static struct hist_set need(const char *text)
{
	struct hist_set set;

	if (parse(text, &set))
		abort();
	return set;
}

static void test_parse(void)
{
	static const char *const bad[] = {
		"[]",
		"{}",
		"{\"histograms\":1}",
		"{\"histograms\":[1]}",
		"{\"histograms\":[{}]}",
		DOCUMENT("", "1"),
		DOCUMENT("1", ""),
		DOCUMENT("{\"column\":4}", ""),
		DOCUMENT("{\"column\":0},{\"column\":0},{\"column\":0}", ""),
		DOCUMENT("", "{\"keys\":[{\"number\":1}],\"hitcount\":1,\"values\":{\"bytes\":1}}"),
		DOCUMENT("", ROW("0x1", "f", "\"x\"", "1", "1")),
		DOCUMENT("", ROW("0x1", "f", "1", "1.5", "1")),
		KEY("\"show\":\"none\""),
		KEY("\"show\":\"range\""),
		KEY("\"show\":\"range\",\"bucket\":0"),
		KEY("\"show\":\"range\",\"bucket\":4294967296")};
	struct hist_set set;
	json_t *document;

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		ok(parse(bad[i], &set) == -EINVAL && !set.n, "no histogram: %s", bad[i]);
	set = need(DOCUMENT("", ROWS));
	document = hist_set_json(&set);
	hist_set_deinit(&set);
	ok(document && !hist_set_parse(document, &set, NULL) && set.v[0].n == 2 &&
		   (int64_t)set.v[0].v[0].keys[1].number == -5 &&
		   set.v[0].v[0].keys[0].number == 0xffffffff81000020 &&
		   !strcmp(set.v[0].v[1].keys[0].text, "a?+0x10") && set.v[0].dropped == 3,
	   "a histogram is read, and written again, without control characters");
	json_decref(document);
	hist_set_deinit(&set);
}

#define CHAIN(more) "{\"number\":5,\"frames\":[" more "]}"
#define CHAIN_ROW(frames, hits) \
	"{\"keys\":[" CHAIN(frames) ",{\"number\":3}],\"hitcount\":" hits ",\"values\":{}}"
#define CHAINS(rows)                                                                         \
	"{\"histograms\":[{\"name\":\"h\",\"spec\":\"s\",\"keys\":["                         \
	"{\"name\":\"common_stacktrace\",\"show\":\"stacktrace\"},"                          \
	"{\"name\":\"cpu\",\"show\":\"unsigned\"}],\"values\":[],\"sort\":[{\"column\":1}]," \
	"\"rows\":[" rows "]}]}"
#define FRAME(number, text) "{\"number\":\"" number "\",\"text\":\"" text "\"}"
#define INNER FRAME("0xffffffff81000020", "kmemdup+0x20/0x50")

static void test_chains(void)
{
	static const char *const bad[] = {
		CHAINS("{\"keys\":[{\"number\":1},{\"number\":3}],\"hitcount\":1,\"values\":{}}"),
		CHAINS(CHAIN_ROW("1", "1")), CHAINS(CHAIN_ROW("{\"number\":true}", "1")),
		CHAINS(CHAIN_ROW("{\"number\":1,\"text\":1}", "1")),
		CHAINS(CHAIN_ROW(INNER "," INNER "," INNER "," INNER "," INNER "," INNER "," INNER
				       "," INNER "," INNER "," INNER "," INNER "," INNER "," INNER
				       "," INNER "," INNER "," INNER "," INNER,
				 "1"))};
	struct hist_set set;
	json_t *document;
	char *text;
	size_t size;
	FILE *out;

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		ok(parse(bad[i], &set) == -EINVAL && !set.n, "no call chain: %s", bad[i]);
	set = need(CHAINS(CHAIN_ROW(INNER "," FRAME("0xffffffff81000090", "b+0x1/0x9"),
				    "7") "," CHAIN_ROW(INNER ",{\"number\":2}",
						       "8") "," CHAIN_ROW(INNER, "9")));
	set.v[0].v[2].keys[0].cut = true;
	document = hist_set_json(&set);
	hist_set_deinit(&set);
	ok(document && !hist_set_parse(document, &set, NULL) &&
		   set.v[0].v[0].keys[0].nr_frames == 2 &&
		   !strcmp(set.v[0].v[0].keys[0].frames[1].text, "b+0x1/0x9") &&
		   !set.v[0].v[1].keys[0].frames[1].text && set.v[0].v[2].keys[0].cut,
	   "call chains are read, and written again");
	json_decref(document);
	ok(!hist_set_sort(&set, NULL, NULL) && set.v[0].v[0].hits == 9 && set.v[0].v[1].hits == 8,
	   "they are ordered by their frames, a shorter one first");
	out = open_memstream(&text, &size);
	hist_set_print(out, &set, &(struct hist_text_options){0});
	fclose(out);
	ok(strstr(text, "{ common_stacktrace:\n         kmemdup+0x20/0x50\n         [cut]\n"
			", cpu:          3} hitcount:          9\n"),
	   "one is printed as by ftrace, and says where it is cut: %s", text);
	ok(strstr(text, "\n         kmemdup+0x20/0x50\n         0x2\n, cpu"),
	   "a frame without a symbol is an address");
	free(text);
	hist_set_cut(&set, 1);
	ok(set.v[0].n == 1, "a document of them can be cut");
	hist_set_deinit(&set);
}

static void test_order(void)
{
	struct hist_set set = need(DOCUMENT("{\"column\":3}", ROWS));
	struct hist_table *t = &set.v[0];
	struct error err = {0};

	ok(!hist_set_sort(&set, NULL, NULL) && t->v[0].hits == 7,
	   "a histogram has an order of its own: by a signed key");
	ok(!hist_set_sort(&set, "hitcount.descending", NULL) && t->v[0].hits == 9,
	   "the largest first");
	ok(!hist_set_sort(&set, "bytes", NULL) && t->v[0].hits == 9, "by a value");
	ok(!hist_set_sort(&set, "n.descending,hitcount", NULL) && t->order.n == 2 &&
		   t->v[0].hits == 9,
	   "by a key, and then by hits");
	ok(hist_set_sort(&set, "n,hitcount,site", &err) == -EINVAL, "not by three columns");
	is_str(err.text, "more than 2 columns to sort by", "which is said");
	ok(hist_set_sort(&set, "n,hits", &err) == -EINVAL, "nor by one that is not there");
	ok(hist_set_sort(&set, "n,", &err) == -EINVAL, "nor by none");
	ok(hist_set_sort(&set, "byte", &err) == -EINVAL, "other columns are refused");
	is_str(err.text, "the histogram 'h' has no column 'byte': did you mean 'bytes'?",
	       "with the nearest name");
	ok(hist_set_sort(&set, "bytes.down", &err) == -EINVAL, "so are other orders");
	is_str(err.text, "'bytes.down': only .descending or .ascending can follow a column",
	       "which are named");
	ok(hist_set_sort(&set, "zzzz", &err) == -EINVAL && strstr(err.text, "takes hitcount, "),
	   "where none is near, with all names: %s", err.text);
	hist_set_cut(&set, 0);
	ok(t->n > 1, "a histogram that is not cut has all rows");
	hist_set_cut(&set, 1);
	ok(t->n == 1 && t->v[0].hits == 9, "one that is cut has the first");
	ok(hist_set_keep(&set, "g", &err) == -ENOENT && !set.n, "a name that is not there");
	hist_set_deinit(&set);
}

static void test_signed_value(void)
{
	struct hist_set set = need(
		SIGNED_VALUE(ROW("0x1", "f", "0", "1", "3") "," ROW("0x2", "f", "0", "2", "-5")));
	struct hist_table *t = &set.v[0];

	ok(!hist_set_sort(&set, "bytes", NULL) && t->v[0].hits == 2,
	   "a sum below 0 comes before others");
	ok(!hist_set_sort(&set, "bytes.descending", NULL) && t->v[0].hits == 1,
	   "and behind them in descending order");
	hist_set_deinit(&set);
}

static json_t *make(const void *set)
{
	return hist_set_json(set);
}

static void test_no_memory(void)
{
	struct hist_set set = need(DOCUMENT("{\"column\":3}", ROWS));

	set.v[0].v[0].keys[0].fault = true;
	set.v[0].keys[1].show = HIST_RANGE;
	set.v[0].nohitcount = true;
	is_u64(json_faults(make, &set), 0, "without memory there is no document");
	hist_set_deinit(&set);
	set = need(CHAINS(CHAIN_ROW(INNER, "9")));
	set.v[0].v[0].keys[0].cut = true;
	is_u64(json_faults(make, &set), 0, "nor one of call chains");
	hist_set_deinit(&set);
}

static char *printed(const struct hist_set *set, size_t top)
{
	const struct hist_text_options options = {.top = top};
	char *text;
	size_t size;
	FILE *out = open_memstream(&text, &size);

	hist_set_print(out, set, &options);
	fclose(out);
	return text;
}

static void prints(enum hist_show show, uint64_t number, const char *want)
{
	struct hist_value *key;
	struct hist_set set = need(DOCUMENT("", ROW("0x1", "name", "0", "1", "2")));
	char *text;

	set.v[0].nr_keys = 1;
	set.v[0].keys[0].show = show;
	set.v[0].keys[0].bucket = 10;
	key = &set.v[0].v[0].keys[0];
	key->number = number;
	text = printed(&set, 0);
	ok(strstr(text, want), "%s: %s", hist_shows[show], want);
	free(text);
	key->fault = true;
	text = printed(&set, 0);
	ok(strstr(text, "{ site:    (fault) } hitcount:          1  bytes:          2\n"),
	   "%s that cannot be read", hist_shows[show]);
	free(text);
	hist_set_deinit(&set);
}

static void test_print(void)
{
	struct hist_set set = need(DOCUMENT("", ROWS));
	char *text = printed(&set, 1);

	is_str(text,
	       "# event histogram\n#\n"
	       "# trigger info: kmem:kmalloc,hist:keys=site,n [size=2048] [active]\n#\n\n"
	       "{ site: [ffffffff81000020] f+0x20                                                 "
	       ", "
	       "n:         -5 } hitcount:          7  bytes:         70\n"
	       "1 more; --top 0 shows all\n\n"
	       "Totals:\n    Hits: 16\n    Entries: 2\n    Dropped: 3\n",
	       "a histogram is printed as by ftrace");
	free(text);
	hist_set_deinit(&set);
	prints(HIST_UNSIGNED, 7, "{ site:          7 }");
	prints(HIST_SIGNED, UINT64_MAX, "{ site:         -1 }");
	prints(HIST_HEX, 255, "{ site: ff }");
	prints(HIST_SYMBOL, 16, "{ site: [10] name  ");
	prints(HIST_EXECNAME, 42, "{ site: name            [        42] }");
	prints(HIST_SYSCALL, 0, "{ site: name                          [  0] }");
	prints(HIST_POWER, 3, "{ site: ~ 2^3  }");
	prints(HIST_RANGE, 20, "{ site: ~ 20-29 }");
	prints(HIST_TEXT, 0, "{ site: name   ");
}

/* As __get_percentage() and __fill_bar_str() in kernel/trace/trace_events_hist.c have it. */
static void test_parts(void)
{
	static const char document[] =
		"{\"histograms\":[{\"name\":\"h\",\"spec\":\"s\",\"nohitcount\":true,\"keys\":[{"
		"\"name\":\"k\",\"show\":\"unsigned\"}],\"values\":[{\"name\":\"hitcount\","
		"\"show\":"
		"\"percent\"},{\"name\":\"b\",\"show\":\"graph\"},{\"name\":\"b\",\"show\":\"hex\"}"
		"],"
		"\"sort\":[],\"rows\":[{\"keys\":[{\"number\":1}],\"hitcount\":1,\"values\":{"
		"\"hitcount\":1,\"b\":255}},{\"keys\":[{\"number\":2}],\"hitcount\":5,\"values\":{"
		"\"hitcount\":5,\"b\":100}}]}]}";
	struct hist_set set = need(document), again;
	json_t *copy = hist_set_json(&set);
	char *text = printed(&set, 0);

	ok(strstr(text,
		  "{ k:          1 }  hitcount (%):  16.66  b: ####################  b:        "
		  " ff\n"
		  "{ k:          2 }  hitcount (%):  83.33  b: #######               b:        "
		  " 64\n"),
	   "parts of all, and of the largest, without hits: %s", text);
	free(text);
	ok(copy && !hist_set_parse(copy, &again, NULL) && again.v[0].nohitcount &&
		   again.v[0].values[0].show == HIST_PERCENT &&
		   again.v[0].values[1].show == HIST_BAR && again.v[0].v[1].values[0] == 5,
	   "they are written, and read again");
	set.v[0].v[0].values[0] = UINT64_MAX;
	set.v[0].v[1].values[0] = 2;
	text = printed(&set, 0);
	ok(strstr(text, "{ k:          1 }  hitcount (%):[ERROR]"), "a sum that is no sum: %s",
	   text);
	free(text);
	json_decref(copy);
	hist_set_deinit(&again);
	hist_set_deinit(&set);
}

int main(void)
{
	test_parse();
	test_chains();
	test_order();
	test_signed_value();
	test_no_memory();
	test_print();
	test_parts();
	return tap_done();
}
