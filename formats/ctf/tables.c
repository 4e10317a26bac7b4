/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "formats/ctf/plan.h"

/* clang-format off */
#define ID	{"id", 2, false, false}

const struct ctf_table_layout ctf_tables[CTF_NR_TABLES] = {
	[CTF_TABLE_NEAR] = {"near", {ID, {"address", 4, true, true}}, 6},
	[CTF_TABLE_CODE] = {"code", {ID, {"address", 8, false, true}}, 10},
	[CTF_TABLE_FLAGS] = {"flags", {ID, {"value", 8, false, true}}, 10},
	[CTF_TABLE_STRINGS] = {"strings", {ID, {"text", 0, false, false}}, 2 + 17},
	[CTF_TABLE_CACHES] = {"caches",
			      {ID, {"object_size", 8, false, false},
			       {"size", 8, false, false}, {"name", 0, false, false}},
			      18 + CTF_NAME_MAX + 1},
	[CTF_TABLE_STACKS] = {"stacks", {ID, {"caller", 2, false, false},
					 {"address", 8, false, true}}, 12},
};
