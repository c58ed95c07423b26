// The interactive parts print what the chapters' programs print (docs/book), line by line; of a built site, a browser shows them, and
// search finds our words by others'. usage: node parts_test.mjs [HTML]
import { execFileSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import vm from "node:vm";

const book = new URL("../book/", import.meta.url);
const module = { exports: {} };
vm.runInNewContext(readFileSync(new URL("parts.js", import.meta.url), "utf8"), { module });
const { parts, Tape, lines, rounded, bankTurns } = module.exports;
const pages = { "01": "01-numbers", "02": "02-tape", "05": "05-strides", "08": "08-fast", "09": "09-cuda", 10: "10-adding",
                "11b": "11b-tensor-cores", 12: "12-rows", 13: "13-attention" };
const output = (chapter, name) => {
  const text = readFileSync(new URL(pages[chapter] + ".md", book), "utf8");
  return text.split(`<!-- output ${name} -->\n\`\`\`text\n`)[1].split("\n```")[0].split("\n");
};
let compared = 0, wrong = 0;
function same(what, got, wanted) {
  ++compared;
  if (String(got).trim() === String(wanted).trim()) return;
  ++wrong;
  console.log(`${what}: the part has\n  ${got}\nthe chapter\n  ${wanted}`);
}
const defaults = part => Object.fromEntries(Object.entries(part.controls).map(([name, c]) => [name, c.value]));
const all = (name, wanted, values = {}) => {
  const got = parts[name].text({ ...defaults(parts[name]), ...values });
  same(`${name}: lines`, got.length, wanted.length);
  wanted.forEach((line, i) => same(`${name} line ${i}`, got[i], line));
};

for (const line of output("01", "spacing").slice(0, 4)) same("floats", parts.floats.text({ x: line.match(/\d+/)[0], format: "f32" })[3], line);
same("f32", rounded(16777216 + 1), 16777216);
let total = 0;
for (let i = 0; i < 1e7; ++i) total = rounded === undefined ? 0 : Math.fround(total + Math.fround(0.1));
same("running total", `running total     ${total.toFixed(4)}   off by 8.8e-02 of it`, output("01", "sum")[1]);
for (let i = 0; i < 1000; ++i) {
  const x = Math.tan(i) * 10 ** (i % 60 - 40);
  same("rounded to f32", rounded(x, "f32"), Math.fround(x));
}
same("f16 of 65520", rounded(65520, "f16"), Infinity);
same("bf16 of 256 + 1", rounded(257, "bf16"), 256);
all("tape", output("02", "walk"), { steps: 5 });
const chain = new Tape(), w = Array.from({ length: 5 }, (_, i) => chain.input(i));
same("slopes", (chain.backward(w.reduce((a, b) => chain.add(a, b))), chain.multiplications), 8);
for (const line of output("05", "strides").slice(1)) all("strides", ["view                 shape    strides  offset  [1, 1]", line], { view: line.slice(0, 20).trim() });
all("lines", output("08", "lines").slice(1), { n: 128, cache: 128 });
const ways = { neighbours: [1, 0, 4], "neighbours, from 1 on": [1, 1, 4], "all the same": [0, 5, 4], "every 2nd": [2, 0, 4], "every 4th": [4, 0, 4],
               "every 8th, or further": [8, 0, 4], "neighbours, 16 bytes each": [4, 0, 16] };
for (const line of output("09", "warps").slice(1)) {
  const way = ways[line.slice(0, 26).trim()], [found, times] = line.slice(26).trim().split(/\s+/);
  if (way) all("sectors", [`sectors ${found}   bytes fetched for one that is wanted ${times}`], { step: way[0], from: way[1], each: way[2] });
}
const trees = { modulo: (t, s) => (t % (2 * s) ? -1 : t + s), dense: (t, s) => (2 * s * t + s < 256 ? 2 * s * t + s : -1),
                halves: (t, s) => (t < s ? t + s : -1) };
const treeCost = (tree, s) => {
  const warps = Array.from({ length: 8 }, (_, w) => Array.from({ length: 32 }, (_, t) => trees[tree](32 * w + t, s)).filter(word => word >= 0));
  return [warps.filter(words => words.length).length, Math.max(...warps.map(bankTurns))];
};
for (const line of output(10, "trees").slice(1, 9)) {
  const [step, , ...costs] = line.trim().split(/\s+/).map(Number);
  ["modulo", "dense", "halves"].forEach((tree, i) => same(`tree ${tree}`, treeCost(tree, tree === "halves" ? 256 >> step : 1 << (step - 1)), costs.slice(2 * i, 2 * i + 2)));
}
all("banks", ["32 turns"], { step: 32, group: 0 });
all("banks", ["1 turns"], { step: 32, group: 1 });
same("banks of one word", bankTurns([7, 7, 7]), 1);
for (const line of output("11b", "lanes").slice(0, 4)) all("lanes", [line], { lane: Number(line.match(/\d+/)[0]) });
all("online", output(12, "online").slice(0, 7).map(line => line.replace("0.0000 1.0000", "0.0000 1.0000")));
all("roofline", output(12, "roofline"));
all("flash", output(13, "steps").slice(0, 4));

const [site] = process.argv.slice(2), browser = "/usr/bin/chromium-headless-shell";
if (site && existsSync(browser)) {
  const dom = (page, time = 3000) => execFileSync(browser, ["--no-sandbox", "--disable-gpu", `--virtual-time-budget=${time}`, "--dump-dom",
    `file://${site}/${page}`], { stdio: ["ignore", "pipe", "ignore"], maxBuffer: 1 << 26 }).toString();
  let shown = 0;
  for (const [chapter, name] of Object.entries(pages)) {
    const page = dom(`docs/book/${name}.html`), wanted = page.split('class="part"').length - 1;
    same(`chapter ${chapter}: parts`, page.split('<pre aria-live="polite">').length - 1, wanted);
    shown += wanted;
  }
  same("parts in the book", shown, Object.keys(parts).length);
  for (const [word, page] of [["Wengert", "02-tape"], ["coalesced", "09-cuda"], ["topological", "02-tape"], ["unit%20roundoff", "01-numbers"]])
    same(`a search for ${word}`, dom(`docs/book/02-tape.html?q=${word}`, 20000).match(/href="[^"]*" class="md-search-result__link/g)?.some(l => l.includes(page)) ?? false, true);
} else if (site) console.log("no browser: the parts are not shown");
console.log(`${compared} lines compared, ${wrong} differ`);
process.exit(wrong ? 1 : 0);
