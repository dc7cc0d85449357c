// Opens reports in headless Chromium as a reader would: on a phone and on a desk, light and dark,
// and on paper. Usage: node check.mjs CHROMIUM SCREENSHOTS REPORT.html...
//
// A report passes when nothing overflows, nothing is asked for but the file itself, the console
// stays empty, axe-core finds nothing serious, every scrolling table can be reached by the
// keyboard, and the text of the plots is large enough to read.

import fs from "node:fs";
import path from "node:path";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";
import { chromium } from "playwright-core";

const [executablePath, shots, ...reports] = process.argv.slice(2);
const axe = fs.readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const browser = await chromium.launch({ executablePath, args: ["--no-sandbox", "--disable-dev-shm-usage"] });
let problems = 0;

/** Runs in the page: what is wider than it, and plots whose text is too small. */
function measure() {
    const found = [];
    const width = document.documentElement.clientWidth;
    if (document.documentElement.scrollWidth > width) {
        found.push(`the page is ${document.documentElement.scrollWidth} px wide in ${width}`);
    }
    for (const element of document.body.querySelectorAll("*")) {
        const box = element.getBoundingClientRect();
        if (box.width > 0 && box.right > width + 0.5 && !element.closest(".scroll") && !element.closest(".skip")) {
            found.push(`<${element.tagName.toLowerCase()}> reaches to ${Math.round(box.right)} px`);
        }
    }
    for (const text of document.querySelectorAll("svg text")) {
        const box = text.getBoundingClientRect();
        const frame = text.closest("svg").getBoundingClientRect();
        if (box.height === 0) continue;
        if (box.height < 10) found.push(`"${text.textContent.trim()}" is ${box.height.toFixed(1)} px high`);
        if (box.left < frame.left - 1 || box.right > frame.right + 1) {
            found.push(`"${text.textContent.trim()}" is cut off by its plot`);
        }
    }
    return found;
}

async function look(report, width, scheme) {
    const context = await browser.newContext({ viewport: { width, height: 900 }, colorScheme: scheme });
    const page = await context.newPage();
    const url = pathToFileURL(report).href;
    const found = [];
    page.on("request", (request) => request.url() === url || found.push(`asks for ${request.url()}`));
    page.on("console", (message) => found.push(`console: ${message.text()}`));
    page.on("pageerror", (error) => found.push(`error: ${error.message}`));
    page.on("dialog", (dialog) => (found.push(`dialog: ${dialog.message()}`), dialog.dismiss()));
    await page.goto(url);
    found.push(...(await page.evaluate(measure)));

    // Tab goes through the page; the tables that scroll must come by.
    const regions = await page.locator(".scroll").count();
    const reached = new Set();
    for (let tab = 0; tab < regions + 5; tab++) {
        await page.keyboard.press("Tab");
        reached.add(await page.evaluate(() => [...document.querySelectorAll(".scroll")].indexOf(document.activeElement)));
    }
    for (let region = 0; region < regions; region++) {
        if (!reached.has(region)) found.push(`table ${region + 1} cannot be reached by the keyboard`);
    }

    await page.evaluate(axe);
    const { violations } = await page.evaluate(() => window.axe.run());
    for (const { impact, id, help, nodes } of violations) {
        const line = `axe ${impact} ${id}: ${help} (${nodes.length}): ${nodes[0].html.slice(0, 120)}`;
        if (["serious", "critical"].includes(impact)) found.push(line);
        else console.log(`  ${line}`);
    }

    const name = `${path.basename(report, ".html")}-${width}-${scheme}`;
    await page.screenshot({ path: path.join(shots, `${name}.png`), fullPage: true });
    if (scheme === "light" && width > 1000) {
        await page.emulateMedia({ media: "print" });
        await page.setViewportSize({ width: 720, height: 900 });
        found.push(...(await page.evaluate(measure)).map((text) => `printed: ${text}`));
        await page.pdf({ path: path.join(shots, `${name}.pdf`), format: "A4" });
    }
    await context.close();
    for (const text of new Set(found)) console.log(`  ${name}: ${text}`);
    problems += new Set(found).size;
    console.log(`${found.length ? "FAIL" : "ok"} ${name}`);
}

try {
    for (const report of reports) {
        for (const width of [360, 1280]) {
            for (const scheme of ["light", "dark"]) await look(report, width, scheme);
        }
    }
} finally {
    await browser.close();
}
if (reports.length === 0 || problems > 0) {
    console.log(`${problems} problems in ${reports.length} reports`);
    process.exitCode = 1;
}
