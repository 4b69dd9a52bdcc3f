import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { list, value } from "../../src/contract/address.ts";
import { BACKGROUND_CONTEXT as context, withAbortSignal } from "../../src/contract/context.ts";
import { insertEntry, setValue } from "../../src/contract/write.ts";
import { tenantOf } from "../../src/postgres/tenant-id.ts";
import type { Tenants } from "../../src/postgres/tenants.ts";
import { openTestDatabase, type TestDatabase } from "../support/database.ts";

let at: TestDatabase;
let tenants: Tenants;

beforeAll(async () => {
  at = await openTestDatabase();
  tenants = at.owner.tenants;
});
afterAll(() => at[Symbol.asyncDispose]());

const note = (id: string, parentId: string | null = null, data: string = id) =>
  insertEntry({ id, parentId, type: "custom", customType: "note", data });

describe("administration", () => {
  test("a tenant has a slug for good, a name and settings", async () => {
    const created = await tenants.create({ slug: "acme", name: "Acme Inc.", settings: { plan: "pro" } });
    expect(created).toEqual({
      slug: "acme",
      tenantId: tenantOf("acme").tenantId,
      name: "Acme Inc.",
      settings: { plan: "pro" },
      createdAt: expect.any(Number),
      suspendedAt: undefined,
      isBeingDeleted: false,
      limits: {},
    });
    expect(await tenants.get("acme")).toEqual(created);
    expect((await tenants.rename("acme", "Acme Ltd.")).name).toBe("Acme Ltd.");
    expect((await tenants.rename("acme", undefined)).name).toBeUndefined();
    expect((await tenants.setSettings("acme", { plan: null })).settings).toEqual({ plan: null });
    await expect(tenants.create({ slug: "acme" })).rejects.toMatchObject({ code: "tenant_exists" });
  });

  test("settings are any JSON, also what jsonb refuses", async () => {
    const settings = { nul: "\0", half: "\ud800", nested: { "\0": [1, null] } };
    expect((await tenants.create({ slug: "odd settings", settings })).settings).toEqual(settings);
  });

  test("the id in the database follows from the slug", async () => {
    const slugs = ["default", "acme", "Ünïcode 🎉", "'; drop table tenants; --", "x".repeat(128)];
    for (const slug of slugs) {
      const { rows } = await at.admin.query(`select "${at.schema}".tenant_id($1) as id`, [slug]);
      expect(rows).toEqual([{ id: tenantOf(slug).tenantId }]);
    }
    await expect(
      at.admin.query(
        `insert into "${at.schema}".tenants (tenant_id, slug) values (gen_random_uuid(), 'acme')`,
      ),
    ).rejects.toThrow("tenants_id_of_slug");
  });

  test("tenants are listed by slug, in pages", async () => {
    const all = (await tenants.list()).map(({ slug }) => slug);
    expect(all).toEqual([...all].sort());
    expect(all).toContain("default");
    const first = await tenants.list({ limit: 2 });
    expect(first.map(({ slug }) => slug)).toEqual(all.slice(0, 2));
    const rest = await tenants.list({ after: first[1]?.slug as string });
    expect(rest.map(({ slug }) => slug)).toEqual(all.slice(2));
  });

  test("an application adds tenants, and administers none", async () => {
    const application = at.database.tenants;
    await application.create({ slug: "signed up", name: "New" });
    expect((await application.get("signed up")).name).toBe("New");
    expect((await application.rename("signed up", "Newer")).name).toBe("Newer");
    for (const refused of [
      () => application.list(),
      () => application.suspend("signed up"),
      () => application.setLimits("signed up", { sessions: 1 }),
      () => application.setSettings("signed up", {}),
      () => application.delete("signed up", { confirm: "signed up" }),
      () => application.create({ slug: "limited by itself", limits: { sessions: 1 } }),
    ]) {
      await expect(refused()).rejects.toMatchObject({ code: "database_permission" });
    }
    await expect(tenants.get("limited by itself")).rejects.toMatchObject({ code: "tenant_not_found" });
    expect(
      await application.create({ slug: "unlimited", limits: { sessions: undefined } as object }),
    ).toEqual(await application.get("unlimited"));
  });

  test("what there is not is not administered", async () => {
    for (const refused of [
      () => tenants.get("nobody"),
      () => tenants.rename("nobody", "x"),
      () => tenants.suspend("nobody"),
      () => tenants.resume("nobody"),
      () => tenants.setLimits("nobody", {}),
      () => tenants.setLimits("nobody", { sessions: 1 }),
      () => tenants.setSettings("nobody", {}),
      () => tenants.delete("nobody", { confirm: "nobody" }),
      () => at.database.repo("nobody"),
      () => at.database.withTenant("nobody", async () => {}),
    ]) {
      await expect(refused()).rejects.toMatchObject({ code: "tenant_not_found", tenant: "nobody" });
    }
  });

  test.each([
    ["an empty slug", { slug: "" }, "invalid_text"],
    ["a slug with NUL", { slug: "a\0" }, "invalid_text"],
    ["half a character", { slug: "\ud800" }, "invalid_text"],
    ["a long slug", { slug: "x".repeat(129) }, "invalid_text"],
    ["a name with NUL", { slug: "bad", name: "\0" }, "invalid_text"],
    ["settings that are a list", { slug: "bad", settings: [] }, "invalid_option"],
    ["a negative limit", { slug: "bad", limits: { sessions: -1 } }, "invalid_option"],
    ["half a session", { slug: "bad", limits: { sessions: 0.5 } }, "invalid_option"],
    ["an unknown limit", { slug: "bad", limits: { tokens: 1 } }, "invalid_option"],
  ])("%s is refused", async (_what, options, code) => {
    await expect(tenants.create(options as never)).rejects.toMatchObject({ code });
    await expect(tenants.get("bad")).rejects.toMatchObject({ code: "tenant_not_found" });
  });
});

