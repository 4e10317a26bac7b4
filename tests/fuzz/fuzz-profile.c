/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <stdlib.h>
#include <string.h>
#include "formats/profile/profiles.h"

/* Documents that are profiles: compared with themselves, ordered, printed, and read again. */
static void use(struct profile_set *set, const struct profile_set *same)
{
	const struct profile_text_options options = {.top = 3, .histogram = true};
	json_t *document = profile_set_json(set);
	struct profile_set again;
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);

	if (!document || profile_set_parse(document, &again, NULL))
		abort();
	profile_set_deinit(&again);
	json_decref(document);
	for (enum profile_key key = PROFILE_BY_TOTAL; key <= PROFILE_BY_NAME; key++)
		profile_set_sort(set, key);
	if (out) {
		profile_set_print(out, set, &options);
		fclose(out);
	}
	free(text);
	profile_set_subtract(set, same, NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	json_t *document = json_loadb((const char *)data, size, 0, NULL);
	struct profile_set set, same;

	if (!document)
		return 0;
	if (!profile_set_parse(document, &set, NULL)) {
		if (profile_set_parse(document, &same, NULL))
			abort();
		use(&set, &same);
		profile_set_deinit(&same);
		profile_set_deinit(&set);
	}
	json_decref(document);
	return 0;
}
