/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The UART, driven as the guest's driver does, with a host that records what it is asked for. */
#include <errno.h>
#include <string.h>
#include "tests/lib/tap.h"
#include "vmm/devices/models.h"

enum { INPUT_SIZE = 1024 };

struct line {
	struct bus ports;
	struct device_host host;
	void *device;
	bool irq;
	unsigned int edges; /* rising */
	char sent[64];
	size_t n, room;
};

static void set_irq(void *arg, unsigned int irq, bool level)
{
	struct line *line = arg;

	if (irq != COM1_IRQ)
		return;
	line->edges += level && !line->irq;
	line->irq = level;
}

static bool transmit(void *arg, uint8_t byte)
{
	struct line *line = arg;

	line->sent[line->n++] = (char)byte;
	return line->n < line->room;
}

static uint8_t in(struct line *line, uint64_t reg)
{
	uint8_t value = 0xff;

	bus_read(&line->ports, COM1_PORT + reg, &value, 1);
	return value;
}

static void out(struct line *line, uint64_t reg, uint8_t value)
{
	bus_write(&line->ports, COM1_PORT + reg, &value, 1);
}

static size_t receive(struct line *line, const void *bytes, size_t n)
{
	return line->host.console.receive(line->host.console.device, bytes, n);
}

static size_t input_space(struct line *line)
{
	return line->host.console.input_space(line->host.console.device);
}

static void setup(struct line *line)
{
	*line = (struct line){.room = sizeof(line->sent)};
	line->host = (struct device_host){
		.ports = &line->ports, .set_irq = set_irq, .transmit = transmit, .arg = line};
	if (serial_device.create(&line->host, &line->device, NULL))
		tap_diag("no UART");
}

static void teardown(struct line *line)
{
	serial_device.destroy(line->device);
}

/* What a driver's probing finds out: Linux 8250_port.c, autoconfig(). */
static void test_detection(void)
{
	struct line line;

	setup(&line);
	out(&line, 7, 0xa5);
	is_u64(in(&line, 7), 0xa5, "the scratch register keeps what is written");
	out(&line, 1, 0xff);
	is_u64(in(&line, 1), 0x0f, "the UART has four interrupt enables");
	out(&line, 1, 0);
	is_u64(in(&line, 2) >> 6, 0, "with the FIFO off the UART is an 8250 or 16450");
	out(&line, 2, 1);
	is_u64(in(&line, 2) >> 6, 3, "with the FIFO on the UART is a 16550A");
	out(&line, 4, 0x1a);
	is_u64(in(&line, 4), 0x1a, "the modem control register keeps what is written");
	is_u64(in(&line, 6) & 0xf0, 0x90, "loop-back wires RTS and OUT2 to CTS and DCD");
	out(&line, 4, 0x0b);
	is_u64(in(&line, 6) & 0xf0, 0xb0, "without loop-back a terminal is connected");
	out(&line, 3, 0x83);
	is_u64(in(&line, 3), 0x83, "the line control register keeps what is written");
	out(&line, 0, 0x0c);
	out(&line, 1, 0x01);
	ok(in(&line, 0) == 0x0c && in(&line, 1) == 0x01, "the divisor latch keeps what is written");
	out(&line, 3, 0x03);
	is_u64(in(&line, 1), 0, "the divisor latch leaves the registers behind it alone");
	is_u64(line.n, 0, "probing sends nothing");
	teardown(&line);
}

