/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Shows the data of a report. Names in them are the guest's: they become text (textContent), never
 * markup. Tables have only the rows that are in sight, so that 100,000 of them open at once.
 */
'use strict';

const data = JSON.parse(document.getElementById('data').textContent);

/* --- elements and texts ---------------------------------------------------------------------- */

function make(tag, properties, ...children) {
	const element = document.createElement(tag);

	for (const [key, value] of Object.entries(properties || {})) {
		if (key.startsWith('on'))
			element.addEventListener(key.slice(2), value);
		else if (key in element && key !== 'list')
			element[key] = value;
		else
			element.setAttribute(key, value);
	}
	element.append(...children);
	return element;
}

function draw(tag, attributes, ...children) {
	const element = document.createElementNS('http://www.w3.org/2000/svg', tag);

	for (const [key, value] of Object.entries(attributes || {}))
		element.setAttribute(key, value);
	element.append(...children);
	return element;
}

/* In the next frame: what is drawn may change the size again. */
function onResize(render, element) {
	new ResizeObserver(() => requestAnimationFrame(render)).observe(element);
}

const colour = (i) => `var(--c${i})`;

/* As the text has it: what is exactly between two is the even one. */
function tenths(n) {
	const down = Math.floor(n * 10);

	return n * 10 - down === 0.5 ? ((down + down % 2) / 10).toFixed(1) : n.toFixed(1);
}

function bytes(n) {
	const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB', 'EiB'];
	let unit = 0, size = Math.abs(n);

	while (size >= 1023.95 && unit + 1 < units.length) {
		size /= 1024;
		unit++;
	}
	return (n < 0 ? '-' : '') + (unit ? tenths(size) : size) + ' ' + units[unit];
}

const count = (n) => Math.round(n).toLocaleString('en-US');
/* Times that a part of the trace can be chosen by: nothing is before the one, or behind the other. */
const clockBefore = (ns) => (Math.floor(ns / 1e6) / 1e3).toFixed(3);
const clockAfter = (ns) => (Math.ceil(ns / 1e6) / 1e3).toFixed(3);
const percent = (part, all) => (all ? (100 * part / all).toFixed(part * 10 < all ? 1 : 0) : '0') + ' %';
const several = (n, word) => `${count(n)} ${word}${n === 1 ? '' : 's'}`;
const rate = (n) => (n >= 100 ? count(n) : n.toFixed(1)) + '/s';

function duration(ns) {
	const units = ['ns', 'us', 'ms', 's'];
	let unit = 0;

	while (ns >= 999.5 && unit + 1 < units.length) {
		ns /= 1000;
		unit++;
	}
	return (ns >= 99.95 || !unit ? ns.toFixed(0) : ns.toFixed(1)) + ' ' + units[unit];
}

/* "alloc_inode+0x59/0xc0" without the size of the function. */
const place = (symbol) => symbol.replace(/\/0x[0-9a-f]+/, '');
/* A call site with its cache, if that says more than the kind of memory. */
const placeOf = (symbol, cache) => place(symbol) + (cache && !cache.startsWith('(') ? ` (${cache})` : '');
const functionOf = (symbol) => symbol.replace(/\+0x[0-9a-f]+.*/, '');

/* --- charts ---------------------------------------------------------------------------------- */

function sparkline(values, width, height) {
	const most = Math.max(1, ...values), step = width / values.length;
	let path = `M0,${height}`;

	values.forEach((value, i) => {
		const y = (height - 1 - (height - 2) * value / most).toFixed(1);
		path += `L${(i * step).toFixed(1)},${y}L${((i + 1) * step).toFixed(1)},${y}`;
	});
	return draw('svg', {width, height, viewBox: `0 0 ${width} ${height}`, 'aria-hidden': 'true'},
		draw('path', {d: path + `L${width},${height}Z`, fill: colour(0), opacity: '.75'}));
}

/* Round steps of an axis, at most n. */
function ticks(from, to, n, base) {
	const span = (to - from) / n;
	let step = base === 2 ? 2 ** Math.ceil(Math.log2(span)) : 10 ** Math.floor(Math.log10(span));
	const out = [];

	if (base !== 2)
		step *= [1, 2, 5, 10].find((m) => m * step >= span);
	for (let at = Math.ceil(from / step) * step; at <= to + step * 1e-9; at += step)
		out.push(at);
	return out;
}

/*
 * Stacked areas over time: {times (ns since the begin, of each step's end), series: [{name, colour,
 * values}], peak (ns)}. Dragging, the wheel and keys zoom.
 */
class Timeline {
	constructor(chart, height) {
		this.chart = chart;
		this.height = height;
		this.full = [chart.begin, chart.times[chart.times.length - 1] || chart.begin + 1];
		this.range = this.full.slice();
		this.tip = make('div', {className: 'tip', hidden: true});
		this.svg = draw('svg', {tabindex: '0', role: 'img', height,
			'aria-label': 'Live memory over time. Arrow keys move, plus and minus zoom, 0 shows all.'});
		this.element = make('div', {className: 'chart'}, this.svg, this.tip);
		this.listen();
		onResize(() => this.render(), this.element);
	}

	get width() { return Math.max(300, this.element.clientWidth); }
	get inner() { return {left: 74, right: this.width - 10, top: 8, bottom: this.height - 24}; }
	x(ns) {
		const {left, right} = this.inner, [from, to] = this.range;
		return left + (right - left) * (ns - from) / (to - from);
	}
	time(x) {
		const {left, right} = this.inner, [from, to] = this.range;
		return Math.min(to, Math.max(from, from + (to - from) * (x - left) / (right - left)));
	}
	step(ns) {
		const i = this.chart.times.findIndex((time) => time >= ns);
		return i < 0 ? this.chart.times.length - 1 : i;
	}

	zoom(from, to) {
		const least = (this.full[1] - this.full[0]) / this.chart.times.length * 4;
		const size = Math.min(Math.max(to - from, least), this.full[1] - this.full[0]);

		from = Math.min(Math.max(from, this.full[0]), this.full[1] - size);
		this.range = [from, from + size];
		this.render();
	}
	zoomAt(ns, factor) {
		const [from, to] = this.range;
		this.zoom(ns - (ns - from) * factor, ns + (to - ns) * factor);
	}

	listen() {
		const at = (event) => event.clientX - this.svg.getBoundingClientRect().left;
		let begin = null;

		this.svg.addEventListener('pointerdown', (event) => {
			begin = at(event);
			this.svg.setPointerCapture(event.pointerId);
		});
		this.svg.addEventListener('pointermove', (event) => this.hover(at(event), begin));
		this.svg.addEventListener('pointerup', (event) => {
			const end = at(event), [a, b] = [this.time(begin), this.time(end)];

			if (begin !== null && Math.abs(end - begin) > 4)
				this.zoom(Math.min(a, b), Math.max(a, b));
			begin = null;
		});
		this.svg.addEventListener('pointerleave', () => this.hover(null));
		this.svg.addEventListener('dblclick', () => this.zoom(...this.full));
		this.svg.addEventListener('wheel', (event) => {
			event.preventDefault();
			this.zoomAt(this.time(at(event)), event.deltaY > 0 ? 1.25 : 0.8);
		}, {passive: false});
		this.svg.addEventListener('keydown', (event) => this.key(event));
	}
	key(event) {
		const [from, to] = this.range, shift = (to - from) / 8;
		const keys = {
			ArrowLeft: () => this.zoom(from - shift, to - shift),
			ArrowRight: () => this.zoom(from + shift, to + shift),
			'+': () => this.zoomAt((from + to) / 2, 0.7), '=': () => this.zoomAt((from + to) / 2, 0.7),
			'-': () => this.zoomAt((from + to) / 2, 1.4), '0': () => this.zoom(...this.full),
		};

		if (keys[event.key]) {
			keys[event.key]();
			event.preventDefault();
			event.stopPropagation();
		}
	}

