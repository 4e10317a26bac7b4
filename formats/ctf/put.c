/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Events into packets. */
#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "formats/base/bit-cursor.h"
#include "formats/base/text.h"
#include "formats/ctf/put-internal.h"
#include "formats/event/kmem.h"

/* --- values ---------------------------------------------------------------------------------- */

static uint64_t load(const struct ctf_step *step, const uint8_t *bytes)
{
	uint64_t word;

	memcpy(&word, bytes + step->load, sizeof(word));
	return word << step->left >> step->right;
}

static uint64_t load_signed(const struct ctf_step *step, const uint8_t *bytes)
{
	uint64_t word;

	memcpy(&word, bytes + step->load, sizeof(word));
	return (uint64_t)((int64_t)(word << step->left) >> step->right);
}

/* Printable, and the same string always the same words. */
static struct ctf_value clean_string(const uint8_t *string, size_t size)
{
	const struct event_field field = {.size = (uint8_t)size};
	char text[EVENT_STRING_MAX + 1];
	struct ctf_value value = {{0}};

	event_field_text(&field, string, text);
	memcpy(&value, text, strlen(text));
	return value;
}

__attribute__((cold, noinline)) void ctf_use_cache(struct ctf_writer *w, uint16_t id)
{
	size_t capacity = w->caches_capacity ? 2 * w->caches_capacity : 64;
	uint16_t *bigger = w->used_caches;
	struct sidecar_cache cache;

	if (w->nr_used_caches == w->caches_capacity) {
		bigger = reallocarray(bigger, capacity, sizeof(*bigger));
		if (!bigger)
			return;
		w->used_caches = bigger;
		w->caches_capacity = capacity;
	}
	if (!cache_table_find(w->caches, id, &cache))
		return;
	w->uses_cache[id] = true;
	w->used_caches[w->nr_used_caches++] = id;
	w->table_bytes += ctf_tables[CTF_TABLE_CACHES].entry_bytes - CTF_NAME_MAX - 1 +
			  strnlen(cache.name, CTF_NAME_MAX) + 1;
}

__attribute__((noinline)) uint64_t ctf_string_id(struct ctf_writer *w, const uint8_t *string,
						 size_t size)
{
	struct ctf_value raw = {{0}}, value;

	if (!*string)
		return 0;
	memcpy(&raw, string, size);
	if (w->last_string_id && !memcmp(&raw, &w->last_string, sizeof(raw)))
		return w->last_string_id;
	value = clean_string(string, size);
	w->last_string = raw;
	w->last_string_id = value.word[0] ? ctf_values_find(&w->strings, &value) : 0;
	return w->last_string_id;
}

/* The outermost frame first: stacks that begin alike share these frames. 0: there is no id. */
static uint64_t frames_id(struct ctf_writer *w, const uint64_t *words)
{
	unsigned int n = 0, id = 0;

	while (n < EVENT_STACK_WORDS && words[n])
		n++;
	while (n-- > 0) {
		id = ctf_values_find(&w->stacks, &(const struct ctf_value){{words[n], id}});
		if (!id)
			break;
	}
	return id;
}

static uint64_t stack_id(struct ctf_writer *w, const uint8_t *bytes)
{
	if (w->last_stack_id && !memcmp(bytes, w->last_stack, sizeof(w->last_stack)))
		return w->last_stack_id;
	memcpy(w->last_stack, bytes, sizeof(w->last_stack));
	w->last_stack_id = (unsigned int)frames_id(w, w->last_stack);
	return w->last_stack_id;
}

static void note_frames(struct ctf_writer *w, const uint8_t *bytes)
{
	uint64_t words[EVENT_STACK_WORDS];

	memcpy(words, bytes, sizeof(words));
	for (unsigned int i = 0; i < EVENT_STACK_WORDS && words[i]; i++)
		call_sites_note(w->sites, words[i]);
}

