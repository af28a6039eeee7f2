// The duties of our service: key check, exact minute window, day count and request records, durable in SQLite.
// As in our service, requests that arrive together are admitted in one transaction, which also writes the records of
// finished requests.

import { Database } from "bun:sqlite";
import { createHash, timingSafeEqual } from "node:crypto";

const WINDOW_US = 60_000_000;
const FORGET_EVERY = 16;
const RECORDS_MS = 250;
const THAILAND_MS = 7 * 3_600_000;

export function openDuties(path) {
  const file = new Database(path);
  file.exec("PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL; PRAGMA busy_timeout = 5000");
  const keys = new Map();
  for (const key of file.query("SELECT key_id, sha256, franchise_id, per_min, per_day FROM keys").all()) {
    keys.set(key.key_id, { ...key, sha256: Buffer.from(key.sha256, "hex") });
  }
  const latest = file.query(`SELECT n, at, day, count,
    (SELECT at FROM admissions WHERE key_id = ?1 AND n = latest.n + 1 - ?2) AS blocking
    FROM admissions AS latest WHERE key_id = ?1 ORDER BY n DESC LIMIT 1`);
  const insert = file.query("INSERT INTO admissions (key_id, n, at, day, count) VALUES (?, ?, ?, ?, ?)");
  const forget = file.query(`DELETE FROM admissions WHERE key_id = ?1 AND n IN
    (SELECT n FROM (SELECT n, at FROM admissions WHERE key_id = ?1 ORDER BY n LIMIT ?3) WHERE at <= ?2)`);
  const closeDay = file.query("INSERT OR REPLACE INTO daily_totals (key_id, day, count) VALUES (?, ?, ?)");
  const dayTotal = file.query("SELECT count FROM daily_totals WHERE key_id = ? AND day = ?");
  const record = file.query("INSERT INTO requests (at, key_id, route, status, took_us) VALUES (?, ?, ?, ?, ?)");
  const { newest } = file.query("SELECT max(at) AS newest FROM admissions").get();
  const shift = Math.max(Date.now() * 1000, newest ?? 0) - Bun.nanoseconds() / 1000;
  let waiting = [];
  let records = [];
  let flushDue = false;

  function admitOne(key, now, day) {
    const found = latest.get(key.key_id, key.per_min) ?? { n: 0, at: now, day, count: 0, blocking: null };
    const at = Math.max(now, found.at);
    if (found.blocking !== null && found.blocking + WINDOW_US > at) {
      return { retryAfterSec: Math.ceil((found.blocking + WINDOW_US - at) / 1e6) };
    }
    let count = found.count;
    if (day !== found.day) {
      closeDay.run(key.key_id, found.day, count);
      count = dayTotal.get(key.key_id, day)?.count ?? 0;
    }
    insert.run(key.key_id, found.n + 1, at, day, count + 1);
    if (found.n % FORGET_EVERY === 0) forget.run(key.key_id, at - WINDOW_US, 3 * FORGET_EVERY);
    return { count: count + 1 };
  }

  const writeRecords = (written) => {
    for (const one of written) record.run(one.at, one.keyId, one.route, one.status, one.tookUs);
  };
  const admitTogether = file.transaction((asked, written) => {
    const now = Math.round(shift + Bun.nanoseconds() / 1000);
    const thai = new Date(Date.now() + THAILAND_MS);
    const day = thai.getUTCFullYear() * 10_000 + (thai.getUTCMonth() + 1) * 100 + thai.getUTCDate();
    const verdicts = asked.map(({ key }) => admitOne(key, now, day));
    writeRecords(written);
    return verdicts;
  });
  const flush = file.transaction(writeRecords);

  function admitWaiting() {
    const asked = waiting;
    const written = records;
    waiting = [];
    records = [];
    const verdicts = admitTogether.immediate(asked, written);
    asked.forEach(({ resolve }, place) => resolve(verdicts[place]));
  }

  return {
    /** Returns the key of an Authorization header, or undefined. */
    keyOf(header) {
      const text = header?.startsWith("Bearer ") ? header.slice(7) : "";
      const key = keys.get(text.split("_")[2]);
      return key && timingSafeEqual(key.sha256, createHash("sha256").update(text).digest()) ? key : undefined;
    },
    /** Resolves to the key's request count for the day, or to the seconds to wait. */
    admit(key) {
      if (waiting.length === 0) setImmediate(admitWaiting);
      return new Promise((resolve) => waiting.push({ key, resolve }));
    },
    note(keyId, route, status, tookUs) {
      records.push({ at: Date.now(), keyId, route, status, tookUs });
      if (flushDue) return;
      flushDue = true;
      setTimeout(() => {
        flushDue = false;
        const written = records;
        records = [];
        if (written.length > 0) flush.immediate(written);
      }, RECORDS_MS);
    },
  };
}
