/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Specs as given to --trace and trace-start: which are understood, and what is said of others. */
#include <errno.h>
#include <string.h>
#include "formats/event/kmem.h"
#include "patcher/tracers/tracer.h"
#include "tests/lib/tap.h"

static const char *const words[] = {"kmalloc", "cache", "pages", NULL};

static const struct {
	const char *args;
	uint32_t bits;
} word_lists[] = {
	{NULL, 0},
	{"kmalloc", 1},
	{"cache,pages", 6},
	{"pages,kmalloc,pages", 5},
};

static const char *const good[] = {"kmem", "kmem:kmalloc", "kmem:cache,pages",
				   "kmem:pages,kmalloc,pages"};

static const struct {
	const char *text, *says;
} bad[] = {
	{"", "empty word"},
	{":cache", "empty word"},
	{"kmem:", "empty word"},
	{"kmem:,cache", "empty word"},
	{"kmem:cache,", "empty word"},
	{"kmem:cache,,pages", "empty word"},
	{"kmme", "did you mean 'kmem'"},
	{"kmem,cache", "unknown tracer 'kmem,cache'"},
	{"scheduler", "known: kmem"},
	{"kmem:cach", "did you mean 'cache'"},
	{"kmem:interrupts", "known: kmalloc, cache, pages"},
	{"kmem:cache:pages", "unknown filter 'cache:pages'"},
	{"kmem:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
	 "too long"},
};

int main(void)
{
	struct error err;
	uint32_t bits;

	for (size_t i = 0; i < sizeof(word_lists) / sizeof(word_lists[0]); i++)
		ok(!tracer_parse_words(word_lists[i].args, words, &bits, &err) &&
			   bits == word_lists[i].bits,
		   "the words of \"%s\" are bits %#x", word_lists[i].args ? word_lists[i].args : "",
		   word_lists[i].bits);
	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
		ok(!tracer_check_spec(good[i], &err), "\"%s\" is a spec", good[i]);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		err = (struct error){0};
		ok(tracer_check_spec(bad[i].text, &err) == -EINVAL && strstr(err.text, bad[i].says),
		   "\"%s\" is refused with \"%s\"", bad[i].text, bad[i].says);
		ok(tracer_check_spec(bad[i].text, NULL) == -EINVAL,
		   "\"%s\" is refused without an error object, too", bad[i].text);
	}
	return tap_done();
}