describe("suspension", () => {
  test("a suspended tenant can be read and not written, by sessions that are open too", async () => {
    await tenants.create({ slug: "late payer" });
    const repo = await at.database.repo("late payer");
    const session = await repo.create({ id: "s" }, context);
    await session.setName("before", context);
    const closed = await repo.create({ id: "closed" }, context);
    await closed.close(context);

    const { suspendedAt } = await tenants.suspend("late payer");
    expect(suspendedAt).toEqual(expect.any(Number));
    expect((await tenants.suspend("late payer")).suspendedAt).toBe(suspendedAt);
    const writes = [
      () => session.setName("after", context),
      () => session.setValue(value("a", "b"), 1, context),
      () => session.appendList(list("l"), 1, context),
      () => session.createBranch("main", null, context),
      () => repo.create({}, context),
      () => repo.delete({ id: "closed" }, context),
      () => repo.fork({ id: "s" }, { scope: "tree" }, context),
      () =>
        repo.importer.import(
          { id: "imported", createdAt: 0 },
          () => ({ chunks: (async function* () {})(), finish: () => ({ nextSeq: 1, archive: ARCHIVE }) }),
          context,
        ),
    ];
    for (const write of writes) {
      await expect(write()).rejects.toMatchObject({ code: "tenant_suspended", tenant: "late payer" });
    }
    await expect(
      at.database.withTenant("late payer", (kysely) => kysely.deleteFrom("sessions").execute()),
    ).rejects.toThrow("read-only");
    expect(await session.getName(context)).toBe("before");
    expect(await repo.list(undefined, context)).toHaveLength(2);
    expect(await (await at.database.repo("late payer")).list(undefined, context)).toHaveLength(2);

    await tenants.resume("late payer");
    await session.setName("after", context);
    expect(await session.getName(context)).toBe("after");
    await repo.close(context);
  });
});

const ARCHIVE = { format: 4, sha256: "", bytes: 0 };

