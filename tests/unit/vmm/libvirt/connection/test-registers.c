/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <string.h>
#include "tests/lib/tap.h"
#include "vmm/libvirt/connection/reply.h"

/* As QEMU 7.2 writes them, shortened. */
static const char good[] = "\r\nCPU#0\r\nRAX=0 RBX=ffffffff9f638070\r\n"
			   "RIP=1 RFL=00000246 [---Z-P-] CPL=0 II=0 A20=1 SMM=0 HLT=1\r\n"
			   "IDT=     fffffe0000000000 00000fff\r\n"
			   "CR0=80050033 CR2=00007f CR3=0000000011c12000 CR4=000006f0\r\n"
			   "DR0=0000000000000000\r\nEFER=0000000000000d01\r\n"
			   "CPU#1\r\nRIP=1 RFL=2 [-] CPL=3 II=0 A20=1 SMM=0 HLT=0\r\n"
			   "CR0=60000010 CR2=0 CR3=0 CR4=0\r\nEFER=0\r\n";

int main(void)
{
	struct guest_sregs vcpus[3];
	size_t broken = 0, second = (size_t)(strstr(good, "CPU#1") - good) + 4;

	ok(!libvirt_reply_registers(good, strlen(good), vcpus, 2, NULL),
	   "info registers: two vCPUs are read");
	is_u64(vcpus[0].cr0, 0x80050033, "vCPU 0: CR0");
	is_u64(vcpus[0].cr3, 0x11c12000, "vCPU 0: CR3");
	is_u64(vcpus[0].cr4, 0x6f0, "vCPU 0: CR4");
	is_u64(vcpus[0].efer, 0xd01, "vCPU 0: EFER");
	is_u64(vcpus[0].cpl, 0, "vCPU 0: CPL is 0 in the kernel");
	is_u64(vcpus[1].cr0, 0x60000010, "vCPU 1: CR0");
	is_u64(vcpus[1].cpl, 3, "vCPU 1: CPL is 3 in user mode");
	ok(vcpus[0].halted && !vcpus[1].halted, "only vCPU 0 is halted");
	ok(!libvirt_reply_registers(good, strlen(good), vcpus, 3, NULL) &&
		   libvirt_vcpu_exists(&vcpus[1]) && !libvirt_vcpu_exists(&vcpus[2]),
	   "a vCPU that is not listed does not exist");
	for (size_t size = 0; size < strlen(good) - 3; size++) {
		bool failed = libvirt_reply_registers(good, size, vcpus, 2, NULL) == -EPROTO;

		broken += failed || (size <= second && !libvirt_vcpu_exists(&vcpus[1]));
	}
	is_u64(broken, strlen(good) - 3,
	       "a text that is cut off anywhere is refused, or lacks vCPU 1");
	ok(!libvirt_reply_registers(good + second - 4, strlen(good) - second + 4, vcpus, 3, NULL) &&
		   !libvirt_vcpu_exists(&vcpus[0]) && libvirt_vcpu_exists(&vcpus[1]),
	   "an empty slot below a vCPU does not exist");
	ok(libvirt_reply_registers(good, second, vcpus, 0, NULL) == -EPROTO,
	   "a text without any of the vCPUs asked for is refused");
	return tap_done();
}
