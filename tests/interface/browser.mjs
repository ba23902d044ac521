// What a person does on the page of `keyshift explore`, in a real browser without a network: prints what it saw as JSON.
//     node browser.mjs PAGE FOLDER, with NODE_PATH at a folder that has playwright-core
import fs from "node:fs";
import { createRequire } from "node:module";
import path from "node:path";

const require = createRequire(path.join(process.env.NODE_PATH ?? process.cwd(), "x.js"));
const { chromium } = require("playwright-core");
const [file, folder] = process.argv.slice(2);
const flags = ["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"];
const browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args: flags });
const seen = { faults: [], widths: {}, edits: [] };

async function opened(width, colorScheme) {
  const context = await browser.newContext({ viewport: { width, height: 900 }, colorScheme, offline: true, hasTouch: width < 600, acceptDownloads: true });
  const page = await context.newPage();
  page.on("console", (m) => seen.faults.push(`console: ${m.text()}`));
  page.on("pageerror", (e) => seen.faults.push(`error: ${e.message}`));
  page.on("dialog", (d) => { seen.faults.push(`dialog: ${d.message()}`); d.dismiss(); });
  page.on("request", (r) => { if (!/^(file|data|blob):/.test(r.url())) seen.faults.push(`request: ${r.url()}`); });
  await page.goto("file://" + file);
  await page.waitForSelector("#slider");
  return page;
}
const state = async (page) => ({ now: await page.locator(".now").textContent(), at: await page.locator("output").textContent(), status: await page.locator(".status").first().innerText() });

for (const [width, scheme] of [[1280, "light"], [1280, "dark"], [390, "light"], [390, "dark"]]) {
  const page = await opened(width, scheme);
  await page.waitForTimeout(200);
  seen.widths[`${width} ${scheme}`] = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
  if (folder) await page.screenshot({ path: path.join(folder, `${width}-${scheme}.png`), fullPage: true });
  await page.context().close();
}

const page = await opened(1280, "light");
seen.start = await state(page);
await page.locator("#slider").focus();
await page.keyboard.press("Home");
seen.slid = await state(page);
await page.keyboard.press("End");

// By dragging: the first block to the row two below.
const block = page.locator("[data-k]").first();
await block.scrollIntoViewIfNeeded();
const box = await block.boundingBox();
seen.k = Number(await block.getAttribute("data-k"));
seen.rows = await page.evaluate(() => [...document.querySelectorAll("[data-node]")].map((row) => Number(row.dataset.node)));
await page.mouse.move(box.x + box.width / 2, box.y + box.height / 2);
await page.mouse.down();
await page.mouse.move(box.x + box.width / 2 + 20, box.y + 40, { steps: 4 });
await page.mouse.move(box.x + box.width / 2 + 20, box.y + box.height / 2 + 60, { steps: 4 });
await page.mouse.up();
seen.dragged = await state(page);
seen.row = Number(await page.locator(`[data-k="${seen.k}"]`).locator("..").getAttribute("data-node"));

const saving = page.waitForEvent("download");
await page.getByRole("button", { name: "Save assignment" }).click();
const download = await saving;
seen.file = path.join(folder, download.suggestedFilename());
await download.saveAs(seen.file);

await page.keyboard.press("Control+z");
seen.undone = await state(page);

// By keys: the first key group of the first row, down by one.
await page.locator(".board").focus();
for (const key of ["ArrowDown", "Enter", "ArrowDown", "Enter"]) await page.keyboard.press(key);
seen.keyed = { ...(await state(page)), said: await page.locator(".live").textContent() };

// From the lists.
const selects = page.locator(".tools").first().locator("label");
await selects.filter({ hasText: "to node" }).locator("select").selectOption({ index: 1 });
await page.getByRole("button", { name: "Move", exact: true }).click();
seen.listed = await state(page);

const sides = page.locator("section", { hasText: "Two answers side by side" }).locator(".tools select");
await sides.nth(0).selectOption("-1");
await page.waitForTimeout(100);
seen.compared = await page.locator("section", { hasText: "Two answers side by side" }).locator("h3").last().textContent();
for (const summary of await page.locator("summary").all()) await summary.click();
await page.waitForTimeout(200);
seen.tables = await page.locator("table").count();
seen.elements = await page.evaluate(() => ({
  foreign: [...document.querySelectorAll("script, iframe, img, object, embed, form, base, link")].map((e) => e.outerHTML.slice(0, 60)),
  handlers: [...document.querySelectorAll("*")].flatMap((e) => [...e.attributes].filter((a) => a.name.startsWith("on")).map((a) => a.name)),
}));
seen.edits = await page.evaluate(async () => {
  const named = (said) => [...document.querySelectorAll(".tools label")].find((l) => l.firstChild.textContent === said).querySelector("select");
  const which = named("key group"), to = named("to node");
  const button = [...document.querySelectorAll(".tools button")].find((b) => b.textContent === "Move"), times = [];
  for (let i = 0; i < 20; i++) {
    which.selectedIndex = (7 * i) % which.options.length;
    to.selectedIndex = (i * 3) % to.options.length;
    const began = performance.now();
    button.click();
    times.push(performance.now() - began);
    await new Promise(requestAnimationFrame);
    await new Promise((done) => setTimeout(done));
    times[i] = [times[i], performance.now() - began];
  }
  return times;
});
if (folder) await page.emulateMedia({ media: "print" });
if (folder) await page.screenshot({ path: path.join(folder, "print.png"), fullPage: true });
await browser.close();
fs.writeSync(1, JSON.stringify(seen));
