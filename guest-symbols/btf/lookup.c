/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "formats/base/text.h"
#include "guest-symbols/btf/btf-internal.h"

enum {
	MEMBER_WORDS = 3, /* name, type, offset */
	ENUM_WORDS = 2,   /* name, value */
	ENUM64_WORDS = 3, /* name, low, high */
	PARAM_WORDS = 2,  /* name, type */
	/* Members that one lookup may visit: hostile types could nest anonymous ones endlessly. */
	SEARCH_BUDGET = 1 << 16,
};

static bool is_alias(enum btf_kind kind)
{
	return kind == BTF_KIND_TYPEDEF || kind == BTF_KIND_CONST || kind == BTF_KIND_VOLATILE ||
	       kind == BTF_KIND_RESTRICT || kind == BTF_KIND_TYPE_TAG;
}

static uint32_t strip(const struct btf_types *btf, uint32_t id)
{
	struct btf_type type;

	for (int depth = 0; depth < BTF_MAX_DEPTH; depth++) {
		if (!btf_type(btf, id, &type) || !is_alias(type.kind))
			return id;
		id = type.size_or_type;
	}
	return 0;
}

/* sizeof in bytes, 0 if unknown, void, or beyond 32 bits. */
static uint32_t size_of(const struct btf_types *btf, uint32_t id)
{
	struct btf_type type;
	uint64_t elements = 1;

	for (int depth = 0; depth < BTF_MAX_DEPTH; depth++) {
		id = strip(btf, id);
		if (!btf_type(btf, id, &type))
			return 0;
		if (type.kind != BTF_KIND_ARRAY)
			break;
		elements *= btf_item(&type, 0, 0, 2);
		if (elements > UINT32_MAX)
			return 0;
		id = btf_item(&type, 0, 0, 0);
	}
	switch (type.kind) {
	case BTF_KIND_PTR:
		elements *= BTF_POINTER_SIZE;
		break;
	case BTF_KIND_INT:
	case BTF_KIND_STRUCT:
	case BTF_KIND_UNION:
	case BTF_KIND_ENUM:
	case BTF_KIND_ENUM64:
	case BTF_KIND_FLOAT:
		if (__builtin_mul_overflow(elements, type.size_or_type, &elements))
			return 0;
		break;
	default:
		return 0;
	}
	return elements > UINT32_MAX ? 0 : (uint32_t)elements;
}

struct member {
	const char *name;
	uint32_t type;
	uint64_t bit_offset; /* from the start of the outermost struct */
	uint8_t bit_size;
};

static struct member member_at(const struct btf_types *btf, const struct btf_type *type, uint32_t i,
			       uint64_t base)
{
	uint32_t offset = btf_item(type, i, MEMBER_WORDS, 2);

	return (struct member){
		.name = btf_string(btf, btf_item(type, i, MEMBER_WORDS, 0)),
		.type = btf_item(type, i, MEMBER_WORDS, 1),
		/* With the flag set the top byte is the width of a bit-field. */
		.bit_offset = base + (type->kind_flag ? offset & 0xffffff : offset),
		.bit_size = type->kind_flag ? (uint8_t)(offset >> 24) : 0,
	};
}

struct search {
	const struct btf_types *btf;
	const char *name;
	size_t length;
	int budget;
};

static bool find_member(struct search *search, uint32_t id, uint64_t base, int depth,
			struct member *out)
{
	struct btf_type type;

	id = strip(search->btf, id);
	if (depth == BTF_MAX_DEPTH || !btf_type(search->btf, id, &type) ||
	    (type.kind != BTF_KIND_STRUCT && type.kind != BTF_KIND_UNION))
		return false;
	for (uint32_t i = 0; i < type.vlen && search->budget-- > 0; i++) {
		*out = member_at(search->btf, &type, i, base);
		if (!*out->name) {
			if (find_member(search, out->type, out->bit_offset, depth + 1, out))
				return true;
		} else if (!strncmp(out->name, search->name, search->length) &&
			   !out->name[search->length]) {
			return true;
		}
	}
	return false;
}