	hover(x, begin = null) {
		this.marks.replaceChildren();
		this.tip.hidden = x === null || !this.chart.times.length;
		if (this.tip.hidden)
			return;
		const {left, right, top, bottom} = this.inner;
		const i = this.step(this.time(x)), px = Math.min(right, Math.max(left, x));

		this.marks.append(draw('line', {class: 'cursor', x1: px, x2: px, y1: top, y2: bottom}));
		if (begin !== null)
			this.marks.append(draw('rect', {class: 'selection', x: Math.min(px, begin), y: top,
				width: Math.abs(px - begin), height: bottom - top}));
		this.tip.replaceChildren(this.values(i));
		this.tip.style.top = '14px';
		this.tip.style.left = px < this.width / 2 ? `${px + 14}px` : '';
		this.tip.style.right = px < this.width / 2 ? '' : `${this.width - px + 14}px`;
	}
	values(i) {
		const table = make('table'), row = (key, name, value) => table.append(make('tr', {},
			make('td', {}, key), make('td', {}, name), make('td', {}, value)));
		let sum = 0;

		row('', make('b', {}, `${(this.chart.times[i] / 1e9).toFixed(3)} s`), '');
		for (const series of this.chart.series.slice().reverse()) {
			const key = make('i', {className: 'key'});

			key.style.background = series.colour;
			sum += series.values[i];
			if (series.values[i])
				row(key, series.name, bytes(series.values[i]));
		}
		row('', 'together', bytes(sum));
		return table;
	}

	render() {
		const {left, right, top, bottom} = this.inner, {times, series} = this.chart;
		const [from, to] = this.range, svg = this.svg;
		const first = this.step(from), last = this.step(to);
		const sums = times.map((_, i) => series.reduce((sum, s) => sum + s.values[i], 0));
		const most = Math.max(1, ...sums.slice(first, last + 1)) * 1.1;
		const y = (value) => bottom - (bottom - top) * value / most;
		const clip = draw('clipPath', {id: `clip${this.height}`},
			draw('rect', {x: left, y: 0, width: right - left, height: this.height}));
		const areas = draw('g', {'clip-path': `url(#clip${this.height})`});

		svg.setAttribute('viewBox', `0 0 ${this.width} ${this.height}`);
		svg.replaceChildren(clip);
		for (const value of ticks(0, most, 5, 2))
			svg.append(draw('line', {class: 'rule', x1: left, x2: right, y1: y(value), y2: y(value)}),
				draw('text', {x: left - 8, y: y(value) + 4, 'text-anchor': 'end'}, bytes(value)));
		for (const ns of ticks(from / 1e9, to / 1e9, Math.min(10, this.width / 90), 10))
			svg.append(draw('text', {x: this.x(ns * 1e9), y: this.height - 7, 'text-anchor': 'middle'},
				`${+ns.toFixed(6)} s`));
		this.areas(areas, first, last, y);
		svg.append(areas);
		if (this.chart.peak !== undefined && this.chart.peak >= from && this.chart.peak <= to)
			this.peak(this.x(this.chart.peak), top, bottom);
		this.marks = draw('g');
		svg.append(this.marks);
	}
	areas(group, first, last, y) {
		const {times, series} = this.chart, base = times.map(() => 0);
		const begin = (i) => this.x(i ? times[i - 1] : this.chart.begin);

		for (const s of series) {
			let up = '', down = '';

			for (let i = first; i <= last; i++) {
				const low = y(base[i]), high = y(base[i] + s.values[i]);
				const [a, b] = [begin(i).toFixed(1), this.x(times[i]).toFixed(1)];

				up += `${up ? 'L' : 'M'}${a},${high.toFixed(1)}L${b},${high.toFixed(1)}`;
				down = `L${b},${low.toFixed(1)}L${a},${low.toFixed(1)}` + down;
				base[i] += s.values[i];
			}
			group.append(draw('path', {d: up + down + 'Z', fill: s.colour}));
		}
	}
	peak(x, top, bottom) {
		const end = x > this.width - 80;

		this.svg.append(draw('line', {class: 'peak', x1: x, x2: x, y1: top, y2: bottom}),
			draw('text', {class: 'peak', x: x + (end ? -5 : 5), y: top + 4,
				'text-anchor': end ? 'end' : 'start'}, 'peak'));
	}
}

function legend(series) {
	return make('div', {className: 'legend'}, ...series.map((s) => {
		const key = make('i');

		key.style.background = s.colour;
		return make('span', {}, key, s.name, make('span', {className: 'soft'}, s.note || ''));
	}));
}

/* --- what is asked for ----------------------------------------------------------------------- */

const scales = {k: 1024, m: 1024 ** 2, g: 1024 ** 3, t: 1024 ** 4};

/*
 * A filter is words that all must match: a part of a name, /regular expression/, or a comparison
 * such as live>1M. Returns a function of a row, or throws.
 */
function parseFilter(text, columns) {
	const tests = [];

	for (const word of text.match(/\/(?:\\.|[^/])+\/?|\S+/g) || []) {
		const comparison = /^([a-z-]+)(<=|>=|<|>|=)([\d.]+)([kmgt]?)i?b?$/i.exec(word);
		const column = comparison && columns.find((c) => c.key === comparison[1].toLowerCase() && !c.isName);

		if (column) {
			const limit = comparison[3] * (scales[comparison[4].toLowerCase()] || 1);
			const compare = {'<': (v) => v < limit, '>': (v) => v > limit, '=': (v) => v === limit,
				'<=': (v) => v <= limit, '>=': (v) => v >= limit}[comparison[2]];

			tests.push((row) => compare(column.value(row)));
		} else if (word.length > 2 && word.startsWith('/') && word.endsWith('/')) {
			const expression = new RegExp(word.slice(1, -1), 'i');

			tests.push((row) => names(columns, row).some((name) => expression.test(name)));
		} else {
			const part = word.toLowerCase();

			tests.push((row) => names(columns, row).some((name) => name.toLowerCase().includes(part)));
		}
	}
	return (row) => tests.every((test) => test(row));
}

const names = (columns, row) => columns.filter((c) => c.isName).map((c) => String(c.value(row)));

/* --- tables ---------------------------------------------------------------------------------- */

const ROW = 28, PRINTED = 40;

/*
 * A table that sorts, filters and shows one row's details. Columns: {key, title, value(row),
 * text(value, row), isName, width, tip, draw(row), rank(row): what it sorts by, if not the value}.
 */
class Table {
	constructor(label, columns, rows, sort, details) {
		Object.assign(this, {label, all: columns, rows, details, sort, selected: -1});
		this.descending = !columns.find((c) => c.key === sort).isName;
		this.columns = columns.filter((c) => !c.isHidden);
		this.search = make('input', {type: 'search', 'aria-label': `Filter ${label}`,
			placeholder: `Filter: part of a name, /expression/, ${columns.find((c) => !c.isName).key}>${columns.find((c) => !c.isName).isBytes ? '1M' : '100'}`,
			oninput: () => this.filter(), onkeydown: (event) => this.searchKey(event)});
		this.status = make('span', {className: 'soft', role: 'status'});
		this.head = make('tr');
		this.body = make('tbody');
		this.table = make('table', {role: 'grid', 'aria-label': label},
			make('colgroup', {}, ...this.columns.map((c) => this.column(c))), make('thead', {}, this.head), this.body);
		this.grid = make('div', {className: 'grid', tabIndex: 0, onscroll: () => this.render(),
			onkeydown: (event) => this.key(event)}, this.table);
		this.panel = make('aside', {className: 'details card', hidden: true, 'aria-label': 'Details'});
		this.tools = make('div', {className: 'bar'}, this.search, this.status);
		this.element = [this.tools, make('div', {className: 'split'}, this.grid, this.panel)];
		this.table.style.minWidth = `${this.columns.reduce((sum, c) => sum + (c.width || 260), 0)}px`;
		this.makeHead();
		this.filter();
		onResize(() => this.render(), this.grid);
	}

