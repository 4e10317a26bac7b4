/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Model files: lines KEY = VALUE, and sections for caches. sonde-replay(1) describes them. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "formats/allocators/model.h"
#include "formats/base/glob.h"
#include "formats/base/text.h"

enum { LINE_ROOM = 512 };

/* --- keys ------------------------------------------------------------------------------------ */

struct key {
	const char *name;
	size_t offset; /* in struct model, or struct cache_params */
	bool of_caches, takes_auto, is_flag, is_power;
	int64_t min, max;
};

#define MODEL_KEY(name_, ...)                                                        \
	{                                                                            \
		.name = #name_, .offset = offsetof(struct model, name_), __VA_ARGS__ \
	}
#define CACHE_KEY(name_, ...)                                                                      \
	{                                                                                          \
		.name = #name_, .offset = offsetof(struct cache_params, name_), .of_caches = true, \
		__VA_ARGS__                                                                        \
	}

static const struct key keys[] = {
	MODEL_KEY(cpus, .takes_auto = true, .min = 1, .max = 4096),
	MODEL_KEY(nodes, .min = 1, .max = 64),
	MODEL_KEY(order_relaxes, .is_flag = true),
	MODEL_KEY(partial_objects, .is_flag = true),
	MODEL_KEY(merge, .is_flag = true),
	MODEL_KEY(kmalloc_copies, .min = 1, .max = 64),
	MODEL_KEY(kmalloc_buckets, .is_flag = true),
	CACHE_KEY(align, .takes_auto = true, .is_power = true, .min = 1, .max = MODEL_PAGE_SIZE),
	CACHE_KEY(extra, .max = 65536),
	CACHE_KEY(order, .takes_auto = true, .max = MODEL_MAX_ORDER),
	CACHE_KEY(order_max, .max = MODEL_MAX_ORDER),
	CACHE_KEY(min_objects, .takes_auto = true, .min = 1, .max = 32767),
	CACHE_KEY(cpu_partial, .takes_auto = true, .max = 65536),
	CACHE_KEY(min_partial, .takes_auto = true, .max = 65536),
	CACHE_KEY(sheaf, .takes_auto = true, .max = 4096),
	CACHE_KEY(prefilled, .is_flag = true),
	CACHE_KEY(cpu_array, .takes_auto = true, .min = 1, .max = 65536),
};
enum { NR_KEYS = sizeof(keys) / sizeof(keys[0]) };

/* A file that is being read. */
struct parser {
	const char *file;
	unsigned int line;
	char section[64]; /* the glob; "": none yet */
	bool has_keys;    /* a line other than base came */
	struct model *model;
	struct error *err;
};

#define FAIL(p, ...) fail(p, EINVAL, __VA_ARGS__)
__attribute__((format(printf, 3, 4))) static int fail(struct parser *p, int code,
						      const char *format, ...)
{
	char text[300];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	clean_line(text);
	return error_set(p->err, code, "%s:%u: %s", p->file, p->line, text);
}

static const struct key *find_key(const char *name)
{
	for (size_t i = 0; i < NR_KEYS; i++) {
		if (!strcmp(keys[i].name, name))
			return &keys[i];
	}
	return NULL;
}

static int unknown_key(struct parser *p, const char *name)
{
	const char *names[NR_KEYS + 3] = {"base", "kmalloc_sizes"};
	const char *near;

	for (size_t i = 0; i < NR_KEYS; i++)
		names[i + 2] = keys[i].name;
	near = text_nearest(name, names);
	if (near)
		return FAIL(p, "there is no parameter '%s': did you mean '%s'?", name, near);
	return FAIL(p, "there is no parameter '%s'; sonde-replay(1) lists them", name);
}

/* --- values ---------------------------------------------------------------------------------- */

static int parse_flag(struct parser *p, const char *name, const char *text, int64_t *out)
{
	*out = !strcmp(text, "yes");
	return *out || !strcmp(text, "no") ? 0
					   : FAIL(p, "%s takes yes or no, not '%s'", name, text);
}

