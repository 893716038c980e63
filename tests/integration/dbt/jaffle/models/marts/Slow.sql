{{ config(options={'refresh': 'deferred'}) }}
select count(*) as days from {{ source('web', 'visits') }}
