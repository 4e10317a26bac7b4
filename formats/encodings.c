/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The encodings of traces. This file alone knows them; to add one, add a row. */
#include "formats/ctf/ctf.h"
#include "formats/kmemtrace/kmemtrace.h"

/* NAME is what users call an encoder; NAME_encoder are its operations. The first is the default. */
#define ENCODERS(ROW) ROW(ctf) ROW(kmemtrace)

/* In this order; kmemtrace takes whatever has streams. */
#define DECODERS(ROW) ROW(ctf) ROW(ctf_v2) ROW(kmemtrace)

#define NAME(name) #name,
#define ENCODER(name) &name##_encoder,
#define DECODER(name) &name##_decoder,

const char *const trace_encoding_names[] = {ENCODERS(NAME) NULL};
const struct encoder_ops *const trace_encoders[] = {ENCODERS(ENCODER) NULL};
const struct decoder_ops *const trace_decoders[] = {DECODERS(DECODER) NULL};
