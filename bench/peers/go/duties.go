package main

import (
	"crypto/sha256"
	"crypto/subtle"
	"database/sql"
	"encoding/hex"
	"errors"
	"log"
	"strings"
	"time"
)

// The duties of our service: key check, exact minute window, day count and request records, durable in SQLite.
// As in our service, requests that arrive together are admitted in one transaction, which also writes the records of
// finished requests.

const (
	windowUs    = 60_000_000
	forgetEvery = 16
	mostAtOnce  = 64
	recordsWait = 250 * time.Millisecond
)

var thailand = time.FixedZone("Thailand", 7*3600)

type key struct {
	id, franchiseID string
	sha256          []byte
	perMin, perDay  int64
}

type verdict struct {
	count         int64
	retryAfterSec int
}

type asked struct {
	key   *key
	reply chan verdict
}

type record struct {
	at     int64
	keyID  string
	route  string
	status int
	tookUs int64
}

type duties struct {
	keys    map[string]*key
	waiting chan asked
	records chan record
	file    *sql.DB
	began   time.Time
	shift   int64

	latest, insert, forget, closeDay, dayTotal, record *sql.Stmt
}

func openDuties(path string) *duties {
	file, err := sql.Open("sqlite3", "file:"+path+"?_journal_mode=WAL&_synchronous=NORMAL&_busy_timeout=5000&_txlock=immediate")
	if err != nil {
		log.Fatal(err)
	}
	file.SetMaxOpenConns(1)
	d := &duties{keys: map[string]*key{}, waiting: make(chan asked, 1024), records: make(chan record, 4096), file: file}
	d.readKeys()
	prepare := func(text string) *sql.Stmt {
		statement, err := file.Prepare(text)
		if err != nil {
			log.Fatal(err)
		}
		return statement
	}
	d.latest = prepare(`SELECT n, at, day, count, (SELECT at FROM admissions WHERE key_id = ?1 AND n = latest.n + 1 - ?2)
		FROM admissions AS latest WHERE key_id = ?1 ORDER BY n DESC LIMIT 1`)
	d.insert = prepare("INSERT INTO admissions (key_id, n, at, day, count) VALUES (?, ?, ?, ?, ?)")
	d.forget = prepare(`DELETE FROM admissions WHERE key_id = ?1 AND n IN
		(SELECT n FROM (SELECT n, at FROM admissions WHERE key_id = ?1 ORDER BY n LIMIT ?3) WHERE at <= ?2)`)
	d.closeDay = prepare("INSERT OR REPLACE INTO daily_totals (key_id, day, count) VALUES (?, ?, ?)")
	d.dayTotal = prepare("SELECT count FROM daily_totals WHERE key_id = ? AND day = ?")
	d.record = prepare("INSERT INTO requests (at, key_id, route, status, took_us) VALUES (?, ?, ?, ?, ?)")
	var newest sql.NullInt64
	if err := file.QueryRow("SELECT max(at) FROM admissions").Scan(&newest); err != nil {
		log.Fatal(err)
	}
	d.began = time.Now()
	d.shift = d.began.UnixMicro()
	if newest.Int64 > d.shift {
		d.shift = newest.Int64
	}
	go d.work()
	return d
}

func (d *duties) readKeys() {
	rows, err := d.file.Query("SELECT key_id, sha256, franchise_id, per_min, per_day FROM keys")
	if err != nil {
		log.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var found key
		var digest string
		if err := rows.Scan(&found.id, &digest, &found.franchiseID, &found.perMin, &found.perDay); err != nil {
			log.Fatal(err)
		}
		found.sha256, _ = hex.DecodeString(digest)
		d.keys[found.id] = &found
	}
}

// keyOf returns the key of an Authorization header, or nil.
func (d *duties) keyOf(header string) *key {
	text := strings.TrimPrefix(header, "Bearer ")
	parts := strings.SplitN(text, "_", 4)
	if text == header || len(parts) < 4 {
		return nil
	}
	found := d.keys[parts[2]]
	digest := sha256.Sum256([]byte(text))
	if found == nil || subtle.ConstantTimeCompare(found.sha256, digest[:]) != 1 {
		return nil
	}
	return found
}

// admit returns the key's request count for the day, or the seconds to wait.
func (d *duties) admit(known *key) verdict {
	reply := make(chan verdict, 1)
	d.waiting <- asked{known, reply}
	return <-reply
}

func (d *duties) note(finished record) { d.records <- finished }

// work admits the requests that are waiting and writes the records of finished ones.
func (d *duties) work() {
	due := time.NewTicker(recordsWait)
	for {
		var together []asked
		select {
		case first := <-d.waiting:
			together = append(together, first)
		case <-due.C:
		}
		for more := true; more && len(together) < mostAtOnce; {
			select {
			case next := <-d.waiting:
				together = append(together, next)
			default:
				more = false
			}
		}
		verdicts, err := d.write(together, d.finished())
		if err != nil {
			log.Fatal(err)
		}
		for place, one := range together {
			one.reply <- verdicts[place]
		}
	}
}

// finished returns the records that are waiting to be written.
func (d *duties) finished() []record {
	var found []record
	for {
		select {
		case one := <-d.records:
			found = append(found, one)
		default:
			return found
		}
	}
}

func (d *duties) write(together []asked, finished []record) ([]verdict, error) {
	if len(together)+len(finished) == 0 {
		return nil, nil
	}
	transaction, err := d.file.Begin()
	if err != nil {
		return nil, err
	}
	defer transaction.Rollback()
	now := d.shift + time.Since(d.began).Microseconds()
	thai := time.Now().In(thailand)
	day := int64(thai.Year()*10_000 + int(thai.Month())*100 + thai.Day())
	verdicts := make([]verdict, len(together))
	for place, one := range together {
		if verdicts[place], err = d.admitOne(transaction, one.key, now, day); err != nil {
			return nil, err
		}
	}
	for _, one := range finished {
		if _, err := transaction.Stmt(d.record).Exec(one.at, one.keyID, one.route, one.status, one.tookUs); err != nil {
			return nil, err
		}
	}
	return verdicts, transaction.Commit()
}

func (d *duties) admitOne(in *sql.Tx, known *key, now, day int64) (verdict, error) {
	n, last, lastDay, count := int64(0), now, day, int64(0)
	var blocking sql.NullInt64
	err := in.Stmt(d.latest).QueryRow(known.id, known.perMin).Scan(&n, &last, &lastDay, &count, &blocking)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return verdict{}, err
	}
	if last > now {
		now = last
	}
	if wait := blocking.Int64 + windowUs - now; blocking.Valid && wait > 0 {
		return verdict{retryAfterSec: int((wait + 999_999) / 1_000_000)}, nil
	}
	if day != lastDay {
		if _, err := in.Stmt(d.closeDay).Exec(known.id, lastDay, count); err != nil {
			return verdict{}, err
		}
		count = 0
		err := in.Stmt(d.dayTotal).QueryRow(known.id, day).Scan(&count)
		if err != nil && !errors.Is(err, sql.ErrNoRows) {
			return verdict{}, err
		}
	}
	if _, err := in.Stmt(d.insert).Exec(known.id, n+1, now, day, count+1); err != nil {
		return verdict{}, err
	}
	if n%forgetEvery == 0 {
		if _, err := in.Stmt(d.forget).Exec(known.id, now-windowUs, 3*forgetEvery); err != nil {
			return verdict{}, err
		}
	}
	return verdict{count: count + 1}, nil
}
