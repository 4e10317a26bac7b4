/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "vmm/libvirt/attach/options.h"

#include <string.h>
#include "formats/cli/cli.h"
#include "tests/lib/capture.h"
#include "tests/lib/tap.h"

static struct attach_options options;
static struct capture capture;

static int parse(const char *text)
{
	static struct capture_words line; /* options has strings of it */
	int ret;

	capture_split(&line, "attach", text);
	capture_begin(&capture, "");
	ret = attach_options_parse(line.argc, line.argv, &options);
	capture_end(&capture);
	return ret;
}

static void test_good(void)
{
	is_u64((uint64_t)parse("web1 -o out"), 0,
	       "a domain and a directory are all that is needed");
	is_str(options.domain, "web1", "the domain arrives");
	ok(!options.uri && !options.kernel && !options.dry_run, "the rest is off by default");
	ok(options.recorder.nr_specs == 1 && !strcmp(options.recorder.specs[0], "kmem"),
	   "kmem is traced by default");
	is_u64(options.recorder.max_rate, 20, "breakpoints are limited by default");
	is_u64((uint64_t)parse("-c qemu:///session web1 --dry-run"), 0,
	       "a dry run needs no directory");
	is_str(options.uri, "qemu:///session", "the connection arrives");
	parse("web1 -o out --trace kmem:pages --max-rate 0 --subbufs 2 --duration 2s -k vmlinux");
	ok(options.recorder.nr_specs == 1 && !strcmp(options.recorder.specs[0], "kmem:pages"),
	   "--trace replaces the default");
	ok(options.recorder.max_rate == 0 && options.recorder.subbufs == 2 &&
		   options.recorder.duration_ms == 2000,
	   "the options that run has are accepted");
}

/* One line, exit status 2, and the message names the matter. */
static void refuses(const char *text, const char *mention)
{
	const char *newline;
	int ret = parse(text);

	newline = strchr(capture.err, '\n');
	/* Below the line a caret may show where. */
	ok(ret == 1 + CLI_USAGE && newline && (!newline[1] || strchr(newline, '^')) &&
		   strstr(capture.err, mention),
	   "'sonde attach %s' is refused with '%s'", text, mention);
}

static void test_refusals(void)
{
	refuses("", "see 'virsh list'");
	refuses("-c qemu:///session", "see 'virsh -c qemu:///session list'");
	refuses("web1", "add -o DIR");
	refuses("web1 -o -", "a trace is a directory");
	refuses("web1 web2 -o out", "unexpected argument 'web2'");
	refuses("web1 -o out --trace bogus", "unknown tracer 'bogus'; known: kmem");
	refuses("web1 -o out --trace kmem:cach", "did you mean 'cache'?");
	refuses("web1 -o out --duration 0", "--duration takes a time from 1ms");
	refuses("web1 -o out --until-events 0", "--until-events takes a number from 1");
	refuses("web1 -o out --max-rate x", "--max-rate takes a number from 0");
}

int main(void)
{
	test_good();
	test_refusals();
	return tap_done();
}
