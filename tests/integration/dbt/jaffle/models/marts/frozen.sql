{{ config(materialized='table', schema='archive', post_hook="insert into `noted` values ('{{ this.identifier }}')") }}
select customer_id, spent from {{ ref('customers') }}
