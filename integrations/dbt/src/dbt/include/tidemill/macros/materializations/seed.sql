{#- A seed is a table. One that has the columns of its file stays, and gets the difference in one epoch. -#}
{% materialization seed, adapter='tidemill' %}
  {% set target_relation = this.incorporate(type='table') %}
  {% set existing_relation = load_cached_relation(this) %}
  {% set agate_table = load_agate_table() %}
  {% do store_result('agate_table', response='OK', agate_table=agate_table) %}
  {{ run_hooks(pre_hooks, inside_transaction=False) }}
  {{ run_hooks(pre_hooks, inside_transaction=True) }}

  {% if existing_relation is not none and not existing_relation.is_table %}
    {% do exceptions.raise_compiler_error("Cannot seed to '" ~ this.identifier ~ "', it is a view") %}
  {% endif %}
  {% set create = tidemill_create_seed(target_relation, agate_table) %}
  {% set stays = existing_relation is not none and adapter.is_as_declared(create) %}
  {% if existing_relation is not none and not stays %}
    {% if not should_full_refresh() %}
      {% do exceptions.raise_compiler_error(this.identifier ~ ' has other columns than its file: run dbt seed --full-refresh, which drops the table and the views that read it') %}
    {% endif %}
    {% do adapter.drop_relation(existing_relation) %}
  {% endif %}
  {% if not stays %}{% do run_query(create) %}{% endif %}
  {% set count = agate_table.rows | length %}
  {% set rows = tidemill_load_seed(target_relation, agate_table) %}
  {% call noop_statement('main', 'INSERT ' ~ count, 'INSERT', count) %}
    {{ create }};
    {{ rows }}
  {% endcall %}

  {% do apply_grants(target_relation, config.get('grants'), should_revoke=stays) %}
  {{ run_hooks(post_hooks, inside_transaction=True) }}
  {{ run_hooks(post_hooks, inside_transaction=False) }}
  {{ return({'relations': [target_relation]}) }}
{% endmaterialization %}


{% macro tidemill_create_seed(relation, agate_table) %}
  {% set types = model['config'].get('column_types') or {} %}
  {% set columns = [] %}
  {% for name in agate_table.column_names %}
    {% do columns.append(adapter.quote(name) ~ ' ' ~ types.get(name, adapter.convert_type(agate_table, loop.index0))) %}
  {% endfor %}
  {{ return('create table ' ~ relation ~ ' (' ~ columns | join(', ') ~ ')') }}
{% endmacro %}


{#- Put the rows in place of those that are there. All statements are one transaction, and so one epoch. -#}
{% macro tidemill_load_seed(relation, agate_table) %}
  {% set batches = agate_table.rows | batch(get_batch_size()) | list %}
  {% set statements = [] %}
  {% for chunk in batches %}
    {% set first = 'insert overwrite ' if batches | length == 1 else 'insert into ' %}
    {% set rows = [] %}
    {% for row in chunk %}
      {% set values = [] %}
      {% for value in row %}{% do values.append(adapter.literal(value)) %}{% endfor %}
      {% do rows.append('(' ~ values | join(', ') ~ ')') %}
    {% endfor %}
    {% do statements.append(first ~ relation ~ ' values\n' ~ rows | join(',\n')) %}
  {% endfor %}
  {% if batches | length == 1 %}
    {% do adapter.add_query(statements[0], auto_begin=False, abridge_sql_log=True) %}
  {% else %}
    {% set empty = 'delete from ' ~ relation %}
    {% set text = (['begin', empty] + statements + ['commit']) | join(';\n') if batches else empty %}
    {% do adapter.add_query(text, auto_begin=False, abridge_sql_log=True) %}
  {% endif %}
  {{ return(statements[0] if statements else '') }}
{% endmacro %}


{% macro tidemill__get_batch_size() %}{{ return(1000) }}{% endmacro %}
