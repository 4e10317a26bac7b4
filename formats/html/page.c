/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "formats/html/page.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

/* The files page.css and page.js, as they are. The Makefile knows that this file depends on them.
 */
#define INCLUDE_FILE(name, path)         \
	__asm__(".pushsection .rodata\n" \
		"page_" #name ":\n"      \
		".incbin \"" path "\"\n" \
		"page_" #name "_end:\n"  \
		".popsection\n");        \
	extern const char page_##name[], page_##name##_end[]

INCLUDE_FILE(css, "formats/html/page.css");
INCLUDE_FILE(js, "formats/html/page.js");

static void put_file(struct export_file *file, const char *begin, const char *end)
{
	while (begin < end) {
		size_t left = (size_t)(end - begin), n = left < EXPORT_ROOM ? left : EXPORT_ROOM;

		export_put(file, begin, n);
		begin += n;
	}
}

/* The policy admits only program and style with this number, which a guest cannot guess. */
static int make_nonce(char nonce[static 33])
{
	uint8_t bytes[16];

	if (getrandom(bytes, sizeof(bytes), 0) != (ssize_t)sizeof(bytes))
		return -EIO;
	for (size_t i = 0; i < sizeof(bytes); i++)
		snprintf(nonce + 2 * i, 3, "%02x", bytes[i]);
	return 0;
}

int page_begin(struct export_file *file, char nonce[static 33])
{
	int ret = make_nonce(nonce);

	if (ret)
		return ret;
	export_printf(file,
		      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
		      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "
		      "style-src 'nonce-%s'; script-src 'nonce-%s'; base-uri 'none'; "
		      "form-action 'none'\">\n",
		      nonce, nonce);
	export_printf(file,
		      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
		      "<meta name=\"color-scheme\" content=\"light dark\">\n"
		      "<title>Sonde report</title>\n<style nonce=\"%s\">\n",
		      nonce);
	put_file(file, page_css, page_css_end);
	export_text(file, "</style>\n</head>\n<body>\n"
			  "<noscript>This report needs JavaScript: its own, none from a network."
			  "</noscript>\n<script type=\"application/json\" id=\"data\">\n");
	return 0;
}

void page_end(struct export_file *file, const char *nonce)
{
	export_printf(file, "\n</script>\n<script nonce=\"%s\">\n", nonce);
	put_file(file, page_js, page_js_end);
	export_text(file, "</script>\n</body>\n</html>\n");
}

/* What could end the element or begin another one is written as JSON's escape. */
static int put_escaped(const char *text, size_t size, void *arg)
{
	struct export_file *file = arg;
	size_t done = 0;

	for (size_t i = 0; i < size; i++) {
		if (text[i] != '<' && text[i] != '>' && text[i] != '&')
			continue;
		put_file(file, text + done, text + i);
		export_printf(file, "\\u%04x", (unsigned int)text[i]);
		done = i + 1;
	}
	put_file(file, text + done, text + size);
	return 0;
}

int page_put(struct export_file *file, json_t *value)
{
	int failed = !value || json_dump_callback(value, put_escaped, file,
						  JSON_COMPACT | JSON_ENSURE_ASCII |
							  JSON_ENCODE_ANY | JSON_REAL_PRECISION(6));

	json_decref(value);
	return failed ? -ENOMEM : 0;
}