/*
 * The bits that a step writes. Returns false if the form cannot express the value. UINT64_MAX is no
 * id, so that it never fits.
 */
static inline __attribute__((always_inline)) bool
get_bits(struct ctf_writer *w, const struct ctf_step *step, const uint8_t *bytes, uint64_t *out)
{
	uint64_t value, word;

	switch ((enum ctf_op)step->op) {
	case CTF_NUMBER:
		value = load(step, bytes);
		break;
	case CTF_SIGNED:
		value = load_signed(step, bytes);
		break;
	case CTF_CODE:
		value = ctf_values_id(&w->code, load(step, bytes));
		value = value ? value : UINT64_MAX;
		break;
	case CTF_CACHE:
		value = load(step, bytes);
		if (value <= step->max)
			ctf_note_cache(w, (uint16_t)value);
		break;
	case CTF_FLAGS:
		word = load(step, bytes);
		value = ctf_flags_id(w, word);
		value = value || !word ? value : UINT64_MAX;
		break;
	case CTF_PAGES:
		value = ctf_order_of(load(step, bytes));
		break;
	case CTF_ORDER:
		value = ctf_order_above(load(step, bytes));
		break;
	case CTF_ADDRESS:
		value = load(step, bytes);
		call_sites_note(w->sites, value);
		break;
	case CTF_STRING:
		value = ctf_string_id(w, bytes + step->at, step->size);
		value = value || !bytes[step->at] ? value : UINT64_MAX;
		break;
	case CTF_STACK:
		value = stack_id(w, bytes + step->at);
		value = value || !load(step, bytes) ? value : UINT64_MAX;
		break;
	case CTF_BYTES:
	case CTF_FRAMES:
	case CTF_TEXT:
	default:
		return true;
	}
	*out = value & step->max;
	return value + step->bias <= step->max;
}

/* --- packing --------------------------------------------------------------------------------- */

/* At the packet's end. */
static void put_texts(struct ctf_writer *w, const struct ctf_form *form, const uint8_t *bytes)
{
	for (size_t i = 0; i < form->nr_texts; i++) {
		const struct ctf_step *step = &form->steps[form->nr_steps + i];
		char *const to = (char *)w->bytes + w->used;

		event_field_shown(&form->class->fields[step->field], bytes, to);
		w->used += strlen(to) + 1;
	}
}

/* Gathered in a register. */
static bool put_steps(struct ctf_writer *w, const struct ctf_form *form, uint64_t header,
		      const uint8_t *bytes)
{
	const struct ctf_step *step = form->steps, *end = step + form->nr_steps;
	uint8_t *at = w->bytes + w->used;
	uint64_t word = header, value = 0;

	for (; step < end; step++) {
		if (!get_bits(w, step, bytes, &value))
			return false;
		word |= value << step->shift;
		if (!step->fills)
			continue;
		ctf_store_word(at, word);
		at += sizeof(word);
		word = value >> 1 >> (63 - step->shift);
	}
	ctf_store_word(at, word);
	w->used += form->size;
	return true;
}

static bool put_steps_and_texts(struct ctf_writer *w, const struct ctf_form *form, uint64_t header,
				const uint8_t *bytes)
{
	if (!put_steps(w, form, header, bytes))
		return false;
	put_texts(w, form, bytes);
	return true;
}

static struct bit_cursor cursor_at_end(struct ctf_writer *w)
{
	return (struct bit_cursor){.bytes = w->bytes,
				   .pos = w->used * 8,
				   .end = CTF_PACKET_MAX * 8,
				   .big_endian = w->identity->big_endian};
}

/*
 * The reader adds 2^27 when the 27 bits become smaller. A longer step needs the full clock, and so
 * does an id beyond the compact header's.
 */
