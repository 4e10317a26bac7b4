/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Which records an instance wants, by their fields. Decided on the host, when a record is complete.
 */
#include "patcher/tracers/kmem/kmem.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "formats/filter/filter.h"
#include "introspect/kernel/modules.h"
#include "patcher/tracers/condition-names.h"

/* A module may have been loaded since the names were read: how often they are read again at most.
 */
enum { NAMES_AGE_NS = 1000000000 };

struct kmem_filter {
	struct condition_names known; /* the first member: text() gets it */
	const struct kernel *kernel;
	struct trace_writer *writer;
	struct event_filter *filter;
	const struct event_class *classes;
	struct event_predicate *predicates[KMEM_NR_CLASSES]; /* NULL: no record of it is wanted */
	struct kernel_names *symbols;                        /* of modules; NULL: not read yet */
	int64_t symbols_ns, now_ns;                          /* trace clock */
};

/* --- values as text -------------------------------------------------------------------------- */

static int find_symbol(struct kmem_filter *f, uint64_t address, char *out, size_t size)
{
	uint64_t start, bytes;
	int ret = kernel_image_lookup(f->kernel, address, out, size, &start, &bytes);
	size_t used;

	if (ret && f->symbols)
		ret = kernel_names_lookup(f->symbols, address, out, size, &start, &bytes);
	if (ret)
		return ret;
	used = strlen(out);
	snprintf(out + used, size - used, "+0x%" PRIx64, address - start);
	return 0;
}

/*
 * Of modules. Where each read stops the guest they have no names here: thousands of reads would
 * hold it for seconds, on the thread that writes the trace.
 */
static void read_symbols(struct kmem_filter *f)
{
	if (f->kernel->guest->caps & GUEST_STOPS_TO_READ)
		return;

	kernel_names_destroy(f->symbols);
	f->symbols = NULL;
	kernel_names_create(f->kernel, &f->symbols, NULL);
	f->symbols_ns = f->now_ns;
}

static void symbol_text(struct kmem_filter *f, uint64_t address, char *out, size_t size)
{
	if (!find_symbol(f, address, out, size))
		return;
	if (!f->symbols || f->now_ns - f->symbols_ns >= NAMES_AGE_NS)
		read_symbols(f);
	if (find_symbol(f, address, out, size))
		snprintf(out, size, "0x%" PRIx64, address);
}

static void text(void *arg, const struct event_field *field, uint64_t value, char *out, size_t size)
{
	struct kmem_filter *f = arg;

	if (field->type == EVENT_CODE)
		symbol_text(f, value, out, size);
	else if (field->type == EVENT_FLAGS)
		gfp_flags_text(f->known.info.gfp_names, f->known.info.nr_gfp_names, value, out,
			       size);
	else if (field->type != EVENT_DICTIONARY ||
		 !trace_writer_cache_name(f->writer, (uint16_t)value, out, size))
		snprintf(out, size, "0x%" PRIx64, value);
}

/* Code addresses are compared with text, which functions of modules have, too. */
static void init_names(struct kmem_filter *f, const struct kernel_image *image)
{
	condition_names_init(&f->known, image, 0);
	f->known.names.text = text;
	f->known.names.ranges = NULL;
}

/* --- filters --------------------------------------------------------------------------------- */

/* Of classes that lack a field of the filter no record is wanted; one of those that the spec
 * records has to have all. The class that has every field is for records that this tracer does not
 * make. */
static int bind(struct kmem_filter *f, uint32_t types, struct error *err)
{
	const struct event_class *classes[KMEM_CLASS_OTHER];
	struct event_predicate *predicates[KMEM_CLASS_OTHER] = {NULL};
	size_t n = 0;
	int ret;

	for (size_t i = 0; i < KMEM_CLASS_OTHER; i++)
		if (types >> kmem_ids[i].type_id & 1)
			classes[n++] = &f->classes[i];
	ret = event_filter_bind_each(f->filter, classes, n, &f->known.names, predicates, err);
	for (size_t i = 0; !ret && i < n; i++)
		f->predicates[classes[i] - f->classes] = predicates[i];
	return ret;
}

/* Takes `f`, whose classes and names are filled in. */
static int finish(struct kmem_filter *f, const struct trace_spec *spec, struct kmem_filter **out,
		  struct error *err)
{
	int ret = event_filter_parse(spec->filter_text, &f->filter, err);

	if (!ret)
		ret = bind(f, kmem_types_of(spec), err);
	if (ret && err && err->column)
		err->column = trace_spec_filter_column(spec, err->column);
	if (ret)
		kmem_filter_destroy(f);
	else
		*out = f;
	return ret;
}

int kmem_filter_create(const struct tracer_context *context, const struct trace_spec *spec,
		       struct kmem_filter **out, struct error *err)
{
	struct kmem_filter *f = calloc(1, sizeof(*f));

	if (!f)
		return error_set(err, ENOMEM, "out of memory");
	f->kernel = context->kernel;
	f->writer = context->writer;
	f->classes = kmem_classes_of(kmem_task_fields(spec));
	init_names(f, context->kernel->image);
	return finish(f, spec, out, err);
}

/* Without an image, all names are flags. For records of no guest. */
static int create_idle(const struct trace_spec *spec, const struct kernel_image *image,
		       struct kmem_filter **out, struct error *err)
{
	struct kmem_filter *f = calloc(1, sizeof(*f));

