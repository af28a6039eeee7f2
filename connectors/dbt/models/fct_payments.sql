-- One row per payment. Every run builds it anew, like the lines.
{{ config(materialized='table') }}

select
    payments.shop_id, payments.bill_id, payments.position, bills.business_date, payments.name as method,
    payments.amount, payments.change,
    case when bills.status = 'void' then 0
        else coalesce(payments.amount, 0) - coalesce(payments.change, 0) end as received
from {{ source('counterfoil', 'payments') }} as payments
join {{ source('counterfoil', 'bills') }} as bills on bills.shop_id = payments.shop_id and bills.id = payments.bill_id