	column(c) {
		const col = make('col');

		if (c.width)
			col.style.width = `${c.width}px`;
		return col;
	}
	makeHead() {
		this.head.replaceChildren(...this.columns.map((c) => {
			const button = make('button', {title: c.tip || '', onclick: () => this.sortBy(c.key)}, c.title);
			const cell = make('th', {scope: 'col', className: c.isName ? 'name' : ''}, button);

			if (c.key === this.sort) {
				cell.setAttribute('aria-sort', this.descending ? 'descending' : 'ascending');
				button.append(this.descending ? ' \u25be' : ' \u25b4');
			}
			return cell;
		}));
	}
	sortBy(key) {
		const column = this.columns.find((c) => c.key === key);

		this.descending = key === this.sort ? !this.descending : !column.isName;
		this.sort = key;
		this.makeHead();
		this.order();
		[...this.head.querySelectorAll('th')].find((th) => th.hasAttribute('aria-sort')).firstChild.focus();
	}
	order() {
		const column = this.columns.find((c) => c.key === this.sort), sign = this.descending ? -1 : 1;
		const keys = new Map(this.shown.map((row) => [row, (column.rank || column.value)(row)]));

		this.shown.sort((a, b) => {
			const x = keys.get(a), y = keys.get(b);
			return sign * (x < y ? -1 : x > y ? 1 : 0);
		});
		this.most = column.isName ? 0 : this.shown.reduce((most, row) => Math.max(most, Math.abs(keys.get(row))), 0);
		this.selected = this.current ? this.shown.indexOf(this.current) : -1;
		this.grid.scrollTop = 0;
		this.render();
	}
	filter() {
		let test;

		try {
			test = parseFilter(this.search.value, this.all);
		} catch {
			this.search.classList.add('wrong');
			this.status.textContent = 'the expression is not complete';
			return;
		}
		this.search.classList.remove('wrong');
		this.shown = this.rows.filter(test);
		this.status.textContent = this.shown.length === this.rows.length ? several(this.rows.length, 'row')
			: `${count(this.shown.length)} of ${several(this.rows.length, 'row')}`;
		this.order();
	}

	cell(c, row) {
		const value = c.value(row), sorted = c.key === this.sort && !c.isName;
		const cell = make('td', {className: c.isName ? 'name' : sorted ? 'sorted' : ''});

		if (c.draw)
			cell.append(c.draw(row));
		else
			cell.textContent = c.text ? c.text(value, row) : value;
		if (c.isName)
			cell.title = value;
		if (sorted && this.most)
			cell.style.setProperty('--part', `${(100 * Math.abs(value) / this.most).toFixed(1)}%`);
		return cell;
	}
	row(index) {
		const row = this.shown[index];

		return make('tr', {className: 'row', 'aria-rowindex': index + 2, 'aria-selected': index === this.selected,
			onclick: () => { this.select(index); this.open(); }}, ...this.columns.map((c) => this.cell(c, row)));
	}
	space(rows) {
		const cell = make('td', {colSpan: this.columns.length});

		cell.style.height = `${rows * ROW}px`;
		return make('tr', {className: 'space', 'aria-hidden': 'true'}, cell);
	}
	render() {
		const n = this.shown.length;
		let first = Math.max(0, Math.floor(this.grid.scrollTop / ROW) - 8);
		let last = Math.min(n, first + Math.ceil(this.grid.clientHeight / ROW) + 16);

		if (this.prints)
			[first, last] = [0, Math.min(n, PRINTED)];
		const rows = [];
		for (let i = first; i < last; i++)
			rows.push(this.row(i));
		this.table.setAttribute('aria-rowcount', n + 1);
		if (!n)
			rows.push(make('tr', {className: 'none'}, make('td', {colSpan: this.columns.length}, 'nothing matches')));
		if (this.prints)
			this.body.replaceChildren(...rows);
		else
			this.body.replaceChildren(this.space(first), ...rows, this.space(n - last));
	}
	print(prints) {
		this.prints = prints;
		this.render();
	}

	select(index) {
		if (!this.shown.length)
			return;
		this.selected = Math.min(Math.max(index, 0), this.shown.length - 1);
		this.current = this.shown[this.selected];
		if (!this.panel.hidden)
			this.open();
		this.scrollTo(this.selected * ROW);
		this.render();
	}
	scrollTo(top) {
		const room = this.grid.clientHeight - this.head.offsetHeight - ROW;

		if (top < this.grid.scrollTop)
			this.grid.scrollTop = top;
		else if (top > this.grid.scrollTop + room)
			this.grid.scrollTop = top - room;
	}
	open() {
		if (!this.current || !this.details)
			return;
		this.panel.replaceChildren(make('button', {className: 'pick close', onclick: () => this.close()}, 'Close'),
			...this.details(this.current));
		this.panel.hidden = false;
		this.scrollTo(this.selected * ROW);
	}
	close() {
		this.panel.hidden = true;
		this.grid.focus();
	}
	key(event) {
		const page = Math.max(1, Math.floor(this.grid.clientHeight / ROW) - 2), at = this.selected;
		const keys = {
			ArrowDown: () => this.select(at + 1), j: () => this.select(at + 1),
			ArrowUp: () => this.select(at - 1), k: () => this.select(at - 1),
			PageDown: () => this.select(at + page), PageUp: () => this.select(at - page),
			Home: () => this.select(0), End: () => this.select(this.shown.length - 1),
			Enter: () => this.open(), Escape: () => this.close(),
		};

		if (!keys[event.key] || event.target.closest('th'))
			return;
		keys[event.key]();
		event.preventDefault();
	}
	searchKey(event) {
		if (event.key === 'Escape') {
			this.search.value = '';
			this.filter();
		} else if (event.key === 'ArrowDown' || event.key === 'Enter') {
			this.grid.focus();
			this.select(0);
			event.preventDefault();
		}
	}
	ask(text) {
		this.search.value = text;
		this.filter();
	}
}

/* Rows of the data, which are arrays, with a getter for each column. */
function columnsOf(table) {
	return Object.fromEntries(table.columns.map((name, i) => [name, (row) => row[i]]));
}

/* --- views ----------------------------------------------------------------------------------- */

/* {id, title, number, full, build(section)}; built when first shown. */
const views = [];
const tables = [];

const report = data.kind === 'report';
const of = report ? columnsOf(data.sites) : null;
const seconds = report ? Math.max(data.trace.duration_ns / 1e9, 1e-9) : 1;

function section(title, ...children) {
	return make('div', {className: 'card'}, make('h2', {}, title), ...children);
}

function goTo(view, text) {
	show(view);
	const table = views.find((v) => v.id === view).table;

	if (table) {
		table.ask(text);
		table.select(0);
		table.open();
	}
}

/* Items that lead to a row: [{name, note, value, view, ask}]. */
function listOf(items, nothing) {
	if (!items.length)
		return make('p', {className: 'soft'}, nothing);
	return make('ul', {className: 'list'}, ...items.map((item) => make('li', {},
		make('button', {onclick: () => goTo(item.view, item.ask)}, make('span', {className: 'mono', title: item.name}, item.name),
			make('span', {className: 'value'}, item.value)))));
}

