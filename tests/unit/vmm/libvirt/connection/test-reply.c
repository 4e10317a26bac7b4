/* SPDX-License-Identifier: GPL-2.0-or-later */
/* QEMU's replies about a libvirt domain. */
#include <errno.h>
#include <string.h>
#include "tests/lib/tap.h"
#include "vmm/libvirt/connection/reply.h"

/* As QEMU 7.2 prints it, shortened: 6 GiB. */
static const char mtree[] =
	"address-space: I/O\r\n"
	"  0000000000000000-000000000000ffff (prio 0, i/o): io\r\n"
	"\r\n"
	"address-space: memory\r\n"
	"  0000000000000000-ffffffffffffffff (prio 0, i/o): system\r\n"
	"    0000000000000000-00000000bfffffff (prio 0, ram): alias ram-below-4g @pc.ram "
	"0000000000000000-00000000bfffffff\r\n"
	"    00000000000c0000-00000000000c3fff (prio 1, ram): alias pam-rom @pc.ram "
	"00000000000c0000-00000000000c3fff\r\n"
	"    0000000100000000-00000001bfffffff (prio 0, ram): alias ram-above-4g @pc.ram "
	"00000000c0000000-000000017fffffff\r\n"
	"\r\n"
	"memory-region: system\r\n"
	"    0000000000000000-00000000bfffffff (prio 0, ram): alias ram-below-4g @pc.ram "
	"0000000000000000-00000000bfffffff\r\n";

static int parse_ram(const char *text, struct libvirt_ram *ram)
{
	return libvirt_reply_ram(text, strlen(text), ram, NULL);
}

static void test_ram(void)
{
	struct libvirt_ram ram[LIBVIRT_MAX_RAM];
	char cut[sizeof(mtree)];
	bool sane = true;

	is_u64((uint64_t)parse_ram(mtree, ram), 3, "info mtree: three ranges of RAM are found");
	ok(ram[0].gpa == 0 && ram[0].size == 0xa0000,
	   "the first range of RAM ends at video memory");
	ok(ram[1].gpa == 0x100000 && ram[1].size == 0xc0000000 - 0x100000,
	   "the second range of RAM begins at 1 MiB");
	ok(ram[2].gpa == 0x100000000 && ram[2].size == 0xc0000000,
	   "the third range of RAM begins at 4 GiB");
	for (size_t n = 0; n < sizeof(mtree); n++) {
		int ret;

		memcpy(cut, mtree, n);
		ret = libvirt_reply_ram(cut, n, ram, NULL);
		sane &= ret == -EPROTO || (ret > 0 && ret <= 3);
	}
	ok(sane, "an info mtree that is cut off anywhere has fewer ranges or is refused");
}

/* As QEMU 7.2 prints it: two adjacent DIMMs, a third behind a gap, and regions that are not RAM. */
static void test_plugged_ram(void)
{
	static const char dimms[] =
		"address-space: memory\r\n"
		"  0000000000000000-ffffffffffffffff (prio 0, i/o): system\r\n"
		"    0000000000000000-000000000fffffff (prio 0, i/o): alias ram-below-4g @pc.ram "
		"0000000000000000-000000000fffffff\r\n"
		"    0000000100000000-000000026fffffff (prio 0, i/o): device-memory\r\n"
		"      0000000100000000-0000000107ffffff (prio 0, ram): memdimm0\r\n"
		"      0000000108000000-000000010fffffff (prio 0, ram): memdimm1\r\n"
		"      0000000110000000-0000000110000fff (prio 0, i/o): nvdimm-acpi-io\r\n"
		"      0000000200000000-0000000207ffffff (prio 0, ram): memdimm2\r\n"
		"    0000000300000000-0000000300ffffff (prio 1, ram): vga.vram\r\n";
	struct libvirt_ram ram[LIBVIRT_MAX_RAM];

	is_u64((uint64_t)parse_ram(dimms, ram), 4, "DIMMs are RAM, too");
	ok(ram[2].gpa == 0x100000000 && ram[2].size == 0x10000000,
	   "two adjacent DIMMs are one range");
	ok(ram[3].gpa == 0x200000000 && ram[3].size == 0x8000000,
	   "a DIMM behind a gap is a range of its own");
}