describe("limits", () => {
  test("sessions: one more than the limit is refused, and a deleted one makes room", async () => {
    await tenants.create({ slug: "few", limits: { sessions: 2 } });
    const repo = await at.database.repo("few");
    for (const id of ["a", "b"]) await (await repo.create({ id }, context)).close(context);
    const refused = { code: "tenant_limit", limit: "sessions", maximum: 2, tenant: "few" };
    await expect(repo.create({ id: "c" }, context)).rejects.toMatchObject(refused);
    await expect(repo.fork({ id: "a" }, { scope: "tree", id: "c" }, context)).rejects.toMatchObject(refused);
    await repo.delete({ id: "a" }, context);
    await (await repo.create({ id: "c" }, context)).close(context);
    await repo.delete({ id: "c" }, context);
    // Refused for another reason, it takes no place.
    await expect(repo.create({ id: "b" }, context)).rejects.toMatchObject({ code: "session_exists" });
    await (await repo.create({ id: "d" }, context)).close(context);
    expect((await repo.list(undefined, context)).map(({ id }) => id).sort()).toEqual(["b", "d"]);
    await tenants.setLimits("few", {});
    await (await repo.create({ id: "e" }, context)).close(context);
  });

  test("sessions: many creating at once never get beyond it", async () => {
    await tenants.create({ slug: "race", limits: { sessions: 5 } });
    const repo = await at.database.repo("race");
    const outcomes = await Promise.allSettled(
      Array.from({ length: 20 }, (_, n) => repo.create({ id: `s${n}` }, context)),
    );
    expect(outcomes.filter(({ status }) => status === "fulfilled")).toHaveLength(5);
    expect(await repo.list(undefined, context)).toHaveLength(5);
    await repo.close(context);
  });

  test("entry size: a payload of exactly the limit is stored, one byte more leaves nothing", async () => {
    await tenants.create({ slug: "small", limits: { entryBytes: 1000 } });
    const storage = await (await at.database.repo("small")).createStorage({}, context);
    const overhead = Buffer.byteLength(JSON.stringify({ data: "" }));
    await storage.commit([note("fits", null, "é".repeat((1000 - overhead) / 2))], context);
    await expect(
      storage.commit([setValue(value("x"), 1), note("over", null, "x".repeat(1001 - overhead))], context),
    ).rejects.toMatchObject({ code: "tenant_limit", limit: "entryBytes", maximum: 1000 });
    expect(await storage.getValue(value("x"), context)).toBeUndefined();
    expect([...(await storage.getEntries(["fits", "over"], context)).keys()]).toEqual(["fits"]);
    await storage.close(context);
  });

  test("stored bytes: sessions fill the limit to the last byte, and what is deleted makes room", async () => {
    await tenants.create({ slug: "full", limits: { storedBytes: 100_000 } });
    const repo = await at.database.repo("full");
    const storages = await Promise.all(["a", "b", "c"].map((id) => repo.createStorage({ id }, context)));
    let stored = 0;
    const refused: unknown[] = [];
    for (let n = 0; refused.length < 3; n++) {
      const storage = storages[n % 3] as (typeof storages)[number];
      const data = "x".repeat(1000);
      try {
        await storage.commit([note(`e${n}`, null, data)], context);
        stored += Buffer.byteLength(JSON.stringify({ data }));
      } catch (error) {
        refused.push(error);
      }
    }
    expect(refused).toMatchObject(
      Array(3).fill({ code: "tenant_limit", limit: "storedBytes", maximum: 100_000 }),
    );
    expect(stored).toBeGreaterThan(98_000);
    expect(stored).toBeLessThanOrEqual(100_000);
    expect(await storedBytes("full")).toEqual({ counted: stored, real: stored });

    const [first] = storages as [(typeof storages)[number]];
    await first.commit([setValue(value("v"), "x".repeat(98))], context).catch(() => {});
    await first.commit([setValue(value("v"), "y")], context);
    await first.close(context);
    await repo.delete({ id: "a" }, context);
    await storages[1]?.commit([note("again", null, "x".repeat(30_000))], context);
    const { counted, real } = await storedBytes("full");
    expect(counted).toBe(real);
    await repo.close(context);
  });

  test("stored bytes: writers in parallel never get beyond it", async () => {
    await tenants.create({ slug: "crowd", limits: { storedBytes: 50_000 } });
    const repo = await at.database.repo("crowd");
    const outcomes = await Promise.all(
      Array.from({ length: 8 }, async (_, writer) => {
        const storage = await repo.createStorage({ id: `w${writer}` }, context);
        const results = [];
        for (let n = 0; n < 12; n++) {
          results.push(
            await storage.commit([note(`e${n}`, null, "x".repeat(1000))], context).then(
              () => "stored",
              (error) => error.code,
            ),
          );
        }
        return results;
      }),
    );
    expect(new Set(outcomes.flat())).toEqual(new Set(["stored", "tenant_limit"]));
    const { counted, real } = await storedBytes("crowd");
    expect(real).toBeLessThanOrEqual(50_000);
    expect(real).toBeGreaterThan(48_000);
    expect(counted).toBe(real);
    await repo.close(context);
  });

  test("a limit that is set later counts what is there, also while others commit", async () => {
    await tenants.create({ slug: "grown" });
    const repo = await at.database.repo("grown");
    const storage = await repo.createStorage({}, context);
    await storage.commit([note("old", null, "x".repeat(10_000))], context);
    let stop = false;
    const busy = (async () => {
      const other = await repo.createStorage({}, context);
      for (let n = 0; !stop; n++) await other.commit([note(`e${n}`, null, "x".repeat(100))], context);
    })();
    for (let round = 1; round <= 10; round++) {
      await tenants.setLimits("grown", { storedBytes: 1_000_000_000 + round });
      await tenants.setLimits("grown", { sessions: 100, storedBytes: 1_000_000_000 + round });
    }
    stop = true;
    await busy;
    const { counted, real } = await storedBytes("grown");
    expect(counted).toBeGreaterThanOrEqual(real);
    await tenants.setLimits("grown", { storedBytes: 5_000 });
    await expect(storage.commit([note("new", null, "x")], context)).rejects.toMatchObject({
      code: "tenant_limit",
    });
    expect((await storedBytes("grown")).counted).toBe((await storedBytes("grown")).real);
    await repo.close(context);
  });

  test("tenants without limits, and other tenants, notice nothing", async () => {
    const repo = await at.database.repo("default");
    const storage = await repo.createStorage({}, context);
    await storage.commit([note("large", null, "x".repeat(2_000_000))], context);
    await storage.close(context);
    const { rows } = await at.admin.query(
      `select from "${at.schema}".tenant_storage where tenant_id = "${at.schema}".tenant_id('default')`,
    );
    expect(rows).toEqual([]);
  });
});

