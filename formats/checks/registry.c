/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The checks. This file alone knows them; to add one, add a row. */
#include "formats/checks/check.h"

/* check_NAME are a check's operations. In the order of output. */
#define CHECKS(ROW) ROW(kmem_records) ROW(time) ROW(kmem_lives) ROW(kmem_patterns) ROW(streams)

#define DECLARE(name) extern const struct check_ops check_##name;
#define CHECK(name) &check_##name,

CHECKS(DECLARE)

const struct check_ops *const check_table[] = {CHECKS(CHECK) NULL};