static void describe(const struct btf_types *btf, const struct member *member,
		     struct btf_field *out)
{
	uint32_t size = size_of(btf, member->type);
	uint64_t unit = member->bit_size && size ? size : 1;
	uint64_t offset = member->bit_offset / 8 / unit * unit;

	*out = (struct btf_field){
		.offset = (uint32_t)offset,
		.size = size,
		.bit_offset = (uint8_t)(member->bit_offset - offset * 8),
		.bit_size = member->bit_size,
	};
}

/* Along a dotted path from a struct; *at is how far it got, and on failure *found what lacks it. */
static bool walk(const struct btf_types *btf, uint32_t id, const char *path, struct member *found,
		 const char **at)
{
	struct search search = {.btf = btf, .budget = SEARCH_BUDGET};
	struct member outer;

	*found = (struct member){.type = id};
	*at = path;
	do {
		search.name = *at;
		search.length = strcspn(*at, ".");
		outer = *found;
		if (!find_member(&search, outer.type, outer.bit_offset, 0, found)) {
			*found = outer;
			return false;
		}
		*at += search.length;
	} while (*(*at)++ == '.');
	return true;
}

static int out_of_range(const char *structure, const char *member, struct error *err)
{
	return error_set(err, EBADMSG, "BTF member %s.%s is out of range", structure, member);
}

int btf_field(const struct btf_types *btf, const char *structure, const char *member,
	      struct btf_field *out, struct error *err)
{
	uint32_t id = btf_find(btf, structure, BTF_KIND_STRUCT, BTF_KIND_UNION);
	struct member found;
	const char *at;

	if (!id)
		return error_set(err, ENOENT, "BTF has no struct %s", structure);
	if (!walk(btf, id, member, &found, &at))
		return error_set(err, ENOENT, "BTF has no member %s in struct %s", member,
				 structure);
	if (found.bit_offset / 8 > UINT32_MAX)
		return out_of_range(structure, member, err);
	describe(btf, &found, out);
	return 0;
}

static const char *keyword(const struct btf_type *type)
{
	switch (type->kind) {
	case BTF_KIND_STRUCT:
		return "struct ";
	case BTF_KIND_UNION:
		return "union ";
	case BTF_KIND_FWD:
		return type->kind_flag ? "union " : "struct ";
	case BTF_KIND_ENUM:
	case BTF_KIND_ENUM64:
		return "enum ";
	case BTF_KIND_CONST:
		return "const ";
	case BTF_KIND_VOLATILE:
		return "volatile ";
	default:
		return "";
	}
}

/* --- values that point to structs ------------------------------------------------------------ */

static bool is_character(const struct btf_types *btf, uint32_t id)
{
	struct btf_type type;

	return btf_type(btf, strip(btf, id), &type) && type.kind == BTF_KIND_INT &&
	       !strcmp(type.name, "char");
}

/* Of an int, the highest byte of the word behind it has BTF_INT_SIGNED in bit 0. */
static enum btf_value_kind kind_of(const struct btf_types *btf, const struct btf_type *type)
{
	switch (type->kind) {
	case BTF_KIND_INT:
		return btf_item(type, 0, 1, 0) >> 24 & 1 ? BTF_VALUE_SIGNED : BTF_VALUE_UNSIGNED;
	case BTF_KIND_ENUM:
	case BTF_KIND_ENUM64:
		return type->kind_flag ? BTF_VALUE_SIGNED : BTF_VALUE_UNSIGNED;
	case BTF_KIND_PTR:
		return BTF_VALUE_POINTER;
	case BTF_KIND_ARRAY:
		return is_character(btf, btf_item(type, 0, 0, 0)) ? BTF_VALUE_TEXT
								  : BTF_VALUE_OTHER;
	default:
		return BTF_VALUE_OTHER;
	}
}