const wrappers = new Set(report ? data.sites.rows.filter((row) => of.wrapper(row)).map((row) => of.address(row)) : []);
const siteItem = (item, value) => ({name: placeOf(item.symbol, item.cache) + (wrappers.has(item.address) ? ' *' : ''), value,
	view: 'sites', ask: item.address});
const wrapperNote = () => (wrappers.size ? [make('p', {className: 'soft'}, '* allocates for its callers, which are not named here.')] : []);

/* What is damaged, in words. */
function damage(t) {
	const packets = t.damaged.filter((d) => !d.reason).length, files = t.damaged.filter((d) => d.reason), out = [];

	if (t.cut.length || (!t.complete && !t.recording && !packets))
		out.push('The recorder did not end in order, or files are cut off: the last events may be missing.');
	if (packets)
		out.push(`${several(packets, 'packet')} ${packets === 1 ? 'is' : 'are'} damaged, or missing, and passed over.`);
	files.forEach((file) => out.push(`${file.reason}.`));
	if (!t.checksums)
		out.push('Records of this format have no checksums: damage may go unnoticed.');
	return out;
}

/* What is lost, in words. */
function losses(t) {
	const out = [];

	if (t.recording)
		out.push('The trace was still being written.');
	else if (!t.losses_known)
		out.push(`It is unknown what was lost: ${t.losses_unknown}. Sums may be too high or too low.`);
	else if (!t.bound.bounded)
		out.push(`How wrong sums are is unknown: ${t.bound.reason}.`);
	else if (t.bound.objects)
		out.push(`${several(t.bound.objects, 'event')} were lost: live sums are at most ${bytes(t.bound.bytes_too_high)} too high, and too low by what was lost of allocations.`);
	else
		out.push('No event was lost.');
	return [...out, ...damage(t)].join(' ');
}

function families() {
	const m = data.overview.memory, inSlabs = m.objects_in_slabs.bytes;

	return [
		{name: 'objects in slabs', value: inSlabs, note: several(m.objects_in_slabs.count, 'object'), colour: colour(0)},
		{name: 'room in slabs', value: Math.max(0, m.slabs.bytes - inSlabs), note: several(m.slabs.count, 'slab'), colour: colour(1)},
		{name: 'large kmalloc()', value: m.large_kmalloc.bytes, note: several(m.large_kmalloc.count, 'block'), colour: colour(2)},
		{name: 'other pages', value: m.other_pages.bytes, note: several(m.other_pages.count, 'block'), colour: colour(3)},
		{name: 'outside of known pages', value: m.objects_outside.bytes, note: several(m.objects_outside.count, 'object'), colour: colour(4)},
	].filter((part) => part.value > 0);
}

// The views with events of other tracers.
function seeViews() {
	const names = [[data.calls, 'Calls'], [data.syscalls, 'System calls']].filter(([table]) => table.rows.length).map(([, name]) => name);

	return names.length ? `${names.join(', ')} and Events` : 'Events';
}

/* Why there is no allocation or free. */
function noRecords(t) {
	if (t.instance && t.time_chosen)
		return 'No allocation or free is in the time that was chosen.';
	return `${t.chosen ? 'What was chosen of the trace' : 'The trace'} has no allocations.`;
}

/* What is live at the end, of what was selected. */
const liveBytes = () => data.trace.selects ? data.overview.memory.selected_bytes : data.overview.memory.live_bytes;

function summaryWords() {
	const t = data.trace, o = data.overview, m = o.memory, out = [];
	let others = '';
	const wasted = m.slabs.bytes - m.objects_in_slabs.bytes;
	const live = liveBytes();
	const leaks = data.leaks.call_sites.filter((s) => s.verdict === 'leak' || s.verdict === 'only grows');

	if (t.others)
		others = `${several(t.others, 'event')} of other tracers and instances came in ${(t.others_ns / 1e9).toFixed(1)} s: see ${seeViews()}.`;
	if (!t.records && !live)
		return make('div', {className: 'card words'}, make('p', {}, `${noRecords(t)} ${others} ${losses(t)}`));
	out.push((t.records ? `In ${seconds.toFixed(1)} s, from ${clockBefore(t.begin_ns)} to ${clockAfter(t.end_ns)} s of the trace clock, on ${several(t.vcpus, 'vCPU')} the guest allocated and freed ${count(t.records)} times` +
		(t.from_boot ? ', traced from boot on. ' : '. ') : `${noRecords(t)} `) + `${bytes(live)} were live at the end` +
		(t.selects ? ', of the allocations that were selected' : '') +
		(t.records ? `, ${bytes(m.peak_bytes)} at the peak at ${(m.peak_ns / 1e9).toFixed(3)} s. ` : '. ') + losses(t));
	if (!t.selects && m.live_bytes)
		out.push(`Slabs hold ${percent(m.slabs.bytes, m.live_bytes)} of the memory; ${percent(wasted, m.slabs.bytes)} of that (${bytes(wasted)}) is room without objects.`);
	if (t.records)
		out.push(leaks.length ? `${several(leaks.length, 'call site')} ${leaks.length === 1 ? 'looks' : 'look'} like a leak: memory that keeps growing with what stays. See Growth.`
			: o.unknown_call_sites ? `Whether ${several(o.unknown_call_sites, 'call site')} ${o.unknown_call_sites === 1 ? 'grows or leaks' : 'grow or leak'} is unknown, as frees are missing; of the others, ${o.growing.length ? count(o.growing.length) : 'none'} only ${o.growing.length > 1 ? 'grow' : 'grows'}, and none looks like a leak.`
			: o.growing.length ? `${several(o.growing.length, 'call site')} only ever ${o.growing.length === 1 ? 'grows' : 'grow'}; none looks like a leak.`
				: `${t.growth_takes ? `The time is too short to tell what grows, which takes ${t.growth_takes}` : t.lacks_init ? 'What grows is unknown, as nothing says when init began' : 'Nothing grows all the time'}, and nothing looks like a leak.`);
	if (o.call_sites_without_course)
		out.push(`Of ${several(o.call_sites_without_course, 'call site')} the report has sums only: no growth, course or lifetimes.`);
	if (others)
		out.push(others);
	return make('div', {className: 'card words'}, ...out.map((text) => make('p', {}, text)));
}

function tile(value, label) {
	return make('div', {className: 'tile'}, make('b', {}, value), make('span', {}, label));
}

function summaryTiles() {
	const m = data.overview.memory, t = data.trace;
	const unrequested = data.sites.rows.reduce((sum, row) => sum + of.wasted(row), 0);

	return make('div', {className: 'tiles'},
		tile(bytes(liveBytes()), 'live at the end'), ...(t.records ? [tile(bytes(m.peak_bytes), 'peak')] : []),
		tile(count(data.sites.rows.length), 'call sites and caches'),
		tile(rate(t.records / seconds), 'records'), tile(bytes(unrequested), 'live, not requested'),
		tile(t.bound.bounded ? count(t.bound.objects) : 'unknown', 'missing events'));
}

function memoryParts() {
	const parts = families(), all = parts.reduce((sum, part) => sum + part.value, 0);
	const bar = make('div', {className: 'parts', role: 'img', 'aria-label': 'Parts of live memory'}, ...parts.map((part) => {
		const piece = make('i', {title: `${part.name}: ${bytes(part.value)}`});

		piece.style.background = part.colour;
		piece.style.flexGrow = part.value / all;
		return piece;
	}));

	return section('Where the memory is', bar, legend(parts.map((part) =>
		({...part, name: `${part.name} ${bytes(part.value)}`, note: `${percent(part.value, all)}, ${part.note}`}))));
}

