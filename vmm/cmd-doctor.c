/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <getopt.h>
#include <jansson.h>
#include <stdio.h>
#include "formats/cli/cli.h"
#include "formats/cli/options.h"
#include "vmm/cmd.h"
#include "vmm/kvm/kvm.h"
#include "vmm/kvm/speed.h"
#include "vmm/libvirt/connection/lib.h"

static const char verb[] = "doctor";

struct options {
	bool json;
};

static const struct cli_option option_table[] = {
	{.name = "json",
	 .help = "print JSON",
	 .store = cli_store_flag,
	 .offset = offsetof(struct options, json)},
	{0},
};

static const struct cli_table tables[] = {{option_table, 0}, {NULL, 0}};

static const struct cli_verb syntax = {
	.name = verb,
	.usage = "usage: sonde doctor [--json]\n"
		 "Say whether this machine can run guests, and what to do if not.\n"
		 "Only 'sonde run' needs KVM.\n",
	.tables = tables,
	.notes = "Exit status: 0 it can, 1 it cannot, 2 usage.\n",
};

/* Each step about KVM is only tried when the one before has succeeded. */
struct findings {
	bool opened, has_capabilities, measured, fast;
	uint64_t per_second;
	struct error problem; /* the first one; its text says what to do */
	struct kvm kvm;
	bool has_libvirt;
	struct error no_libvirt;
};

static void examine_libvirt(struct findings *f)
{
	const struct libvirt_api *api;

	f->has_libvirt = libvirt_lib_load(&api, &f->no_libvirt) == 0;
}

static void examine_kvm(struct findings *f)
{
	f->opened = kvm_open(&f->kvm, &f->problem) == 0;
	if (!f->opened)
		return;
	f->has_capabilities = kvm_check_capabilities(&f->kvm, &f->problem) == 0;
	if (!f->has_capabilities)
		return;
	f->measured = kvm_measure_speed(&f->kvm, UINT64_MAX, &f->per_second, &f->problem) == 0;
	f->fast = f->measured && kvm_check_speed(f->per_second, &f->problem) == 0;
}

static json_t *capabilities_json(const struct findings *f)
{
	json_t *list = json_object();
	size_t n;
	const struct kvm_capability *capabilities = kvm_capabilities(&n);

	for (size_t i = 0; i < n; i++)
		json_object_set_new(list, capabilities[i].name,
				    json_boolean(kvm_has(&f->kvm, &capabilities[i])));
	return list;
}

static void print_json(const struct findings *f)
{
	json_t *root = json_object();

	json_object_set_new(root, "version", json_integer(1));
	json_object_set_new(root, "usable", json_boolean(f->fast));
	json_object_set_new(root, "kvm", json_boolean(f->opened));
	json_object_set_new(root, "instructions_per_second",
			    f->measured ? json_integer((json_int_t)f->per_second) : json_null());
	json_object_set_new(root, "capabilities", f->opened ? capabilities_json(f) : json_object());
	json_object_set_new(root, "problem", f->fast ? json_null() : json_string(f->problem.text));
	json_object_set_new(root, "libvirt", json_boolean(f->has_libvirt));
	json_dumpf(root, stdout, JSON_INDENT(2));
	putchar('\n');
	json_decref(root);
}

static void print_capabilities(const struct findings *f)
{
	size_t n;
	const struct kvm_capability *capabilities = kvm_capabilities(&n);

	for (size_t i = 0; i < n; i++) {
		const struct kvm_capability *c = &capabilities[i];
		const char *state = kvm_has(&f->kvm, c) ? "yes" : "no";

		if (kvm_has(&f->kvm, c))
			printf("  %-22s %-4s %s\n", c->name, state, c->use);
		else
			printf("  %-22s %-4s %s (Linux %s%s)\n", c->name, state, c->use, c->since,
			       c->required ? ", required" : "");
	}
}

static void print_without_kvm(const struct findings *f)
{
	puts("Only 'sonde run' needs KVM. 'sonde report', 'check', 'convert' and 'symbols' work "
	     "anywhere.");
	if (f->has_libvirt)
		puts("'sonde attach' and 'recover' work on the domains of libvirt, emulated ones "
		     "too.");
	else
		puts("'sonde attach' and 'recover' would work with libvirt, and need no KVM "
		     "either.");
}

static void print_text(const struct findings *f)
{
	printf("/dev/kvm:      %s\n", f->opened ? "yes" : "no");
	if (f->measured)
		printf("guest speed:   %.1f million instructions per second%s\n",
		       (double)f->per_second / 1e6, f->fast ? "" : " (hardware: over 100)");
	if (f->opened) {
		puts("capabilities:");
		print_capabilities(f);
	}
	if (f->has_libvirt)
		puts("libvirt:       yes");
	else
		printf("libvirt:       no: %s\n", f->no_libvirt.text);
	if (f->fast)
		puts("This machine can run guests.");
	else
		printf("This machine cannot run guests: %s\n", f->problem.text);
	print_without_kvm(f);
}

int cmd_doctor(int argc, char **argv)
{
	struct findings findings = {.kvm = {.fd = -1, .vm_fd = -1}};
	struct options options = {0};
	int ret = cli_parse(&syntax, argc, argv, &options);

	if (ret)
		return ret - 1;
	if (optind < argc)
		return cli_usage(verb, "unexpected argument '%s'", argv[optind]);
	examine_kvm(&findings);
	examine_libvirt(&findings);
	if (options.json)
		print_json(&findings);
	else
		print_text(&findings);
	kvm_close(&findings.kvm);
	return findings.fast ? CLI_OK : CLI_FAILED;
}