struct btf_value btf_value(const struct btf_types *btf, uint32_t id)
{
	struct btf_type type;

	if (!btf_type(btf, strip(btf, id), &type))
		return (struct btf_value){.kind = BTF_VALUE_OTHER};
	return (struct btf_value){kind_of(btf, &type), size_of(btf, id)};
}

enum { MAX_NAMES = 64, MEMBER_NAME = 128 };

struct member_names {
	const char *v[MAX_NAMES + 1]; /* NULL-terminated */
	size_t n;
	int budget;
};

/* The names in a struct and in its anonymous members. */
static void list_members(const struct btf_types *btf, uint32_t id, int depth,
			 struct member_names *out)
{
	struct btf_type type;

	if (depth == BTF_MAX_DEPTH || !btf_type(btf, strip(btf, id), &type) ||
	    (type.kind != BTF_KIND_STRUCT && type.kind != BTF_KIND_UNION))
		return;
	for (uint32_t i = 0; i < type.vlen && out->n < MAX_NAMES && out->budget-- > 0; i++) {
		const struct member member = member_at(btf, &type, i, 0);

		if (*member.name)
			out->v[out->n++] = member.name;
		else
			list_members(btf, member.type, depth + 1, out);
	}
}

/* `place` in the path `member` is no member of the type `id`. */
static int no_member(const struct btf_types *btf, uint32_t id, const char *member,
		     const char *place, struct error *err)
{
	struct member_names names = {.budget = SEARCH_BUDGET};
	const char *nearest;
	const unsigned int column = (unsigned int)(place - member) + 1;
	struct btf_type type = {.name = ""};
	char name[MEMBER_NAME];

	snprintf(name, sizeof(name), "%.*s", (int)strcspn(place, "."), place);
	if (!btf_type(btf, strip(btf, id), &type) ||
	    (type.kind != BTF_KIND_STRUCT && type.kind != BTF_KIND_UNION))
		return error_set_column(err, ENOENT, column,
					"no struct is in front of the member '%s'", name);
	list_members(btf, id, 0, &names);
	nearest = text_nearest(name, names.v);
	return error_set_column(err, ENOENT, column, "%s%s has no member '%s'%s%s%s",
				keyword(&type), type.name, name, nearest ? ": did you mean '" : "",
				nearest ? nearest : "", nearest ? "'?" : "");
}

/* The struct or union that a pointer points to; 0: it points to none, or is no pointer. */
static uint32_t pointed_struct(const struct btf_types *btf, uint32_t pointer, struct btf_type *out)
{
	struct btf_type type;
	uint32_t target = 0;

	if (btf_type(btf, strip(btf, pointer), &type) && type.kind == BTF_KIND_PTR)
		target = strip(btf, type.size_or_type);
	if (!btf_type(btf, target, out) ||
	    (out->kind != BTF_KIND_STRUCT && out->kind != BTF_KIND_UNION))
		return 0;
	return target;
}

bool btf_is_struct(const struct btf_types *btf, uint32_t id)
{
	struct btf_type type;

	return btf_type(btf, strip(btf, id), &type) &&
	       (type.kind == BTF_KIND_STRUCT || type.kind == BTF_KIND_UNION);
}

static bool is_aligned(const struct btf_types *btf, uint32_t id, uint64_t bit, int depth,
		       int *budget)
{
	struct btf_type type;
	bool aligned = true;

	if (depth == BTF_MAX_DEPTH || !btf_type(btf, strip(btf, id), &type))
		return false;
	if (type.kind == BTF_KIND_ARRAY)
		return is_aligned(btf, btf_item(&type, 0, 0, 0), bit, depth + 1, budget);
	if (type.kind != BTF_KIND_STRUCT && type.kind != BTF_KIND_UNION)
		return bit % (8 * (uint64_t)(size_of(btf, id) ? size_of(btf, id) : 1)) == 0;
	for (uint32_t i = 0; aligned && i < type.vlen; i++) {
		const struct member member = member_at(btf, &type, i, bit);

		if (--*budget < 0)
			return false;
		aligned = member.bit_size ||
			  is_aligned(btf, member.type, member.bit_offset, depth + 1, budget);
	}
	return aligned;
}