/* Of a trace without allocations. */
function mostFrequent() {
	const of = columnsOf(data.events), top = data.events.rows.slice().sort((a, b) => of.count(b) - of.count(a)).slice(0, 20);

	return section('Most frequent events', listOf(top.map((row) => ({name: `${of.event(row)} ${of.function(row)}`,
		value: count(of.count(row)), view: 'events', ask: `${of.event(row)} ${of.function(row)}`})), 'There is none.'));
}

function buildSummary(view) {
	const o = data.overview, caches = columnsOf(data.caches);
	const roomy = data.caches.rows.filter((row) => caches.slabs(row) && caches.wasted(row))
		.sort((a, b) => caches.wasted(b) - caches.wasted(a)).slice(0, 5);
	const top = data.sites.rows.slice().sort((a, b) => of.live(b) - of.live(a)).slice(0, 8);

	view.append(summaryWords());
	if (!data.trace.records && !liveBytes()) {
		view.append(mostFrequent());
		return;
	}
	view.append(summaryTiles());
	if (!data.trace.selects && o.memory.live_bytes)
		view.append(memoryParts());
	if (data.timeline.timeline.length)
		view.append(section('Live memory over time', new Timeline(byFamily(), 190).element, legend(byFamily().series)));
	view.append(make('div', {className: 'columns'},
		section('Who holds most', listOf(top.map((row) => siteItem({symbol: of.site(row), cache: of.cache(row), address: of.address(row)},
			bytes(of.live(row)))), 'Nothing is live.')),
		section('What grows all the time', listOf(o.growing.map((item) => siteItem(item, bytes(item.bytes_per_second) + '/s')), 'Nothing does.')),
		section('Caches with most room in their slabs', listOf(roomy.map((row) => ({name: caches.cache(row), value: bytes(caches.wasted(row)),
			view: 'caches', ask: caches.cache(row)})), 'None.')),
		section('What churns: many, and freed soon', listOf(o.churning.map((item) => siteItem(item, rate(item.frees / seconds))), 'Nothing does.'))),
	...wrapperNote());
}

/* --- timeline -------------------------------------------------------------------------------- */

function peakTime() {
	return data.timeline.peak_bytes ? data.timeline.peak_ns : undefined;
}

function byFamily() {
	const steps = data.timeline.timeline, of = (value) => steps.map(value);
	const series = data.trace.selects ? [{name: 'selected', colour: colour(0), values: of((s) => s.live_bytes)}] : [
		{name: 'other pages', colour: colour(3), values: of((s) => s.other_bytes)},
		{name: 'objects in slabs', colour: colour(0), values: of((s) => s.object_bytes)},
		{name: 'room in slabs', colour: colour(1), values: of((s) => Math.max(0, s.slab_bytes - s.object_bytes))},
		{name: 'large kmalloc()', colour: colour(2), values: of((s) => s.large_bytes)},
		{name: 'outside of known pages', colour: colour(4), values: of((s) => s.outside_bytes)},
	].filter((s) => s.values.some((value) => value));

	return {begin: data.trace.begin_ns, times: of((s) => s.time_ns), series, peak: peakTime()};
}

function bySite() {
	const rows = data.sites.rows.filter((row) => of.course(row).length).sort((a, b) => of.peak(b) - of.peak(a));
	const steps = rows.length ? of.course(rows[0]).length : 0, shown = rows.slice(0, 9);
	const times = Array.from({length: steps}, (_, i) => data.trace.begin_ns + data.trace.duration_ns * (i + 1) / steps);
	const rest = times.map((_, i) => rows.slice(9).reduce((sum, row) => sum + of.course(row)[i], 0));
	const series = shown.map((row, i) => ({name: place(of.site(row)), colour: colour(i), values: of.course(row)}));

	if (rows.length > 9)
		series.push({name: 'all others', colour: colour(10), values: rest});
	return {begin: data.trace.begin_ns, times, series, peak: peakTime()};
}

function buildTimeline(view) {
	const box = make('div'), buttons = make('div', {className: 'bar'});
	const choices = [['By use of pages', byFamily], ['By call site', bySite]];
	const choose = (chosen) => {
		const chart = choices[chosen][1](), timeline = new Timeline(chart, 380);

		box.replaceChildren(timeline.element, legend(chart.series));
		[...buttons.querySelectorAll('.pick')].forEach((button, i) => button.setAttribute('aria-pressed', i === chosen));
		timeline.render();
		view.timeline = timeline;
	};

	buttons.append(...choices.map(([title], i) => make('button', {className: 'pick', onclick: () => choose(i)}, title)),
		make('button', {className: 'pick', onclick: () => view.timeline.zoom(...view.timeline.full)}, 'Show all'),
		make('span', {className: 'soft'}, 'Drag to zoom in; wheel, + and - zoom; arrows move; 0 shows all.'));
	view.append(make('div', {className: 'card'}, buttons, box),
		section('What made the peak', listOf(data.timeline.call_sites.slice(0, 20).map((item) =>
			siteItem(item, bytes(item.bytes_at_peak))), 'Nothing was live.')));
	choose(0);
}

/* --- tables of the report -------------------------------------------------------------------- */

const amounts = (of) => [
	{key: 'live', title: 'Live', value: of.live, text: bytes, isBytes: true, width: 98, tip: 'Bytes that are live at the end'},
	{key: 'objects', title: 'Objects', value: of.objects, text: count, width: 88, tip: 'Objects that are live at the end'},
	{key: 'wasted', title: 'Wasted', value: of.wasted, text: bytes, isBytes: true, width: 98, tip: 'Live bytes that were not requested; of a cache, room in its slabs, too'},
	{key: 'peak', title: 'Peak', value: of.peak, text: bytes, isBytes: true, width: 98, tip: 'Most bytes that were live at once'},
	{key: 'allocs', title: 'Allocs', value: of.allocs, text: count, width: 92, tip: 'Allocations'},
	{key: 'rate', title: 'Allocs/s', value: (row) => of.allocs(row) / seconds, text: (v) => v.toFixed(1), width: 88, tip: 'Allocations per second'},
	{key: 'lifetime', title: 'Lifetime', value: of.lifetime, text: (v, row) => of.frees(row) ? duration(v) : '-', width: 86, tip: 'Mean life of what was freed'},
	{key: 'cross', title: 'Cross-CPU', value: of.cross, text: count, width: 104, tip: 'Frees on another vCPU than the allocation'},
];

const verdicts = new Map();

/* Frees by power of two of the life in ns. */
function histogram(lives) {
	const first = lives.findIndex((n) => n), shown = lives.slice(Math.max(0, first));
	const width = 310, height = 70, most = Math.max(1, ...shown), step = width / Math.max(8, shown.length);
	const svg = draw('svg', {width, height: height + 16, role: 'img', 'aria-label': 'Frees by life'});

	shown.forEach((n, i) => svg.append(draw('rect', {x: i * step, width: step - 1, fill: colour(0),
		y: height - (height - 2) * n / most, height: (height - 2) * n / most},
	draw('title', {}, `${several(n, 'object')} lived for less than ${duration(2 ** (i + first))}`))));
	svg.append(draw('text', {x: 0, y: height + 13}, `< ${duration(2 ** first)}`),
		draw('text', {x: Math.min(width, step * shown.length), y: height + 13, 'text-anchor': 'end'}, `< ${duration(2 ** (lives.length - 1))}`));
	return make('div', {className: 'chart'}, svg);
}

function facts(pairs) {
	return make('dl', {}, ...pairs.flatMap(([name, value]) => [make('dt', {}, name), make('dd', {}, value)]));
}

