/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The types of a loaded module, and what is said of a guest that has none, or damaged ones. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "formats/base/budget.h"
#include "introspect/kernel/module-btf.h"
#include "tests/lib/fake-module-btf.h"
#include "tests/lib/tap.h"

enum {
	MODULE_GPA = FAKE_HEAP_GPA,
	KALLSYMS_GPA = FAKE_HEAP_GPA + 0x1000,
	BTF_GPA = FAKE_HEAP_GPA + 0x2000,
	STRUCT_GPA = BTF_GPA + FAKE_STRUCT_BTF,
	SECONDS = 60, /* for what takes far less than one */
};

static const struct fake_struct structs[] = {
	{"brd_device", 96, {{"number", 8, 4, 0, 0}, {"pages", 16, 8, 0, 0}}},
	{NULL, 0, {{NULL, 0, 0, 0, 0}}},
};
static const char *const prototypes[] = {
	"int brd_insert_page(struct brd_device *brd, sector_t sector, gfp_t gfp)", NULL};

static struct fake_kernel fake;
static struct budget budget;

static void create(void)
{
	if (fake_kernel_create(&fake, FAKE_6_12, 4))
		abort();
	budget_init(&budget, BUDGET_OF_A_GUEST);
	fake.kernel.guest->budget = &budget;
	fake_put_module(&fake, MODULE_GPA, "brd", 0xffffffffc0100000ull, 0x1000, KALLSYMS_GPA);
	fake_put_module_btf(&fake, MODULE_GPA, BTF_GPA, structs, prototypes);
}

static void end(void)
{
	is_u64(budget.used, 0, "the guest's budget has all back");
	fake_kernel_destroy(&fake);
}

/* The error of reading the types of `module`: its code, and its text in *err. */
static int refused(const char *module, struct error *err)
{
	struct module_btf btf;
	int ret = module_btf_read(&fake.kernel, module, &btf, err);

	if (!ret)
		module_btf_deinit(&btf);
	return -ret;
}

static void test_found(void)
{
	struct module_btf btf;
	struct btf_prototype p;
	struct error err = {0};
	struct btf_field field;

	create();
	ok(!module_btf_check(&fake.image, &err), "a kernel keeps types of its modules");
	ok(!module_btf_read(&fake.kernel, "brd", &btf, &err), "those of a module are read (%s)",
	   err.text);
	ok(!btf_prototype(btf.types, "brd_insert_page", &p, &err) && p.nr_params == 3,
	   "they have its function (%s)", err.text);
	is_str(p.params[1].name, "sector", "with the names of parameters");
	ok(!btf_field(btf.types, "brd_device", "pages", &field, &err) && field.offset == 16,
	   "and its struct");
	ok(!btf_field(btf.types, "task_struct", "pid", &field, &err) &&
		   field.offset == FAKE_TASK_PID,
	   "and those of the kernel");
	ok(budget.used > 0, "they are part of the guest's budget");
	module_btf_deinit(&btf);
	end();
}

static void test_missing(void)
{
	static const char map[] = "ffffffff81000000 T _text\nffffffff81011020 D modules\n";
	struct error err;

	create();
	is_u64(refused("brx", &err), ENOENT, "a module that is not loaded has no types");
	is_str(err.text, "module 'brx': it is not loaded", "the error says so");
	fake_put64(&fake, BTF_GPA + FAKE_LISTED_MODULE, fake_direct(MODULE_GPA) + 64);
	is_u64(refused("brd", &err), ENODATA, "one may be loaded without types");
	is_str(err.text, "module 'brd': the kernel has no types of it", "the error says so");
	fake_clear_module_btf(&fake);
	is_u64(refused("brd", &err), ENODATA, "the list may be empty");
	if (fake_kernel_set_symbols(&fake, map, sizeof(map) - 1))
		abort();
	is_u64(refused("brd", &err), ENOTSUP, "a kernel may keep none");
	ok(strstr(err.text, "CONFIG_DEBUG_INFO_BTF_MODULES") && err.text[0] == 't',
	   "the error says what it lacks: %s", err.text);
	end();
}

static void test_damaged(void)
{
	struct error err;

	create();
	fake_put32(&fake, STRUCT_GPA + FAKE_BTF_START_ID, 7);
	is_u64(refused("brd", &err), EBADMSG, "types that go on elsewhere are refused");
	ok(strstr(err.text, "go on from id 7"), "%s", err.text);
	end();
	create();
	fake_put32(&fake, STRUCT_GPA + FAKE_BTF_SIZE, 40);
	is_u64(refused("brd", &err), EBADMSG, "types that are cut off are refused");
	is_str(err.text, "module 'brd': BTF is truncated", "the error says so");
	fake_put32(&fake, STRUCT_GPA + FAKE_BTF_SIZE, 0);
	is_u64(refused("brd", &err), EBADMSG, "and those of no bytes");
	fake_put32(&fake, STRUCT_GPA + FAKE_BTF_SIZE, UINT32_MAX);
	is_u64(refused("brd", &err), E2BIG, "and those of 4 GiB");
	fake_put32(&fake, STRUCT_GPA + FAKE_BTF_SIZE, 0x1000);
	fake_put64(&fake, STRUCT_GPA + FAKE_BTF_DATA, 0x1000);
	is_u64(refused("brd", &err), EFAULT, "and those that are not mapped");
	fake_put64(&fake, BTF_GPA + FAKE_LISTED_BTF, 8);
	is_u64(refused("brd", &err), EFAULT, "as those that have no place");
	fake_put64(&fake, BTF_GPA + FAKE_LISTED_MODULE, 0);
	fake_put64(&fake, BTF_GPA + FAKE_LISTED_LIST, fake_direct(BTF_GPA) + FAKE_LISTED_LIST);
	alarm(SECONDS);
	is_u64(refused("brd", &err), ENODATA, "the search in a list that leads to itself ends");
	alarm(0);
	fake_put64(&fake, BTF_GPA + FAKE_LISTED_LIST, 0);
	is_u64(refused("brd", &err), EFAULT, "and that in one that leads nowhere");
	end();
}

static void test_budget(void)
{
	struct error err;

	create();
	budget_init(&budget, 300);
	is_u64(refused("brd", &err), ENOMEM, "the guest's budget may be too small for the bytes");
	budget_init(&budget, 1000);
	is_u64(refused("brd", &err), ENOMEM, "or for what they become");
	end();
}

int main(void)
{
	test_found();
	test_missing();
	test_damaged();
	test_budget();
	return tap_done();
}
