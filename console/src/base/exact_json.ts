// JSON whose whole numbers stay what they are, also those beyond 2^53, which JavaScript would round.

export interface RawJson {
  readonly rawJSON: string;
}

interface ExactJson {
  parse(text: string, reviver: (key: string, value: unknown, context?: { source?: string }) => unknown): unknown;
  rawJSON?(text: string): RawJson;
  isRawJSON?(value: unknown): boolean;
}

const exact = JSON as unknown as ExactJson;
const LONG_NUMBER = /[0-9]{16}/;

/** Parses JSON; numbers that JavaScript cannot hold are kept as they were written, and are written so again. */
export function parseExactly(text: string): unknown {
  if (!exact.rawJSON || !LONG_NUMBER.test(text)) return JSON.parse(text);
  return exact.parse(text, (_key, value, context) => {
    const rounded = typeof value === "number" && Number.isInteger(value) && !Number.isSafeInteger(value);
    return rounded && context?.source ? exact.rawJSON!(context.source) : value;
  });
}

export function isRawJson(value: unknown): value is RawJson {
  return exact.isRawJSON?.(value) ?? false;
}
