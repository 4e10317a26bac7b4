/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "formats/export/flame-svg.h"

#include <string.h>

enum {
	WIDTH = 1200,
	MARGIN = 10,
	BOX_HEIGHT = 18,
	TOP = 64,        /* pixels above the boxes */
	LETTER = 7,      /* pixels, roughly */
	MIN_LETTERS = 3, /* that are worth a text */
};

/* Neighbouring stacks that have the same frames up to a place. */
struct range {
	const struct stack_line *lines;
	size_t n;
	size_t at; /* characters in front of the frame */
	unsigned int depth;
	double before; /* value of all stacks in front of them */
};

struct graph {
	struct export_file *file;
	const char *unit;
	double total;
	unsigned int depth; /* of the deepest stack */
};

/* XML 1.0, "Predefined Entities". Names are the guest's; frames have printable ASCII only. */
static void put_escaped(struct export_file *file, const char *text, size_t length)
{
	for (size_t i = 0; i < length; i++) {
		const char c = text[i];

		if (c == '<')
			export_text(file, "&lt;");
		else if (c == '>')
			export_text(file, "&gt;");
		else if (c == '&')
			export_text(file, "&amp;");
		else if (c == '"')
			export_text(file, "&quot;");
		else
			export_put(file, c >= ' ' && c <= '~' ? &c : "?", 1);
	}
}

static double sum_of(const struct stack_line *lines, size_t n)
{
	double sum = 0;

	for (size_t i = 0; i < n; i++)
		sum += (double)lines[i].value;
	return sum;
}

/* Warm colours, the same for the same name. */
static uint32_t colour_of(const char *name, size_t length)
{
	uint32_t hash = 2166136261;

	for (size_t i = 0; i < length; i++)
		hash = (hash ^ (uint8_t)name[i]) * 16777619;
	return (205 + hash % 50) << 16 | (80 + hash / 50 % 140) << 8 | (20 + hash / 7000 % 60);
}

static void put_label(struct export_file *file, const char *name, size_t length, double x, int y,
		      double width)
{
	const double room = width / LETTER - 1;
	size_t shown = room < (double)length ? (size_t)(room > 0 ? room : 0) : length;

	if (shown < MIN_LETTERS && shown < length)
		return;
	export_printf(file, "<text x=\"%.1f\" y=\"%d\">", x + 3, y + BOX_HEIGHT - 5);
	put_escaped(file, name, shown < length ? shown - 2 : shown);
	export_text(file, shown < length ? "..</text>" : "</text>");
}

static void put_box(const struct graph *g, const struct range *range, const char *name,
		    size_t length, double value)
{
	const double scale = (WIDTH - 2 * MARGIN) / g->total;
	const double x = MARGIN + range->before * scale, width = value * scale;
	const int y = TOP + (int)(g->depth - 1 - range->depth) * BOX_HEIGHT;

	export_text(g->file, "<g><title>");
	put_escaped(g->file, name, length);
	export_printf(g->file,
		      ": %.0f %s, %.2f %%</title><rect x=\"%.1f\" y=\"%d\" width=\"%.1f\" "
		      "height=\"%d\" fill=\"#%06x\"/>",
		      value, g->unit, 100 * value / g->total, x, y, width, BOX_HEIGHT - 1,
		      colour_of(name, length));
	put_label(g->file, name, length, x, y, width);
	export_text(g->file, "</g>\n");
}

static size_t frame_length(const char *at)
{
	return strcspn(at, ";");
}

/* How many of the lines, from the first on, have its frame here. */
static size_t count_same(const struct stack_line *lines, size_t n, size_t at, size_t length)
{
	const char *name = lines[0].text + at;
	size_t i = 1;

	while (i < n && frame_length(lines[i].text + at) == length &&
	       !memcmp(lines[i].text + at, name, length))
		i++;
	return i;
}

/* Calls itself for what is above, as deep as the stacks are: STACK_MAX_FRAMES, each with what is
 * inlined there. */
static void put_range(const struct graph *g, const struct range *range)
{
	const double least = g->total / (10 * (WIDTH - 2 * MARGIN));
	struct range part = *range;

	/* A stack that ends here is the first of those that begin like it. */
	while (part.n && part.lines[0].text[part.at - !!part.at] == '\0') {
		part.before += (double)part.lines[0].value;
		part.lines++;
		part.n--;
	}
	while (part.n) {
		const char *name = part.lines[0].text + part.at;
		const size_t length = frame_length(name);
		const size_t same = count_same(part.lines, part.n, part.at, length);
		const double value = sum_of(part.lines, same);

		if (value >= least) {
			put_box(g, &part, name, length, value);
			put_range(g, &(struct range){part.lines, same, part.at + length + 1,
						     part.depth + 1, part.before});
		}
		part.before += value;
		part.lines += same;
		part.n -= same;
	}
}

static unsigned int depth_of(const struct stack_line *lines, size_t n)
{
	unsigned int deepest = 1;

	for (size_t i = 0; i < n; i++) {
		unsigned int depth = 1;

		for (const char *at = lines[i].text; *at; at++)
			depth += *at == ';';
		deepest = depth > deepest ? depth : deepest;
	}
	return deepest;
}

static void put_head(const struct graph *g, const char *subtitle)
{
	const int height = TOP + (int)g->depth * BOX_HEIGHT + MARGIN;

	export_printf(
		g->file,
		"<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
		"<svg xmlns=\"http://www.w3.org/2000/svg\" version=\"1.1\" width=\"%d\" "
		"height=\"%d\" viewBox=\"0 0 %d %d\">\n"
		"<style>text{font:12px monospace;fill:#000}g:hover rect{stroke:#000}</style>\n"
		"<rect width=\"100%%\" height=\"100%%\" fill=\"#fff\"/>\n"
		"<text x=\"%d\" y=\"24\">%s %s</text>\n<text x=\"%d\" y=\"44\">",
		WIDTH, height, WIDTH, height, MARGIN, text_count(whole_number(g->total)).s, g->unit,
		MARGIN);
	put_escaped(g->file, subtitle, strlen(subtitle));
	export_text(g->file, "</text>\n");
}

void flame_svg_put(struct export_file *file, const struct stack_line *lines, size_t n,
		   const char *unit, const char *subtitle)
{
	const struct graph g = {
		.file = file, .unit = unit, .total = sum_of(lines, n), .depth = depth_of(lines, n)};

	put_head(&g, subtitle);
	put_range(&g, &(struct range){.lines = lines, .n = n});
	export_text(file, "</svg>\n");
}