/** What is counted for a tenant, and what its rows really hold. */
async function storedBytes(slug: string): Promise<{ counted: number; real: number }> {
  const { rows } = await at.admin.query<{ counted: string; real: string }>(
    `with t as (select "${at.schema}".tenant_id($1) as id)
     select
       (select sum(stored_bytes) from "${at.schema}".sessions, t where tenant_id = id) as counted,
       (select coalesce(sum(octet_length(payload::text)), 0) from "${at.schema}".entries, t where tenant_id = id)
       + (select coalesce(sum(octet_length(value::text)), 0) from "${at.schema}".scalar_values, t where tenant_id = id)
       + (select coalesce(sum(octet_length(value::text)), 0) from "${at.schema}".list_values, t where tenant_id = id)
       + (select coalesce(sum(octet_length(usage::text) + coalesce(octet_length(details::text), 0)), 0)
          from "${at.schema}".usage_ledger, t where tenant_id = id) as real`,
    [slug],
  );
  return { counted: Number(rows[0]?.counted), real: Number(rows[0]?.real) };
}

describe("deletion", () => {
  async function fill(slug: string): Promise<void> {
    await tenants.create({ slug });
    const repo = await at.database.repo(slug);
    for (const id of ["a", "b", "c"]) {
      const storage = await repo.createStorage({ id }, context);
      await storage.commit(
        [...Array.from({ length: 5 }, (_, n) => note(`e${n}`)), setValue(value("v"), 1)],
        context,
      );
      await storage.close(context);
    }
  }

  test("it takes the slug again, and says what it removed", async () => {
    await fill("leaving");
    await expect(tenants.delete("leaving", { confirm: "Leaving" })).rejects.toMatchObject({
      code: "invalid_option",
    });
    expect((await tenants.get("leaving")).isBeingDeleted).toBe(false);
    const progress: unknown[] = [];
    const removed = await tenants.delete("leaving", {
      confirm: "leaving",
      onProgress: (soFar) => progress.push(soFar),
    });
    expect(removed).toEqual({ sessions: 3, entries: 15, usageRows: 0, values: 3, listElements: 0 });
    expect(progress.at(-1)).toEqual(removed);
    await expect(tenants.get("leaving")).rejects.toMatchObject({ code: "tenant_not_found" });
    await fill("leaving");
    expect(await (await at.database.repo("leaving")).list(undefined, context)).toHaveLength(3);
  });

  test("interrupted, it closes the tenant to everybody and goes on when it is called again", async () => {
    await fill("halfway");
    const open = await (await at.database.repo("halfway")).open({ id: "a" }, context);
    const controller = new AbortController();
    const interrupted = tenants.delete("halfway", {
      confirm: "halfway",
      context: withAbortSignal(controller.signal, context),
      onProgress: () => controller.abort(new Error("stop here")),
    });
    await expect(interrupted).rejects.toThrow("stop here");
    expect(await tenants.get("halfway")).toMatchObject({ isBeingDeleted: true });
    await expect(at.database.repo("halfway")).rejects.toMatchObject({ code: "tenant_being_deleted" });
    await expect(tenants.resume("halfway")).rejects.toMatchObject({ code: "tenant_being_deleted" });
    await expect(tenants.create({ slug: "halfway" })).rejects.toMatchObject({ code: "tenant_exists" });
    await expect(open.setName("x", context)).rejects.toMatchObject({ code: "tenant_being_deleted" });
    await expect(at.database.repo("halfway")).rejects.toMatchObject({ code: "tenant_being_deleted" });
    expect(await tenants.delete("halfway", { confirm: "halfway" })).toMatchObject({ sessions: 3 });
    await expect(open.setName("x", context)).rejects.toMatchObject({ code: "session_not_found" });
    await open.close(context);
  });

  test("other tenants keep committing, and lose nothing", async () => {
    await fill("goes");
    const repo = await at.database.repo("default");
    const storage = await repo.createStorage({}, context);
    let stop = false;
    let committed = 0;
    const busy = (async () => {
      for (; !stop; committed++) await storage.commit([note(`n${committed}`)], context);
    })();
    await tenants.delete("goes", { confirm: "goes" });
    stop = true;
    await busy;
    expect(await storage.scanEntries({}, context)).toHaveLength(committed);
    await storage.close(context);
  });
});
