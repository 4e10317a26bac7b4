/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "tests/lib/tap.h"
#include "vmm/libvirt/backend/memory.h"

static void test_mapping(void)
{
	struct libvirt_mapping m;

	ok(libvirt_parse_mapping("7fa70ffff000-7fa71ffff000 rw-s 00001000 00:01 499   /memfd:x "
				 "(deleted)\n",
				 &m),
	   "a line of /proc/PID/maps is taken");
	ok(m.start == 0x7fa70ffff000 && m.end == 0x7fa71ffff000 && m.shared && m.offset == 0x1000 &&
		   m.major == 0 && m.minor == 1 && m.inode == 499,
	   "a mapping has the line's range, offset, device and inode");
	ok(libvirt_parse_mapping("1000-2000 rw-p 00000000 00:00 0\n", &m) && !m.shared,
	   "a private mapping is not shared");
	ok(!libvirt_parse_mapping("2000-1000 rw-p 00000000 00:00 0\n", &m),
	   "a mapping that ends before it begins is refused");
	ok(!libvirt_parse_mapping("VmFlags: rd\n", &m), "a line that is not a mapping is refused");
}

int main(void)
{
	test_mapping();
	return tap_done();
}
