// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * fentry FUNCTION: attaches an empty BPF program to a function of the running kernel
 * (BPF_TRACE_FENTRY), prints "fentry: attached", and keeps it there until killed. The kernel's site
 * of the function becomes a direct call.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <linux/btf.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static void fail(const char *what)
{
	fprintf(stderr, "fentry: %s: %s\n", what, strerror(errno));
	exit(1);
}

static int bpf(int command, union bpf_attr *attr)
{
	return (int)syscall(SYS_bpf, command, attr, sizeof(*attr));
}

static char *read_btf(void)
{
	static const char path[] = "/sys/kernel/btf/vmlinux";
	int fd = open(path, O_RDONLY);
	struct stat st;
	char *bytes;

	if (fd < 0 || fstat(fd, &st))
		fail(path);
	bytes = malloc((size_t)st.st_size);
	for (ssize_t done = 0, n; done < st.st_size; done += n) {
		n = read(fd, bytes + done, (size_t)(st.st_size - done));
		if (n <= 0)
			fail(path);
	}
	close(fd);
	return bytes;
}

/* Bytes behind a struct btf_type (Documentation/bpf/btf.rst). */
static size_t size_behind(const struct btf_type *type)
{
	const uint32_t n = BTF_INFO_VLEN(type->info);

	switch (BTF_INFO_KIND(type->info)) {
	case BTF_KIND_INT:
	case BTF_KIND_VAR:
	case BTF_KIND_DECL_TAG:
		return sizeof(uint32_t);
	case BTF_KIND_ARRAY:
		return sizeof(struct btf_array);
	case BTF_KIND_STRUCT:
	case BTF_KIND_UNION:
	case BTF_KIND_DATASEC:
	case BTF_KIND_ENUM64:
		return n * sizeof(struct btf_member);
	case BTF_KIND_ENUM:
	case BTF_KIND_FUNC_PROTO:
		return n * sizeof(struct btf_enum);
	default:
		return 0;
	}
}

static uint32_t find_function(const char *name)
{
	const char *bytes = read_btf();
	const struct btf_header *header = (const void *)bytes;
	const char *types = bytes + header->hdr_len + header->type_off;
	const char *strings = bytes + header->hdr_len + header->str_off;
	size_t at = 0;

	for (uint32_t id = 1; at < header->type_len; id++) {
		const struct btf_type *type = (const void *)(types + at);

		if (BTF_INFO_KIND(type->info) == BTF_KIND_FUNC &&
		    !strcmp(strings + type->name_off, name))
			return id;
		at += sizeof(*type) + size_behind(type);
	}
	errno = ENOENT;
	fail(name);
	return 0;
}

int main(int argc, char **argv)
{
	const struct bpf_insn program[] = {
		{.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0},
		{.code = BPF_JMP | BPF_EXIT},
	};
	union bpf_attr load = {.prog_type = BPF_PROG_TYPE_TRACING,
			       .insn_cnt = 2,
			       .insns = (uintptr_t)program,
			       .license = (uintptr_t) "GPL",
			       .expected_attach_type = BPF_TRACE_FENTRY};
	union bpf_attr link = {0};

	if (argc != 2)
		return 2;
	load.attach_btf_id = find_function(argv[1]);
	link.raw_tracepoint.prog_fd = (uint32_t)bpf(BPF_PROG_LOAD, &load);
	if ((int)link.raw_tracepoint.prog_fd < 0)
		fail("BPF_PROG_LOAD");
	if (bpf(BPF_RAW_TRACEPOINT_OPEN, &link) < 0)
		fail("attach");
	printf("fentry: attached\n");
	fflush(stdout);
	pause();
	return 0;
}
