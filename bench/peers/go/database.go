package main

import (
	"database/sql"
	"encoding/json"
	"errors"
	"log"

	_ "github.com/mattn/go-sqlite3"
)

// A JSON column is copied into the response unchanged.
type raw = json.RawMessage

type category struct {
	ID       string  `json:"id"`
	Name     *string `json:"name"`
	Level    *int64  `json:"level"`
	ParentID *string `json:"parentId"`
	Hidden   bool    `json:"hidden"`
}

type shop struct {
	ShopID      string     `json:"shopId"`
	ShopName    *string    `json:"shopName"`
	FranchiseID *string    `json:"franchiseId"`
	ProviderID  *string    `json:"providerId"`
	Timezone    *string    `json:"timezone"`
	Categories  []category `json:"categories"`
}

type bill struct {
	ID            string  `json:"id"`
	OrderIDs      raw     `json:"orderIds"`
	ReceiptNumber *string `json:"receiptNumber"`
	TaxNumber     *string `json:"taxNumber"`
	Timestamp     *string `json:"timestamp"`
	BusinessDate  *string `json:"businessDate"`
	BillDate      *string `json:"billDate"`
	UpdatedAt     *string `json:"updatedAt"`
	FranchiseID   *string `json:"franchiseId"`
	ShopID        string  `json:"shopId"`
	DeviceID      *string `json:"deviceId"`
	StationID     *string `json:"stationId"`
	Channel       raw     `json:"channel"`
	ServiceType   *string `json:"serviceType"`
	TableName     *string `json:"tableName"`
	MemberID      *string `json:"memberId"`
	Items         raw     `json:"items"`
	Amounts       raw     `json:"amounts"`
	Payments      raw     `json:"payments"`
	Status        string  `json:"status"`
	VoidReason    *string `json:"voidReason"`
	Cashier       *string `json:"cashier"`
}

type member struct {
	MemberID      string  `json:"memberId"`
	Rank          *string `json:"rank"`
	RankLevel     *int64  `json:"rankLevel"`
	RankName      *string `json:"rankName"`
	Points        float64 `json:"points"`
	Credit        float64 `json:"credit"`
	CreditEnabled bool    `json:"creditEnabled"`
	Coupons       raw     `json:"coupons"`
	Labels        raw     `json:"labels"`
	Persona       raw     `json:"persona"`
	CreatedDate   *string `json:"createdDate"`
	VisitCount    int64   `json:"visitCount"`
	LastVisit     *string `json:"lastVisit"`
	HasTel        bool    `json:"hasTel"`
	HasEmail      bool    `json:"hasEmail"`
	HasMessaging  bool    `json:"hasMessaging"`
}

type reference struct {
	MemberID string `json:"memberId"`
}

// CAST keeps the driver from parsing strings that look like times, and from guessing the type of a JSON column.
const billColumns = `id, CAST(order_ids AS BLOB), receipt_number, tax_number, CAST(timestamp AS TEXT),
	CAST(business_date AS TEXT), CAST(bill_date AS TEXT), CAST(updated_at AS TEXT), franchise_id, shop_id, device_id,
	station_id, CAST(channel AS BLOB), service_type, table_name, member_id, CAST(items AS BLOB), CAST(amounts AS BLOB),
	CAST(payments AS BLOB), status, void_reason, cashier`
const memberColumns = `member_id, rank, rank_level, rank_name, points, credit, credit_enabled, CAST(coupons AS BLOB),
	CAST(labels AS BLOB), CAST(persona AS BLOB), CAST(created_date AS TEXT), visit_count, CAST(last_visit AS TEXT),
	has_tel, has_email, has_messaging`

type database struct {
	shopList, categories, billPlace, byDay, byChange, oneBill, memberPlace, memberPage, oneMember, account *sql.Stmt
}

func openDatabase(path string) *database {
	file, err := sql.Open("sqlite3", "file:"+path+"?mode=ro&_query_only=true")
	if err != nil {
		log.Fatal(err)
	}
	file.SetMaxOpenConns(8)
	file.SetMaxIdleConns(8)
	prepare := func(text string) *sql.Stmt {
		statement, err := file.Prepare(text)
		if err != nil {
			log.Fatal(err)
		}
		return statement
	}
	return &database{
		shopList: prepare(`SELECT shop_id, shop_name, franchise_id, provider_id, timezone FROM shops
			WHERE franchise_id = ? ORDER BY place`),
		categories: prepare(`SELECT c.shop_id, c.id, c.name, c.level, c.parent_id, c.hidden
			FROM categories c JOIN shops s ON s.shop_id = c.shop_id WHERE s.franchise_id = ?
			ORDER BY c.shop_id, c.place`),
		billPlace: prepare("SELECT bill_day, closed_ms, updated_ms FROM bills WHERE id = ? AND shop_id = ?"),
		byDay: prepare("SELECT " + billColumns + ` FROM bills WHERE shop_id = ?
			AND (bill_day, closed_ms, id) > (?, ?, ?) AND bill_day <= ? ORDER BY bill_day, closed_ms, id LIMIT ?`),
		byChange: prepare("SELECT " + billColumns + ` FROM bills WHERE shop_id = ? AND (updated_ms, id) > (?, ?)
			ORDER BY updated_ms, id LIMIT ?`),
		oneBill:     prepare("SELECT " + billColumns + " FROM bills WHERE id = ? LIMIT 1"),
		memberPlace: prepare("SELECT created_ms FROM members WHERE member_id = ?"),
		memberPage: prepare("SELECT " + memberColumns + ` FROM members WHERE provider_id = ?
			AND (created_ms, member_id) > (?, ?) ORDER BY created_ms, member_id LIMIT ?`),
		oneMember: prepare("SELECT " + memberColumns + " FROM members WHERE member_id = ?"),
		account: prepare(`SELECT member_id FROM accounts WHERE provider_id = ? AND messaging_user_id = ?
			ORDER BY created_ms DESC, member_id DESC LIMIT 1`),
	}
}

