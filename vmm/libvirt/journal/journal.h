/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_VMM_LIBVIRT_JOURNAL_JOURNAL_H
#define SONDE_VMM_LIBVIRT_JOURNAL_JOURNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include "formats/base/error.h"
#include "formats/base/u64-map.h"
#include "introspect/tasks/stack-scan.h"
#include "vmm/libvirt/connection/death.h"
#include "vmm/libvirt/connection/lib.h"
#include "vmm/libvirt/connection/process.h"

/*
 * What an attached tracer changes in a domain, written to disk before the change, so that another
 * process can undo it. A text file of lines, named by the domain's uuid and locked while its tracer
 * lives. It is removed when nothing is left to undo.
 */
struct libvirt_journal {
	int fd;           /* -1: none */
	int folder;       /* unless fd is -1 */
	off_t compact_at; /* it is rewritten beyond this size */
	struct u64_map places; /* index.c */
	size_t nr_back;        /* of these */
	bool has_breaks;       /* this process has written that line */
	char name[LIBVIRT_UUID_TEXT];
	char path[256];
};

enum { JOURNAL_MAX_WRITE = 4096, JOURNAL_MAX_FILE = 31 };

/* The folder of journals: /run/sonde for root, else `runtime`/sonde, from $XDG_RUNTIME_DIR. */
void libvirt_journal_folder(bool root, const char *runtime, char *out, size_t size);

/*
 * The folder and the file must belong to this user, and be closed to others (-EPERM). -ENOTDIR:
 * there is no folder.
 */

/* For a new tracer. -EBUSY: another sonde has it. -EEXIST: a tracer died, `sonde recover` is due.
 */
int libvirt_journal_create(const char *uuid, struct libvirt_journal *out, struct error *err);
/* Whether libvirt_journal_create() would succeed. Errors as there. */
int libvirt_journal_check(const char *uuid, struct error *err);
/*
 * For a recovery. -EBUSY: another sonde has it. -ENOENT: there is none. -EIO: it cannot be read.
 * -EPROTO: its last line is longer than any is. It is left as it is then.
 *
 * It is taken from a sonde that is dead but has not ended (death.h), which is left with a file that
 * was removed. -ENOSPC and the like: there is no room for a copy.
 */
int libvirt_journal_adopt(const char *uuid, struct libvirt_journal *out, struct error *err);
/* Unlock and keep the file. A journal that is not open may be closed, too. */
void libvirt_journal_close(struct libvirt_journal *journal);
/* When everything is undone: remove the file. */
void libvirt_journal_remove(struct libvirt_journal *journal);

/*
 * What is written, each before it is done. -EIO: the line could not be written; the change must not
 * be made then.
 */

/* First of all: the instance of the domain that all other lines are about. Writes nothing if it is
 * unknown. */
int libvirt_journal_instance(struct libvirt_journal *journal,
			     const struct libvirt_instance *instance, struct error *err);
/* Second: the tracer, which has the gdbstub now and then. Writes nothing if it is unknown. */
int libvirt_journal_tracer(struct libvirt_journal *journal, const struct libvirt_pid *tracer,
			   struct error *err);
/*
 * A write of `after` to [gpa, gpa + size), which holds `before`; at most JOURNAL_MAX_WRITE bytes.
 * Nothing is written if `after` is what the place held first: the journal has that. -EFBIG: it has
 * 32 MiB of places that are not put back, and takes no other one.
 */
int libvirt_journal_write(struct libvirt_journal *journal, uint64_t gpa, const uint8_t *before,
			  const uint8_t *after, size_t size, struct error *err);
/* Behind it: the guest's memory holds `after`. A place that holds its first bytes again is left out
 * when the journal is rewritten. */
void libvirt_journal_written(struct libvirt_journal *journal, uint64_t gpa, const uint8_t *after,
			     size_t size);
/* A file of this name is made in /dev/shm, and is there until it is mapped. At most one at a time.
 */
int libvirt_journal_file(struct libvirt_journal *journal, const char *name, struct error *err);
/* Scratch memory is mapped into the guest's kernel; `tasks` says how to find that kernel's tasks.
 */
int libvirt_journal_tasks(struct libvirt_journal *journal, const struct task_stacks *tasks,
			  struct error *err);
/* Breakpoints are set in QEMU's gdbstub. */
int libvirt_journal_breaks(struct libvirt_journal *journal, struct error *err);
/* A vCPU's CR3 is replaced for a moment by that of the kernel's page tables; and is restored. */
struct journal_loan {
	unsigned int vcpu;
	uint64_t cr3;  /* its own */
	uint64_t lent; /* the kernel's */
};
int libvirt_journal_lend(struct libvirt_journal *journal, const struct journal_loan *loan,
			 struct error *err);
int libvirt_journal_lent(struct libvirt_journal *journal, struct error *err);
/* The domain was reset: its memory belongs to another guest now. */
int libvirt_journal_reset(struct libvirt_journal *journal, struct error *err);
/*
 * The running guest is stopped, or resumed. While the guest has bytes or breakpoints of the
 * tracer's, a line that cannot be written is no error: it has to be stopped to take them back.
 * libvirt's reason for the pause shows a recovery whose it is.
 */
int libvirt_journal_stop(struct libvirt_journal *journal, bool stopped, struct error *err);

/* All writes to one place. */
struct journal_place {
	uint64_t gpa;
	size_t size;
	uint8_t *original; /* `size` bytes: the guest's own, before the first write to them */
	uint8_t *ours;     /* nr_ours times `size` bytes: what tracers wrote over these */
	size_t nr_ours;
};

struct journal_contents {
	bool blank; /* no line is of the domain: its tracer has done nothing yet */
	struct libvirt_instance instance;
	struct libvirt_pid tracer;
	char file[JOURNAL_MAX_FILE + 1]; /* in /dev/shm; "": none */
	bool stopped; /* the tracer has stopped the guest */
	bool breaks;  /* there may be breakpoints */
	bool reset;   /* the memory belongs to another guest */
	bool lent;    /* `loan` may be in effect */
	struct journal_loan loan;
	bool knows_tasks; /* `tasks` is valid */
	struct task_stacks tasks;
	struct journal_place *places; /* in order of their first write; some that are put back */
	size_t nr_places;
};

/* Read it. An unfinished last line is ignored: the tracer made no change after it. -EPROTO:
 * damaged. */
int libvirt_journal_read(const struct libvirt_journal *journal, struct journal_contents *out,
			 struct error *err);
/* The same from `size` bytes of text. */
int journal_parse(const char *text, size_t size, struct journal_contents *out, struct error *err);
void journal_contents_deinit(struct journal_contents *contents);

#endif
