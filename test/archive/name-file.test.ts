import * as fs from "node:fs/promises";
import { readdir, readFile, symlink } from "node:fs/promises";
import { join } from "node:path";
import { beforeEach, describe, expect, test, vi } from "vitest";
import { nameFile } from "../../src/archive/name-file.ts";
import { scratch } from "./scratch.ts";

vi.mock("node:fs/promises", { spy: true });

/** As the file systems of memory cards and of some networks answer. */
function withoutLinks(): void {
  const refusal = Object.assign(new Error("EPERM: operation not permitted, link"), { code: "EPERM" });
  vi.mocked(fs.link).mockRejectedValue(refusal);
}

beforeEach(() => void vi.mocked(fs.link).mockReset());

describe.each([
  ["with links", () => {}],
  ["without links", withoutLinks],
])("on a file system %s", (_, prepare) => {
  test("a draft gets the name that is free", async () => {
    await using directory = await scratch();
    const draft = await directory.write("draft", "new");
    prepare();
    expect(await nameFile(draft, join(directory.path, "named"))).toBe(true);
    expect(await readFile(join(directory.path, "named"), "utf8")).toBe("new");
  });

  test("a name that a file has stays that of this file", async () => {
    await using directory = await scratch();
    const draft = await directory.write("draft", "new");
    const path = await directory.write("named", "old");
    prepare();
    expect(await nameFile(draft, path)).toBe(false);
    expect(await readFile(path, "utf8")).toBe("old");
  });

  test("a name that a link has which leads nowhere stays that of the link", async () => {
    await using directory = await scratch();
    const draft = await directory.write("draft", "new");
    const path = join(directory.path, "named");
    await symlink(join(directory.path, "nowhere"), path);
    prepare();
    expect(await nameFile(draft, path)).toBe(false);
    expect(await readdir(directory.path)).toEqual(["draft", "named"]);
  });
});

test("of two drafts that get one name at the same time, one gets it", async () => {
  await using directory = await scratch();
  const drafts = [await directory.write("a", "a"), await directory.write("b", "b")];
  const path = join(directory.path, "named");
  const named = await Promise.all(drafts.map((draft) => nameFile(draft, path)));
  expect(named.toSorted()).toEqual([false, true]);
});

test("what else keeps a file from its name is told", async () => {
  await using directory = await scratch();
  const draft = await directory.write("draft", "new");
  await expect(nameFile(draft, join(directory.path, "missing", "named"))).rejects.toThrow("ENOENT");
});
