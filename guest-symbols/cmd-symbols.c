/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "guest-symbols/cmd.h"

#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>
#include "formats/cli/cli.h"
#include "formats/report/trace-text.h"
#include "guest-symbols/print/print.h"

static const char verb[] = "symbols";

static const char help[] =
	"usage: sonde symbols -k KERNEL [--system-map FILE] [--json] [NAME...]\n"
	"\n"
	"Show what a kernel image tells about itself, or look up symbol NAMEs in it.\n"
	"\n"
	"  -k, --kernel FILE      a bzImage or an ELF vmlinux\n"
	"  -S, --system-map FILE  take symbols from a System.map, not from the kernel\n"
	"  -j, --json             print JSON\n"
	"  -h, --help             print this\n";

enum { MAX_SYSTEM_MAP = 64 << 20 };

struct options {
	const char *kernel, *system_map;
	bool json;
};

static const struct option long_options[] = {
	{"kernel", required_argument, NULL, 'k'},
	{"system-map", required_argument, NULL, 'S'},
	{"json", no_argument, NULL, 'j'},
	{"help", no_argument, NULL, 'h'},
	{NULL, 0, NULL, 0},
};

static int apply_option(void *arg, int option, const char *value)
{
	struct options *options = arg;

	if (option == 'k')
		options->kernel = value;
	else if (option == 'S')
		options->system_map = value;
	else
		options->json = true;
	return CLI_OK;
}

static const struct cli_syntax syntax = {verb, help, ":k:S:jh", long_options, apply_option};

static int read_map(FILE *in, struct symbol_table **out, struct error *err)
{
	char *text = malloc(MAX_SYSTEM_MAP);
	size_t size;
	int ret;

	if (!text)
		return error_set(err, ENOMEM, "out of memory");
	size = fread(text, 1, MAX_SYSTEM_MAP, in);
	if (ferror(in))
		ret = error_set(err, errno, "cannot read: %s", strerror(errno));
	else if (size == MAX_SYSTEM_MAP)
		ret = error_set(err, E2BIG, "too large for a System.map");
	else
		ret = symbols_from_system_map(text, size, out, err);
	free(text);
	return ret;
}

static int load_map(const char *path, struct symbol_table **out, struct error *err)
{
	FILE *in = fopen(path, "re");
	int ret;

	if (!in) {
		ret = error_set(err, errno, "cannot open: %s", strerror(errno));
	} else {
		ret = read_map(in, out, err);
		fclose(in);
	}
	if (ret)
		error_prefix(err, "%s: ", path);
	return ret;
}

static int load(const struct options *options, struct kernel_file **file,
		struct kernel_image **image, struct error *err)
{
	struct symbol_table *symbols = NULL;
	int ret = kernel_file_open(options->kernel, file, err);

	if (!ret && options->system_map)
		ret = load_map(options->system_map, &symbols, err);
	return ret ? ret : kernel_image_load_with(*file, symbols, image, err);
}

static int show(const struct options *options, char *const *names)
{
	struct kernel_file *file = NULL;
	struct kernel_image *image = NULL;
	struct error err;
	int ret = load(options, &file, &image, &err);

	if (ret)
		ret = cli_error(verb, &err);
	else if (options->json)
		ret = symbols_print_json(file, image, names);
	else
		ret = symbols_print_text(file, image, names);
	kernel_image_destroy(image);
	kernel_file_close(file);
	return ret;
}

int cmd_symbols(int argc, char **argv)
{
	struct options options = {0};
	int ret = cli_parse_options(&syntax, argc, argv, &options);

	if (ret)
		return ret - 1;
	if (!options.kernel)
		return cli_usage(verb, "which kernel? -k KERNEL; see 'sonde symbols --help'");
	return show(&options, argv + optind);
}
