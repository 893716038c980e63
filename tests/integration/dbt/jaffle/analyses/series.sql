select generated_number from ({{ dbt.generate_series(3) }}) as series
{{ dbt.except() }} select 2
