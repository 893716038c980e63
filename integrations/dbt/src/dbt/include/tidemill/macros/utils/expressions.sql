{#- Expressions in Spark's dialect; those that are not here are as dbt has them. -#}

{% macro tidemill__current_timestamp() %}current_timestamp(){% endmacro %}
{% macro tidemill__snapshot_get_time() %}current_timestamp(){% endmacro %}
{% macro tidemill__snapshot_string_as_time(timestamp) %}{{ return("timestamp '" ~ timestamp ~ "'") }}{% endmacro %}
{% macro tidemill__current_timestamp_backcompat() %}current_timestamp(){% endmacro %}
{% macro tidemill__current_timestamp_in_utc_backcompat() %}current_timestamp(){% endmacro %}

{% macro tidemill__any_value(expression) %}any_value({{ expression }}){% endmacro %}
{% macro tidemill__array_concat(array_1, array_2) %}concat({{ array_1 }}, {{ array_2 }}){% endmacro %}
{% macro tidemill__array_construct(inputs, data_type) %}
  {%- if inputs %}array({{ inputs | join(', ') }}){% else %}cast(array() as array<{{ data_type }}>){% endif -%}
{% endmacro %}
{% macro tidemill__cast_bool_to_text(field) %}cast({{ field }} as string){% endmacro %}
{% macro tidemill__safe_cast(field, type) %}try_cast({{ field }} as {{ type }}){% endmacro %}
{% macro tidemill__equals(expr1, expr2) %}
  {%- if adapter.behavior.enable_truthy_nulls_equals_macro.no_warn %}({{ expr1 }} <=> {{ expr2 }}){% else %}({{ expr1 }} = {{ expr2 }}){% endif -%}
{% endmacro %}

{% macro tidemill__date(year, month, day) %}date '{{ modules.datetime.date(year, month, day).isoformat() }}'{% endmacro %}
{% macro tidemill__dateadd(datepart, interval, from_date_or_timestamp) %}dateadd({{ datepart }}, {{ interval }}, {{ from_date_or_timestamp }}){% endmacro %}
{#- As elsewhere in dbt, boundaries of the part are counted: from 23:59 to 0:01 is a day. -#}
{% macro tidemill__datediff(first_date, second_date, datepart) %}
  {%- if datepart in ('millisecond', 'microsecond') -%}
    timestampdiff({{ datepart }}, {{ first_date }}, {{ second_date }})
  {%- else -%}
    timestampdiff({{ datepart }}, date_trunc('{{ datepart }}', {{ first_date }}), date_trunc('{{ datepart }}', {{ second_date }}))
  {%- endif -%}
{% endmacro %}
{% macro tidemill__last_day(date, datepart) %}
  {%- if datepart == 'month' %}last_day({{ date }}){% else %}cast(dateadd(day, -1, dateadd({{ datepart }}, 1, date_trunc('{{ datepart }}', {{ date }}))) as date){% endif -%}
{% endmacro %}

{% macro tidemill__listagg(measure, delimiter_text, order_by_clause, limit_num) %}
  {%- if limit_num -%}
    {%- if order_by_clause -%}
      {% do exceptions.raise_compiler_error('listagg takes no limit_num together with order_by_clause here') %}
    {%- endif -%}
    array_join(slice(sort_array(collect_list({{ measure }})), 1, {{ limit_num }}), {{ delimiter_text }})
  {%- else -%}
    listagg({{ measure }}, {{ delimiter_text }}){% if order_by_clause %} within group ({{ order_by_clause }}){% endif %}
  {%- endif -%}
{% endmacro %}

{#- A backslash in a text is an escape in Spark. -#}
{% macro tidemill__escape_single_quotes(expression) %}{{ return(expression | replace('\\', '\\\\') | replace("'", "\\'")) }}{% endmacro %}
{% macro tidemill__split_part(string_text, delimiter_text, part_number) %}split_part({{ string_text }}, {{ delimiter_text }}, {{ part_number }}){% endmacro %}
{% macro tidemill__hash(field) %}md5(cast({{ field }} as string)){% endmacro %}

{% macro tidemill__generate_series(upper_bound) %}
  select explode(sequence(1, {{ upper_bound }})) as generated_number
{% endmacro %}
{% macro tidemill__date_spine(datepart, start_date, end_date) %}
  select date_{{ datepart }} from (
    select explode(sequence(0, {{ dbt.get_intervals_between(start_date, end_date, datepart) }} - 1)) as step
  ) as steps
  lateral view explode(array({{ dbt.dateadd(datepart, 'step', start_date) }})) as spine as date_{{ datepart }}
{% endmacro %}
