// The API on Go's standard library: net/http and database/sql with go-sqlite3.
//
//	DATABASE=peers.sqlite3 PORT=8000 ./server
//
// With DUTIES=duties.sqlite3, every request needs a key, is counted and is recorded. Without it there are no keys,
// limits or request records, and `franchiseId` replaces the scope of a key.
package main

import (
	"encoding/json"
	"log"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"
)

const prefix = "/ext/v1/"

type answer struct {
	OK         bool   `json:"ok"`
	Data       any    `json:"data"`
	ServerTime string `json:"serverTime"`
}

type page struct {
	OK         bool    `json:"ok"`
	Data       any     `json:"data"`
	NextCursor *string `json:"nextCursor"`
	ServerTime string  `json:"serverTime"`
}

type refusal struct {
	OK    bool   `json:"ok"`
	Error string `json:"error"`
}

type server struct {
	database *database
	duties   *duties
}

func main() {
	served := &server{database: openDatabase(os.Getenv("DATABASE"))}
	if path := os.Getenv("DUTIES"); path != "" {
		served.duties = openDuties(path)
	}
	log.Fatal(http.ListenAndServe("127.0.0.1:"+os.Getenv("PORT"), served))
}

func (s *server) ServeHTTP(writer http.ResponseWriter, request *http.Request) {
	route, argument := match(request.URL.Path)
	if route == "" {
		write(writer, http.StatusNotFound, refusal{Error: "not_found"})
		return
	}
	if s.duties == nil {
		s.handle(writer, request, route, argument, "")
		return
	}
	began := time.Now()
	known := s.duties.keyOf(request.Header.Get("Authorization"))
	if known == nil {
		write(writer, http.StatusUnauthorized, refusal{Error: "invalid_key"})
		return
	}
	verdict := s.duties.admit(known)
	if verdict.retryAfterSec > 0 {
		writer.Header().Set("Retry-After", strconv.Itoa(verdict.retryAfterSec))
		write(writer, http.StatusTooManyRequests, refusal{Error: "rate_limited"})
		return
	}
	var status int
	if verdict.count > known.perDay {
		status = write(writer, http.StatusTooManyRequests, refusal{Error: "quota_exceeded"})
	} else {
		status = s.handle(writer, request, route, argument, known.franchiseID)
	}
	s.duties.note(record{time.Now().UnixMilli(), known.id, route, status, time.Since(began).Microseconds()})
}

// match returns the route of a path, and the ID at its end.
func match(path string) (route, argument string) {
	rest := strings.TrimPrefix(path, prefix)
	switch {
	case rest == path:
		return "", ""
	case rest == "shops" || rest == "transactions" || rest == "members" || rest == "members/lookup":
		return rest, ""
	case strings.HasPrefix(rest, "transactions/"):
		return "transactions/{id}", strings.TrimPrefix(rest, "transactions/")
	case strings.HasPrefix(rest, "members/"):
		return "members/{token}", strings.TrimPrefix(rest, "members/")
	}
	return "", ""
}

func (s *server) handle(writer http.ResponseWriter, request *http.Request, route, argument, franchise string) int {
	query := request.URL.Query()
	var data any
	var err error
	switch route {
	case "shops":
		if s.duties == nil {
			franchise = query.Get("franchiseId")
		}
		data, err = s.database.shops(franchise)
	case "transactions":
		bills, last, failed := s.bills(query)
		return writePage(writer, bills, last, len(bills) == limitOf(query), failed)
	case "transactions/{id}":
		data, err = s.database.bill(argument)
	case "members":
		members, last, failed := s.database.members(query.Get("providerId"), query.Get("cursor"), limitOf(query))
		return writePage(writer, members, last, len(members) == limitOf(query), failed)
	case "members/lookup":
		data, err = s.database.lookup(query.Get("providerId"), query.Get("messagingUserId"))
	case "members/{token}":
		data, err = s.database.member(argument)
	}
	if err != nil {
		return fail(writer, err)
	}
	if data == nil {
		return write(writer, http.StatusNotFound, refusal{Error: "not_found"})
	}
	return write(writer, http.StatusOK, answer{true, data, now()})
}

func (s *server) bills(query url.Values) ([]bill, string, error) {
	shop, cursor, limit := query.Get("shopId"), query.Get("cursor"), limitOf(query)
	if since := query.Get("updatedSince"); since != "" {
		moment, err := time.Parse(time.RFC3339Nano, since)
		if err != nil {
			return nil, "", err
		}
		return s.database.billsByChange(shop, moment.UnixMilli(), cursor, limit)
	}
	first, _ := strconv.ParseInt(query.Get("from"), 10, 64)
	last, _ := strconv.ParseInt(query.Get("to"), 10, 64)
	return s.database.billsByDay(shop, first, last, cursor, limit)
}

func limitOf(query url.Values) int {
	limit, err := strconv.Atoi(query.Get("limit"))
	if err != nil {
		return 100
	}
	if limit > 200 {
		return 200
	}
	return limit
}

func now() string { return time.Now().UTC().Format("2006-01-02T15:04:05.000Z") }

func writePage(writer http.ResponseWriter, data any, last string, isFull bool, err error) int {
	if err != nil {
		return fail(writer, err)
	}
	var next *string
	if isFull {
		next = &last
	}
	return write(writer, http.StatusOK, page{true, data, next, now()})
}

func write(writer http.ResponseWriter, status int, body any) int {
	text, err := json.Marshal(body)
	if err != nil {
		return fail(writer, err)
	}
	writer.Header().Set("Content-Type", "application/json")
	writer.WriteHeader(status)
	_, _ = writer.Write(text)
	return status
}

func fail(writer http.ResponseWriter, err error) int {
	log.Print(err)
	http.Error(writer, `{"ok":false,"error":"internal"}`, http.StatusInternalServerError)
	return http.StatusInternalServerError
}
