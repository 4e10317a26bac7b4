/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * kshark-dump FILE: the entries that KernelShark's library loads from a trace.dat. A line has,
 * separated by tabs: CPU, nanoseconds, buffer ("" is the top one), event, pid, task, and
 * FIELD=NUMBER for each number of the event.
 */
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include <libkshark.h>
#include <libkshark-tepdata.h>

static void print_text(char *text)
{
	printf("\t%s", text ? text : "");
	free(text);
}

static void print_numbers(const struct kshark_entry *entry)
{
	char **names = NULL;
	int n = kshark_get_all_event_field_names(entry, &names);

	for (int i = 0; i < n; i++) {
		int64_t value;

		if (kshark_get_event_field_type(entry, names[i]) == KS_INTEGER_FIELD &&
		    !kshark_read_event_field_int(entry, names[i], &value))
			printf("\t%s=%" PRId64, names[i], value);
		free(names[i]);
	}
	free(names);
}

static void print_entry(const struct kshark_entry *entry, const char *buffer)
{
	printf("%d\t%" PRId64 "\t%s", entry->cpu, entry->ts, buffer);
	print_text(kshark_get_event_name(entry));
	printf("\t%d", entry->pid);
	print_text(kshark_get_task(entry));
	print_numbers(entry);
	putchar('\n');
}

static int print_stream(struct kshark_context *context, int stream)
{
	struct kshark_data_stream *data = kshark_get_data_stream(context, stream);
	const char *buffer = kshark_tep_is_top_stream(data) ? "" : data->name;
	struct kshark_entry **entries = NULL;
	ssize_t n = kshark_load_entries(context, stream, &entries);

	if (n < 0) {
		fprintf(stderr, "kshark-dump: buffer '%s': cannot load entries: %zd\n", buffer, n);
		return 1;
	}
	for (ssize_t i = 0; i < n; i++) {
		print_entry(entries[i], buffer);
		free(entries[i]);
	}
	free(entries);
	return 0;
}

static int dump(struct kshark_context *context, const char *path)
{
	int top = kshark_open(context, path), ret = 0, *streams;

	/* Each instance of ftrace is a buffer, which is a stream of its own. */
	if (top < 0 || kshark_tep_init_all_buffers(context, top) < 0) {
		fprintf(stderr, "kshark-dump: %s: cannot open\n", path);
		return 1;
	}
	streams = kshark_all_streams(context);
	for (int i = 0; streams && !ret && i < context->n_streams; i++)
		ret = print_stream(context, streams[i]);
	free(streams);
	return ret;
}

int main(int argc, char **argv)
{
	struct kshark_context *context = NULL;
	int ret;

	if (argc != 2 || !kshark_instance(&context))
		return 2;
	ret = dump(context, argv[1]);
	kshark_close_all(context);
	kshark_free(context);
	return ret;
}