bool btf_is_aligned(const struct btf_types *btf, uint32_t id)
{
	int budget = SEARCH_BUDGET;

	return is_aligned(btf, id, 0, 0, &budget);
}

bool btf_points_to_struct(const struct btf_types *btf, uint32_t id)
{
	struct btf_type structure;

	return pointed_struct(btf, id, &structure) != 0;
}

int btf_member(const struct btf_types *btf, uint32_t id, const char *member, struct btf_field *out,
	       uint32_t *type, struct error *err)
{
	struct btf_type structure = {0};
	struct member found;
	const char *at;

	if (!btf_is_struct(btf, id))
		return error_set(err, EINVAL, "no struct is in front of '%s'", member);
	btf_type(btf, strip(btf, id), &structure);
	if (!walk(btf, id, member, &found, &at))
		return no_member(btf, found.type, member, at, err);
	if (found.bit_offset / 8 > UINT32_MAX)
		return out_of_range(structure.name, member, err);
	describe(btf, &found, out);
	*type = found.type;
	return 0;
}

int btf_follow(const struct btf_types *btf, uint32_t pointer, const char *member,
	       struct btf_field *out, uint32_t *type, struct error *err)
{
	struct btf_type structure = {0};
	const uint32_t target = pointed_struct(btf, pointer, &structure);

	if (!target)
		return error_set(err, EINVAL, "no pointer to a struct is in front of '%s'", member);
	return btf_member(btf, target, member, out, type, err);
}

uint32_t btf_struct_size(const struct btf_types *btf, const char *structure)
{
	return size_of(btf, btf_find(btf, structure, BTF_KIND_STRUCT, BTF_KIND_UNION));
}

static int64_t enumerator_value(const struct btf_type *type, uint32_t i)
{
	uint32_t low;

	if (type->kind == BTF_KIND_ENUM64)
		return (int64_t)((uint64_t)btf_item(type, i, ENUM64_WORDS, 2) << 32 |
				 btf_item(type, i, ENUM64_WORDS, 1));
	low = btf_item(type, i, ENUM_WORDS, 1);
	return type->kind_flag ? (int32_t)low : (int64_t)low;
}

int64_t btf_enumerator(const struct btf_types *btf, const char *name, bool *found)
{
	struct btf_type type;

	*found = true;
	for (uint32_t id = 1; btf_type(btf, id, &type); id++) {
		uint32_t words = type.kind == BTF_KIND_ENUM64 ? ENUM64_WORDS : ENUM_WORDS;

		if (type.kind != BTF_KIND_ENUM && type.kind != BTF_KIND_ENUM64)
			continue;
		for (uint32_t i = 0; i < type.vlen; i++)
			if (!strcmp(btf_string(btf, btf_item(&type, i, words, 0)), name))
				return enumerator_value(&type, i);
	}
	*found = false;
	return 0;
}

static void append(char *text, size_t size, const char *more)
{
	size_t used = strlen(text);

	snprintf(text + used, size - used, "%s", more);
}

/* The name of a type. Of integers as gcc writes it, whatever compiled the kernel. */
static const char *name_of(const struct btf_type *type)
{
	static const char *const clang_and_gcc[][2] = {
		{"short", "short int"},
		{"unsigned short", "short unsigned int"},
		{"long", "long int"},
		{"unsigned long", "long unsigned int"},
		{"long long", "long long int"},
		{"unsigned long long", "long long unsigned int"},
	};

	for (size_t i = 0; i < sizeof(clang_and_gcc) / sizeof(clang_and_gcc[0]); i++)
		if (type->kind == BTF_KIND_INT && !strcmp(type->name, clang_and_gcc[i][0]))
			return clang_and_gcc[i][1];
	return *type->name ? type->name : "?";
}

