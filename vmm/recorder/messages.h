/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_VMM_RECORDER_MESSAGES_H
#define SONDE_VMM_RECORDER_MESSAGES_H

#include <stdbool.h>

/*
 * Lines on stderr while a guest is traced. A terminal may be stopped (Ctrl-S), a pipe full, the
 * disk of a log may hang: so a thread writes them, and nobody waits for it. If more have come than
 * are kept meanwhile, it says how many were left out. On a terminal the last line is the progress,
 * which any message takes away. Thread-safe.
 */
struct messages;

/* `verb` must outlive it. NULL without memory. */
struct messages *messages_create(const char *verb);
/* NULL-safe. Waits two seconds at most for what is not written yet. */
void messages_destroy(struct messages *m);

/* Whole lines. */
void messages_put(struct messages *m, const char *lines);

/* Have the progress shown, of so many columns: not while other lines wait to be written. */
void messages_show_progress(struct messages *m, const char *text, unsigned int columns);
void messages_clear_progress(struct messages *m);

/* Wait until all is written, for this many milliseconds at most; negative: however long it takes.
 */
void messages_await(struct messages *m, int ms);

#endif
