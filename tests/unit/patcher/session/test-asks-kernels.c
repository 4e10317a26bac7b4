/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The functions of Debian's kernels by which a guest without traps asks: each has room for a jump. */
#include <stdlib.h>
#include "patcher/session/internal.h"
#include "tests/lib/fetched-kernel.h"
#include "tests/lib/tap.h"

static void test_kernel(const struct kernel_image *image, const char *version)
{
	struct fetched_guest guest;

	fetched_guest_init(&guest, image);
	for (enum session_ask kind = 0; kind < SESSION_ASKS; kind++) {
		const char *function = session_ask_function(kind);
		const struct symbol *symbol = symbols_find(image->symbols, function);
		struct error err = {0};
		struct displaced place;

		ok(symbol && !function_displace(
				     &guest.kernel, guest.decoder,
				     kernel_gva(&guest.kernel, symbol->address), symbol->size,
				     oneshot_place(&guest.kernel, function), &place, &err),
		   "%s: %s() can ask: %s", version, function, err.text);
	}
	fetched_guest_deinit(&guest);
}

int main(void)
{
	static const char *const versions[] = {"5.10", "6.1", "6.12", "6.12-rt", "6.17",
					       "7.0",  "7.2", "7.3",  NULL};

	return fetched_kernels_test(versions, test_kernel);
}
