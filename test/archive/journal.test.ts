import fc from "fast-check";
import { expect, test } from "vitest";
import { JournalReader, JournalWriter, lentPart } from "../../src/archive/journal.ts";
import { memberPlaces, parseWithLast } from "../../src/archive/json-bytes.ts";

/** What a file consists of: bytes of its own, and payloads that it spells as they are stored, or differently. */
const pieces = fc.array(
  fc.oneof(
    fc.uint8Array({ maxLength: 400 }).map((bytes) => ({ bytes: Buffer.from(bytes) })),
    fc.record({ lent: fc.string({ unit: "binary", maxLength: 20 }), isSpelledSo: fc.boolean() }),
  ),
  { maxLength: 60 },
);

function run(blocks: readonly Buffer[], payloads: readonly string[]): Buffer {
  const reader = new JournalReader();
  const out: Buffer[] = [];
  let next = 0;
  for (const block of blocks) {
    for (const step of reader.steps(block)) {
      if ("verbatim" in step) {
        out.push(step.verbatim);
      } else {
        next += step.skipped;
        out.push(Buffer.from(payloads[next++] as string));
      }
    }
  }
  expect(reader.isComplete).toBe(true);
  return Buffer.concat(out);
}

test("a journal gives the file back, however it is cut into blocks", () => {
  fc.assert(
    fc.property(
      pieces,
      fc.integer({ min: 1, max: 300 }),
      fc.nat({ max: 9 }),
      (file, blockBytes, takenAfter) => {
        const writer = new JournalWriter();
        const taken: Buffer[] = [];
        const expected: Buffer[] = [];
        const payloads: string[] = [];
        for (const [index, piece] of file.entries()) {
          if ("bytes" in piece) {
            writer.verbatim(piece.bytes);
            expected.push(piece.bytes);
          } else {
            payloads.push(piece.lent);
            if (piece.isSpelledSo) writer.payload();
            else writer.skip();
            if (piece.isSpelledSo) expected.push(Buffer.from(piece.lent));
          }
          if (index % (takenAfter + 1) === 0) taken.push(writer.take());
        }
        const journal = Buffer.concat([...taken, writer.take()]);
        const blocks: Buffer[] = [];
        for (let at = 0; at < journal.length; at += blockBytes)
          blocks.push(journal.subarray(at, at + blockBytes));
        expect(run(blocks, payloads).equals(Buffer.concat(expected))).toBe(true);
      },
    ),
    { numRuns: 500 },
  );
});

test("bytes of more than 2 GiB are counted", () => {
  const reader = new JournalReader();
  const length = 2 ** 33 + 5;
  let rest = 2 * length;
  const number: number[] = [];
  for (; rest >= 0x80; rest = Math.floor(rest / 0x80)) number.push((rest % 0x80) + 0x80);
  const block = Buffer.from([...number, rest, 1, 2, 3]);
  expect([...reader.steps(block)]).toEqual([{ verbatim: Buffer.from([1, 2, 3]) }]);
  expect(reader.isComplete).toBe(false);
});

const spelling = fc.record({
  before: fc.dictionary(fc.string(), fc.jsonValue({ maxDepth: 2 }), { maxKeys: 4 }),
  value: fc.jsonValue({ maxDepth: 4 }),
  after: fc.dictionary(fc.string(), fc.jsonValue({ maxDepth: 2 }), { maxKeys: 4 }),
  space: fc.constantFrom("", " ", "\t "),
  isInList: fc.boolean(),
});

test("the text of a member is found whatever stands around it", () => {
  fc.assert(
    fc.property(spelling, ({ before, value, after, space, isInList }) => {
      const member = (name: string, json: unknown) =>
        `${space}${JSON.stringify(name)}${space}:${space}${JSON.stringify(json)}${space}`;
      const members = [
        ...Object.entries(before).map(([name, json]) => member(name, json)),
        member("message", value),
        ...Object.entries(after).map(([name, json]) => member(name, json)),
      ];
      const object = `${space}{${members.join(",")}}${space}`;
      const text = Buffer.from(isInList ? `${space}[{},${object},{"message" : 1}]` : object);
      const places = memberPlaces(text, "message");
      const place = places[isInList ? 1 : 0];
      const hasEscapedName = [...Object.keys(before), ...Object.keys(after)].some((name) =>
        JSON.stringify(name).includes("\\"),
      );
      if (hasEscapedName) {
        expect(place).toBeUndefined();
      } else {
        expect(text.toString("utf8", place?.start, place?.end)).toBe(
          JSON.stringify(after["message"] === undefined ? value : after["message"]),
        );
      }
      if (isInList) {
        expect(places[0]).toBeUndefined();
        expect(text.toString("utf8", places[2]?.start, places[2]?.end)).toBe("1");
      }
    }),
    { numRuns: 500 },
  );
});

test("of a member that is there twice, the text is that of the value which a parser takes", () => {
  const text = Buffer.from('{"message":1,"message": [2, "}\\"]"] ,"x":null}');
  const [place] = memberPlaces(text, "message");
  expect(text.toString("utf8", place?.start, place?.end)).toBe('[2, "}\\"]"]');
});

test("an object whose last member is wanted is parsed as a parser does, and that member found", () => {
  fc.assert(
    fc.property(spelling, ({ before, value, after, space }) => {
      const member = (name: string, json: unknown) =>
        `${space}${JSON.stringify(name)}:${space}${JSON.stringify(json)}${space}`;
      const members = [before, { message: value }, after].flatMap((part) => Object.entries(part));
      const text = `${space}{${members.map(([name, json]) => member(name, json)).join(",")}}${space}`;
      const found = parseWithLast(Buffer.from(text), "message");
      const isPlain =
        space === "" &&
        Object.keys(after).length === 0 &&
        !text.slice(1, text.lastIndexOf('"message":')).includes('"message":');
      if (isPlain) expect(found).toBeDefined();
      if (found === undefined) return;
      expect(found.object).toEqual(JSON.parse(text));
      const { start, end } = found.place;
      expect(Buffer.from(text).toString("utf8", start, end)).toBe(JSON.stringify(found.object["message"]));
    }),
    { numRuns: 500 },
  );
});

test.each([
  ["is not the last one", '{"message":{"a":1},"id":2}'],
  ["is there twice", '{"message":{"a":1},"message":{"a":2}}'],
  ["stands deeper", '{"data":{"message":{"a":1}}}'],
  ["is the end of another name", '{"mess\\u0061ge":1,"a\\"message":{"a":1}}'],
  ["belongs to one of several objects", '[{"message":1},{"message":2}]'],
  ["is cut off", '{"message":{"a":1}'],
  ["is followed by more", '{"message":{"a":1}}{}'],
  ["is no JSON", '{"message":{a}}'],
  ["stands after what is no JSON", '{,"message":{"a":1}}'],
])("a member that %s is not parsed apart", (_, text) => {
  expect(parseWithLast(Buffer.from(text), "message")).toBeUndefined();
});

test("what a payload lends is the value of its only member", () => {
  expect(lentPart(Buffer.from('{"message":{"a":"}"}}')).toString()).toBe('{"a":"}"}');
});
