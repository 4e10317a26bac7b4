/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_GUEST_SYMBOLS_FUNCTIONS_FUNCTION_SET_H
#define SONDE_GUEST_SYMBOLS_FUNCTIONS_FUNCTION_SET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "formats/base/error.h"
#include "guest-symbols/functions/patterns.h"
#include "guest-symbols/image/kernel-image.h"

/* --- the functions that there are ------------------------------------------------------------ */

/* One name of a function that has an mcount site. Strings are borrowed. */
struct traceable {
	const char *name;
	const char *module; /* NULL: of the kernel itself */
	uint64_t address;   /* of its first instruction */
	uint64_t site;      /* of its mcount site */
	bool alias;         /* the function has another name, which is the one to show */
};

struct traceable_list {
	struct traceable *v; /* several of one site if the function has several names */
	size_t n, room;
	const struct kernel_image *image; /* the last one added, or NULL */
	bool no_modules;                  /* theirs are not known yet, for messages */
};

/* -ENOMEM. */
int traceable_list_add(struct traceable_list *list, const struct traceable *function,
		       struct error *err);
/*
 * All functions of an image, moved by `slide`, except those whose memory the kernel frees after
 * boot. The image must outlive the list. -ENOMEM.
 */
int traceable_list_add_image(struct traceable_list *list, const struct kernel_image *image,
			     uint64_t slide, struct error *err);
void traceable_list_deinit(struct traceable_list *list);

/* --- those that the user wants --------------------------------------------------------------- */

/* Patterns made ready: a name is compared with those only that could match it. */
struct function_set;

/* `patterns` must outlive the set. -ENOMEM. */
int function_set_create(const struct function_patterns *patterns, struct function_set **out,
			struct error *err);
/* NULL-safe. */
void function_set_destroy(struct function_set *set);

/* Whether the patterns want a function. `module` is NULL for one of the kernel itself. Of a
 * function with several names ask function_set_resolve(). */
bool function_set_has(const struct function_set *set, const char *name, const char *module);

/* Lines for the user: what is unusual about the result. */
struct function_notes {
	char **v;
	size_t n;
};
/* -ENOMEM. */
int function_notes_add(struct function_notes *notes, struct error *err, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
/* Also of one that is zeroed. */
void function_notes_deinit(struct function_notes *notes);

/* What a set stands for. */
struct function_selection {
	struct traceable *v; /* by site; one for each function */
	size_t n;
	struct function_notes notes;
};

/*
 * The functions of `list` that the patterns want. A function is wanted or not by all of its names:
 * the last pattern that matches any of them decides. Strings in *out are those of the list.
 *
 * -ENOENT if a pattern matches none of the functions: *err says why, as far as the list's image
 * knows, or names the nearest function, with the pattern's column. There is a note instead if the
 * pattern takes functions out, or asks for a module, which may be loaded later. A note, too, for
 * each name that several functions have.
 */
int function_set_resolve(const struct function_set *set, const struct traceable_list *list,
			 struct function_selection *out, struct error *err);
/* The same for patterns that were resolved before: functions may be gone since. No notes. -ENOMEM.
 */
int function_set_select(const struct function_set *set, const struct traceable_list *list,
			struct function_selection *out, struct error *err);
/* Whether a pattern asks for a module, which may be loaded later. */
bool function_set_awaits_module(const struct function_set *set);
/* Also of a zeroed one. */
void function_selection_deinit(struct function_selection *selection);

/*
 * Say why a pattern matches none of the functions of `list`: -ENOENT. The reason is what the image
 * knows of the name, else the word, function or beginning that is nearest to it. -ENOMEM.
 */
int function_unmatched(const struct function_pattern *pattern, const struct traceable_list *list,
		       struct error *err);

/* --- for the user (print.c) ------------------------------------------------------------------- */

/*
 * Print the functions of an image that patterns stand for: their names, one per line, which is also
 * a file of patterns, and how many they are on standard error; or one JSON object. Each of
 * `operands` (NULL-terminated) is a list as in a trace spec: PATTERN or @FILE, joined by commas.
 * Returns the exit status.
 */
int functions_print(const char *verb, const struct kernel_image *image, char *const *operands,
		    bool json);
/* The same with what can be recorded of each by dynamic probes: parameters and result with their
 * types, and whether its returns can be (print-probes.c). */
int functions_print_probes(const char *verb, const struct kernel_image *image,
			   char *const *operands, bool json);

/* Prints a selection out of `all` functions; returns the exit status. */
typedef int functions_print_fn(const char *verb, const struct kernel_image *image,
			       const struct function_selection *selection, size_t all);
int functions_print_by(const char *verb, const struct kernel_image *image, char *const *operands,
		       functions_print_fn *print);
/* Flush, and say on standard error how many there are. Returns the exit status. */
int functions_print_count(const char *verb, const struct function_selection *selection, size_t all);

/* --- text that has to stay where it is (reserved-text.c) ---------------------------------------
 */

/*
 * Text of a kernel that has to stay where it is, from the kernel's own lists:
 *
 *   __jump_table        jump labels (include/linux/jump_label.h), which the kernel rewrites
 *   .static_call_sites  static calls (include/linux/static_call_types.h), likewise
 *   .smp_locks          LOCK prefixes (arch/x86/kernel/alternative.c), likewise, up to 7.2
 *   __ex_table          instructions that may fault (arch/x86/include/asm/extable.h): the kernel
 *                       knows them by their address
 *   _kprobe_blacklist   functions that kprobes keep away from (NOKPROBE_SYMBOL())
 *
 * and the sections that kprobes keep away from: .kprobes.text, .noinstr.text, .entry.text.
 */
struct reserved_text;

/*
 * A fact of the image, which owns it (kernel_image_derive()). -ENOTSUP if the image lacks a list.
 * -EBADMSG if one is damaged: as in an image that was read from a running kernel's memory, which
 * has freed some. -ENOMEM.
 */
int reserved_text_of(const struct kernel_image *image, const struct reserved_text **out,
		     struct error *err);

/* The same without what kprobes keep away from: what the kernel rewrites, or knows by its address.
 * A list that a running kernel frees when it does not need it any more may be missing. */
int reserved_text_changing_of(const struct kernel_image *image, const struct reserved_text **out,
			      struct error *err);

/* Why [address, address + size), link-time, has to stay, one line; NULL: it can be elsewhere. */
const char *reserved_text_find(const struct reserved_text *text, uint64_t address, uint64_t size);

/* Where the kernel may go on in another place than behind the instruction at `from`, which jumps
 * nowhere: at a jump label that is off, and where an instruction has faulted. */
struct text_lead {
	uint64_t from, to; /* link-time */
	bool behind_fault;
};

/* The next one from *i on that leads away from [address, address + size); NULL: there is none. */
const struct text_lead *reserved_text_next_lead(const struct reserved_text *text, size_t *i,
						uint64_t address, uint64_t size);

/* Whether one leads into [address, address + size). */
bool reserved_text_is_target(const struct reserved_text *text, uint64_t address, uint64_t size);

#endif