static int parse_number(struct parser *p, const struct key *key, const char *text, int64_t *out)
{
	uint64_t value;

	if (key->is_flag)
		return parse_flag(p, key->name, text, out);
	if (key->takes_auto && !strcmp(text, "auto")) {
		*out = MODEL_AUTO;
		return 0;
	}
	if (text_parse_u64(text, (uint64_t)key->max, &value) || value < (uint64_t)key->min)
		return FAIL(p, "%s takes a number from %lld to %lld%s, not '%s'", key->name,
			    (long long)key->min, (long long)key->max,
			    key->takes_auto ? " or auto" : "", text);
	if (key->is_power && (value & (value - 1)))
		return FAIL(p, "%s takes a power of 2, not '%s'", key->name, text);
	*out = (int64_t)value;
	return 0;
}

/* "guest", or numbers in ascending order. */
static int parse_sizes(struct parser *p, char *text)
{
	struct model *model = p->model;
	char *rest = NULL;

	model->nr_kmalloc_sizes = 0;
	if (!strcmp(text, "guest"))
		return 0;
	for (char *word = strtok_r(text, " \t,", &rest); word;
	     word = strtok_r(NULL, " \t,", &rest)) {
		const size_t n = model->nr_kmalloc_sizes;
		uint64_t size;

		if (n == MODEL_MAX_SIZES)
			return FAIL(p, "kmalloc_sizes takes at most %d sizes", MODEL_MAX_SIZES);
		if (text_parse_u64(word, MODEL_PAGE_SIZE << MODEL_MAX_ORDER, &size) || size < 8)
			return FAIL(p, "kmalloc_sizes takes numbers from 8 to %d, not '%s'",
				    MODEL_PAGE_SIZE << MODEL_MAX_ORDER, word);
		if (n && size <= model->kmalloc_sizes[n - 1])
			return FAIL(p, "kmalloc_sizes: %s does not follow %u in ascending order",
				    word, model->kmalloc_sizes[n - 1]);
		model->kmalloc_sizes[model->nr_kmalloc_sizes++] = (uint32_t)size;
	}
	return model->nr_kmalloc_sizes ? 0 : FAIL(p, "kmalloc_sizes has no value");
}

/* --- lines ----------------------------------------------------------------------------------- */

static int set_base(struct parser *p, const char *value)
{
	char name[sizeof(p->model->name)];
	struct error why;
	int ret;

	if (p->has_keys || p->section[0])
		return FAIL(p, "base comes before all other parameters");
	memcpy(name, p->model->name, sizeof(name));
	ret = model_find(value, p->model, &why);
	memcpy(p->model->name, name, sizeof(name));
	return ret ? FAIL(p, "%s", why.text) : 0;
}

static int add_rule(struct parser *p, const struct key *key, int64_t value)
{
	struct model *model = p->model;
	struct model_rule *rule = &model->rules[model->nr_rules];

	if (!key->of_caches)
		return FAIL(p, "%s is for the whole model: write it before the first section",
			    key->name);
	if (model->nr_rules == MODEL_MAX_RULES)
		return fail(p, E2BIG, "sections may have at most %d parameters in all",
			    MODEL_MAX_RULES);
	memcpy(rule->glob, p->section, sizeof(rule->glob));
	rule->offset = (uint16_t)key->offset;
	rule->value = value;
	model->nr_rules++;
	return 0;
}

static int set_key(struct parser *p, const char *name, char *value)
{
	const struct key *key = find_key(name);
	char *base = (char *)p->model;
	int64_t number = 0;
	int ret;

	if (!strcmp(name, "base"))
		return set_base(p, value);
	p->has_keys = true;
	if (!strcmp(name, "kmalloc_sizes"))
		return p->section[0] ? FAIL(p, "kmalloc_sizes is for the whole model: write it "
					       "before the first section")
				     : parse_sizes(p, value);
	if (!key)
		return unknown_key(p, name);
	ret = parse_number(p, key, value, &number);
	if (ret)
		return ret;
	if (p->section[0])
		return add_rule(p, key, number);
	if (key->of_caches)
		base = (char *)&p->model->cache;
	memcpy(base + key->offset, &number, sizeof(number));
	return 0;
}

