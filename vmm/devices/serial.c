/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "vmm/devices/models.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* Register offsets; the first two change meaning with LCR's divisor latch bit. */
enum {
	REG_DATA = 0,
	REG_IER = 1,
	REG_IIR_FCR = 2,
	REG_LCR = 3,
	REG_MCR = 4,
	REG_LSR = 5,
	REG_MSR = 6,
	REG_SCR = 7,
};

enum {
	IER_RDI = 0x01,
	IER_THRI = 0x02,
	IER_MASK = 0x0f,

	IIR_NONE = 0x01,
	IIR_THRI = 0x02,
	IIR_RDI = 0x04,
	IIR_FIFO = 0xc0,

	FCR_ENABLE = 0x01,

	LCR_DLAB = 0x80,

	MCR_DTR = 0x01,
	MCR_RTS = 0x02,
	MCR_OUT1 = 0x04,
	MCR_OUT2 = 0x08,
	MCR_LOOP = 0x10,
	MCR_MASK = 0x1f,

	LSR_DR = 0x01,
	LSR_THRE = 0x20,
	LSR_TEMT = 0x40,

	MSR_CTS = 0x10,
	MSR_DSR = 0x20,
	MSR_RI = 0x40,
	MSR_DCD = 0x80,
};

enum { INPUT_SIZE = 1024 };

struct serial {
	pthread_mutex_t lock; /* held while the host is called */
	const struct device_host *host;
	uint8_t ier, lcr, mcr, scr, fcr, dll, dlm;
	bool thre_pending; /* THR-empty interrupt not yet acknowledged */
	bool tx_busy;      /* the host takes no output now */
	bool irq_level;
	uint8_t input[INPUT_SIZE]; /* ring of received bytes */
	size_t input_head, input_count;
};

static bool input_visible(const struct serial *serial)
{
	return serial->input_count && (serial->ier & IER_RDI);
}

static uint8_t interrupt_id(const struct serial *serial)
{
	if (input_visible(serial))
		return IIR_RDI;
	if (serial->thre_pending && (serial->ier & IER_THRI))
		return IIR_THRI;
	return IIR_NONE;
}

static void update_irq(struct serial *serial)
{
	bool level = interrupt_id(serial) != IIR_NONE;

	if (level == serial->irq_level)
		return;
	serial->irq_level = level;
	serial->host->set_irq(serial->host->arg, COM1_IRQ, level);
}

/* Send a byte: the transmitter is empty again at once, unless the host is congested. */
static void send(struct serial *serial, uint8_t byte)
{
	serial->tx_busy = !serial->host->transmit(serial->host->arg, byte);
	serial->thre_pending = !serial->tx_busy;
	update_irq(serial);
}

static void push_input(struct serial *serial, uint8_t byte)
{
	size_t tail = (serial->input_head + serial->input_count) % INPUT_SIZE;

	serial->input[tail] = byte;
	serial->input_count++;
}

static uint8_t pop_input(struct serial *serial)
{
	uint8_t byte;

	if (!input_visible(serial))
		return 0;
	byte = serial->input[serial->input_head];
	serial->input_head = (serial->input_head + 1) % INPUT_SIZE;
	serial->input_count--;
	update_irq(serial);
	return byte;
}

static uint8_t read_iir(struct serial *serial)
{
	uint8_t id = interrupt_id(serial);

	/* Reading the id acknowledges a THR-empty interrupt (PC16550D, table III). */
	if (id == IIR_THRI) {
		serial->thre_pending = false;
		update_irq(serial);
	}
	return id | (serial->fcr & FCR_ENABLE ? IIR_FIFO : 0);
}

static uint8_t modem_status(const struct serial *serial)
{
	uint8_t mcr = serial->mcr;

	if (!(mcr & MCR_LOOP))
		return MSR_CTS | MSR_DSR | MSR_DCD;
	/* Loop-back wires the outputs to the inputs; drivers use it to detect a UART. */
	return (mcr & MCR_RTS ? MSR_CTS : 0) | (mcr & MCR_DTR ? MSR_DSR : 0) |
	       (mcr & MCR_OUT1 ? MSR_RI : 0) | (mcr & MCR_OUT2 ? MSR_DCD : 0);
}

static uint8_t line_status(const struct serial *serial)
{
	return (input_visible(serial) ? LSR_DR : 0) | (serial->tx_busy ? 0 : LSR_THRE | LSR_TEMT);
}

