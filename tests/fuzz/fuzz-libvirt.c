/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Text of libvirt, QEMU, its gdbstub and a journal left on disk: a domain's XML, replies of
 * QMP and HMP, packets, lines. The first byte chooses the parser. Besides memory errors it finds
 * results that break a contract.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include "vmm/libvirt/connection/death.h"
#include "vmm/libvirt/journal/journal.h"
#include "vmm/libvirt/backend/memory.h"
#include "vmm/libvirt/connection/reply.h"
#include "vmm/libvirt/backend/slot.h"
#include "vmm/libvirt/gdb/rsp.h"

enum { MAX_STREAM = 32768 /* fits the socket's buffer */ };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void parse_ram(const char *text, size_t size)
{
	struct libvirt_ram ram[LIBVIRT_MAX_RAM];
	int n = libvirt_reply_ram(text, size, ram, NULL);

	if (n > LIBVIRT_MAX_RAM || libvirt_reply_vcpu_memories(text, size) > size)
		abort();
	for (int i = 1; i < n; i++)
		if (ram[i - 1].gpa + ram[i - 1].size > ram[i].gpa)
			abort();
}

static void parse_qmp(const char *text, size_t size)
{
	struct libvirt_ram bar;
	json_t *result = NULL;

	if (libvirt_reply_parse(text, size, &result, NULL))
		return;
	if (!libvirt_reply_bar(result, "x", 2, &bar, NULL) && (bar.gpa & 4095 || !bar.size))
		abort();
	if (libvirt_reply_vcpu_slots(result) > size << 16)
		abort();
	libvirt_reply_target(result);
	libvirt_reply_chardev(result, "gdb");
	libvirt_reply_has_frontend(result, "gdb");
	json_decref(result);
}

/* A domain's XML, as libvirt would write it. */
static void parse_xml(const char *text, size_t size)
{
	char *xml = strndup(text, size), where[160];

	if (!xml)
		return;
	for (const char *at = xml; at; at = libvirt_next_shmem(at))
		;
	for (unsigned int bus = 0; (bus = libvirt_next_root_port(xml, bus));)
		;
	libvirt_slot_describe(xml, where, sizeof(where), NULL);
	libvirt_uri_is_local(xml);
	free(xml);
}

static void parse_journal(const char *text, size_t size)
{
	struct journal_contents contents;

	if (journal_parse(text, size, &contents, NULL))
		return;
	for (size_t i = 0; i < contents.nr_places; i++)
		if (!contents.places[i].size || !contents.places[i].nr_ours)
			abort();
	if (contents.instance.boot[0] && strlen(contents.instance.boot) != LIBVIRT_BOOT_TEXT - 1)
		abort();
	if (contents.knows_tasks && !task_stacks_valid(&contents.tasks))
		abort();
	journal_contents_deinit(&contents);
}

/* A connection that is lost takes no more input. */
static void get_in_step(struct rsp *rsp)
{
	rsp->lost.code = 0;
	rsp->unacked = 0;
}

static void talk(const char *stream, size_t size)
{
	struct rsp_registers registers = {0};
	struct rsp_stop stop;
	uint8_t memory[64];
	struct rsp rsp;
	int pair[2];

	if (size > MAX_STREAM)
		return;
	if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) ||
	    write(pair[1], stream, size) != (ssize_t)size)
		abort();
	shutdown(pair[1], SHUT_WR);
	rsp_init(&rsp, pair[0]);
	rsp_read(&rsp, 0, memory, sizeof(memory), NULL);
	get_in_step(&rsp);
	rsp_registers(&rsp, 0, &registers, NULL);
	get_in_step(&rsp);
	rsp_write(&rsp, 0, memory, sizeof(memory), NULL);
	get_in_step(&rsp);
	rsp_breakpoint(&rsp, 0, true, NULL);
	get_in_step(&rsp);
	rsp_set_registers(&rsp, 1, &registers.regs, &registers, NULL);
	get_in_step(&rsp);
	rsp_set_cr3(&rsp, 1, registers.sregs.cr3, NULL);
	get_in_step(&rsp);
	rsp_forget_breakpoints(&rsp, 2, NULL);
	get_in_step(&rsp);
	if (!rsp_continue(&rsp, NULL) && !rsp_await_stop(&rsp, &stop, NULL) && stop.known &&
	    stop.vcpu >= UINT16_MAX)
		abort();
	close(pair[0]);
	close(pair[1]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *text = (const char *)data + 1;
	struct libvirt_mapping mapping;
	char line[512];
	struct guest_sregs vcpus[4];
	uint64_t hva;

	if (!size)
		return 0;
	snprintf(line, sizeof(line), "%.*s", (int)(size - 1), text);
	switch (data[0] % 8) {
	case 0:
		parse_ram(text, size - 1);
		break;
	case 1:
		parse_qmp(text, size - 1);
		break;
	case 2:
		parse_journal(text, size - 1);
		break;
	case 3:
		talk(text, size - 1);
		break;
	case 4:
		libvirt_reply_hva(text, size - 1, &hva, NULL);
		break;
	case 5:
		libvirt_reply_registers(text, size - 1, vcpus, 4, NULL);
		break;
	case 6:
		libvirt_parse_mapping(line, &mapping);
		libvirt_parse_stat(line, LIBVIRT_STAT_START, &hva);
		libvirt_parse_life(line);
		break;
	default:
		parse_xml((const char *)data + 1, size - 1);
	}
	return 0;
}
