/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Events of classes that are constants of this program, and frequent: the compiler makes code for
 * each form from its fields. The bytes are those of the loop in put.c, which serves all other
 * classes, all other forms, and big-endian traces.
 */
#include <endian.h>
#include <string.h>
#include "formats/ctf/put-internal.h"
#include "formats/event/function-fields.h"
#include "formats/event/graph-fields.h"
#include "formats/event/kmem-fields.h"

#define INLINE inline __attribute__((always_inline))

static INLINE uint64_t load(const struct event_field *field, const uint8_t *bytes)
{
	uint8_t one;
	uint16_t two;
	uint32_t four;
	uint64_t eight;

	bytes += field->at;
	switch (field->size) {
	case sizeof(one):
		return *bytes;
	case sizeof(two):
		memcpy(&two, bytes, sizeof(two));
		return two;
	case sizeof(four):
		memcpy(&four, bytes, sizeof(four));
		return field->type == EVENT_INT ? (uint64_t)(int64_t)(int32_t)four : four;
	default:
		memcpy(&eight, bytes, sizeof(eight));
		return eight;
	}
}

static INLINE bool fits(uint64_t value, unsigned int bits)
{
	return value >> bits == 0;
}

/* Not 0, which stands for no id. */
static INLINE bool fits_id(uint64_t id, unsigned int bits)
{
	return id - 1 < (UINT64_C(1) << bits) - 1;
}

static INLINE bool fits_signed(uint64_t value, unsigned int bits)
{
	return (value + (UINT64_C(1) << (bits - 1))) >> bits == 0;
}

/* What a field has on disk, in less bits than in memory. Returns false if it does not fit. */
static INLINE bool get_bits(struct ctf_writer *w, struct ctf_values_search *code,
			    const struct event_field *field, unsigned int bits,
			    const uint8_t *bytes, uint64_t *out)
{
	uint64_t value;

	if (field->type == EVENT_STRING) {
		*out = ctf_string_id(w, bytes + field->at, field->size);
		return (*out || !bytes[field->at]) && fits(*out, bits);
	}
	value = load(field, bytes);
	*out = value;
	switch (field->type) {
	case EVENT_CODE:
	case EVENT_FUNCTION:
		*out = ctf_values_next_id(&w->code, code, value);
		return fits_id(*out, bits);
	case EVENT_FLAGS:
		*out = ctf_flags_id(w, value);
		return (*out || !value) && fits(*out, bits);
	case EVENT_DICTIONARY:
		if (!fits(value, bits))
			return false;
		ctf_note_cache(w, (uint16_t)value);
		return true;
	case EVENT_PAGES:
		*out = ctf_order_of(value);
		return fits(*out, bits);
	case EVENT_INT:
	case EVENT_POINTER:
		*out = value & (UINT64_MAX >> (64 - bits));
		return fits_signed(value, bits);
	default:
		return fits(value, bits);
	}
}

enum { MAX_WORDS = 4 };

/* `fields` and all numbers are constants. Returns false if the form cannot express the event. */
static INLINE bool put_at(struct ctf_writer *w, struct ctf_values_search *code,
			  const struct event_field *fields, size_t n, unsigned int form,
			  uint64_t header, const uint8_t *bytes, uint8_t *at)
{
	uint64_t words[MAX_WORDS + 1] = {header};
	unsigned int pos = 8 * CTF_HEADER_BYTES;

#pragma GCC unroll 8
	for (size_t i = 0; i < n; i++) {
		const unsigned int bits = fields[i].bits[form];
		uint64_t value;

		if (!bits) {
			if (load(&fields[i], bytes) != (uint64_t)(int64_t)fields[i].implied)
				return false;
			continue;
		}
		if (!get_bits(w, code, &fields[i], bits, bytes, &value))
			return false;
		words[pos / 64] |= value << pos % 64;
		if (pos % 64 + bits > 64)
			words[pos / 64 + 1] = value >> (64 - pos % 64);
		pos += bits;
	}
#pragma GCC unroll 8
	for (unsigned int i = 0; 64 * i < pos; i++)
		ctf_store_word(at + i * sizeof(uint64_t), words[i]);
	return true;
}

/* Bytes of an event on disk. */
static INLINE size_t size_of(const struct event_field *fields, size_t n, unsigned int form)
{
	unsigned int bits = 8 * CTF_HEADER_BYTES;

#pragma GCC unroll 8
	for (size_t i = 0; i < n; i++)
		bits += fields[i].bits[form];
	return (bits + 7) / 8;
}

