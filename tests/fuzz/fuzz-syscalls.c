/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Declarations of system calls, and their events in any order. Up to the first 0 byte the input is
 * declarations. Behind it each byte is an event: its class, frame and system call.
 */
#include <stdlib.h>
#include <string.h>
#include "formats/syscalls/calls.h"
#include "formats/syscalls/prototypes.h"
#include "formats/syscalls/syscall-text.h"

static struct event event_of(uint8_t byte, int64_t ns, struct syscall_event *bytes)
{
	const enum syscall_class class = byte % SYSCALL_NR_CLASSES;

	*bytes = (struct syscall_event){.call = {.call = {.ip = byte >> 5, .pid = byte},
						 .frame = byte >> 3 & 3,
						 .result = -(uint64_t)byte}};
	memset(bytes->args, byte, sizeof(bytes->args));
	return (struct event){
		.class = &syscall_classes(SYSCALL_COMM)[class], .ns = ns, .bytes = bytes};
}

/* Each entry is shown once. */
static void print(const char *lines, const uint8_t *data, size_t size, bool json)
{
	const struct trace_instance instance = {.name = "syscalls",
						.classes = syscall_classes(SYSCALL_ALL),
						.nr_classes = SYSCALL_NR_CLASSES};
	const struct syscall_text_options options = {
		.json = json, .instance = &instance, .prototypes = lines};
	struct syscall_event bytes;
	struct event_texts *texts;
	struct syscall_text *text;
	size_t entries = 0, shown = 0, printed_size;
	char *printed;
	FILE *out = open_memstream(&printed, &printed_size);

	if (!out || event_texts_create(NULL, &texts, NULL) ||
	    syscall_text_create(out, texts, &options, &text, NULL))
		abort();
	for (size_t i = 0; i < size; i++) {
		const struct event event = event_of(data[i], (int64_t)i, &bytes);

		entries += data[i] % SYSCALL_NR_CLASSES != SYSCALL_EXIT;
		if (syscall_text_put(text, &event))
			abort();
	}
	if (syscall_text_end(text) || fclose(out))
		abort();
	for (const char *at = printed; (at = strchr(at, '\n')); at++)
		shown++;
	if (shown != entries)
		abort();
	syscall_text_destroy(text);
	event_texts_destroy(texts);
	free(printed);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct syscall_prototypes *prototypes;
	char *lines = strndup((const char *)data, size);
	size_t used = strlen(lines);

	if (syscall_prototypes_create(lines, &prototypes, NULL))
		abort();
	if (syscall_prototypes_find(prototypes, "f")->nr_args > SYSCALL_ARGS)
		abort();
	syscall_prototypes_destroy(prototypes);
	used += used < size;
	print("0x0(int fd)\n0x1(const char * s, umode_t mode)\n", data + used, size - used, false);
	print("0x0(int fd)\n0x2()\n", data + used, size - used, true);
	free(lines);
	return 0;
}
