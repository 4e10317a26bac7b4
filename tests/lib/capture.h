/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_TESTS_LIB_CAPTURE_H
#define SONDE_TESTS_LIB_CAPTURE_H

enum { CAPTURE_SIZE = 16384, CAPTURE_MAX_WORDS = 96 };

/* What a function prints on standard output and standard error, with a standard input of its own.
 * One at a time. */
struct capture {
	char out[CAPTURE_SIZE], err[CAPTURE_SIZE];
	int saved[3], fds[3];
};

void capture_begin(struct capture *capture, const char *input);
void capture_end(struct capture *capture);

/* A command line: the words of `text`, split at single spaces and copied, behind `verb`. */
struct capture_words {
	char *argv[CAPTURE_MAX_WORDS + 1];
	int argc;
	char text[CAPTURE_SIZE];
};
void capture_split(struct capture_words *words, const char *verb, const char *text);

#endif
