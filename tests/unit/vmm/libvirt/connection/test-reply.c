/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What QEMU and /proc say about a libvirt domain. */
#include <errno.h>
#include <string.h>
#include "tests/lib/tap.h"
#include "vmm/libvirt/backend/memory.h"
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

	is_u64((uint64_t)parse_ram(mtree, ram), 3, "three ranges of RAM");
	ok(ram[0].gpa == 0 && ram[0].size == 0xa0000, "up to video memory");
	ok(ram[1].gpa == 0x100000 && ram[1].size == 0xc0000000 - 0x100000, "from 1 MiB on");
	ok(ram[2].gpa == 0x100000000 && ram[2].size == 0xc0000000, "above 4 GiB");
	for (size_t n = 0; n < sizeof(mtree); n++) {
		int ret;

		memcpy(cut, mtree, n);
		ret = libvirt_reply_ram(cut, n, ram, NULL);
		sane &= ret == -EPROTO || (ret > 0 && ret <= 3);
	}
	ok(sane, "cut off anywhere: fewer ranges or an error");
}

/* As QEMU 7.2 prints it: two DIMMs, one more with a gap before it, and what is no memory. */
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

	is_u64((uint64_t)parse_ram(dimms, ram), 4, "DIMMs are RAM too");
	ok(ram[2].gpa == 0x100000000 && ram[2].size == 0x10000000, "two that meet are one range");
	ok(ram[3].gpa == 0x200000000 && ram[3].size == 0x8000000, "one behind a gap");
}

/* As QEMU 7.2 prints them after the second of two vCPUs has been unplugged, with query-cpus-fast
 * telling one. */
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

	is_u64(libvirt_reply_vcpu_memories(text, sizeof(text) - 1), 2, "memories of two vCPUs");
	is_u64(libvirt_reply_vcpu_memories(text, 0), 0, "of none");
}

static void test_absurd_ram(void)
{
	struct libvirt_ram ram[LIBVIRT_MAX_RAM];
	static const char *const bad[] = {
		"",
		"address-space: memory\n",
		"address-space: other\n 0-ffff (prio 0, ram): alias ram-below-4g @pc.ram 0-ffff\n",
		"address-space: memory\n 0-fffe (prio 0, ram): alias ram-below-4g @pc.ram 0-fffe\n",
		"address-space: memory\n f000-1fff (prio 0, ram): alias ram-below-4g @x 0-1\n",
		"address-space: memory\n 200000-fffffffffffff000 (prio 0, ram): alias "
		"ram-above-4g @x 0-1\n",
		"address-space: memory\n 200000-2fffff (prio 0, ram): alias ram-below-4g @x\n"
		" 200000-2fffff (prio 0, ram): alias ram-above-4g @x\n",
	};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		is_u64((uint64_t)-parse_ram(bad[i], ram), EPROTO, "absurd RAM");
}

static void test_hva(void)
{
	static const char good[] =
		"Host virtual address for 0x100000 (pc.ram) is 0x7fa7100ff000\r\n";
	static const char bad[] = "No memory is mapped at address 0xffff0000000\r\n";
	uint64_t hva = 0;

	ok(!libvirt_reply_hva(good, strlen(good), &hva, NULL), "gpa2hva");
	is_u64(hva, 0x7fa7100ff000, "gpa2hva: the address");
	ok(libvirt_reply_hva(bad, strlen(bad), &hva, NULL) == -EPROTO, "gpa2hva: no memory");
	ok(libvirt_reply_hva(good, strlen(good) - 17, &hva, NULL) == -EPROTO, "gpa2hva: cut off");
}

static size_t slots(const char *text)
{
	json_t *reply = json_loads(text, 0, NULL);
	size_t n = libvirt_reply_vcpu_slots(reply);

	json_decref(reply);
	return n;
}

/* As QEMU 7.2 tells of its gdbstub's. */
static void test_connected(void)
{
	static const char text[] =
		"[{\"frontend-open\":true,\"filename\":\"unix:\",\"label\":\"sonde-gdb\"},"
		"{\"frontend-open\":true,\"filename\":\"gdb\",\"label\":\"#chr094\"},{\"label\":1},"
		"{\"filename\":\"disconnected:tcp:127.0.0.1:4321,server=on\",\"label\":\"gdb\"}]";
	json_t *reply = json_loads(text, 0, NULL);

	ok(libvirt_reply_connected(reply, "sonde-gdb"), "somebody is connected");
	ok(!libvirt_reply_connected(reply, "gdb"), "it listens, and nobody is there");
	ok(!libvirt_reply_connected(reply, "none"), "there is no such device");
	ok(!libvirt_reply_connected(NULL, "gdb"), "nor any");
	json_decref(reply);
}

