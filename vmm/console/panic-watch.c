// SPDX-License-Identifier: GPL-2.0-or-later
#include "vmm/console/panic-watch.h"

static const char marker[] = "Kernel panic - not syncing: ";

static void feed_reason(struct panic_watch *watch, uint8_t byte)
{
	if (byte == '\r' || byte == '\n') {
		watch->complete = true;
		return;
	}
	if (watch->length + 1 < PANIC_REASON_SIZE)
		watch->reason[watch->length++] = byte >= 0x20 && byte < 0x7f ? (char)byte : '?';
}

void panic_watch_feed(struct panic_watch *watch, uint8_t byte)
{
	if (watch->found) {
		if (!watch->complete)
			feed_reason(watch, byte);
		return;
	}
	/* 'K' occurs in the marker only at its start, so a mismatch can only restart there. */
	if (byte != (uint8_t)marker[watch->matched])
		watch->matched = 0;
	if (byte == (uint8_t)marker[watch->matched])
		watch->matched++;
	if (watch->matched == sizeof(marker) - 1)
		watch->found = true;
}
