{{ config(materialized='incremental', unique_key='customer_id', alias='buyers') }}
select c.customer_id, c.first_name, min(o.order_date) as first_order, count(o.order_id) as orders, sum(o.amount) as spent
from {{ ref('stg_customers') }} as c
left join {{ ref('orders') }} as o on o.customer_id = c.customer_id
{% if is_incremental() %} where this is never compiled {% endif %}
group by c.customer_id, c.first_name
