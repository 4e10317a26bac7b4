/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_TESTS_LIB_JSON_FAULTS_H
#define SONDE_TESTS_LIB_JSON_FAULTS_H

#include <jansson.h>

/*
 * Make a document again and again, while another allocation of jansson's fails each time. Returns
 * how many documents were neither NULL nor the same as without a failure.
 */
unsigned int json_faults(json_t *(*make)(const void *arg), const void *arg);

#endif
