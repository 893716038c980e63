// An error as the command line shows it: what, where, detail, hint.

import { fieldsOf } from "../server/request.ts";

export function ErrorBox({ error, again }: { error: unknown; again?: () => void }) {
  const { kind, what, where, detail, hint } = fieldsOf(error);
  return (
    <div class="error-box" role="alert">
      <p class="error-what">
        <span class="error-kind">{kind}</span>
        {what}
      </p>
      {where && <pre class="error-where">{where}</pre>}
      {(detail || hint) && (
        <dl>
          {detail && (
            <>
              <dt>detail</dt>
              <dd class="error-detail">{detail}</dd>
            </>
          )}
          {hint && (
            <>
              <dt>hint</dt>
              <dd class="error-hint">{hint}</dd>
            </>
          )}
        </dl>
      )}
      {again && (
        <button type="button" onClick={again}>
          Try again
        </button>
      )}
    </div>
  );
}
