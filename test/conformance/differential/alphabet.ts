/** The texts and payloads that a conversation may hold, the awkward ones far more often than in life. */
import fc from "fast-check";
import type { AgentMessage, JsonValue, Usage } from "../../../src/index.ts";

/** Allowed in ids, keys, names of branches, namespaces and custom types. UTF-16 and code points order some differently. */
const IDENTIFIER_UNITS = [
  "a",
  "b",
  "B",
  "0",
  "%",
  "_",
  "\\",
  " ",
  "'",
  '"',
  "$1",
  ":",
  "é",
  "e\u0301",
  "\u0001",
  "\n",
  "\ud7ff",
  "\ue000",
  "\ufffd",
  "\uffff",
  "\u{10000}",
  "\u{1f600}",
  "\u{10ffff}",
];

/** Allowed in payloads besides: what PostgreSQL's text cannot hold, and what looks like its escape. */
const PAYLOAD_UNITS = [...IDENTIFIER_UNITS, "\0", "\ud800", "\udc00", "\\u0000", "\u2028", "/", "{", "]"];

export const identifier = fc.string({ unit: fc.constantFrom(...IDENTIFIER_UNITS), maxLength: 3 });
/** Hardly ever the same twice. */
export const longIdentifier = fc.string({
  unit: fc.constantFrom(...IDENTIFIER_UNITS),
  minLength: 4,
  maxLength: 6,
});
export const nonEmptyIdentifier = fc.string({
  unit: fc.constantFrom(...IDENTIFIER_UNITS),
  minLength: 1,
  maxLength: 3,
});
export const payloadText = fc.string({ unit: fc.constantFrom(...PAYLOAD_UNITS), maxLength: 6 });

const SPECIAL_NUMBERS = [0, 1, -1, 0.1, 1e21, 1e308, -1e308, 5e-324, 1e-7, 2 ** 53, -(2 ** 63)];
/** JSON has no -0: it comes back as 0 from any backend that stores text. */
const number = fc.oneof(
  fc.constantFrom(...SPECIAL_NUMBERS),
  fc.double({ noNaN: true, noDefaultInfinity: true }).map((double) => (double === 0 ? 0 : double)),
);

/**
 * No key has a backslash: in V8 with nodejs/node#63785 (Node.js 26.10 among them) JSON.parse mistakes escaped keys
 * for one: after `JSON.parse('{"x":1,"\\\\":2}')`, `JSON.parse('{"x":1,"\\n":2}')` has the key "\\".
 */
const key = fc.oneof(
  { weight: 3, arbitrary: payloadText.filter((text) => !text.includes("\\")) },
  { weight: 1, arbitrary: fc.constantFrom("__proto__", "constructor", "toJSON", "length", "10", "9", "") },
);

const scalar: fc.Arbitrary<unknown> = fc.oneof(
  { weight: 4, arbitrary: payloadText },
  { weight: 2, arbitrary: number },
  { weight: 1, arbitrary: fc.boolean() },
  { weight: 1, arbitrary: fc.constant(null) },
);

/** A field that is `undefined` is kept in memory and dropped by JSON. */
const withUndefined = fc.oneof(
  { weight: 9, arbitrary: scalar },
  { weight: 1, arbitrary: fc.constant(undefined) },
);

const { tree } = fc.letrec<{ tree: unknown }>((tie) => ({
  tree: fc.oneof(
    { maxDepth: 3, depthSize: "small", withCrossShrink: true },
    scalar,
    fc.array(fc.oneof({ weight: 9, arbitrary: tie("tree") }, { weight: 1, arbitrary: withUndefined }), {
      maxLength: 3,
    }),
    fields(fc.oneof({ weight: 9, arbitrary: tie("tree") }, { weight: 1, arbitrary: withUndefined })),
  ),
}));