static void put_header(struct bit_cursor *c, unsigned int id, uint64_t before, uint64_t clock)
{
	if (clock - before < UINT64_C(1) << CTF_CLOCK_BITS && id < CTF_EXTENDED) {
		bit_put(c, id, CTF_ID_BITS);
		bit_put(c, clock, CTF_CLOCK_BITS);
		return;
	}
	bit_put(c, CTF_EXTENDED, CTF_ID_BITS);
	bit_align(c);
	bit_put(c, id, 32);
	bit_put(c, clock, 64);
}

static void put_bytes(struct bit_cursor *c, const struct ctf_step *step, const uint8_t *bytes)
{
	const struct ctf_value value = clean_string(bytes + step->at, step->size);
	const uint8_t *text = (const uint8_t *)&value;

	bit_align(c);
	for (size_t i = 0; i < step->size; i++)
		bit_put(c, text[i], 8);
}

static void put_frames(struct ctf_writer *w, struct bit_cursor *c, const struct ctf_step *step,
		       const uint8_t *bytes)
{
	uint64_t words[EVENT_STACK_WORDS];

	note_frames(w, bytes + step->at);
	memcpy(words, bytes + step->at, sizeof(words));
	for (unsigned int i = 0; i < EVENT_STACK_WORDS; i++)
		bit_put(c, words[i], 64);
}

__attribute__((cold, noinline)) static bool
put_slow(struct ctf_writer *w, const struct ctf_form *form, uint64_t clock, const uint8_t *bytes)
{
	struct bit_cursor c = cursor_at_end(w);

	put_header(&c, (unsigned int)(form - w->plan->forms), w->clock, clock);
	for (size_t i = 0; i < form->nr_steps; i++) {
		const struct ctf_step *step = &form->steps[i];
		uint64_t value = 0;

		if (!get_bits(w, step, bytes, &value))
			return false;
		if (step->op == CTF_BYTES)
			put_bytes(&c, step, bytes);
		else if (step->op == CTF_FRAMES)
			put_frames(w, &c, step, bytes);
		else
			bit_put(&c, value, step->bits);
	}
	w->used = bit_bytes(&c);
	put_texts(w, form, bytes);
	return true;
}

/* What an event's time stamp is, where the clock cannot say it. */
__attribute__((cold, noinline)) static void put_time(struct ctf_writer *w, int64_t ns)
{
	struct bit_cursor c = cursor_at_end(w);

	put_header(&c, ctf_plan_id(w->plan, CTF_TIME), w->clock, w->clock);
	bit_put(&c, (uint64_t)ns, 64);
	w->used = bit_bytes(&c);
}

/* One in the first form of its class that can express it, if its size is known. */
static bool put_one(struct ctf_writer *w, const struct ctf_form *form, uint64_t ns,
		    const uint8_t *bytes)
{
	for (;; form++) {
		if (!form->put || form->nr_texts)
			return false;
		if (form->put(w, form, ctf_compact_header(form->id, ns), bytes))
			return true;
		if (form->is_last)
			return false;
	}
}

/* Events of any classes, as long as their sizes are known. */
static size_t put_mix(struct ctf_writer *w, const struct event_mix *mix, size_t n)
{
	const uint8_t *bytes = mix->bytes;
	const int64_t *stamp = mix->ns;
	size_t i;

	for (i = 0; i < n; i++, bytes += mix->stride, stamp = event_mix_next(mix, stamp)) {
		const unsigned int class = mix->classes[i];

		if (!put_one(w, w->plan->first[class], (uint64_t)*stamp, bytes))
			break;
		w->base.gathered.n[class]++;
	}
	return i;
}

/* Events of any class, likewise. */
static size_t put_run(struct ctf_writer *w, const struct ctf_form *form,
		      const struct event_run *run)
{
	const size_t n = ctf_room_for(w, w->plan->most, run->n);
	const uint8_t *bytes = run->bytes;
	size_t i;

	for (i = 0; i < n; i++, bytes += run->stride) {
		if (!ctf_clock_is_near(w, run->ns[i]) ||
		    !put_one(w, form, (uint64_t)run->ns[i], bytes))
			break;
		w->clock = (uint64_t)run->ns[i];
	}
	return i;
}