	if (!f)
		return error_set(err, ENOMEM, "out of memory");
	f->classes = kmem_classes_of(kmem_task_fields(spec));
	init_names(f, image);
	return finish(f, spec, out, err);
}

static int check(const struct trace_spec *spec, const struct kernel_image *image, struct error *err)
{
	struct kmem_filter *made = NULL;
	int ret = spec->filter ? create_idle(spec, image, &made, err) : 0;

	kmem_filter_destroy(made);
	return ret;
}

int kmem_filter_check(const struct trace_spec *spec, struct error *err)
{
	return check(spec, NULL, err);
}

int kmem_filter_check_image(const struct trace_spec *spec, const struct kernel_image *image,
			    struct error *err)
{
	return check(spec, image, err);
}

/* --- notes ----------------------------------------------------------------------------------- */

/* A pattern may mean functions of modules, and so does a name that the image lacks. */
static bool may_be_of_module(const struct event_node *term, const struct kernel_image *image)
{
	char name[EVENT_LONG_STRING_MAX + 16];

	if (!term->by_text || !term->field || term->field->type != EVENT_CODE)
		return false;
	snprintf(name, sizeof(name), "%.*s", (int)strcspn(term->text, "+"), term->text);
	return term->op == FILTER_GLOB || !symbols_find(image->symbols, name);
}

static bool asks_for_module(const struct event_predicate *predicate, unsigned int index,
			    const struct kernel_image *image)
{
	const struct event_node node = event_predicate_node(predicate, index);

	if (node.kind == FILTER_TERM)
		return may_be_of_module(&node, image);
	return asks_for_module(predicate, node.left, image) ||
	       (node.kind != FILTER_NOT && asks_for_module(predicate, node.right, image));
}

/* A name that the image lacks may be a slip. */
static int note_name(const struct event_node *term, const struct kernel_image *image,
		     struct function_notes *notes, struct error *err)
{
	const int length = (int)strcspn(term->text, "+");
	char name[EVENT_LONG_STRING_MAX + 16];
	const char *nearest;

	if (term->op == FILTER_GLOB || !may_be_of_module(term, image))
		return 0;
	snprintf(name, sizeof(name), "%.*s", length, term->text);
	nearest = condition_names_nearest(image, name);
	return function_notes_add(notes, err,
				  "the kernel itself has no function '%s'%s%s%s: only one of a "
				  "module can be meant",
				  name, nearest ? " (did you mean '" : "", nearest ? nearest : "",
				  nearest ? "'?)" : "");
}

static int note_names(const struct event_predicate *predicate, unsigned int index,
		      const struct kernel_image *image, struct function_notes *notes,
		      struct error *err)
{
	const struct event_node node = event_predicate_node(predicate, index);
	int ret;

	if (node.kind == FILTER_TERM)
		return note_name(&node, image, notes, err);
	ret = note_names(predicate, node.left, image, notes, err);
	if (ret || node.kind == FILTER_NOT)
		return ret;
	return note_names(predicate, node.right, image, notes, err);
}

/* Those of all classes have the same terms. */
static const struct event_predicate *any_predicate(const struct kmem_filter *f)
{
	size_t i = 0;

	while (!f->predicates[i])
		i++;
	return f->predicates[i];
}

static int note_all(const struct kmem_filter *f, const struct kernel *kernel,
		    struct function_notes *notes, struct error *err)
{
	const struct event_predicate *predicate = any_predicate(f);
	const unsigned int root = event_predicate_root(predicate);
	int ret = note_names(predicate, root, kernel->image, notes, err);

	if (ret || !(kernel->guest->caps & GUEST_STOPS_TO_READ) ||
	    !asks_for_module(predicate, root, kernel->image))
		return ret;
	return function_notes_add(notes, err,
				  "the condition matches no functions of modules by name: their "
				  "names are not read while this guest is traced, as each read "
				  "stops it; choose by them when you read the trace");
}

int kmem_filter_note(const struct trace_spec *spec, const struct kernel *kernel,
		     struct function_notes *notes, struct error *err)
{
	struct kmem_filter *f;
	int ret;

	if (!spec->filter)
		return 0;
	ret = create_idle(spec, kernel->image, &f, err);
	if (ret)
		return ret;
	ret = note_all(f, kernel, notes, err);
	kmem_filter_destroy(f);
	return ret;
}

void kmem_filter_destroy(struct kmem_filter *f)
{
	if (!f)
		return;
	for (size_t i = 0; i < KMEM_NR_CLASSES; i++)
		event_predicate_destroy(f->predicates[i]);
	event_filter_destroy(f->filter);
	kernel_names_destroy(f->symbols);
	free(f);
}

bool kmem_filter_matches(struct kmem_filter *f, unsigned int vcpu, const struct kmem_record *record)
{
	enum kmem_class class = kmem_class_of(record);
	const struct event_predicate *predicate = f->predicates[class];
	const struct event event = {.class = &f->classes[class],
				    .vcpu = vcpu,
				    .ns = record->timestamp,
				    .bytes = record};

	f->now_ns = record->timestamp;
	return predicate && event_predicate_matches(predicate, &event);
}
