/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_VMM_DEVICES_SERIAL_H
#define SONDE_VMM_DEVICES_SERIAL_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "vmm/devices/bus.h"

/*
 * A 16550A UART (National Semiconductor PC16550D data sheet), without a baud rate: a byte is sent
 * as soon as it is written, so that the guest never waits for the line.
 */
enum {
	SERIAL_COM1_PORT = 0x3f8,
	SERIAL_COM1_IRQ = 4,
	SERIAL_NR_PORTS = 8,
	SERIAL_INPUT_SIZE = 1024,
};

/* The outside of the UART. Called with the UART's lock held, on a vCPU's or the caller's thread. */
struct serial_ops {
	void (*set_irq)(void *arg, bool level);
	/* Returns whether at least a FIFO's worth (16 bytes) more can be sent now; if not, the
	 * transmitter reads as busy until serial_output_ready(). */
	bool (*transmit)(void *arg, uint8_t byte);
};

struct serial {
	pthread_mutex_t lock;
	const struct serial_ops *ops;
	void *arg;
	uint8_t ier, lcr, mcr, scr, fcr, dll, dlm;
	bool thre_pending; /* THR-empty interrupt not yet acknowledged */
	bool tx_busy;      /* transmit() said so */
	bool irq_level;
	uint8_t input[SERIAL_INPUT_SIZE]; /* ring of received bytes */
	size_t input_head, input_count;
};

extern const struct bus_ops serial_bus_ops; /* arg: struct serial */

/* A UART as after a reset. `ops`, called with `arg`, must live as long. */
void serial_init(struct serial *serial, const struct serial_ops *ops, void *arg);
void serial_deinit(struct serial *serial);

/*
 * Bytes arriving on the line, from any thread. Returns how many were taken; the rest must be given
 * again later. They stay invisible until the guest enables the receive interrupt, so that
 * its driver's start-up, which empties the receiver, does not eat what was typed ahead.
 */
size_t serial_receive(struct serial *serial, const uint8_t *bytes, size_t n);
/* How many bytes serial_receive() would take now. */
size_t serial_input_space(struct serial *serial);

/* There is room for output again. */
void serial_output_ready(struct serial *serial);

#endif
