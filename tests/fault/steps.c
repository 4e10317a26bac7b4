/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "tests/fault/steps.h"

#include <execinfo.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define CALLERS 3
#define FRAMES 12
#define MAX_STEPS 4096

struct step {
	const char *name; /* NULL: a free entry */
	uintptr_t callers[CALLERS];
	unsigned long made;
};

extern const char __ehdr_start[], _end[];

static struct step steps[MAX_STEPS];
static atomic_flag lock = ATOMIC_FLAG_INIT;
static const char *due_step;
static unsigned long due;

void steps_begin(const char *step, unsigned long n)
{
	void *frame;

	due_step = step;
	due = n;
	backtrace(&frame, 1); /* loads what it needs: not in a process that was forked from threads */
}

void steps_forget(void)
{
	memset(steps, 0, sizeof(steps));
	atomic_flag_clear(&lock);
}

/* Other libraries call the program back; their addresses are others each time. */
static void find_callers(const void *caller, struct step *step)
{
	uintptr_t begin = (uintptr_t)__ehdr_start, end = (uintptr_t)_end;
	void *frames[FRAMES];
	int n = backtrace(frames, FRAMES), i = 0, found = 0;

	while (i < n && frames[i] != caller)
		i++;
	for (; i < n && found < CALLERS; i++) {
		uintptr_t address = (uintptr_t)frames[i];

		if (address >= begin && address < end)
			step->callers[found++] = address - begin;
	}
}

static bool is_same(const struct step *a, const struct step *b)
{
	return !memcmp(a->callers, b->callers, sizeof(a->callers)) && !strcmp(a->name, b->name);
}

/* How often it was made now. */
static unsigned long count(const struct step *step)
{
	size_t i = 0;

	while (steps[i].name && !is_same(&steps[i], step)) {
		if (++i == MAX_STEPS) {
			fputs("tests/fault/steps.c: MAX_STEPS is too small\n", stderr);
			abort();
		}
	}
	if (!steps[i].name)
		steps[i] = *step;
	return ++steps[i].made;
}

static void print(const struct step *step, char *out, size_t size)
{
	snprintf(out, size, "%s@%lx,%lx,%lx", step->name, (unsigned long)step->callers[0],
		 (unsigned long)step->callers[1], (unsigned long)step->callers[2]);
}

bool steps_make(const char *name, const void *caller)
{
	struct step step = {.name = name};
	unsigned long made;
	char text[128];

	find_callers(caller, &step);
	while (atomic_flag_test_and_set(&lock))
		;
	made = count(&step);
	atomic_flag_clear(&lock);
	if (!due_step || made != due)
		return false;
	print(&step, text, sizeof(text));
	return !strcmp(text, due_step);
}

void steps_write(FILE *out)
{
	char text[128];

	for (size_t i = 0; i < MAX_STEPS && steps[i].name; i++) {
		print(&steps[i], text, sizeof(text));
		fprintf(out, "\t%s %lu\n", text, steps[i].made);
	}
}
