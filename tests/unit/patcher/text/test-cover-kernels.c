/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Where a jump is put by which a guest without traps asks, in the functions of real Debian kernels
 * that do so: as the file has them, and as a running kernel with CONFIG_X86_KERNEL_IBT has sealed
 * them. Needs tests/testbed/fetch-kernel to have run; $KERNELS_DIR names another directory.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "guest-symbols/image/mcount.h"
#include "patcher/text/traps.h"
#include "tests/lib/fetched-kernel.h"
#include "tests/lib/tap.h"

enum { ENDBR = 4 };

/* As in session/asks.c. */
static const char *const functions[] = {"ftrace_arch_code_modify_prepare", "arch_prepare_kprobe",
					"hibernate_preallocate_memory", "kernel_kexec",
					"do_init_module"};

static const uint8_t endbr[ENDBR] = {0xf3, 0x0f, 0x1e, 0xfa};
/* The second one since 6.15. */
static const uint8_t seals[][ENDBR] = {{0x66, 0x0f, 0x1f, 0x00}, {0x0f, 0x1f, 0x40, 0xd6}};

struct sample {
	const struct kernel *kernel;
	struct decoder *decoder;
	const struct symbol *symbol;
};

static int displace(const struct sample *s, uint64_t place, struct displaced *out,
		    struct error *err)
{
	return function_displace(s->kernel, s->decoder, kernel_gva(s->kernel, s->symbol->address),
				 s->symbol->size, place, out, err);
}

static bool covers_site(const struct kernel *kernel, const struct displaced *d)
{
	const struct kernel_image *image = kernel->image;
	const uint64_t link = kernel_link(kernel, d->gva);

	return site_in_range(image->mcount_sites, image->nr_mcount_sites, link - (SITE_SIZE - 1),
			     link + d->size);
}

static void test_place(const struct sample *s, uint64_t expected, const char *state)
{
	const char *name = s->symbol->name;
	const uint64_t place = oneshot_place(s->kernel, name);
	struct displaced d;
	struct error err = {0};

	ok(place == expected, "%s, %s: the jump is put at +%llu", name, state,
	   (unsigned long long)(place - kernel_gva(s->kernel, s->symbol->address)));
	if (!ok(!displace(s, place, &d, &err) && !covers_site(s->kernel, &d),
		"%s, %s: the jump covers no mcount site", name, state))
		tap_diag("%s", err.text);
}

/* The running kernel has a NOP at the site. */
static void test_sealed(const struct sample *s, uint8_t *bytes, uint64_t expected)
{
	static const uint8_t nop[SITE_SIZE] = {0x0f, 0x1f, 0x44, 0x00, 0x00};
	const uint64_t start = kernel_gva(s->kernel, s->symbol->address);
	const bool has_site = expected > start + ENDBR;
	struct displaced d;
	struct error err = {0};

	if (has_site)
		memcpy(bytes + ENDBR, nop, SITE_SIZE);
	for (size_t i = 0; i < sizeof(seals) / sizeof(seals[0]); i++) {
		memcpy(bytes, seals[i], ENDBR);
		test_place(s, expected, i ? "sealed as since 6.15" : "sealed");
		if (has_site)
			ok(displace(s, start, &d, &err) == -ENOTSUP &&
				   strstr(err.text, "mcount site"),
			   "%s: a jump over its sealed start and its site is refused: %s",
			   s->symbol->name, err.text);
	}
}

static void test_function(const struct sample *s)
{
	uint8_t *bytes =
		s->kernel->image->init_bytes + (s->symbol->address - s->kernel->image->text);
	const uint64_t place = oneshot_place(s->kernel, s->symbol->name);

	test_place(s, place, "as in the file");
	if (!memcmp(bytes, endbr, ENDBR))
		test_sealed(s, bytes, place);
}

static void test_kernel(const struct kernel_image *image, const char *version)
{
	struct fetched_guest guest;
	struct sample s = {.kernel = &guest.kernel};

	if (decoder_create(&s.decoder, NULL))
		abort();
	tap_diag("%s", version);
	fetched_guest_init(&guest, image);
	for (size_t i = 0; i < sizeof(functions) / sizeof(functions[0]); i++) {
		s.symbol = symbols_find(image->symbols, functions[i]);
		if (s.symbol)
			test_function(&s);
	}
	fetched_guest_deinit(&guest);
	decoder_destroy(s.decoder);
}

int main(void)
{
	static const char *const versions[] = {"5.10", "6.1", "6.12", "7.3", NULL};

	return fetched_kernels_test(versions, test_kernel);
}
