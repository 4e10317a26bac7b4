/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "introspect/kernel/kernel.h"

#include <errno.h>

int orc_frame(const struct kernel *kernel, uint64_t ip_gva, uint64_t *size, struct error *err)
{
	const struct orc_table *table = &kernel->known.orc;
	struct orc_entry entry;

	if (!table->n)
		return error_set(err, ENOTSUP, "the kernel has no ORC tables");
	if (!kernel_in_image(kernel, ip_gva - 1))
		return error_set_at(err, ENOENT, ip_gva, "not in the kernel image");
	if (!orc_table_is_usable(table) ||
	    !orc_table_find(table, kernel_link(kernel, ip_gva - 1), &entry))
		return error_set_at(err, ENOENT, ip_gva, "no ORC entry");
	if (entry.sp_base != ORC_BASE_SP || entry.kind != ORC_KIND_CALL ||
	    entry.sp_offset < (int16_t)sizeof(uint64_t))
		return error_set_at(err, ENOTSUP, ip_gva, "the frame is not addressed through RSP");
	*size = (uint64_t)entry.sp_offset;
	return 0;
}

int orc_caller(const struct kernel *kernel, uint64_t ip_gva, uint64_t sp, uint64_t *caller_ip,
	       uint64_t *caller_sp, struct error *err)
{
	uint64_t size = 0, cfa;
	int ret = orc_frame(kernel, ip_gva, &size, err);

	if (ret)
		return ret;
	cfa = sp + size;
	if (cfa < sp)
		return error_set_at(err, EFAULT, sp, "not a stack address");
	*caller_sp = cfa;
	return kernel_read(kernel, cfa - sizeof(uint64_t), caller_ip, sizeof(*caller_ip), err);
}
