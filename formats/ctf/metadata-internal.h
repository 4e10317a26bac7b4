/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_FORMATS_CTF_METADATA_INTERNAL_H
#define SONDE_FORMATS_CTF_METADATA_INTERNAL_H

#include <stdio.h>
#include "formats/ctf/ctf.h"

enum { CTF_VERSION_2 = 2 };

/* The comments that metadata.c writes and metadata-parse.c reads. */
#define CTF_BLOCK_BEGIN "/* sonde: "
#define CTF_BLOCK_END " */"
#define CTF_CRC_BEGIN "/* crc32c: "
#define CTF_CRC_END " */\n"

/* The parts of the text. */
void ctf_metadata_put_string(FILE *out, const char *text);
void ctf_metadata_put_instance(FILE *out, const struct ctf_metadata *metadata, unsigned int number);

#endif