static ctf_put_run_fn *find_put_run(const struct ctf_form *form)
{
	ctf_put_run_fn *known = ctf_put_run_known(form->class);

	return known || form->nr_texts ? known : put_run;
}

void ctf_find_put(struct ctf_plan *plan, const struct ctf_identity *identity)
{
	for (unsigned int id = 0; id < plan->nr_forms && id < CTF_EXTENDED; id++) {
		struct ctf_form *form = &plan->forms[id];

		if (form->has_bytes || identity->big_endian)
			continue;
		form->put = ctf_put_known(form->class, form->form);
		form->put_run = form->form ? NULL : find_put_run(form);
		if (!form->put)
			form->put = form->nr_texts ? put_steps_and_texts : put_steps;
	}
	if (identity->big_endian)
		return;
	if (plan->nr_classes)
		plan->put_mix = ctf_put_mix_known(plan->first[0]->class);
	if (!plan->put_mix)
		plan->put_mix = put_mix;
}

/* The forms behind the first one, and what has no compact header. */
__attribute__((cold, noinline)) static void
put_event_slow(struct ctf_writer *w, const struct ctf_form *form, int64_t ns, const uint8_t *bytes)
{
	uint64_t clock = (uint64_t)ns;

	if (!ctf_clock_holds(ns) || clock < w->clock) {
		put_time(w, ns);
		clock = w->clock;
	}
	while (!put_slow(w, form, clock, bytes))
		form++;
	w->clock = clock;
}

__attribute__((noinline)) static void
put_next_form(struct ctf_writer *w, const struct ctf_form *form, int64_t ns, const uint8_t *bytes)
{
	while (!form->is_last && form[1].put) {
		form++;
		if (form->put(w, form, ctf_compact_header(form->id, (uint64_t)ns), bytes)) {
			w->clock = (uint64_t)ns;
			return;
		}
	}
	put_event_slow(w, form, ns, bytes);
}

int ctf_put_event(struct stream_writer *base, unsigned int class_index, int64_t ns,
		  const void *bytes)
{
	struct ctf_writer *w = (struct ctf_writer *)base;
	const struct ctf_form *form = w->plan->first[class_index];
	const uint64_t clock = (uint64_t)ns;

	base->gathered.n[class_index]++;
	if (!form->put || !ctf_clock_is_near(w, ns))
		put_event_slow(w, form, ns, bytes);
	else if (!form->put(w, form, ctf_compact_header(form->id, clock), bytes))
		put_next_form(w, form, ns, bytes);
	else
		w->clock = clock;
	base->ready = ctf_has_room(w);
	return 0;
}

size_t ctf_put_run(struct stream_writer *base, unsigned int class_index,
		   const struct event_run *run)
{
	struct ctf_writer *w = (struct ctf_writer *)base;
	const struct ctf_form *form = w->plan->first[class_index];
	const size_t taken = form->put_run ? form->put_run(w, form, run) : 0;

	base->gathered.n[class_index] += taken;
	base->ready = ctf_has_room(w);
	return taken;
}

size_t ctf_put_mix(struct stream_writer *base, const struct event_mix *mix)
{
	struct ctf_writer *w = (struct ctf_writer *)base;
	const struct ctf_plan *plan = w->plan;
	size_t n = plan->put_mix ? ctf_room_for(w, plan->most, mix->n) : 0;

	if (!n || !ctf_clock_is_near(w, *mix->ns))
		return 0;
	while (!ctf_clock_is_near(w, event_mix_ns(mix, n - 1)))
		n--;
	n = plan->put_mix(w, mix, n);
	if (n)
		w->clock = (uint64_t)event_mix_ns(mix, n - 1);
	base->ready = ctf_has_room(w);
	return n;
}