static int begin_section(struct parser *p, char *text)
{
	const size_t length = strlen(text);

	if (text[length - 1] != ']' || length < 3)
		return FAIL(p, "a section is [CACHE], with a cache's name or a glob");
	text[length - 1] = '\0';
	if (length - 1 > sizeof(p->section))
		return FAIL(p, "the name of a section has at most %zu characters",
			    sizeof(p->section) - 1);
	snprintf(p->section, sizeof(p->section), "%s", text + 1);
	if (glob_fault(p->section))
		return FAIL(p, "[%s] is no glob: it has '[' without ']', or a backslash at its end",
			    p->section);
	return 0;
}

static char *trimmed(char *text)
{
	char *end = text + strlen(text);

	while (end > text && strchr(" \t\r", end[-1]))
		end--;
	*end = '\0';
	return text + strspn(text, " \t");
}

static int parse_line(struct parser *p, char *line)
{
	char *text, *equals;

	line[strcspn(line, "#")] = '\0';
	text = trimmed(line);
	if (!*text)
		return 0;
	if (*text == '[')
		return begin_section(p, text);
	equals = strchr(text, '=');
	if (!equals)
		return FAIL(p, "'%s' is no line KEY = VALUE", text);
	*equals = '\0';
	return set_key(p, trimmed(text), trimmed(equals + 1));
}

int model_parse(const char *file, const char *text, size_t size, struct model *out,
		struct error *err)
{
	struct parser p = {.file = file, .model = out, .err = err};
	int ret = model_find("slub-6.1", out, err);

	snprintf(out->name, sizeof(out->name), "%s", file);
	for (size_t at = 0; !ret && at < size;) {
		const char *end = memchr(text + at, '\n', size - at);
		const size_t length = end ? (size_t)(end - text) - at : size - at;
		char line[LINE_ROOM];

		p.line++;
		if (length >= sizeof(line))
			return FAIL(&p, "a line has at most %d characters", LINE_ROOM - 1);
		memcpy(line, text + at, length);
		line[length] = '\0';
		if (strlen(line) != length)
			return FAIL(&p, "the line has a byte 0: this is no text file");
		ret = parse_line(&p, line);
		at += length + 1;
	}
	return ret;
}

/* --- files ----------------------------------------------------------------------------------- */

static int load_file(const char *path, struct model *out, struct error *err)
{
	FILE *file = fopen(path, "re");
	char *text = file ? malloc(MODEL_MAX_FILE + 1) : NULL;
	size_t size;
	int ret;

	if (!text) {
		ret = file ? ENOMEM : errno;
		if (file)
			fclose(file);
		return error_set(err, ret, "%s: %s", path, strerror(ret));
	}
	size = fread(text, 1, MODEL_MAX_FILE + 1, file);
	if (ferror(file))
		ret = error_set(err, errno, "%s: %s", path, strerror(errno));
	else if (size > MODEL_MAX_FILE)
		ret = error_set(err, E2BIG, "%s: a model has at most %d bytes", path,
				MODEL_MAX_FILE);
	else
		ret = model_parse(path, text, size, out, err);
	free(text);
	fclose(file);
	return ret;
}

int model_load(const char *name, struct model *out, struct error *err)
{
	return strchr(name, '/') ? load_file(name, out, err) : model_find(name, out, err);
}

struct cache_params model_cache_params(const struct model *model, const char *cache)
{
	struct cache_params params = model->cache;

	for (size_t i = 0; i < model->nr_rules; i++) {
		const struct model_rule *rule = &model->rules[i];

		if (glob_matches(rule->glob, cache))
			memcpy((char *)&params + rule->offset, &rule->value, sizeof(rule->value));
	}
	return params;
}