/*
 * Spell a type as C does, qualifiers of what is pointed to in front, one star for each pointer.
 * What C cannot spell that way (a pointer to a function or an array) gets "(*)" or "[]".
 */
static void spell(const struct btf_types *btf, uint32_t id, char *text, size_t size)
{
	char stars[BTF_MAX_DEPTH + 2] = "";
	struct btf_type type = {.name = "void"};

	text[0] = '\0';
	for (int depth = 0; depth < BTF_MAX_DEPTH && btf_type(btf, id, &type); depth++) {
		bool qualifier = type.kind == BTF_KIND_CONST || type.kind == BTF_KIND_VOLATILE;

		if (type.kind == BTF_KIND_PTR) {
			/* Qualifiers seen so far are those of the pointer itself. */
			text[0] = '\0';
			memmove(stars + 1, stars, strlen(stars) + 1);
			stars[0] = '*';
		} else if (qualifier) {
			append(text, size, keyword(&type));
		} else if (type.kind != BTF_KIND_RESTRICT && type.kind != BTF_KIND_TYPE_TAG) {
			break;
		}
		id = type.size_or_type;
	}
	if (!btf_type(btf, id, &type))
		type = (struct btf_type){.name = "void"};
	append(text, size, keyword(&type));
	if (type.kind == BTF_KIND_FUNC_PROTO || type.kind == BTF_KIND_ARRAY)
		append(text, size, type.kind == BTF_KIND_ARRAY ? "[]" : "(*)()");
	else
		append(text, size, name_of(&type));
	if (stars[0])
		append(text, size, " ");
	append(text, size, stars);
}

int btf_prototype(const struct btf_types *btf, const char *function, struct btf_prototype *out,
		  struct error *err)
{
	uint32_t id = btf_find_function(btf, function);
	struct btf_type func, proto;

	*out = (struct btf_prototype){0};
	if (!btf_type(btf, id, &func))
		return error_set(err, ENOENT, "BTF has no function %s", function);
	if (!btf_type(btf, func.size_or_type, &proto) || proto.kind != BTF_KIND_FUNC_PROTO)
		return error_set(err, EBADMSG, "BTF's function %s has no prototype", function);
	if (proto.vlen > BTF_MAX_PARAMS)
		return error_set(err, E2BIG, "BTF's function %s has %u parameters", function,
				 proto.vlen);
	spell(btf, proto.size_or_type, out->return_type, sizeof(out->return_type));
	out->return_type_id = proto.size_or_type;
	out->nr_params = proto.vlen;
	for (uint32_t i = 0; i < proto.vlen; i++) {
		const char *name = btf_string(btf, btf_item(&proto, i, PARAM_WORDS, 0));
		uint32_t type = btf_item(&proto, i, PARAM_WORDS, 1);

		if (!type && !*name) {
			out->is_variadic = true;
			out->nr_params = i;
			break;
		}
		snprintf(out->params[i].name, sizeof(out->params[i].name), "%s", name);
		spell(btf, type, out->params[i].type, sizeof(out->params[i].type));
		out->params[i].size = size_of(btf, type);
		out->params[i].type_id = type;
	}
	return 0;
}

uint32_t btf_returned_struct(const struct btf_types *btf, const char *function, char *name,
			     size_t size)
{
	struct btf_type func, proto, structure;
	uint32_t target;

	*name = '\0';
	if (!btf_type(btf, btf_find_function(btf, function), &func) ||
	    !btf_type(btf, func.size_or_type, &proto) || proto.kind != BTF_KIND_FUNC_PROTO)
		return 0;
	target = pointed_struct(btf, proto.size_or_type, &structure);
	if (!target || !*structure.name)
		return 0;
	if ((size_t)snprintf(name, size, "%s%s", keyword(&structure), structure.name) < size)
		return size_of(btf, target);
	*name = '\0';
	return 0;
}