function siteDetails(row) {
	const verdict = verdicts.get(of.address(row) + of.cache(row)), out = [];

	out.push(make('h2', {className: 'mono'}, of.site(row)));
	if (verdict)
		out.push(make('p', {}, make('span', {className: `tag ${verdict.verdict}`}, verdict.verdict)));
	if (of.wrapper(row))
		out.push(make('p', {className: 'soft'}, 'Allocates for its callers, which are not named here.'));
	out.push(facts([...(of.source(row) ? [['source', of.source(row)]] : []), ['cache', of.cache(row)], ['module', of.module(row)], ['address', of.address(row)],
		['live', `${bytes(of.live(row))} in ${count(of.objects(row))}`], ['peak', bytes(of.peak(row))], ['wasted', bytes(of.wasted(row))],
		['allocations', `${count(of.allocs(row))}, ${rate(of.allocs(row) / seconds)}`],
		['bytes allocated', bytes(of.allocated(row))], ['bytes requested', bytes(of.requested(row))],
		['frees', count(of.frees(row))], ['on another vCPU', `${count(of.cross(row))}, ${percent(of.cross(row), of.frees(row))}`],
		['mean life', of.frees(row) ? duration(of.lifetime(row)) : '-']]));
	if (of.course(row).length)
		out.push(make('h3', {}, 'Live bytes over time'), sparkline(of.course(row), 310, 60));
	if (of.lives(row).length)
		out.push(make('h3', {}, 'Lives of what was freed'), histogram(of.lives(row)));
	if (verdict)
		out.push(make('h3', {}, 'Births of what is live'), sparkline(verdict.births, 310, 40));
	return out;
}

function tableView(view, label, columns, rows, sort, details) {
	const table = new Table(label, columns, rows, sort, details);

	view.append(...table.element);
	tables.push(table);
	return table;
}

function buildSites(view) {
	const columns = [
		{key: 'site', title: 'Call site', value: (row) => of.site(row) + (of.wrapper(row) ? ' *' : ''), isName: true},
		{key: 'cache', title: 'Cache', value: of.cache, isName: true, width: 160},
		...amounts(of),
		{key: 'course', title: 'Course', value: (row) => of.course(row).length ? of.course(row)[of.course(row).length - 1] - of.course(row)[0] : 0, width: 116,
			draw: (row) => sparkline(of.course(row).length ? of.course(row) : [0], 96, 20), tip: 'Live bytes over time; sorts by growth'},
		{key: 'address', value: of.address, isName: true, isHidden: true},
		{key: 'source', value: of.source, isName: true, isHidden: true},
	];

	return tableView(view, 'call sites', columns, data.sites.rows, 'live', siteDetails);
}

function buildCaches(view) {
	const of = columnsOf(data.caches);
	const columns = [
		{key: 'cache', title: 'Cache', value: of.cache, isName: true},
		{key: 'slabs', title: 'Slabs', value: of.slabs, text: bytes, isBytes: true, width: 98, tip: 'Bytes of its slabs'},
		...amounts(of),
	];

	return tableView(view, 'caches', columns, data.caches.rows, 'live', (row) => [make('h2', {className: 'mono'}, of.cache(row)),
		facts(columns.slice(1).map((c) => [c.title.toLowerCase(), c.text(c.value(row), row)])),
		make('button', {className: 'pick', onclick: () => goTo('sites', of.cache(row))}, 'Its call sites')]);
}

function buildGrowth(view) {
	const rows = data.leaks.call_sites, order = ['leak', 'only grows', 'reclaimable', 'settled', 'recent', 'unclear', 'unknown'];
	const columns = [
		{key: 'site', title: 'Call site', value: (s) => placeOf(s.symbol, s.cache), isName: true},
		{key: 'verdict', title: 'Verdict', value: (s) => s.verdict, rank: (s) => order.indexOf(s.verdict), isName: true, width: 110,
			draw: (s) => make('span', {className: `tag ${s.verdict}`}, s.verdict), tip: 'What sonde-leaks(1) says of it; the worst first'},
		{key: 'live', title: 'Live', value: (s) => s.live_bytes, text: bytes, isBytes: true, width: 98},
		{key: 'stays', title: 'Stays/s', value: (s) => s.bytes_per_second, text: (v) => v === null ? '-' : bytes(v), isBytes: true, width: 98, tip: 'Bytes that stay, per second'},
		{key: 'even', title: 'Even', value: (s) => s.evenness, text: (v) => v === null ? '-' : v.toFixed(2), width: 70, tip: 'How evenly what stays was born, 0 to 1'},
		{key: 'objects', title: 'Objects', value: (s) => s.live_objects, text: count, width: 88},
		{key: 'old', title: 'Old', value: (s) => s.old_objects, text: count, width: 88, tip: 'Older than what is freed gets to be'},
		{key: 'freed', title: 'Freed', value: (s) => s.freed_percent, text: (v) => `${v.toFixed(1)} %`, width: 80},
		{key: 'born', title: 'Born', value: (s) => s.births.reduce((sum, n, i) => sum + n * i, 0) / Math.max(1, s.live_objects), width: 130,
			draw: (s) => sparkline(s.births, 110, 20), tip: 'Births of what is live, over time; sorts by their mean'},
	];

	return tableView(view, 'growth', columns, rows, 'verdict', (s) => [make('h2', {className: 'mono'}, s.symbol),
		facts([['verdict', s.verdict], ['cache', s.cache || '-'], ['live', bytes(s.live_bytes)], ['old', bytes(s.old_bytes)]]),
		make('h3', {}, 'Births of what is live'), sparkline(s.births, 310, 70),
		make('button', {className: 'pick', onclick: () => goTo('sites', s.address)}, 'The call site')]);
}

/* --- flame graph ----------------------------------------------------------------------------- */

const measures = [['live', 'bytes live', bytes], ['allocated', 'bytes allocated', bytes], ['allocs', 'allocations', count],
	['peak', 'own peaks', bytes], ['wasted', 'bytes wasted', bytes]];
const orders = [['cache, function, call site', ['cache', 'function', 'place']], ['module, function, cache', ['module', 'function', 'cache']],
	['function, cache', ['function', 'cache']]];

