select
    {{ dbt.listagg('word', "', '", 'order by word desc') }} as a_listagg,
    {{ dbt.listagg('word', "', '", none, 2) }} as a_limited_listagg,
    {{ dbt.bool_or('n > 2') }} as a_bool_or,
    {{ dbt.any_value("'x'") }} as an_any_value
from (values ('a', 1), ('b', 2), ('c', 3)) as words (word, n)