/** `Object.fromEntries` makes `__proto__` a field like any other. */
function fields(field: fc.Arbitrary<unknown>): fc.Arbitrary<unknown> {
  return fc.array(fc.tuple(key, field), { maxLength: 3 }).map((pairs) => Object.fromEntries(pairs));
}

const deeplyNested = fc
  .tuple(fc.integer({ min: 50, max: 500 }), fc.boolean(), scalar)
  .map(([depth, asList, leaf]) =>
    Array.from({ length: depth }).reduce((inner) => (asList ? [inner] : { inner }), leaf),
  );

export const json = fc.oneof(
  { weight: 30, arbitrary: tree },
  { weight: 1, arbitrary: deeplyNested },
) as fc.Arbitrary<JsonValue>;

const tokens = fc.oneof(
  { weight: 3, arbitrary: fc.integer({ min: -1_000, max: 1_000_000 }) },
  { weight: 1, arbitrary: fc.constantFrom(0, 2 ** 31, Number.MAX_SAFE_INTEGER, Number.MIN_SAFE_INTEGER) },
);
const dollars = fc.oneof(
  fc.constantFrom(0, 0.1, 0.2, 0.3, 1 / 3, 5e-324, 1.7e308, -1.7e308, 1e-7, 123456789.12345679),
  fc.double({ min: -1e9, max: 1e9, noNaN: true }).map((double) => (double === 0 ? 0 : double)),
);

export const usage: fc.Arbitrary<Usage> = fc.record(
  {
    input: tokens,
    output: tokens,
    cacheRead: tokens,
    cacheWrite: tokens,
    cacheWrite1h: tokens,
    reasoning: tokens,
    totalTokens: tokens,
    cost: fc.record({
      input: dollars,
      output: dollars,
      cacheRead: dollars,
      cacheWrite: dollars,
      total: dollars,
    }),
  },
  { requiredKeys: ["input", "output", "cacheRead", "cacheWrite", "totalTokens", "cost"] },
);

const textBlock = payloadText.map((text) => ({ type: "text" as const, text }));
const timestamp = fc.integer({ min: 0, max: 2_000_000_000_000 });

const userMessage = fc.record({
  role: fc.constant("user" as const),
  content: fc.oneof(payloadText, fc.array(textBlock, { maxLength: 2 })),
  timestamp,
});

const assistantMessage = fc.record(
  {
    role: fc.constant("assistant" as const),
    content: fc.array(
      fc.oneof(
        textBlock,
        payloadText.map((thinking) => ({ type: "thinking" as const, thinking })),
        fc.record({
          type: fc.constant("toolCall" as const),
          id: payloadText,
          name: payloadText,
          arguments: fields(json) as fc.Arbitrary<Record<string, JsonValue>>,
        }),
      ),
      { maxLength: 2 },
    ),
    api: payloadText,
    provider: payloadText,
    model: payloadText,
    usage,
    stopReason: fc.oneof(
      { weight: 12, arbitrary: fc.constantFrom("stop" as const, "toolUse" as const, "error" as const) },
      { weight: 1, arbitrary: fc.constant("pending" as const) },
    ),
    errorMessage: payloadText,
    timestamp,
  },
  { requiredKeys: ["role", "content", "api", "provider", "model", "usage", "stopReason", "timestamp"] },
);

const toolResult = fc.record({
  role: fc.constant("toolResult" as const),
  toolCallId: payloadText,
  toolName: payloadText,
  content: fc.array(textBlock, { maxLength: 2 }),
  details: json,
  isError: fc.boolean(),
  timestamp,
});

/** Applications add roles of their own, about which a storage knows nothing. */
const applicationMessage = fc
  .tuple(payloadText, json)
  .map(([role, body]) => ({ role: `app ${role}`, body })) as unknown as fc.Arbitrary<AgentMessage>;

export const message: fc.Arbitrary<AgentMessage> = fc.oneof(
  userMessage,
  assistantMessage,
  toolResult as fc.Arbitrary<AgentMessage>,
  applicationMessage,
);
