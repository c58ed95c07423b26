// Interactive parts of chapters: each computes in its page what the chapter's program computes, and prints the same lines
// (parts_test.mjs compares them). A part is its controls, the lines of text for their values, and a picture where there is one.
(() => {
  const tie = (x, digits, low = Math.floor(x * 10 ** digits)) => x * 10 ** digits - low === 0.5 && low % 2 === 0 ? low / 10 ** digits : x;
  const fixed = (x, digits) => Number(tie(x, digits)).toFixed(digits);  // halves to even, as printf rounds
  const exponent = (x, digits) => x.toExponential(digits).replace(/e(.)(\d)$/, "e$10$2");
  const general = x => (Math.abs(x) < 1e-4 ? exponent(x * (1 - 1e-12), 8).replace(/\.?0+e/, "e") : String(Number(Number(x).toPrecision(9))));
  const pad = (x, width) => String(x).padStart(width);
  const left = (x, width) => String(x).padEnd(width);
  const range = n => Array.from({ length: n }, (_, i) => i);
  const numbers = text => String(text).split(/[\s,]+/).filter(Boolean).map(Number).filter(x => !Number.isNaN(x));
  const number = (label, value, min, max, step = 1) => ({ label, value, min, max, step, type: "range" });
  const choice = (label, ...options) => ({ label, value: options[0], options });

  // --- 1: the numbers of a format, by its digits and exponents ---
  const formats = { f32: [24, -126, 127], bf16: [8, -126, 127], f16: [11, -14, 15] };
  function spacing(x, format = "f32") {
    const [digits, least] = formats[format];
    return 2 ** (Math.max(least, Math.floor(Math.log2(Math.abs(x) || 2 ** least))) - digits + 1);
  }
  function rounded(x, format = "f32") {
    const [, , most] = formats[format], step = spacing(x, format), q = x / step, low = Math.floor(q);
    const near = q - low > 0.5 || (q - low === 0.5 && low % 2 !== 0) ? low + 1 : low;  // halves to even
    return Math.abs(near * step) >= 2 ** (most + 1) ? Math.sign(x) * Infinity : near * step;
  }
  function bits(x, format) {
    const [digits, least, most] = formats[format], y = rounded(Math.abs(x), format), sign = x < 0 ? "1" : "0";
    const normal = y >= 2 ** least, e = Math.floor(Math.log2(y)), width = Math.log2(most + 1) + 1;
    const exponent = y === Infinity ? 2 * most + 1 : normal ? e + most : 0;
    const fraction = y === Infinity ? 0 : normal ? (y / 2 ** e - 1) * 2 ** (digits - 1) : y / spacing(0, format);
    return [sign, exponent.toString(2).padStart(width, "0"), fraction.toString(2).padStart(digits - 1, "0")];
  }

  // --- 2: a tape of numbers ---
  class Tape {
    nodes = [];
    multiplications = 0;
    record(op, value, ...inputs) { return this.nodes.push({ op, value, inputs }) - 1; }
    at(n) { return this.nodes[n].value; }
    input(value) { return this.record("input", value); }
    add(a, b) { return this.record("add", this.at(a) + this.at(b), [a, 1], [b, 1]); }
    mul(a, b) { return this.record("mul", this.at(a) * this.at(b), [a, this.at(b)], [b, this.at(a)]); }
    tanh(a, y = Math.tanh(this.at(a))) { return this.record("tanh", y, [a, 1 - y * y]); }
    backward(node, steps = Infinity) {
      const g = this.nodes.map(() => 0);
      g[node] = 1;
      for (let n = node; n >= 0 && node - n < steps; --n)
        for (const [from, slope] of this.nodes[n].inputs) g[from] += g[n] * slope, ++this.multiplications;
      return g;
    }
  }

  // --- 8: a cache that keeps the lines used last; a product of n x n in three orders ---
  function lines(order, n, most) {
    const used = new Map(), apart = Math.ceil(n * n / 16);
    let fetched = 0, last = -1;
    const touch = (matrix, i, j) => {
      const line = matrix * apart + ((i * n + j) >> 4);
      if (line === last) return;
      last = line;
      if (!used.delete(line)) {
        ++fetched;
        if (used.size === most) used.delete(used.keys().next().value);
      }
      used.set(line, true);
    };
    const all = (p0, p1, body) => { for (let i = p0; i < Math.min(n, p1); ++i) body(i); };
    const block = (p0, p1, j0, j1) => all(0, n, i => all(p0, p1, p => (touch(0, i, p), all(j0, j1, j => (touch(1, p, j), touch(2, i, j))))));
    if (order === "by rows") block(0, n, 0, n);
    else if (order === "by blocks") for (let j = 0; j < n; j += 64) for (let p = 0; p < n; p += 16) block(p, p + 16, j, j + 64);
    else all(0, n, i => all(0, n, j => (all(0, n, p => (touch(0, i, p), touch(1, p, j))), touch(2, i, j))));
    return fetched;
  }

  // --- 9, 10: a warp's addresses ---
  const sectors = (addresses, each = 4) => new Set(addresses.flatMap(a => range(each / 4).map(k => Math.floor((a + 4 * k) / 32)))).size;
  const byBank = words => range(32).map(bank => new Set(words.filter(w => w % 32 === bank)));
  const bankTurns = words => Math.max(...byBank(words).map(s => s.size));
  // --- 11b: who holds which number of a tensor core's matrices ---
  const place = {
    A: (lane, e) => [(lane >> 2) + (e >> 1) % 2 * 8, lane % 4 * 2 + e % 2 + (e >> 2) * 8],
    B: (lane, e) => [lane % 4 * 2 + e % 2 + (e >> 1) * 8, lane >> 2],
    C: (lane, e) => [(lane >> 2) + (e >> 1) * 8, lane % 4 * 2 + e % 2] };

  // --- 12, 13: the online softmax, of numbers and of blocks of scores with values ---
  function online(row) {
    let m = -Infinity, s = 0;
    return row.map(x => {
      const top = Math.max(m, x), shrink = Math.exp(m - top);
      s = s * shrink + Math.exp(x - top), m = top;
      return { x, m, shrink, s };
    });
  }
  function flash(scores, values, size) {
    let m = -Infinity, s = 0, y = 0;
    return range(Math.ceil(scores.length / size)).map(b => {
      const part = range(Math.min(size, scores.length - b * size)).map(i => b * size + i);
      const top = Math.max(m, ...part.map(i => scores[i])), shrink = Math.exp(m - top);
      m = top, s *= shrink, y *= shrink;
      for (const i of part) s += Math.exp(scores[i] - m), y += Math.exp(scores[i] - m) * values[i];
      return { scores: part.map(i => scores[i]), values: part.map(i => values[i]), m, shrink, s, y };
    });
  }
  const bound = (flops, bytes, peak, memory) => Math.min(1, flops / bytes * memory / peak);

  // --- pictures: squares, and what is marked among them ---
  const svg = (width, height, inside, label) => `<svg viewBox="0 0 ${width} ${height}" role="img" aria-label="${label}">${inside}</svg>`;
  const box = (x, y, w, h, mark, text = "") =>
    `<rect x="${x}" y="${y}" width="${w}" height="${h}" class="${mark}"/>` + (text === "" ? "" : `<text x="${x + w / 2}" y="${y + h / 2 + 4}">${text}</text>`);

  const views = { "a": [[3, 4], [4, 1], 0], "a.t()": [[4, 3], [1, 4], 0], "a.slice(1, 0, 4, 2)": [[3, 2], [4, 2], 0],
                  "a.narrow(0, 1, 2)": [[2, 4], [4, 1], 4], "a[1].expand(3, 4)": [[3, 4], [0, 1], 4] };

  const parts = {
    floats: {
      title: "Which number is stored?",
      controls: { x: { label: "number", value: "0.1" }, format: choice("format", "f32", "bf16", "f16") },
      text({ x, format }) {
        const value = Number(x), y = rounded(value, format), [sign, exponent, fraction] = bits(value, format);
        return [`sign ${sign}   exponent ${exponent}   fraction ${fraction}`, `stored   ${Number(y.toPrecision(17))}`,
                `off by   ${value ? Math.abs((y - value) / value).toExponential(1) : 0} of it`,
                `next to ${pad(y.toPrecision(8).replace(/\.?0+$/, ""), 9)}: ${general(spacing(y, format))} further on`];
      } },
    tape: {
      title: "y = (a + b) tanh(a), walked back node by node",
      controls: { a: number("a", 0.5, -2, 2, 0.1), b: number("b", 1, -2, 2, 0.1), steps: number("nodes walked", 1, 0, 5) },
      text({ a, b, steps }) {
        const tape = new Tape(), [x, z] = [tape.input(+a), tape.input(+b)], sum = tape.add(x, z), y = tape.mul(sum, tape.tanh(x));
        const g = tape.backward(y, +steps);
        return range(5).map(k => 4 - k).map(n => {
          const { op, value, inputs } = tape.nodes[n], walked = 4 - n < steps;
          const gets = inputs.map(([from, slope], i) => `${i ? "," : "  ->"} ${from} gets ${fixed(g[n] * slope, 4)}`).join("");
          return `${n} ${left(op, 5)} value ${fixed(value, 4)}  cotangent ${fixed(g[n], 4)}${walked ? gets : ""}`;
        });
      } },
    strides: {
      title: "From strides to cells of memory",
      controls: { view: choice("view", ...Object.keys(views)), i: number("i", 1, 0, 3), j: number("j", 1, 0, 3) },
      cell({ view, i, j }) {
        const [[rows, columns], strides, offset] = views[view];
        return offset + Math.min(i, rows - 1) * strides[0] + Math.min(j, columns - 1) * strides[1];
      },
      text(v) {
        const [shape, strides, offset] = views[v.view], list = s => `[${s.join(", ")}]`;
        return [`view                 shape    strides  offset  ${list([Math.min(v.i, shape[0] - 1), Math.min(v.j, shape[1] - 1)])}`,
                `${left(v.view, 20)} ${left(list(shape), 8)} ${left(list(strides), 8)} ${pad(offset, 6)} ${pad(this.cell(v), 7)}`];
      },
      picture(v) {
        const [[rows, columns], strides, offset] = views[v.view], at = this.cell(v);
        const seen = new Set(range(rows).flatMap(i => range(columns).map(j => offset + i * strides[0] + j * strides[1])));
        return svg(490, 42, range(12).map(c => box(5 + 40 * c, 4, 38, 34, c === at ? "hit" : seen.has(c) ? "on" : "", c)).join(""), "cells of memory");
      } },
    lines: {
      title: "Lines that a product fetches",
      controls: { n: number("n", 48, 16, 96, 16), cache: number("lines in the cache", 64, 16, 512, 16) },
      text: ({ n, cache }) => ["order            lines   multiply-adds a line", ...["by columns", "by rows", "by blocks"].map(order => {
        const found = lines(order, +n, +cache);
        return `${left(order, 12)} ${pad(found, 9)} ${pad(fixed(n ** 3 / found, 1), 22)}`;
      })] },
    sectors: {
      title: "Sectors of a warp's read (coalescing)",
      controls: { step: number("lanes are this many numbers apart", 1, 0, 16), from: number("first number", 0, 0, 8), each: choice("bytes each", 4, 8, 16) },
      addresses: ({ step, from }) => range(32).map(lane => 4 * (+from + lane * step)),
      text(v) {
        const found = sectors(this.addresses(v), +v.each);
        return [`sectors ${found}   bytes fetched for one that is wanted ${fixed(found * 32 / (32 * v.each), 2)}`];
      },
      picture(v) {
        const words = new Set(this.addresses(v).flatMap(a => range(v.each / 4).map(k => a / 4 + k)));
        return svg(706, 76, range(64).map(s => {
          const x = 2 + s % 32 * 22, y = 4 + (s >> 5) * 36, inside = range(8).filter(w => words.has(8 * s + w));
          return box(x, y, 20, 28, inside.length ? "on" : "") + inside.map(w => `<path d="M${x + 3 + 2 * w} ${y + 5}v18"/>`).join("");
        }).join(""), "the first 64 sectors");
      } },
    banks: {
      title: "Turns of shared memory (bank conflicts)",
      controls: { step: number("lanes are this many words apart", 1, 0, 33), group: number("words of padding after every 32", 0, 0, 4) },
      words: ({ step, group }) => range(32).map(lane => lane * step + Math.floor(lane * step / 32) * group),
      text(v) { return [`${bankTurns(this.words(v))} turns`]; },
      picture(v) {
        const worst = bankTurns(this.words(v));
        return svg(706, 16 * worst + 24, byBank(this.words(v)).map((s, bank) => [...s].map((w, k) => box(2 + 22 * bank, 4 + 16 * k, 20, 14, s.size > 1 ? "hit" : "on")).join("") +
          `<text x="${12 + 22 * bank}" y="${16 * worst + 18}">${bank}</text>`).join(""), "words by bank");
      } },
    lanes: {
      title: "A lane's numbers of a 16 x 8 x 16 multiply-add",
      controls: { lane: number("lane", 0, 0, 31) },
      text: ({ lane }) => [`lane ${pad(lane, 2)} of C:` + range(4).map(e => place.C(+lane, e)).map(([i, j]) => `  [${pad(i, 2)}, ${j}]`).join("")],
      picture({ lane }) {
        const draw = (name, x0, columns, held) => {
          const own = new Set(range(held).map(e => String(place[name](+lane, e))));
          return `<text x="${x0 + 8}" y="14">${name}</text>` + range(16 * columns).map(c => [c / columns | 0, c % columns]).map(([i, j]) =>
            box(x0 + 18 * j, 20 + 18 * i, 17, 17, own.has(`${i},${j}`) ? "hit" : "")).join("");
        };
        return svg(620, 312, draw("A", 4, 16, 8) + draw("B", 312, 8, 4) + draw("C", 470, 8, 4), "A, B and C");
      } },
    online: {
      title: "The online softmax of a row",
      controls: { row: { label: "row", value: "1 3 2 5 4 6" } },
      text: ({ row }) => ["x   maximum   the sum is multiplied by   sum",
        ...online(numbers(row)).map(({ x, m, shrink, s }) => `${x} ${pad(m, 9)} ${pad(fixed(shrink, 4), 26)} ${fixed(s, 4)}`)] },
    roofline: {
      title: "The roof of your machine",
      controls: { peak: { label: "peak, GFLOP/s", value: "67000" }, memory: { label: "memory, GB/s", value: "4800" } },
      ops: { add: [134217728, 1610612736], softmax: [671088640, 1073741824], layer_norm: [939524096, 1073741824],
             cross_entropy: [671088640, 537133060], matmul: [137438953472, 201326592] },
      text({ peak, memory }) {
        return [`the balance of the machine: ${fixed(peak / memory, 0)} operations a byte`,
                "op             operations      bytes   operations a byte   at most, of the peak", ...Object.entries(this.ops).map(([op, [f, b]]) => `${left(op, 13)} ${pad(exponent(f, 2), 11)} ${pad(exponent(b, 2), 10)} ` +
                  `${pad(fixed(f / b, 2), 19)} ${pad(fixed(100 * bound(f, b, +peak, +memory), 1), 20)} %`)];
      },
      picture({ peak, memory }) {
        const x = i => 40 + 120 * (Math.log10(i) + 1.5), y = share => 30 - 60 * Math.log10(share), ridge = x(peak / memory);
        const all = Object.entries(this.ops).map(([op, [f, b]]) => [op, x(f / b), y(bound(f, b, +peak, +memory))]).map(([op, px, py]) =>
          `<circle cx="${px}" cy="${py}" r="4" class="hit"/><text x="${px + 9}" y="${py + 14}" style="text-anchor:start;font-size:9px">${op}</text>`);
        return peak > 0 && memory > 0 ? svg(640, 210, `<path d="M${x(0.04)} ${y(0.04 * memory / peak)}L${ridge} 30H620"/>${all.join("")}`, "ops under the roof") : "";
      } },
    flash: {
      title: "Attention, a block of scores after the other",
      controls: { scores: { label: "scores", value: "1 2 4 3 0 2" }, values: { label: "values", value: "10 20 30 40 50 60" }, size: number("block", 2, 1, 6), blocks: number("blocks seen", 6, 1, 6) },
      text({ scores, values, size, blocks = 6 }) {
        const [s, v] = [numbers(scores), numbers(values)];
        if (s.length !== v.length) return ["as many values as scores are wanted"];
        return ["scores   values   maximum   all is multiplied by   sum of e   sum of e v   y so far",
                ...flash(s, v, +size).slice(0, blocks).map(b => `${b.scores.join(", ")} ${pad(b.values.join(", "), 12)} ${pad(b.m, 9)} ` +
                  `${pad(fixed(b.shrink, 4), 22)} ${pad(fixed(b.s, 4), 10)} ${pad(fixed(b.y, 4), 12)} ${pad(fixed(b.y / b.s, 4), 10)}`)];
      },
      picture({ scores, size, blocks }) {
        const T = Math.min(16, numbers(scores).length), cell = 150 / T;
        return svg(320, 160, range(T * T).map(c => [c / T | 0, c % T]).map(([i, j]) => box(4 + cell * j, 4 + cell * i, cell - 1, cell - 1,
          Math.floor(j / size) === blocks - 1 && i < size ? "hit" : i < size && j < size * blocks ? "on" : "")).join(""), "blocks of the scores");
      } },
  };

  if (typeof module !== "undefined") return void (module.exports = { parts, Tape, lines, rounded, spacing, sectors, bankTurns, place, online, flash });

  function show(part, element) {
    const values = Object.fromEntries(Object.entries(part.controls).map(([name, control]) => [name, control.value]));
    const [title, form, drawn, said] = ["p", "form", "div", "pre"].map(tag => document.createElement(tag));
    Object.assign(title, { className: "part-title", textContent: part.title });
    said.setAttribute("aria-live", "polite");
    for (const [name, { label, value, options, ...rest }] of Object.entries(part.controls)) {
      const input = Object.assign(document.createElement(options ? "select" : "input"), rest);
      const outside = document.createElement("label"), shown = document.createElement("output");
      options?.forEach(option => input.add(new Option(option)));
      input.value = value;
      (input.oninput = () => {
        values[name] = input.value;
        shown.textContent = rest.type ? input.value : "";
        drawn.innerHTML = part.picture ? part.picture(values) : "";
        said.textContent = part.text(values).join("\n");
      })();
      outside.append(label, input, shown);
      form.append(outside);
    }
    form.onsubmit = event => event.preventDefault();
    element.replaceChildren(title, form, drawn, said);
  }
  document.querySelectorAll(".part").forEach(element => show(parts[element.dataset.part], element));
})();
