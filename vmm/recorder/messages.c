/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "vmm/recorder/messages.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "formats/base/clock.h"
#include "formats/base/fs.h"
#include "formats/base/text.h"
#include "formats/base/thread.h"

/* Enough to name all functions of a kernel, as -v may. */
enum { KEPT_MAX = 8 << 20, SHORT_MAX = 1024 };

struct messages {
	struct disk_thread thread; /* ends when it has nothing to do */
	const char *verb;
	/* With the thread's lock held: */
	char *kept; /* to be written */
	size_t nr_kept, room;
	bool is_writing;
	uint64_t left_out;     /* lines, behind what is kept */
	unsigned int progress; /* columns of it, behind what is kept; 0: there is none */
};

/* --- the thread, and with the lock held ------------------------------------------------------ */

static bool make_room(struct messages *m, size_t n)
{
	const size_t needed = m->nr_kept + n, room = needed > 2 * m->room ? needed : 2 * m->room;
	char *bigger;

	if (needed <= m->room)
		return true;
	bigger = needed <= KEPT_MAX ? realloc(m->kept, room) : NULL;
	if (!bigger)
		return false;
	m->kept = bigger;
	m->room = room;
	return true;
}

static bool keep(struct messages *m, const char *text)
{
	const size_t n = strlen(text);

	if (!make_room(m, n))
		return false;
	memcpy(m->kept + m->nr_kept, text, n);
	m->nr_kept += n;
	return true;
}

static void tell_left_out(struct messages *m)
{
	char line[SHORT_MAX];

	if (!m->left_out)
		return;
	snprintf(line, sizeof(line), "sonde %s: %s %s left out\n", m->verb,
		 text_number(m->left_out, "line").s, m->left_out == 1 ? "was" : "were");
	if (keep(m, line))
		m->left_out = 0;
}

static void write_kept(struct messages *m)
{
	char *bytes = m->kept;
	const size_t n = m->nr_kept;

	m->kept = NULL;
	m->nr_kept = m->room = 0;
	m->is_writing = true;
	pthread_mutex_unlock(&m->thread.lock);
	file_write(STDERR_FILENO, bytes, n);
	free(bytes);
	pthread_mutex_lock(&m->thread.lock);
	m->is_writing = false;
	tell_left_out(m);
	pthread_cond_broadcast(&m->thread.changed);
}

static void free_messages(struct messages *m)
{
	disk_thread_deinit(&m->thread);
	free(m->kept);
	free(m);
}

static void *work(void *arg)
{
	struct messages *m = arg;

	pthread_mutex_lock(&m->thread.lock);
	while (m->nr_kept || !m->thread.ending) {
		if (m->nr_kept)
			write_kept(m);
		else
			pthread_cond_wait(&m->thread.changed, &m->thread.lock);
	}
	if (disk_thread_leave(&m->thread))
		free_messages(m);
	return NULL;
}

/* Until the first text the process may fork. Without a thread the text is kept for the next try. */
static void wake(struct messages *m)
{
	if (!m->thread.started)
		disk_thread_start(&m->thread, "sonde-messages", work, m);
	pthread_cond_broadcast(&m->thread.changed);
}

/* --- for others ------------------------------------------------------------------------------ */

struct messages *messages_create(const char *verb)
{
	struct messages *m = calloc(1, sizeof(*m));

	if (!m)
		return NULL;
	m->verb = verb;
	disk_thread_init(&m->thread);
	return m;
}

void messages_destroy(struct messages *m)
{
	if (m && disk_thread_end(&m->thread))
		free_messages(m);
}

static unsigned int count_lines(const char *text)
{
	unsigned int n = 0;

	for (; *text; text++)
		n += *text == '\n';
	return n;
}

/* With the lock held. */
static void take_progress_away(struct messages *m)
{
	char blank[SHORT_MAX];

	snprintf(blank, sizeof(blank), "\r%*s\r", (int)m->progress, "");
	if (m->progress && keep(m, blank))
		m->progress = 0;
}

void messages_put(struct messages *m, const char *lines)
{
	if (!*lines)
		return;
	pthread_mutex_lock(&m->thread.lock);
	tell_left_out(m);
	take_progress_away(m);
	if (m->left_out || !keep(m, lines))
		m->left_out += count_lines(lines);
	wake(m);
	pthread_mutex_unlock(&m->thread.lock);
}

void messages_show_progress(struct messages *m, const char *text, unsigned int columns)
{
	const unsigned int most = SHORT_MAX / 2, shown = columns < most ? columns : most;
	char blank[SHORT_MAX];

	pthread_mutex_lock(&m->thread.lock);
	if (!m->nr_kept && !m->is_writing) {
		snprintf(blank, sizeof(blank), "%*s",
			 m->progress > shown ? (int)(m->progress - shown) : 0, "");
		keep(m, "\r");
		keep(m, text);
		keep(m, blank);
		m->progress = shown;
		wake(m);
	}
	pthread_mutex_unlock(&m->thread.lock);
}

void messages_clear_progress(struct messages *m)
{
	pthread_mutex_lock(&m->thread.lock);
	take_progress_away(m);
	if (m->nr_kept)
		wake(m);
	pthread_mutex_unlock(&m->thread.lock);
}

void messages_await(struct messages *m, int ms)
{
	const uint64_t ns_per_ms = 1000000;
	const uint64_t until = clock_monotonic_ns() + (uint64_t)(ms < 0 ? 0 : ms) * ns_per_ms;

	pthread_mutex_lock(&m->thread.lock);
	while (m->thread.started && (m->nr_kept || m->is_writing)) {
		if (ms < 0)
			pthread_cond_wait(&m->thread.changed, &m->thread.lock);
		else if (!thread_wait_until(&m->thread.changed, &m->thread.lock, until))
			break;
	}
	pthread_mutex_unlock(&m->thread.lock);
}
