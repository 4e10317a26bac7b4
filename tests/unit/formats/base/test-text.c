/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "formats/base/text.h"
#include "tests/lib/tap.h"

static void test_numbers(void)
{
	is_str(text_count(0).s, "0", "zero has one digit");
	is_str(text_count(999).s, "999", "three digits have no separator");
	is_str(text_count(1234567).s, "1,234,567", "thousands are separated");
	is_str(text_count(UINT64_MAX).s, "18,446,744,073,709,551,615", "the greatest number fits");
	is_str(text_number(1, "pause").s, "1 pause", "one has no plural s");
	is_str(text_number(0, "pause").s, "0 pauses", "none has one");
	is_str(text_number(2000, "pause").s, "2,000 pauses", "many have one");
	is_str(text_bytes(999).s, "999 B", "less than 1000 bytes are exact");
	is_str(text_bytes(1000).s, "1.0 KiB", "more have a binary prefix");
	is_str(text_bytes(UINT64_MAX).s, "16.0 EiB", "the greatest number of bytes fits");
	is_str(text_time(-1500000000).s, "-1.500000000 s", "a time may be negative");
	is_str(text_ms(1234567).s, "1.235 ms", "short times have microseconds");
	is_str(text_ms(12345678901).s, "12,345 ms", "longer ones have none");
}

static void test_words(void)
{
	static const char *const words[] = {"a", "b", "c", NULL};

	is_str(text_words(words).s, "a, b or c", "three words are listed with a comma and 'or'");
	is_str(text_words(words + 1).s, "b or c", "two words are joined by 'or'");
	is_str(text_words(words + 2).s, "c", "one word stands alone");
	is_str(text_words(words + 3).s, "", "no words are an empty list");
}

static void test_nearest(void)
{
	static const char *const words[] = {"keys", "vals", "sort", "size", NULL};

	is_str(text_nearest("sizee", words), "size", "a misspelt word has a nearest one");
	ok(!text_nearest("pause", words) && !text_nearest("frob", words),
	   "a word of which half is different has none");
}

static void test_whole(void)
{
	is_u64(whole_number(2.9), 2, "the whole part of 2.9 is 2");
	is_u64(whole_number(-1), 0, "that of a negative number is 0");
	is_u64(whole_number(0x1p70), UINT64_MAX, "one beyond 64 bits is the largest of them");
	is_u64(whole_number(__builtin_nan("")), 0, "what is no number is 0");
}

static void test_parse(void)
{
	static const struct {
		const char *text;
		int want;
	} rows[] = {
		{"0", 0},         {"100", 0},
		{"101", -ERANGE}, {"99999999999999999999", -ERANGE},
		{"", -EINVAL},    {"-1", -EINVAL},
		{"+1", -EINVAL},  {" 1", -EINVAL},
		{"1x", -EINVAL},  {"0x1", -EINVAL},
	};
	uint64_t value;

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		ok(text_parse_u64(rows[i].text, 100, &value) == rows[i].want,
		   "'%s' as a number up to 100: %d", rows[i].text, rows[i].want);
}

static void test_clean(void)
{
	char line[] = "caf\xc3\xa9\t\xc2\x9b\x7f\xe2\x80\xa8\xe2\x80\xa9", copy[5];

	clean_text(copy, sizeof(copy),
		   "a\x1b\xff"
		   "bcd");
	is_str(copy, "a??b", "a copy has '?' for all that is not printable ASCII, and is cut");
	clean_line(line);
	is_str(line, "caf\xc3\xa9??????????",
	       "a line keeps letters of all scripts, not control characters and ends of lines");
}

static void test_all_bytes(void)
{
	uint8_t bytes[256], back[256];
	char text[513];

	for (size_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = (uint8_t)i;
	is_u64(hex_encode(text, bytes, sizeof(bytes)), 512, "a byte has two digits");
	is_u64(strlen(text), 512, "a NUL follows the digits");
	ok(!memcmp(text, "000102", 6) && !memcmp(text + 506, "fdfeff", 6), "digits are lower case");
	ok(hex_decode(back, text, sizeof(back)) && !memcmp(bytes, back, sizeof(back)),
	   "decoding gives the bytes back");
}

static void test_digits(void)
{
	unsigned int accepted = 0;
	uint8_t byte;

	for (int c = -128; c < 128; c++) {
		const char first[] = {(char)c, '0'}, second[] = {'0', (char)c};
		bool is_digit = c > 0 && strchr("0123456789abcdefABCDEF", c);

		if (hex_decode(&byte, first, 1) != is_digit ||
		    hex_decode(&byte, second, 1) != is_digit)
			ok(false, "character %d is taken for a digit only if it is one", c);
		accepted += is_digit;
	}
	is_u64(accepted, 22, "22 characters are digits");
	ok(hex_decode(&byte, "aF", 1) && byte == 0xaf, "a byte may mix cases");
	ok(hex_decode(&byte, "", 0), "no digits are no bytes");
}

/* Names of symbols and folders in a command that is pasted into a shell. */
static void test_shell_words(void)
{
	static const char *const rows[][2] = {
		{"/var/tmp/out-1", "/var/tmp/out-1"}, {"", "''"},
		{"it's here", "'it'\\''s here'"},     {"-rf", "'-rf'"},
		{"$(reboot)", "'$(reboot)'"},         {"x';reboot;'", "'x'\\'';reboot;'\\'''"},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		char out[64] = "";
		FILE *file = fmemopen(out, sizeof(out), "w");

		text_print_word(file, rows[i][0]);
		fclose(file);
		ok(!strcmp(out, rows[i][1]), "a shell reads %s as one word", rows[i][0]);
	}
}

static void test_beginning(void)
{
	static const char *const names[] = {"one", "three", NULL};

	ok(text_begins_as("three.part.0", 5, names), "the beginning of a text is one of the names");
	ok(!text_begins_as("three.part.0", 4, names), "but not a part of one");
	ok(!text_begins_as("threes", 6, names), "nor more than one");
}

/* A stream whose text is not whole may close without an error. */
static void test_stream(void)
{
	char few[4], *text = NULL;
	size_t size;
	FILE *whole = open_memstream(&text, &size), *cut = fmemopen(few, sizeof(few), "w");

	if (!whole || !cut || setvbuf(cut, NULL, _IONBF, 0))
		abort();
	fputs("all of it", whole);
	ok(!text_stream_close(whole) && !strcmp(text, "all of it"), "a text is whole");
	free(text);
	fputs("all of it", cut);
	ok(ferror(cut) && text_stream_close(cut) == -ENOMEM, "one that lacks something is not");
}

int main(void)
{
	test_numbers();
	test_words();
	test_nearest();
	test_beginning();
	test_whole();
	test_parse();
	test_clean();
	test_all_bytes();
	test_digits();
	test_shell_words();
	test_stream();
	return tap_done();
}