static uint8_t read_register(struct serial *serial, uint64_t reg)
{
	bool dlab = serial->lcr & LCR_DLAB;

	switch (reg) {
	case REG_DATA:
		return dlab ? serial->dll : pop_input(serial);
	case REG_IER:
		return dlab ? serial->dlm : serial->ier;
	case REG_IIR_FCR:
		return read_iir(serial);
	case REG_LCR:
		return serial->lcr;
	case REG_MCR:
		return serial->mcr;
	case REG_LSR:
		return line_status(serial);
	case REG_MSR:
		return modem_status(serial);
	default:
		return serial->scr;
	}
}

static void write_data(struct serial *serial, uint8_t value)
{
	if (serial->mcr & MCR_LOOP) {
		if (serial->input_count < INPUT_SIZE)
			push_input(serial, value);
		serial->thre_pending = true;
		update_irq(serial);
		return;
	}
	send(serial, value);
}

static void write_ier(struct serial *serial, uint8_t value)
{
	/* Enabling the interrupt while the transmitter is empty raises it at once. */
	if ((value & ~serial->ier & IER_THRI) && !serial->tx_busy)
		serial->thre_pending = true;
	serial->ier = value & IER_MASK;
	update_irq(serial);
}

static void write_register(struct serial *serial, uint64_t reg, uint8_t value)
{
	bool dlab = serial->lcr & LCR_DLAB;

	switch (reg) {
	case REG_DATA:
		if (dlab)
			serial->dll = value;
		else
			write_data(serial, value);
		break;
	case REG_IER:
		if (dlab)
			serial->dlm = value;
		else
			write_ier(serial, value);
		break;
	case REG_IIR_FCR:
		serial->fcr = value;
		break;
	case REG_LCR:
		serial->lcr = value;
		break;
	case REG_MCR:
		serial->mcr = value & MCR_MASK;
		break;
	case REG_SCR:
		serial->scr = value;
		break;
	}
}

static void serial_bus_read(void *arg, uint64_t offset, uint8_t *data, unsigned int size)
{
	struct serial *serial = arg;

	if (size != 1)
		return;
	pthread_mutex_lock(&serial->lock);
	*data = read_register(serial, offset);
	pthread_mutex_unlock(&serial->lock);
}

static void serial_bus_write(void *arg, uint64_t offset, const uint8_t *data, unsigned int size)
{
	struct serial *serial = arg;

	if (size != 1)
		return;
	pthread_mutex_lock(&serial->lock);
	write_register(serial, offset, *data);
	pthread_mutex_unlock(&serial->lock);
}

static const struct bus_ops serial_bus_ops = {.read = serial_bus_read, .write = serial_bus_write};

static size_t serial_input_space(void *device)
{
	struct serial *serial = device;
	size_t space;

	pthread_mutex_lock(&serial->lock);
	space = INPUT_SIZE - serial->input_count;
	pthread_mutex_unlock(&serial->lock);
	return space;
}

static size_t serial_receive(void *device, const uint8_t *bytes, size_t n)
{
	struct serial *serial = device;
	size_t taken = 0;

	pthread_mutex_lock(&serial->lock);
	while (taken < n && serial->input_count < INPUT_SIZE)
		push_input(serial, bytes[taken++]);
	update_irq(serial);
	pthread_mutex_unlock(&serial->lock);
	return taken;
}

static void serial_output_ready(void *device)
{
	struct serial *serial = device;

	pthread_mutex_lock(&serial->lock);
	if (serial->tx_busy) {
		serial->tx_busy = false;
		serial->thre_pending = true;
		update_irq(serial);
	}
	pthread_mutex_unlock(&serial->lock);
}

static int serial_create(struct device_host *host, void **out, struct error *err)
{
	struct serial *serial = calloc(1, sizeof(*serial));
	int ret;

	if (!serial)
		return error_set(err, ENOMEM, "out of memory");
	serial->host = host;
	serial->dll = 1; /* 115200 */
	serial->mcr = MCR_OUT2;
	ret = bus_add(host->ports, COM1_PORT, COM1_NR_PORTS, &serial_bus_ops, serial, err);
	if (ret) {
		free(serial);
		return ret;
	}
	pthread_mutex_init(&serial->lock, NULL);
	host->console = (struct console_port){.receive = serial_receive,
					      .input_space = serial_input_space,
					      .output_ready = serial_output_ready,
					      .device = serial};
	*out = serial;
	return 0;
}

static void serial_destroy(void *device)
{
	struct serial *serial = device;

	pthread_mutex_destroy(&serial->lock);
	free(serial);
}

const struct device_ops serial_device = {
	.name = "COM1", .create = serial_create, .destroy = serial_destroy};