/* --- tables ---------------------------------------------------------------------------------- */

static bool is_near(uint64_t address)
{
	return (uint64_t)(int64_t)(int32_t)address == address;
}

static void put_text(struct bit_cursor *c, const char *text)
{
	do
		bit_put(c, (unsigned char)*text, 8);
	while (*text++);
}

/* Two integers of 16 and 32 bits, at once. */
static void put_near(struct bit_cursor *c, uint16_t id, uint32_t address)
{
	bit_put(c, c->big_endian ? (uint64_t)id << 32 | address : (uint64_t)address << 16 | id, 48);
}

static void put_code(struct bit_cursor *c, const struct ctf_values *code, bool near)
{
	for (size_t i = 0; i < code->nr_used; i++) {
		uint64_t address = code->used[i].value.word[0];

		if (is_near(address) != near)
			continue;
		if (near) {
			put_near(c, code->used[i].id, (uint32_t)address);
			continue;
		}
		bit_put(c, code->used[i].id, 16);
		bit_put(c, address, 64);
	}
}

static void put_flags(struct bit_cursor *c, const struct ctf_values *flags)
{
	for (size_t i = 0; i < flags->nr_used; i++) {
		bit_put(c, flags->used[i].id, 16);
		bit_put(c, flags->used[i].value.word[0], 64);
	}
}

static void put_strings(struct bit_cursor *c, const struct ctf_values *strings)
{
	for (size_t i = 0; i < strings->nr_used; i++) {
		char text[EVENT_STRING_MAX + 1] = "";

		memcpy(text, &strings->used[i].value, EVENT_STRING_MAX);
		bit_put(c, strings->used[i].id, 16);
		put_text(c, text);
	}
}

static void put_caches(struct bit_cursor *c, const struct ctf_writer *w)
{
	for (size_t i = 0; i < w->nr_used_caches; i++) {
		struct sidecar_cache cache;
		char name[CTF_NAME_MAX + 1];

		cache_table_find(w->caches, w->used_caches[i], &cache);
		clean_text(name, sizeof(name), cache.name);
		bit_put(c, cache.id, 16);
		bit_put(c, cache.object_size, 64);
		bit_put(c, cache.size, 64);
		put_text(c, name);
	}
}

static void put_stacks(struct bit_cursor *c, const struct ctf_values *stacks)
{
	for (size_t i = 0; i < stacks->nr_used; i++) {
		bit_put(c, stacks->used[i].id, 16);
		bit_put(c, stacks->used[i].value.word[1], 16);
		bit_put(c, stacks->used[i].value.word[0], 64);
	}
}

static size_t count_near(const struct ctf_values *code)
{
	size_t n = 0;

	for (size_t i = 0; i < code->nr_used; i++)
		n += is_near(code->used[i].value.word[0]);
	return n;
}

size_t ctf_put_tables(struct ctf_writer *w)
{
	struct bit_cursor c = cursor_at_end(w);
	size_t begin = w->used, nr_near = count_near(&w->code);

	put_header(&c, ctf_plan_id(w->plan, CTF_TABLES), w->clock, w->clock);
	bit_put(&c, nr_near, 16);
	bit_put(&c, w->code.nr_used - nr_near, 16);
	bit_put(&c, w->flags.nr_used, 16);
	bit_put(&c, w->strings.nr_used, 16);
	bit_put(&c, w->nr_used_caches, 16);
	if (ctf_plan_nr_tables(w->plan) > CTF_TABLE_STACKS)
		bit_put(&c, w->stacks.nr_used, 16);
	put_code(&c, &w->code, true);
	put_code(&c, &w->code, false);
	put_flags(&c, &w->flags);
	put_strings(&c, &w->strings);
	put_caches(&c, w);
	put_stacks(&c, &w->stacks);
	w->used = bit_bytes(&c);
	return begin;
}
