"""The styles of the corpus: the habits of POS systems in eight languages."""

from datetime import date

from importing.export_corpus import Style, european, grouped

THAI = {"sale": "ชำระแล้ว", "void": "ยกเลิก"}
ENGLISH_FLAT = "id=Bill No; date=Date; time=Time; shop=Branch; item=Item; qty=Qty; price=Price; amount=Amount"

STYLES = [
    # --- flat lines
    Style("flat lines with the bill's total", f"{ENGLISH_FLAT}; paid=Bill Total; method=Payment; status=Status"),
    Style(
        "flat lines without a total",
        "id=Receipt No; datetime=Date; item=Product; qty=Quantity; price=Unit Price; amount=Line Total; status=Status",
    ),
    Style(
        "flat lines with quantity and price only",
        "id=Order #; datetime=Order Date; item=Menu Item; qty=Qty; price=Price; status=Order Status",
        statuses={"sale": "Completed", "void": "Cancelled", "open": "Pending"},
    ),
    Style(
        "flat lines with voided lines",
        "id=หมายเลขใบเสร็จ; date=วันที่เปิดบิล; time=เวลาเปิดบิล; item=ชื่อสินค้า; qty=จำนวน; amount=ราคารวม; "
        "line_status=สถานะ; shop=สาขา",
        cancelled_lines=True,
        statuses={"sale": "-"},
    ),
    Style(
        "the number only on the first row of a bill",
        "id=เลขที่บิล; date=วันที่; time=เวลา; table=โต๊ะ; item=รายการ; qty=จำนวน; price=ราคา; amount=จำนวนเงิน",
        first_row_only=True,
        statuses={"sale": ""},
        year_offset=543,
    ),
    Style(
        "the number and the total only on the first row of a bill",
        "id=Ticket; datetime=Date; paid=Grand Total; tip=Tip; item=Item; qty=Qty; amount=Amount; status=Status",
        first_row_only=True,
        tips=True,
    ),
    Style(
        "flat lines with discounts, service charge and tax",
        "id=Check No; datetime=Closed At; item=Item; qty=Qty; price=Price; amount=Amount; gross=Subtotal; "
        "discount=Discount; service=Service Charge 10%; tax=VAT 7%; rounding=Rounding; total=Total; method=Paid By; "
        "status=Status",
        discounts=True,
        service=10,
        tax=7,
        tax_on_top=True,
        rounding=True,
    ),
    # --- bills only
    Style(
        "gross, discount and net with tax included",
        "id=เลขที่ใบเสร็จ; datetime=วันเวลา; shop=สาขา; gross=ยอดก่อนลด; discount=ส่วนลด; tax=ภาษี 7%; total=ยอดสุทธิ; "
        "method=วิธีชำระเงิน; status=สถานะ",
        discounts=True,
        tax=7,
        statuses=THAI,
        year_offset=543,
    ),
    Style(
        "net beside tax, and no column with both",
        "id=Invoice No; datetime=Date; gross=Gross Sales; discount=Discounts; after_discount=Net Sales; tax=Tax; "
        "status=Status",
        discounts=True,
        tax=7,
        tax_on_top=True,
    ),
    Style(
        "net and tax and gross with the tax",
        "id=Rechnungsnummer; date=Datum; time=Uhrzeit; before_tax=Netto; tax=MwSt 19%; total=Brutto; "
        "method=Zahlungsart; status=Status",
        tax=19,
        statuses={"sale": "Bezahlt", "void": "Storniert"},
        money=european,
        delimiter=";",
        date="%d.%m.%Y",
    ),
    Style(
        "total beside tip, paid by card and cash",
        "id=Bill #; datetime=Date/Time; gross=Sub Total; tax=Tax; total=Total; tip=Tip; way Cash=Cash; way Card=Card; "
        "status=Status",
        tax=7,
        tax_on_top=True,
        tips=True,
        splits=True,
    ),
    Style(
        "total beside tip, and the rest adds up without the tip",
        "id=Receipt; datetime=Date; gross=Subtotal; tax=Sales Tax; total=Total; tip=Gratuity; status=Status",
        tax=8,
        tax_on_top=True,
        tips=True,
    ),
    Style(
        "total beside tip, and nothing else",
        "id=Receipt; datetime=Date; total=Total; tip=Tip; status=Status",
        tips=True,
        expect="Tip",
        answers={"bill.amounts.net": "Total + Tip"},
    ),
    Style(
        "a tip column without tips",
        "id=Receipt; datetime=Date; gross=Subtotal; tax=Tax; total=Total; tip=Tip; status=Status",
        tax=8,
        tax_on_top=True,
    ),
    Style(
        "fees deducted",
        "uuid=Transaction ID; date=Date; time=Time; zone=Time Zone; gross=Gross Sales; discount=Discounts; "
        "after_discount=Net Sales; tax=Tax; tip=Tip; paid=Total Collected; fee=Fees; payout=Net Total; shop=Location; "
        "status=Event Type",
        discounts=True,
        negative_discounts=True,
        tax=7,
        tax_on_top=True,
        tips=True,
        statuses={"sale": "Payment", "refund": "Refund"},
        refund_sign=-1,
        money=lambda number: f"${number:,.2f}",
        date="%Y-%m-%d",
        time="%H:%M:%S",
    ),
    Style(
        "gross less fee",
        "uuid=Payment Reference No; datetime=Date; paid=Gross; fee=Fee; payout=Net; status=Status",
        date="%Y-%m-%d",
        tax_is_compared=False,
    ),
    Style(
        "two totals that nothing explains",
        "id=Bill; datetime=Date; gross=Amount; total=Total; status=Status",
        discounts=True,
        service=10,
        expect="Amount|Total",
        answers={"bill.amounts.net": "Total"},
    ),
    Style(
        "totals twice under the same heading",
        "id=Bill; datetime=Date; gross=Total; discount=Discount; total=Total; status=Status",
        discounts=True,
    ),
    Style(
        "tax of an odd rate that is on top or not",
        "id=Bill; datetime=Date; gross=Total; tax=Tax; status=Status",
        tax=7,
        tax_on_top=False,
    ),
    # --- several files
    Style(
        "bills, lines and payments",
        "id=Receipt No; date=Date; time=Time; shop=Store; gross=Subtotal; discount=Discount; total=Total; tip=Tip; "
        "status=Status",
        lines="id=Receipt No; date=Date; item=Item; qty=Qty; price=Price; amount=Amount",
        payments="id=Receipt No; date=Date; method=Payment Method; amount_paid=Amount",
        discounts=True,
        tips=True,
        splits=True,
    ),
    Style(
        "bills and lines in French",
        "dated_id=N° ticket; datetime=Date; before_tax=Total HT; tax=TVA; total=Total TTC; method=Mode de règlement; "
        "status=Statut; shop=Établissement",
        lines="dated_id=N° ticket; item=Article; qty=Quantité; price=Prix unitaire; amount=Montant",
        tax=10,
        statuses={"sale": "Payé", "void": "Annulé"},
        money=european,
        delimiter=";",
    ),
    # --- languages
    Style(
        "Spanish, with types and a tip",
        "id=Folio; date=Fecha; time=Hora; shop=Sucursal; gross=Subtotal; discount=Descuento; tax=IVA; total=Total; "
        "tip=Propina; way Cash=Efectivo; way Card=Tarjeta; status=Estatus",
        discounts=True,
        tax=16,
        tax_on_top=True,
        tips=True,
        statuses={"sale": "Pagado", "void": "Cancelado", "refund": "Reembolso"},
        shops=("Centro", "Norte"),
    ),
    Style(
        "Portuguese flat lines",
        "id=Nº pedido; datetime=Data; item=Produto; qty=Quantidade; price=Preço; amount=Valor; "
        "service=Taxa de serviço; total=Total; method=Forma de pagamento; status=Situação",
        service=10,
        statuses={"sale": "Pago", "void": "Cancelado"},
        money=european,
        delimiter=";",
    ),
    Style(
        "Indonesian, points between thousands",
        "id=No Struk; date=Tanggal; time=Jam; shop=Cabang; gross=Subtotal; discount=Diskon; tax=Pajak; total=Total; "
        "method=Metode Pembayaran; status=Status",
        unit=1000,
        discounts=True,
        tax=10,
        tax_on_top=True,
        money=grouped,
        statuses={"sale": "Lunas", "void": "Batal", "open": "Belum lunas"},
    ),
    Style(
        "Vietnamese flat lines",
        "id=Mã hóa đơn; datetime=Thời gian; shop=Chi nhánh; item=Tên hàng; qty=Số lượng; price=Đơn giá; "
        "amount=Thành tiền; paid=Khách cần trả; status=Trạng thái",
        unit=1000,
        money=grouped,
        statuses={"sale": "Hoàn thành", "void": "Đã hủy"},
    ),
    Style(
        "German flat lines with quantities like 1.0",
        "id=Bonnummer; date=Datum; time=Uhrzeit; item=Artikel; qty=Menge; price=Einzelpreis; amount=Betrag; "
        "paid=Gesamtbetrag; tip=Trinkgeld; method=Zahlungsart; status=Status",
        money=lambda number: f"{european(number)} €",
        quantity=lambda number: f"{number}.0",
        tips=True,
        statuses={"sale": "Abgeschlossen", "void": "Storno"},
        delimiter=";",
        date="%d.%m.%Y",
    ),
    # --- status
    Style(
        "words that contain others",
        "id=Order No; datetime=Order Date; total=Total; status=Status",
        statuses={"sale": "Success", "void": "Voided", "open": "Unsuccessful"},
    ),
    Style(
        "not paid and not cancelled",
        "id=Order No; datetime=Order Date; total=Total; status=State",
        statuses={"sale": "Not cancelled", "void": "Cancelled", "open": "Not paid"},
    ),
    Style(
        "Thai words for failures",
        "id=เลขที่ออเดอร์; datetime=วันที่; total=ยอดรวม; status=สถานะ",
        statuses={"sale": "สำเร็จ", "void": "ยกเลิก", "open": "ไม่สำเร็จ", "refund": "คืนเงิน"},
    ),
    Style(
        "yes and no under a heading",
        "id=Order No; datetime=Order Date; total=Total; flag=Voided?",
        statuses={"sale": "No", "void": "Yes"},
    ),
    Style(
        "1 and 0 under a Thai heading",
        "id=เลขที่บิล; datetime=วันที่; total=ยอดรวม; flag=ยกเลิก",
        statuses={"sale": "0", "void": "1"},
    ),
    Style(
        "a word that nobody knows",
        "id=Order No; datetime=Order Date; total=Total; status=Status",
        statuses={"sale": "Paid", "void": "Zurp"},
        expect="Status",
        answers={"status.Zurp": "void"},
    ),
    # --- numbers that start again
    Style(
        "numbers restart every day, one file per day",
        "id=Bill No; date=Date; time=Time; total=Total; status=Status",
        days=14,
        one_file_per_day=True,
    ),
    Style(
        "numbers restart in every branch",
        "id=Bill No; datetime=Date; shop=Branch; total=Total; status=Status",
        shops=("Riverside", "Old Town", "Airport"),
        restarts="",
        days=2,
    ),
    Style(
        "numbers restart at every till",
        "id=Bill No; date=Date; time=Time; till=Terminal; item=Item; qty=Qty; price=Price; amount=Amount; "
        "paid=Bill Total; status=Status",
        tills=("POS1", "POS2"),
        restarts="till",
    ),
    Style(
        "numbers that go on for weeks",
        "id=Bill No; date=Date; time=Time; total=Total; status=Status",
        days=10,
        restarts="",
    ),
    Style(
        "long IDs",
        "long_id=Check Id; datetime=Date; total=Total; status=Status",
    ),
    # --- files
    Style(
        "a title above the heading and a row of totals",
        "id=เลขที่บิล; date=วันที่; time=เวลา; total=ยอดสุทธิ",
        title=("รายงานการขาย", ""),
        totals_row=("รวม", "", "", "sum"),
        statuses={"sale": ""},
        encoding="cp874",
    ),
    Style(
        "two-digit Buddhist years",
        "id=เลขที่บิล; date=วันที่; time=เวลา; total=ยอดสุทธิ; status=สถานะ",
        date="%d/%m/%y",
        year_offset=543,
        statuses=THAI,
    ),
    Style(
        "day and month in doubt",
        "id=Bill No; datetime=Date; total=Total; status=Status",
        first_day=date(2026, 11, 9),
        expect="Date",
        answers={"dates.order": "dmy"},
    ),
    Style(
        "month first, in the afternoon",
        "id=Bill No; datetime=Date; total=Total; status=Status",
        date="%m/%d/%y",
        time="%I:%M %p",
        days=9,
    ),
    Style(
        "many branches and a group",
        "id=Bill No; datetime=Date; shop=Outlet; total=Total; status=Status",
        shops=tuple(f"Branch {number:02}" for number in range(1, 61)),
        days=1,
        bills_per_day=4,
        date="%Y-%m-%d",
    ),
    Style(
        "cash received and change",
        "id=Bill No; datetime=Date; gross=Subtotal; discount=Discount; total=Net Amount; method=Payment Type; "
        "received=Received; change=Change; status=Status",
        discounts=True,
    ),
    Style(
        "a workbook of bills",
        "id=Bill No; datetime=Date; gross=Subtotal; tax=Tax; total=Total; tip=Tip; method=Payment; status=Status",
        tax=7,
        tax_on_top=True,
        tips=True,
        title=("Sales report",),
        is_workbook=True,
    ),
    Style(
        "a workbook of lines",
        f"datetime=Date; {ENGLISH_FLAT.replace('date=Date; time=Time; ', '')}; paid=Bill Total; status=Status",
        is_workbook=True,
    ),
    # --- payments
    Style(
        "a row for each payment, without a total",
        "id=Receipt No; datetime=Date; method=Payment Method; amount_paid=Amount; status=Status",
        splits=True,
        is_row_per_payment=True,
    ),
    Style(
        "ways of paying as columns, without a total",
        "id=Receipt No; datetime=Date; way Cash=เงินสด; way Card=บัตรเครดิต; status=Status",
        splits=True,
    ),
    Style(
        "tips in the payments file, outside the total",
        "dated_id=Bill No; datetime=Date; total=Total; status=Status",
        payments="dated_id=Bill No; method=Method; total=Amount; tip=Tip",
        tips=True,
        expect="Tip",
    ),
    # --- lines that are refunded, and shops that are none
    Style(
        "words about lines that nobody knows",
        "id=Bill No; datetime=Date; item=Item; qty=Qty; price=Price; amount=Amount; line_status=State",
        cancelled_lines=True,
        statuses={"sale": ""},
        line_statuses=("Zurp", "Sold"),
        expect="State",
        answers={"status.Zurp": "void"},
    ),
    # --- more languages
    Style(
        "Italian, tax on top",
        "id=Numero scontrino; date=Data; time=Ora; gross=Imponibile; tax=IVA; total=Totale; method=Pagamento; "
        "status=Stato",
        tax=22,
        tax_on_top=True,
        statuses={"sale": "Pagato", "void": "Annullato"},
        money=european,
        delimiter=";",
    ),
    Style(
        "Dutch flat lines",
        "id=Bonnummer; date=Datum; time=Tijd; item=Artikel; qty=Aantal; price=Prijs; amount=Bedrag; paid=Totaal; "
        "method=Betaalwijze",
        statuses={"sale": ""},
        money=european,
        delimiter=";",
        date="%d-%m-%Y",
    ),
    Style(
        "Polish, net and gross",
        "id=Nr paragonu; datetime=Data; total=Wartość brutto; tax=VAT; before_tax=Wartość netto; status=Status",
        tax=23,
        statuses={"sale": "Opłacone", "void": "Anulowane"},
        money=european,
        delimiter=";",
    ),
    Style(
        "Turkish, tax included",
        "id=Fiş No; date=Tarih; time=Saat; total=Toplam; tax=KDV; method=Ödeme Tipi; status=Durum",
        tax=10,
        statuses={"sale": "Ödendi", "void": "İptal"},
        money=european,
        delimiter=";",
        date="%d.%m.%Y",
    ),
    Style(
        "Russian",
        "id=Номер чека; datetime=Дата; total=Сумма; status=Статус",
        statuses={"sale": "Оплачен", "void": "Отменен", "open": "Не оплачен"},
        money=european,
        delimiter=";",
    ),
    Style(
        "Japanese, tax on top",
        "id=伝票番号; datetime=会計日時; gross=小計; tax=消費税; total=合計; method=支払方法; status=状態",
        tax=10,
        tax_on_top=True,
        statuses={"sale": "完了", "void": "取消", "open": "未完了"},
        date="%Y/%m/%d",
        money=lambda number: f"{number:.0f}",
        unit=10,
    ),
    Style(
        "Chinese, with discounts",
        "id=订单号; datetime=下单时间; gross=原价; discount=优惠; paid=实收; status=订单状态",
        discounts=True,
        statuses={"sale": "已完成", "void": "已取消", "open": "待支付"},
        date="%Y-%m-%d",
    ),
    Style(
        "Korean",
        "id=영수증번호; date=판매일자; time=판매시간; total=합계금액; status=상태",
        statuses={"sale": "정상", "void": "취소"},
        date="%Y-%m-%d",
        money=lambda number: f"{number:,.0f}",
        unit=100,
    ),
    Style(
        "Arabic, tax included",
        "id=رقم الفاتورة; datetime=التاريخ; before_tax=المبلغ قبل الضريبة; tax=الضريبة; total=الإجمالي; status=الحالة",
        tax=15,
        statuses={"sale": "مدفوع", "void": "ملغاة"},
        date="%Y-%m-%d",
    ),
    # --- totals that only some columns explain
    Style(
        "a paid amount that is the amount less the discount",
        "id=Bill; datetime=Date; gross=Amount; discount=Discount; total=Paid",
        discounts=True,
        statuses={"sale": ""},
    ),
    Style(
        "lines with a tip of the bill on each of them",
        "id=Bill; datetime=Date; item=Item; qty=Qty; amount=Line total; tip=Tip",
        tips=True,
        statuses={"sale": ""},
        expect="Tip",
        answers={"bill.amounts.net": "sum of Line total + Tip"},
    ),
    Style(
        "charges of which some may be outside the total",
        "id=Order; datetime=Date; delivery=Delivery Fee; total=Total; tip=Tip; status=Status",
        delivery=True,
        tips=True,
        expect="Delivery Fee",
        answers={"bill.amounts.net": "Total + Tip"},
    ),
    Style(
        "base, tax, total and a tip",
        "id=Folio; date=Fecha; time=Hora; before_tax=Base; tax=IVA; total=Total; tip=Propina",
        tax=16,
        tips=True,
        statuses={"sale": ""},
        expect="Propina",
        answers={"bill.amounts.net": "Total + Propina"},
    ),
    Style(
        "commas between thousands and semicolons between cells",
        "id=Ticket; datetime=Fecha; total=Total",
        unit=1000,
        money=lambda number: f"{number:,.0f}",
        delimiter=";",
        statuses={"sale": ""},
    ),
    Style(
        "bills, lines and payments with the day and the branch in all files",
        "id=Receipt; date=Date; time=Time; shop=Branch; total=Total; tip=Tip; status=Status",
        lines="id=Receipt; date=Date; shop=Branch; item=Item; qty=Qty; amount=Amount",
        payments="id=Receipt; date=Date; shop=Branch; method=Type; amount_paid=Amount",
        splits=True,
        tips=True,
        shops=("A", "B"),
    ),
]