static void test_vcpus(void)
{
	json_t *reply = json_loads("[{\"cpu-index\":0,\"target\":\"i386\"}]", 0, NULL);

	ok(!strcmp(libvirt_reply_target(reply), "i386"), "the vCPUs' architecture");
	json_decref(reply);
	ok(!*libvirt_reply_target(NULL), "none is told");
	is_u64(slots("[{\"vcpus-count\":1},{\"vcpus-count\":1,\"qom-path\":\"x\"}]"), 2,
	       "two slots");
	is_u64(slots("[{\"vcpus-count\":4}]"), 4, "four in one");
	is_u64(slots("[{\"vcpus-count\":1},{}]"), 0, "one does not tell");
	is_u64(slots("[{\"vcpus-count\":-1}]"), 0, "a negative number");
	is_u64(slots("{}"), 0, "no list");
}

static void test_qmp(void)
{
	static const char good[] = "{\"return\": {\"status\": \"running\"}, \"id\": \"x\"}";
	static const char bad[] =
		"{\"error\": {\"class\": \"GenericError\", \"desc\": \"no \\u001b\"}}";
	json_t *result = NULL;
	struct error err;

	ok(!libvirt_reply_parse(good, strlen(good), &result, &err), "a result");
	is_str(json_string_value(json_object_get(result, "status")), "running", "its value");
	json_decref(result);
	ok(libvirt_reply_parse(bad, strlen(bad), &result, &err) == -EREMOTEIO, "an error");
	is_str(err.text, "QEMU says: no ?", "its text, without control characters");
	ok(libvirt_reply_parse("[1]", 3, &result, &err) == -EPROTO, "neither");
	ok(libvirt_reply_parse("{\"return\"", 9, &result, &err) == -EPROTO, "no JSON");
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
	       0, "a BAR behind a bridge");
	ok(bar.gpa == 0xfea00000 && bar.size == 2 << 20, "where it is");
	ok(bar_of("[{\"devices\":[{\"qdev_id\":\"ours\",\"regions\":[{\"bar\":2,\"address\":-1,"
		  "\"size\":4096}]}]}]",
		  &bar) == -EAGAIN,
	   "not mapped yet");
	ok(bar_of("[{\"devices\":[{\"qdev_id\":\"ours\",\"regions\":[{\"bar\":2,\"address\":4097,"
		  "\"size\":4096}]}]}]",
		  &bar) == -EPROTO,
	   "misaligned");
	ok(bar_of("[{\"devices\":[{\"qdev_id\":\"other\"}]},7,{\"devices\":{}}]", &bar) == -ENOENT,
	   "no such device");
	ok(bar_of("{}", &bar) == -ENOENT, "no list of buses");
}

static void test_mapping(void)
{
	struct libvirt_mapping m;

	ok(libvirt_parse_mapping("7fa70ffff000-7fa71ffff000 rw-s 00001000 00:01 499   /memfd:x "
				 "(deleted)\n",
				 &m),
	   "a line of /proc/PID/maps");
	ok(m.start == 0x7fa70ffff000 && m.end == 0x7fa71ffff000 && m.shared && m.offset == 0x1000 &&
		   m.major == 0 && m.minor == 1 && m.inode == 499,
	   "what it says");
	ok(libvirt_parse_mapping("1000-2000 rw-p 00000000 00:00 0\n", &m) && !m.shared, "private");
	ok(!libvirt_parse_mapping("2000-1000 rw-p 00000000 00:00 0\n", &m), "backwards");
	ok(!libvirt_parse_mapping("VmFlags: rd\n", &m), "something else");
}

int main(void)
{
	test_ram();
	test_plugged_ram();
	test_vcpu_memories();
	test_absurd_ram();
	test_hva();
	test_connected();
	test_vcpus();
	test_qmp();
	test_bar();
	test_mapping();
	return tap_done();
}
