/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_VMM_LIBVIRT_JOURNAL_JOURNAL_H
#define SONDE_VMM_LIBVIRT_JOURNAL_JOURNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "formats/base/error.h"
#include "introspect/tasks/stack-scan.h"
#include "vmm/libvirt/connection/lib.h"
#include "vmm/libvirt/connection/process.h"

/*
 * What an attached tracer changes in a domain, noted on disk before it does so, for whoever has to
 * undo it: a text file of lines, named by the domain's uuid and locked while its tracer lives. It
 * is gone when nothing is left to undo.
 */
struct libvirt_journal {
	int fd; /* -1: none */
	char path[256];
};

enum { JOURNAL_MAX_WRITE = 4096 };

/* Where journals are: /run/sonde for root, else $XDG_RUNTIME_DIR/sonde (which is `runtime`). */
void libvirt_journal_folder(bool root, const char *runtime, char *out, size_t size);

/* For a new tracer. -EBUSY: another one is at work; -EEXIST: one died, `sonde recover` is needed.
 */
int libvirt_journal_create(const char *uuid, struct libvirt_journal *out, struct error *err);
/* Whether there could be a new one; nothing is changed. Errors as above. */
int libvirt_journal_check(const char *uuid, struct error *err);
/* For whoever recovers. -EBUSY as above; -ENOENT: there is none. */
int libvirt_journal_adopt(const char *uuid, struct libvirt_journal *out, struct error *err);
/* Keep the file. Also of one that is not open. */
void libvirt_journal_close(struct libvirt_journal *journal);
/* Everything is undone. */
void libvirt_journal_remove(struct libvirt_journal *journal);

/* Whose domain's memory all the rest is about: first of all. Nothing is noted if that is not known.
 */
int libvirt_journal_instance(struct libvirt_journal *journal,
			     const struct libvirt_instance *instance, struct error *err);
/* About to write [gpa, gpa + size), which holds `before`, up to JOURNAL_MAX_WRITE bytes. */
int libvirt_journal_write(struct libvirt_journal *journal, uint64_t gpa, const uint8_t *before,
			  const uint8_t *after, size_t size, struct error *err);
/* About to map memory into the guest's kernel, whose tasks are found so. */
int libvirt_journal_tasks(struct libvirt_journal *journal, const struct task_stacks *tasks,
			  struct error *err);
/* About to have breakpoints, in QEMU's gdbstub. */
int libvirt_journal_breaks(struct libvirt_journal *journal, struct error *err);
/* About to give a vCPU other page tables than those in its CR3; and to give them back. */
struct journal_loan {
	unsigned int vcpu;
	uint64_t cr3, lent;
};
int libvirt_journal_lend(struct libvirt_journal *journal, const struct journal_loan *loan,
			 struct error *err);
int libvirt_journal_lent(struct libvirt_journal *journal, struct error *err);
/* The guest is gone, another one has its memory. */
int libvirt_journal_reset(struct libvirt_journal *journal, struct error *err);
/* About to stop the running guest, or to let it go on. */
int libvirt_journal_stop(struct libvirt_journal *journal, bool stopped, struct error *err);

/* Everything written to one place since the beginning. */
struct journal_place {
	uint64_t gpa;
	size_t size;
	uint8_t *original;
	uint8_t *ours; /* nr_ours times `size` bytes, any of which may stand there */
	size_t nr_ours;
};

struct journal_contents {
	struct libvirt_instance instance;
	bool stopped; /* by the tracer */
	bool breaks;  /* there may be breakpoints */
	bool reset;   /* another guest has the memory now */
	bool lent;    /* there may be this loan */
	struct journal_loan loan;
	bool knows_tasks;
	struct task_stacks tasks;
	struct journal_place *places; /* in the order of their first write */
	size_t nr_places;
};

/* Read it; a last line that is cut off was never acted on. -EPROTO if it is no journal. */
int libvirt_journal_read(const struct libvirt_journal *journal, struct journal_contents *out,
			 struct error *err);
/* The same from text of `size` bytes. */
int journal_parse(const char *text, size_t size, struct journal_contents *out, struct error *err);
void journal_contents_deinit(struct journal_contents *contents);

#endif