class Flame {
	constructor() {
		this.measure = measures[0];
		this.order = orders[0];
		this.box = make('div', {className: 'flame'});
		this.status = make('span', {className: 'soft', role: 'status'});
		this.search = make('input', {type: 'search', placeholder: 'Find', 'aria-label': 'Find in the flame graph', oninput: () => this.render()});
		this.element = make('div', {className: 'card'}, make('div', {className: 'bar'},
			this.choice('Width', measures.map((m) => m[1]), (i) => { this.measure = measures[i]; }),
			this.choice('Levels', orders.map((o) => o[0]), (i) => { this.order = orders[i]; }),
			this.search, make('button', {className: 'pick', onclick: () => this.zoom(this.root)}, 'Show all'), this.status), this.box);
		this.element.addEventListener('keydown', (event) => {
			if (event.key === 'Escape' || event.key === 'Backspace' && event.target !== this.search)
				this.zoom(this.focus.parent || this.root);
		});
		this.build();
		onResize(() => this.render(), this.box);
	}
	choice(title, words, choose) {
		return make('label', {}, title, make('select', {className: 'pick', onchange: (event) => {
			choose(event.target.selectedIndex);
			this.build();
			this.render();
		}}, ...words.map((word) => make('option', {}, word))));
	}
	keys(row) {
		const texts = {cache: of.cache(row), module: of.module(row), function: functionOf(of.site(row)), place: place(of.site(row))};
		return this.order[1].map((name) => texts[name]);
	}
	build() {
		this.root = {name: 'all', value: 0, children: new Map(), depth: 0};
		for (const row of data.sites.rows) {
			const value = of[this.measure[0]](row);
			let node = this.root;

			if (!value)
				continue;
			node.value += value;
			for (const name of this.keys(row)) {
				if (!node.children.has(name))
					node.children.set(name, {name, value: 0, children: new Map(), depth: node.depth + 1, parent: node});
				node = node.children.get(name);
				node.value += value;
			}
		}
		this.focus = this.root;
	}
	zoom(node) {
		this.focus = node;
		this.render();
		this.box.querySelector('button')?.focus();
	}
	render() {
		const width = this.box.clientWidth, wanted = this.search.value.toLowerCase();

		this.box.replaceChildren();
		if (!width || !this.root.value)
			return;
		for (let node = this.focus.parent; node; node = node.parent)
			this.put(node, 0, width, wanted);
		const found = this.walk(this.focus, 0, width, wanted);
		this.box.style.height = `${(this.order[1].length + 1) * 22 + 4}px`;
		this.status.textContent = wanted ? `${percent(found, this.focus.value)} of what is shown matches` : '';
	}
	walk(node, left, width, wanted) {
		const hit = wanted && node.name.toLowerCase().includes(wanted);
		let at = left, found = 0;

		this.put(node, left, width, wanted);
		for (const child of [...node.children.values()].sort((a, b) => b.value - a.value)) {
			const size = width * child.value / node.value;

			if (size >= 1)
				found += this.walk(child, at, size, wanted);
			at += size;
		}
		return hit ? node.value : found;
	}
	put(node, left, width, wanted) {
		const text = `${node.name}: ${this.measure[2](node.value)}, ${percent(node.value, this.root.value)}`;
		const hit = wanted && node.name.toLowerCase().includes(wanted);
		const box = make('button', {title: text, 'aria-label': text, className: hit ? 'hit' : wanted ? 'dim' : '',
			onclick: () => this.zoom(node)}, width > 30 ? `${node.name}${width > 260 ? '  ' + this.measure[2](node.value) : ''}` : '');

		box.style.left = `${left}px`;
		box.style.top = `${node.depth * 22}px`;
		box.style.width = `${Math.max(1, width)}px`;
		box.style.background = node.depth ? `var(--f${[...node.name].reduce((sum, c) => sum * 31 + c.charCodeAt(0) >>> 0, 7) % 4})` : 'var(--line)';
		if (width < 12)
			box.style.padding = box.style.borderWidth = 0;
		this.box.append(box);
	}
}

/* --- lifetimes ------------------------------------------------------------------------------- */

function buildLifetimes(view) {
	const rows = data.sites.rows.filter((row) => of.lives(row).length).sort((a, b) => of.frees(b) - of.frees(a));
	const sums = [];

	rows.forEach((row) => of.lives(row).forEach((n, i) => { sums[i] = (sums[i] || 0) + n; }));
	const first = Math.max(0, sums.findIndex((n) => n)), classes = sums.length - first;
	const head = make('tr', {}, make('th', {}, 'Call site'), ...Array.from({length: classes}, (_, i) =>
		make('th', {}, (i + first) % 4 ? '' : `${duration(2 ** (i + first))}`)));
	const line = (name, lives, open) => {
		const most = Math.max(1, ...lives.map((n) => n || 0));

		return make('tr', {}, make('td', {className: 'name', title: name}, open ? make('button', {className: 'link', onclick: open}, name) : name),
			...Array.from({length: classes}, (_, i) => {
				const n = lives[i + first] || 0, cell = make('td', {className: 'cell', title: `${several(n, 'object')} lived for less than ${duration(2 ** (i + first))}`});

				cell.style.setProperty('--part', `${n ? (12 + 88 * Math.log1p(n) / Math.log1p(most)).toFixed(0) : 0}%`);
				return cell;
			}));
	};
	const columns = make('colgroup', {}, make('col', {className: 'wide'}), ...Array.from({length: classes}, () => make('col')));

	columns.firstChild.style.width = '34%';
	view.append(section('How long objects live', make('p', {className: 'soft'},
		'Each column is twice as long a life as the one before. The darker, the more objects of the row were freed at this age. The rows with most frees come first.'),
	rows.length ? make('table', {className: 'heat'}, columns, make('thead', {}, head), make('tbody', {}, line('all', sums),
		...rows.slice(0, 60).map((row) => line(placeOf(of.site(row), of.cache(row)), of.lives(row), () => goTo('sites', of.address(row))))))
		: make('p', {}, 'Nothing was freed.')));
}

/* --- events of other tracers, differences ---------------------------------------------------- */

function buildEvents(view) {
	const of = columnsOf(data.events);

	return tableView(view, 'events', [
		{key: 'function', title: 'Function', value: of.function, isName: true},
		{key: 'caller', title: 'Called by', value: of.caller, isName: true},
		{key: 'event', title: 'Event', value: of.event, isName: true, width: 240},
		{key: 'count', title: 'Count', value: of.count, text: count, width: 120},
		{key: 'rate', title: 'Per second', value: (row) => of.count(row) / Math.max(data.trace.others_ns / 1e9, 1e-9), text: (v) => v.toFixed(1), width: 120},
	], data.events.rows, 'count', null);
}

// Of functions, and of system calls, which have errors too.
function callsView(view, table, name, more) {
	const of = columnsOf(data[table]);
	const mean = (row) => of.seen(row) ? of.total(row) / of.seen(row) : 0;
	const time = (value, row) => of.seen(row) ? duration(value) : '-';

	return tableView(view, table, [
		{key: 'function', title: name, value: of.function, isName: true},
		{key: 'instance', title: 'Instance', value: of.instance, isName: true, width: 140},
		{key: 'total', title: 'Total', value: of.total, text: time, width: 110, tip: 'Time from entry to return of all calls, sleep and calls of other functions included'},
		{key: 'mean', title: 'Mean', value: mean, text: time, width: 110, tip: 'The same of a call'},
		{key: 'max', title: 'Max', value: of.max, text: time, width: 110, tip: 'The longest call'},
		{key: 'calls', title: 'Calls', value: of.calls, text: count, width: 110},
		...more(of),
		{key: 'unseen', title: 'No return', value: (row) => of.calls(row) - of.seen(row), text: count, width: 110, tip: 'Calls whose return is not in the trace'},
	], data[table].rows, 'total', null);
}

function buildCalls(view) {
	return callsView(view, 'calls', 'Function', () => []);
}

function buildSyscalls(view) {
	return callsView(view, 'syscalls', 'System call', (of) => [
		{key: 'errors', title: 'Errors', value: of.errors, text: count, width: 110, tip: 'Calls that returned an error number'},
	]);
}

function buildChanges(view) {
	const d = data.diff, signed = (v) => (v > 0 ? '+' : '') + bytes(v);
	const change = (row) => row.b.live_bytes - row.a.live_bytes;
	const significant = d.changes.filter((row) => row.significant).length;
	const side = (name, dir, s) => `${name} (${dir}): ${several(s.records, 'record')} in ${(s.duration_ns / 1e9).toFixed(1)} s, from ${clockBefore(s.begin_ns)} to ${clockAfter(s.end_ns)} s of the trace clock, ${bytes(s.live_bytes)} live at the end. ${losses(s)}`;

	view.append(make('div', {className: 'card words'}, make('p', {}, side('A', data.dirs[0], d.a)), make('p', {}, side('B', data.dirs[1], d.b)),
		make('p', {}, `${signed(d.b.live_bytes - d.a.live_bytes)} live from A to B. ${count(significant)} of ${several(d.changes.length, 'row')} changed significantly.${d.call_chains_ignored ? ' Call sites are those that were recorded, as only one side has call chains.' : ''}`)));
	const coloured = (row, text, value) => make('span', {className: value > 0 ? 'up' : value < 0 ? 'down' : ''}, text);
	return tableView(view, 'changes', [
		{key: 'name', title: 'Name', value: (row) => row.text, isName: true},
		{key: 'change', title: 'Change', value: change, draw: (row) => coloured(row, signed(change(row)), change(row)), width: 108, isBytes: true, tip: 'Live bytes at the end, B less A'},
		{key: 'live-a', title: 'Live A', value: (row) => row.a.live_bytes, text: bytes, width: 98, isBytes: true},
		{key: 'live-b', title: 'Live B', value: (row) => row.b.live_bytes, text: bytes, width: 98, isBytes: true},
		{key: 'rate-a', title: 'Allocs/s A', value: (row) => row.a.allocs_per_second, text: (v) => v.toFixed(1), width: 108},
		{key: 'rate-b', title: 'Allocs/s B', value: (row) => row.b.allocs_per_second, text: (v) => v.toFixed(1), width: 108},
		{key: 'sigma', title: 'Sigma', value: (row) => row.sigma, draw: (row) => coloured(row, row.sigma.toFixed(1), row.sigma), width: 84, tip: 'Difference of the rates in standard deviations'},
		{key: 'significant', title: 'Significant', value: (row) => +row.significant, text: (v) => v ? 'yes' : '', width: 118},
	], d.changes, 'significant', null);
}

