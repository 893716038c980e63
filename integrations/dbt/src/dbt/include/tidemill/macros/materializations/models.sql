{% materialization materialized_view, adapter='tidemill' %}
  {{ return(tidemill_define('materialized_view')) }}
{% endmaterialization %}


{#- dbt calls a model without `materialized` a view. Here it is a materialized view: one that is kept fresh. -#}
{% materialization view, adapter='tidemill' %}
  {{ return(tidemill_define('materialized_view' if tidemill_is_unconfigured() else 'view')) }}
{% endmaterialization %}


{#- An incremental model is a materialized view: the warehouse finds out by itself what a change of rows changes. -#}
{% materialization incremental, adapter='tidemill' %}
  {% if config.get('incremental_strategy') == 'microbatch' %}
    {% do exceptions.raise_compiler_error(this.identifier ~ ': the strategy microbatch is not supported, because nothing is loaded in batches: leave it out') %}
  {% endif %}
  {% set ignored = [] %}
  {% for name in ('unique_key', 'incremental_strategy', 'incremental_predicates', 'on_schema_change', 'merge_update_columns', 'merge_exclude_columns') %}
    {% if config.get(name) and not (name == 'on_schema_change' and config.get(name) == 'ignore') %}{% do ignored.append(name) %}{% endif %}
  {% endfor %}
  {% set what = (', and does not need ' ~ ignored | join(', ')) if ignored else '' %}
  {% do log(this.identifier ~ ' is incremental: it becomes a materialized view' ~ what ~ '; is_incremental() is false', info=True) %}
  {{ return(tidemill_define('materialized_view')) }}
{% endmaterialization %}


{#- A table with the rows that the query has now. One with the same columns stays, and gets the difference in one epoch. -#}
{% materialization table, adapter='tidemill' %}
  {% set target_relation = this.incorporate(type='table') %}
  {% set existing_relation = load_cached_relation(this) %}
  {% do tidemill_warn_of_configs() %}
  {{ run_hooks(pre_hooks, inside_transaction=False) }}
  {{ run_hooks(pre_hooks, inside_transaction=True) }}

  {% if config.get('contract').enforced %}
    {% do get_assert_columns_equivalent(sql) %}
  {% endif %}
  {% do tidemill_drop_other_kind(existing_relation, 'table') %}
  {% set header = config.get('sql_header') %}
  {% if header %}{% do run_query(header) %}{% endif %}
  {% set stays = existing_relation is not none and existing_relation.is_table %}
  {% if stays and not adapter.has_columns_of(target_relation, sql) %}
    {% do exceptions.warn(this.identifier ~ ' has other columns: it is dropped, with all views that read it') %}
    {% do adapter.drop_relation(existing_relation) %}
    {% set stays = false %}
  {% endif %}
  {% call statement('main') -%}
    {% if stays %}
    insert overwrite {{ target_relation }}
    {{ sql }}
    {% else %}
    {{ get_create_table_as_sql(False, target_relation, sql) }}
    {% endif %}
  {%- endcall %}

  {% do apply_grants(target_relation, config.get('grants'), should_revoke=(existing_relation is not none)) %}
  {{ run_hooks(post_hooks, inside_transaction=True) }}
  {{ run_hooks(post_hooks, inside_transaction=False) }}
  {{ return({'relations': [target_relation]}) }}
{% endmaterialization %}


{% materialization snapshot, adapter='tidemill' %}
  {% do exceptions.raise_compiler_error(
      this.identifier ~ ': snapshots are not supported. Every view keeps its history: read it AS OF an epoch, or write a '
      ~ 'model over a table of changes with its times') %}
{% endmaterialization %}
