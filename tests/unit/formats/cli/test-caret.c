/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Where in a text of the user's an error is: cli_usage_of(). */
#include "formats/cli/cli.h"

#include <string.h>
#include "tests/lib/capture.h"
#include "tests/lib/tap.h"

static const char *shown(const char *text, unsigned int column)
{
	static struct capture capture;
	struct error err = {.column = column, .text = "wrong"};
	int ret;

	capture_begin(&capture, "");
	ret = cli_usage_of("verb", text, &err);
	capture_end(&capture);
	return ret == CLI_USAGE ? capture.err : "another exit status";
}

static const char *shown_of_error(const char *text, unsigned int column)
{
	static struct capture capture;
	struct error err = {.column = column, .parsed = text, .text = "wrong"};
	int ret;

	capture_begin(&capture, "");
	ret = cli_error("verb", &err);
	capture_end(&capture);
	return ret == CLI_FAILED ? capture.err : "another exit status";
}

/* The place of `c` in a line, from 0. */
static size_t place(char c, int line, const char *text)
{
	while (--line)
		text = strchr(text, '\n') + 1;
	return (size_t)(strchr(text, c) - text);
}

int main(void)
{
	char text[200];

	is_str(shown("abc", 0), "sonde verb: wrong\n", "without a column there is one line");
	is_str(shown("abc", 1), "sonde verb: wrong\n  abc\n  ^\n", "the first character is shown");
	is_str(shown("abc", 3), "sonde verb: wrong\n  abc\n    ^\n", "the last character is shown");
	is_str(shown("abc", 4), "sonde verb: wrong\n  abc\n     ^\n", "so is the end");
	is_str(shown("abc", 5), "sonde verb: wrong\n", "nothing is shown behind the end");
	is_str(shown("a\n\033b", 4), "sonde verb: wrong\n  a??b\n     ^\n",
	       "control characters are not printed");
	is_str(shown("\xc3\xa4\xc3\xa4x", 5), "sonde verb: wrong\n  \xc3\xa4\xc3\xa4x\n    ^\n",
	       "a letter of two bytes takes one column");
	is_str(shown_of_error("abc", 2), "sonde verb: wrong\n  abc\n   ^\n",
	       "an error that has its text shows the place, too");
	is_str(shown_of_error(NULL, 2), "sonde verb: wrong\n", "without a text there is one line");
	memset(text, 'a', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	text[99] = 'x';
	ok(strlen(shown(text, 100)) < 140 && strstr(shown(text, 100), "ax"),
	   "of a long text the part around the place is shown");
	is_u64(place('x', 2, shown(text, 100)), place('^', 3, shown(text, 100)),
	       "with the caret below it");
	return tap_done();
}
