// SPDX-License-Identifier: GPL-2.0-or-later
#include "vmm/devices/serial.h"

#include <string.h>
#include "tests/lib/tap.h"

struct line {
	struct serial serial;
	bool irq;
	unsigned int edges; /* rising */
	char sent[64];
	size_t n, room;
};

static void set_irq(void *arg, bool level)
{
	struct line *line = arg;

	line->edges += level && !line->irq;
	line->irq = level;
}

static bool transmit(void *arg, uint8_t byte)
{
	struct line *line = arg;

	line->sent[line->n++] = (char)byte;
	return line->n < line->room;
}

static const struct serial_ops ops = {.set_irq = set_irq, .transmit = transmit};

static uint8_t in(struct line *line, uint64_t reg)
{
	uint8_t value = 0xff;

	serial_bus_ops.read(&line->serial, reg, &value, 1);
	return value;
}

static void out(struct line *line, uint64_t reg, uint8_t value)
{
	serial_bus_ops.write(&line->serial, reg, &value, 1);
}

static void setup(struct line *line)
{
	*line = (struct line){.room = sizeof(line->sent)};
	serial_init(&line->serial, &ops, line);
}

/* What a driver's probing finds out: Linux 8250_port.c, autoconfig(). */
static void test_detection(void)
{
	struct line line;

	setup(&line);
	out(&line, 7, 0xa5);
	is_u64(in(&line, 7), 0xa5, "scratch register");
	out(&line, 1, 0xff);
	is_u64(in(&line, 1), 0x0f, "only four interrupt enables exist");
	out(&line, 1, 0);
	is_u64(in(&line, 2) >> 6, 0, "FIFO off: 8250 or 16450");
	out(&line, 2, 1);
	is_u64(in(&line, 2) >> 6, 3, "FIFO on: 16550A");
	out(&line, 4, 0x1a);
	is_u64(in(&line, 6) & 0xf0, 0x90, "loop-back of RTS and OUT2 to CTS and DCD");
	out(&line, 4, 0x0b);
	is_u64(in(&line, 6) & 0xf0, 0xb0, "a terminal is connected");
	out(&line, 3, 0x83);
	out(&line, 0, 0x0c);
	out(&line, 1, 0x01);
	ok(in(&line, 0) == 0x0c && in(&line, 1) == 0x01, "divisor latch");
	out(&line, 3, 0x03);
	is_u64(in(&line, 1), 0, "and the registers behind it are untouched");
	is_u64(line.n, 0, "probing sends nothing");
	serial_deinit(&line.serial);
}

static void test_output(void)
{
	struct line line;

	setup(&line);
	is_u64(in(&line, 5), 0x60, "transmitter empty");
	out(&line, 0, 'x');
	ok(line.n == 1 && line.sent[0] == 'x', "a byte goes out");
	ok(!line.irq, "no interrupt unless enabled");
	out(&line, 1, 2);
	ok(line.irq, "enabling the interrupt raises it at once");
	is_u64(in(&line, 2) & 0xf, 2, "identified as THR empty");
	ok(!line.irq && (in(&line, 2) & 0xf) == 1, "and thereby acknowledged");
	out(&line, 1, 0);
	out(&line, 1, 2);
	is_u64(in(&line, 2) & 0xf, 2, "enabling it again raises it again");
	line.edges = 0;
	for (int i = 0; i < 16; i++)
		out(&line, 0, 'y');
	is_u64(line.edges, 1, "one interrupt for a FIFO's worth");
	serial_deinit(&line.serial);
}

static void test_congestion(void)
{
	struct line line;

	setup(&line);
	line.room = 2;
	out(&line, 1, 2);
	in(&line, 2);
	out(&line, 0, 'a');
	in(&line, 2);
	out(&line, 0, 'b');
	is_u64(in(&line, 5) & 0x60, 0, "busy when the host does not take more");
	ok(!line.irq, "and no interrupt");
	serial_output_ready(&line.serial);
	ok(line.irq && (in(&line, 5) & 0x60) == 0x60, "ready again, with an interrupt");
	serial_deinit(&line.serial);
}

static void test_input(void)
{
	struct line line;
	uint8_t many[SERIAL_INPUT_SIZE + 5];

	setup(&line);
	is_u64(serial_receive(&line.serial, (const uint8_t *)"hi", 2), 2, "two bytes typed ahead");
	is_u64(in(&line, 5) & 1, 0, "not seen while the receive interrupt is off");
	is_u64(in(&line, 0), 0, "so a driver's start-up cannot eat them");
	ok(!line.irq, "no interrupt yet");
	out(&line, 1, 1);
	ok(line.irq && (in(&line, 2) & 0xf) == 4, "interrupt once enabled");
	is_u64(in(&line, 0), 'h', "first byte");
	ok(line.irq, "still pending");
	is_u64(in(&line, 0), 'i', "second byte");
	ok(!line.irq && !(in(&line, 5) & 1), "empty");
	memset(many, 'z', sizeof(many));
	is_u64(serial_receive(&line.serial, many, sizeof(many)), SERIAL_INPUT_SIZE,
	       "takes no more than fits");
	is_u64(serial_input_space(&line.serial), 0, "full");
	in(&line, 0);
	is_u64(serial_input_space(&line.serial), 1, "room for one");
	serial_deinit(&line.serial);
}

static void test_loopback(void)
{
	struct line line;

	setup(&line);
	out(&line, 1, 1);
	out(&line, 4, 0x10);
	out(&line, 0, 'l');
	is_u64(in(&line, 0), 'l', "loop-back gives the byte back");
	is_u64(line.n, 0, "and sends nothing");
	serial_deinit(&line.serial);
}

int main(void)
{
	test_detection();
	test_output();
	test_congestion();
	test_input();
	test_loopback();
	return tap_done();
}