/* As QEMU 7.2 prints them after one of two vCPUs was unplugged; query-cpus-fast lists one then. */
static void test_vcpu_memories(void)
{
	static const char text[] =
		"address-space: VGA\r\n"
		"  0000000000000000-ffffffffffffffff (prio 0, i/o): bus master container\r\n"
		"\r\n"
		"address-space: cpu-memory-0\r\n"
		"address-space: cpu-memory-1\r\n"
		"address-space: memory\r\n"
		"  0000000000000000-ffffffffffffffff (prio 0, i/o): system\r\n"
		"\r\n"
		"address-space: cpu-smm-0\r\n"
		"address-space: cpu-smm-1\r\n";

	is_u64(libvirt_reply_vcpu_memories(text, sizeof(text) - 1), 2,
	       "two vCPU address spaces are counted");
	is_u64(libvirt_reply_vcpu_memories(text, 0), 0, "an empty text has no vCPU address space");
}

static void test_bad_ram(void)
{
	struct libvirt_ram ram[LIBVIRT_MAX_RAM];
	static const struct {
		const char *what, *text;
	} bad[] = {
		{"empty", ""},
		{"without RAM", "address-space: memory\n"},
		{"of another address space", "address-space: other\n 0-ffff (prio 0, ram): alias "
					     "ram-below-4g @pc.ram 0-ffff\n"},
		{"with a range that is not aligned", "address-space: memory\n 0-fffe (prio 0, "
						     "ram): alias ram-below-4g @pc.ram 0-fffe\n"},
		{"with a range that ends before it begins",
		 "address-space: memory\n f000-1fff (prio 0, ram): alias ram-below-4g @x 0-1\n"},
		{"with a range beyond 52 bits",
		 "address-space: memory\n 200000-fffffffffffff000 (prio 0, ram): alias "
		 "ram-above-4g @x 0-1\n"},
		{"with overlapping ranges",
		 "address-space: memory\n 200000-2fffff (prio 0, ram): alias ram-below-4g @x\n"
		 " 200000-2fffff (prio 0, ram): alias ram-above-4g @x\n"},
	};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		ok(parse_ram(bad[i].text, ram) == -EPROTO, "an info mtree %s is refused",
		   bad[i].what);
}

static void test_hva(void)
{
	static const char good[] =
		"Host virtual address for 0x100000 (pc.ram) is 0x7fa7100ff000\r\n";
	static const char bad[] = "No memory is mapped at address 0xffff0000000\r\n";
	uint64_t hva = 0;

	ok(!libvirt_reply_hva(good, strlen(good), &hva, NULL), "gpa2hva: a good reply is taken");
	is_u64(hva, 0x7fa7100ff000, "gpa2hva: the address is read");
	ok(libvirt_reply_hva(bad, strlen(bad), &hva, NULL) == -EPROTO,
	   "gpa2hva: 'no memory' is refused");
	ok(libvirt_reply_hva(good, strlen(good) - 17, &hva, NULL) == -EPROTO,
	   "gpa2hva: a reply that is cut off is refused");
}

static size_t slots(const char *text)
{
	json_t *reply = json_loads(text, 0, NULL);
	size_t n = libvirt_reply_vcpu_slots(reply);

	json_decref(reply);
	return n;
}

/* As QEMU 7.2 reports a gdbstub's devices. */
static void test_connected(void)
{
	static const char text[] =
		"[{\"frontend-open\":true,\"filename\":\"unix:\",\"label\":\"sonde-gdb\"},"
		"{\"frontend-open\":true,\"filename\":\"gdb\",\"label\":\"#chr094\"},{\"label\":1},"
		"{\"filename\":\"disconnected:tcp:127.0.0.1:4321,server=on\",\"label\":\"gdb\"}]";
	json_t *reply = json_loads(text, 0, NULL);

	ok(libvirt_reply_chardev(reply, "sonde-gdb") == LIBVIRT_CHARDEV_CONNECTED,
	   "query-chardev: a device with a peer is connected");
	ok(libvirt_reply_chardev(reply, "gdb") == LIBVIRT_CHARDEV_LISTENS,
	   "query-chardev: a device without a peer listens");
	ok(libvirt_reply_chardev(reply, "none") == LIBVIRT_CHARDEV_NONE,
	   "query-chardev: an unknown device does not exist");
	ok(libvirt_reply_chardev(NULL, "gdb") == LIBVIRT_CHARDEV_NONE,
	   "query-chardev: without a reply no device exists");
	ok(libvirt_reply_has_frontend(reply, "sonde-gdb") &&
		   !libvirt_reply_has_frontend(reply, "gdb") &&
		   !libvirt_reply_has_frontend(NULL, "gdb"),
	   "query-chardev: a device is in use if its frontend is open");
	json_decref(reply);
}

