/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the user is told when the kernel of a domain is not found. */
#include <errno.h>
#include "tests/lib/tap.h"
#include "vmm/libvirt/backend/kernel.h"

int main(void)
{
	static const struct {
		struct error why;
		const char *text;
	} rows[] = {
		{{.code = EAGAIN, .text = "the kernel is still booting"},
		 "no kernel found in domain d: the kernel is still booting; try again when it has "
		 "booted"},
		{{.code = ENOENT, .text = "no vCPU is in a Linux kernel"},
		 "no kernel found in domain d: no vCPU is in a Linux kernel; if Linux has booted "
		 "there, give its image with -k"},
		{{.code = ENOTSUP, .text = "the kernel image has no BTF: give it with --btf FILE"},
		 "domain d: the kernel image has no BTF: give it with --btf FILE"},
		{{.code = ESTALE, .text = "FILE: not the types of this kernel"},
		 "domain d: FILE: not the types of this kernel"},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct error err;

		ok(attach_kernel_refuse("d", &rows[i].why, &err) == -rows[i].why.code,
		   "the error keeps its code");
		is_str(err.text, rows[i].text, "it says what is wrong, and no more");
	}
	return tap_done();
}
