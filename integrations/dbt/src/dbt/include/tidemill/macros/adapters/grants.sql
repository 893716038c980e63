{#- Grants of models. Those on conditions are made by hand, and left alone. -#}

{% macro tidemill__get_show_grant_sql(relation) %}show grants on {{ relation }}{% endmacro %}

{% macro tidemill__support_multiple_grantees_per_dcl_statement() %}{{ return(False) }}{% endmacro %}

{% macro tidemill__get_grant_sql(relation, privilege, grantees) -%}
  grant {{ privilege }} on {{ relation }} to {{ adapter.quote(grantees[0]) }}
{%- endmacro %}

{% macro tidemill__get_revoke_sql(relation, privilege, grantees) -%}
  revoke {{ privilege }} on {{ relation }} from {{ adapter.quote(grantees[0]) }}
{%- endmacro %}
