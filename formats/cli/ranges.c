/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Options whose values are lists or ranges (options.h). */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "formats/cli/cli.h"
#include "formats/cli/options.h"

int cli_store_vcpus(const char *verb, const struct cli_option *option, const char *text,
		    void *field)
{
	struct cli_vcpus *vcpus = field;
	const char *at = text;

	*vcpus = (struct cli_vcpus){.some = true};
	for (;;) {
		char *end;
		unsigned long first = strtoul(at, &end, 10), last = first;

		if (end != at && *end == '-') {
			at = end + 1;
			last = strtoul(at, &end, 10);
		}
		if (end == at || first > last || last >= CLI_MAX_VCPUS || (*end && *end != ','))
			return cli_usage(verb, "%s: '%s' is not a list such as 0,2-3",
					 cli_label(option).text, text);
		for (unsigned long i = first; i <= last; i++)
			vcpus->listed[i] = true;
		if (!*end)
			return CLI_OK;
		at = end + 1;
	}
}

int cli_vcpus_check(const struct cli_vcpus *vcpus, unsigned int end, struct error *err)
{
	if (!vcpus->some || !end)
		return 0;
	for (unsigned int i = 0; i < end && i < CLI_MAX_VCPUS; i++)
		if (vcpus->listed[i])
			return 0;
	return error_set(err, EINVAL, "--vcpu: the trace has none of these: it has %u, from 0 on",
			 end);
}

/* One end of a range in seconds, up to `stop`; nothing leaves *ns alone. */
static bool parse_seconds(const char *text, const char *stop, int64_t *ns)
{
	const double ns_per_s = 1e9, most = 9e9;
	char *end;
	double seconds;

	if (text == stop)
		return true;
	seconds = strtod(text, &end);
	if (end != stop || !(seconds >= -most && seconds <= most))
		return false;
	*ns = (int64_t)(seconds * ns_per_s + (seconds < 0 ? -0.5 : 0.5));
	return true;
}

int cli_store_time_range(const char *verb, const struct cli_option *option, const char *text,
			 void *field)
{
	struct cli_time_range *range = field;
	const char *comma = strchr(text, ',');

	*range = CLI_ALL_TIME;
	if (comma && parse_seconds(text, comma, &range->from_ns) &&
	    parse_seconds(comma + 1, comma + strlen(comma), &range->to_ns) &&
	    range->from_ns <= range->to_ns)
		return CLI_OK;
	return cli_usage(verb, "%s: '%s' is not a range of seconds such as 5,10 or 2.5,",
			 cli_label(option).text, text);
}

int cli_store_since(const char *verb, const struct cli_option *option, const char *text,
		    void *field)
{
	const char *end = text + strlen(text);
	int64_t ns;

	if (strcmp(text, "init") && (!*text || !parse_seconds(text, end, &ns)))
		return cli_usage(verb, "%s takes init, not '%s'", cli_label(option).text, text);
	if (strcmp(text, "init"))
		return cli_usage(verb, "%s takes init, not '%s'; for a time, use --time %s,",
				 cli_label(option).text, text, text);
	*(bool *)field = true;
	return CLI_OK;
}
