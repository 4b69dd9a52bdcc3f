import { createHash } from "node:crypto";
import fc from "fast-check";
import { expect, test } from "vitest";
import { ArchiveFile } from "../../src/archive/archive-file.ts";
import { LineReader, type LineReaderOptions, LineWindow, textOf } from "../../src/archive/line-reader.ts";
import { scratch } from "./scratch.ts";

async function linesOf(content: string | Uint8Array, options?: LineReaderOptions) {
  await using directory = await scratch();
  await using file = await ArchiveFile.open(await directory.write("file", content));
  const reader = new LineReader(file, options);
  const lines: { number: number; offset: number; text: string; terminated: boolean }[] = [];
  for await (const block of reader.blocks()) {
    for (const { bytes, ...line } of block) lines.push({ ...line, text: bytes.toString("latin1") });
  }
  return { lines, digest: reader.digest() };
}

test("lines come with their number and offset, however they lie in the blocks", async () => {
  const line = fc.nat({ max: 300_000 }).map((length) => "x".repeat(length));
  await fc.assert(
    fc.asyncProperty(fc.array(line, { maxLength: 6 }), fc.boolean(), async (texts, isTorn) => {
      const content = texts.map((text) => `${text}\n`).join("") + (isTorn ? "torn" : "");
      const { lines, digest } = await linesOf(content);
      const complete = lines.filter(({ terminated }) => terminated);
      expect(complete.map(({ text }) => text)).toEqual(texts);
      for (const { number, offset, text } of complete) {
        expect(content.slice(offset, offset + text.length + 1)).toBe(`${text}\n`);
        expect(texts[number - 1]).toBe(text);
      }
      expect(lines.filter(({ terminated }) => !terminated).map(({ text }) => text)).toEqual(
        isTorn ? ["torn"] : [],
      );
      expect(digest).toEqual({
        sha256: createHash("sha256").update(content).digest("hex"),
        bytes: content.length,
      });
    }),
    { numRuns: 40 },
  );
});

test("nothing at or after the given end is read", async () => {
  const { lines, digest } = await linesOf("one\ntwo\nthree\n", { end: 8 });
  expect(lines.map(({ text }) => text)).toEqual(["one", "two"]);
  expect(digest.bytes).toBe(8);
});

test("a line that no string can hold is an error with its number", async () => {
  await expect(linesOf(`short\n${"x".repeat(1000)}\n`, { maxLineBytes: 100 })).rejects.toMatchObject({
    code: "line_too_long",
    line: 2,
  });
});

test("invalid UTF-8 is refused, not replaced; a byte order mark may begin the first line", () => {
  expect(() => textOf(Buffer.from([0x22, 0xc3, 0x28, 0x22]))).toThrow("not valid UTF-8");
  expect(textOf(Buffer.from("\ufeff{}"), { first: true })).toBe("{}");
  expect(textOf(Buffer.from("\ufeff{}"))).toBe("\ufeff{}");
});

test("single lines can be read by their place", async () => {
  await using directory = await scratch();
  const content = Array.from({ length: 1000 }, (_, number) => `${number}:${"x".repeat(number)}\n`).join("");
  await using file = await ArchiveFile.open(await directory.write("file", content));
  const window = new LineWindow(file);
  for (const number of [999, 0, 1, 2, 500, 499, 998]) {
    const offset = content.indexOf(`\n${number}:`) + 1;
    const text = `${number}:${"x".repeat(number)}`;
    expect((await window.read(number === 0 ? 0 : offset, text.length)).toString()).toBe(text);
  }
});
