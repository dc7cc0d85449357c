// Asks from a script of another origin in Chromium: browser.mjs URL PROFILE, the address of the
// example `cors` with a quota of three that comes back one a minute, and an empty folder.

import assert from 'node:assert/strict'
import { chromium } from 'playwright-core'

const [url, profile] = process.argv.slice(2)
const page_url = url.replace('127.0.0.1', 'localhost') + '/page'

const browser = await chromium.launchPersistentContext(profile, {
	executablePath: '/usr/bin/chromium',
	headless: true,
	timeout: 60_000,
	args: [
		'--no-sandbox',
		'--disable-gpu',
		'--disable-quic',
		'--no-first-run',
		'--disable-background-networking',
		'--disable-component-update',
		'--disable-sync',
	],
})
try {
	const page = await browser.newPage()
	// A preflight is nothing that the page knows of: the protocol of the developer tools tells.
	const preflights = []
	const tools = await browser.newCDPSession(page)
	await tools.send('Network.enable')
	tools.on('Network.responseReceived', ({ type, response }) => {
		if (type === 'Preflight') preflights.push(response.status)
	})
	// Nor are preflights remembered, then.
	await tools.send('Network.setCacheDisabled', { cacheDisabled: true })
	await page.goto(page_url)

	const ask = () =>
		page.evaluate(async (url) => {
			const reply = await fetch(url, { headers: { 'x-client': 'script' } })
			const read = (name) => reply.headers.get(name)
			return [reply.status, read('ratelimit'), read('ratelimit-policy'), read('retry-after')]
		}, url)
	const policy = '"per-client";q=3;w=180'
	for (const remaining of [2, 1, 0]) {
		const [status, limit, named, wait] = await ask()
		assert.deepEqual([status, named, wait], [200, policy, null])
		assert.match(limit, new RegExp(`^"per-client";r=${remaining};t=[0-9]+$`))
	}
	console.log('three requests of three are admitted: their preflights took none')

	const [status, limit, named, wait] = await ask()
	assert.deepEqual([status, named], [429, policy])
	assert.match(limit, /^"per-client";r=0;t=[0-9]+$/)
	assert(Number(wait) >= 1 && Number(wait) <= 60, `Retry-After: ${wait}`)
	console.log(`the refusal is read: Retry-After: ${wait}, RateLimit: ${limit}`)

	assert(preflights.length >= 4, `${preflights.length} preflights`)
	assert(preflights.every((status) => status === 200), `preflights: ${preflights}`)
	console.log(`preflights: ${preflights}`)

	await page.click('button')
	await page.waitForFunction(() => document.querySelector('pre').textContent !== '')
	const shown = (await page.textContent('pre')).split('\n')
	assert.equal(shown[0], '429')
	assert.match(shown[3], /^Retry-After: [0-9]+$/)
	console.log('the page of the example shows it')
} finally {
	await browser.close()
}
