// Walk over every built page in a real browser without a network, at two widths, light and dark, and list what is wrong:
// console errors, requests that leave the disk, missing pictures, formulas left as TeX, text that overflows or cannot be read.
//
//     npm install playwright-core          (anywhere; set NODE_PATH to its node_modules)
//     node docs/crawl.mjs docs/_build/html [folder for screenshots] [part of a page's name]
//
// CHROMIUM names the browser (default /usr/bin/chromium).
import { createRequire } from "node:module";
import fs from "node:fs";
import path from "node:path";

const require = createRequire(path.join(process.env.NODE_PATH ?? process.cwd(), "x.js"));
const { chromium } = require("playwright-core");
const [site = "docs/_build/html", shots = "", only = ""] = process.argv.slice(2);
const WIDTHS = [1280, 390];
const SCHEMES = ["light", "dark"];

function pagesIn(folder) {
  return fs.readdirSync(folder, { withFileTypes: true }).flatMap((entry) => {
    const full = path.join(folder, entry.name);
    if (entry.isDirectory()) return entry.name.startsWith("_") && entry.name !== "_modules" ? [] : pagesIn(full);
    return entry.name.endsWith(".html") ? [full] : [];
  });
}

// Runs in the page.
function inspect() {
  const found = [];
  const visible = (e) => e.getClientRects().length > 0 && getComputedStyle(e).visibility !== "hidden";
  const name = (e) => `${e.tagName.toLowerCase()}${e.className?.split ? "." + e.className.split(" ").join(".") : ""} "${(e.textContent ?? "").trim().slice(0, 50)}"`;
  for (const image of document.images) if (visible(image) && image.naturalWidth === 0) found.push(`missing picture ${image.src}`);
  for (const error of document.querySelectorAll("mjx-merror, [data-mjx-error]")) found.push(`formula in error: ${error.textContent}`);
  for (const math of document.querySelectorAll(".math")) if (!math.querySelector("mjx-container, math")) found.push(`formula not set: ${name(math)}`);
  if (document.documentElement.scrollWidth > innerWidth + 1) {
    found.push(`the page is ${document.documentElement.scrollWidth} px wide`);
    for (const e of document.querySelectorAll(".content *")) if (visible(e) && e.getBoundingClientRect().right > innerWidth + 1 && !e.closest("pre, .table-wrapper, .math, .output")) { found.push(`sticks out: ${name(e)}`); break; }
  }
  for (const e of document.querySelectorAll("p, li, h1, h2, h3, h4, dt, dd, td, summary, figcaption")) {
    if (visible(e) && getComputedStyle(e).overflowX === "visible" && e.scrollWidth > e.clientWidth + 2 && e.clientWidth > 0 && !e.closest(".table-wrapper, .math, pre")) found.push(`overflows by ${e.scrollWidth - e.clientWidth} px: ${name(e)}`);
  }
  const rgb = (text) => (text.match(/[\d.]+/g) ?? []).map(Number);
  const light = ([r, g, b]) => [r, g, b].map((v) => ((v /= 255) <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)).reduce((s, v, i) => s + v * [0.2126, 0.7152, 0.0722][i], 0);
  const ground = (e) => { for (; e; e = e.parentElement) { const c = rgb(getComputedStyle(e).backgroundColor); if (c.length === 3 || c[3] > 0.5) return c; } return [255, 255, 255]; };
  const seen = new Set();
  const walk = document.createTreeWalker(document.querySelector("article, .content") ?? document.body, NodeFilter.SHOW_TEXT);
  const prose = [];
  while (walk.nextNode()) {
    const e = walk.currentNode.parentElement;
    if (!walk.currentNode.data.trim() || !visible(e) || e.closest("script, style")) continue;
    if (!e.closest("pre, code, mjx-container, .math")) prose.push(walk.currentNode.data);
    const [a, b] = [light(rgb(getComputedStyle(e).color)), light(ground(e))].sort((x, y) => y - x);
    const key = `${getComputedStyle(e).color} on ${ground(e)}`;
    if ((a + 0.05) / (b + 0.05) < 3 && !seen.has(key) && !e.closest(".headerlink, mjx-container")) { seen.add(key); found.push(`hard to read (${((a + 0.05) / (b + 0.05)).toFixed(1)}, ${key}): ${name(e)}`); }
  }
  const raw = prose.join("").match(/.{0,30}(\$\$|\\begin\{|\\(frac|sum|le|ge|text)\b).{0,30}/);
  if (raw) found.push(`raw TeX: ${raw[0]}`);
  for (const code of document.querySelectorAll(".cell_input pre")) if (visible(code) && code.scrollWidth > code.clientWidth + 2 && innerWidth >= 1000) found.push(`code wider than its box by ${code.scrollWidth - code.clientWidth} px: ${name(code)}`);
  return found;
}

const browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args: ["--no-sandbox"] });
let bad = 0, count = 0;
const leadsOn = (file) => fs.readFileSync(file, "utf8").includes('http-equiv="refresh"');  // where a page used to be
const files = pagesIn(path.resolve(site)).filter((f) => f.includes(only) && !leadsOn(f)).sort();
for (const width of WIDTHS)
  for (const colorScheme of SCHEMES) {
    const context = await browser.newContext({ viewport: { width, height: 900 }, colorScheme, offline: true });
    context.setDefaultTimeout(180_000);  // of a busy machine
    for (const file of files) {
      const page = await context.newPage();
      const found = [];
      page.on("console", (m) => { if (m.type() === "error") found.push(`console: ${m.text()}`); });
      page.on("pageerror", (e) => found.push(`script error: ${e.message}`));
      page.on("requestfailed", (r) => found.push(`request failed: ${r.url()}`));
      page.on("request", (r) => { if (!/^(file|data|blob):/.test(r.url())) found.push(`remote request: ${r.url()}`); });
      await page.goto("file://" + file, { waitUntil: "load" });
      await page.evaluate(async () => {
        document.querySelectorAll("details").forEach((d) => (d.open = true));
        document.querySelectorAll("img[loading=lazy]").forEach((i) => (i.loading = "eager"));
        await globalThis.MathJax?.startup?.promise;
        await Promise.all([...document.images].map((i) => i.decode().catch(() => 0)));
      });
      found.push(...(await page.evaluate(inspect)));
      const label = path.relative(path.resolve(site), file);
      if (shots) {
        fs.mkdirSync(shots, { recursive: true });
        await page.screenshot({ path: path.join(shots, `${label.replaceAll("/", "_").replace(".html", "")}-${width}-${colorScheme}.png`), fullPage: true });
      }
      if (label === "search.html" && width === 1280 && colorScheme === "light") {
        await page.goto("file://" + file + "?q=contiguity");
        await page.waitForTimeout(1500);
        const hits = await page.locator("#search-results li").count();
        if (hits === 0) found.push("the search from the file system finds nothing for 'contiguity'");
      }
      count++;
      for (const fault of new Set(found)) { bad++; console.log(`${label} ${width} ${colorScheme}: ${fault}`); }
      await page.close();
    }
    await context.close();
  }
await browser.close();
console.log(`${files.length} pages, ${count} views, ${bad} faults`);
process.exit(bad ? 1 : 0);
