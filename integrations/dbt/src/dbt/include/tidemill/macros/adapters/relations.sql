{#- A warehouse has one schema: it is always there. -#}
{% macro tidemill__create_schema(relation) %}{% endmacro %}

{% macro tidemill__drop_schema(relation) %}
  {% do exceptions.raise_compiler_error('a warehouse has one schema, which cannot be dropped') %}
{% endmacro %}

{% macro tidemill__list_schemas(database) %}
  {{ return(run_query("select '" ~ target.schema ~ "' as nspname from pg_catalog.pg_namespace where nspname = 'public'")) }}
{% endmacro %}

{% macro tidemill__check_schema_exists(information_schema, schema) %}
  {{ return(run_query("select case when '" ~ schema ~ "' in ('default', 'public') then 1 else 0 end as present")) }}
{% endmacro %}


{#- The schema of a model becomes a prefix of its name. -#}
{% macro tidemill__generate_schema_name(custom_schema_name, node) %}{{ return(target.schema) }}{% endmacro %}

{% macro tidemill__generate_alias_name(custom_alias_name=none, node=none) %}
  {% set name = default__generate_alias_name(custom_alias_name, node) | trim %}
  {% set prefix = node.config.schema if node is not none and node.config is defined else none %}
  {{ return(((prefix | trim) ~ '_' ~ name) if prefix else name) }}
{% endmacro %}


{% macro tidemill__list_relations_without_caching(schema_relation) %}
  {% call statement('list_relations_without_caching', fetch_result=True, auto_begin=False) %}
    select
      '{{ schema_relation.database }}' as "database",
      c.relname as "name",
      '{{ schema_relation.schema }}' as "schema",
      case c.relkind when 'v' then 'view' when 'm' then 'materialized_view' else 'table' end as "type"
    from pg_catalog.pg_class c
    join pg_catalog.pg_namespace n on n.oid = c.relnamespace
    where n.nspname = 'public' and c.relkind in ('r', 'v', 'm')
  {% endcall %}
  {{ return(load_result('list_relations_without_caching').table) }}
{% endmacro %}


{% macro tidemill__get_columns_in_relation(relation) %}
  {% set columns = [] %}
  {% for row in run_query('describe table ' ~ relation).rows if row['col_name'] and not row['col_name'].startswith('#') %}
    {% do columns.append(api.Column(row['col_name'], row['data_type'])) %}
  {% endfor %}
  {{ return(columns) }}
{% endmacro %}


{% macro tidemill__create_table_as(temporary, relation, sql) %}
  create table {{ relation }} as
  {{ sql }}
{% endmacro %}

{% macro tidemill__create_view_as(relation, sql) %}
  create or replace view {{ relation }} as
  {{ sql }}
{% endmacro %}

{% macro tidemill__get_create_materialized_view_as_sql(relation, sql) %}
  create or replace materialized view {{ relation }} {{ adapter.view_options(config.get('options') or {}) }} as
  {{ sql }}
{% endmacro %}

{% macro tidemill__drop_relation(relation) %}
  {% set kind = 'table' if relation.type == 'table' else 'view' %}
  {% call statement('drop_relation', auto_begin=False) %}
    drop {{ kind }} if exists {{ relation }} cascade
  {% endcall %}
{% endmacro %}

{% macro tidemill__rename_relation(from_relation, to_relation) %}
  {% set kind = 'table' if from_relation.type == 'table' else 'view' %}
  {% call statement('rename_relation', auto_begin=False) %}
    alter {{ kind }} {{ from_relation }} rename to {{ adapter.quote(to_relation.identifier) }}
  {% endcall %}
{% endmacro %}

{% macro tidemill__truncate_relation(relation) %}
  {% call statement('truncate_relation', auto_begin=False) %}
    truncate table {{ relation }}
  {% endcall %}
{% endmacro %}


{% macro tidemill__persist_docs(relation, model, for_relation, for_columns) %}
  {% if (for_relation and config.persist_relation_docs()) or (for_columns and config.persist_column_docs()) %}
    {% do exceptions.warn(relation.identifier ~ ': persist_docs is ignored, because a warehouse keeps no comments') %}
  {% endif %}
{% endmacro %}


{% macro tidemill__get_catalog_relations(information_schema, relations) %}
  {% call statement('catalog', fetch_result=True, auto_begin=False) %}
    {% for relation in relations %}
    select
      '{{ information_schema.database }}' as table_database,
      '{{ relation.schema }}' as table_schema,
      c.relname as table_name,
      case c.relkind when 'v' then 'VIEW' when 'm' then 'MATERIALIZED VIEW' else 'BASE TABLE' end as table_type,
      null as table_comment,
      a.attname as column_name,
      a.attnum as column_index,
      pg_catalog.format_type(a.atttypid, a.atttypmod) as column_type,
      null as column_comment,
      null as table_owner
    from pg_catalog.pg_class c
    join pg_catalog.pg_namespace n on n.oid = c.relnamespace
    join pg_catalog.pg_attribute a on a.attrelid = c.oid
    where n.nspname = 'public' and c.relkind in ('r', 'v', 'm') and a.attnum > 0
      {% if relation.identifier %}and lower(c.relname) = '{{ relation.identifier | lower | replace("'", "''") }}'{% endif %}
    {% if not loop.last %}union all{% endif %}
    {% endfor %}
    order by 2, 3, 7
  {% endcall %}
  {{ return(load_result('catalog').table) }}
{% endmacro %}

{% macro tidemill__get_catalog(information_schema, schemas) %}
  {% set relations = [] %}
  {% for schema in schemas %}{% do relations.append({'schema': schema}) %}{% endfor %}
  {{ return(tidemill__get_catalog_relations(information_schema, relations)) }}
{% endmacro %}
