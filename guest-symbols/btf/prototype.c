/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "guest-symbols/btf/btf-internal.h"

enum { PARAM_WORDS = 2 /* name, type */ };

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

static void append(char *text, size_t size, const char *more)
{
	size_t used = strlen(text);

	snprintf(text + used, size - used, "%s", more);
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
		append(text, size, *type.name ? type.name : "?");
	if (stars[0])
		append(text, size, " ");
	append(text, size, stars);
}

int btf_prototype(const struct btf_types *btf, const char *function, struct btf_prototype *out,
		  struct error *err)
{
	uint32_t id = btf_find(btf, function, BTF_KIND_FUNC, BTF_KIND_FUNC);
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
	out->nr_params = proto.vlen;
	for (uint32_t i = 0; i < proto.vlen; i++) {
		snprintf(out->params[i].name, sizeof(out->params[i].name), "%s",
			 btf_string(btf, btf_item(&proto, i, PARAM_WORDS, 0)));
		spell(btf, btf_item(&proto, i, PARAM_WORDS, 1), out->params[i].type,
		      sizeof(out->params[i].type));
	}
	return 0;
}
