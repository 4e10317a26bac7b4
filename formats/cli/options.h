/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_FORMATS_CLI_OPTIONS_H
#define SONDE_FORMATS_CLI_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "formats/base/error.h"

/*
 * The options of a verb as tables: one row holds an option's name, its help text, and how its value
 * is parsed and where it is stored. getopt_long(3)'s arrays and the text of --help follow from the
 * rows. To add an option, add a row; several verbs can share a table.
 */
struct cli_option;

/* Parse `text` (NULL if the option takes no value) into `field`. 0, or CLI_USAGE with one line
 * printed that says why not. */
typedef int cli_store_fn(const char *verb, const struct cli_option *option, const char *text,
			 void *field);

struct cli_option {
	const char *name;  /* the long form without "--"; NULL ends a table */
	char letter;       /* the short form; 0: none */
	const char *value; /* what --help calls the value; NULL: the option takes none */
	const char *help;  /* '\n' begins another line */
	cli_store_fn *store;
	size_t offset;            /* of the field in the struct of the table */
	const char *const *words; /* of cli_store_choice(), NULL-terminated */
	uint64_t min, max;        /* of numbers, sizes (bytes) and times (ms); max 0: no bound */
	uint64_t unit;            /* of a size without a unit, bytes */
};

/* The row of --json, for `bool json` of a struct. */
/* clang-format off */
#define CLI_JSON_OPTION(type, help_)                                      \
	{.name = "json", .letter = 'j', .help = help_, .store = cli_store_flag, \
	 .offset = offsetof(type, json)}
/* clang-format on */

/* The row of -k, for `const char *kernel` of a struct. */
/* clang-format off */
#define CLI_KERNEL_OPTION(type)                                                      \
	{.name = "kernel", .letter = 'k', .value = "KERNEL",                         \
	 .help = "name functions after this kernel, for a trace that lacks names",  \
	 .store = cli_store_text, .offset = offsetof(type, kernel)}
/* clang-format on */

/* The rows of --system-map and --btf, for `const char *system_map, *btf` of a struct. */
/* clang-format off */
#define CLI_GIVEN_OPTIONS(type)                                                          \
	{.name = "system-map", .letter = 'S', .value = "FILE",                           \
	 .help = "take symbols from a System.map, not from the kernel",                  \
	 .store = cli_store_text, .offset = offsetof(type, system_map)},                 \
	{.name = "btf", .value = "FILE",                                                 \
	 .help = "take types from FILE, BTF or an ELF with BTF, not from the\n"         \
		 "kernel; pahole(1) makes it from debug information",                    \
	 .store = cli_store_text, .offset = offsetof(type, btf)}
/* clang-format on */

/* The rows of --lines and --debug-file, for a bool and a const char * of a struct. */
/* clang-format off */
#define CLI_LINES_OPTIONS(type, lines_, debug_file_)                                     \
	{.name = "lines",                                                                \
	 .help = "show file and line of call sites, with inlined functions, if the\n"    \
		 "kernel's debug information is installed, or on a server of\n"          \
		 "DEBUGINFOD_URLS",                                                      \
	 .store = cli_store_flag, .offset = offsetof(type, lines_)},                     \
	{.name = "debug-file", .value = "FILE",                                          \
	 .help = "the same with the debug information in FILE, the kernel's vmlinux",    \
	 .store = cli_store_text, .offset = offsetof(type, debug_file_)}
/* clang-format on */

/* The row of --since, for a bool of a struct. */
/* clang-format off */
#define CLI_SINCE_OPTION(type, since_init_)                              \
	{.name = "since", .value = "init",                               \
	 .help = "what happened since the guest began to run its init",  \
	 .store = cli_store_since, .offset = offsetof(type, since_init_)}
/* clang-format on */

/* The row of -C, for `struct cli_vcpus vcpus` of a struct. */
/* clang-format off */
#define CLI_VCPU_OPTION(type, help_)                                             \
	{.name = "vcpu", .letter = 'C', .value = "LIST", .help = help_,          \
	 .store = cli_store_vcpus, .offset = offsetof(type, vcpus)}
/* clang-format on */

enum { CLI_MAX_VCPUS = 4096 };

/* The longest time that there is a use for: 10,000 hours. */
#define CLI_LONGEST_MS (UINT64_C(10000) * 3600 * 1000)

/* vCPUs by number. */
struct cli_vcpus {
	bool some; /* not all */
	bool listed[CLI_MAX_VCPUS];
};

static inline bool cli_vcpus_have(const struct cli_vcpus *vcpus, unsigned int vcpu)
{
	return !vcpus->some || (vcpu < CLI_MAX_VCPUS && vcpus->listed[vcpu]);
}

/* 0; -EINVAL and a text if none of these vCPUs is below `end`, one more than the greatest that
 * there is. If that is 0, nothing is known of them, and all are taken. */
int cli_vcpus_check(const struct cli_vcpus *vcpus, unsigned int end, struct error *err);

enum { CLI_LIST_MAX = 64 };

/* The values of an option that may be repeated, argv's, in their order. */
struct cli_list {
	const char *words[CLI_LIST_MAX];
	size_t n;
};

/* From from_ns to before to_ns of the trace clock. */
struct cli_time_range {
	int64_t from_ns, to_ns;
};
#define CLI_ALL_TIME ((struct cli_time_range){INT64_MIN, INT64_MAX})

static inline bool cli_time_is_all(const struct cli_time_range *time)
{
	return time->from_ns == INT64_MIN && time->to_ns == INT64_MAX;
}

/* A table of options whose fields are in a struct at `offset` of the verb's own. */
struct cli_table {
	const struct cli_option *options; /* NULL ends an array of tables */
	size_t offset;
};

struct cli_verb {
	const char *name;
	const char *usage; /* what --help prints before the options */
	const struct cli_table *tables;
	const char *notes; /* and after them; or NULL */
};

/*
 * Parse a verb's command line into `target`, its own struct, which holds the defaults. 0 if the
 * verb is to go on, with its operands from argv[optind] on. Else its exit status plus one: --help
 * was printed, or one line says what is wrong.
 */
int cli_parse(const struct cli_verb *verb, int argc, char **argv, void *target);

/* An option as messages name it, which is how the user has named it: "-m" or "--memory". */
struct cli_label {
	char text[64];
};
struct cli_label cli_label(const struct cli_option *option);

/* How values are stored: the field's type is on the right. */
/* For the value of an option that is a list: the index of the word that ends at `end`; -1 after
 * printing why there is none. */
int cli_find_word(const char *verb, const struct cli_option *option, const char *word,
		  const char *end, const char *const *words);

cli_store_fn cli_store_text;       /* const char *: argv's */
cli_store_fn cli_store_list;       /* struct cli_list: one more */
cli_store_fn cli_store_flag;       /* bool: true */
cli_store_fn cli_store_number;     /* uint64_t */
cli_store_fn cli_store_choice;     /* unsigned int: the index among `words` */
cli_store_fn cli_store_size;       /* uint64_t, bytes: "64", "256K", "1.5G", "4GiB" */
cli_store_fn cli_store_vcpus;      /* struct cli_vcpus: "0,2-3" */
cli_store_fn cli_store_time_range; /* struct cli_time_range: "5,10" */
cli_store_fn cli_store_since;      /* bool: true, of "init" */
cli_store_fn cli_store_time; /* uint64_t, milliseconds: "2", "0.5", "500ms", "2s", "1m", "1h" */

#endif