static void test_output(void)
{
	struct line line;

	setup(&line);
	is_u64(in(&line, 5), 0x60, "the transmitter is empty after a reset");
	out(&line, 0, 'x');
	ok(line.n == 1 && line.sent[0] == 'x', "a byte that is written is sent");
	ok(!line.irq, "a byte that is sent raises no interrupt unless it is enabled");
	out(&line, 1, 2);
	ok(line.irq, "enabling the interrupt of an empty transmitter raises it at once");
	is_u64(in(&line, 2) & 0xf, 2, "the interrupt is identified as THR empty");
	ok(!line.irq && (in(&line, 2) & 0xf) == 1, "reading the identification acknowledges it");
	out(&line, 1, 0);
	out(&line, 1, 2);
	is_u64(in(&line, 2) & 0xf, 2, "enabling the interrupt again raises it again");
	line.edges = 0;
	for (int i = 0; i < 16; i++)
		out(&line, 0, 'y');
	is_u64(line.edges, 1, "a FIFO full of bytes raises one interrupt");
	teardown(&line);
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
	is_u64(in(&line, 5) & 0x60, 0, "the transmitter is busy when the host takes no more");
	ok(!line.irq, "a busy transmitter raises no interrupt");
	out(&line, 1, 0);
	out(&line, 1, 2);
	ok(!line.irq, "enabling the interrupt of a busy transmitter does not raise it");
	line.host.console.output_ready(line.host.console.device);
	ok(line.irq && (in(&line, 5) & 0x60) == 0x60,
	   "the transmitter is ready again, with an interrupt, when the host is");
	in(&line, 2);
	line.host.console.output_ready(line.host.console.device);
	ok(!line.irq, "a host that is ready twice raises one interrupt");
	teardown(&line);
}

static void test_input(void)
{
	struct line line;
	uint8_t many[INPUT_SIZE + 5];

	setup(&line);
	is_u64(receive(&line, "hi", 2), 2, "two bytes can be typed ahead");
	is_u64(in(&line, 5) & 1, 0, "input is invisible while the receive interrupt is off");
	is_u64(in(&line, 0), 0, "a driver that starts cannot discard input");
	ok(!line.irq, "invisible input raises no interrupt");
	out(&line, 1, 1);
	ok(line.irq && (in(&line, 2) & 0xf) == 4, "enabling the receive interrupt raises it");
	is_u64(in(&line, 0), 'h', "the first byte is read first");
	ok(line.irq, "the interrupt stays while input is left");
	is_u64(in(&line, 0), 'i', "the second byte is read second");
	ok(!line.irq && !(in(&line, 5) & 1), "the receiver is empty after the last byte");
	memset(many, 'z', sizeof(many));
	is_u64(receive(&line, many, sizeof(many)), INPUT_SIZE,
	       "the UART takes no more input than fits");
	is_u64(input_space(&line), 0, "a full UART has no space");
	in(&line, 0);
	is_u64(input_space(&line), 1, "reading a byte makes space for one");
	teardown(&line);
}

static void test_loopback(void)
{
	struct line line;

	setup(&line);
	out(&line, 1, 1);
	out(&line, 4, 0x10);
	out(&line, 0, 'l');
	is_u64(in(&line, 0), 'l', "loop-back receives the byte that is sent");
	is_u64(line.n, 0, "loop-back sends nothing to the host");
	for (int i = 0; i < INPUT_SIZE + 1; i++)
		out(&line, 0, 'f');
	is_u64(input_space(&line), 0, "loop-back fills the receiver and no more");
	teardown(&line);
}

static void test_wide_access(void)
{
	struct line line;
	uint8_t data[2] = {'x', 'y'};

	setup(&line);
	bus_write(&line.ports, COM1_PORT, data, 2);
	is_u64(line.n, 0, "a write of two bytes is ignored");
	bus_read(&line.ports, COM1_PORT + 5, data, 2);
	ok(data[0] == 0xff && data[1] == 0xff, "a read of two bytes gives all ones");
	teardown(&line);
}

static void test_conflict(void)
{
	static const struct bus_ops ops = {0};
	struct line line = {.n = 0};

	line.host.ports = &line.ports;
	bus_add(&line.ports, COM1_PORT, 1, &ops, NULL, NULL);
	is_u64((uint64_t)-serial_device.create(&line.host, &line.device, NULL), EEXIST,
	       "creating the UART fails if its ports are taken");
	ok(!line.device && !line.host.console.device, "a UART that was not created is no console");
}

int main(void)
{
	test_detection();
	test_output();
	test_congestion();
	test_input();
	test_loopback();
	test_wide_access();
	test_conflict();
	return tap_done();
}
