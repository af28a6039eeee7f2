-- One row per member, with what they have bought. It has no phone number, email address or label.
{{ config(materialized='table') }}

with bought as (
    select
        member_id, count(*) as bills, sum(revenue) as revenue, min(business_date) as first_day,
        max(business_date) as last_day
    from {{ source('counterfoil', 'bills') }}
    where member_id is not null and status <> 'void'
    group by member_id
)
select
    members.member_id, members.provider_id, members."rank", members.rank_name, members.points, members.credit,
    members.created_date, members.visit_count, members.last_visit, members.removed_at,
    coalesce(bought.bills, 0) as bills, coalesce(bought.revenue, 0) as revenue, bought.first_day, bought.last_day
from {{ source('counterfoil', 'members') }} as members
left join bought on bought.member_id = members.member_id