/* --- the page -------------------------------------------------------------------------------- */

function setTheme(theme) {
	document.documentElement.dataset.theme = theme;
}
setTheme(matchMedia('(prefers-color-scheme: dark)').matches ? 'dark' : 'light');
matchMedia('(prefers-color-scheme: dark)').addEventListener('change', (event) => setTheme(event.matches ? 'dark' : 'light'));
const switchTheme = () => setTheme(document.documentElement.dataset.theme === 'dark' ? 'light' : 'dark');

const sections = new Map(), tabs = new Map();
let current;

function show(id) {
	const view = views.find((v) => v.id === id) || views[0];

	current = view;
	if (!view.built) {
		view.built = true;
		view.table = view.build(sections.get(view.id)) || null;
	}
	for (const v of views) {
		sections.get(v.id).hidden = v !== view;
		tabs.get(v.id).setAttribute('aria-selected', v === view);
		tabs.get(v.id).tabIndex = v === view ? 0 : -1;
	}
	if (location.hash.slice(1) !== view.id)
		history.replaceState(null, '', `#${view.id}`);
	view.table?.render();
}

function addView(id, title, build, full, number) {
	const view = {id, title, build, full};

	views.push(view);
	sections.set(id, make('section', {id: `view-${id}`, role: 'tabpanel', hidden: true, className: full ? 'full' : '', 'aria-labelledby': `tab-${id}`},
		make('h2', {className: 'title'}, title)));
	tabs.set(id, make('button', {id: `tab-${id}`, role: 'tab', 'aria-controls': `view-${id}`, onclick: () => show(id)}, title,
		number === undefined ? '' : make('span', {className: 'number'}, count(number))));
}

const help = make('dialog', {'aria-label': 'Keys'}, make('h2', {}, 'Keys'),
	make('dl', {}, ...[['1 2 3 ...', 'a view'], ['/', 'filter the table'], ['Enter', 'details of a row'], ['j k \u2191 \u2193 Home End', 'move in a table'],
		['Esc', 'close, clear, zoom out'], ['+ - 0 \u2190 \u2192', 'zoom and move in the timeline'], ['t', 'light or dark'], ['?', 'this']]
		.flatMap(([keys, what]) => [make('dt', {}, make('kbd', {}, keys)), make('dd', {}, what)])),
	make('p', {className: 'soft'}, 'A filter is words that all match: a part of a name, /regular expression/, or a comparison such as live>1M or allocs>100.'),
	make('button', {className: 'tool', onclick: () => help.close()}, 'Close'));

function key(event) {
	const typing = event.target.matches('input, select'), number = +event.key;

	if (typing || event.ctrlKey || event.metaKey || event.altKey || help.open)
		return;
	if (number >= 1 && number <= views.length)
		show(views[number - 1].id);
	else if (event.key === '/')
		(current.table?.search || sections.get(current.id).querySelector('input'))?.focus();
	else if (event.key === '?')
		help.showModal();
	else if (event.key === 't')
		switchTheme();
	else
		return;
	event.preventDefault();
}

function tabKey(event) {
	const at = views.indexOf(current), to = {ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: views.length - 1}[event.key];

	if (to === undefined)
		return;
	show(views[(to + views.length) % views.length].id);
	tabs.get(current.id).focus();
	event.preventDefault();
}

/* All views go on paper, of tables the first rows. */
function beforePrint() {
	const shown = current.id;

	views.forEach((view) => show(view.id));
	show(shown);
	tables.forEach((table) => table.print(true));
}

function addViews() {
	if (!report) {
		addView('changes', 'Changes', buildChanges, true, data.diff.changes.length);
		return;
	}
	data.leaks.call_sites.forEach((s) => verdicts.set(s.address + s.cache, s));
	addView('summary', 'Summary', buildSummary, false);
	if (data.timeline.timeline.length)
		addView('timeline', 'Timeline', buildTimeline, false);
	if (data.sites.rows.length) {
		addView('sites', 'Call sites', buildSites, true, data.sites.rows.length);
		addView('caches', 'Caches', buildCaches, true, data.caches.rows.length);
		addView('growth', 'Growth', buildGrowth, true, data.leaks.call_sites.length);
		addView('flame', 'Flame graph', (view) => { view.append(new Flame().element); }, false);
		addView('lifetimes', 'Lifetimes', buildLifetimes, false);
	}
	if (data.calls.rows.length)
		addView('calls', 'Calls', buildCalls, true, data.calls.rows.length);
	if (data.syscalls.rows.length)
		addView('syscalls', 'System calls', buildSyscalls, true, data.syscalls.rows.length);
	if (data.events.rows.length)
		addView('events', 'Events', buildEvents, true, data.events.rows.length);
}

/* What the figures are of, in sentences, of a report or of a side of a comparison. */
function originOf(t) {
	return [
		t.part && `A part of a trace: ${t.part}.`,
		t.ended && `Tracing ended as ${t.ended}.`,
		t.instances > 1 && t.instance && `Memory is that of instance ${t.instance}, one of ${count(t.instances)} of kmem.`,
		t.chosen && `Chosen of it: ${t.chosen}.`,
	].filter(Boolean);
}

function origins() {
	if (report)
		return originOf(data.trace);
	return [['A', data.diff.a], ['B', data.diff.b]].flatMap(([name, side]) => originOf(side).map((text) => `${name}: ${text}`));
}

function begin() {
	const t = data.trace;
	const title = report ? `Sonde report: ${t.dir}` : `Sonde diff: ${data.dirs[0]} and ${data.dirs[1]}`;

	document.title = title;
	addViews();
	document.body.append(
		make('header', {}, make('h1', {}, title),
			make('span', {className: 'guest', title: report ? `${t.guest} ${t.build_id}` : ''}, report ? t.guest.split('(')[0].trim() + (t.build_id ? `, build id ${t.build_id.slice(0, 16)}` : '') : ''),
			make('span', {className: 'tools'}, make('button', {className: 'tool', onclick: switchTheme}, 'Light / dark'),
				make('button', {className: 'tool', onclick: () => print()}, 'Print'), make('button', {className: 'tool', onclick: () => help.showModal()}, 'Keys ?')),
			...origins().map((text) => make('p', {className: 'origin'}, text))),
		make('nav', {role: 'tablist', 'aria-label': 'Views', onkeydown: tabKey}, ...tabs.values()),
		make('main', {}, ...sections.values()), help);
	document.addEventListener('keydown', key);
	addEventListener('hashchange', () => show(location.hash.slice(1)));
	addEventListener('beforeprint', beforePrint);
	addEventListener('afterprint', () => tables.forEach((table) => table.print(false)));
	show(location.hash.slice(1));
}

begin();
