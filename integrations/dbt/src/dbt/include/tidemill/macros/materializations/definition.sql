{#- What all materializations of models share: definitions that are compared with those of the warehouse. -#}

{#- The kind of relation that a model without `materialized` becomes: a view that is kept fresh. -#}
{% macro tidemill_is_unconfigured() %}
  {% set given = model.get('unrendered_config') or {} %}
  {% set called = model.get('unrendered_config_call_dict') or {} %}
  {{ return(given.get('materialized') is none and called.get('materialized') is none
            and model.get('config_call_dict', {}).get('materialized') is none) }}
{% endmacro %}


{#- Run hooks, define the relation, and tell dbt what was done. -#}
{% macro tidemill_define(kind) %}
  {% set target_relation = this.incorporate(type=kind) %}
  {% set existing_relation = load_cached_relation(this) %}
  {% do tidemill_warn_of_configs() %}
  {{ run_hooks(pre_hooks, inside_transaction=False) }}
  {{ run_hooks(pre_hooks, inside_transaction=True) }}

  {% if config.get('contract').enforced %}
    {% do get_assert_columns_equivalent(sql) %}
  {% endif %}
  {% do tidemill_drop_other_kind(existing_relation, kind) %}
  {% set header = config.get('sql_header') %}
  {% if header %}{% do run_query(header) %}{% endif %}
  {% if kind == 'view' %}
    {% do tidemill_define_view(target_relation) %}
  {% else %}
    {% do tidemill_define_materialized_view(target_relation) %}
  {% endif %}

  {% do apply_grants(target_relation, config.get('grants'), should_revoke=(existing_relation is not none)) %}
  {{ run_hooks(post_hooks, inside_transaction=True) }}
  {{ run_hooks(post_hooks, inside_transaction=False) }}
  {{ return({'relations': [target_relation]}) }}
{% endmacro %}


{% macro tidemill_define_materialized_view(relation) %}
  {% set options = adapter.view_options(config.get('options') or {}) %}
  {% set create -%}
    materialized view {{ relation }} {{ options }} as
    {{ sql }}
  {%- endset %}
  {% set plan = adapter.plan('create ' ~ create) %}
  {% if plan.action == 'unchanged' and not should_full_refresh() %}
    {{ return(tidemill_unchanged(create)) }}
  {% endif %}
  {% set cascade = plan.used_by and (should_full_refresh() or tidemill_all_selected(plan.used_by)) %}
  {% call statement('main') -%}
    create or replace {{ create }}
    {{ 'cascade' if cascade }}
  {%- endcall %}
  {% if plan.action != 'create' %}
    {% do tidemill_done('REPLACE MATERIALIZED VIEW', plan.reason) %}
    {% do tidemill_drop_former() %}
  {% endif %}
{% endmacro %}


{#- A view that materialized views are made of cannot be replaced under them. It gets another name, which their
    definitions follow, and each of them is replaced when its model is run. -#}
{% macro tidemill_define_view(relation) %}
  {% set create -%}
    view {{ relation }} as
    {{ sql }}
  {%- endset %}
  {% set plan = adapter.plan('create ' ~ create) %}
  {% if plan.action == 'unchanged' %}
    {{ return(tidemill_unchanged(create)) }}
  {% endif %}
  {% if plan.used_by %}
    {% set former = tidemill_former_name(relation) %}
    {% do run_query('alter view ' ~ relation ~ ' rename to ' ~ adapter.quote(former)) %}
    {% set left = plan.used_by | reject('in', tidemill_selected_names()) | list %}
    {% if left %}
      {% do exceptions.warn(relation.identifier ~ ' has changed, and its former query is read until these are run, too: ' ~ left | join(', ')) %}
    {% endif %}
  {% endif %}
  {% call statement('main') -%}
    create or replace {{ create }}
  {%- endcall %}
  {% if plan.action != 'create' %}
    {% do tidemill_done('REPLACE VIEW', plan.reason) %}
    {% do tidemill_drop_former() %}
  {% endif %}
{% endmacro %}


{% macro tidemill_unchanged(create) %}
  {% call noop_statement('main', 'unchanged', 'unchanged', 0) -%}
    create {{ create }}
  {%- endcall %}
{% endmacro %}


{% macro tidemill_done(code, reason) %}
  {% do store_raw_result('main', message=code ~ ((' (' ~ reason ~ ')') if reason else ''), code=code, rows_affected=-1) %}
{% endmacro %}


{#- Drop what has the name of a model and is of another kind, with what reads it. -#}
{% macro tidemill_drop_other_kind(existing_relation, kind) %}
  {% if existing_relation is not none and existing_relation.type != kind %}
    {% if existing_relation.is_table and config.get('materialized') == 'incremental' and not should_full_refresh() %}
      {% do exceptions.raise_compiler_error(this.identifier ~ ' is a table, and an incremental model becomes a materialized view: run it once with --full-refresh') %}
    {% endif %}
    {% do exceptions.warn(this.identifier ~ ' was a ' ~ existing_relation.type ~ ' and becomes a ' ~ kind ~ ': it is dropped, with all views that read it') %}
    {% do adapter.drop_relation(existing_relation) %}
  {% endif %}
{% endmacro %}


{#- Names of the relations that this run makes anew. -#}
{% macro tidemill_selected_names() %}
  {% set names = [] %}
  {% for id in selected_resources if id in graph.nodes %}
    {% do names.append((graph.nodes[id].get('alias') or graph.nodes[id].name) | lower) %}
  {% endfor %}
  {{ return(names) }}
{% endmacro %}


{% macro tidemill_all_selected(names) %}
  {{ return(names | reject('in', tidemill_selected_names()) | list | length == 0) }}
{% endmacro %}


{#- A free name for the former definition of a view. -#}
{% macro tidemill_former_name(relation) %}
  {% set taken = tidemill_former_names() %}
  {% for number in range(1, 1000) %}
    {% set name = relation.identifier | lower ~ '__dbt_former_' ~ number %}
    {% if name not in taken %}{{ return(name) }}{% endif %}
  {% endfor %}
{% endmacro %}


{% macro tidemill_former_names() %}
  {% set found = run_query("select relname from pg_catalog.pg_class where relkind = 'v' and position('__dbt_former_' in relname) > 0 order by relname") %}
  {{ return(found.columns[0].values() | list) }}
{% endmacro %}


{#- Drop former definitions that nothing reads any more, also no other view that is not materialized. -#}
{% macro tidemill_drop_former() %}
  {% set names = tidemill_former_names() %}
  {% if names %}
    {% set texts = run_query("select definition from pg_catalog.pg_views where position('__dbt_former_' in viewname) = 0") %}
    {% set all_texts = texts.columns[0].values() | join('\n') %}
    {% do adapter.drop_unused(tidemill_unread(names, all_texts)) %}
  {% endif %}
{% endmacro %}


{% macro tidemill_unread(names, texts) %}
  {% set found = [] %}
  {% for name in names if adapter.quote(name) not in texts %}
    {% do found.append(name) %}
  {% endfor %}
  {{ return(found) }}
{% endmacro %}


{#- Say by name what is configured for a model and has no effect. -#}
{% macro tidemill_warn_of_configs() %}
  {% if config.get('indexes') %}
    {% do exceptions.warn(this.identifier ~ ': indexes are ignored; a view keeps those that its maintenance needs') %}
  {% endif %}
  {% if config.get('unlogged') %}
    {% do exceptions.warn(this.identifier ~ ': unlogged is ignored') %}
  {% endif %}
{% endmacro %}
