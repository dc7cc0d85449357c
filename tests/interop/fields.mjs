// Reads the rate limit fields of every format: fields.mjs URL, the address of the example `formats`
// with a quota of three a minute.
//
// The older formats are read by `ratelimit-header-parser`. It knows no lists, which the revisions
// 08 to 11 of the draft have: those are read by a parser of structured fields.

import assert from 'node:assert/strict'
import { parseRateLimit } from 'ratelimit-header-parser'
import { parseList } from 'structured-headers'

const url = process.argv[2]

/** Asks four times: three requests are admitted, the fourth is refused. */
async function* replies(path) {
	for (const [remaining, status] of [[2, 200], [1, 200], [0, 200], [0, 429]]) {
		const reply = await fetch(url + path)
		await reply.text()
		assert.equal(reply.status, status)
		const wait = reply.headers.get('retry-after')
		if (status === 429) {
			assert.match(wait, /^[1-9][0-9]*$/)
			assert(Number(wait) <= 60)
		} else {
			assert.equal(wait, null)
		}
		yield [reply.headers, remaining, Number(wait ?? 60)]
	}
}

for (const path of ['/draft-07', '/draft-06', '/x-epoch', '/x-delta']) {
	for await (const [headers, remaining, wait] of replies(path)) {
		const { limit, used, reset, ...rest } = parseRateLimit(headers)
		assert.deepEqual([limit, used, rest.remaining], [3, 3 - remaining, remaining])
		const seconds = (reset - Date.now()) / 1000
		// The parser's clock and the server's are read one after the other.
		assert(Math.abs(seconds - wait) < 3, `a reset in ${seconds} s, a wait of ${wait} s`)
	}
	console.log(`${path}: read by ratelimit-header-parser`)
}

for await (const [headers, remaining, wait] of replies('/draft-11')) {
	assert.deepEqual(
		parseList(headers.get('ratelimit-policy')),
		[['default', new Map([['q', 3], ['w', 60]])]],
	)
	const [[name, parameters]] = parseList(headers.get('ratelimit'))
	assert.equal(name, 'default')
	assert.deepEqual([...parameters.keys()], ['r', 't'])
	assert.equal(parameters.get('r'), remaining)
	assert(parameters.get('t') >= 1 && parameters.get('t') <= wait)
}
console.log('/draft-11: read by structured-headers')