static INLINE bool put(struct ctf_writer *w, const struct event_field *fields, size_t n,
		       unsigned int form, uint64_t header, const uint8_t *bytes)
{
	struct ctf_values_search code = ctf_values_search(&w->code);

	if (!put_at(w, &code, fields, n, form, header, bytes, w->bytes + w->used))
		return false;
	w->used += size_of(fields, n, form);
	return true;
}

#define LENGTH(array) (sizeof(array) / sizeof((array)[0]))

#define PUT(name, fields, form)                                                           \
	static bool name(struct ctf_writer *w, const struct ctf_form *f, uint64_t header, \
			 const uint8_t *bytes)                                            \
	{                                                                                 \
		(void)f;                                                                  \
		return put(w, fields, LENGTH(fields), form, header, bytes);               \
	}

/* 4- and 5-level paging */
PUT(put_alloc, kmem_alloc_fields, 0)
PUT(put_alloc_la57, kmem_alloc_fields, 1)
PUT(put_page_alloc, kmem_page_alloc_fields, 0)
PUT(put_page_alloc_la57, kmem_page_alloc_fields, 1)
PUT(put_free, kmem_free_fields, 0)
PUT(put_free_la57, kmem_free_fields, 1)
PUT(put_cache_free, kmem_cache_free_fields, 0)
PUT(put_cache_free_la57, kmem_cache_free_fields, 1)
PUT(put_page_free, kmem_page_free_fields, 0)
PUT(put_page_free_la57, kmem_page_free_fields, 1)

/* How many of a run's events certainly have room, each as ctf_has_room() has it, and times that can
 * follow each other. */
static size_t find_room(const struct ctf_writer *w, const struct ctf_form *f,
			const struct event_run *run)
{
	const size_t most = f->size + f->table_bytes;
	size_t n = run->n, fits;

	if (!n || !ctf_has_room(w) || !ctf_clock_is_near(w, run->ns[0]))
		return 0;
	fits = 1 + (CTF_PACKET_MAX - CTF_EVENT_ROOM - w->used - w->table_bytes) / most;
	n = n < fits ? n : fits;
	while (!ctf_clock_is_near(w, run->ns[n - 1]))
		n--;
	return n;
}

/* What is behind the headers, which are 0. Returns how many events the form can express. */
static INLINE size_t put_fields(struct ctf_writer *w, const struct event_field *fields,
				size_t nr_fields, const struct event_run *run, size_t n,
				uint8_t *at)
{
	const size_t stride = run->stride;
	const uint8_t *bytes = run->bytes;
	struct ctf_values_search code = ctf_values_search(&w->code);

	for (size_t i = 0; i < n; i++, bytes += stride) {
		if (!put_at(w, &code, fields, nr_fields, 0, 0, bytes, at))
			return i;
		at += size_of(fields, nr_fields, 0);
	}
	return n;
}

static INLINE void put_headers(uint64_t id, const int64_t *ns, size_t n, uint8_t *at, size_t size)
{
	for (size_t i = 0; i < n; i++, at += size)
		ctf_store_header(at, ctf_compact_header(id, (uint64_t)ns[i]));
}

/* `fields` are constants. */
static INLINE size_t put_run(struct ctf_writer *w, const struct ctf_form *f,
			     const struct event_field *fields, size_t nr_fields,
			     const struct event_run *run)
{
	const size_t size = size_of(fields, nr_fields, 0);
	uint8_t *const at = w->bytes + w->used;
	const size_t n = put_fields(w, fields, nr_fields, run, find_room(w, f, run), at);

	put_headers(f->id, run->ns, n, at, size);
	w->used += n * size;
	if (n)
		w->clock = (uint64_t)run->ns[n - 1];
	return n;
}

/* Of an event of the direct lane: one by one, and in runs. */
#define PUT_CALLS(name, fields)                                                  \
	PUT(name, fields, 0)                                                     \
	static size_t name##_run(struct ctf_writer *w, const struct ctf_form *f, \
				 const struct event_run *run)                    \
	{                                                                        \
		return put_run(w, f, fields, LENGTH(fields), run);               \
	}

