import { randomUUID } from "node:crypto";
import fc from "fast-check";
import { expect, test } from "vitest";
import { IdIndex } from "../../src/archive/id-index.ts";

const uuid = fc.uuid();
const id = fc.oneof(
  fc.string({ unit: "binary" }).filter((text) => text.isWellFormed()),
  uuid,
  uuid.map((text) => text.toUpperCase()),
  uuid.map((text) => text.replace("-", "0")),
  fc.constantFrom("", "a", "A", "😀", "x".repeat(512)),
);

test("it numbers ids like a map, finds them and gives them back", () => {
  fc.assert(
    fc.property(fc.array(id, { maxLength: 60 }), id, (ids, other) => {
      const index = new IdIndex();
      const numbers = new Map<string, number>();
      for (const each of ids) {
        expect(index.add(each)).toBe(!numbers.has(each));
        if (!numbers.has(each)) numbers.set(each, numbers.size);
      }
      expect(index.size).toBe(numbers.size);
      for (const [each, number] of numbers) {
        expect(index.find(each)).toBe(number);
        expect(index.idAt(number)).toBe(each);
      }
      expect(index.find(other)).toBe(numbers.get(other) ?? -1);
    }),
  );
});

test("it keeps 100,000 ids apart", () => {
  const index = new IdIndex();
  const ids = Array.from({ length: 100_000 }, (_, number) =>
    number % 2 === 0 ? randomUUID() : `entry-${number}`,
  );
  for (const each of ids) expect(index.add(each)).toBe(true);
  expect(ids.every((each, number) => index.find(each) === number && index.idAt(number) === each)).toBe(true);
  expect(index.add(ids[77] as string)).toBe(false);
});

test("a lone surrogate is found nowhere, although its bytes would be those of U+FFFD", () => {
  const index = new IdIndex();
  index.add("\ufffd");
  expect(index.find("\ud800")).toBe(-1);
});