func (d *database) shops(franchise string) (any, error) {
	rows, err := d.shopList.Query(franchise)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	found := []*shop{}
	byID := map[string]*shop{}
	for rows.Next() {
		one := &shop{Categories: []category{}}
		if err := rows.Scan(&one.ShopID, &one.ShopName, &one.FranchiseID, &one.ProviderID, &one.Timezone); err != nil {
			return nil, err
		}
		found = append(found, one)
		byID[one.ShopID] = one
	}
	if err := rows.Err(); err != nil {
		return nil, err
	}
	inner, err := d.categories.Query(franchise)
	if err != nil {
		return nil, err
	}
	defer inner.Close()
	for inner.Next() {
		var of string
		var one category
		if err := inner.Scan(&of, &one.ID, &one.Name, &one.Level, &one.ParentID, &one.Hidden); err != nil {
			return nil, err
		}
		byID[of].Categories = append(byID[of].Categories, one)
	}
	return found, inner.Err()
}

func (d *database) billsByDay(shopID string, first, last int64, cursor string, limit int) ([]bill, string, error) {
	day, closed := first, int64(-1)
	if cursor != "" {
		var updated sql.NullInt64
		if err := d.billPlace.QueryRow(cursor, shopID).Scan(&day, &closed, &updated); err != nil {
			return nil, "", err
		}
	}
	return readBills(d.byDay.Query(shopID, day, closed, cursor, last, limit))
}

func (d *database) billsByChange(shopID string, since int64, cursor string, limit int) ([]bill, string, error) {
	if cursor != "" {
		var day, closed sql.NullInt64
		if err := d.billPlace.QueryRow(cursor, shopID).Scan(&day, &closed, &since); err != nil {
			return nil, "", err
		}
	}
	return readBills(d.byChange.Query(shopID, since, cursor, limit))
}

func readBills(rows *sql.Rows, err error) ([]bill, string, error) {
	if err != nil {
		return nil, "", err
	}
	defer rows.Close()
	found := []bill{}
	for rows.Next() {
		found = append(found, bill{})
		if err := scanBill(rows.Scan, &found[len(found)-1]); err != nil {
			return nil, "", err
		}
	}
	last := ""
	if len(found) > 0 {
		last = found[len(found)-1].ID
	}
	return found, last, rows.Err()
}

func (d *database) bill(id string) (any, error) {
	found := &bill{}
	return orNone(found, scanBill(d.oneBill.QueryRow(id).Scan, found))
}

func (d *database) members(providerID, cursor string, limit int) ([]member, string, error) {
	created := int64(-1)
	if cursor != "" {
		if err := d.memberPlace.QueryRow(cursor).Scan(&created); err != nil {
			return nil, "", err
		}
	}
	rows, err := d.memberPage.Query(providerID, created, cursor, limit)
	if err != nil {
		return nil, "", err
	}
	defer rows.Close()
	found := []member{}
	for rows.Next() {
		found = append(found, member{})
		if err := scanMember(rows.Scan, &found[len(found)-1]); err != nil {
			return nil, "", err
		}
	}
	last := ""
	if len(found) > 0 {
		last = found[len(found)-1].MemberID
	}
	return found, last, rows.Err()
}

func (d *database) member(token string) (any, error) {
	found := &member{}
	return orNone(found, scanMember(d.oneMember.QueryRow(token).Scan, found))
}

func (d *database) lookup(providerID, userID string) (any, error) {
	found := &reference{}
	return orNone(found, d.account.QueryRow(providerID, userID).Scan(&found.MemberID))
}

// orNone returns nil for a row that does not exist.
func orNone(found any, err error) (any, error) {
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	return found, err
}

func scanBill(scan func(...any) error, b *bill) error {
	return scan(&b.ID, &b.OrderIDs, &b.ReceiptNumber, &b.TaxNumber, &b.Timestamp, &b.BusinessDate, &b.BillDate,
		&b.UpdatedAt, &b.FranchiseID, &b.ShopID, &b.DeviceID, &b.StationID, &b.Channel, &b.ServiceType, &b.TableName,
		&b.MemberID, &b.Items, &b.Amounts, &b.Payments, &b.Status, &b.VoidReason, &b.Cashier)
}

func scanMember(scan func(...any) error, m *member) error {
	return scan(&m.MemberID, &m.Rank, &m.RankLevel, &m.RankName, &m.Points, &m.Credit, &m.CreditEnabled, &m.Coupons,
		&m.Labels, &m.Persona, &m.CreatedDate, &m.VisitCount, &m.LastVisit, &m.HasTel, &m.HasEmail, &m.HasMessaging)
}
