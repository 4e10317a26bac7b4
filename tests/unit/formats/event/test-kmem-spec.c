/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Which specs of the kmem tracer record all of its events. */
#include "formats/event/kmem.h"
#include "tests/lib/tap.h"

int main(void)
{
	static const struct {
		const char *spec;
		bool is_whole;
	} rows[] = {{"kmem", true},
		    {"a=kmem", true},
		    {"kmem:pid", true},
		    {"kmem:pid,tgid,comm,cgroup,stack", true},
		    {"kmem:kmalloc,cache,pages", true},
		    {"kmem:pages, kmalloc ,comm,cache", true},
		    {" kmem:\tkmalloc\t, cache\t,pages ", true},
		    {"cache=kmem", true},
		    {"kmem:pages", false},
		    {"kmem:\tpages", false},
		    {"kmem:cache\t,pid", false},
		    {"kmem:?cache,pid", false},
		    {"kmem:kmalloc,pages", false},
		    {"kmem:pid,cache", false},
		    {"kmem:vcpu=0", false},
		    {"kmem:pid=1+7", false},
		    {"a=kmem:filter=bytes_req > 4", false},
		    {"kmem if bytes_req > 4096", false},
		    {"kmem\tif\tbytes_req > 4096", false},
		    {"kmem?if?cpu > 1", false},
		    {"kmem:pid if\tcpu > 1", false},
		    {"kmem:kmalloc,cache,pages if cpu == 1", false}};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		ok(kmem_spec_is_whole(rows[i].spec) == rows[i].is_whole, "%s %s", rows[i].spec,
		   rows[i].is_whole ? "records all events" : "does not record all events");
	ok(kmem_spec_has_condition("kmem:pid=1") && kmem_spec_has_condition("kmem if cpu > 1") &&
		   !kmem_spec_has_condition("a=kmem:pid,cache"),
	   "words with values and what is behind if are conditions");
	ok(kmem_spec_types("kmem:cache if pages > 1") == 1u << KMEM_TYPE_CACHE &&
		   kmem_spec_types("kmem:pid") == kmem_spec_types("kmem:kmalloc,cache,pages"),
	   "types are those that are named, or all");
	return tap_done();
}