PUT_CALLS(put_ip, function_ip)
PUT_CALLS(put_ip_parent, function_ip_parent)
PUT_CALLS(put_ip_pid, function_ip_pid)
PUT_CALLS(put_ip_parent_pid, function_ip_parent_pid)
PUT_CALLS(put_ip_comm, function_ip_comm)
PUT_CALLS(put_ip_parent_comm, function_ip_parent_comm)
PUT_CALLS(put_ip_pid_comm, function_ip_pid_comm)
PUT_CALLS(put_ip_parent_pid_comm, function_ip_parent_pid_comm)
PUT_CALLS(put_entry, graph_entry)
PUT_CALLS(put_entry_comm, graph_entry_comm)
PUT_CALLS(put_exit, graph_exit_frame)
PUT_CALLS(put_exit_result, graph_exit_result)

enum { KNOWN_FORMS = 2 };

static ctf_put_fn *const kmem[KMEM_NR_CLASSES][KNOWN_FORMS] = {
	[KMEM_CLASS_KMALLOC] = {put_alloc, put_alloc_la57},
	[KMEM_CLASS_CACHE_ALLOC] = {put_alloc, put_alloc_la57},
	[KMEM_CLASS_PAGE_ALLOC] = {put_page_alloc, put_page_alloc_la57},
	[KMEM_CLASS_KFREE] = {put_free, put_free_la57},
	[KMEM_CLASS_CACHE_FREE] = {put_cache_free, put_cache_free_la57},
	[KMEM_CLASS_PAGE_FREE] = {put_page_free, put_page_free_la57},
};

struct put_calls {
	ctf_put_fn *one;
	ctf_put_run_fn *run;
};

static const struct put_calls function[FUNCTION_SETS] = {
	[0] = {put_ip, put_ip_run},
	[FUNCTION_PARENT] = {put_ip_parent, put_ip_parent_run},
	[FUNCTION_PID] = {put_ip_pid, put_ip_pid_run},
	[FUNCTION_PARENT | FUNCTION_PID] = {put_ip_parent_pid, put_ip_parent_pid_run},
	[FUNCTION_COMM] = {put_ip_comm, put_ip_comm_run},
	[FUNCTION_PARENT | FUNCTION_COMM] = {put_ip_parent_comm, put_ip_parent_comm_run},
	[FUNCTION_PID | FUNCTION_COMM] = {put_ip_pid_comm, put_ip_pid_comm_run},
	[FUNCTION_PARENT | FUNCTION_PID |
		FUNCTION_COMM] = {put_ip_parent_pid_comm, put_ip_parent_pid_comm_run},
};

static const struct put_calls graph_entries[GRAPH_COMM + 1] = {
	[0] = {put_entry, put_entry_run},
	[GRAPH_COMM] = {put_entry_comm, put_entry_comm_run},
};

static const struct put_calls graph_exits[] = {{put_exit, put_exit_run},
					       {put_exit_result, put_exit_result_run}};

static const struct put_calls *find_graph(const struct event_class *class)
{
	const unsigned int others = GRAPH_TGID | GRAPH_CGROUP | GRAPH_STACK;

	for (unsigned int fields = 0; fields <= (GRAPH_ALL | GRAPH_STACK); fields++) {
		const struct event_class *first = graph_classes(fields);

		if (class == &first[GRAPH_EXIT])
			return &graph_exits[fields & GRAPH_RESULT ? 1 : 0];
		if (class >= first && class < first + GRAPH_NR_CLASSES)
			return fields & others ? NULL : &graph_entries[fields & GRAPH_COMM];
	}
	return NULL;
}

/* How events of a class of the direct lane are written in its first form; NULL: as any other. */
static const struct put_calls *find_calls(const struct event_class *class)
{
	const struct event_class *first = function_class(0);

	if (class < first || class >= first + FUNCTION_SETS)
		return find_graph(class);
	return function[class - first].one ? &function[class - first] : NULL;
}

ctf_put_fn *ctf_put_known(const struct event_class *class, unsigned int form)
{
	const struct put_calls *calls = find_calls(class);

	if (class >= kmem_classes && class < kmem_classes + KMEM_NR_CLASSES && form < KNOWN_FORMS)
		return kmem[class - kmem_classes][form];
	return calls && !form ? calls->one : NULL;
}

ctf_put_run_fn *ctf_put_run_known(const struct event_class *class)
{
	const struct put_calls *calls = find_calls(class);

	return calls ? calls->run : NULL;
}