static void test_vcpus(void)
{
	json_t *reply = json_loads("[{\"cpu-index\":0,\"target\":\"i386\"}]", 0, NULL);

	ok(!strcmp(libvirt_reply_target(reply), "i386"),
	   "query-cpus-fast: the vCPUs' architecture is read");
	json_decref(reply);
	ok(!*libvirt_reply_target(NULL),
	   "query-cpus-fast: without a reply the architecture is unknown");
	is_u64(slots("[{\"vcpus-count\":1},{\"vcpus-count\":1,\"qom-path\":\"x\"}]"), 2,
	       "query-hotpluggable-cpus: two entries of one vCPU are two slots");
	is_u64(slots("[{\"vcpus-count\":4}]"), 4,
	       "query-hotpluggable-cpus: an entry of four vCPUs is four slots");
	is_u64(slots("[{\"vcpus-count\":1},{}]"), 0,
	       "query-hotpluggable-cpus: an entry without a count is refused");
	is_u64(slots("[{\"vcpus-count\":-1}]"), 0,
	       "query-hotpluggable-cpus: a negative count is refused");
	is_u64(slots("{}"), 0, "query-hotpluggable-cpus: a reply that is not a list is refused");
}

static void test_qmp(void)
{
	static const char good[] = "{\"return\": {\"status\": \"running\"}, \"id\": \"x\"}";
	static const char bad[] =
		"{\"error\": {\"class\": \"GenericError\", \"desc\": \"no \\u001b\"}}";
	json_t *result = NULL;
	struct error err;

	ok(!libvirt_reply_parse(good, strlen(good), &result, &err), "a QMP result is taken");
	is_str(json_string_value(json_object_get(result, "status")), "running",
	       "a QMP result has the value of 'return'");
	json_decref(result);
	ok(libvirt_reply_parse(bad, strlen(bad), &result, &err) == -EREMOTEIO,
	   "a QMP error is returned");
	is_str(err.text, "QEMU says: no ?", "a QMP error's text loses its control characters");
	ok(libvirt_reply_parse("[1]", 3, &result, &err) == -EPROTO,
	   "a QMP reply that is neither result nor error is refused");
	ok(libvirt_reply_parse("{\"return\"", 9, &result, &err) == -EPROTO,
	   "a QMP reply that is not JSON is refused");
}

static int bar_of(const char *devices, struct libvirt_ram *out)
{
	json_t *reply = json_loads(devices, 0, NULL);
	int ret = libvirt_reply_bar(reply, "ours", 2, out, NULL);

	json_decref(reply);
	return ret;
}

static void test_bar(void)
{
	struct libvirt_ram bar = {0};

	is_u64((uint64_t)bar_of(
		       "[{\"devices\":[{\"qdev_id\":\"\"},{\"qdev_id\":\"port\",\"pci_bridge\":"
		       "{\"devices\":[{\"qdev_id\":\"ours\",\"regions\":[{\"bar\":0,\"address\":"
		       "4096,"
		       "\"size\":256},{\"bar\":2,\"address\":4271898624,\"size\":2097152}]}]}}]}]",
		       &bar),
	       0, "query-pci: a BAR behind a bridge is found");
	ok(bar.gpa == 0xfea00000 && bar.size == 2 << 20,
	   "query-pci: its address and size are read");
	ok(bar_of("[{\"devices\":[{\"qdev_id\":\"ours\",\"regions\":[{\"bar\":2,\"address\":-1,"
		  "\"size\":4096}]}]}]",
		  &bar) == -EAGAIN,
	   "query-pci: a BAR that the guest has not mapped is -EAGAIN");
	ok(bar_of("[{\"devices\":[{\"qdev_id\":\"ours\",\"regions\":[{\"bar\":2,\"address\":4097,"
		  "\"size\":4096}]}]}]",
		  &bar) == -EPROTO,
	   "query-pci: a misaligned BAR is refused");
	ok(bar_of("[{\"devices\":[{\"qdev_id\":\"other\"}]},7,{\"devices\":{}}]", &bar) == -ENOENT,
	   "query-pci: an unknown device is -ENOENT");
	ok(bar_of("{}", &bar) == -ENOENT, "query-pci: a reply that is not a list is -ENOENT");
}

int main(void)
{
	test_ram();
	test_plugged_ram();
	test_vcpu_memories();
	test_bad_ram();
	test_hva();
	test_connected();
	test_vcpus();
	test_qmp();
	test_bar();
	return tap_done();
}
